"""Who is asked when: every node once an interval, spread over it, so that a dead kubelet delays
nobody.

Nodes that did not answer are asked less and less often, by questioners of their own. Where their
kubelet is the source, they are meanwhile read from metrics.k8s.io if that is there.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from agents.observer.loads import DEFAULT_SOURCE, Loads, Sample
from agents.observer.seen import NodeTarget
from agents.telemetry.kubelet import no_address
from agents.telemetry.source import SourceError, Status, pause_s

LOG = structlog.get_logger("agent.telemetry")
FIRST_GAP_S = 2.0


@dataclass(frozen=True, slots=True)
class Cadence:
    """`interval_s` between two questions to a node, `concurrency` questions at once."""

    interval_s: float = 15.0
    concurrency: int = 32


@dataclass(slots=True)
class Turn:
    """When a node is asked next, and how it went so far."""

    due: float
    asked: int = 0
    fails: int = 0
    busy: bool = False


@dataclass(slots=True)
class Turned:
    """Nodes of which a source ceased or began to tell, told together: a lost zone is one line, not
    a thousand.
    """

    source: str
    lost: list[str] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)
    problem: str = ""

    def tell(self) -> None:
        """Log and forget."""
        if self.lost:
            told = {"count": len(self.lost), "nodes": self.lost[:3], "problem": self.problem}
            LOG.warning(f"{self.source}s do not answer", **told)
        if self.recovered:
            LOG.info(
                f"{self.source}s answer again", count=len(self.recovered), nodes=self.recovered[:3]
            )
        self.lost = []
        self.recovered = []


AskNode = Callable[[NodeTarget], Awaitable[Sample]]
AskAll = Callable[[], Awaitable[Mapping[str, Sample]]]


class Rounds:
    """Asks all nodes in turn and puts what they say into `loads`, as what the source `name` says.

    `targets` is read anew at every tick. `ask_all` stands in for nodes that do not answer, where
    there is such a thing.
    """

    def __init__(
        self,
        targets: Mapping[str, NodeTarget],
        loads: Loads,
        ask: AskNode,
        ask_all: AskAll | None,
        cadence: Cadence,
        name: str = DEFAULT_SOURCE,
    ) -> None:
        self.status = Status(name)
        self._targets = targets
        self._loads = loads
        self._ask = ask
        self._ask_all = ask_all
        self._cadence = cadence
        self._turns: dict[str, Turn] = {}
        self._slots = asyncio.Semaphore(cadence.concurrency)
        self._doubtful = asyncio.Semaphore(max(1, cadence.concurrency // 4))
        self._tasks: set[asyncio.Task[None]] = set()
        self._turned = Turned(name)
        self._fallback_due = 0.0
        self._fallback_ok = True

    async def run(self) -> None:
        """Until cancelled; never raises for what a source does."""
        tick = min(1.0, self._cadence.interval_s / 4)
        try:
            while True:
                self._tick(time.monotonic())
                await asyncio.sleep(tick)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tick(self, now: float) -> None:
        self._turned.tell()
        for name in self._turns.keys() - self._targets.keys():
            del self._turns[name]
            self.status.failing.pop(name, None)
        self._loads.keep(self._targets.keys())
        for name, target in self._targets.items():
            turn = self._turns.get(name)
            if turn is None:
                # The first question soon, but not all nodes of a big cluster in the same instant.
                turn = self._turns[name] = Turn(
                    now + random.uniform(0, min(1.0, self._cadence.interval_s / 4))
                )
            if turn.due > now or turn.busy:
                continue
            if target.address:
                turn.busy = True
                self._spawn(self._node(target, turn))
            else:  # nobody to ask: thousands of tasks to find that out would delay everything else
                self._failed(target, turn, no_address(target))
                self._asked(turn)
        if (
            self._ask_all is not None
            and now >= self._fallback_due
            and any(turn.fails for turn in self._turns.values())
        ):
            self._fallback_due = now + self._cadence.interval_s
            self._spawn(self._fallback(self._ask_all))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _node(self, target: NodeTarget, turn: Turn) -> None:
        try:
            # A kubelet that failed before must not hold a slot that a live one needs.
            async with self._doubtful if turn.fails else self._slots:
                begun = time.monotonic()
                sample = await self._ask(target)
            now = time.monotonic()
            self.status.answered(now, now - begun)
            self._loads.add(target, sample, now, self.status.name)
            if turn.fails:
                self._turned.recovered.append(target.name)
            turn.fails = 0
            self.status.failing.pop(target.name, None)
        except SourceError as error:
            self._failed(target, turn, error)
        finally:
            turn.busy = False
            self._asked(turn)

    def _failed(self, target: NodeTarget, turn: Turn, error: SourceError) -> None:
        if turn.fails == 0:
            self._turned.lost.append(target.name)
            self._turned.problem = str(error)
        turn.fails += 1
        self.status.failed(str(error), 0.0)
        if target.name in self._targets:  # it may be gone since it was asked
            self.status.failing[target.name] = self.status.problem

    def _asked(self, turn: Turn) -> None:
        """When it is asked next."""
        interval = self._cadence.interval_s
        turn.asked += 1
        # The second sample soon: rates need two.
        gap = min(interval, FIRST_GAP_S) if turn.asked == 1 else pause_s(interval, turn.fails)
        turn.due = time.monotonic() + gap * random.uniform(0.9, 1.1)

    async def _fallback(self, ask_all: AskAll) -> None:
        """Read nodes that do not answer from who stands in."""
        try:
            samples = await ask_all()
        except SourceError as error:
            if self._fallback_ok:
                LOG.warning("no fallback readings", problem=str(error))
            self._fallback_ok = False
            return
        self._fallback_ok = True
        now = time.monotonic()
        for name, turn in self._turns.items():
            if turn.fails and name in samples and name in self._targets:
                self._loads.add(self._targets[name], samples[name], now, self.status.name)
