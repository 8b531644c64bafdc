"""Warning events about a delegate, as they go home with its status.

Reports and `MirrorStatus` carry a delegate's status as its API server has it (pods/status, raw
JSON). Its events are one more member before the others, which no PodStatus has, so that who knows
nothing of them passes them by:

    {"phase":"Pending"} {"events":[{"reason":"FailedMount","message":"no such
    claim","count":4,"at":1.7e9}],"phase":"Pending"}
"""

from collections.abc import Iterable

import msgspec

MAX_EVENTS = 8  # of one delegate
# characters, of which a message has up to four bytes each; longer ones are cut
MAX_REASON = 128
MAX_MESSAGE = 800
_START = b'{"events":'


class DelegateEvent(msgspec.Struct, frozen=True, gc=False):
    """What happened at least `count` times, a power of two, and when last (unix seconds, as of that
    count).
    """

    reason: str
    message: str
    count: int = 1
    at: float = 0.0


class _Told(msgspec.Struct, gc=False):
    events: list[DelegateEvent]


class _Raw(msgspec.Struct, gc=False):
    events: msgspec.Raw


_decode = msgspec.json.Decoder(_Told).decode
_decode_raw = msgspec.json.Decoder(_Raw).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode = msgspec.json.Encoder().encode


def event(reason: str, message: str, count: int, at: float) -> DelegateEvent:
    """With its texts cut, and the count rounded down to a power of two: 5 of the same are told as
    4, and 8 next.
    """
    return DelegateEvent(
        reason[:MAX_REASON], message[:MAX_MESSAGE], 1 << (max(count, 1).bit_length() - 1), at
    )


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
    rest = status[1:].lstrip()
    return _START + _encode(list(events)) + (b"" if rest.startswith(b"}") else b",") + rest


def without_events(status: bytes) -> bytes:
    """The status that `with_events` was given."""
    if not status.startswith(_START):
        return status
    try:
        events = _decode_raw(status).events
    except _UNREADABLE:
        return status
    return b"{" + status[len(_START) + len(bytes(events)) :].removeprefix(b",")


def events_of(status: bytes) -> list[DelegateEvent]:
    """The events in a status, MAX_EVENTS at most; none where they cannot be read."""
    if not status.startswith(_START):
        return []
    try:
        told = _decode(status).events
    except _UNREADABLE:
        return []
    return [event(one.reason, one.message, one.count, one.at) for one in told[:MAX_EVENTS]]
