"""What node groups could do for a pod that no node takes, by the filters that decide it."""

import dataclasses
from functools import partial

import msgspec
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.cycle.future_nodes import REST_S, FutureNodes
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, FleetView, Plugin, PluginUse, Profile, Rows
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.names import CLUSTERS, STAY
from shared.model.node_group import NodeGroup, NodeGroups
from shared.model.pod import Need, Needs
from shared.model.refusal import ClusterRefusal
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put
from tests.scheduling.tiny_plugins import Fit, profile

WAIT_S = 300.0


def group(name: str = "large", template: NodeBuilder | None = None, **more: int | float | bool) -> NodeGroup:
    """Of 16 CPU, empty, and may have 10 nodes, unless told otherwise."""
    fields = {"size": 0, "most": 10, **more}
    return NodeGroup(name, template=(template or node("").cpu(16)).build(), **fields)  # type: ignore[arg-type]


class World:
    """Clusters of a full node of 4 CPU each; pods are submitted in east."""

    def __init__(
        self,
        *,
        all_told: bool = False,
        profile: Profile = DEFAULT_PROFILE,
        **groups: NodeGroup | list[NodeGroup],
    ) -> None:
        self.state: FleetState = fleet(east=[node("n1")], west=[node("n2")])
        for cluster, name in (("east", "n1"), ("west", "n2")):
            put(self.state, pod(f"low-{name}").cpu(4).priority(-1), cluster, name, home="east")
        made = partial(build, profile, PluginContext(quota=QuotaLedger(())))
        self.scheduler = Scheduler(profile, made(), self.state, anew=made)
        self.scheduler.future.wait_s = WAIT_S
        for cluster, told in groups.items():
            self.tell(cluster, *(told if isinstance(told, list) else [told]), all_told=all_told)

    def tell(self, cluster: str, *groups: NodeGroup, all_told: bool = False) -> bool:
        return self.state.groups.put(cluster, NodeGroups(groups, all_told))

    def refused(self, asks: PodBuilder, *refusals: ClusterRefusal) -> Unschedulable:
        pod_info = msgspec.structs.replace(asks.placed("east"), refused=refusals)
        result = self.scheduler.schedule(pod_info, ("east", asks.build().uid))
        assert isinstance(result, Unschedulable)
        return result


def web() -> PodBuilder:
    """Larger than any node that is there."""
    return pod("web").cpu(8)


EAST = "cluster east could make a node that fits: node group large, 0 of at most 10 nodes"


def test_a_group_at_home_whose_nodes_would_take_the_pod_is_told() -> None:
    refused = World(east=group()).refused(web())
    assert refused.full_message.endswith(f"; {EAST}")
    assert EAST in refused.record()["message"]


def test_how_long_its_last_growth_took_is_told() -> None:
    assert World(east=group(seconds=90.0)).refused(web()).hints[-1] == f"{EAST}, usually 90 s"


def test_a_group_of_another_cluster_is_told_with_what_is_to_be_done() -> None:
    (hint,) = World(west=group()).refused(web()).hints
    assert hint.startswith("cluster west could make a node that fits: node group large")
    assert hint.endswith("its autoscaler sees no pods of other clusters: make the group larger there")


@pytest.mark.parametrize(
    ("told", "hint"),
    [
        pytest.param(group(size=10), "cluster east has all nodes that it may have of those that fit", id="at its most"),
        pytest.param(group(backs_off=True), "cluster east makes no node that fits for now", id="backs off"),
    ],
)
def test_a_group_that_makes_no_node_now_says_so(told: NodeGroup, hint: str) -> None:
    refused = World(east=told).refused(web())
    assert refused.hints[0].startswith(hint)
    assert refused.waits_until is None


def test_of_several_that_fit_the_one_that_grows_soonest_is_told() -> None:
    groups = [group("a", size=10), group("b", seconds=90.0), group("c", seconds=60.0)]
    assert "node group c" in World(east=groups).refused(web()).hints[0]


FAST = node("").cpu(16).label({"tier": "fast"}).resource("nvidia.com/gpu", 4)
KINDS = [
    pytest.param(node("").cpu(6), web(), False, id="too small"),
    pytest.param(node("").cpu(16).taint("gpu"), web(), False, id="tainted"),
    pytest.param(node("").cpu(16).taint("gpu"), web().tolerates("gpu", operator="Exists"), True, id="tolerated"),
    pytest.param(node("").cpu(16), web().node_selector({"tier": "fast"}), False, id="lacks a label"),
    pytest.param(FAST, web().node_selector({"tier": "fast"}), True, id="has the label"),
    pytest.param(node("").cpu(16), web().request("nvidia.com/gpu", 1), False, id="lacks a GPU"),
    pytest.param(FAST, web().request("nvidia.com/gpu", 4), True, id="has GPUs"),
    pytest.param(FAST, web().request("nvidia.com/gpu", 5), False, id="has too few"),
    pytest.param(FAST, web().port(80), True, id="has the port free"),
    pytest.param(FAST, web().annotation(CLUSTERS, "west"), False, id="in a cluster that it does not allow"),
    pytest.param(FAST, web().requires("kubernetes.io/hostname", "In", "n1"), False, id="of another name"),
]


@pytest.mark.parametrize(("template", "asks", "fits"), KINDS)
def test_a_group_is_told_of_exactly_where_a_node_of_it_would_take_the_pod(
    template: NodeBuilder, asks: PodBuilder, fits: bool
) -> None:
    assert bool(World(east=group(template=template)).refused(asks).hints) is fits
    world = World()
    world.state.put_node("east", msgspec.structs.replace(template.build(), name="large"))
    placed = world.scheduler.schedule(asks.placed("east"), ("east", asks.build().uid))
    assert isinstance(placed, Decision) is fits


def test_a_group_of_a_cluster_without_the_pods_runtime_class_is_not_told() -> None:
    needs = Needs(of_policy=(Need("runtime_class", "gvisor", "spec.runtimeClassName", 'is RuntimeClass "gvisor"'),))
    world = World(west=group())
    for there, told in (((), 0), (("gvisor",), 1), (None, 1)):
        world.state.set_cluster("west", ready=True, synced=True, runtime_classes=there)
        assert len(world.refused(web().set(needs=needs)).hints) == told


def test_a_disk_of_which_nothing_is_told_refuses_no_pod() -> None:
    assert World(east=group()).refused(web().request("ephemeral-storage", "1Gi")).hints


def test_a_group_whose_nodes_are_of_unknown_size_says_nothing() -> None:
    refused = World(east=NodeGroup("odd", 0, 10), all_told=True).refused(web())
    assert (refused.hints, refused.beyond_home) == ((), False)


def test_without_groups_nothing_is_said() -> None:
    refused = World().refused(web())
    assert (refused.hints, refused.beyond_home, refused.waits_until) == ((), False, None)


def test_a_group_that_changes_or_goes_is_told_otherwise_at_the_next_try() -> None:
    world = World(east=group())
    assert world.refused(web()).hints == (EAST,)
    assert world.tell("east", group(template=node("").cpu(6)))
    assert not world.refused(web()).hints
    assert world.tell("east", group(template=node("").cpu(16)))
    assert world.refused(web()).hints == (EAST,)
    assert world.state.groups.put("east", None)
    assert not world.refused(web()).hints


def test_how_many_nodes_a_group_has_is_no_news_until_it_has_all() -> None:
    world = World(east=group())
    assert not world.tell("east", group(size=3))
    assert "3 of at most 10" in world.refused(web()).hints[0]
    assert world.tell("east", group(size=10))


def test_nodes_that_could_be_made_are_no_rows_of_the_fleet() -> None:
    world = World(east=group())
    before = world.state.n, world.state.changes.position
    world.refused(web())
    assert (world.state.n, world.state.changes.position) == before


# --- certain that no new node helps


def test_a_pod_that_is_larger_than_the_nodes_of_all_groups_is_helped_by_no_new_node() -> None:
    groups = [group("a"), group("b", template=node("").cpu(32))]
    refused = World(east=groups, all_told=True).refused(pod("huge").cpu(64))
    assert refused.beyond_home
    assert refused.hints == ("no node group of cluster east makes a node as large as it asks for",)


@pytest.mark.parametrize(
    ("groups", "all_told", "asks"),
    [
        pytest.param([group()], False, pod().cpu(64), id="there may be others"),
        pytest.param([group(), NodeGroup("odd", 0, 1)], True, pod().cpu(64), id="one is of unknown size"),
        pytest.param([group()], True, web().node_selector({"tier": "fast"}), id="it lacks a label as far as is told"),
        pytest.param([group()], True, web().request("nvidia.com/gpu", 1), id="of its GPUs nothing is told"),
        pytest.param([group(template=node("").cpu(2))], True, pod().cpu(4), id="a node at home is larger than told"),
        pytest.param([group(size=10)], True, web(), id="the group may shrink and grow again"),
    ],
)
def test_that_is_not_certain(groups: list[NodeGroup], all_told: bool, asks: PodBuilder) -> None:
    assert not World(east=groups, all_told=all_told).refused(asks).beyond_home


def test_it_is_certain_where_it_is_the_word_of_an_operator_that_no_group_makes_nodes() -> None:
    world = World()
    world.tell("east", all_told=True)
    assert world.refused(web()).beyond_home


def test_it_is_certain_no_more_when_a_larger_node_comes_to_home() -> None:
    world = World(east=group(), all_told=True)
    huge = pod("huge").cpu(64)
    assert world.refused(huge).beyond_home
    world.state.put_node("east", node("larger").cpu(96).cordoned().build())
    assert not world.refused(huge).beyond_home


def test_a_filter_by_readings_lets_a_node_pass_that_has_none_yet() -> None:
    hot = PluginUse("HotNode", args={"signals": ["cpu"], "enter": 0.8, "leave": 0.7})
    profile = dataclasses.replace(DEFAULT_PROFILE, plugins=(*DEFAULT_PROFILE.plugins, hot))
    world = World(profile=profile, east=group())
    assert world.refused(web()).hints == (EAST,)
    assert not world.scheduler.take_troubles()


def test_a_plugin_that_fails_says_nothing_of_new_nodes() -> None:
    class Broken(Fit):
        def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
            raise RuntimeError("no")

    world = World(east=group())
    world.scheduler.future = FutureNodes(
        profile(Fit=1.0), lambda: [Broken()], world.state, world.scheduler._faults.note
    )
    assert not world.refused(web()).hints
    assert "Fit" in world.scheduler.take_troubles()[0]


def test_where_plugins_cannot_be_made_twice_nothing_is_said_of_new_nodes_and_the_operator_hears_it_once() -> None:
    def anew() -> list[Plugin]:
        raise ValueError("one only")

    world = World(east=group())
    world.scheduler.future = FutureNodes(profile(Fit=1.0), anew, world.state, world.scheduler._faults.note)
    assert not world.refused(web()).hints
    assert "one only" in world.scheduler.take_troubles()[0]
    assert not world.refused(web()).hints
    assert not world.scheduler.take_troubles()


# --- waiting for a node


def urgent(name: str = "urgent") -> PodBuilder:
    return pod(name).cpu(4).priority(1000)


def test_a_pod_that_could_evict_others_waits_for_a_node_that_can_be_made_at_home() -> None:
    world = World(east=group())
    refused = world.refused(urgent())
    assert (refused.victims, refused.waits_until) == ((), world.state.now + WAIT_S)


def test_once_the_node_has_had_its_time_it_evicts() -> None:
    world = World(east=group())
    world.refused(urgent())
    world.state.now += WAIT_S
    refused = world.refused(urgent())
    assert refused.waits_until is None
    assert [one.pod_info.pod.name for one in refused.victims] == ["low-n1"]


def test_a_node_that_took_less_the_last_time_is_waited_for_less() -> None:
    world = World(east=group(seconds=40.0))
    assert world.refused(urgent()).waits_until == world.state.now + 80.0


@pytest.mark.parametrize(
    ("told", "asks"),
    [
        pytest.param({"west": group()}, urgent(), id="in another cluster"),
        pytest.param({"east": group(size=10)}, urgent(), id="at its most"),
        pytest.param({"east": group(template=node("").cpu(2))}, urgent(), id="too small"),
    ],
)
def test_for_no_other_node_it_waits(told: dict[str, NodeGroup], asks: PodBuilder) -> None:
    assert World(**told).refused(asks).victims  # type: ignore[arg-type]


def test_nobody_waits_unless_that_is_set() -> None:
    world = World(east=group())
    world.scheduler.future.wait_s = 0.0
    assert world.refused(urgent()).victims


def test_a_pod_that_stays_at_home_waits_too_and_one_that_preempts_nobody_does_not_count_the_time() -> None:
    world = World(east=group())
    assert world.refused(urgent().annotation(STAY, "true")).waits_until is not None
    assert world.refused(urgent("meek").set(preempts=False)).waits_until is None


def test_a_group_that_brought_nothing_is_not_waited_for_again_at_once() -> None:
    world = World(east=group())
    world.refused(urgent())
    world.state.now += WAIT_S + REST_S - 1.0
    assert world.refused(urgent()).waits_until is None
    world = World(east=group())
    world.refused(urgent())
    world.state.now += WAIT_S + REST_S
    assert world.refused(urgent()).waits_until is not None


def test_a_group_at_home_helps_no_pod_that_home_has_refused_for_a_while() -> None:
    world = World(east=group())
    now = world.state.now
    assert not world.refused(web(), ClusterRefusal("east", "no", now, now + 60.0)).hints
