"""A mirrored status within its bytes: the target's API server may hold what its kubelets, or it,
like to write.

What a kubelet writes of up to ten containers is far within them, also with the messages that
containers leave behind (4 KiB each). Of more, what is less needed goes first, and `message` says
so.
"""

from typing import Any

import msgspec

from shared.kube.verdicts import cut

Object = dict[str, Any]

MAX_BYTES = 32 * 1024  # of JSON
_MESSAGE = 4096  # bytes of a text: as much as kubelets take from a container that ends
_SHORT = 256  # bytes of a text where the whole is too large
_LISTED = 64  # entries of a list
_CONTAINERS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_NEEDED = ("name", "state", "ready", "started", "restartCount", "image", "imageID", "containerID")
_SHORTENED = f"of the delegate's status, more than {MAX_BYTES // 1024} KiB, parts are cut here"
_LEFT_OUT = (
    "the delegate's container statuses are left out here: its status has more than "
    f"{MAX_BYTES // 1024} KiB"
)


def bounded(status: Object) -> bytes:
    """As JSON, at most MAX_BYTES; ValueError where that cannot be."""
    for said, smaller in (("", _whole), (_SHORTENED, _shortened), (_LEFT_OUT, _without_containers)):
        smaller_status = smaller(status)
        if said:
            smaller_status["message"] = said
        encoded = msgspec.json.encode(smaller_status, order="deterministic")
        if len(encoded) <= MAX_BYTES:
            return encoded
    raise ValueError(
        f"it is larger than {MAX_BYTES // 1024} KiB without its container statuses, too"
    )


def _whole(status: Object) -> Object:
    cut_status: Object = _cut(status, _MESSAGE)
    return cut_status


def _shortened(status: Object) -> Object:
    needed = {
        kind: [{key: one[key] for key in _NEEDED if key in one} for one in status.get(kind) or ()]
        for kind in _CONTAINERS
        if status.get(kind)
    }
    cut_status: Object = _cut({**status, **needed}, _SHORT)
    return cut_status


def _without_containers(status: Object) -> Object:
    cut_status: Object = _cut({**status, **dict.fromkeys(_CONTAINERS)}, _SHORT)
    return cut_status


def _cut(value: Any, text: int) -> Any:
    if isinstance(value, str):
        return cut(value, text)
    if isinstance(value, dict):
        return {cut(key, _SHORT): _cut(inner, text) for key, inner in list(value.items())[:_LISTED]}
    if isinstance(value, list):
        return [_cut(inner, text) for inner in value[:_LISTED]]
    return value
