"""The dispatcher's way to actors on Ray by the Ray driver, a process without keys: this one never imports Ray.

Ray unpickles what actors answer, so whoever runs code in an actor runs it in the process that asks. That process is the
driver; here only bytes and texts arrive, each message checked (`messages`).
"""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, suppress
from itertools import count

from dispatcher.service.beside import beside
from dispatcher.service.gateway.sparing_log import SparingLog
from dispatcher.service.link import AgentDied, AgentFault, AgentTimeout, Word
from dispatcher.service.ray_driver.connection import BadMessage, Connection
from dispatcher.service.ray_driver.messages import (
    BEAT_S,
    ERRORS,
    Alive,
    Answer,
    Beat,
    Call,
    Cancel,
    Failure,
    Ready,
    Setup,
    ToDispatcher,
    decode_to_dispatcher,
    target_of,
)
from dispatcher.service.ray_link import RayLink
from dispatcher.service.signing import Sealer
from shared.model.backoff import Backoff
from shared.version import version

_GREET_S = 5.0  # for the driver to take a connection, and to be ready
_FIRST_S = 10.0  # at first, for a driver that begins when this process does: calls wait for it
_UNHEARD = 10  # beats that nothing came to: it hangs
_LASTS_S = 10.0  # a connection that ends sooner counts as a failure
_PAUSES = Backoff(0.1, 2.0)
_FIND_S = 10.0  # for the driver to find an agent's actor; and this much above its own limits
_MOST_UNSENT = 64 * 2**20
_LONGEST_WHY = 300  # characters
_MOST_UNANSWERED = 10_000  # calls, those that were given up among them


class RayDriver:
    """The connection to the driver at the socket `path`, made again when it is lost.

    `clusters` are those whose agents are actors.
    """

    def __init__(self, path: str, clusters: Iterable[str]) -> None:
        self._path = path
        self._setup = Setup(version(), tuple(clusters))
        self._connection: Connection | None = None  # once the driver is ready
        self._tried = asyncio.Event()
        self._problem = "it has not been tried yet"
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[bytes]] = {}  # of this connection, not answered; given up ones, too
        self._beats = 0  # not answered
        self._log = SparingLog(most=5)

    def link(self, cluster: str, sealer: Sealer) -> RayLink:
        """To the actor of a cluster, which its own agent has made."""
        return RayLink(_DriverCaller(cluster, self), sealer)

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Be connected meanwhile, as far as the driver is there."""
        return beside(self._run, "the Ray driver is connected")

    async def call(self, target: str, method: str, words: tuple[Word, ...], timeout_s: float, within_s: float) -> bytes:
        """What the actor answers. LinkError; AgentTimeout, too, where the driver itself says nothing in `within_s`."""
        connection = await self._connected()
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            connection.send(Call(number, target, method, timeout_s, words))
            async with asyncio.timeout(within_s):
                body: bytes = await answer
            return body
        except BadMessage as error:  # nothing was sent
            del self._asked[number]
            raise AgentFault(f"{method} of {target}: {error}") from None
        except TimeoutError:
            connection.send(Cancel(number))
            raise AgentTimeout(f"the Ray driver did not answer {method} of {target} within {within_s:g} s") from None
        except asyncio.CancelledError:
            connection.send(Cancel(number))
            raise

    async def _connected(self) -> Connection:
        if self._connection is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_S + 2 * _GREET_S):
                    await self._tried.wait()
        if self._connection is None:
            raise AgentDied(f"the Ray driver at {self._path} cannot be used: {self._problem}")
        return self._connection

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        patient_until = loop.time() + _FIRST_S
        while True:
            begun = loop.time()
            problem = await self._one_connection()
            failures = 1 if loop.time() - begun > _LASTS_S else failures + 1
            if self._tried.is_set() or loop.time() >= patient_until:
                self._tell(problem)
            await asyncio.sleep(_PAUSES.after(failures))

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            self._log.warning(
                "the Ray driver cannot be used",
                socket=self._path,
                problem=problem,
                fix="see its log; `global-dispatcher ray-driver --socket` with this path has to run beside",
            )
        self._problem = problem
        self._tried.set()

    async def _one_connection(self) -> str:
        """Why it has ended, or could not be made."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()

        def lost(why: str) -> None:
            why = _printable(why[:_LONGEST_WHY])  # it may quote what the driver sent
            if not ended.done():
                ended.set_result(why)
            self._lose(why)

        def take(message: ToDispatcher) -> None:
            self._take(connection, message)

        connection = Connection(decode_to_dispatcher, take, lost, _MOST_UNSENT)
        try:
            async with asyncio.timeout(_GREET_S):
                await loop.create_unix_connection(lambda: connection, self._path)
        except OSError as error:  # TimeoutError is one
            return error.strerror or str(error) or "it takes no connection"
        begun = loop.time()
        try:
            connection.send(self._setup)
            while not ended.done():
                connection.unheard += 1
                self._beats += 1
                connection.send(Beat())
                await asyncio.wait([ended], timeout=BEAT_S)
                if connection.unheard > _UNHEARD:
                    connection.end(f"it has said nothing for {_UNHEARD * BEAT_S:g} s")
                elif len(self._asked) > _MOST_UNANSWERED:
                    connection.end(f"it leaves more than {_MOST_UNANSWERED} calls unanswered")
                elif self._connection is None and loop.time() - begun > _GREET_S:
                    connection.end(f"it has not said within {_GREET_S:g} s that it is ready")
            return ended.result()
        finally:
            connection.end("this dispatcher ends")

    def _take(self, connection: Connection, message: ToDispatcher) -> None:
        match message:
            case Answer():
                if not (answer := self._answered(message.number)).done():
                    answer.set_result(message.body)
            case Failure():
                if not (answer := self._answered(message.number)).done():
                    answer.set_exception(ERRORS[message.kind](_printable(message.text)))
            case Ready():
                if self._connection is not None:
                    raise BadMessage("a second greeting")
                self._connection = connection
                self._problem = ""
                self._log.info("the Ray driver answers", socket=self._path, version=_printable(message.build))
                self._tried.set()
            case Alive():
                self._beats -= 1
                if self._beats < 0:
                    raise BadMessage("an answer to no beat")

    def _answered(self, number: int) -> "asyncio.Future[bytes]":
        """Of a call, which may be given up by now. Each is answered once, so that no driver keeps this process busy."""
        if (found := self._asked.pop(number, None)) is None:
            raise BadMessage("an answer to no call")
        return found

    def _lose(self, why: str) -> None:
        lost = self._asked
        self._asked = {}
        self._connection = None
        self._beats = 0
        for answer in lost.values():
            if not answer.done():
                answer.set_exception(AgentDied(f"the Ray driver is gone: {why}"))


class _DriverCaller:
    """As of ray_link.Caller."""

    def __init__(self, cluster: str, driver: RayDriver) -> None:
        self.cluster = cluster
        self._driver = driver

    async def call(self, method: str, timeout_s: float, *words: Word) -> bytes:
        """As of ray_link.Caller."""
        within_s = timeout_s + 2 * _FIND_S
        return await self._driver.call(target_of(self.cluster), method, words, timeout_s, within_s)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
