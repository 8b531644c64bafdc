"""Pods of one app stay spread over fault domains (provider, region, zone, rack, cluster, host, any node label).

Counts are of matching pods of the namespace in the whole fleet, running and assumed, each once.
Hard: the pod may go to domain d if  count(d) + own - min <= max_skew;  own is 1 if the pod matches its own selector.
    min is the least count over the *eligible* domains: those of live nodes that satisfy the pod's selector, affinity
    and allowed clusters and have all its hard keys; Ready or not, so the skew holds through a lost zone.
    min is 0 while there are fewer eligible domains than `min_domains`.
Soft: cost = sum of count(d) * ln(domains + 2) + max_skew - 1; score = 100 * (largest + least - cost) / largest cost,
    0 where a node lacks a key. Unit: pods. Source: kube-scheduler's PodTopologySpread with nodeAffinityPolicy Honor
    and nodeTaintsPolicy Ignore; a count here takes in all nodes of an eligible domain.
A pod without constraints of its own gets the profile's `defaults`, if it has labels to tell its app by.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from dispatcher.model.pod import Pod, SpreadConstraint
from dispatcher.model.reasons import Reason
from dispatcher.model.topology import level_of
from dispatcher.scheduling.eligibility import (
    ClusterChoiceError,
    LabelMasks,
    allowed_clusters,
    clusters_key,
    selection_key,
)
from dispatcher.scheduling.fleet_counts import selector_key
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Bools,
    Codes,
    Depends,
    Filter,
    Fleet,
    Floats,
    Ints,
    Placed,
    Rows,
    Score,
)
from dispatcher.scheduling.plugin_args import Arg, ArgTable, shown

_LACKS_KEY = -1e12  # raw score of a node without a soft key: below any cost
_SHOWN_DOMAINS = 32


def _constraints(raw: object) -> tuple[SpreadConstraint, ...]:
    """[{key: zone, max_skew: 1, hard: false}, ...]."""
    if not isinstance(raw, list | tuple):
        raise ValueError(f"must be a list of {{key, max_skew, hard}}, not {shown(raw)}")
    return tuple(_constraint(item) for item in raw)


def _constraint(raw: object) -> SpreadConstraint:
    if not isinstance(raw, Mapping) or not set(raw) <= {"key", "max_skew", "hard"}:
        raise ValueError(f"each must hold key, max_skew, hard, not {shown(raw)}")
    key, skew, hard = raw.get("key"), raw.get("max_skew", 1), raw.get("hard", False)
    if not isinstance(key, str) or not key:
        raise ValueError(f"key must be a level (zone, cluster, ...) or a node label, not {shown(key)}")
    if isinstance(skew, bool) or not isinstance(skew, int) or not 1 <= skew <= 1_000_000:
        raise ValueError(f"max_skew of {key} must be a whole number from 1, not {shown(skew)}")
    if not isinstance(hard, bool):
        raise ValueError(f"hard of {key} must be true or false, not {shown(hard)}")
    return SpreadConstraint(key, skew, hard)


@dataclass(frozen=True)
class _Ground:
    """What a pod class is judged on: its pod and constraints, and [n] the rows whose domains are eligible."""

    pod: Pod
    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    eligible: Bools

    def counts(self, rule: SpreadConstraint, fleet: Fleet) -> tuple[Ints, Bools]:
        """[domains] matching pods, and which domains are eligible."""
        counts = fleet.count_matching(self.pod, rule.selector, rule.key)
        domain = fleet.domain(rule.key)
        present = np.zeros(len(counts), dtype=np.bool_)
        present[domain[self.eligible & (domain >= 0)]] = True
        return counts, present


def _least(rule: SpreadConstraint, counts: Ints, present: Bools) -> int:
    found = counts[present]
    return int(found.min()) if len(found) >= max(rule.min_domains, 1) else 0


class FaultDomainSpread(Filter, Score):
    """Filter on hard constraints, score on soft ones."""

    name: ClassVar[str] = "FaultDomainSpread"
    depends: ClassVar[Depends] = Depends.DOMAIN
    normalizes: ClassVar[bool] = True
    ARGS: ClassVar[ArgTable] = {
        "defaults": Arg((), "constraints {key, max_skew, hard} for pods that have none of their own", _constraints)
    }

    def __init__(self, defaults: tuple[SpreadConstraint, ...]) -> None:
        self._defaults = defaults
        self._masks = LabelMasks()

    def _rules(self, pod: Pod) -> tuple[SpreadConstraint, ...]:
        return pod.spread or (self._defaults if self._defaults and pod.app_labels else ())

    def class_key(self, placed: Placed) -> Hashable:
        """The constraints with what they count, and what makes domains eligible; None without constraints."""
        pod = placed.pod
        rules = tuple(
            (*_rule_key(rule), selector_key(pod, rule.selector), _own(rule, pod)) for rule in self._rules(pod)
        )
        return (pod.namespace, rules, selection_key(pod), clusters_key(placed)) if rules else None

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """The constraints and the eligible rows; SKIP without constraints."""
        rules = self._rules(placed.pod)
        if not rules:
            return SKIP
        hard = tuple(rule for rule in rules if rule.hard)
        soft = tuple(rule for rule in rules if not rule.hard)
        return _Ground(placed.pod, hard, soft, self._eligible(placed, hard, fleet))

    def _eligible(self, placed: Placed, hard: tuple[SpreadConstraint, ...], fleet: Fleet) -> Bools:
        mask: Bools = fleet.live & self._masks.selected(placed.pod, fleet, slice(0, fleet.n))
        try:
            allowed = allowed_clusters(placed, fleet)
        except ClusterChoiceError:  # ClusterAllowed says so where that plugin is on
            allowed = None
        if allowed is not None:
            mask &= allowed[fleet.cluster]
        for rule in hard:
            mask &= fleet.domain(rule.key) >= 0
        return mask

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """SPREAD_LABEL where the node has no such domain, SPREAD where one pod more would break max_skew."""
        ground = cast(_Ground, state)
        codes = np.zeros(len(fleet.live[rows]), dtype=np.uint16)
        for rule in ground.hard:
            level = level_of(rule.key)
            counts, present = ground.counts(rule, fleet)
            room = rule.max_skew + _least(rule, counts, present) - _own(rule, ground.pod)
            by_domain = np.zeros(len(counts) + 1, dtype=np.uint16)  # the last entry is what code -1 reads
            by_domain[:-1][counts > room] = fleet.reasons.code(Reason.SPREAD, level)
            by_domain[-1] = fleet.reasons.code(Reason.SPREAD_LABEL, level)
            np.copyto(codes, by_domain[fleet.domain(rule.key)[rows]], where=codes == 0)
        return codes

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """Minus the cost of the module, lower for fuller domains."""
        ground = cast(_Ground, state)
        raw = np.zeros(len(fleet.live[rows]))
        for rule in ground.soft:
            counts, present = ground.counts(rule, fleet)
            by_domain = np.full(len(counts) + 1, _LACKS_KEY)
            by_domain[:-1] = -(counts * np.log(np.count_nonzero(present) + 2.0) + rule.max_skew - 1)
            raw += by_domain[fleet.domain(rule.key)[rows]]
        return np.maximum(raw, _LACKS_KEY)

    def normalize(self, raw: Floats) -> Floats:
        """100 for the emptiest domains, down to 100 * least / largest cost; 0 where a key is missing."""
        cost, has = -raw, raw > _LACKS_KEY
        largest = cost[has].max(initial=0.0)
        if largest <= 0.0:
            return np.where(has, MAX_SCORE, 0.0)
        return np.where(has, MAX_SCORE * (largest + cost[has].min() - cost) / largest, 0.0)

    def explain(self, state: object, placed: Placed, fleet: Fleet, row: int) -> Mapping[str, Any]:
        """Per constraint: domain of the row, pods per eligible domain, least count and the skew of that domain."""
        ground = cast(_Ground, state)
        return {level_of(rule.key): _explained(ground, rule, fleet, row) for rule in (*ground.hard, *ground.soft)}


def _own(rule: SpreadConstraint, pod: Pod) -> bool:
    return rule.selector is None or rule.selector.matches(pod.labels)


def _rule_key(rule: SpreadConstraint) -> tuple[Hashable, ...]:
    return level_of(rule.key), rule.max_skew, rule.hard, rule.min_domains


def _explained(ground: _Ground, rule: SpreadConstraint, fleet: Fleet, row: int) -> dict[str, Any]:
    counts, present = ground.counts(rule, fleet)
    least, at = _least(rule, counts, present), int(fleet.domain(rule.key)[row])
    names, eligible = fleet.domain_values(rule.key), np.flatnonzero(present)
    return {
        "domain": names[at] if at >= 0 else None,
        "max_skew": rule.max_skew,
        "hard": rule.hard,
        "min": least,
        "skew": int(counts[at]) - least if at >= 0 else None,
        "counts": {names[code]: int(counts[code]) for code in eligible[:_SHOWN_DOMAINS].tolist()},
        "domains": len(eligible),
    }
