"""The service loop: agents' reports and answers in, the core's effects out, one thread, never
blocked by one cluster.

Events reach the core one at a time. A core that raises on an event loses that event alone: it is
logged and counted, and a report is asked for anew in full. Between two slices of work the loop lets
every other task run.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import perf_counter, thread_time
from typing import Any, Protocol

import structlog

from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.equivalence.cache import ClassCounts
from dispatcher.scheduling.events import (
    ClusterChanged,
    ClusterSilent,
    Decide,
    Decided,
    Effect,
    Event,
    FoldOn,
    OperatorNotice,
    OperatorWarning,
    SendIntents,
    SendPeers,
    Tick,
)
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queued import QueuedPod, State
from dispatcher.scheduling.records.decision import tables_of
from dispatcher.service.clock import Clock
from dispatcher.service.files.journal import Journal
from dispatcher.service.files.quota_file import QuotaFile
from dispatcher.service.free_memory import FreeMemory
from dispatcher.service.links.intent_sender import IntentSender
from dispatcher.service.links.link import AgentLink
from dispatcher.service.links.poller import Poller
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.obeyed_epochs import ObeyedEpochs
from dispatcher.service.term import NOBODY, Deposed, Term
from dispatcher.service.timing import Budget, Round, ServiceTiming, Slice
from dispatcher.service.traces.pod_traces import PodTraces
from dispatcher.service.warm_up import collect_no_more_of
from shared.model.reasons import Reason

log = structlog.get_logger("service")

# seconds between two lines of one text, and texts that are remembered
_WARN_AGAIN_S = 60.0
MOST_WARNED = 1000


class Queue(Protocol):
    """What the loop reads of the scheduling queue."""

    def counts(self) -> Mapping[str, int]:
        """Pods per queue: active, backoff, unschedulable, gated."""
        ...

    @property
    def incoming(self) -> Mapping[tuple[State, str], int]:
        """Pods that came into a state, by what brought them (a `Cause`, or the name of a
        `WakeEvent`).
        """
        ...

    def parked(self) -> Iterator[tuple[QueuedPod, int]]:
        """Of each class that was refused for the same, or is gated: a pod, and how many there are."""
        ...


class ProfileNames(Protocol):
    """Whose a pod is, and what became of the classes of pods."""

    @property
    def class_counts(self) -> Mapping[str, ClassCounts]:
        """By schedulerName."""
        ...

    def name_of(self, pod_info: PodInfo) -> str:
        """The schedulerName of the profile that decides it."""
        ...

    def refused_by(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> set[str]:
        """The plugins of that profile that alone refuse for one of these."""
        ...


class Core(Protocol):
    """What the loop needs of dispatcher.scheduling.core.SchedulerCore."""

    @property
    def clusters(self) -> Mapping[str, ClusterView]:
        """What is known of each configured cluster."""
        ...

    @property
    def queue(self) -> Queue:
        """The scheduling queue."""
        ...

    @property
    def profiles(self) -> ProfileNames:
        """The profiles of today."""
        ...

    @property
    def counters(self) -> Mapping[tuple[str, str], int]:
        """Running totals by (what, label)."""
        ...

    @property
    def compared(self) -> Mapping[tuple[str, str, str], int]:
        """(canary's profile, profile it stands for, what came of it) -> decisions."""
        ...

    @property
    def open(self) -> bool:
        """Whether decisions are taken."""
        ...

    @property
    def folding(self) -> Collection[str]:
        """Clusters whose report was taken in only in part: a `FoldOn` goes on with it."""
        ...

    @property
    def waking(self) -> bool:
        """Whether a `Decide` has pods to wake that no decision is due for yet."""
        ...

    def handle(self, event: Event, now: float) -> list[Effect]:
        """The only door."""
        ...


class Service:
    """One dispatcher's life over its links; `run` until cancelled or `stop`ped."""

    def __init__(  # noqa: PLR0913 - the parts of a dispatcher, which assembly.py puts together
        self,
        core: Core,
        links: Sequence[AgentLink],
        *,
        clock: Clock,
        metrics: Metrics,
        journal: Journal | None = None,
        timing: ServiceTiming | None = None,
        term: Term | None = None,
        obeyed: ObeyedEpochs | None = None,
        before: "Service | None" = None,
    ) -> None:
        """`before` has followed the fleet into `core`, has stopped, and is gone on from."""
        self.core = core
        self.metrics = metrics
        self.clock = clock
        self.links = tuple(links)
        self.quota_file: QuotaFile | None = None  # to be brought up to date before orders leave
        self.pod_traces: PodTraces | None = None  # of pods that are traced
        self.timing = timing or ServiceTiming()
        self.term = term or Term()
        self.obeyed = obeyed or ObeyedEpochs([link.cluster for link in links])
        self.deposed: Deposed | None = None  # why it has ended, if an agent told it to
        self._journal = journal
        self._inbox: deque[tuple[Event, asyncio.Future[bool] | None]] = deque()
        self._work = asyncio.Event()
        self._budget = Budget(self.timing.slice_s)
        self._round = Round(self.timing.slice_s)
        self.memory = FreeMemory(clock)
        self._decisions_first = False  # whether this round leaves what came in for the next one
        self._tick_at = float("-inf")
        self._tick_failed = self._opened = False
        self._warned_at: dict[str, float] = {}
        self.senders = {
            link.cluster: IntentSender(link, self.emit, self.timing, self.term, self.depose)
            for link in links
        }
        turns = asyncio.Semaphore(self.timing.full_reports)
        self.pollers = {
            link.cluster: Poller(
                link,
                self.deliver,
                self.timing,
                clock,
                self.term,
                self.depose,
                turns,
                self.obeyed.distrust,
                core.clusters[link.cluster].most_memory,
            )
            for link in links
        }
        for name, follower in before.pollers.items() if before is not None else ():
            view = core.clusters[name]
            self.pollers[name].go_on_from(follower, view.incarnation, view.revision)
        self._stopping = asyncio.Event()
        self._effects: dict[type[Effect], Callable[[Any], None]] = {
            SendIntents: self._send_intents,
            SendPeers: self._send_peers,
            Decided: self._decided,
            OperatorWarning: self._log_warning,
            OperatorNotice: self._log_notice,
        }

    @property
    def ready(self) -> bool:
        """Whether every configured cluster was heard of or given up for now, so that decisions are
        taken.
        """
        return self.core.open

    @property
    def could_lead(self) -> bool:
        """Whether it follows the fleet while another dispatcher leads: each cluster was heard of or
        given up for now, and not all of them are silent.
        """
        views = self.core.clusters.values()
        return (
            self.term is NOBODY
            and all(view.heard for view in views)
            and any(not view.silent for view in views)
        )

    def emit(self, event: Event) -> None:
        """Hand an event to the core; returns at once."""
        self._inbox.append((event, None))
        self._work.set()

    async def deliver(self, event: Event) -> bool:
        """Hand an event to the core and wait until it was taken in; False if the core could not."""
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._inbox.append((event, taken))
        self._work.set()
        return await taken

    async def run(self) -> None:
        """Poll, decide and send until `stop`. An end of any of its tasks ends it, with that task's
        error.
        """
        tasks = [
            asyncio.create_task(poller.run(), name=f"poll {name}")
            for name, poller in self.pollers.items()
        ]
        tasks.append(asyncio.create_task(self._decide(), name="decide"))
        stop = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            for task in (*tasks, stop):
                task.cancel()
            await asyncio.gather(*tasks, stop, return_exceptions=True)
            await asyncio.gather(*(sender.close() for sender in self.senders.values()))

    def stop(self) -> None:
        """End `run` soon."""
        self._stopping.set()

    def depose(self, by: Deposed) -> None:
        """A newer dispatcher is obeyed: if that is believed, not a word more, and end `run` soon."""
        if self.term is NOBODY:
            return
        if self.deposed is None and self.obeyed.believes(
            by, self.term.epoch, lease_holds=self.term.valid()
        ):
            self.deposed = by
            self.stop_sending()
            self.stop()

    def stop_sending(self) -> None:
        """Send nothing any more."""
        for sender in self.senders.values():
            sender.stop_sending()

    async def _decide(self) -> None:
        while True:
            await self._wait_for_work()
            # Other tasks have held up decisions already. Never twice in a row: what came in must
            # not starve.
            self._decisions_first = (
                self.core.open and self._round.late and not self._decisions_first
            )
            if not self._decisions_first:
                self._take_in()
            tick = self.clock() - self._tick_at >= self.timing.tick_s
            if tick or self._to_decide() or self._round.late:
                self._decide_some(tick=tick)
            self._work_left()
            await asyncio.sleep(0)

    async def _wait_for_work(self) -> None:
        left = self._tick_at + self.timing.tick_s - self.clock()
        if left > 0 and not self._work.is_set():
            due = asyncio.get_running_loop().call_later(left, self._work.set)
            try:
                await self._work.wait()
            finally:
                due.cancel()

    def _take_in(self) -> None:
        """Feed what has come in: one event, and more while that leaves decisions their part of the
        round.
        """
        is_over = self._round.taking_in() if self.core.open else Slice(self.timing.slice_s)
        while self._inbox:
            event, taken = self._inbox.popleft()
            done = self._handle(event)
            self.memory.used()
            rest = self._rest_of(event)
            if (
                done and rest is not None
            ):  # others have their turn, unless nobody can be decided anyway
                (self._inbox.append if self.core.open else self._inbox.appendleft)((rest, taken))
            elif taken is not None and not taken.done():
                taken.set_result(done)
            if is_over() or (rest is not None and self.core.open):
                break

    def _rest_of(self, event: Event) -> FoldOn | None:
        """What is still to be done for a report that was taken in only in part."""
        if isinstance(event, FoldOn):
            return event if event.cluster in self.core.folding else None
        cluster = ""
        if isinstance(event, ClusterChanged):
            cluster = event.changes.cluster
        elif isinstance(event, ClusterSilent):
            cluster = event.cluster
        return FoldOn(cluster) if cluster in self.core.folding else None

    def _decide_some(self, *, tick: bool) -> None:
        """What time makes due (`tick`), then decisions: as long as the round lasts, or one class if
        that is longer.
        """
        was_open = self._opened
        self._opened = self.core.open
        if self._opened and not was_open:
            collect_no_more_of(sum(len(one.nodes) for one in self.core.clusters.values()))
        done = not tick or self._handle(Tick(None))
        asked = min(self._active(), self._budget.pods)
        started = perf_counter()
        with self.metrics.plugin_times.round():
            enough = self._round.deciding()
            decide = Decide(self._budget.pods, enough, thread_time, in_rounds=True)
            done = self._handle(decide) and done
        passed = self._round.begin()
        if was_open:
            self.metrics.without_decisions(passed)
        spent = perf_counter() - started
        if tick:
            self._tick_at = self.clock()
        self._tick_failed = not done
        decided = self.metrics.tick(spent, self.core.counters)
        self._budget.learn(asked, decided, spent, more=done and self._active() > 0)

    def _work_left(self) -> None:
        """Go on at once while there is something to take in or to decide, else wait for work or the
        next Tick.
        """
        if self._inbox or (self._to_decide() and not self._tick_failed):
            self._work.set()
        else:
            self._work.clear()
            self.memory.quiet()

    def _to_decide(self) -> bool:
        return self._active() > 0 or self.core.waking

    def _active(self) -> int:
        return self.core.queue.counts().get("active", 0) if self.core.open else 0

    def _handle(self, event: Event) -> bool:
        try:
            effects = self.core.handle(event, self.clock())
        except (
            GapError
        ) as gap:  # such as after another cluster answered under the name: no fault of anybody
            log.warning("a report is not taken in; a full one is asked for", problem=str(gap))
            return False
        except Exception:
            self.metrics.core_error(type(event).__name__)
            log.exception(
                "the core failed on an event; it goes on without it",
                event_type=type(event).__name__,
            )
            log.debug("the event", detail=repr(event)[:2000])
            return False
        self.metrics.event(event, self.clock())
        if self.pod_traces is not None:
            self.pod_traces.event(event, self.clock())
        if self.quota_file is not None:
            self.quota_file.keep(self.clock())
        for effect in effects:
            self._effects[type(effect)](effect)
        if self._journal is not None:
            self._journal.write(
                tables_of(one.decision for one in effects if isinstance(one, Decided))
            )
        return True

    def _send_intents(self, effect: SendIntents) -> None:
        self.metrics.intents(effect.cluster, effect.intents)
        if self.pod_traces is not None:
            self.pod_traces.sent(effect.cluster, effect.intents, self.clock())
        self.senders[effect.cluster].put(effect.intents)

    def _send_peers(self, effect: SendPeers) -> None:
        self.senders[effect.cluster].put_peers(effect)

    def _log_warning(self, effect: OperatorWarning) -> None:
        now = self.clock()
        if now - self._warned_at.get(effect.text, float("-inf")) > _WARN_AGAIN_S:
            self._warned_at.pop(effect.text, None)
            if len(self._warned_at) >= MOST_WARNED:  # texts name pods: there is always another one
                del self._warned_at[next(iter(self._warned_at))]
            self._warned_at[effect.text] = now
            log.error(
                "something is wrong; all else goes on", detail=effect.text, exc_info=effect.error
            )

    def _log_notice(self, effect: OperatorNotice) -> None:
        log.info("rebalancing", detail=effect.text)

    def _decided(self, effect: Decided) -> None:
        self.metrics.decided(effect.decision.pod_id, effect.attempts, effect.queued_at)
        if self.pod_traces is not None:
            self.pod_traces.decided(effect.decision, self.clock())
