"""How long the service waits for what. Seconds, counts where said."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, thread_time

# pods
_LEAST_BUDGET = 64
_FIRST_BUDGET = 256
_MOST_BUDGET = 20_000
_FEW = 4  # decisions


@dataclass(frozen=True)
class ServiceTiming:
    """All waiting of the service loop.

    `poll_wait_s`: how long an agent may hold a long poll open with nothing to say (well below
    `silent_s`). `silent_s`: without an answer for that long its cluster is silent. `first_sync_s`:
    how long all others wait for a cluster's first full report at start. `deadline_s`: an agent
    begins no intent of a batch later than that. `execute_s`: a batch without an answer for that
    long is unanswered. `tick_s`: time between two Ticks. `slice_s`: how long one round of the loop
    works, as `Round` divides it; an event or a batch of pods that has begun is finished, and then
    what arrived is read, so a round may take three times as long. `backoff_s` doubles to
    `backoff_max_s` between attempts to reach an agent. `delegate_lease_s`: delegates of failover
    mode `lease` are stopped when their agent was not renewed for that long. `batch`: intents in a
    call, and `in_flight`: calls at once, per cluster. `full_reports`: large reports of so many
    clusters are read and taken in at once; those of others wait as bytes.
    """

    poll_wait_s: float = 3.0
    silent_s: float = 10.0
    first_sync_s: float = 20.0
    deadline_s: float = 20.0
    execute_s: float = 30.0
    tick_s: float = 0.1
    slice_s: float = 0.02
    backoff_s: float = 0.2
    backoff_max_s: float = 5.0
    delegate_lease_s: float = 120.0
    batch: int = 256
    in_flight: int = 4
    full_reports: int = 4


class Slice:
    """Asked after each class of pods: whether another that takes as long as the last would end
    after this slice.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._before = clock()
        self._ends = self._before + seconds

    @property
    def left(self) -> float:
        """Seconds until its end."""
        return self._ends - self._clock()

    def __call__(self) -> bool:
        """Whether the round is to end now."""
        now = self._clock()
        last = now - self._before
        self._before = now
        return now + last > self._ends


class Round:
    """Divides one slice between the events that came in and decisions.

    Spent are the CPU seconds of this thread since the last decisions ended, by other tasks of the
    event loop as well; time asleep does not count. Events have half of a slice, less what is spent.
    Decisions have what is left of the slice, at least half of it; they are timed by the wall clock.

    Example, slices of 20 ms: another task took 4 ms to decode a large report. That is more than an
    eighth of a slice, so pods that wait are decided first, for the remaining 16 ms. In the next
    round parts of the report are taken in for 10 ms, and pods are decided for 10 ms.
    """

    def __init__(self, slice_s: float, clock: Callable[[], float] = thread_time) -> None:
        self._slice_s = slice_s
        self._clock = clock
        self._began = clock()

    def begin(self) -> float:
        """Decisions have ended: nothing is spent. The seconds that were, with those of the
        decisions.
        """
        before = self._began
        self._began = self._clock()
        return self._began - before

    @property
    def late(self) -> bool:
        """Whether more than an eighth of a slice is spent, so that decisions are due before
        anything else.
        """
        return self._clock() - self._began > self._slice_s / 8

    def taking_in(self) -> Slice:
        """The events' part; it is asked after each event."""
        return Slice(self._slice_s / 2 - (self._clock() - self._began), self._clock)

    def deciding(self) -> Slice:
        """The decisions' part; it is asked after each class of pods."""
        return Slice(max(self._slice_s / 2, self._slice_s - (self._clock() - self._began)))


class Budget:
    """How many `pods` a round decides at most: as many of one class as one slice takes, beyond what
    a few of them take. In a large fleet the first pod of a class is most of it, and many are as
    fast as few.
    """

    def __init__(self, slice_s: float) -> None:
        self.pods = _FIRST_BUDGET
        self._slice_s = slice_s
        self._of_few = 0.0  # seconds that the last few decisions took, decided alone

    def learn(self, asked: int, decided: int, spent_s: float, *, more: bool) -> None:
        """After a round for `asked` pods that decided that many; whether there are `more` to be
        decided at once.
        """
        if 0 < asked <= _FEW or self.pods == _LEAST_BUDGET:
            self._of_few = min(spent_s, 2 * self._slice_s)
        longest = self._slice_s + self._of_few
        if spent_s > longest:
            self.pods = max(_LEAST_BUDGET, int(self.pods * longest / spent_s))
        elif more and decided >= self.pods * 3 / 4 and spent_s < longest - self._slice_s / 2:
            # Twice as many fit. A round that ended before, as many small classes took its slice,
            # does not tell.
            self.pods = min(_MOST_BUDGET, self.pods * 2)
