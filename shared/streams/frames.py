"""One frame of a connection between an agent and a gateway, as a binary WebSocket message.

    version u8 | kind u8 | flags u8 | stream u32 | payload, CHUNK bytes at most        (big endian)

A stream is one call: the gateway numbers it, and both directions use its number. A message longer
than CHUNK is sent as several frames, of which the last has the flag END; frames of other messages
may come in between.

A stream may also be *relayed*: bytes both ways, such as the log of a pod, opened by either end. Its
numbers are apart from those of calls (RELAYED; OPENED_BY_AGENT of those that the agent begins). Its
messages are one frame each, in the order in which they were sent. Either end may send STREAM_WINDOW
bytes of DATA that the other has not granted anew.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

VERSION = 1
CHUNK = 16 * 1024
# flags: the last of its message; counts against the window
END = 1
COUNTED = 2
STREAM_WINDOW = 256 * 1024  # of DATA of one relayed stream and direction
# bits of a stream's number
RELAYED = 0x8000_0000
OPENED_BY_AGENT = 0x4000_0000
_HEAD = struct.Struct("!BBBI")
_AMOUNT = struct.Struct("!I")


class ProtocolError(Exception):
    """The peer sent what no peer may send; the connection ends. The text says what."""


class FrameKind(IntEnum):
    """What a frame is part of. CREDIT is no message: its payload says how many counted bytes were
    taken.

    Of relayed streams: OPEN begins one, FINISH says that this end sends no more, GRANT that so many
    bytes of DATA were taken, RESET that it has ended before its end, and why.
    """

    CALL = 1
    ANSWER = 2
    FAULT = 3
    CANCEL = 4
    CREDIT = 5
    OPEN = 6
    DATA = 7
    FINISH = 8
    GRANT = 9
    RESET = 10


RELAY_KINDS = frozenset(
    (FrameKind.OPEN, FrameKind.DATA, FrameKind.FINISH, FrameKind.GRANT, FrameKind.RESET)
)


class Frame(NamedTuple):
    """One frame, decoded."""

    kind: FrameKind
    flags: int
    stream: int
    payload: bytes


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    return _HEAD.pack(VERSION, frame.kind, frame.flags, frame.stream) + frame.payload


def decode_frame(data: bytes) -> Frame:
    """A frame of a peer's bytes. ProtocolError: it is none, or of another version."""
    if len(data) < _HEAD.size:
        raise ProtocolError(f"a frame of {len(data)} bytes is too short")
    version, kind, flags, stream = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(
            f"frames of version {version}; this side speaks version {VERSION}: upgrade the older "
            "one"
        )
    if len(data) > _HEAD.size + CHUNK:
        raise ProtocolError(f"a frame of {len(data)} bytes is too long")
    try:
        return Frame(FrameKind(kind), flags, stream, data[_HEAD.size :])
    except ValueError:
        raise ProtocolError(f"a frame of the unknown kind {kind}") from None


def credit(taken: int) -> Frame:
    """Tells that so many counted bytes were taken."""
    return Frame(FrameKind.CREDIT, END, 0, amount(taken))


def credited(frame: Frame) -> int:
    """How many bytes a CREDIT frame tells of. ProtocolError."""
    return amount_of(frame.payload)


def amount(number: int) -> bytes:
    """A number of bytes, as CREDIT and GRANT tell it."""
    return _AMOUNT.pack(number)


def amount_of(payload: bytes) -> int:
    """The number of bytes that a payload tells of. ProtocolError."""
    if len(payload) != _AMOUNT.size:
        raise ProtocolError(f"a credit of {len(payload)} bytes")
    found: int = _AMOUNT.unpack(payload)[0]
    return found
