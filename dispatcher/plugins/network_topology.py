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

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, cast

from msgspec import Meta

from dispatcher.scheduling.framework import FleetView, Floats, Ints, PodInfo
from dispatcher.scheduling.framework.plugin_args import Args, label_key, number, read_by, shown
from dispatcher.scheduling.framework.pod_sets import PodSet
from dispatcher.scheduling.rules.named_places import (
    OWN_APP,
    PlacePlugin,
    Places,
    near_of,
    pods_meant,
)
from shared.model import names
from shared.model.nearness import SERVICE, Near
from shared.model.pod import Pod
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


class NetworkTopology(PlacePlugin):
    """Prefers nodes that share rack, zone, region or cluster with the pod's app, or with the
    Service it is near to.
    """

    name: ClassVar[str] = "NetworkTopology"
    reads = (names.NEAR, "labels")

    def __init__(self, levels: Weights) -> None:
        self._weights = dict(levels)
        self._points = 100.0 / sum(weight for _, weight in levels)

    def named(self, pod: Pod) -> Near | None:
        """The Service that it is near to, else its app."""
        near = near_of(pod)
        if near is not None and near.kind == SERVICE:
            return near
        return OWN_APP if pod.app_labels else None

    def keys(self, near: Near) -> Iterable[str]:
        """The levels."""
        return self._weights

    def costs(
        self, near: Near, there: Ints, pod_info: PodInfo, fleet: FleetView
    ) -> Mapping[str, Floats]:
        """By level, the share of those pods that is in each domain."""
        pods = cast(PodSet, pods_meant(near, pod_info, fleet))  # some are somewhere
        total = int(there.sum())
        return {level: fleet.affinity.count_in(pods, level) / total for level in self._weights}

    def points(self, costs: Mapping[str, Floats], there: Ints) -> Mapping[str, Floats]:
        """The shares by the weight of their level."""
        whole = self._points
        return {level: whole * self._weights[level] * share for level, share in costs.items()}

    def explain(
        self, state: Places, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """To what it is near, how many pods that is, and the share of them by level beside the
        node.
        """
        beside = {}
        for level, shares in state.costs.items():
            domain = int(fleet.topology.domain(level)[row])
            beside[level] = round(float(shares[domain]), 4) if domain >= 0 else 0.0
        return {"near": str(state.near), "pods": int(state.there.sum()), "beside": beside}
