"""The Ray driver's side of the connection: the dispatcher's calls to actors, in a process that has no key to lose."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from dispatcher.service.link import AgentDied, AgentFault, LinkError, Word
from dispatcher.service.ray_caller import RayCaller, first_line
from dispatcher.service.ray_driver.connection import BadMessage, Connection
from dispatcher.service.ray_driver.messages import (
    Alive,
    Answer,
    Beat,
    Call,
    Cancel,
    Failure,
    Ready,
    Setup,
    ToDriver,
    decode_to_driver,
    failure,
    target_of,
)
from dispatcher.service.ray_runtime import joined_actor
from shared.version import version

log = structlog.get_logger("ray-driver")

Way = Callable[[Call], Awaitable[bytes]]
_OWNER_AND_GROUP = 0o660


class Session:
    """One dispatcher's connection."""

    def __init__(self, over: Callable[["Session"], None]) -> None:
        self.connection = Connection(decode_to_driver, self._take, self._lost)
        self._over = over
        self._ways: Mapping[str, Way] | None = None
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def _take(self, message: ToDriver) -> None:
        match message:
            case Call():
                if not all(isinstance(word, Word) for word in message.words):
                    raise BadMessage(f"{message.method} of {message.target} with words that no actor is sent")
                task = asyncio.create_task(self._answer(message), name=f"{message.method} of {message.target}")
                self._under_way[message.number] = task
                task.add_done_callback(partial(self._done, message.number))
            case Beat():
                self.connection.send(Alive())
            case Cancel():
                if (task_of := self._under_way.get(message.number)) is not None:
                    task_of.cancel()
            case Setup():
                self._begin(message)

    def _done(self, number: int, task: asyncio.Task[None]) -> None:
        self._under_way.pop(number, None)
        if task.cancelled():  # each call is answered once
            self.connection.send(failure(number, AgentDied("it was given up")))

    def _begin(self, setup: Setup) -> None:
        if self._ways is not None:
            raise BadMessage("a second setup")
        self._ways = {target_of(cluster): _agent(cluster) for cluster in setup.clusters}
        self.connection.send(Ready(version()))
        log.info("a dispatcher is connected", version=setup.build, clusters=len(setup.clusters))

    async def _answer(self, call: Call) -> None:
        reply: Answer | Failure
        try:
            reply = Answer(call.number, await self._way(call))
        except LinkError as error:
            reply = failure(call.number, error)
        except Exception as error:  # whatever an actor has made Ray raise
            reply = failure(call.number, AgentFault(f"{call.method} of {call.target}: {first_line(error)}"))
        try:
            self.connection.send(reply)
        except BadMessage as error:
            self.connection.send(failure(call.number, AgentFault(f"{call.method} of {call.target}: {error}")))

    def _way(self, call: Call) -> Awaitable[bytes]:
        if (way := (self._ways or {}).get(call.target)) is None:
            raise AgentFault(f"{call.target} is none of what the dispatcher has said that it calls")
        return way(call)

    def _lost(self, why: str) -> None:
        log.info("the dispatcher is gone", reason=why)
        for task in self._under_way.values():
            task.cancel()
        self._over(self)


def _agent(cluster: str) -> Way:
    caller = RayCaller(cluster, partial(joined_actor, cluster))
    return lambda call: caller.call(call.method, call.timeout_s, *call.words)


def _bound(path: Path) -> socket.socket:
    if path.is_socket():
        path.unlink()
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~_OWNER_AND_GROUP)
    try:
        made.bind(str(path))
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


class Server:
    """Serves one dispatcher at a time: the latest, as one that is gone may look connected still."""

    def __init__(self) -> None:
        self.session: Session | None = None

    def accept(self) -> Connection:
        """A connection has come."""
        earlier = self.session
        self.session = Session(self._over)
        if earlier is not None:
            earlier.connection.end("another dispatcher has connected")
        return self.session.connection

    def _over(self, session: Session) -> None:
        if self.session is session:
            self.session = None

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """At a socket for this user and this group, meanwhile; what an earlier life has left there goes. OSError."""
        server = await asyncio.get_running_loop().create_unix_server(self.accept, sock=_bound(path))
        log.info("the Ray driver listens", socket=str(path))
        try:
            yield
        finally:
            server.close()
            if self.session is not None:
                self.session.connection.end("the Ray driver ends")
