"""Pods of one app stay spread over fault domains (provider, region, zone, rack, cluster, host, any
node label).

Counts are of matching pods of the namespace in the whole fleet, running and assumed, each once; of
pods on nodes that have all keys of the pod's hard (or soft) constraints, are in clusters that it
may enter (`entry`), satisfy its selector and affinity (unless nodeAffinityPolicy is Ignore) and,
with nodeTaintsPolicy Honor, have no taint that it does not tolerate. Hard: the pod may go to domain
d if  count(d) + own - min <= max_skew;  own is 1 if the pod matches its own selector.
    min is the least count over the domains of such nodes, Ready or not, so the skew holds through a
    lost zone; it is 0 while there are fewer of them than `min_domains`. Of a pod whose group is tried
    in one domain, they are nodes of that domain alone.
Soft: cost = sum of count(d) * ln(domains + 2) + max_skew - 1, rounded; score = 100 * (largest +
least - cost) / largest
    cost, rounded down; `domains` of feasible nodes alone. 0 where a node lacks a key. Unit: pods.
A pod without constraints gets the profile's `defaults`, if it has labels to tell its app by; or,
with `defaulting` System, kube-scheduler's (hosts by 3, zones by 5, both soft) over the pods that
the pod's Services and its ReplicaSet, StatefulSet or ReplicationController mean, if any does. With
`defaulting` App, a pod whose app has other pods gets clusters and zones by 50 and hosts by 20, all
soft; nodes without a zone count as in one without pods. Source: kube-scheduler's PodTopologySpread;
App is ours.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    CountedPlugin,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.group_domain import bounds_of, rows_in
from dispatcher.scheduling.framework.lifecycle import RowList
from dispatcher.scheduling.framework.plugin_args import Args, read_by
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.framework.value_columns import Column, fields
from dispatcher.scheduling.rules.eligibility import (
    LabelMasks,
    TaintMasks,
    Tolerance,
    clusters_key,
    selection_key,
    tolerations_key,
    topology_key,
)
from dispatcher.scheduling.rules.entry import open_clusters
from dispatcher.scheduling.rules.spread import (
    ConstraintCounts,
    ConstraintDomains,
    KnownDomains,
    spread_key,
)
from dispatcher.scheduling.rules.spread_args import (
    APP,
    APP_DEFAULTS,
    LIST,
    SYSTEM,
    WrittenConstraint,
    constraints,
    system_defaults,
)
from shared.messages.pod_cache import PodCache
from shared.model.pod import Pod, SpreadConstraint
from shared.model.reasons import Reasons
from shared.model.topology import CLUSTER_LEVEL

_LACKS_KEY = -1e12  # raw score of a node without a soft key: below any cost
_HEARD = 1.0  # taken from every raw score, so that 0 is that of pods without soft constraints


@dataclass(frozen=True)
class _State:
    """What a pod class is judged on: constraints as things stand.

    `strict`: nodes that lack a soft key get nothing; else they are judged by the keys they have,
    and `as_empty` says that a key they lack counts as a domain without pods. `codes`: of each hard
    constraint why full domains are refused, and nodes without one.
    """

    pod: Pod
    hard: tuple[ConstraintCounts, ...]
    soft: tuple[ConstraintCounts, ...]
    codes: tuple[tuple[int, int], ...]
    strict: bool
    as_empty: bool = False

    def _elsewhere(self, constraint: SpreadConstraint) -> float:
        """The raw score of a soft constraint where its key is lacking."""
        if self.strict:
            return _LACKS_KEY
        return -float(constraint.max_skew - 1) if self.as_empty else 0.0

    @cached_property
    def rules(self) -> CountRules:
        """All of it: one object as long as the state is this one, since its counts are windows on
        those of the fleet.
        """
        limits = [one.max_count(*codes) for one, codes in zip(self.hard, self.codes, strict=True)]
        if not self.soft:
            return CountRules(limits)
        score_terms = [
            ScoreTerm(
                one.domain_count,
                -1.0,
                -float(one.area.constraint.max_skew - 1),
                self._elsewhere(one.area.constraint),
            )
            for one in self.soft
        ]
        return CountRules(
            limits,
            score_terms=score_terms,
            base=-_HEARD,
            sized=True,
            needs_all_domains=self.strict,
            void=_LACKS_KEY / 2,
            scale=Scale.COST,
        )


class SpreadArgs(Args):
    """Constraints for pods without any."""

    defaults: Annotated[
        tuple[SpreadConstraint, ...],
        Meta(
            description="constraints {key, max_skew, hard} for pods that have none of their own",
            extra=read_by(constraints, list[WrittenConstraint]),
        ),
    ] = ()
    defaulting: Annotated[
        Literal["List", "System", "App"],
        Meta(
            description=f"{LIST}: `defaults`; {SYSTEM}: kube-scheduler's; {APP}: softly over "
            "clusters, zones and hosts"
        ),
    ] = LIST


class FaultDomainSpread(CountedPlugin[_State]):
    """Filter on hard constraints, score on soft ones."""

    name: ClassVar[str] = "FaultDomainSpread"
    REASONS = (
        Reasons.SPREAD,
        Reasons.SPREAD_LABEL,
    )
    keyed_by_template = True
    reads: tuple[str, ...] = ("spread", "labels")
    scale = Scale.COST
    base = -_HEARD
    void = _LACKS_KEY / 2

    def __init__(self, defaults: tuple[SpreadConstraint, ...], defaulting: str = LIST) -> None:
        if defaults and defaulting != LIST:
            raise ValueError(
                f"defaults (defaultConstraints) need defaulting (defaultingType) {LIST}"
            )
        self._defaults = APP_DEFAULTS if defaulting == APP else defaults
        self._defaulting = defaulting
        self._system = defaulting == SYSTEM
        if self._system:
            self.reads = ()  # Services and owners say what is counted
        elif not self._defaults:
            self.reads = ("spread",)
        self._by_app = bool(self._defaults) and all(one.selector is None for one in self._defaults)
        self.spreads_all = any(rule.hard for rule in self._defaults)
        self._masks = LabelMasks()
        self._taints = TaintMasks()
        self._known = KnownDomains()
        self._cluster_filters: Sequence[Filter] = ()
        self._moving_filters: Sequence[Filter] = ()  # those of them that have a fleet key
        # which clusters are open, by what is asked of them
        self._entries: PodCache[Hashable, Any] = PodCache()

    def heed(self, cluster_filters: Sequence[Filter]) -> None:
        """Domains of clusters that these keep the pod out of are not eligible."""
        self._cluster_filters = cluster_filters
        self._moving_filters = [
            one for one in cluster_filters if type(one).fleet_key is not Filter.fleet_key
        ]

    def _rules(self, pod_info: PodInfo, fleet: FleetView) -> tuple[SpreadConstraint, ...]:
        if pod_info.pod.spread or not self._system:
            return self._own_rules(pod_info.pod)
        return system_defaults(fleet.affinity.default_selector(pod_info))

    def _own_rules(self, pod: Pod) -> tuple[SpreadConstraint, ...]:
        """Those that rest on the pod alone."""
        if pod.spread or self._system:
            return pod.spread
        return self._defaults if self._defaults and pod.app_labels else ()

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The constraints with what they count, and what makes domains eligible; None without
        constraints.
        """
        key = self._own_key(pod_info)
        return (
            None
            if key is None
            else (key, *[one.class_key(pod_info) for one in self._cluster_filters])
        )

    def _own_key(self, pod_info: PodInfo) -> Hashable:
        """The same, but for which clusters it may enter."""
        pod = pod_info.pod
        if pod.spread or not self._by_app:
            return _key(pod_info, self._own_rules(pod))
        app = frozenset(
            pod.app_labels.items()
        )  # defaults look at nothing else of a pod that tells what they count
        return (pod.namespace, app, *_key_of_ground(pod_info, self._defaults)) if app else None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """System defaults, which rest on Services and on the pod's owner; and which clusters are
        closed to it.
        """
        closed = tuple([one.fleet_key(pod_info, fleet) for one in self._moving_filters])
        if self._system and not pod_info.pod.spread:
            selector = fleet.affinity.default_selector(pod_info)
            own = _key(pod_info, system_defaults(selector))
            if own is not None:
                return own, closed, *[one.class_key(pod_info) for one in self._cluster_filters]
        told = closed.count(None) < len(closed) and self._own_rules(pod_info.pod)
        return closed if told else None

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The constraints, and what tells homes apart for those that keep pods out of clusters."""
        key = self._own_key(pod_info)
        return (
            None
            if key is None
            else (key, *[_key_without_home(one, pod_info, fleet) for one in self._cluster_filters])
        )

    # --- the ground
    # ----------------------------------------------------------------------------------------------

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """The constraints with their counts as they are now; SKIP without constraints."""
        rules = self._rules(pod_info, fleet)
        return (
            SKIP
            if not rules or self._alone(pod_info.pod, fleet)
            else self._ground(pod_info, rules, fleet)
        )

    def _ground(
        self, pod_info: PodInfo, rules: Sequence[SpreadConstraint], fleet: FleetView
    ) -> _State:
        pod = pod_info.pod
        strict = bool(pod.spread) or self._defaulting == LIST
        hard = self._areas([rule for rule in rules if rule.hard], pod_info, fleet, strict=True)
        soft = self._areas(
            [rule for rule in rules if not rule.hard], pod_info, fleet, strict=strict
        )
        code = fleet.reasons.code
        codes = [
            (
                code(Reasons.SPREAD, area.domains.level),
                code(Reasons.SPREAD_LABEL, area.domains.level),
            )
            for area in hard
        ]
        counted = _counted(hard, fleet), _counted(soft, fleet)
        return _State(pod, *counted, tuple(codes), strict, as_empty=self._defaulting == APP)

    def state_after_first(self, pod_info: PodInfo, fleet: FleetView) -> _State | None:
        """App defaults judge pods of an app once it has one, and skip the first (`_alone`)."""
        rules = self._own_rules(pod_info.pod) if self._defaulting == APP else ()
        return self._ground(pod_info, rules, fleet) if rules else None

    def _alone(self, pod: Pod, fleet: FleetView) -> bool:
        """Whether App defaults find no other pod of its app; if one comes, the pods of the class
        are judged anew.
        """
        if self._defaulting != APP or pod.spread:
            return False
        return not np.count_nonzero(fleet.topology.count_matching(pod, None, CLUSTER_LEVEL))

    def _areas(
        self,
        rules: Sequence[SpreadConstraint],
        pod_info: PodInfo,
        fleet: FleetView,
        *,
        strict: bool,
    ) -> tuple[ConstraintDomains, ...]:
        if not rules:
            return ()
        pod = pod_info.pod
        levels = tuple([topology_key(rule.key, pod) for rule in rules]) if strict else ()
        key = selection_key(pod)
        # the domain that its group is tried in is all the ground that hard constraints know
        only_in = bounds_of(pod_info) if rules[0].hard else None
        honored = {rule.honor_taints for rule in rules}
        open_by_taints = {one: self._open_clusters(pod_info, fleet, one) for one in honored}
        found = list[ConstraintDomains]()
        for rule in rules:
            selecting = pod if rule.honor_affinity and key is not None else None
            tolerance = Tolerance.read(pod_info, fleet) if rule.honor_taints else None
            open_ = open_by_taints[rule.honor_taints]
            asked = (
                selecting and key,
                tolerance and (tolerance.kinds, tolerance.of.tobytes()),
                None if open_ is None else open_.tobytes(),
                only_in,
            )
            rows = partial(self._rows, selecting, tolerance, fleet, open_, only_in)
            selects = (asked, rows) if any(asked) else None
            found.append(self._known.area_of(rule, pod, fleet, levels, selects))
        return tuple(found)

    def _open_clusters(
        self, pod_info: PodInfo, fleet: FleetView, honor_taints: bool
    ) -> Bools | None:
        filters = self._cluster_filters
        told = tuple([(one.class_key(pod_info), one.fleet_key(pod_info, fleet)) for one in filters])
        asked = partial(open_clusters, filters, pod_info, honor_taints=honor_taints)
        return fleet.of_clusters(self._entries, (honor_taints, told), asked)

    def _rows(
        self,
        selecting: Pod | None,
        tolerance: Tolerance | None,
        fleet: FleetView,
        open_: Bools | None,
        only_in: Domains | None,
    ) -> RowList:
        """The live rows of `open_` clusters and of the domains that a pod selects and whose taints
        it tolerates, ascending.
        """
        if only_in is not None:
            rows = rows_in(only_in, fleet)
            if selecting is not None:
                rows = rows[self._masks.selected(selecting, fleet, rows)]
        elif selecting is not None:
            rows = self._masks.rows(selecting, fleet)
        else:
            rows = np.flatnonzero(fleet.nodes.live)
        if open_ is not None:
            rows = rows[open_[fleet.nodes.cluster[rows]]]
        return rows if tolerance is None else rows[self._taints.tolerated(tolerance, fleet)[rows]]

    def refresh(
        self, state: _State | Refuse | Skip, pod_info: PodInfo, fleet: FleetView
    ) -> _State | Refuse | Skip:
        """Count anew on the same ground."""
        by_app = self._defaulting == APP and not pod_info.pod.spread
        if by_app and isinstance(state, Skip) and (rules := self._own_rules(pod_info.pod)):
            return (
                SKIP if self._alone(pod_info.pod, fleet) else self._ground(pod_info, rules, fleet)
            )
        if not isinstance(state, _State):
            return state
        every = (*state.hard, *state.soft)
        moved = False in [one.area.counts(fleet) is one.counts for one in every]
        hard = _counted([one.area for one in state.hard], fleet) if moved else state.hard
        soft = _counted([one.area for one in state.soft], fleet) if moved else state.soft
        whole = [
            one.counts
            for one in soft
            if by_app
            and one.area.domains.level == CLUSTER_LEVEL
            and one.area.domains.counted is None
        ]
        if not any(whole[0].tolist()) if whole else self._alone(pod_info.pod, fleet):
            return SKIP
        return (
            _State(state.pod, hard, soft, state.codes, state.strict, state.as_empty)
            if moved
            else state
        )

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def rules(self, state: _State, fleet: FleetView) -> CountRules:
        """The constraints."""
        return state.rules

    def explain_refusal(self, state: _State, pod_info: PodInfo, fleet: FleetView) -> Sequence[str]:
        """Of each hard constraint that keeps the pod out of a domain: the emptiest one, which has
        no room for it.
        """
        return [hint for rule in state.hard if (hint := rule.hint(fleet))]

    def explain(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """Per constraint: domain of the row, pods per eligible domain, least count and the skew of
        that domain.
        """
        return {
            rule.area.domains.level: rule.explain(row, fleet) for rule in (*state.hard, *state.soft)
        }

    def explain_rows(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, rows: RowList
    ) -> Column:
        """The same of each row."""
        rules = (*state.hard, *state.soft)
        return fields({rule.area.domains.level: rule.explain_rows(rows, fleet) for rule in rules})


def _key_without_home(plugin: Filter, pod_info: PodInfo, fleet: FleetView) -> Hashable:
    found = (
        plugin.key_without_home(pod_info, fleet)
        if "key_without_home" in vars(type(plugin))
        else None
    )
    return plugin.class_key(pod_info) if found is None else found


def _key(pod_info: PodInfo, rules: Sequence[SpreadConstraint]) -> Hashable:
    pod = pod_info.pod
    if not rules:
        return None
    keys = tuple(spread_key(rule, pod) for rule in rules)
    return pod.namespace, keys, *_key_of_ground(pod_info, rules), bool(pod.spread)


def _key_of_ground(pod_info: PodInfo, rules: Sequence[SpreadConstraint]) -> tuple[Hashable, ...]:
    """What makes domains eligible, and what they are: the scope of domains is among what
    `clusters_key` looks at.
    """
    pod = pod_info.pod
    only_in = pod_info.only_in
    taints = pod.tolerations and any(rule.honor_taints for rule in rules)
    bounds = only_in is not None and any(rule.hard for rule in rules) and only_in
    return selection_key(pod), clusters_key(pod_info), taints and tolerations_key(pod_info), bounds


def _counted(areas: Sequence[ConstraintDomains], fleet: FleetView) -> tuple[ConstraintCounts, ...]:
    return tuple([ConstraintCounts.of(area, fleet) for area in areas])
