"""The calls that are under way on one cluster's connection, and its relayed streams."""

import asyncio
from collections.abc import Callable
from itertools import count

from dispatcher.service.gateway.splices import Objection, RelayLine
from dispatcher.service.links.link import AgentDied, AgentFault
from shared.streams import FrameKind, Message, Priority
from shared.streams.calls import PRIORITIES, Call, encode_call
from shared.streams.connection import Connection, Socket
from shared.streams.frames import RELAY_KINDS


class AgentConnection:
    """One connection, from the dispatcher's end. Of an agent's frames those of calls that wait are
    kept alone.
    """

    def __init__(
        self,
        cluster: str,
        socket: Socket,
        find: Callable[[str], RelayLine | str],
        objection: Objection,
    ) -> None:
        """`find` and `objection` are as of RelayLine."""
        self._cluster, self._connection = (
            cluster,
            Connection(socket, wanted=lambda stream: stream in self._waiting),
        )
        self.relayed = RelayLine(cluster, self._connection, find, objection)
        # Unix time, s: when the certificate ends that the agent has shown; 0: not known
        self.until = 0.0
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def call(self, call: Call) -> bytes:
        """The answer's bytes. AgentDied: the connection ended, what the agent did is unknown;
        AgentFault.
        """
        stream = next(self._numbers) & 0x7FFFFFFF
        answer = self._waiting[stream] = asyncio.get_running_loop().create_future()
        self._connection.send(
            Message(FrameKind.CALL, stream, encode_call(call)), PRIORITIES[call.method]
        )
        try:
            body: bytes = await answer
            return body
        finally:
            del self._waiting[stream]
            if answer.cancelled():  # given up: the agent need not go on either
                self._connection.drop(stream)
                self._connection.forget(stream)
                self._connection.send(Message(FrameKind.CANCEL, stream, b""), Priority.CONTROL)

    async def run(self) -> None:
        """Hand out answers until the connection ends. ProtocolError, ConnectionError."""
        try:
            async for message in self._connection.messages():
                if message.kind in RELAY_KINDS:
                    self.relayed.take(message)
                else:
                    self._take(message)
        finally:
            self.relayed.close(f"the connection of cluster {self._cluster} to the dispatcher ended")
            for answer in self._waiting.values():
                if not answer.done():
                    gone = AgentDied(
                        f"agent of cluster {self._cluster}: the connection ended before it answered"
                    )
                    answer.set_exception(gone)

    def _take(self, message: Message) -> None:
        answer = self._waiting.get(message.stream)
        if answer is None or answer.done():
            return  # given up meanwhile
        if message.kind is FrameKind.ANSWER:
            answer.set_result(message.body)
        elif message.kind is FrameKind.FAULT:
            said = message.body.decode("utf-8", "replace")[:300]
            answer.set_exception(AgentFault(f"agent of cluster {self._cluster} failed: {said}"))
