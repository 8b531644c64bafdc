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
from dispatcher.scheduling.eligibility import (
    ClusterChoiceError,
    LabelMasks,
    allowed_clusters,
    clusters_key,
    selection_key,
)
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Bools,
    Codes,
    Depends,
    Filter,
    Fleet,
    Floats,
    Placed,
    Rows,
    Score,
)
from dispatcher.scheduling.plugin_args import Arg, ArgTable, shown
from dispatcher.scheduling.spread import Spread, spread_key, spread_of

_LACKS_KEY = -1e12  # raw score of a node without a soft key: below any cost


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
    """What a pod class is judged on in this cycle."""

    hard: tuple[Spread, ...]
    soft: tuple[Spread, ...]


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
        rules = tuple(spread_key(rule, pod) for rule in self._rules(pod))
        return (pod.namespace, rules, selection_key(pod), clusters_key(placed)) if rules else None

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """The constraints with their counts as they are now; SKIP without constraints."""
        constraints = self._rules(placed.pod)
        if not constraints:
            return SKIP
        eligible = self._eligible(placed, fleet)
        for one in constraints:
            if one.hard:
                eligible = eligible & (fleet.domain(one.key) >= 0)
        rules = [spread_of(one, placed.pod, fleet, eligible) for one in constraints]
        hard = tuple(rule for rule in rules if rule.constraint.hard)
        return _Ground(hard, tuple(rule for rule in rules if not rule.constraint.hard))

    def _eligible(self, placed: Placed, fleet: Fleet) -> Bools:
        mask = fleet.live
        if selection_key(placed.pod) is not None:
            mask = mask & self._masks.selected(placed.pod, fleet, slice(0, fleet.n))
        try:
            allowed = allowed_clusters(placed, fleet)
        except ClusterChoiceError:  # ClusterAllowed says so where that plugin is on
            allowed = None
        return mask if allowed is None else mask & allowed[fleet.cluster]

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """SPREAD_LABEL where the node has no such domain, SPREAD where one pod more would break max_skew."""
        codes = np.zeros(len(fleet.live[rows]), dtype=np.uint16)
        for rule in cast(_Ground, state).hard:
            by_domain = np.zeros(len(rule.counts) + 1, dtype=np.uint16)  # the last entry is what code -1 reads
            by_domain[:-1][rule.counts > rule.most] = fleet.reasons.code(Reason.SPREAD, rule.level)
            by_domain[-1] = fleet.reasons.code(Reason.SPREAD_LABEL, rule.level)
            np.copyto(codes, by_domain[rule.domain[rows]], where=codes == 0)
        return codes

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """Minus the cost of the module, lower for fuller domains."""
        raw = np.zeros(len(fleet.live[rows]))
        for rule in cast(_Ground, state).soft:
            weight = np.log(np.count_nonzero(rule.present) + 2.0)
            by_domain = np.full(len(rule.counts) + 1, _LACKS_KEY)
            by_domain[:-1] = -(rule.counts * weight + rule.constraint.max_skew - 1)
            raw += by_domain[rule.domain[rows]]
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
        return {rule.level: rule.record(fleet, row) for rule in (*ground.hard, *ground.soft)}
