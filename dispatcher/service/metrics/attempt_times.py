"""How long attempts to schedule pods take, and how many a pod needs: kube-scheduler's histograms,
by its labels; and how long no decision comes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dispatcher.scheduling.events import Answered
from shared.messages import BOUND
from shared.model.pod import PodId

# kube-scheduler's, which begin at 1 ms, and before them finer ones: most decisions here take less.
_ATTEMPT_BUCKETS = (
    *(0.00001 * 4**step for step in range(4)),
    *(0.001 * 2**step for step in range(15)),
)
_SLI_BUCKETS = tuple(0.01 * 2**step for step in range(20))
_ROUND_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MOST_BINDING = 100_000  # pods that are kept in mind from decision to bind
_MOST_TOLD = 15  # attempts that are told by number; from here on "15+"
Outcome = tuple[str, str]  # result, profile


class _Tally:
    """A histogram to which many equal observations are added at once, for a third of what the
    library's costs.
    """

    def __init__(
        self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], value: float, times: int = 1) -> None:
        """So many observations of this value."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        # the first bucket whose bound is not below it
        counts[bisect_left(self._bounds, value)] += times
        self._sums[labels] += value * times

    def family(self) -> Metric:
        """For one scrape."""
        found = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in sorted(self._counts.items()):
            told = list(zip(bounds, map(float, accumulate(counts)), strict=True))
            found.add_metric(labels, told, self._sums[labels])
        return found


class AttemptTimes(Collector):
    """Attempts come by the hundred, all with the mean time of their round.

    Worked example: a round of 3 ms that placed two pods and refused one is two observations of 1 ms
    with `result="scheduled"` and one with `result="unschedulable"`.
    """

    def __init__(self) -> None:
        self._attempts = _Tally(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt to schedule a pod, one observation an attempt, each the mean of "
            "its round of "
            "decisions; kube-scheduler's includes the bind. Its buckets, and finer ones below 1 "
            "ms.",
            ["result", "profile"],
            _ATTEMPT_BUCKETS,
        )
        self._waits = _Tally(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod came into the queue to when it is bound, in its own cluster or "
            "to the proxy node of "
            "another one.",
            ["attempts"],
            _SLI_BUCKETS,
        )
        self._tries = _Tally(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound.",
            [],
            (1, 2, 4, 8, 16),
        )
        self._rounds = _Tally(
            "global_dispatcher_time_without_decisions_seconds",
            "CPU time of the thread that decides, from the end of a round of decisions to the end "
            "of the next one, one "
            "observation a round; at rest ten a second. Time asleep does not count, nor does "
            "waiting for a core.",
            [],
            _ROUND_BUCKETS,
        )
        self._binding: dict[PodId, tuple[int, float]] = {}  # attempts, and since when it was queued

    def round(self, made: Mapping[Outcome, int], spent_s: float) -> None:
        """A round of decisions took so long and made so many attempts."""
        total = sum(made.values())
        for outcome, count in made.items():
            self._attempts.add(outcome, spent_s / total, count)

    def without_decisions(self, cpu_s: float) -> None:
        """So much CPU was spent from the end of one round to the end of the next."""
        self._rounds.add((), cpu_s)

    def decided(self, pod_id: PodId, attempts: int, queued_at: float) -> None:
        """A pod that came into the queue at that time was given its place at this attempt, 1 the
        first.
        """
        if (
            len(self._binding) >= _MOST_BINDING
        ):  # such as pods that were deleted before they were bound
            del self._binding[next(iter(self._binding))]
        self._binding[pod_id] = attempts, queued_at

    def answered(self, event: Answered, now: float) -> None:
        """What is bound in its own cluster, be it to a proxy node, has its place for good."""
        for outcome in event.outcomes if self._binding else ():
            found = (
                self._binding.pop((event.cluster, outcome.uid), None)
                if outcome.verdict == BOUND
                else None
            )
            if found is not None:
                attempts, queued_at = found
                self._tries.add((), attempts)
                label = str(attempts) if attempts < _MOST_TOLD else f"{_MOST_TOLD}+"
                self._waits.add((label,), max(0.0, now - queued_at))

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        yield from (
            one.family() for one in (self._attempts, self._waits, self._tries, self._rounds)
        )
