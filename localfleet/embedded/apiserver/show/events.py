"""core/v1 and events.k8s.io/v1 Events: two views of the same stored object."""

from localfleet.embedded.apiserver.status import Object

# core/v1 path -> events.k8s.io/v1 name; everything else has one name in both
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OMITTED = frozenset({"reportingController", "reportingInstance"})
_BACK = {new: old for old, new in _RENAMED.items()}


def core_path(field: str) -> str:
    """Where a field of events.k8s.io/v1 is stored: "regarding.name" -> "involvedObject.name"."""
    first, dot, rest = field.partition(".")
    return _BACK.get(first, first) + dot + rest


def to_core(obj: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1, which is how events are stored."""
    return {_BACK.get(key, key): value for key, value in obj.items()} | {"apiVersion": "v1"}


def from_core(obj: Object) -> Object:
    """A stored Event as events.k8s.io/v1."""
    renamed = {_RENAMED.get(key, key): value for key, value in obj.items()} | {
        "apiVersion": "events.k8s.io/v1"
    }
    return {key: value for key, value in renamed.items() if value or key not in _OMITTED}
