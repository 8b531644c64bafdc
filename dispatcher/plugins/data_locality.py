"""Better are clusters near to the data that the pod names, by the round-trip times between
clusters.

`global-dispatcher.io/data: name` is a wish; `global-dispatcher.io/require-data: name` keeps the pod
to the clusters that have it. Where data is says the argument `datasets`; who moves data changes the
profile, which is read anew.

    score = 100 * half_ms / (half_ms + rtt)       rtt: ms to the nearest cluster that has the data, 0 there

Unknown round-trip times are neither near nor far: such a cluster gets the mean of the other
clusters of which it is known, or 50. A wish for data that is nowhere makes no difference; with
`require-data` such a pod waits and says so. Which times count: docs/links.md. Unit: ms. Source: as
Nearness.
"""

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    Codes,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Refuse,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.plugin_args import Args, did_you_mean, shown
from dispatcher.scheduling.rules.datasets import DATASETS, Datasets
from dispatcher.scheduling.rules.named_places import (
    CLUSTER_KEY,
    DATA,
    PlacePlugin,
    Places,
    data_of,
)
from dispatcher.scheduling.rules.nearness import HALF_MS, HalfMs, to_nearest, way_from
from shared.model import names
from shared.model.names import REQUIRE_DATA
from shared.model.nearness import Near
from shared.model.pod import Pod
from shared.model.reasons import Reason, Reasons
from shared.model.wake_events import WakeEvent

DATA_ELSEWHERE = Reason(
    "data_elsewhere",
    "node(s) were in a cluster without the data that the pod requires",
    remedy="The pod's `global-dispatcher.io/require-data` names data that is in other "
    "clusters: see `datasets` of DataLocality in the profile.",
    helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)

_NAMED = 20  # sets of data told of to users


class DataArgs(Args):
    """Where data is."""

    datasets: Annotated[
        Datasets, Meta(description="name of data: clusters that have it", extra=DATASETS)
    ] = ()
    half_ms: HalfMs = HALF_MS


class DataLocality(PlacePlugin):
    """Prefers clusters near to the pod's data, or keeps it there."""

    name: ClassVar[str] = "DataLocality"
    REASONS = (DATA_ELSEWHERE,)
    keyed_by_template = True
    reads = (names.DATA, REQUIRE_DATA)

    def __init__(self, datasets: Datasets, half_ms: float) -> None:
        self.datasets = dict(datasets)
        self._half_ms = half_ms

    def named(self, pod: Pod) -> Near | None:
        """The data that it wishes, or else requires."""
        return data_of(pod)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The two annotations."""
        named = data_of(pod_info.pod)
        return named and (named, pod_info.pod.annotations.get(REQUIRE_DATA))

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Places | Refuse | Skip:
        """As of all; INVALID for required data that is nowhere."""
        required = pod_info.pod.annotations.get(REQUIRE_DATA)
        if required is not None and self.closed_clusters(pod_info, fleet) is None:
            unknown = self._unknown(required)
            return refuse(Reasons.INVALID, f"annotation {REQUIRE_DATA}: {unknown}")
        return super().pre_filter(pod_info, fleet)

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """DATA_ELSEWHERE outside the clusters that have the required data."""
        required = pod_info.pod.annotations.get(REQUIRE_DATA)
        if required is None:
            return None
        there = self.clusters_with(Near(DATA, required), pod_info, fleet)
        codes = np.where(there > 0, 0, fleet.reasons.code(DATA_ELSEWHERE))
        return codes.astype(np.uint16) if there.any() else None

    def costs(
        self, near: Near, there: Ints, pod_info: PodInfo, fleet: FleetView
    ) -> Mapping[str, Floats]:
        """Points by cluster."""
        return {CLUSTER_KEY: to_nearest(fleet.links.rtt_ms(), there > 0, self._half_ms)}

    def _unknown(self, name: str) -> str:
        if name in self.datasets:
            clusters = ", ".join(self.datasets[name][:_NAMED])
            return f"data {shown(name)} is in no cluster of this fleet: {clusters}"
        hint = did_you_mean(name[:63], list(self.datasets)[:_NAMED])
        return f"the profile names no data {shown(name)}{hint}"

    def explain(
        self, state: Places, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """The data, the nearest cluster that has it, and the round-trip time to that with age and
        source.
        """
        name = state.near.name
        if not state.there.any():
            return {"data": name, "found": self._unknown(name)}
        return {"data": name, **way_from(row, state.there, fleet)}
