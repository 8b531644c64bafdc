"""Better are clusters that are near to what the pod names, by the round-trip times between
clusters.

`global-dispatcher.io/near` names it: `cluster/a`; `zone/x`; or `service/ns/name`, the pods that
this Service of the cluster of submission selects, wherever they run. With the argument `app`, pods
that name nothing are near to the other pods of their own app.

    nearness(rtt) = 100 * half_ms / (half_ms + rtt)       rtt: ms between two clusters, 0 within one
    cluster:  nearness to it
    zone:     3/4 of the nearness to the nearest cluster that has the zone, and 25 on nodes of the zone itself
    service, app: the mean of the nearness to their pods, each counted once, by the cluster where it runs

Unknown round-trip times are neither near nor far: such a cluster gets the mean of the other
clusters of which it is known, or 50. A name that the fleet does not know, or a service without
pods, makes no difference between clusters. Which times count: docs/links.md. Unit: ms. Source of
the form: a hyperbola, so that 1 ms against 10 ms counts, and 100 ms against 110 ms hardly does, as
with waiting for one answer beside `half_ms` of work; ours.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import FleetView, Floats, Ints, PodInfo
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.rules.named_places import (
    APP,
    CLUSTER_KEY,
    OWN_APP,
    ZONE_KEY,
    PlacePlugin,
    Places,
    near_of,
)
from dispatcher.scheduling.rules.nearness import HALF_MS, HalfMs, to_many, to_nearest, way_from
from shared.model import names
from shared.model.nearness import CLUSTER, SERVICE, ZONE, Near
from shared.model.pod import Pod

_IN_ZONE = 25.0  # points of a zone's own nodes, the rest goes by cluster


class NearnessArgs(Args):
    """How fast nearness fades, and who is near to whom without saying so."""

    half_ms: HalfMs = HALF_MS
    app: Annotated[
        bool,
        Meta(description="pods without the annotation are near to the other pods of their app"),
    ] = False


class Nearness(PlacePlugin):
    """Prefers clusters near to what the pod names."""

    name: ClassVar[str] = "Nearness"
    reads: tuple[str, ...] = (names.NEAR,)

    def __init__(self, half_ms: float, app: bool) -> None:
        self._half_ms = half_ms
        self._app = app
        if app:
            self.reads = (names.NEAR, "labels")

    def named(self, pod: Pod) -> Near | None:
        """What the annotation says, else its app if the argument says so."""
        own = self._app and names.NEAR not in pod.annotations and bool(pod.app_labels)
        return OWN_APP if own else near_of(pod)

    def keys(self, near: Near) -> tuple[str, ...]:
        """Zones have points of their own."""
        return (CLUSTER_KEY, ZONE_KEY) if near.kind == ZONE else (CLUSTER_KEY,)

    def costs(
        self, near: Near, there: Ints, pod_info: PodInfo, fleet: FleetView
    ) -> Mapping[str, Floats]:
        """Points by cluster; of a zone also for its own nodes."""
        rtt = fleet.links.rtt_ms()
        if near.kind in (APP, SERVICE):
            return {CLUSTER_KEY: to_many(rtt, there.astype(np.float64), self._half_ms)}
        points = to_nearest(rtt, there > 0, self._half_ms)
        if near.kind != ZONE:
            return {CLUSTER_KEY: points}
        values = fleet.topology.domain_values(ZONE_KEY)
        inside = np.asarray([_IN_ZONE if value == near.name else 0.0 for value in values])
        return {CLUSTER_KEY: points * (1.0 - _IN_ZONE / 100.0), ZONE_KEY: inside}

    def explain(
        self, state: Places, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What it is near to, the nearest cluster that has it, and the round-trip time to that with
        age and source.
        """
        if state.there.any():
            return {"near": str(state.near), **way_from(row, state.there, fleet)}
        known = [info.name for info in fleet.clusters] if state.near.kind == CLUSTER else []
        close = get_close_matches(state.near.name, known, 1)
        meant = f"; did you mean cluster/{close[0]}?" if close else ""
        return {"near": str(state.near), "found": f"nowhere{meant}"}
