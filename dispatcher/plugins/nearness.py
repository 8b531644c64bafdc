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

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    DomainPlugin,
    FleetView,
    Floats,
    Ints,
    Part,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.rules.named_places import (
    APP,
    CLUSTER_KEY,
    OWN_APP,
    ZONE_KEY,
    clusters_with,
    near_key,
    near_of,
)
from dispatcher.scheduling.rules.nearness import (
    HALF_MS,
    nearest_of,
    to_many,
    to_nearest,
    way_between,
)
from shared.model import names, nearness
from shared.model.nearness import Near
from shared.model.pod import Pod

_IN_ZONE = 25.0  # points of a zone's own nodes, the rest goes by cluster


@dataclass(frozen=True)
class _State:
    """`there`: [clusters] pods, or 1 for a cluster that has what is named. `by_cluster`: [clusters]
    points.
    """

    what: str
    there: Ints
    by_cluster: Floats
    zone: str = ""


class NearnessArgs(Args):
    """How fast nearness fades, and who is near to whom without saying so."""

    half_ms: Annotated[
        float,
        Meta(ge=0.01, le=10_000, description="ms of round-trip time at which nearness is half"),
    ] = HALF_MS
    app: Annotated[
        bool,
        Meta(description="pods without the annotation are near to the other pods of their app"),
    ] = False


class Nearness(DomainPlugin[_State]):
    """Prefers clusters near to what the pod names."""

    name: ClassVar[str] = "Nearness"
    keyed_by_template = True

    def __init__(self, half_ms: float, app: bool) -> None:
        self._half_ms = half_ms
        self._app = app

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The annotation, and what a name in it or an app rests on."""
        return near_key(self._near(pod_info.pod), pod_info)

    def _near(self, pod: Pod) -> Near | None:
        """What the pod is to be near to."""
        own = self._app and names.NEAR not in pod.annotations and bool(pod.app_labels)
        return OWN_APP if own else near_of(pod)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """Points of each cluster as things stand; SKIP for a pod that names nothing."""
        near = self._near(pod_info.pod)
        if near is None:
            return SKIP
        there = clusters_with(near, pod_info, fleet)
        what = str(near)
        zone = near.name if near.kind == nearness.ZONE else ""
        if not there.any():
            return _State(what, there, np.zeros(len(there)), zone)
        rtt = fleet.links.rtt_ms()
        if near.kind in (APP, nearness.SERVICE):
            return _State(what, there, to_many(rtt, there.astype(np.float64), self._half_ms))
        points = to_nearest(rtt, there > 0, self._half_ms)
        return _State(what, there, points * (1.0 - _IN_ZONE / 100.0) if zone else points, zone)

    def score_parts(self, state: _State, fleet: FleetView) -> Sequence[Part]:
        """By cluster, and the zone's own nodes."""
        parts = [Part(fleet.topology.domain(CLUSTER_KEY), np.append(state.by_cluster, 0.0))]
        if state.zone:
            values = fleet.topology.domain_values(ZONE_KEY)
            inside = [_IN_ZONE if value == state.zone else 0.0 for value in values]
            parts.append(Part(fleet.topology.domain(ZONE_KEY), np.asarray([*inside, 0.0])))
        return parts

    def explain(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What it is near to, the nearest cluster that has it, and the round-trip time to that with
        age and source.
        """
        if not state.there.any():
            return {"near": state.what, "found": "nowhere" + _meant(state.what, fleet)}
        here = int(fleet.nodes.cluster[row])
        there = state.there > 0
        return {"near": state.what, **way_between(fleet, here, nearest_of(fleet, here, there))}


def _meant(what: str, fleet: FleetView) -> str:
    kind, _, name = what.partition("/")
    if kind != nearness.CLUSTER:
        return ""
    close = get_close_matches(name, [info.name for info in fleet.clusters], 1)
    return f"; did you mean cluster/{close[0]}?" if close else ""
