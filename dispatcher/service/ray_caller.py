"""Calls to the Ray actor of one cluster. Every call has a limit; death, restart and silence become typed errors."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ray import cancel
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError

from dispatcher.service.link import (
    AgentDied,
    AgentFault,
    AgentMismatch,
    AgentMissing,
    AgentTimeout,
    LinkError,
    Word,
    within,
)

_OPEN_TIMEOUT_S = 10.0
_WITH_SEAL = 2  # words of a call that brings a seal


class RayCaller:
    """As of Caller. `open_actor` finds or creates the actor; it may block, with a dead Ray for ever."""

    def __init__(self, cluster: str, open_actor: Callable[[], Any]) -> None:
        self.cluster = cluster
        self._open = open_actor
        self._handle: Any = None
        self._opening: asyncio.Future[Any] | None = None

    async def call(self, method: str, timeout_s: float, *words: Word) -> bytes:
        """As of Caller."""
        handle = await self._actor()
        try:
            reference = _asked(getattr(handle, method), words)
        except AttributeError:
            older = f"agent of cluster {self.cluster} is of an older version, which does not tell: upgrade it"
            raise AgentMismatch(older) from None
        try:
            answer = await within(reference, timeout_s, self.cluster, method)
        except (AgentTimeout, asyncio.CancelledError):
            with contextlib.suppress(RayError, TypeError):
                cancel(reference)  # a call given up goes on at the other side unless it is cancelled
            raise
        except RayError as error:
            raise self._translated(error, method) from None
        return only_bytes(answer, f"agent of cluster {self.cluster}", method)

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


def _asked(method: Any, args: tuple[Word, ...]) -> Any:
    """The call; without its last word, the seal, where the actor is of the version before."""
    try:
        return method.remote(*args)
    except TypeError:
        if len(args) != _WITH_SEAL:
            raise
        return method.remote(args[0])


def only_bytes(answer: object, of: str, method: str) -> bytes:
    """What an actor has answered, nothing as b""; AgentFault unless it is what honest ones answer."""
    if answer is None:
        return b""
    if type(answer) is not bytes:
        raise AgentFault(f"{of} answered {method} with an object of Python, not with bytes")
    return answer


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
