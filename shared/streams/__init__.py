"""Many calls over one connection: frames, and what is sent next. Data and rules alone; sockets are
elsewhere.
"""

from shared.streams.frames import Frame, FrameKind, ProtocolError, decode_frame, encode_frame
from shared.streams.multiplexer import Message, Multiplexer, Priority

__all__ = [
    "Frame",
    "FrameKind",
    "Message",
    "Multiplexer",
    "Priority",
    "ProtocolError",
    "decode_frame",
    "encode_frame",
]
