"""Which pods are decided by one pass: those of classes that are not kept (yet), or whose kept
answers would be stale with each of their pods.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo, RoomFilter
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.domain_counts import CountRules
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole, parts_of
from dispatcher.scheduling.placing.low_capacity import LowCapacityIndex
from dispatcher.scheduling.placing.one_pass import (
    ClusterAnswers,
    Lineup,
    OnePass,
    is_compiled,
)
from dispatcher.scheduling.placing.rule_groups import (
    RuleGroups,
    name_of,
    rule_groups,
)
from shared.messages.pod_cache import PodCache

_MOST_KEPT = 4096  # kinds of pods of which the evaluators are kept, if all of these skip them
# if some are active: so many kinds at least, else of so many rows together
_LEAST_ACTIVE = 16
_ROWS_ACTIVE = 1 << 21
# groups of so many rules are kept, and of these as many as fit
_MOST_GROUPS = 64
_GROUP_BYTES = 2**27
# classes of which it is counted how often they are met; so often is worth keeping
_MOST_MET = 4096
_WORTH_KEEPING = 4
_BY_HOST = -1  # met how often, of one whose pods are spread over hosts


_Name = tuple[Hashable, ...]  # keys of some plugins


@dataclass(slots=True)
class _Asked:
    """Plugins asked for pods that are alike to them: those that have something to say, or may have
    while no node changes.
    """

    at: int
    evaluators: list[PluginEvaluator]
    said: int = 0  # by the pod that says most


def _may_be_active(one: PluginEvaluator) -> bool:
    seen = one.observed
    changes = seen.now or seen.counts or seen.kinds or one.is_stale(changed=False, touched=True)
    return not one.skipped or bool(changes)


class OnePasses:
    """Makes the passes of one plan.

    Plugins by row that score, or look for room, are asked anew for each pod: they go by what it
    requests. What all others answer is kept for pods alike to them.
    """

    def __init__(self, plan: Plan, fleet: FleetState, classes: EquivalenceCache) -> None:
        self._classes = classes
        self._profile = plan.profile
        self._fleet = fleet
        self._met: PodCache[ClassKey, int] = PodCache(_MOST_MET)
        others = [role for role in classes.roles if role.scope is not AnswerScope.NODE_OBJECT]
        self._requesting = [PluginEvaluator(role, fleet) for role in others if _by_requests(role)]
        self._others = [role for role in others if not _by_requests(role)]
        self._by_cluster = [role for role in classes.roles if role.by_cluster]
        self._others_name = parts_of(self._others)
        self._clusters_name = parts_of(self._by_cluster)
        self._clusters: PodCache[_Name, tuple[int, ClusterAnswers]] = PodCache(_MOST_MET)
        self._all_skipped: PodCache[_Name, _Asked] = PodCache(_MOST_KEPT)
        self._some_active: PodCache[_Name, _Asked] = PodCache(_MOST_KEPT)
        self._groups: PodCache[Hashable, RuleGroups] = PodCache(_MOST_GROUPS, _GROUP_BYTES)
        self._groups_at = -1
        self._lineups: PodCache[tuple[int, ...], Lineup] = PodCache(_MOST_GROUPS)
        self._room = LowCapacityIndex(fleet)

    def pass_for(self, key: ClassKey, pod_info: PodInfo) -> OnePass | None:
        """The pass for a pod of the class of a key; None if its class has to decide, or to say
        which plugin fails.
        """
        met = self._met.pop(key) or 0
        if met != _BY_HOST and (met + 1 >= _WORTH_KEEPING or key in self._classes):
            return None
        try:
            return self._made(key, pod_info, met)
        except PluginError:
            return None

    def _found_place(self, key: ClassKey, met: int) -> None:
        self._classes.counts.passes += 1
        self._met.put(key, met, key.said)

    def _made(self, key: ClassKey, pod_info: PodInfo, met: int) -> OnePass | None:
        static = self._classes.static_answers.part(key, by_node=True)
        if (
            not self._fleet.n
            or not is_compiled()
            or (not static.current and static.refresh(pod_info) is not None)
            or not static.leads
        ):
            return None
        others = self._of_others(key, pod_info)
        clusters = self._of_clusters(key, pod_info)
        if others is None or clusters is None:
            return None
        if clusters.closes and not self._clusters_first(static):
            return None
        if AnswerScope.FLEET in [one.role.scope for one in others]:
            return None
        requesting = self._of_requests(key, pod_info)
        if requesting is None:
            return None
        lineup = self._lineup(static, clusters, [*others, *requesting], key.said)
        groups = self._groups_of(lineup)
        if groups is None or not lineup.scorers:
            return None
        self._room.refresh()
        # what its class would keep is stale with each pod that is spread over hosts
        found_place = partial(self._found_place, key, _BY_HOST if groups.on_hosts else met + 1)
        return OnePass(self._fleet, lineup, self._room, groups, found_place)

    def _lineup(
        self,
        static: StaticAnswers,
        clusters: ClusterAnswers,
        beside: list[PluginEvaluator],
        size: int,
    ) -> Lineup:
        """Kept for the next pods that the very same answers are about, until a node changes.
        `size`: bytes of what one of them says.
        """
        now = static.version, self._fleet.changes.position
        name = (id(static), id(clusters), *map(id, beside))
        known = self._lineups.get(name, size)
        if known is not None and known.made_of == now:  # it holds what the name is of
            return known
        made = Lineup(self._profile, self._fleet, static, clusters, beside)
        self._lineups.most = self._at_most(_MOST_GROUPS)
        self._lineups.put(name, made, size)
        return made

    def _at_most(self, most: int) -> int:
        """How many are kept of what holds a few bytes a row."""
        return min(most, max(_LEAST_ACTIVE, _ROWS_ACTIVE // self._fleet.n))

    def _clusters_first(self, static: StaticAnswers) -> bool:
        """Whether those that go by cluster refuse before all others do, so that theirs are the
        reasons.
        """
        last = max(
            [role.key_at for role in self._by_cluster if role.filter_at is not None], default=-1
        )
        filters = [one.role.key_at for one in static.active if one.role.filter_at is not None]
        filters += [role.key_at for role in self._others if role.filter_at is not None]
        filters += [one.role.key_at for one in self._requesting if one.role.filter_at is not None]
        return last < min(filters, default=last + 1)

    def _of_clusters(self, key: ClassKey, pod_info: PodInfo) -> ClusterAnswers | None:
        """What those say that rest on clusters alone; None if one of these refuses the pod."""
        name = self._clusters_name(key)
        position = self._fleet.changes.position
        found = self._clusters.get(name, key.said)
        if (
            found is None
            or found[0] != position
            or any(one.is_stale(changed=False, touched=False) for one in found[1].moving)
        ):
            evaluators = self._evaluators(self._by_cluster, key)
            for one in evaluators:
                if one.pre_filter(pod_info) is not None:
                    self._clusters.pop(name)
                    return None
            found = position, ClusterAnswers.ask(self._fleet, evaluators)
            self._clusters.put(name, found, key.said)
        return found[1]

    def _evaluators(self, roles: Sequence[PluginRole], key: ClassKey) -> list[PluginEvaluator]:
        asked = key.asked.at
        return [PluginEvaluator(role, self._fleet) for role in roles if role.key_at in asked]

    def _of_others(self, key: ClassKey, pod_info: PodInfo) -> list[PluginEvaluator] | None:
        """Of those whose answers are kept, who has something to say; None if one of them refuses
        the pod.
        """
        name = self._others_name(key)
        position = self._fleet.changes.position
        # kept again unless one fails
        known = self._some_active.pop(name) or self._all_skipped.pop(name)
        fresh = known is None or known.at != position
        if known is None or fresh:
            known = _Asked(position, self._evaluators(self._others, key))
        asked = [one for one in known.evaluators if one.is_stale(changed=False, touched=True)]
        for one in asked:
            if one.pre_filter(pod_info) is not None:
                return None
            one.record_dependencies()
        if fresh:
            known.evaluators = [one for one in asked if _may_be_active(one)]
        active = [one for one in known.evaluators if not one.skipped]
        # What has been answered may hold a few bytes a row.
        kept = self._some_active if active else self._all_skipped
        if active:
            kept.most = self._at_most(_MOST_KEPT)
        known.said = max(known.said, key.said)
        kept.put(name, known, known.said)
        return active

    def _of_requests(self, key: ClassKey, pod_info: PodInfo) -> list[PluginEvaluator] | None:
        """The same of those that are asked anew."""
        active = list[PluginEvaluator]()
        for one in self._requesting:
            if one.role.key_at not in key.asked.at:
                continue
            one.observed.counts.clear()  # of other pods: nobody asks for these any more
            if one.pre_filter(pod_info) is not None:
                return None
            if not one.skipped:
                active.append(one)
        return active

    def _groups_of(self, lineup: Lineup) -> RuleGroups | None:
        """Kept by the rules' ids while these live in what is kept, until a node changes."""
        if self._groups_at != self._fleet.changes.position:
            self._groups.clear()
            self._groups_at = self._fleet.changes.position
        rules = list[CountRules]()
        for one in lineup.policies:
            told = one.count_rules()
            if told is None:
                return None
            rules.append(told)
        name = name_of(lineup.policies, rules, lineup.columns)
        found = self._groups.get(name)
        if found is None:
            partitions = self._classes.static_answers.partitions
            found = rule_groups(self._fleet, partitions, lineup.policies, rules, lineup.columns)
        if found is not None:
            self._groups.most = self._at_most(_MOST_GROUPS)
            # put again: it may have come to tell more numbers apart
            self._groups.put(name, found, found.nbytes)
        return found


def _by_requests(role: PluginRole) -> bool:
    filters = role.filter_at is not None and not isinstance(role.plugin, RoomFilter)
    return role.scope is AnswerScope.ROW and (role.score_at is not None or not filters)
