"""Tiny policies that exercise every way a plugin can depend on the fleet; simple enough to be checked by eye."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    CycleState,
    Depends,
    Filter,
    FleetView,
    Floats,
    PluginUse,
    PodInfo,
    Profile,
    Refuse,
    Reserve,
    Rows,
    Score,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.counted import CountedPlugin, pods_by_domain
from dispatcher.scheduling.framework.domain_counts import CountRules, MaxCount, Scale, ScoreTerm
from shared.model.reasons import Reasons


def length(rows: Rows, fleet: FleetView) -> int:
    return len(range(*rows.indices(fleet.n))) if isinstance(rows, slice) else len(rows)


class Ready(Filter):
    """Only Ready nodes of Ready clusters."""

    name = "Ready"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        ready = np.asarray([info.ready for info in fleet.clusters] or [False])
        codes = np.zeros(length(rows, fleet), dtype=np.uint16)
        codes[~fleet.nodes.ready[rows]] = fleet.reasons.code(Reasons.NOT_READY)
        codes[~ready[fleet.nodes.cluster[rows]]] = fleet.reasons.code(Reasons.CLUSTER_NOT_READY)
        return codes


class Selector(Filter, Score):
    """Only nodes with the pod's node selector; prefers many labels of key `soft`, normalised."""

    name = "Selector"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return tuple(sorted(pod_info.pod.node_selector.items()))

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return pod_info.pod.node_selector or SKIP

    def filter(self, state: Any, fleet: FleetView, rows: Rows) -> Codes:
        codes = np.zeros(length(rows, fleet), dtype=np.uint16)
        for key, value in state.items():
            values = list(fleet.nodes.label_values(key))
            wanted = values.index(value) if value in values else -2
            codes[fleet.nodes.label(key)[rows] != wanted] = fleet.reasons.code(Reasons.AFFINITY)
        return codes

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        texts = [float(text) if text.isdigit() else 0.0 for text in fleet.nodes.label_values("soft")]
        return np.asarray([*texts, 0.0])[fleet.nodes.label("soft")[rows]]

    def normalize(self, raw: Floats) -> Floats:
        highest = raw.max(initial=0.0)
        return raw if highest == 0.0 else raw * (100.0 / highest)


class Fit(Filter, Score):
    """Requests fit; the emptier, the better (least allocated cpu and memory)."""

    name = "Fit"
    depends = Depends.NODE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return tuple(sorted(pod_info.pod.requests.items()))

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return {**pod_info.pod.requests, "pods": 1}

    def filter(self, state: Any, fleet: FleetView, rows: Rows) -> Codes:
        codes = np.zeros(length(rows, fleet), dtype=np.uint16)
        for resource, amount in sorted(state.items(), reverse=True):
            column = fleet.axis.column(resource)
            code = fleet.reasons.code(Reasons.INSUFFICIENT, resource)
            if column is None:
                codes[:] = code
            else:
                codes[amount > fleet.nodes.allocatable[column, rows] - fleet.nodes.requested[column, rows]] = code
        return codes

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        total = np.zeros(length(rows, fleet))
        for column in (0, 1):
            room = np.maximum(fleet.nodes.allocatable[column, rows], 1)
            total += 50.0 * np.clip(1.0 - fleet.nodes.nonzero[column, rows] / room, 0.0, 1.0)
        return total


class Live(Score):
    """Prefers idle CPU: the reading fades to the requested share between 10 and 60 seconds of age."""

    name = "Live"
    depends = Depends.NODE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        room = np.maximum(fleet.nodes.allocatable[0, rows], 1)
        trust = np.clip((60.0 - (fleet.now - fleet.signals.sampled_at("cpu")[rows])) / 50.0, 0.0, 1.0)
        used = np.nan_to_num(fleet.signals.used("cpu")[rows].astype(np.float64), nan=1.0)
        measured = used + fleet.nodes.recent[0, rows] / room
        asked = fleet.nodes.nonzero[0, rows] / room
        return 100.0 * np.clip(1.0 - (trust * measured + (1.0 - trust) * asked), 0.0, 1.0)


class Spread(Filter, Score):
    """Hard: skew of the pod's app over `key` at most max_skew. Soft: prefers the emptier domain, normalised."""

    name = "Spread"
    depends = Depends.DOMAIN

    def class_key(self, pod_info: PodInfo) -> Hashable:
        pod = pod_info.pod
        if not pod.spread:
            return None
        return pod.namespace, tuple(sorted(pod.app_labels.items())), pod.spread[0].key, pod.spread[0].max_skew

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        if not pod_info.pod.spread:
            return SKIP
        constraint = pod_info.pod.spread[0]
        counts = fleet.topology.count_matching(pod_info.pod, constraint.selector, constraint.key).copy()
        domains = fleet.topology.domain(constraint.key)[fleet.nodes.live]
        present = np.unique(domains[domains >= 0])
        return constraint, counts, int(counts[present].min(initial=2**31))

    def filter(self, state: Any, fleet: FleetView, rows: Rows) -> Codes:
        constraint, counts, lowest = state
        domains = fleet.topology.domain(constraint.key)[rows]
        found = np.append(counts, 2**40)[domains]
        codes = np.zeros(len(found), dtype=np.uint16)
        if constraint.hard:
            codes[found + 1 - lowest > constraint.max_skew] = fleet.reasons.code(Reasons.SPREAD, constraint.key)
        return codes

    def score(self, state: Any, fleet: FleetView, rows: Rows) -> Floats:
        constraint, counts, _ = state
        found: Floats = -np.append(counts, 10_000)[fleet.topology.domain(constraint.key)[rows]].astype(np.float64)
        return found

    def normalize(self, raw: Floats) -> Floats:
        low, high = raw.min(initial=0.0), raw.max(initial=-(2.0**40))
        return np.full(len(raw), 100.0) if high <= low else 100.0 * (raw - low) / (high - low)

    def explain(self, state: Any, pod_info: PodInfo, fleet: FleetView, row: int) -> Mapping[str, Any]:
        return {"min": state[2]}


class Rooms(CountedPlugin):
    """By annotation rooms: "zone:2,host:1" at most so many pods of the app a domain, "soft" the emptier the better."""

    name = "Rooms"

    def __init__(self, normalizes: bool = True) -> None:
        self.normalizes = normalizes  # type: ignore[misc]
        self.scale = Scale.RANGE if normalizes else Scale.AS_IS  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        asked = pod_info.pod.annotations.get("rooms")
        return (
            None if asked is None else (pod_info.pod.namespace, tuple(sorted(pod_info.pod.app_labels.items())), asked)
        )

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules | Skip:
        asked = pod_info.pod.annotations.get("rooms")
        if asked is None:
            return SKIP
        code = fleet.reasons.code(Reasons.POLICY, "Rooms")
        rooms = [(pods_by_domain(pod_info.pod, key, fleet), limit) for key, limit in map(_room, asked.split(","))]
        return CountRules(
            [MaxCount(count, int(limit) - 1, code, elsewhere=code) for count, limit in rooms if limit != "soft"],
            score_terms=[ScoreTerm(count, -1.0, 10.0, elsewhere=3.0) for count, limit in rooms if limit == "soft"],
            scale=self.scale,
        )


def _room(text: str) -> tuple[str, str]:
    key, _, limit = text.partition(":")
    return key, limit


class Crowd(Score):
    """Prefers the cluster with the fewest pods: looks at the whole fleet."""

    name = "Crowd"
    depends = Depends.FLEET

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.annotations.get("crowd")

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return None if pod_info.pod.annotations.get("crowd") else SKIP

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        live = fleet.nodes.live
        pods = np.bincount(
            fleet.nodes.cluster[live], weights=fleet.nodes.requested[3, live], minlength=len(fleet.clusters)
        )
        scores: Floats = np.asarray(100.0 / (1.0 + pods), dtype=np.float64)[fleet.nodes.cluster[rows]]
        return scores


class Quota(Reserve):
    """At most `limit` milli-CPU per namespace."""

    name = "Quota"
    depends = Depends.STATIC

    def __init__(self, limit: int = 10**9) -> None:
        self.limit = limit
        self.used: dict[str, int] = {}

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.namespace, pod_info.pod.requests.get("cpu", 0)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        used = self.used.get(pod_info.pod.namespace, 0)
        if used + pod_info.pod.requests.get("cpu", 0) > self.limit:
            return refuse(Reasons.QUOTA, f"{pod_info.pod.namespace} used {used}m, limit {self.limit}m")
        return None

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        state = self.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse):
            return state
        self.restore(pod_info, row, fleet)
        return None

    def restore(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        namespace = pod_info.pod.namespace
        self.used[namespace] = self.used.get(namespace, 0) + pod_info.pod.requests.get("cpu", 0)

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        namespace = pod_info.pod.namespace
        self.used[namespace] -= pod_info.pod.requests.get("cpu", 0)
        if not self.used[namespace]:
            del self.used[namespace]


class ByPriority:
    """High priority first, then the oldest."""

    def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[Any, ...]:
        return (-pod_info.pod.priority, queued_at)


def profile(**weights: float) -> Profile:
    return Profile("tiny", tuple(PluginUse(name, weight) for name, weight in weights.items()))
