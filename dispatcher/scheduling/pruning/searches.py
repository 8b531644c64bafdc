"""Which pods are decided by a pruned search: those whose classes are not cached (yet), where all
plugins allow it.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.bounds import BoundedScore, RoomFilter
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole
from dispatcher.scheduling.pruning.counted_terms import CountedTerms
from dispatcher.scheduling.pruning.domain_terms import ClusterAnswers
from dispatcher.scheduling.pruning.fitting_rows import FittingRows
from dispatcher.scheduling.pruning.low_capacity import LowCapacityIndex
from dispatcher.scheduling.pruning.pruned_search import PrunedSearch, SearchSetup
from dispatcher.scheduling.pruning.upper_bounds import UpperBounds

LARGE = 1 << 14  # rows
_MOST_KEPT = 4096  # kinds of pods of which the evaluators are kept, if all of these skip them
# if some are active: so many kinds at least, else of so many rows together
_LEAST_ACTIVE = 16
_ROWS_ACTIVE = 1 << 21
_MOST_TABLES = 4  # of upper bounds, one for each set of plugins that are bounded
# classes of which it is counted how often they are met; so often is worth it
_MOST_MET = 4096
_WORTH_CACHING = 4


@dataclass(slots=True)
class _Asked:
    """Plugins that cannot be bounded, asked for pods alike to them: those that have something to
    say, or may have while no node changes.
    """

    at: int
    evaluators: list[PluginEvaluator]


def _may_be_active(one: PluginEvaluator) -> bool:
    seen = one.observed
    changes = seen.now or seen.counts or seen.kinds or one.is_stale(changed=False, touched=True)
    return not one.skipped or bool(changes)


class PrunedSearches:
    """Makes the searches for pods of one plan whose classes are not worth caching (yet).

    A class that is met for the fourth time is. That plugins are skipped is cached for all pods
    alike to them. `large`: from so many rows on few are looked at; below, that costs more than
    asking all.
    """

    def __init__(
        self, plan: Plan, fleet: FleetState, classes: EquivalenceCache, large: int = LARGE
    ) -> None:
        roles = classes.roles
        self._large = large
        self._classes = classes
        self._profile = plan.profile
        self._fleet = fleet
        self._met: OrderedDict[ClassKey, int] = OrderedDict()
        by_class = [role for role in roles if role.scope is not AnswerScope.NODE_OBJECT]
        self._able = all(role.score_at is None or role.weight >= 0.0 for role in roles)
        self._bounded = [
            PluginEvaluator(role, self._fleet) for role in by_class if _bounded(role)
        ]  # asked anew for each pod
        self._others = [role for role in by_class if not _bounded(role)]
        self._by_cluster = [role for role in roles if role.by_cluster]
        self._known: dict[tuple[PluginRole, Hashable], PluginEvaluator] = {}  # of those
        self._no_answers: ClusterAnswers | None = None
        self._room = LowCapacityIndex(fleet)
        self._all_skipped: OrderedDict[tuple[Hashable, ...], _Asked] = OrderedDict()
        self._some_active: OrderedDict[tuple[Hashable, ...], _Asked] = OrderedDict()
        self._bounds: dict[tuple[PluginRole, ...], UpperBounds] = {}
        self._fitting = FittingRows(fleet, classes.static_answers.partitions)
        self._counted = CountedTerms(self._fitting)
        self._last: tuple[ClassKey, PrunedSearch] | None = None
        self._by_host: OrderedDict[ClassKey, bool] = OrderedDict()

    def search_for(self, key: ClassKey, pod_info: PodInfo) -> PrunedSearch | None:
        """The search for a pod of the class of a key; None if its class has to decide, or to say
        which plugin fails.
        """
        last = self._last
        self._last = None
        if last is not None and last[1].by_host:
            self._note(last[0])
        if self._by_host.pop(key, False) or not (
            key in self._classes or self._is_worth_caching(key)
        ):
            try:
                found = self._made(key, pod_info)
            except PluginError:
                return None
            if found is not None:
                self._last = key, found
                self._classes.counts.searches += 1
            return found
        return None

    def _note(self, key: ClassKey) -> None:
        """In a large fleet, what a class would keep is stale with each of its pods that is spread
        over hosts.
        """
        if self._fleet.n >= self._large:
            self._by_host[key] = True
            if len(self._by_host) > _MOST_MET:
                self._by_host.popitem(last=False)

    def _is_worth_caching(self, key: ClassKey) -> bool:
        met = self._met.pop(key, 0) + 1
        if met >= _WORTH_CACHING:
            return True
        self._met[key] = met
        if len(self._met) > _MOST_MET:
            self._met.popitem(last=False)
        return False

    def _made(self, key: ClassKey, pod_info: PodInfo) -> PrunedSearch | None:
        large = self._fleet.n >= self._large
        static = self._classes.static_answers.part(key, by_node=large)
        if (
            not self._fleet.n
            or not self._able
            or (not static.current and static.refresh(pod_info) is not None)
            or not static.uniform
        ):
            return None
        by_domain = self._by_domain(key, pod_info)
        clusters = self._of_clusters(key, pod_info, self._by_cluster if large else ())
        if (
            by_domain is None
            or clusters is None
            or (clusters.closes and not self._clusters_first(static))
        ):
            return None
        evaluators: list[PluginEvaluator] = []
        for evaluator in self._bounded:
            if evaluator.pre_filter(pod_info) is not None:
                return None
            if not evaluator.skipped:
                evaluators.append(evaluator)
        setup = self._setup(
            static,
            tuple([evaluator.role for evaluator in evaluators]),
            tuple([evaluator.role for evaluator in (*clusters.evaluators, *by_domain)]),
        )
        if setup is None or (setup.bounds is not None and not setup.bounds.refresh()):
            return None
        self._room.refresh()
        return PrunedSearch(
            setup, evaluators, self._room, self._fitting, self._counted, (clusters, by_domain)
        )

    def _clusters_first(self, static: StaticAnswers) -> bool:
        """Whether those that go by cluster refuse before all others do, so that theirs are the
        reasons.
        """
        last = max(
            [role.key_at for role in self._by_cluster if role.filter_at is not None], default=-1
        )
        filters = [one.role.key_at for one in static.active if one.role.filter_at is not None]
        filters += [one.role.key_at for one in self._bounded if one.role.filter_at is not None]
        return last < min(filters, default=last + 1)

    def _of_clusters(
        self, key: ClassKey, pod_info: PodInfo, roles: Sequence[PluginRole]
    ) -> ClusterAnswers | None:
        """What `roles` say, which rest on clusters alone; None if one of these refuses the pod."""
        if not roles:
            if self._no_answers is None or len(self._no_answers.closed) != len(
                self._fleet.clusters
            ):
                self._no_answers = ClusterAnswers.ask(self._fitting, ())
            return self._no_answers
        active = []
        for role in roles:
            name = role, key[role.key_at]
            evaluator = self._known.get(name)
            if evaluator is None:
                if len(self._known) >= _MOST_MET:
                    self._known.clear()
                evaluator = self._known[name] = PluginEvaluator(role, self._fleet)
            changed = evaluator.nodes_at != self._fleet.changes.position
            if changed or evaluator.is_stale(changed=changed, touched=False):
                if evaluator.pre_filter(pod_info) is not None:
                    evaluator.known = False
                    return None
                evaluator.record_dependencies()
            if not evaluator.skipped:
                active.append(evaluator)
        return ClusterAnswers.ask(self._fitting, active)

    def _by_domain(self, key: ClassKey, pod_info: PodInfo) -> list[PluginEvaluator] | None:
        """Of those that cannot be bounded, who has something to say: policies by domains; None if
        others have, too.
        """
        name = tuple([key[role.key_at] for role in self._others])
        position = self._fleet.changes.position
        known = self._some_active.pop(name, None) or self._all_skipped.pop(
            name, None
        )  # kept again unless one fails
        if known is None or known.at != position:
            known = _Asked(position, [PluginEvaluator(role, self._fleet) for role in self._others])
        asked = [one for one in known.evaluators if one.is_stale(changed=False, touched=True)]
        for one in asked:
            if one.pre_filter(pod_info) is not None:
                return None
            one.record_dependencies()
        if len(asked) == len(self._others):
            known.evaluators = [one for one in asked if _may_be_active(one)]
        active = [one for one in known.evaluators if not one.skipped]
        self._keep(name, known, active=bool(active))
        return None if any(one.role.scope is not AnswerScope.DOMAIN for one in active) else active

    def _keep(self, name: tuple[Hashable, ...], asked: _Asked, *, active: bool) -> None:
        """Keep fewer kinds with an active plugin: what one has answered may hold a few bytes a row."""
        kept = self._some_active if active else self._all_skipped
        kept[name] = asked
        most = (
            min(_MOST_KEPT, max(_LEAST_ACTIVE, _ROWS_ACTIVE // self._fleet.n))
            if active
            else _MOST_KEPT
        )
        if len(kept) > most:
            kept.popitem(last=False)

    def _setup(
        self,
        static: StaticAnswers,
        roles: tuple[PluginRole, ...],
        by_domain: tuple[PluginRole, ...],
    ) -> SearchSetup | None:
        large = self._fleet.n >= self._large
        known = static.search_setups.get((roles, by_domain, large))
        if isinstance(known, SearchSetup) and known.current:
            return known
        by_row = tuple(role for role in roles if role.score_at is not None)
        if not by_row:
            return None
        made = SearchSetup(
            self._profile, static, roles, by_domain, self._bounds_of(by_row) if large else None
        )
        static.search_setups[roles, by_domain, large] = made
        return made

    def _bounds_of(self, roles: tuple[PluginRole, ...]) -> UpperBounds:
        found = self._bounds.get(roles)
        if found is None:
            if len(self._bounds) >= _MOST_TABLES:
                self._bounds.clear()
            found = self._bounds[roles] = UpperBounds(roles, self._fleet)
        return found


def _bounded(role: PluginRole) -> bool:
    if role.scope is not AnswerScope.ROW:
        return False
    scores = role.score_at is not None
    filters = role.filter_at is not None
    return (not scores or isinstance(role.plugin, BoundedScore)) and (
        not filters or isinstance(role.plugin, RoomFilter)
    )
