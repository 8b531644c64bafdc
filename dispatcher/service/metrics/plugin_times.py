"""How long the plugins of a profile take, by extension point, in kube-scheduler's metrics, labels
and buckets.

As there a tenth of the work is timed, here a tenth of the rounds of decisions; a round that is not
costs a look at one variable a call. The compiled loops of batches decide without calling plugins:
their time is in no plugin's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import random
from time import perf_counter
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Histogram

from dispatcher.scheduling.framework import Refuse, Skip
from dispatcher.scheduling.framework.stopwatch import STOPWATCH

T = TypeVar("T")

SAMPLED = 0.1  # of the rounds; kube-scheduler's pluginMetricsSamplePercent
_POINT_BUCKETS = tuple(0.0001 * 2**step for step in range(12))
_PLUGIN_BUCKETS = tuple(0.00001 * 1.5**step for step in range(20))
SUCCESS = "Success"
SKIP = "Skip"
UNSCHEDULABLE = "Unschedulable"
ERROR = "Error"

# Method of a plugin -> kube-scheduler's name of its point. Others, such as class_key, are none of
# its points.
POINTS = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "refresh": "PreFilter",
    "filter": "Filter",
    "filter_parts": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "pre_score_domains": "PreScore",
    "score": "Score",
    "score_parts": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "reserve_all": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}


class PluginTimes:
    """The histograms, and the stopwatch that fills them. `clock` counts seconds; `share` of the
    rounds are timed.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Callable[[], float] = perf_counter,
        share: float = SAMPLED,
    ) -> None:
        self._clock = clock
        self._share = share
        self._of_points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point in deciding a batch of equal pods, one "
            "observation a batch, at "
            "10 % of the rounds; kube-scheduler has one for every pod.",
            ["extension_point", "status", "profile"],
            buckets=_POINT_BUCKETS,
            registry=registry,
        )
        self._of_plugins = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one call of a plugin, for one pod or all that are alike, and for one node or "
            "all, at 10 % of the "
            "rounds; kube-scheduler calls a plugin for each pod and, in Filter and Score, for "
            "each node.",
            ["plugin", "extension_point", "status"],
            buckets=_PLUGIN_BUCKETS,
            registry=registry,
        )
        self._profile = ""
        self._spent: defaultdict[tuple[str, str], float] = defaultdict(
            float
        )  # point, status -> seconds, of the batch at hand

    @contextmanager
    def round(self) -> Iterator[None]:
        """A round of decisions: whatever calls plugins within is timed, if this one is sampled."""
        if random() >= self._share:
            yield
            return
        token = STOPWATCH.set(self)
        try:
            yield
        finally:
            STOPWATCH.reset(token)
            self.begin("")

    def begin(self, profile: str) -> None:
        """A batch of pods of this profile begins; that of the last one is over."""
        for (point, status), spent in self._spent.items():
            self._of_points.labels(point, status, self._profile).observe(spent)
        self._spent.clear()
        self._profile = profile

    def call(
        self, plugin: str, call: Callable[..., T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        """Make and time a call of one of a plugin's points; anything else of a plugin is called and
        not timed.
        """
        point = POINTS.get(getattr(call, "__name__", ""))
        if point is None:
            return call(*args, **kwargs)
        status = ERROR
        started = self._clock()
        try:
            answer = call(*args, **kwargs)
            status = _status(answer)
            return answer
        finally:
            spent = self._clock() - started
            self._of_plugins.labels(plugin, point, status).observe(spent)
            self._spent[point, status] += spent


def _status(answer: object) -> str:
    if isinstance(answer, Refuse):
        return UNSCHEDULABLE
    return SKIP if isinstance(answer, Skip) else SUCCESS
