"""Rules of any policy, odd ones and broken ones: batches decide what single pods get, and no core fails."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.framework import CountedPlugin, FleetView, PluginUse, PodInfo, Profile, kernels
from dispatcher.scheduling.framework.counted import pods_by_domain
from dispatcher.scheduling.framework.domain_counts import CountRules, MaxCount
from dispatcher.scheduling.records.decision import Decision
from shared.model.reasons import Reasons
from tests.builders import fleet, node, pod
from tests.laws.oracle import numbered

Make = Callable[[PodInfo, FleetView], CountRules]


@pytest.fixture(autouse=True)
def _numpy_afterwards() -> Iterator[None]:
    pytest.importorskip("numba")
    yield
    kernels.use_numpy()


class Stated(CountedPlugin):
    """What it is told to say."""

    name = "Stated"

    def __init__(self, make: Make) -> None:
        self._make = make

    def class_key(self, pod_info: PodInfo) -> str:
        return pod_info.pod.namespace

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules:
        return self._make(pod_info, fleet)


def at_most(key: str, most: int, present: Callable[[int], object] | None) -> Make:
    def make(pod_info: PodInfo, fleet: FleetView) -> CountRules:
        count = pods_by_domain(pod_info.pod, key, fleet)
        told = None if present is None else present(len(count.counts))
        return CountRules([MaxCount(count, most, fleet.reasons.code(Reasons.POLICY), present=told)])  # type: ignore[arg-type]

    return make


def places(make: Make, *, together: bool) -> list[tuple[str, str] | None]:
    """Where thirty pods of one app go."""
    state = fleet(a=[node(f"n{at}").labels(rack="xyz"[at % 3]) for at in range(6)])
    scheduler = Scheduler(Profile("global-dispatcher", (PluginUse("Stated"),)), [Stated(make)], state)
    items = [numbered(pod().labels(app="u").placed("a"), at) for at in range(30)]
    results = scheduler.schedule_class(items) if together else [scheduler.schedule(one, at) for at, one in items]
    return [(one.cluster, one.node) if isinstance(one, Decision) else None for one in results]


@pytest.mark.parametrize("fast", [True, False], ids=["compiled", "before it is compiled"])
@pytest.mark.parametrize(
    ("make", "placed"),
    [
        pytest.param(at_most("rack", 3, None), 12, id="four a rack"),
        pytest.param(at_most("rack", 3, lambda n: np.zeros(n, dtype=np.bool_)), 12, id="no rack is present"),
        pytest.param(at_most("host", 1, lambda n: np.zeros(n, dtype=np.bool_)), 12, id="no host is present"),
        pytest.param(at_most("nobody", 3, lambda n: np.zeros(n, dtype=np.bool_)), 30, id="no domain at all"),
        pytest.param(at_most("rack", 3, lambda n: np.ones(n, dtype=np.bool_)), 30, id="all racks are present"),
        pytest.param(at_most("rack", 3, lambda n: np.zeros(1, dtype=np.bool_)), 12, id="present is too short"),
    ],
)
def test_a_batch_goes_where_single_pods_go(make: Make, placed: int, fast: bool) -> None:
    kernels.compile_all() if fast else kernels.use_numpy()
    alone = places(make, together=False)
    assert len([one for one in alone if one]) == placed
    assert places(make, together=True) == alone
