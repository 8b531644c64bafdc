"""Groups of pods that start together: how many wait for what, and how long they took to start."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dispatcher.scheduling.core.booked_groups import GIVEN_BACK, StartTimes, Step
from dispatcher.scheduling.waiting_groups import WaitingGroups


class GroupCollector(Collector):
    """Read from what the core keeps of groups; no group is named."""

    def __init__(
        self, groups: WaitingGroups, times: StartTimes, counters: Mapping[tuple[str, str], int]
    ) -> None:
        self._groups = groups
        self._times = times
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        states = GaugeMetricFamily(
            "global_dispatcher_groups",
            "Groups of pods that start together: `incomplete` wait for members, `waiting` for a "
            "place, `placed` have as many as have to start.",
            labels=["state"],
        )
        for state, count in self._groups.counts().items():
            states.add_metric([state], count)
        back = CounterMetricFamily(
            "global_dispatcher_groups_given_back",
            "Groups whose members had places and gave all back, by the step that one of them did "
            "not get through.",
            labels=["step"],
        )
        for step in Step:
            back.add_metric([step.value], self._counters.get((GIVEN_BACK, step.value), 0))
        took = HistogramMetricFamily(
            "global_dispatcher_group_start_seconds",
            "From the last pod that a group needed to the last bind of those that start together.",
        )
        took.add_metric([], self._times.buckets(), self._times.total_s)
        yield from (states, back, took)
