"""Better are clusters that are near to what the pod names, by the round-trip times between clusters.

`global-dispatcher.io/near` names it: `cluster/a`; `zone/x`; or `service/ns/name`, the pods that this Service of the
cluster of submission selects, wherever they run. With the argument `app`, pods that name nothing are near to the
other pods of their own app.

    nearness(rtt) = 100 * half_ms / (half_ms + rtt)       rtt: ms between two clusters, 0 within one
    cluster:  nearness to it
    zone:     3/4 of the nearness to the nearest cluster that has the zone, and 25 on nodes of the zone itself
    service, app: the mean of the nearness to their pods, each counted once, by the cluster where it runs

Unknown round-trip times are neither near nor far: such a cluster gets the mean of the other clusters of which it is
known, or 50. A name that the fleet does not know, or a service without pods, makes no difference between clusters.
Which times count: docs/links.md. Unit: ms. Source of the form: a hyperbola, so that 1 ms against 10 ms counts, and
100 ms against 110 ms hardly does, as with waiting for one answer beside `half_ms` of work; ours.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.model import names, nearness
from dispatcher.model.labels import LabelSelector
from dispatcher.model.nearness import Near, read_near
from dispatcher.model.objects import Service
from dispatcher.model.pod import Pod
from dispatcher.scheduling.framework import SKIP, DomainPlugin, FleetView, Floats, Ints, Part, Placed, Refuse, Skip
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.framework.pod_sets import PodSet, pods_beside, pods_in
from dispatcher.scheduling.rules.nearness import HALF_MS, nearest_of, to_many, to_nearest, way_between

_IN_ZONE = 25.0  # points of a zone's own nodes, the rest goes by cluster
_APP = "app"
_ZONE_KEY, _CLUSTER_KEY = "zone", "cluster"


@dataclass(frozen=True)
class _Ground:
    """`there`: [clusters] pods, or 1 for a cluster that has what is named. `by_cluster`: [clusters] points."""

    what: str
    there: Ints
    by_cluster: Floats
    zone: str = ""


class NearnessArgs(Args):
    """How fast nearness fades, and who is near to whom without saying so."""

    half_ms: Annotated[
        float, Meta(ge=0.01, le=10_000, description="ms of round-trip time at which nearness is half")
    ] = HALF_MS
    app: Annotated[bool, Meta(description="pods without the annotation are near to the other pods of their app")] = (
        False
    )


class Nearness(DomainPlugin[_Ground]):
    """Prefers clusters near to what the pod names."""

    name: ClassVar[str] = "Nearness"

    def __init__(self, half_ms: float, app: bool) -> None:
        self._half_ms, self._app = half_ms, app

    def class_key(self, placed: Placed) -> Hashable:
        """The annotation, and what a name in it or an app rests on."""
        near = self._near(placed.pod)
        if near is None:
            return None
        if near.kind == _APP:
            return near, placed.pod.namespace, frozenset(placed.pod.app_labels.items())
        return (near, placed.home) if near.kind == nearness.SERVICE else near

    def _near(self, pod: Pod) -> Near | None:
        """What the pod is to be near to; an annotation that cannot be read means nothing: its agent has said so."""
        text = pod.annotations.get(names.NEAR)
        if text is None:
            return Near(_APP, "") if self._app and pod.app_labels else None
        try:
            return read_near(text)
        except ValueError:
            return None

    def pre_filter(self, placed: Placed, fleet: FleetView) -> _Ground | Refuse | Skip:
        """Points of each cluster as things stand; SKIP for a pod that names nothing."""
        near = self._near(placed.pod)
        if near is None:
            return SKIP
        there = self._there(near, placed, fleet)
        what, zone = str(near).rstrip("/"), near.name if near.kind == nearness.ZONE else ""
        if not there.any():
            return _Ground(what, there, np.zeros(len(there)), zone)
        rtt = fleet.links.rtt_ms()
        if near.kind in (_APP, nearness.SERVICE):
            return _Ground(what, there, to_many(rtt, there.astype(np.float64), self._half_ms))
        points = to_nearest(rtt, there > 0, self._half_ms)
        return _Ground(what, there, points * (1.0 - _IN_ZONE / 100.0) if zone else points, zone)

    def _there(self, near: Near, placed: Placed, fleet: FleetView) -> Ints:
        """[clusters] of which number what is named is there."""
        if near.kind in (_APP, nearness.SERVICE):
            pods = pods_beside(placed.pod, None) if near.kind == _APP else _pods_of(near, placed, fleet)
            return _no_clusters(fleet) if pods is None else fleet.affinity.count_in(pods, _CLUSTER_KEY).copy()
        there = _no_clusters(fleet)
        if near.kind == nearness.CLUSTER:
            there[[at for at, info in enumerate(fleet.clusters) if info.name == near.name]] = 1
            return there
        values = list(fleet.topology.domain_values(_ZONE_KEY))
        if near.name in values:
            in_zone = fleet.nodes.live & (fleet.topology.domain(_ZONE_KEY) == values.index(near.name))
            there[np.unique(fleet.nodes.cluster[in_zone])] = 1
        return there

    def score_parts(self, state: _Ground, fleet: FleetView) -> Sequence[Part]:
        """By cluster, and the zone's own nodes."""
        parts = [Part(fleet.topology.domain(_CLUSTER_KEY), np.append(state.by_cluster, 0.0))]
        if state.zone:
            values = fleet.topology.domain_values(_ZONE_KEY)
            inside = [_IN_ZONE if value == state.zone else 0.0 for value in values]
            parts.append(Part(fleet.topology.domain(_ZONE_KEY), np.asarray([*inside, 0.0])))
        return parts

    def explain(self, state: _Ground, placed: Placed, fleet: FleetView, row: int) -> Mapping[str, Any]:
        """What it is near to, the nearest cluster that has it, and the round-trip time to that with age and source."""
        if not state.there.any():
            return {"near": state.what, "found": "nowhere" + _meant(state.what, fleet)}
        here, there = int(fleet.nodes.cluster[row]), state.there > 0
        return {"near": state.what, **way_between(fleet, here, nearest_of(fleet, here, there))}


def _no_clusters(fleet: FleetView) -> Ints:
    return np.zeros(len(fleet.clusters), dtype=np.int64)


def _pods_of(near: Near, placed: Placed, fleet: FleetView) -> PodSet | None:
    """The pods that a Service of the cluster of submission selects; None if there is none, or it selects none."""
    service = fleet.objects.of(placed.home, Service).get(f"{near.namespace}/{near.name}")
    if service is None or not service.selector:
        return None
    return pods_in(near.namespace, LabelSelector(dict(service.selector)))


def _meant(what: str, fleet: FleetView) -> str:
    kind, _, name = what.partition("/")
    if kind != nearness.CLUSTER:
        return ""
    close = get_close_matches(name, [info.name for info in fleet.clusters], 1)
    return f"; did you mean cluster/{close[0]}?" if close else ""
