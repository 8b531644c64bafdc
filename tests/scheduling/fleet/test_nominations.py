"""Nominated pods: the room that they are promised, and who may have it none the less."""

import pytest

from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from shared.model.crossing import Opening
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Fit, Quota, Ready, Selector, profile


def a_scheduler(state: FleetState) -> Scheduler:
    return Scheduler(profile(Ready=1, Selector=1, Fit=1), [Ready(), Selector(), Fit()], state)


def promise(one: Scheduler, what: PodBuilder, where: str = "n1") -> tuple[str, str]:
    placed = what.placed()
    pod_id = ("a", placed.pod.uid)
    one.nominations.put(Nominee(pod_id, placed, "a", where))
    return pod_id


def decided(one: Scheduler, what: PodBuilder) -> str | None:
    placed = what.placed()
    result = one.schedule(placed, ("a", placed.pod.uid))
    return result.node if isinstance(result, Decision) else None


@pytest.mark.parametrize(
    ("priority", "want"), [(0, None), (5, None), (6, "n1")], ids=["lower", "equal", "higher goes before"]
)
def test_promised_room_is_held_against_pods_of_no_higher_priority(priority: int, want: str | None) -> None:
    one = a_scheduler(fleet(a=[node("n1").cpu(1)]))
    promise(one, pod("nominee").cpu(1).priority(5))
    assert decided(one, pod("other").cpu(1).priority(priority)) == want


@pytest.mark.parametrize(("value", "want"), [(6, "n1"), (5, None)], ids=["higher there goes before", "no higher there"])
def test_in_another_cluster_a_promise_gives_way_by_the_priority_that_pods_have_there(
    value: int, want: str | None
) -> None:
    state = fleet(a=[], b=[node("n1").cpu(1)])
    rows = (Opening(("*",), ("*",), (), closed=(), max_priority=10),)
    state.set_cluster("b", ready=True, synced=True, opens=rows, priority_classes=(PriorityClass("high", value),))
    one = a_scheduler(state)
    there = pod("nominee").cpu(1).priority(5).placed("b")
    one.nominations.put(Nominee(("b", there.pod.uid), there, "b", "n1"))
    needs = Needs(of_policy=(Need("max_priority", "high", "spec.priorityClassName", "is high"),))
    asking = pod("other").cpu(1).priority(100_000).set(needs=needs)
    assert decided(one, asking) == want
    assert one.nominations.lower_on("b", "n1", asking.placed()) == ([("b", there.pod.uid)] if want else [])


def test_a_nominee_takes_its_room_and_the_promise_is_kept() -> None:
    state = fleet(a=[node("n1").cpu(1)])
    one = a_scheduler(state)
    pod_id = promise(one, pod("nominee").cpu(1))
    assert decided(one, pod("nominee").cpu(1)) == "n1"
    assert (one.nominations.of(pod_id), state.requested[0].tolist()) == (None, [1000])


def test_a_nominee_goes_to_its_node_though_another_scores_higher() -> None:
    one = a_scheduler(fleet(a=[node("n1").cpu(2), node("n2").cpu(64)]))
    promise(one, pod("nominee").cpu(1))
    assert decided(one, pod("nominee").cpu(1)) == "n1"


def test_a_nominee_whose_node_is_no_use_goes_elsewhere() -> None:
    state = fleet(a=[node("n1").cpu(2), node("n2").cpu(2)])
    one = a_scheduler(state)
    promise(one, pod("nominee").cpu(1))
    state.put_node("a", node("n1").cpu(2).ready(False).build())
    assert decided(one, pod("nominee").cpu(1)) == "n2"
    assert state.requested[0].tolist() == [0, 1000]


def test_in_a_batch_each_pod_is_decided_with_its_own_promise_aside() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    one = a_scheduler(state)
    wanting = [pod(f"p{number}").cpu(1) for number in range(6)]
    for number in (0, 5):
        promise(one, wanting[number])
    items = [(("a", f"uid-p{number}"), what.placed()) for number, what in enumerate(wanting)]
    results = one.schedule_class(items)
    assert [isinstance(result, Decision) for result in results] == [True, True, True, False, False, True]
    assert state.requested[0].tolist() == [4000]


def test_what_is_promised_is_given_back_exactly() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4)])
    one = a_scheduler(state)
    before = [column.tobytes() for column in (state.requested, state.nonzero, state.recent)]
    pod_id = promise(one, pod("nominee").cpu(1).port(80))
    promise(one, pod("nominee").cpu(2).port(80), "n2")
    assert one.nominations.lower_on("a", "n2", pod().priority(1).placed()) == [pod_id]
    one.nominations.drop(pod_id)
    assert [column.tobytes() for column in (state.requested, state.nonzero, state.recent)] == before
    assert state.rows_with_ports() == []


def test_a_node_that_goes_takes_the_room_but_not_the_promise() -> None:
    state = fleet(a=[node("n1").cpu(1), node("n2").cpu(1)])
    one = a_scheduler(state)
    pod_id = promise(one, pod("nominee").cpu(1))
    state.remove_node("a", "n1")
    assert one.nominations.of(pod_id) is not None
    assert decided(one, pod("nominee").cpu(1)) == "n2"


def test_a_nominee_that_quota_stops_gives_its_room_to_others() -> None:
    state, quota = fleet(a=[node("n1").cpu(1)]), Quota(1000)
    one = Scheduler(profile(Ready=1, Fit=1, Quota=1), [Ready(), Fit(), quota], state)
    pod_id = promise(one, pod("nominee").cpu(1).priority(5))
    assert decided(one, pod("other").namespace("other").cpu(1)) is None
    quota.used["default"] = 1000
    assert decided(one, pod("nominee").cpu(1).priority(5)) is None
    assert one.nominations.of(pod_id) is None
    assert decided(one, pod("other").namespace("other").cpu(1)) == "n1"


def test_a_victim_that_is_placed_anew_after_it_has_left_is_evicted_again() -> None:
    """A source whose delegate was evicted before the source was bound keeps its UID, and may find its place again."""
    state = fleet(a=[node("n1").cpu(1)])
    one = Scheduler(
        profile(NodeResourcesFit=1, DefaultPreemption=1), [make("NodeResourcesFit"), make("DefaultPreemption")], state
    )
    profiles, low, urgent = Profiles([one]), pod("low").cpu(1), pod("urgent").cpu(1).priority(5)

    def asked() -> tuple[list[str], str]:
        result = one.schedule(urgent.placed(), ("a", "uid-urgent"))
        assert isinstance(result, Unschedulable)
        return [victim.pod_id[1] for victim in result.victims], result.message

    put(state, low, "a", "n1")
    assert asked()[0] == ["uid-low"]
    assert "terminating pod on the nominated node" in asked()[1]
    profiles.forget(("a", "uid-low"))
    put(state, low, "a", "n1")
    assert asked()[0] == ["uid-low"]


def test_nobody_leans_on_a_pod_that_is_only_promised_its_place() -> None:
    """Affinity to a nominee does not count, as in kube-scheduler's second pass."""
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4)])
    one = Scheduler(profile(NodeReady=1, InterPodAffinity=1), [make("NodeReady"), make("InterPodAffinity")], state)
    friend = pod("friend").labels(app="friend")
    pod_id = promise(one, friend)
    asking = pod("asking").near("host", selector(app="friend"))
    placed = asking.placed()
    refused = one.schedule(placed, ("a", placed.pod.uid))
    assert isinstance(refused, Unschedulable)
    assert refused.message == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    one.nominations.drop(pod_id)
    put(state, friend, "a", "n2")
    assert decided(one, asking) == "n2"


def test_a_nominee_does_not_even_out_what_a_pod_spreads_over() -> None:
    state = fleet(a=[node(name).cpu(4).labels(zone=name) for name in ("x", "y", "z")])
    one = Scheduler(profile(FaultDomainSpread=1), [make("FaultDomainSpread")], state)
    web = pod("nominee").labels(app="web")
    put(state, pod("there").labels(app="web"), "a", "x")
    promise(one, web, "y")
    # With the nominee x and y have one each: z alone is left. Without it y would do, too, but there it is promised.
    assert decided(one, pod("next").labels(app="web").spread("zone")) == "z"
