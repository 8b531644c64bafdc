"""A cluster's connections to the gateway as one agent link: of its observer and of its executor,
which may be the same.

Reports come from the observer alone, outcomes of orders and the cluster's keys from the executor
alone: who takes over the one cannot speak for the other.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec

from dispatcher.service.gateway.agent_connection import AgentConnection
from dispatcher.service.links.link import (
    AgentMismatch,
    AgentMissing,
    Arrived,
    LinkError,
    at_once,
    read,
    within,
)
from dispatcher.service.links.signing import NO_SIGNER, Sealer
from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    encode,
)
from shared.model.pod import Record
from shared.security.seals import ORDERS, PEERS, Audience
from shared.streams.calls import (
    CHANGES,
    EXECUTE,
    EXECUTOR,
    HELLO,
    OBSERVER,
    SET_PEERS,
    TELEMETRY,
    Call,
)

M = TypeVar("M", bound=Record)
# for what an observer says of ways between clusters: orders and leases do not wait for it
_ASIDE_S = 1.0
_GREET_S = 5.0  # for an executor to say who it is


class GatewayLink:
    """Calls go over the connection that serves them now. `find` says which that is for a role, or
    why there is none.
    """

    def __init__(
        self,
        cluster: str,
        find: Callable[[str], AgentConnection | str],
        sealer: Sealer = NO_SIGNER,
        streams_refused: Callable[[], int] = lambda: 0,
    ) -> None:
        """`sealer` signs here, in the leader's process: what a line is given are bytes and their
        seal. `streams_refused`: as StreamLimit counts them, in all.
        """
        self.cluster = cluster
        self.streams_refused = streams_refused
        self._find = find
        self._sealer = sealer
        self._observer = Audience(cluster, "", "")  # as it last told
        # who the executor last said it is, over which connection
        self._told: tuple[AgentConnection, Hello] | None = None

    @property
    def executor_apart(self) -> bool | None:
        """Whether an executor is connected that is not the observer's process; None: both are one
        process.
        """
        executor = self._find(EXECUTOR)
        if executor is self._find(OBSERVER):
            return None
        return not isinstance(executor, str)

    def certificate_ends(self) -> dict[str, float]:
        """By role, of agents that are connected: when their certificate ends (Unix time, s)."""
        lines = {role: self._find(role) for role in (OBSERVER, EXECUTOR)}
        return {
            role: line.until
            for role, line in lines.items()
            if not isinstance(line, str) and line.until
        }

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is. What its executor has obeyed, and its keys, count as the executor
        itself says.
        """
        told = await self._ask(Hello, OBSERVER, Call(HELLO), timeout_s)
        self._observer = Audience(
            self.cluster, told.cluster_uid or self._observer.uid, told.incarnation
        )
        if self.executor_apart is None:
            return told
        executor = await self._executor()
        keys, obeys = (executor.keys, executor.obeys) if executor is not None else ((), 0)
        return msgspec.structs.replace(told, keys=keys, obeys=obeys)

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
        call = Call(CHANGES, incarnation=incarnation, since=since, wait_s=wait_s)
        line = self._connected(OBSERVER)
        answer = await within(line.call(call), timeout_s, self.cluster, call.method)
        apart = self.executor_apart is not None
        executor = await self._executor() if apart else None
        await arrived(answer)
        told = read(Changes, answer, self.cluster)
        self._observer = Audience(
            self.cluster, told.cluster_uid or self._observer.uid, told.incarnation
        )
        if not apart:
            return told
        if isinstance(away := self._find(EXECUTOR), str):
            told = msgspec.structs.replace(
                told, problem=told.problem or f"takes no orders: its executor: {away}"
            )
        if executor is None:
            return msgspec.structs.replace(told, keys=())
        if executor.cluster_uid and told.cluster_uid and executor.cluster_uid != told.cluster_uid:
            raise AgentMismatch(
                f"observer and executor of cluster {self.cluster} are of different clusters "
                "(kube-system "
                f"{told.cluster_uid} and {executor.cluster_uid}): check their kubeconfigs"
            )
        return msgspec.structs.replace(told, keys=executor.keys)

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        seal = self._sealer.seal(
            ORDERS, body := encode(batch), batch.dispatcher_epoch, await self._executes()
        )
        return await self._ask(OutcomeBatch, EXECUTOR, Call(EXECUTE, body, seal=seal), timeout_s)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show; and an observer apart, whom to probe."""

        def call(audience: Audience) -> Call:
            return Call(
                SET_PEERS,
                body,
                seal=self._sealer.seal(PEERS, body, peers.dispatcher_epoch, audience),
            )

        body = encode(peers)
        executes = await self._executes()
        if self.executor_apart is None:
            return await self._ask(PeersAck, EXECUTOR, call(executes), timeout_s)
        ack, ways = await asyncio.gather(
            self._ask(PeersAck, EXECUTOR, call(executes), timeout_s),
            self._ask(PeersAck, OBSERVER, call(self._observer), _ASIDE_S),
            return_exceptions=True,
        )
        if isinstance(ack, BaseException):
            raise ack
        if isinstance(ways, BaseException):
            return ack
        return msgspec.structs.replace(
            ack,
            probe=ways.probe,
            links=ways.links,
            pod_address=ways.pod_address,
            reaches=ways.reaches,
        )

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do."""
        return await self._ask(Telemetry, OBSERVER, Call(TELEMETRY), timeout_s)

    async def _executes(self) -> Audience:
        """Who carries orders out, as the executor itself says; where it is apart, the observer does
        not say.
        """
        executor = await self._executor()
        if executor is None:
            return self._observer if self.executor_apart is None else Audience(self.cluster, "", "")
        return Audience(self.cluster, executor.cluster_uid, executor.incarnation)

    async def _executor(self) -> Hello | None:
        """Who the executor says it is: asked once a connection, and remembered while there is none."""
        line = self._find(EXECUTOR)
        if not isinstance(line, str) and (self._told is None or self._told[0] is not line):
            try:
                told = await self._ask(Hello, EXECUTOR, Call(HELLO), _GREET_S)
            except LinkError:
                pass  # it is asked again with the next report
            else:
                # before that it does not know itself
                self._told = (line, told) if told.cluster_uid else None
        return self._told[1] if self._told is not None else None

    async def _ask(self, kind: type[M], role: str, call: Call, timeout_s: float) -> M:
        """The answer; LinkError."""
        line = self._connected(role)
        return read(
            kind, await within(line.call(call), timeout_s, self.cluster, call.method), self.cluster
        )

    def _connected(self, role: str) -> AgentConnection:
        line = self._find(role)
        if isinstance(line, str):
            who = (
                "agent"
                if isinstance(self._find(OBSERVER if role == EXECUTOR else EXECUTOR), str)
                else role
            )
            raise AgentMissing(f"{who} of cluster {self.cluster} is not connected: {line}")
        return line
