"""Leader election, as kube-scheduler has it (client-go's leaderelection on a Lease).

Whoever holds the Lease renews it every `retry_s` and leads. Another takes it over when it has not
seen it change for as long as the Lease lasts, by its own clock; the holder has stopped by itself
before that, `renew_deadline_s` after its last renewal began. Each life of a process is a holder of
its own, so each acquisition counts one transition more.
"""

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from shared.kube.leader_lease import Lease, LeaseStore, ReadFailure, stamp

log = structlog.get_logger("leader")

JITTER = 1.2  # client-go's: a candidate waits for one to 2.2 times `retry_s`
RELEASED_S = 1.0  # how long a Lease that was given up lasts, as client-go writes it
# of `retry_s`: candidates that wait for the same Lease to run out do not ask all at once
_APART = 0.1


@dataclass(frozen=True)
class LeaderTiming:
    """Seconds; kube-scheduler's defaults. `renew_deadline_s` is below `lease_s`, `retry_s` well
    below both.
    """

    lease_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


def new_identity() -> str:
    """Of this life of this process, as client-go makes it: host name and a UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def awake() -> float:
    """Monotonic seconds that go on while the machine sleeps: a lease is lost in its sleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class ElectorEnvironment:
    """What of the world an elector uses."""

    clock: Callable[[], float] = awake
    wall: Callable[[], float] = time.time  # for people alone
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    dice: Callable[[], float] = random.random


class Elector:
    """One candidate. `leader` is who holds the Lease as far as is known, `problem` why that is not
    known. It does not renew a Lease while what it leads is `held_up`. `kind`: what the candidates
    are, for messages. One that waits says so on the Lease every `asks_s`, for a holder that may
    want to know.
    """

    def __init__(
        self,
        file: LeaseStore,
        identity: str,
        timing: LeaderTiming,
        environment: ElectorEnvironment | None = None,
        *,
        kind: str = "dispatcher",
    ) -> None:
        self.identity = identity
        self.problem = ""
        self.held_up: Callable[[], bool] = lambda: False
        self.asks_s = float("inf")
        self._file = file
        self._timing = timing
        self._world = environment or ElectorEnvironment()
        self._kind = kind
        self._seen: Lease | None = None
        self._seen_at = float("-inf")  # when it was last seen to have changed
        self._missing_at = float("inf")  # when one that was there was first seen to be no more
        # transitions ever seen: they grow, also where the Lease was deleted or restored
        self._highest = 0
        self._renewed_at = float("-inf")  # when our last successful write of it began
        self._asks = 0  # how often we have asked for it
        self._asked_at = float("-inf")  # when we did last, or began to wait
        self._asked = ""  # who has asked last
        self._heard_at = float("-inf")  # when that was seen

    @property
    def leader(self) -> str:
        """Who holds the Lease as last seen, '' if nobody does or nothing was seen."""
        seen = self._seen  # read once: another thread may ask
        return seen.holder if seen is not None else ""

    @property
    def transitions(self) -> int:
        """Of the Lease as last seen."""
        seen = self._seen
        return seen.transitions if seen is not None else 0

    def valid(self) -> bool:
        """Whether this candidate leads right now."""
        ours = self.leader == self.identity
        return ours and self._world.clock() - self._renewed_at < self._timing.renew_deadline_s

    def asked_within(self, seconds: float) -> bool:
        """Whether one that waits was seen to ask for the Lease in these last seconds."""
        return self._world.clock() - self._heard_at < seconds

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        self._asked_at = self._world.clock()
        while not await self._try():
            await self._world.sleep(self._until_next_try())

    def _until_next_try(self) -> float:
        """Seconds: client-go's, or less where another's Lease, as last seen, runs out before."""
        dice = self._world.dice()
        seen = self._seen
        usual = self._timing.retry_s * (1 + JITTER * dice)
        runs_out = self._seen_at + seen.duration_s if seen is not None else float("-inf")
        left = runs_out - self._world.clock()
        return min(usual, left + self._timing.retry_s * _APART * dice) if left > 0 else usual

    async def raise_to(self, transitions: int) -> bool:
        """Make the Lease that is ours count so many transitions at least; False if it was lost over
        that.
        """
        while not await self._try(transitions):
            if not self.valid():
                return False
            await self._world.sleep(self._timing.retry_s)
        return True

    async def hold(self) -> str:
        """Renew the Lease that is ours until it is lost; why it was."""
        while True:
            await self._world.sleep(self._timing.retry_s)
            if (
                self.held_up() or not self.valid()
            ):  # before anything else: this process may have slept
                return self._lost()
            if not await self._try() and (self.leader != self.identity or not self.valid()):
                return self._lost()

    async def release(self) -> None:
        """Give the Lease up, if it is ours, so that the next need not wait."""
        seen: Lease | ReadFailure | None = self._seen
        self._seen = None
        self._renewed_at = float("-inf")
        for _ in range(2):
            if not isinstance(seen, Lease) or seen.holder != self.identity:
                return
            now = stamp(self._world.wall())
            given_up = Lease("", seen.transitions, RELEASED_S, (now, now))
            written = await self._file.write(given_up, seen, self._patience())
            if isinstance(written, Lease):
                return
            seen = await self._file.read(
                self._patience()
            )  # a renewal that was broken off may have been done

    def _lost(self) -> str:
        if self.leader not in ("", self.identity):
            return f"{self.leader} has taken the lease {self._file}"
        why = self.problem or "this process was held up"
        return (
            f"the lease {self._file} was not renewed for {self._timing.renew_deadline_s:g} s: {why}"
        )

    async def _try(self, transitions: int = 0) -> bool:
        """One attempt to acquire or renew; whether the Lease is ours then."""
        found = await self._file.read(self._patience())
        if isinstance(found, ReadFailure):
            self._note(found)
            return False
        if found is not None:
            self._missing_at = float("inf")
        known = found or self._seen
        self._see(known)
        if found is None and self._may_be_held():
            self.problem = (
                f"lease {self._file} was deleted: who held it last may act for "
                f"{self._timing.lease_s:g} s more"
            )
            return False
        if known is not None and self._anothers(known):
            self.problem = ""
            await self._ask(found)
            return False
        started = self._world.clock()
        wall = stamp(self._world.wall())
        ours = found is not None and found.holder == self.identity
        acquired = found.times[0] if found is not None and ours else wall
        wanted = Lease(
            self.identity,
            max(self._highest + (not ours), transitions),
            self._timing.lease_s,
            (acquired, wall),
        )
        written = await self._file.write(wanted, found, self._patience())
        if isinstance(written, ReadFailure):
            self._note(written)
            return False
        self._see(written)
        self._renewed_at = started
        self.problem = ""
        return True

    async def _ask(self, found: Lease | None) -> None:
        if found is not None and self._world.clock() - self._asked_at >= self.asks_s:
            self._asks += 1
            self._asked_at = self._world.clock()
            await self._file.ask(found, f"{self.identity} {self._asks}", self._patience())

    def _patience(self) -> float:
        """A call must leave time for another one before the deadline."""
        return self._timing.renew_deadline_s / 2

    def _may_be_held(self) -> bool:
        """Whether another may hold a Lease that was deleted: who did last need not be whom we have
        seen last.
        """
        now = self._world.clock()
        self._missing_at = min(self._missing_at, now)
        return (
            self._highest > 0 and not self.valid() and now < self._missing_at + self._timing.lease_s
        )

    def _anothers(self, found: Lease) -> bool:
        # else somebody has taken the holder off
        given_up = not found.holder and found.duration_s <= RELEASED_S
        if given_up or found.holder == self.identity:
            return False
        return self._world.clock() < self._seen_at + found.duration_s

    def _see(self, found: Lease | None) -> None:
        asked = found.asked if found is not None else ""
        if asked and asked != self._asked:
            self._heard_at = self._world.clock()
        self._asked = asked
        if found != self._seen:
            if found is not None and found.holder not in ("", self.leader, self.identity):
                log.info(
                    f"standby: another {self._kind} leads",
                    leader=found.holder,
                    lease=str(self._file),
                )
            self._seen, self._seen_at = found, self._world.clock()
            self._highest = max(self._highest, found.transitions if found is not None else 0)

    def _note(self, unread: ReadFailure) -> None:
        if unread.problem != self.problem:
            log.warning("the lease is out of reach", problem=unread.problem)
        self.problem = unread.problem
