"""Queueing hints of the node policies: which change of a node is worth a new try of a pod that they refused."""

import pytest

from dispatcher.scheduling.framework.hints import ClusterEvent
from shared.model.reasons import Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.plugins.asking import make

CASES: dict[str, tuple[str, PodBuilder, NodeBuilder, bool]] = {
    "room if it were empty": ("NodeResourcesFit", pod().cpu(2), node().cpu(2), True),
    "never room": ("NodeResourcesFit", pod().cpu(2), node().cpu(1), False),
    "a resource that it lacks": ("NodeResourcesFit", pod().request("example.com/gpu", 1), node(), False),
    "no longer cordoned": ("NodeUnschedulable", pod(), node(), True),
    "still cordoned": ("NodeUnschedulable", pod(), node().cordoned(), False),
    "declares it": ("NodeDeclaredFeatures", pod().set(features=("A",)), node().declares("A", "B"), True),
    "does not declare it": ("NodeDeclaredFeatures", pod().set(features=("A",)), node().declares("B"), False),
    "selected": ("NodeAffinity", pod().node_selector({"zone": "x"}), node().labels(zone="x"), True),
    "not selected": ("NodeAffinity", pod().node_selector({"zone": "x"}), node().labels(zone="y"), False),
    "required": ("NodeAffinity", pod().requires("zone", "In", "x"), node().labels(zone="x"), True),
    "not what is required": ("NodeAffinity", pod().requires("zone", "In", "x"), node(), False),
    "tolerated": ("TaintToleration", pod().tolerates("a", operator="Exists"), node().taint("a"), True),
    "not tolerated": ("TaintToleration", pod(), node().taint("a"), False),
    "a soft taint": ("TaintToleration", pod(), node().taint("a", effect="PreferNoSchedule"), True),
}


@pytest.mark.parametrize(("plugin", "what", "changed", "want"), CASES.values(), ids=CASES)
def test_a_change_of_a_node_is_worth_a_try_where_it_may_help(
    plugin: str, what: PodBuilder, changed: NodeBuilder, want: bool
) -> None:
    event = ClusterEvent(WakeEvent.NODE_CHANGED, "a", None, changed.build())
    assert make(plugin).hint(event, what.placed()) is want


GREW: dict[str, tuple[NodeBuilder, NodeBuilder, bool]] = {
    "an image was pulled": (node().cpu(4), node().cpu(4).images({"web": 1}), False),
    "a label came": (node().cpu(4), node().cpu(4).labels(zone="x"), False),
    "more of what it asks for": (node().cpu(3), node().cpu(4), True),
    "more, and still too little": (node().cpu(1), node().cpu("1500m"), False),
    "more of something else": (node().cpu(4), node().cpu(4).memory("8Gi"), False),
    "place for more pods": (node().cpu(4).pods(1), node().cpu(4).pods(2), True),
    "less": (node().cpu(5), node().cpu(4), False),
}


@pytest.mark.parametrize(("before", "after", "want"), GREW.values(), ids=GREW)
def test_a_node_that_changed_is_worth_a_try_for_room_where_it_can_allocate_more(
    before: NodeBuilder, after: NodeBuilder, want: bool
) -> None:
    event = ClusterEvent(WakeEvent.NODE_CHANGED, "a", before.build(), after.build())
    assert make("NodeResourcesFit").hint(event, pod().cpu(2).placed()) is want


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES.values()}))
def test_what_is_not_about_a_node_is_always_worth_a_try(name: str) -> None:
    assert make(name).hint(ClusterEvent(WakeEvent.CLUSTER_CHANGED), pod().cpu(1000).placed())


@pytest.mark.parametrize("event", [WakeEvent.NAMESPACE, WakeEvent.SERVICE, WakeEvent.CLUSTER_CHANGED])
def test_what_closes_a_cluster_to_a_pod_may_free_it_of_domains_there(event: WakeEvent) -> None:
    assert Reasons.SPREAD.helped_by & event


SAME: dict[str, tuple[str, NodeBuilder, NodeBuilder, bool]] = {
    "as much room": ("NodeResourcesFit", node().cpu(4), node().cpu(4).labels(zone="x"), False),
    "less room": ("NodeResourcesFit", node().cpu(4), node().cpu(3), False),
    "more room": ("NodeResourcesFit", node().cpu(4), node().cpu(5), True),
    "the same labels": ("NodeAffinity", node().labels(a="b"), node().labels(a="b").taint("x"), False),
    "other labels": ("NodeAffinity", node().labels(a="b"), node().labels(a="c"), True),
    "the same taints": ("TaintToleration", node().taint("a"), node().taint("a").labels(a="b"), False),
    "a taint less": ("TaintToleration", node().taint("a"), node(), True),
}


@pytest.mark.parametrize(("plugin", "before", "after", "want"), SAME.values(), ids=SAME)
def test_a_change_of_a_node_that_helps_nobody_is_asked_about_once_for_all_pods(
    plugin: str, before: NodeBuilder, after: NodeBuilder, want: bool
) -> None:
    one = make(plugin)
    assert one.hint_any(ClusterEvent(WakeEvent.NODE_CHANGED, "a", before.build(), after.build()), None) is want
    assert one.hint_any(ClusterEvent(WakeEvent.NODE_ADDED, "a", None, after.build()), None)
    assert one.hint_any(ClusterEvent(WakeEvent.CLUSTER_CHANGED), None)
