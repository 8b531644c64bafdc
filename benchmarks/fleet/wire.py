"""Calls over one socket a cluster: a frame is a length, a call's number, what is called, and the
message's bytes.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

import msgspec

from dispatcher.service.links.link import AgentDied, Arrived, at_once, read, within
from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    decode,
    encode,
)
from shared.model.pod import Record

_HEAD = struct.Struct("<IIB")
_LIMIT, _BACKLOG = 2**22, 4096  # bytes; all clusters connect at once
HELLO, CHANGES, EXECUTE, PEERS = range(4)
_ASK = msgspec.msgpack.Encoder().encode
_ASKED = msgspec.msgpack.Decoder(tuple[str, int, float]).decode
M = TypeVar("M", bound=Record)
Answer = Callable[[str, int, bytes], Awaitable[bytes]]  # (cluster, what, message)


async def serve(path: str, answer: Answer) -> asyncio.Server:
    """Answer calls at a socket; the first line of a connection names the cluster."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cluster = (await reader.readline()).decode().strip()
        under_way: set[asyncio.Task[None]] = set()

        async def one(number: int, what: int, body: bytes) -> None:
            told = await answer(cluster, what, body)
            writer.write(_HEAD.pack(len(told), number, what) + told)

        try:
            while True:
                size, number, what = _HEAD.unpack(await reader.readexactly(_HEAD.size))
                task = asyncio.create_task(one(number, what, await reader.readexactly(size)))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            for task in under_way:
                task.cancel()
            writer.close()

    return await asyncio.start_unix_server(connected, path, limit=_LIMIT, backlog=_BACKLOG)


class SocketLink:
    """A `service.link.AgentLink` to a fake agent in another process."""

    executor_apart: bool | None = None

    def __init__(self, cluster: str, path: str) -> None:
        self.cluster, self._path = cluster, path
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        return await self._call(Hello, HELLO, b"", timeout_s)

    async def changes(
        self,
        incarnation: str,
        since: int,
        wait_s: float,
        *,
        timeout_s: float,
        arrived: Arrived = at_once,
    ) -> Changes:
        """What changed after `since`."""
        asked = self._ask(CHANGES, poll(incarnation, since, wait_s))
        told = await within(asked, timeout_s, self.cluster, Changes.__name__)
        await arrived(told)
        return read(Changes, told, self.cluster)

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        return await self._call(OutcomeBatch, EXECUTE, encode(batch), timeout_s)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show."""
        return await self._call(PeersAck, PEERS, encode(peers), timeout_s)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """Fake agents have no sources of live load."""
        return Telemetry(self.cluster)

    async def _call(self, kind: type[M], what: int, body: bytes, timeout_s: float) -> M:
        told = await within(self._ask(what, body), timeout_s, self.cluster, kind.__name__)
        return read(kind, told, self.cluster)

    async def _ask(self, what: int, body: bytes) -> bytes:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await asyncio.open_unix_connection(self._path, limit=_LIMIT)
                self._writer.write(f"{self.cluster}\n".encode())
                self._reader = asyncio.create_task(self._follow(reader))
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(_HEAD.pack(len(body), number, what) + body)
        try:
            told: bytes = await answer
            return told
        finally:
            self._waiting.pop(number, None)

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                size, number, _ = _HEAD.unpack(await reader.readexactly(_HEAD.size))
                told = await reader.readexactly(size)
                waiting = self._waiting.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(told)
        except (asyncio.IncompleteReadError, ConnectionError):
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(AgentDied(f"agent of cluster {self.cluster} is gone"))


def poll(incarnation: str, since: int, wait_s: float) -> bytes:
    """The body of a call of CHANGES."""
    return _ASK((incarnation, since, wait_s))


def poll_asked(body: bytes) -> tuple[str, int, float]:
    """(incarnation, since, wait in seconds) of a call of CHANGES."""
    return _ASKED(body)


__all__ = [
    "CHANGES",
    "EXECUTE",
    "HELLO",
    "PEERS",
    "SocketLink",
    "decode",
    "encode",
    "poll",
    "poll_asked",
    "serve",
]
