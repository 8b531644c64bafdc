"""Events of core/v1 about pods, reduced to what their owner is told."""

import msgspec
from msgspec.json import Decoder

from agents.kube import wire
from agents.kube.convert import unix_seconds, version_of
from agents.observer.seen import EventSeen
from shared.model.delegate_events import event

PATH = "/api/v1/events"
# What the API server sends of all events.
WARNINGS_OF_PODS = "involvedObject.kind=Pod,type=Warning"
NORMAL_OF_PODS = "involvedObject.kind=Pod,type=Normal,source=kubelet"


class _Regarding(wire.Wire):
    uid: str = ""
    namespace: wire.Text = None
    name: wire.Text = None


class _Series(wire.Wire):
    count: wire.Int | None = None
    last_observed_time: wire.Text = None


class _Event(wire.Wire):
    """core/v1 Event; `count` in older ones, `series` in those of events.k8s.io."""

    metadata: wire.BareMeta
    involved_object: _Regarding = msgspec.field(default_factory=_Regarding)
    type: wire.Text = None
    reason: wire.Text = None
    message: wire.Text = None
    count: wire.Int | None = None
    series: _Series | None = None
    last_timestamp: wire.Text = None
    event_time: wire.Text = None


_decode = Decoder(_Event).decode


def event_seen(raw: bytes | msgspec.Raw) -> EventSeen | None:
    """None for what cannot be read, or is about no pod: nobody is told of it."""
    try:
        told = _decode(raw)
    except wire.BROKEN:
        return None
    about = told.involved_object
    if not about.uid:
        return None
    series = told.series or _Series()
    count = max(told.count or 1, series.count or 1)
    at = next(
        filter(
            None,
            map(unix_seconds, (series.last_observed_time, told.last_timestamp, told.event_time)),
        ),
        0.0,
    )
    normal = told.type == "Normal"
    made = event(told.reason or "", told.message or "", count, at, normal=normal)
    version = version_of(told.metadata.resource_version)
    return EventSeen(
        told.metadata.uid, version, about.uid, about.namespace or "", about.name or "", made
    )
