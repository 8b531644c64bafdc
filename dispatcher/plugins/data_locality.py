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

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    Codes,
    DomainPlugin,
    FleetView,
    Floats,
    Part,
    PodInfo,
    Refuse,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.plugin_args import Args, did_you_mean, shown
from dispatcher.scheduling.rules.datasets import DATASETS, Datasets
from dispatcher.scheduling.rules.named_places import CLUSTER_KEY
from dispatcher.scheduling.rules.nearness import HALF_MS, nearest_of, to_nearest, way_between
from shared.model import names
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


@dataclass(frozen=True)
class _State:
    """`there`: [clusters] which have the data; `only`: which have the data that is required, None
    for no such.
    """

    wanted: str
    there: Bools
    by_cluster: Floats
    only: Bools | None


class DataArgs(Args):
    """Where data is."""

    datasets: Annotated[
        Datasets, Meta(description="name of data: clusters that have it", extra=DATASETS)
    ] = ()
    half_ms: Annotated[
        float,
        Meta(ge=0.01, le=10_000, description="ms of round-trip time at which nearness is half"),
    ] = HALF_MS


class DataLocality(DomainPlugin[_State]):
    """Prefers clusters near to the pod's data, or keeps it there."""

    name: ClassVar[str] = "DataLocality"
    REASONS = (DATA_ELSEWHERE,)
    keyed_by_template = True

    def __init__(self, datasets: Datasets, half_ms: float) -> None:
        self._datasets = dict(datasets)
        self._half_ms = half_ms

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The two annotations."""
        told = pod_info.pod.annotations
        if names.DATA not in told and names.REQUIRE_DATA not in told:
            return None
        return told.get(names.DATA), told.get(names.REQUIRE_DATA)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """Which clusters have the data, and their points; SKIP without annotation; INVALID for
        required data that is nowhere.
        """
        told = pod_info.pod.annotations
        required = told.get(names.REQUIRE_DATA)
        wanted = told.get(names.DATA, required)
        if wanted is None:
            return SKIP
        only = None if required is None else self._where(required, fleet)
        if required is not None and (only is None or not only.any()):
            return refuse(
                Reasons.INVALID, f"annotation {names.REQUIRE_DATA}: {self._unknown(required)}"
            )
        there = self._where(wanted, fleet)
        there = np.zeros(len(fleet.clusters), dtype=np.bool_) if there is None else there
        points = (
            to_nearest(fleet.links.rtt_ms(), there, self._half_ms)
            if there.any()
            else np.zeros(len(there))
        )
        return _State(wanted, there, points, only)

    def _where(self, name: str, fleet: FleetView) -> Bools | None:
        """[clusters] which have it; None for data that the profile does not name."""
        clusters = self._datasets.get(name)
        if clusters is None:
            return None
        return np.fromiter((info.name in clusters for info in fleet.clusters), dtype=np.bool_)

    def _unknown(self, name: str) -> str:
        if name in self._datasets:
            return (
                f"data {shown(name)} is in no cluster of this fleet: "
                f"{', '.join(self._datasets[name][:_NAMED])}"
            )
        return (
            "the profile names no data "
            f"{shown(name)}{did_you_mean(name[:63], list(self._datasets)[:_NAMED])}"
        )

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """DATA_ELSEWHERE outside the clusters that have the required data."""
        ground = (
            self.pre_filter(pod_info, fleet)
            if names.REQUIRE_DATA in pod_info.pod.annotations
            else SKIP
        )
        return (
            self._closed(ground.only, fleet)
            if isinstance(ground, _State) and ground.only is not None
            else None
        )

    def _closed(self, only: Bools, fleet: FleetView) -> Codes:
        return np.where(only, 0, fleet.reasons.code(DATA_ELSEWHERE)).astype(np.uint16)

    def filter_parts(self, state: _State, fleet: FleetView) -> Sequence[Part]:
        """DATA_ELSEWHERE outside the clusters that have the required data."""
        if state.only is None:
            return ()
        codes = np.append(self._closed(state.only, fleet), np.uint16(0))
        return (Part(fleet.topology.domain(CLUSTER_KEY), codes),)

    def score_parts(self, state: _State, fleet: FleetView) -> Sequence[Part]:
        """By cluster."""
        return (Part(fleet.topology.domain(CLUSTER_KEY), np.append(state.by_cluster, 0.0)),)

    def explain(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """The data, the nearest cluster that has it, and the round-trip time to that with age and
        source.
        """
        if not state.there.any():
            return {"data": state.wanted, "found": self._unknown(state.wanted)}
        here = int(fleet.nodes.cluster[row])
        return {
            "data": state.wanted,
            **way_between(fleet, here, nearest_of(fleet, here, state.there)),
        }
