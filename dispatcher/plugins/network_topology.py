"""Better are nodes beside the pods that a pod works with: in the same rack, zone, region or
cluster.

    score = 100 * sum(weight of level * share of those pods in the node's domain of that level) /
    sum(weights)

Those pods are the others of its app or, with the annotation `global-dispatcher.io/near:
service/ns/name`, the pods behind that Service. Levels are host, rack, zone, region, provider and
cluster, or any label of nodes; a node without the label has nothing of that level. Without such
pods no node is better. Example: weights {rack: 1, zone: 1}; 4 pods, 1 in this rack and 3 in this
zone: 100 * (1/4 + 3/4) / 2 = 50.

Source: ours, a mean over the pods of the levels that are shared. It is what preferred pod affinity
says with one term a level (InterPodAffinity), of a whole fleet instead of by each pod; Nearness
goes by round-trip times between clusters, and knows nothing smaller. It pulls an app together where
FaultDomainSpread pulls it apart: give it the smaller weight, or name it in a profile of its own.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    DomainPlugin,
    FleetView,
    Floats,
    Part,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.plugin_args import Args, label_key, number, read_by, shown
from dispatcher.scheduling.rules.named_places import OWN_APP, near_key, near_of, pods_meant
from shared.model import nearness
from shared.model.nearness import Near
from shared.model.topology import CLUSTER_LEVEL, LEVELS, level_of

Weights = tuple[tuple[str, float], ...]
_WEIGHTS: Weights = (("rack", 1.0), ("zone", 1.0), ("region", 1.0), (CLUSTER_LEVEL, 1.0))
WrittenWeights = Annotated[dict[str, Annotated[float, Meta(ge=0.01, le=1000)]], Meta(min_length=1)]


def _level_weights(raw: object) -> Weights:
    """{level or label: weight}, one at least."""
    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(
            f"must map levels to weights, for example {{rack: 2, zone: 1}}, not {shown(raw)}"
        )
    weight = number(0.01, 1000)
    found = dict[str, float]()
    for name, value in raw.items():
        level = level_of(name if name in LEVELS else label_key(name))
        if level in found:
            raise ValueError(f"names {level} twice")
        found[level] = weight(value)
    return tuple(found.items())


@dataclass(frozen=True)
class _State:
    """`shares`: by level, [domains + 1] the share of the pods meant that are in each domain;
    nothing for no such.
    """

    what: str
    pods: int
    shares: tuple[tuple[str, Floats], ...]


class TopologyArgs(Args):
    """Which levels count, and how much."""

    levels: Annotated[
        Weights,
        Meta(
            description="weight of each level (host, rack, zone, region, provider, cluster) or "
            "node label",
            extra=read_by(_level_weights, WrittenWeights),
        ),
    ] = _WEIGHTS


class NetworkTopology(DomainPlugin[_State]):
    """Prefers nodes that share rack, zone, region or cluster with the pod's app, or with the
    Service it is near to.
    """

    name: ClassVar[str] = "NetworkTopology"
    keyed_by_template = True

    def __init__(self, levels: Weights) -> None:
        self._levels = levels
        self._points = 100.0 / sum(weight for _, weight in levels)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Whom it is near to, and what that rests on."""
        return near_key(self._near(pod_info), pod_info)

    def _near(self, pod_info: PodInfo) -> Near | None:
        near = near_of(pod_info.pod)
        if near is not None and near.kind == nearness.SERVICE:
            return near
        return OWN_APP if pod_info.pod.app_labels else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """Where those pods are; SKIP for a pod that has none to be near to."""
        near = self._near(pod_info)
        if near is None:
            return SKIP
        pods = pods_meant(near, pod_info, fleet)
        total = 0 if pods is None else int(fleet.affinity.count_in(pods, CLUSTER_LEVEL).sum())
        if pods is None or not total:
            return _State(str(near), 0, ())
        counts = [(level, fleet.affinity.count_in(pods, level)) for level, _ in self._levels]
        return _State(
            str(near),
            total,
            tuple((level, np.append(count / total, 0.0)) for level, count in counts),
        )

    def score_parts(self, state: _State, fleet: FleetView) -> Sequence[Part]:
        """One for each level."""
        weights = dict(self._levels)
        return [
            Part(fleet.topology.domain(level), self._points * weights[level] * shares)
            for level, shares in state.shares
        ]

    def explain(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """To what it is near, how many pods that is, and the share of them by level beside the
        node.
        """
        beside = {
            level: round(float(shares[int(fleet.topology.domain(level)[row])]), 4)
            for level, shares in state.shares
        }
        return {"near": state.what, "pods": state.pods, "beside": beside}
