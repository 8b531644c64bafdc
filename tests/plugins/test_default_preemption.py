"""DefaultPreemption: who is evicted, and on which node; kube-scheduler's own cases."""

import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.objects import PersistentVolumeClaim
from shared.model.pod import CLAIM, Volume
from tests.builders import NodeBuilder, fleet, node, pod, put
from tests.plugins.asking import make
from tests.plugins.preempting import Low, by_room, full, names, needing, refused, scheduler, urgent
from tests.scheduling.tiny_plugins import Spread

# The cases of kube-scheduler's TestPickOneNodeForPreemption: each node needs all its pods gone.
PICKS: dict[str, tuple[dict[str, list[Low]], str]] = {
    "lowest highest priority": (
        {"n1": [Low("a", 10, cpu=4)], "n2": [Low("b", 5, cpu=4)], "n3": [Low("c", 7, cpu=4)]},
        "n2",
    ),
    "then the smallest sum of priorities": (
        {"n1": [Low("a", 10, cpu=2), Low("b", 6, cpu=2)], "n2": [Low("c", 10, cpu=2), Low("d", 5, cpu=2)]},
        "n2",
    ),
    "then the fewest victims, of negative priority too": (
        {"n1": [Low("a", -5, cpu=2), Low("b", -5, cpu=2)], "n2": [Low("c", -5, cpu=4)]},
        "n2",
    ),
    "a sum counts pods as well as priorities": (
        {"n1": [Low("a", 10, cpu=1), Low("b", 0, cpu=1), Low("c", 0, cpu=2)], "n2": [Low("d", 10), Low("e", 0, cpu=3)]},
        "n2",
    ),
    "then the latest start of the highest victim": (
        {"n1": [Low("a", 5, 100.0, cpu=4)], "n2": [Low("b", 5, 300.0, cpu=4)], "n3": [Low("c", 5, 200.0, cpu=4)]},
        "n2",
    ),
    "the longest running of the highest victims counts": (
        {
            "n1": [Low("a", 5, 100.0, cpu=2), Low("b", 5, 900.0, cpu=2)],
            "n2": [Low("c", 5, 300.0, cpu=2), Low("d", 5, 400.0, cpu=2)],
        },
        "n2",
    ),
    "lower victims' starts do not count": (
        {
            "n1": [Low("a", 5, 400.0, cpu=2), Low("b", 1, 100.0, cpu=2)],
            "n2": [Low("c", 5, 300.0, cpu=2), Low("d", 1, 900.0, cpu=2)],
        },
        "n1",
    ),
    "equal in all: by name": ({"n2": [Low("a", 5, cpu=4)], "n1": [Low("b", 5, cpu=4)]}, "n1"),
}


@pytest.mark.parametrize(("nodes", "want"), PICKS.values(), ids=PICKS)
def test_the_node_whose_victims_matter_least_is_chosen(nodes: dict[str, list[Low]], want: str) -> None:
    assert refused(scheduler(full(**nodes)), urgent()).nominated == ("a", want)


def test_as_many_as_possible_stay_from_the_highest_priority_down() -> None:
    state = full(n1=[Low("low", 1), Low("mid", 5), Low("old", 3, 100.0), Low("young", 3, 900.0)])
    assert names(refused(scheduler(state), urgent().cpu(2)).victims) == ["young", "low"]


@pytest.mark.parametrize("priority", [100, 200])
def test_pods_of_equal_or_higher_priority_are_never_touched(priority: int) -> None:
    result = refused(scheduler(full(n1=[Low("peer", priority, cpu=4)])), urgent())
    assert (result.nominated, result.victims) == (None, ())
    assert result.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_nominated_node_that_can_help_no_more_is_given_up_for_another() -> None:
    state = full(n1=[Low("low", cpu=4)], n2=[Low("other", 5, cpu=4)])
    one = scheduler(state)
    refused(one, urgent())
    state.put_node("a", node("n1").cpu(4).ready(False).build())
    assert refused(one, urgent()).nominated == ("a", "n2")


def test_a_more_urgent_pod_takes_the_promised_room() -> None:
    state = full(n1=[Low("low", cpu=4)])
    one = scheduler(state)
    refused(one, urgent(50))
    result = refused(one, urgent(100).set(uid="uid-more", name="more"))
    assert (result.nominated, names(result.victims)) == (("a", "n1"), ["low"])
    assert result.displaced == (("a", "uid-urgent"),)


def test_pods_of_a_domain_rule_are_tried_node_by_node() -> None:
    """One pod may run in each zone: the one in zone x must go, whatever else runs on either node."""
    state = fleet(a=[node("n1").cpu(8).labels(zone="x"), node("n2").cpu(8).labels(zone="y")])
    put(state, pod("x1").cpu(1).labels(app="web").priority(1), "a", "n1")
    put(state, pod("x2").cpu(1).labels(app="web").priority(2), "a", "n1")
    put(state, pod("y1").cpu(8).priority(200), "a", "n2")
    asking = pod("urgent").cpu(1).labels(app="web").priority(100).spread("zone")
    result = refused(scheduler(state, Spread()), asking)
    assert (result.nominated, names(result.victims)) == (("a", "n1"), ["x2", "x1"])


def columns(state: FleetState) -> bytes:
    return b"".join(array.tobytes() for array in (state.requested, state.nonzero, state.recent))


def test_what_if_leaves_no_trace_in_the_fleet() -> None:
    def built(state: FleetState, nodes: dict[str, NodeBuilder]) -> FleetState:
        for name in nodes:
            put(state, pod(f"low-{name}").cpu(3).port(80).labels(app="web").set(phase="Pending"), "a", name)
            put(state, pod(f"peer-{name}").cpu(1).priority(100), "a", name)
        return state

    nodes = {"n1": node("n1").cpu(4), "n2": node("n2").cpu(4)}
    state = built(fleet(a=list(nodes.values())), nodes)
    asking = pod("urgent").cpu(4).priority(100).labels(app="web").spread("zone")
    before, at = columns(state), state.loads.position
    result = refused(scheduler(state, Spread()), asking)
    assert result.nominated is None
    assert columns(state) == before
    assert state.loads.position == at
    assert {row: dict(state.ports_taken(row)) for row in (0, 1)} == {row: {("TCP", 80): ["0.0.0.0"]} for row in (0, 1)}


def test_the_user_of_a_claim_that_bears_one_pod_is_evicted_for_the_next() -> None:
    state = full(n1=[], n2=[Low("other")])
    state.kept.put(
        "a", PersistentVolumeClaim("default", "one", "u", "pv", bound=True, access_modes=("ReadWriteOncePod",))
    )
    put(state, pod("user").set(volumes=(Volume(CLAIM, "one"),)), "a", "n1")
    found = refused(scheduler(state, make("VolumeRestrictions")), needing("one"))
    assert names(found.victims) == ["user"]


def test_pods_of_several_priorities_make_room_together() -> None:
    state = full(n1=[Low("a", 0), Low("b", 5, cpu=3)], n2=[Low("c", 6, cpu=4)])
    assert names(refused(by_room(state), urgent()).victims) == ["b", "a"]
