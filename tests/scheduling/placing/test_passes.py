"""What passes keep."""

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.framework import (
    Depends,
    FleetView,
    Floats,
    Ints,
    PluginUse,
    PodInfo,
    Profile,
    Rows,
    Score,
)
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from tests.builders import fleet, node, pod
from tests.compiled import compiled  # noqa: F401 - a fixture


class FarFromItsApp(Score[Ints]):
    """Goes by counts of pods, row by row."""

    name, depends = "FarFromItsApp", Depends.NODE

    def class_key(self, pod_info: PodInfo) -> object:
        return tuple(sorted(pod_info.pod.app_labels.items()))

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Ints:
        return fleet.topology.count_matching(pod_info.pod, None, "zone")

    def score(self, state: Ints, fleet: FleetView, rows: Rows) -> Floats:
        found: Floats = 100.0 - state[fleet.topology.domain("zone")[rows]].astype(np.float64)
        return found


@pytest.mark.usefixtures("compiled")
def test_counts_that_a_plugin_by_row_read_for_other_pods_are_not_held() -> None:
    profile = Profile("far", (*DEFAULT_PROFILE.plugins, PluginUse("FarFromItsApp")))
    state = fleet(a=[node("n1").cpu(8).labels(zone="x"), node("n2").cpu(8).labels(zone="y")])
    scheduler = Scheduler(profile, [*build(DEFAULT_PROFILE, PluginContext()), FarFromItsApp()], state)
    for at in range(5):
        one = pod(f"p{at}").labels(app=f"of-{at}").cpu("1m").placed("a")
        assert isinstance(scheduler.schedule(one, ("a", one.pod.uid)), Decision)
    assert scheduler.class_counts.passes == 5
    assert max(len(one.observed.counts) for one in scheduler._passes._requesting) == 1
