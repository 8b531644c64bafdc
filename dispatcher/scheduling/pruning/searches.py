"""Which pods are decided by a pruned search: those whose classes are not cached (yet), where all plugins allow it."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.bounds import BoundedScore, RoomFilter
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.framework.roles import AnswerScope, Role
from dispatcher.scheduling.pruning.low_capacity import LowCapacityIndex
from dispatcher.scheduling.pruning.pruned_search import PrunedSearch, SearchSetup
from dispatcher.scheduling.pruning.upper_bounds import UpperBounds

LARGE = 1 << 14  # rows
_MOST_SKIPPED = 4096
_MOST_TABLES = 4
_MOST_MET, _WORTH_CACHING = 4096, 4


@dataclass(slots=True)
class _Skipped:
    """Plugins that have nothing to say about pods alike to them. `volatile`: those who may change their minds."""

    at: int
    volatile: list[PluginEvaluator]

    def holds(self, fleet: FleetState) -> bool:
        """Whether they still have nothing to say."""
        same = self.at == fleet.changes.position
        return same and not any(one.is_stale(changed=False, touched=True) for one in self.volatile)


class PrunedSearches:
    """Makes the searches for pods of one plan whose classes are not worth caching (yet).

    A class that is met for the fourth time is. That plugins are skipped is cached for all pods alike to them. `large`:
    from so many rows on few are looked at; below, that costs more than asking all.
    """

    def __init__(self, plan: Plan, fleet: FleetState, classes: EquivalenceCache, large: int = LARGE) -> None:
        roles = classes.roles
        self._large, self._classes = large, classes
        self._profile, self._fleet = plan.profile, fleet
        self._met: OrderedDict[ClassKey, int] = OrderedDict()
        by_class = [role for role in roles if role.scope is not AnswerScope.SHARED]
        self._able = all(role.score_at is None or role.weight >= 0.0 for role in roles)
        self._bounded = [
            PluginEvaluator(role, self._fleet) for role in by_class if _bounded(role)
        ]  # asked anew for each pod
        self._others = [role for role in by_class if not _bounded(role)]
        self._room = LowCapacityIndex(fleet)
        self._skipped: dict[tuple[Hashable, ...], _Skipped] = {}
        self._bounds: dict[tuple[Role, ...], UpperBounds] = {}

    def search_for(self, key: ClassKey, placed: Placed) -> PrunedSearch | None:
        """The search for a pod of the class of a key; None if its class has to decide, or to say which plugin fails."""
        if key in self._classes or self._is_worth_caching(key):
            return None
        try:
            return self._made(key, placed)
        except PluginError:
            return None

    def _is_worth_caching(self, key: ClassKey) -> bool:
        met = self._met.pop(key, 0) + 1
        if met >= _WORTH_CACHING:
            return True
        self._met[key] = met
        if len(self._met) > _MOST_MET:
            self._met.popitem(last=False)
        return False

    def _made(self, key: ClassKey, placed: Placed) -> PrunedSearch | None:
        static = self._classes.static_answers.part(key)
        if (
            not self._fleet.n
            or not self._able
            or (not static.current and static.refresh(placed) is not None)
            or not static.uniform
        ):
            return None
        if not self._are_skipped(key, placed):
            return None
        evaluators: list[PluginEvaluator] = []
        for evaluator in self._bounded:
            if evaluator.pre_filter(placed) is not None:
                return None
            if not evaluator.skipped:
                evaluators.append(evaluator)
        setup = self._setup(static, tuple([evaluator.role for evaluator in evaluators]))
        if setup is None or (setup.bounds is not None and not setup.bounds.refresh()):
            return None
        self._room.refresh()
        return PrunedSearch(self._fleet, setup, evaluators, self._room)

    def _are_skipped(self, key: ClassKey, placed: Placed) -> bool:
        """Whether all those that would have to be asked about every row have nothing to say."""
        fleet, name = self._fleet, tuple([key[role.key_at] for role in self._others])
        known = self._skipped.get(name)
        if known is not None and known.holds(fleet):
            return True
        volatile: list[PluginEvaluator] = []
        for role in self._others:
            evaluator = PluginEvaluator(role, self._fleet)
            if evaluator.pre_filter(placed) is not None or not evaluator.skipped:
                return False
            evaluator.record_dependencies()
            seen = evaluator.observed
            if seen.now or seen.counts or seen.kinds or evaluator.is_stale(changed=False, touched=True):
                volatile.append(evaluator)
        if len(self._skipped) >= _MOST_SKIPPED:
            self._skipped.clear()
        self._skipped[name] = _Skipped(fleet.changes.position, volatile)
        return True

    def _setup(self, static: StaticAnswers, roles: tuple[Role, ...]) -> SearchSetup | None:
        large = self._fleet.n >= self._large
        known = static.search_setups.get((roles, large))
        if isinstance(known, SearchSetup) and known.current:
            return known
        by_row = tuple(role for role in roles if role.score_at is not None)
        if not by_row:
            return None
        made = SearchSetup(self._profile, static, roles, self._bounds_of(by_row) if large else None)
        static.search_setups[roles, large] = made
        return made

    def _bounds_of(self, roles: tuple[Role, ...]) -> UpperBounds:
        found = self._bounds.get(roles)
        if found is None:
            if len(self._bounds) >= _MOST_TABLES:
                self._bounds.clear()
            found = self._bounds[roles] = UpperBounds(roles, self._fleet)
        return found


def _bounded(role: Role) -> bool:
    if role.scope is not AnswerScope.ROW:
        return False
    scores, filters = role.score_at is not None, role.filter_at is not None
    return (not scores or isinstance(role.plugin, BoundedScore)) and (
        not filters or isinstance(role.plugin, RoomFilter)
    )
