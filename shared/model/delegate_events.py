"""Events about a delegate, as they go home with its status.

Reports and `MirrorStatus` carry a delegate's status as its API server has it (pods/status, raw
JSON). Its events are members before the others, which no PodStatus has, so that who knows nothing
of them passes them by: Warnings, and what its kubelet says of its containers beside (NORMAL), which
agents of an older version do not know.

    {"phase":"Pending"} {"events":[{"reason":"FailedMount","message":"no such
    claim","count":4,"at":1.7e9}],"normal":[{"reason":"Pulled",...}],"phase":"Pending"}
"""

from collections.abc import Iterable

import msgspec

MAX_EVENTS = 8  # of one delegate
MAX_NORMAL = 12  # likewise: Pulling, Pulled, Created and Started of three containers
# characters, of which a message has up to four bytes each; longer ones are cut
MAX_REASON = 128
MAX_MESSAGE = 800
MAX_NORMAL_MESSAGE = 256
# Of what kubelets (pkg/kubelet/events) tell of a pod that goes on: the reasons that are shown at
# home. Where it was placed the dispatcher tells there.
NORMAL = frozenset(
    (
        "Pulling",
        "Pulled",
        "Created",
        "Started",
        "Killing",
        "BackOff",
        "SandboxChanged",
        "ResizeStarted",
        "ResizeCompleted",
    )
)
_START = b'{"events":'
_NORMAL = b',"normal":'


class DelegateEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What happened at least `count` times, a power of two, and when last (unix seconds, as of that
    count). `normal`: it is no Warning.
    """

    reason: str
    message: str
    count: int = 1
    at: float = 0.0
    normal: bool = False


class _Told(msgspec.Struct, gc=False):
    events: list[DelegateEvent]
    normal: list[DelegateEvent] = []


class _Raw(msgspec.Struct, gc=False):
    events: msgspec.Raw
    normal: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Told).decode
_decode_raw = msgspec.json.Decoder(_Raw).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode = msgspec.json.Encoder().encode


def event(
    reason: str, message: str, count: int, at: float, *, normal: bool = False
) -> DelegateEvent:
    """With its texts cut, and the count rounded down to a power of two: 5 of the same are told as
    4, and 8 next.
    """
    most = MAX_NORMAL_MESSAGE if normal else MAX_MESSAGE
    told = 1 << (max(count, 1).bit_length() - 1)
    return DelegateEvent(reason[:MAX_REASON], message[:most], told, at, normal)


def goes_on(one: DelegateEvent, count: int, at: float) -> bool:
    """Whether this is more than what was known of it, so many times and so late.

    A count that fell, at a later time, is of an event that was made anew: API servers keep each for
    an hour. The time alone says nothing, since it is another after a restart of who observes.
    """
    return one.count > count or (one.count < count and one.at > at)


def with_events(status: bytes, events: Iterable[DelegateEvent]) -> bytes:
    """A status without events, and these; one that is no JSON object stays as it is."""
    if not status.startswith(b"{"):
        return status
    every = list(events)
    normal = [msgspec.structs.replace(one, normal=False) for one in every if one.normal]
    rest = status[1:].lstrip()
    told = _START + _encode([one for one in every if not one.normal])
    told += _NORMAL + _encode(normal) if normal else b""
    return told + (b"" if rest.startswith(b"}") else b",") + rest


def without_events(status: bytes) -> bytes:
    """The status that `with_events` was given."""
    if not status.startswith(_START):
        return status
    try:
        read = _decode_raw(status)
    except _UNREADABLE:
        return status
    told = _START + bytes(read.events)
    if bytes(read.normal) and status.startswith(told + _NORMAL):
        told += _NORMAL + bytes(read.normal)
    return b"{" + status[len(told) :].removeprefix(b",")


def events_of(status: bytes) -> list[DelegateEvent]:
    """The Warnings in a status, MAX_EVENTS at most; none where they cannot be read."""
    return [one for one in all_events_of(status) if not one.normal]


def all_events_of(status: bytes) -> list[DelegateEvent]:
    """The Warnings in a status, and then what else its kubelet has told, MAX_NORMAL at most,
    whoever has written it; none where they cannot be read.
    """
    if not status.startswith(_START):
        return []
    try:
        told = _decode(status)
    except _UNREADABLE:
        return []
    warnings = [
        event(one.reason, one.message, one.count, one.at) for one in told.events[:MAX_EVENTS]
    ]
    return warnings + [
        event(one.reason, one.message, one.count, one.at, normal=True)
        for one in told.normal[:MAX_NORMAL]
        if one.reason in NORMAL
    ]
