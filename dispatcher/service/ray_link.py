"""A Ray actor as an agent link. Every call has a limit; death, restart and silence become typed errors."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ray import cancel
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError

from dispatcher.model.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry, encode
from dispatcher.model.seals import ORDERS, PEERS, Audience
from dispatcher.service.link import (
    AgentDied,
    AgentFault,
    AgentMismatch,
    AgentMissing,
    AgentTimeout,
    LinkError,
    read,
    within,
)
from dispatcher.service.signing import NO_SIGNER, Sealer

_OPEN_TIMEOUT_S = 10.0
_WITH_SEAL = 2  # words of a call that brings a seal


class RayLink:
    """The actor of one cluster. `open_actor` finds or creates it; it may block, with a dead Ray for ever."""

    executor_apart: bool | None = None

    def __init__(self, cluster: str, open_actor: Callable[[], Any], sealer: Sealer = NO_SIGNER) -> None:
        """`sealer` signs what the actor acts on."""
        self.cluster = cluster
        self._open, self._sealer = open_actor, sealer
        self._audience = Audience(cluster, "", "")  # as it last told
        self._handle: Any = None
        self._opening: asyncio.Future[Any] | None = None

    async def hello(self, *, timeout_s: float) -> Hello:
        """Who the agent is."""
        told = read(Hello, await self._call("hello", timeout_s), self.cluster)
        self._audience = Audience(self.cluster, told.cluster_uid or self._audience.uid, told.incarnation)
        return told

    async def changes(self, incarnation: str, since: int, wait_s: float, *, timeout_s: float) -> Changes:
        """What changed after `since`."""
        told = read(Changes, await self._call("changes", timeout_s, incarnation, since, wait_s), self.cluster)
        self._audience = Audience(self.cluster, told.cluster_uid or self._audience.uid, told.incarnation)
        return told

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        """Carry out intents."""
        words = self._sealed(ORDERS, encode(batch), batch.dispatcher_epoch)
        return read(OutcomeBatch, await self._call("execute", timeout_s, *words), self.cluster)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        """Tell what the proxy nodes shall show. Agents of the version before leases answer nothing."""
        words = self._sealed(PEERS, encode(peers), peers.dispatcher_epoch)
        answer = await self._call("set_peers", timeout_s, *words)
        return read(PeersAck, answer, self.cluster) if answer else PeersAck(self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        """How its sources of live load do. AgentMismatch: an agent of the version before does not tell."""
        try:
            return read(Telemetry, await self._call("telemetry", timeout_s), self.cluster)
        except AttributeError:
            older = f"agent of cluster {self.cluster} is of an older version, which does not tell: upgrade it"
            raise AgentMismatch(older) from None

    def _sealed(self, kind: str, body: bytes, epoch: int) -> tuple[bytes, ...]:
        """The bytes and their seal, if there is one: actors of the version before take no second word."""
        made = self._sealer.seal(kind, body, epoch, self._audience)
        return (body, made) if made else (body,)

    async def _call(self, method: str, timeout_s: float, *args: object) -> bytes:
        handle = await self._actor()
        reference = _asked(getattr(handle, method), args)
        try:
            answer: bytes = await within(reference, timeout_s, self.cluster, method)
        except (AgentTimeout, asyncio.CancelledError):
            with contextlib.suppress(RayError, TypeError):
                cancel(reference)  # a call given up goes on at the other side unless it is cancelled
            raise
        except RayError as error:
            raise self._translated(error, method) from None
        return answer

    async def _actor(self) -> Any:
        if self._handle is None:
            if self._opening is None or self._opening.done():
                self._opening = in_thread(self._open, f"open {self.cluster}")
            opening = asyncio.shield(self._opening)  # one that takes longer than a call waits is the next call's
            try:
                self._handle = await within(opening, _OPEN_TIMEOUT_S, self.cluster, "the look-up of its actor")
            except (RayError, ValueError, RuntimeError) as error:
                raise AgentMissing(f"agent of cluster {self.cluster} cannot be started: {first_line(error)}") from None
        return self._handle

    def _translated(self, error: RayError, method: str) -> LinkError:
        if isinstance(error, ActorUnavailableError):  # restarting: the same handle works again soon
            return AgentDied(f"agent of cluster {self.cluster} is restarting ({method})")
        if isinstance(error, ActorDiedError | RayActorError):
            self._handle = None
            return AgentDied(f"agent of cluster {self.cluster} died ({method}): {first_line(error)}")
        return AgentFault(f"agent of cluster {self.cluster} failed {method}: {first_line(error)}")


def _asked(method: Any, args: tuple[object, ...]) -> Any:
    """The call; without its last word, the seal, where the actor is of the version before."""
    try:
        return method.remote(*args)
    except TypeError:
        if len(args) != _WITH_SEAL:
            raise
        return method.remote(args[0])


def in_thread(call: Callable[[], Any], name: str) -> asyncio.Future[Any]:
    """The answer of a call that may never end. Unlike asyncio's own threads, this one keeps no process alive."""
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(answer)


def first_line(error: BaseException) -> str:
    """The line of Ray's text that says what is wrong, which is its last one; shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else repr(error))[:300]
