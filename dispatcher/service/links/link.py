"""How the dispatcher reaches one agent: five calls, each with its own time limit and typed errors.

Only bytes cross (`shared.messages`). `LocalLink` joins an agent in this process, and
`gateway.link.GatewayLink` one that dials in.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    WireError,
    decode,
    encode,
)
from shared.model.pod import Record
from shared.streams.calls import Called

T = TypeVar("T")
M = TypeVar("M", bound=Record)
Arrived = Callable[[bytes], Awaitable[object]]  # an answer, before it is read


async def at_once(answer: bytes) -> None:
    """Nothing is waited for."""


class LinkError(Exception):
    """A call to an agent failed; the text names the cluster and says why."""


class AgentTimeout(LinkError):  # noqa: N818 - reads as what happened
    """No answer in time. What the agent did is unknown; the call itself was given up."""


class AgentDied(LinkError):  # noqa: N818
    """The agent's process is gone or restarting. What it did with the call is unknown."""


class AgentMissing(LinkError):  # noqa: N818
    """There is no place where the agent could run: nothing was sent."""


class AgentFault(LinkError):  # noqa: N818
    """The agent answered with an error of its own."""


class AgentMismatch(LinkError):  # noqa: N818
    """The peer speaks another version, or is the agent of another cluster."""


class AgentDistrusted(LinkError):  # noqa: N818
    """What the agent says is not believed: its cluster is in quarantine."""


class AgentTooLarge(LinkError):  # noqa: N818
    """What the agent reports would take more memory than its cluster may; it is not read."""


class AgentLink(Protocol):
    """One agent. Every call raises LinkError and nothing else, at the latest after `timeout_s`."""

    @property
    def cluster(self) -> str:
        """The cluster that this agent must be of."""
        ...

    @property
    def executor_apart(self) -> bool | None:
        """Whether an executor is connected that is not the observer's process; None: both are one
        process.
        """
        ...

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        ...

    async def changes(
        self,
        incarnation: str,
        since: int,
        wait_s: float,
        *,
        timeout_s: float,
        arrived: Arrived = at_once,
    ) -> Changes:
        """What changed after `since`; waits up to `wait_s` for something to change. `arrived` is
        awaited once all of it is here, before it is read: no part of `timeout_s`. It may raise
        AgentTooLarge.
        """
        ...

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents and answer for each."""
        ...

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show."""
        ...

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do."""
        ...


def read(kind: type[M], data: bytes, cluster: str) -> M:
    """Decode a peer's bytes and check that they are of `cluster`; AgentMismatch otherwise."""
    try:
        message = decode(kind, data)
    except WireError as error:
        raise AgentMismatch(f"agent of cluster {cluster}: {error}") from None
    named = getattr(message, "cluster", cluster)
    if named != cluster:
        raise AgentMismatch(
            f"the agent reached for cluster {cluster} says it is of {named!r}: check its settings"
        )
    return message


async def within(call: Awaitable[T], timeout_s: float, cluster: str, what: str) -> T:
    """Await with a limit; AgentTimeout names cluster, call and limit."""
    try:
        async with asyncio.timeout(timeout_s):
            return await call
    except TimeoutError:
        raise AgentTimeout(
            f"agent of cluster {cluster} did not answer {what} within {timeout_s:g} s"
        ) from None


class LocalLink:
    """An agent in this process, through the same bytes that would cross to another one."""

    executor_apart: bool | None = None

    def __init__(self, cluster: str, agent: Called) -> None:
        self.cluster = cluster
        self._agent = agent

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        return read(
            Hello, encode(await self._call(self._agent.hello(), timeout_s, "hello")), self.cluster
        )

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
        answer = await self._call(
            self._agent.changes(incarnation, since, wait_s), timeout_s, "changes"
        )
        told = encode(answer)
        await arrived(told)
        return read(Changes, told, self.cluster)

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        sent = decode(IntentBatch, encode(batch))
        answer = await self._call(self._agent.execute(sent), timeout_s, "execute")
        return read(OutcomeBatch, encode(answer), self.cluster)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show."""
        answer = await self._call(
            self._agent.set_peers(decode(Peers, encode(peers))), timeout_s, "set_peers"
        )
        return read(PeersAck, encode(answer), self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do."""
        answer = await self._call(self._agent.telemetry(), timeout_s, "telemetry")
        return read(Telemetry, encode(answer), self.cluster)

    async def _call(self, call: Awaitable[T], timeout_s: float, what: str) -> T:
        try:
            return await within(call, timeout_s, self.cluster, what)
        except LinkError:
            raise
        except Exception as error:
            raise AgentFault(f"agent of cluster {self.cluster} failed {what}: {error!r}") from error
