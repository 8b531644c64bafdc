"""FaultDomainSpread remembers which clusters a pod may enter, and sees whatever opens or closes one."""

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import Observed, ObservedView, view_of
from dispatcher.scheduling.framework import ClusterFilter, Codes, FleetView, PodInfo
from shared.model.crossing import Opening
from shared.model.names import ACCEPT, CLUSTERS, NONE, SERVICES
from shared.model.node import Taint
from shared.model.objects import Namespace, PriorityClass, Service
from shared.model.pod import Need, Needs, Toleration
from shared.model.refusal import ClusterRefusal
from shared.model.topology import CLUSTER_LEVEL
from tests.builders import PodBuilder, fleet, node, pod, reading
from tests.plugins.asking import make

FILTERS = ("ClusterAllowed", "ClusterRefused", "NamespaceOpen")
WEB = Service("default", "web", {})

ROWS = (Opening(("*",), ("*",), (), closed=(), secrets=("keys",), max_priority=10),)
NEEDY = Needs(
    of_policy=(Need("secrets", "keys", "spec", "is a Secret"), Need("max_priority", "gold", "spec", "is a class"))
)
TAINT = Taint("maintenance", "", "NoSchedule")


def web() -> PodBuilder:
    return pod("web").labels(app="web")


def three() -> FleetState:
    state = fleet()
    for zone in "abc":
        state.set_cluster(f"in-{zone}", ready=True, synced=True)
        state.put_node(f"in-{zone}", node(zone).build())
    return state


def heeding(*names: str) -> Any:
    """The plugin in a profile with filters of these names."""
    plugin = make("FaultDomainSpread")
    plugin.heed([make(name) for name in names])
    return plugin


def a_fleet() -> FleetState:
    """Three clusters that all pods may enter."""
    state = three()
    for info in list(state.clusters):
        state.set_cluster(info.name, ready=True, synced=True, opens=ROWS)
        state.kept.put(info.name, Namespace("default"))
        state.kept.put(info.name, WEB)
    return state


Change = Callable[[FleetState], object]
CLOSING: dict[str, Change] = {
    "a cordon": lambda state: state.set_closed("in-a", "in-b", closed=True),
    "a taint of a proxy node": lambda state: state.set_proxy_taints("in-a", "in-b", (TAINT,)),
    "the rows of a policy": lambda state: state.set_cluster(
        "in-b", ready=True, synced=True, opens=(replace(ROWS[0], secrets=()),)
    ),
    "the PriorityClasses of a cluster": lambda state: state.set_cluster(
        "in-b", ready=True, synced=True, opens=ROWS, priority_classes=(PriorityClass("gold", 100),)
    ),
    "a namespace that is closed": lambda state: state.kept.put("in-b", Namespace("default", {ACCEPT: "false"})),
    "a namespace that is gone": lambda state: (
        state.kept.put("in-b", Namespace("other")),
        state.kept.remove("in-b", Namespace.__name__, "default"),
    ),
    "a Service that is made at home": lambda state: state.kept.put("in-a", Service("default", "more", {})),
    "a Service that is gone": lambda state: (
        state.kept.put("in-b", Service("default", "other", {})),
        state.kept.remove("in-b", Service.__name__, WEB.key),
    ),
}


def entered(plugin: Any, pod_info: PodInfo, state: FleetState) -> list[bool]:
    """The clusters that the plugin takes the pod to enter."""
    found = plugin._open_clusters(pod_info, view_of(state), True)
    return [True] * len(state.clusters) if found is None else found.tolist()


@pytest.mark.parametrize("change", CLOSING)
def test_what_closes_a_cluster_is_seen_though_the_open_ones_are_remembered(change: str) -> None:
    state, plugin = a_fleet(), heeding(*FILTERS)
    placed = web().set(needs=NEEDY).placed("in-a")
    before = entered(plugin, placed, state)
    assert before == [True, True, True]
    CLOSING[change](state)
    assert entered(plugin, placed, state) == entered(heeding(*FILTERS), placed, state) != before


def test_a_cluster_that_comes_is_open_though_the_others_are_remembered() -> None:
    state, plugin = a_fleet(), heeding(*FILTERS)
    placed = web().placed("in-a")
    entered(plugin, placed, state)
    CLOSING["a cordon"](state)
    state.set_cluster("in-d", ready=True, synced=True, opens=ROWS)
    assert entered(plugin, placed, state) == [True, False, True, True]


ASKING: dict[str, PodInfo] = {
    "which clusters it allows": web().set(annotations={CLUSTERS: "in-a"}).placed("in-a"),
    "its home": web().placed("in-b"),
    "its namespace": web().set(namespace="shop").placed("in-a"),
    "that it calls no Services": web().set(namespace="shop", annotations={SERVICES: NONE}).placed("in-a"),
    "what it needs": web().set(needs=Needs("stays")).placed("in-a"),
    "its tolerations": web().set(tolerations=(Toleration("maintenance", "Exists"),)).placed("in-a"),
    "who has refused it": replace(web().placed("in-a"), refused=(ClusterRefusal("in-c", "", 0.0, 1.0),)),
}


@pytest.mark.parametrize("what", ASKING)
def test_pods_that_differ_in_what_opens_clusters_to_them_are_remembered_apart(what: str) -> None:
    state, plugin = a_fleet(), heeding(*FILTERS)
    state.set_proxy_taints("in-a", "in-b", (TAINT,))
    for name in ("in-a", "in-c"):
        state.kept.put(name, Namespace("shop"))
    state.kept.put("in-a", Service("shop", "more", {}))
    found = {one: entered(plugin, placed, state) for one, placed in ASKING.items()}
    usual = entered(plugin, web().placed("in-a"), state)
    if what == "that it calls no Services":
        usual = found["its namespace"]
    assert found[what] == entered(heeding(*FILTERS), ASKING[what], state) != usual


class Fuller(ClusterFilter):
    """Closes clusters whose nodes have few CPUs, which no version tells."""

    name: ClassVar[str] = "Fuller"

    def __init__(self, read: Callable[[FleetView], bool]) -> None:
        self.read = read

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Codes:
        return np.full(len(fleet.clusters), self.read(fleet), dtype=np.uint16)


READING: dict[str, Callable[[FleetView], bool]] = {
    "the clock": lambda fleet: fleet.now > 1050.0,
    "columns of nodes": lambda fleet: bool(fleet.nodes.unschedulable.any()),
    "how many rows there are": lambda fleet: fleet.n > 3,
    "resources": lambda fleet: "example.com/gpu" in fleet.axis.names,
    "signals": lambda fleet: not np.isnan(fleet.signals.used("cpu")).all(),
    "images": lambda fleet: fleet.images.nodes_with("busybox") > 0,
}


@pytest.mark.parametrize("what", READING)
def test_nothing_is_remembered_of_a_filter_that_reads_more_than_clusters_and_objects(what: str) -> None:
    state, plugin = three(), make("FaultDomainSpread")
    plugin.heed([Fuller(READING[what])])
    placed = web().placed("in-a")
    assert entered(plugin, placed, state) == [True] * 3
    changed = node("more").cpu(4).images({"busybox": 1}).build()
    more = {**changed.allocatable, "example.com/gpu": 1}
    state.put_node("in-a", replace(changed, unschedulable=True, allocatable=more))
    state.put_reading("in-a", reading("more", cpu=0.5))
    state.now += 100.0
    assert entered(plugin, placed, state) == [False] * 3


def test_whoever_is_told_what_is_remembered_is_told_what_it_rests_on() -> None:
    state, plugin = a_fleet(), heeding(*FILTERS)
    first, second = ObservedView(state, Observed()), ObservedView(state, Observed())
    for view in (first, second):
        plugin._open_clusters(web().placed("in-a"), view, True)
    assert {Namespace.__name__, "Service.name"} <= first.observed.kinds
    assert second.observed.kinds == first.observed.kinds


def test_what_is_not_remembered_is_noted_all_the_same() -> None:
    def read(view: FleetView) -> bool:
        return bool(view.topology.count_matching(web().build(), None, CLUSTER_LEVEL).any()) or view.now < 0

    state, plugin = three(), make("FaultDomainSpread")
    plugin.heed([Fuller(read)])
    view = ObservedView(state, Observed())
    plugin._open_clusters(web().placed("in-a"), view, True)
    assert view.observed.now
    assert len(view.observed.counts) == 1
