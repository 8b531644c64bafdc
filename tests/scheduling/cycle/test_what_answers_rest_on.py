"""What is kept of an answer holds only as long as all that it rests on."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.cycle.batches import Result
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, PluginUse, PodInfo, Profile, Rows
from dispatcher.scheduling.records.decision import Unschedulable
from shared.model.names import SCHEDULER_NAME, ZONE
from shared.model.objects import Namespace
from shared.model.reasons import Reasons
from tests.builders import fleet, node, pod, put
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Fit, profile


def that_preempts(state: FleetState) -> Scheduler:
    chosen = (make("NamespaceOpen"), make("NodeReady"), make("NodeResourcesFit"), make("DefaultPreemption"))
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)


def promised(result: Result) -> object:
    assert isinstance(result, Unschedulable)
    return result.nominated


def test_that_nothing_helps_a_pod_is_forgotten_once_an_object_has_changed() -> None:
    """Its namespace comes in the cluster where a pod of lower priority could make room."""
    state = fleet(a=[node("n1").cpu(4)], b=[node("n2").cpu(4)])
    state.kept.put("b", Namespace("other"))
    put(state, pod("vip").cpu(4).priority(200), "a", "n1")
    put(state, pod("low").cpu(4).priority(0), "b", "n2", home="b")
    scheduler, asking = that_preempts(state), pod("high").cpu(4).priority(100).placed("a")
    assert promised(scheduler.schedule(asking, ("a", "high"))) is None
    state.kept.put("b", Namespace("default"))
    state.now += 2.0
    assert promised(scheduler.schedule(asking, ("a", "high"))) == ("b", "n2")


class FewAZone(Filter[Any]):
    """No more than two pods of an app in a zone, counted through its view."""

    name = "FewAZone"
    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.namespace, frozenset(pod_info.pod.app_labels.items())

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return pod_info.pod

    def filter(self, state: Any, fleet: FleetView, rows: Rows) -> Codes:
        counts = np.append(fleet.topology.count_matching(state, None, "zone"), 0)
        full = counts[fleet.topology.domain("zone")[rows]] >= 2
        return np.where(full, np.uint16(fleet.reasons.code(Reasons.POLICY, self.name)), np.uint16(0)).astype(np.uint16)


@pytest.mark.parametrize("depends", [Depends.NODE, Depends.STATIC])
def test_a_plugin_that_counts_pods_is_asked_again_when_the_counts_change(depends: Depends) -> None:
    plugin = FewAZone()
    plugin.depends = depends  # type: ignore[misc]
    state = fleet(a=[node(f"n{at}").cpu(8).label({ZONE: f"z{at}"}) for at in range(2)])
    scheduler = Scheduler(Profile(SCHEDULER_NAME, (PluginUse("Fit"), PluginUse("FewAZone"))), [Fit(), plugin], state)
    found = [scheduler.schedule(pod(f"p{at}").cpu("100m").labels(app="x").placed(), ("a", f"p{at}")) for at in range(6)]
    assert [getattr(one, "node", "") != "" for one in found] == [True] * 4 + [False] * 2
