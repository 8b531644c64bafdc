"""What the API server is told when an exec or attach over SPDY/3.1 breaks off, so that kubectl does
not end with 0.

Whoever runs a command reads how it ended from a stream of its own, the error stream, and takes a
connection that closes without a word there for success. So the connection is followed frame by
frame, and where it breaks off between two frames, a last one says that the command was lost.
WebSockets need nothing of this: there kubectl takes a cut for one.

A frame is a head of 8 bytes, of which the last 3 are the length of what follows; in a data frame
the first 4 are the stream's number, and the fifth has the flag FIN (SPDY Protocol, draft 3.1,
sections 2.2 and 2.6). Clients of remotecommand make the error stream first (createStreams of its
protocol v2 in client-go), so its number is 1; since `v4.channel.k8s.io` a Status in JSON is read
from it.
"""

import json
import struct

ERROR_STREAM = 1
FIN = 0x01
# Stream, or the kind of a control frame with the highest bit; flags; length, of 8 and 16 bits.
_HEAD = struct.Struct(">IBBH")


class Frames:
    """Follows what the command's side says. `said` whether it has told how the command ended."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self.said = False

    def follow(self, data: bytes) -> None:
        """The next bytes, cut anywhere."""
        at = 0
        while at < len(data):
            skipped = min(self._left, len(data) - at)
            self._left = self._left - skipped
            at = at + skipped
            taken = data[at : at + _HEAD.size - len(self._head)] if not self._left else b""
            self._head += taken
            at += len(taken)
            if len(self._head) == _HEAD.size:
                stream, flags, high, low = _HEAD.unpack(self._head)
                self._left = high << 16 | low
                self.said |= stream == ERROR_STREAM and bool(
                    self._left or flags & FIN
                )  # kubelets send no FIN with it
                self._head.clear()

    def farewell(self, why: str) -> bytes:
        """The frame that says that the command was lost; b'' where it would be read as part of
        another, or too late.
        """
        if self.said or self._head or self._left:
            return b""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
        }
        body = json.dumps(
            status | {"code": 500, "message": f"the connection to the pod's cluster broke: {why}"}
        ).encode()
        return _HEAD.pack(ERROR_STREAM, FIN, len(body) >> 16, len(body) & 0xFFFF) + body
