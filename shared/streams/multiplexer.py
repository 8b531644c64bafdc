"""What is sent next on a connection, and what has arrived: small urgent messages never wait behind
large ones.

Messages are cut into frames of 16 KiB. The next frame is of the most urgent message; messages of
one priority take turns. Reports and what is less urgent are *counted*: at most `window` bytes of
them are on the way, that is sent and not yet said to be taken, so that what a slow network still
has to carry before an urgent message is bounded.

Example, window 32 KiB: a report of 100 KiB is queued, then an order of 1 KiB. Two frames of the
report leave (32 KiB) before the order comes; the order is the next frame, since it is more urgent
and not counted; then nothing, until the peer has taken 16 KiB and says so, and the third frame of
the report leaves.

Relayed streams come last, and may use half of the window: they never hold up the rest. Their
messages are not cut and keep their order; each counts for LEAST bytes at least.

The shape is that of HTTP/2 (RFC 9113, sections 5.2 and 5.3), with one window a connection and fixed
priorities.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from shared.model.bounds import MAX_BYTES
from shared.streams.frames import (
    CHUNK,
    COUNTED,
    END,
    RELAY_KINDS,
    Frame,
    FrameKind,
    ProtocolError,
    credit,
    credited,
    decode_frame,
    encode_frame,
)

WINDOW = 256 * 1024
MAX_STREAMS = 1024  # messages of which a part has arrived
_SHORT = RELAY_KINDS - {FrameKind.DATA}  # bring no data, however long they are
# bytes that a frame of a relayed stream counts for: many small ones take their reader long
LEAST = 512
_PART = 64  # bytes that a part takes beside its payload


class Priority(IntEnum):
    """Lower goes first. From CHANGES on messages are counted."""

    CONTROL = 0
    INTENTS = 1
    CHANGES = 2
    TELEMETRY = 3
    RELAY = 4


class Message(NamedTuple):
    """A whole message."""

    kind: FrameKind
    stream: int
    body: bytes


class _Sending:
    """A message that is being sent."""

    __slots__ = ("at", "counted", "message")

    def __init__(self, message: Message, *, counted: bool) -> None:
        self.message = message
        self.counted = counted
        self.at = 0

    def next(self, most: int) -> Frame:
        kind, stream, body = self.message
        payload = body[self.at : self.at + most]
        self.at += len(payload)
        return Frame(
            kind,
            (END if self.at >= len(body) else 0) | (COUNTED if self.counted else 0),
            stream,
            payload,
        )


class Multiplexer:
    """Both directions of one connection. Nothing here waits; the caller sends `next_frame` until it
    is None.
    """

    def __init__(
        self,
        window: int = WINDOW,
        max_message: int = MAX_BYTES,
        wanted: Callable[[int], bool] | None = None,
    ) -> None:
        """`wanted` says of which streams parts are kept; None: of all."""
        self._window = window
        self._max_message = max_message
        self._wanted = wanted
        self.little = 0  # frames that came and brought little, or nothing that was asked for
        self._queues: tuple[deque[_Sending], ...] = tuple(deque() for _ in Priority)
        self._on_the_way = 0  # counted bytes, sent and not yet taken
        self._untold = 0  # counted bytes that we took and have not told of
        self._parts: dict[int, list[bytes]] = {}
        self._held = 0  # bytes of _parts

    # --- sending
    # ----------------------------------------------------------------------------------------------

    def send(self, message: Message, priority: Priority) -> None:
        """Queue a message; one a stream at a time, but for relayed streams, whose messages are
        CHUNK bytes at most.
        """
        self._queues[priority].append(_Sending(message, counted=priority >= Priority.CHANGES))

    @property
    def urgent(self) -> int:
        """How many messages wait that go before all others."""
        return len(self._queues[Priority.CONTROL])

    def drop(self, stream: int) -> bool:
        """Send nothing more of what is queued of a stream; whether there was something."""
        found = [
            (queue, one) for queue in self._queues for one in queue if one.message.stream == stream
        ]
        for queue, one in found:
            queue.remove(one)
        return bool(found)

    def next_frame(self) -> bytes | None:
        """The next frame to send; None while there is nothing, or nothing that the window lets go."""
        if self._untold * 2 >= self._window:
            frame = credit(self._untold)
            self._untold = 0
            return encode_frame(frame)
        for queue in self._queues:
            if queue and (most := self._allowed(queue[0])):
                return encode_frame(self._cut(queue, most))
        return None

    def _allowed(self, sending: _Sending) -> int:
        if not sending.counted:
            return CHUNK
        if sending.message.kind in RELAY_KINDS:
            # While less than half of the window is on the way: the rest is left for reports. The
            # last frame may pass half, which the peer has to take before it sends CREDIT: else both
            # ends could wait for each other.
            return CHUNK if self._on_the_way * 2 < self._window else 0
        return min(CHUNK, self._window - self._on_the_way)

    def _cut(self, queue: deque[_Sending], most: int) -> Frame:
        sending = queue.popleft()
        frame = sending.next(most)
        if sending.counted:
            self._on_the_way += _weight(frame)
        if not frame.flags & END:
            queue.append(sending)
        return frame

    # --- receiving
    # ----------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Message | None:
        """Take a frame; the message that it completes, if any. ProtocolError: the connection must
        end.
        """
        frame = decode_frame(data)
        wanted = self._wanted is None or frame.kind in RELAY_KINDS or self._wanted(frame.stream)
        if len(frame.payload) < CHUNK // 2 or not wanted or frame.kind in _SHORT:
            self.little += 1
        if frame.kind == FrameKind.CREDIT:
            self._on_the_way -= credited(frame)
            if self._on_the_way < 0:
                raise ProtocolError("the peer took more than was sent")
            return None
        if frame.flags & COUNTED:
            self._untold += _weight(frame)
            if self._untold > self._window:
                raise ProtocolError(f"the peer sent more than {self._window} bytes without leave")
        if frame.kind in RELAY_KINDS:
            return _whole(frame)
        if not wanted:
            self.forget(frame.stream)  # what came of it before it was given up
            return None
        return self._joined(frame)

    def _joined(self, frame: Frame) -> Message | None:
        if frame.kind == FrameKind.CANCEL:
            self.forget(frame.stream)
            return Message(FrameKind.CANCEL, frame.stream, frame.payload)
        if not frame.payload and not frame.flags & END:
            raise ProtocolError("an empty part of a message")
        parts = self._parts.setdefault(frame.stream, [])
        parts.append(frame.payload)
        self._held += len(frame.payload) + _PART
        if self._held > self._max_message or len(self._parts) > MAX_STREAMS:
            raise ProtocolError(
                "the peer sent more than is held for it: too long a message, or too many at once"
            )
        if not frame.flags & END:
            return None
        self.forget(frame.stream)
        return Message(frame.kind, frame.stream, parts[0] if len(parts) == 1 else b"".join(parts))

    def forget(self, stream: int) -> None:
        """Keep nothing of a message of which a part has arrived."""
        self._held -= sum(len(part) + _PART for part in self._parts.pop(stream, ()))


def _weight(frame: Frame) -> int:
    """What it counts against the window."""
    return max(len(frame.payload), LEAST) if frame.kind in RELAY_KINDS else len(frame.payload)


def _whole(frame: Frame) -> Message:
    if not frame.flags & END:
        raise ProtocolError("a part of a message of a relayed stream")
    return Message(frame.kind, frame.stream, frame.payload)
