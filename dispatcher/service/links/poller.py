"""Follows one agent: hello, then long polls; what it says becomes events. Nothing here touches
another cluster.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import structlog

from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, Event
from dispatcher.service.clock import Clock
from dispatcher.service.links.greeting import Greeting
from dispatcher.service.links.link import (
    AgentDistrusted,
    AgentLink,
    AgentTimeout,
    AgentTooLarge,
    LinkError,
)
from dispatcher.service.term import Deposed, Term
from dispatcher.service.timing import ServiceTiming
from shared.messages import Changes
from shared.messages.memory import memory_of
from shared.model.backoff import Backoff
from shared.model.token_buckets import Allowance, TokenBuckets

Deliver = Callable[[Event], Awaitable[bool]]  # False: the core could not take it
_LATE_FACTOR = 4.0
LONGEST_REPORT_S = 600.0
_LINES = 20  # of a kind in the log, a minute
_LARGE = 2**18  # bytes of a report, as 1,000 nodes or 800 pods take
# Pods, nodes and other objects of one cluster that are taken in at once, and a second: beyond, it
# is asked less often, so that one that tells everything anew each time has a tenth of a core and no
# more. A report, also one that tells nothing, costs as much as so many objects.
_AT_ONCE = 1_000_000
_PER_S = 20_000.0
_LONGEST_PAUSE_S = 60.0
_REPORT = 50

log = structlog.get_logger("poller")


class Poller:
    """One cluster's reader. It asks for more only when the core has taken what it brought, so
    nothing piles up.
    """

    def __init__(  # noqa: PLR0913 - what a reader needs of the service
        self,
        link: AgentLink,
        deliver: Deliver,
        timing: ServiceTiming,
        clock: Clock,
        term: Term,
        depose: Callable[[Deposed], None],
        turns: asyncio.Semaphore,
        distrust: Callable[[str], str],
        most_memory: int,
    ) -> None:
        """`turns`: of those whose large report is read and taken in at once. `distrust` says why a
        cluster is in quarantine, '' if it is not. `most_memory`: bytes that a report may take once
        it is read.
        """
        self.cluster = link.cluster
        self.silent = True
        self.failures = 0
        self.greeting = Greeting()
        self._link = link
        self._deliver = deliver
        self._timing = timing
        self._clock = clock
        self._term = term
        self._depose = depose
        self._turns = turns
        self._distrust = distrust
        self._most_memory = most_memory
        self._incarnation = ""
        self._since = 0
        self._heard = self._greeted = False
        # an answer came to a question of this one; it told of everything listed
        self._asked = self._told = False
        self._given_up = False  # it is known to be silent, and nobody waits for it
        self._late = 0  # reports in a row that did not come in time
        self._started = clock()
        self._allowance = Allowance(_AT_ONCE, _PER_S, _LONGEST_PAUSE_S)
        self._lines = TokenBuckets(_LINES, _LINES / 60)
        self._floods = TokenBuckets(1, 1 / 60)
        self._debt_s = 0.0  # how long to wait, by the allowance, before it is asked again

    def go_on_from(self, before: "Poller", incarnation: str, since: int) -> None:
        """Another reader has brought all up to there. What came since is asked for anew, and at
        once.
        """
        self._incarnation = incarnation
        self._since = since
        self._started = before._started
        self._given_up = before._heard and before.silent

    async def run(self) -> None:
        """Follow the agent until cancelled."""
        if self._given_up:
            await self._fail("it did not answer before this dispatcher led", wait=False)
        while True:
            try:
                await self._greet()
                while True:
                    taken = await self._poll()
                    if pause := self._debt_s if taken else self._backoff():
                        await asyncio.sleep(pause)
            except LinkError as error:
                await self._fail(
                    str(error), wait=not isinstance(error, AgentDistrusted | AgentTooLarge)
                )
            await asyncio.sleep(self._backoff())

    async def _greet(self) -> None:
        asked = time.time()
        hello = await self._link.hello(timeout_s=self._timing.silent_s)
        self.greeting = Greeting.of(hello, asked, time.time())
        first = not self._greeted
        self._greeted = True
        if hello.obeys > self._term.epoch:
            why = f"the agent of cluster {self.cluster} obeys epoch {hello.obeys}"
            self._depose(Deposed(hello.obeys, why, self.cluster, first))
        self._check_trust()

    def _check_trust(self) -> None:
        if why := self._distrust(self.cluster):
            raise AgentDistrusted(f"cluster {self.cluster} is {why}")

    async def _poll(self) -> bool:
        """Ask once. False: a gap, or a report that the core could not fold: begin anew, and not at
        once.
        """
        timing = self._timing
        wait_s = timing.poll_wait_s if self._asked else 0.0
        asked = self._incarnation, self._since, wait_s
        memory = 0
        async with AsyncExitStack() as turn:

            async def arrived(answer: bytes) -> None:
                nonlocal memory
                memory = self._weigh(answer)
                if (
                    len(answer) > _LARGE
                ):  # several times as large once it is read: it waits for its turn
                    await turn.enter_async_context(self._turns)

            try:
                changes = await self._link.changes(
                    *asked, timeout_s=self._patience(), arrived=arrived
                )
            except AgentTimeout:
                self._late += 1
                raise
            self._check_trust()
            event = ClusterChanged(changes, self._link.executor_apart, memory)
            if self._continues(changes) and await self._deliver(event):
                self._took(changes)
                await self._note_first_sync(changes)
                self._charge(changes)
                return True
        self._incarnation = ""
        self._since = 0
        self.failures += 1
        return False

    def _weigh(self, answer: bytes) -> int:
        memory = memory_of(answer)
        if memory > self._most_memory:
            self._incarnation = ""
            self._since = 0
            raise AgentTooLarge(
                f"cluster {self.cluster}: what its agent reports would take {memory >> 20} MiB of "
                "memory, and "
                f"{self._most_memory >> 20} are its share: nothing of it is taken in. Find out "
                "what fills the cluster, "
                "or who speaks there as its agent; or raise `report_mib` in its entry of "
                "`clusters`, and with it the "
                "dispatcher's memory limit"
            )
        return memory

    def _say(self, write: Callable[..., None], text: str, **about: object) -> None:
        """A line that an agent can cause as often as it likes."""
        if (left_out := self._lines.admit(self._clock(), text)) is not None:
            write(
                text, cluster=self.cluster, **about, **({"left_out": left_out} if left_out else {})
            )

    def _charge(self, changes: Changes) -> None:
        lists = (
            changes.nodes,
            changes.pods,
            changes.objects,
            changes.nodes_gone,
            changes.pods_gone,
            changes.objects_gone,
        )
        self._debt_s = self._allowance.take(self._clock(), _REPORT + sum(map(len, lists)))
        if self._debt_s and self._floods.admit(self._clock()) is not None:
            log.warning(
                "a cluster tells more than it may: it is asked less often",
                cluster=self.cluster,
                fix="find out what changes there all the time, or who speaks there as its agent",
            )

    def _patience(self) -> float:
        """Seconds for a report. One that was late has a longer time once nobody waits for it: it
        may be large and its way slow, and would be cut off each time at the same place. With
        `silent_s` 10: 10, 40, 160, 600.
        """
        silent_s = self._timing.silent_s
        if not self._heard:
            return silent_s
        return max(silent_s, min(LONGEST_REPORT_S, silent_s * _LATE_FACTOR ** min(self._late, 10)))

    def _continues(self, changes: Changes) -> bool:
        return changes.full or (changes.incarnation, changes.since) == (
            self._incarnation,
            self._since,
        )

    def _took(self, changes: Changes) -> None:
        self._incarnation = changes.incarnation
        self._since = changes.revision
        if self.silent or changes.full:
            told = {"nodes": len(changes.nodes), "full": changes.full, "api_ok": changes.api_ok}
            self._say(log.info, "cluster answers", **told)
        self.silent = False
        self.failures = 0
        self._late = 0
        self._asked = True
        self._told = self._told or changes.synced

    async def _note_first_sync(self, changes: Changes) -> None:
        """A cluster that cannot be listed must not hold up the start of all the others for ever."""
        self._heard = self._heard or changes.synced
        if not self._heard and self._clock() - self._started > self._timing.first_sync_s:
            self._heard = True
            problem = changes.problem or "its API server has not been listed yet"
            log.warning("going on without cluster", cluster=self.cluster, problem=problem)
            await self._tell_silent(problem)

    async def _tell_silent(self, problem: str) -> None:
        if not self._told:  # what another reader has brought is not gone on with
            self._incarnation = ""
            self._since = 0
        trusted = not self._distrust(self.cluster)
        await self._deliver(
            ClusterSilent(self.cluster, problem, self._link.executor_apart if trusted else None)
        )

    async def _fail(self, problem: str, *, wait: bool) -> None:
        """`wait`: one that was never heard may only be slow to start, so it is waited for."""
        self.failures += 1
        if self.failures == 1 or not self.silent:
            self._say(log.warning, "cluster is silent", problem=problem)
        wait = wait and not self._heard and self.silent
        if not wait or self._clock() - self._started > self._timing.first_sync_s:
            self._heard = True
            await self._tell_silent(problem)
        self.silent = True

    def _backoff(self) -> float:
        longest = Backoff(self._timing.backoff_s, self._timing.backoff_max_s).after(
            self.failures + 1
        )
        return longest * random.uniform(0.5, 1.0)
