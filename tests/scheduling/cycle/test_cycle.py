"""The cycle: decisions, refusals in words, bookings that are given back, and plugins that fail."""

import json
from collections.abc import Hashable

import msgspec
import numpy as np
import pytest

from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import (
    Codes,
    CycleState,
    Filter,
    FleetView,
    Floats,
    Permit,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Score,
    refuse,
)
from shared.model.pod import Volume
from shared.model.reasons import Reasons
from tests.builders import PodBuilder, fleet, node, pod, put, reading
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Fit, Live, Quota, Ready, Selector, Spread, length, profile


def scheduler(state: FleetState, *plugins: Plugin) -> Scheduler:
    chosen = plugins or (Ready(), Selector(), Fit())
    return Scheduler(profile(**{plugin.name: 1.0 for plugin in chosen}), chosen, state)


def schedule(one: Scheduler, what: PodBuilder) -> Decision | Unschedulable:
    placed = what.placed()
    return one.schedule(placed, ("a", placed.pod.uid))


def placed_by(one: Scheduler, what: PodBuilder) -> Decision:
    result = schedule(one, what)
    assert isinstance(result, Decision), result
    return result


def refused_by(one: Scheduler, what: PodBuilder) -> Unschedulable:
    result = schedule(one, what)
    assert isinstance(result, Unschedulable), result
    return result


def columns(state: FleetState) -> bytes:
    return b"".join(array.tobytes() for array in (state.requested, state.nonzero, state.recent))


def test_the_emptiest_node_of_the_fleet_wins_and_is_booked() -> None:
    state = fleet(a=[node("n1").cpu(2)], b=[node("n1").cpu(8)])
    decision = placed_by(scheduler(state), pod().cpu(1))
    assert (decision.cluster, decision.node) == ("b", "n1")
    assert decision.runner_up is not None
    assert decision.runner_up[:2] == ("a", "n1")
    assert state.requested[0].tolist() == [0, 1000]
    seat = state.occupant(decision.pod_id)
    assert seat is not None
    assert seat.assumed


def test_no_place_is_told_as_kube_scheduler_tells_it_for_the_fleet_and_each_cluster() -> None:
    state = fleet(a=[node("n1").cpu(1), node("n2").cpu(1)], b=[node("n1").ready(False)])
    refused = refused_by(scheduler(state), pod().cpu(3))
    assert refused.message == "0/3 nodes are available: 1 node(s) were not ready, 2 Insufficient cpu."
    assert refused.per_cluster == {
        "a": "0/2 nodes are available: 2 Insufficient cpu.",
        "b": "0/1 nodes are available: 1 node(s) were not ready.",
    }
    assert refused.reasons == {Reasons.INSUFFICIENT, Reasons.NOT_READY}


def test_a_fleet_without_nodes_refuses_in_words() -> None:
    assert refused_by(scheduler(fleet(a=[])), pod()).message == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (pod().gated(), "Scheduling is blocked due to non-empty scheduling gates: "),
        (pod().set(problems=("requests[cpu]: no number",)), "pod cannot be scheduled: requests[cpu]: no number"),
    ],
    ids=["gated", "unreadable"],
)
def test_a_pod_that_cannot_be_placed_at_all_says_why(what: PodBuilder, message: str) -> None:
    assert refused_by(scheduler(fleet(a=["n1"])), what).message == message


def test_a_refusal_before_the_nodes_gives_its_own_text() -> None:
    one = scheduler(fleet(a=["n1"]), Fit(), Quota(1500))
    placed_by(one, pod("p1").cpu(1))
    refused = refused_by(one, pod("p2").cpu(1))
    assert refused.message == "tenant quota exceeded: default used 1000m, limit 1500m"
    assert refused.reasons == {Reasons.QUOTA}


def test_quota_holds_inside_a_batch_to_the_last_pod() -> None:
    quota = Quota(2500)
    one = scheduler(fleet(a=["n1", "n2"]), Fit(), quota)
    items = [(("a", f"u{index}"), pod(f"p{index}").cpu("500m").placed()) for index in range(10)]
    results = one.schedule_class(items)
    assert [isinstance(result, Decision) for result in results] == [True] * 5 + [False] * 5
    assert quota.used == {"default": 2500}


def test_forgetting_gives_room_and_quota_back_bit_for_bit() -> None:
    state, quota = fleet(a=["n1"]), Quota()
    one = scheduler(state, Fit(), quota)
    before = columns(state)
    decision = placed_by(one, pod().cpu(1))
    assert quota.used == {"default": 1000}
    one.forget(decision.pod_id)
    assert (columns(state), quota.used) == (before, {})
    one.forget(decision.pod_id)
    assert quota.used == {}


def test_restoring_a_bound_pod_charges_it_once_and_beyond_the_limit() -> None:
    state, quota = fleet(a=["n1"], b=["n1"]), Quota(500)
    one = scheduler(state, Fit(), quota)
    bound = pod().cpu(1).on("n1").placed()
    for _ in range(2):
        one.restore(("a", "u"), bound, "a", "n1")
    assert quota.used == {"default": 1000}
    one.restore(("a", "u"), bound, "b", "n1")
    assert quota.used == {"default": 1000}
    assert state.requested[0].tolist() == [0, 1000]
    one.forget(("a", "u"))
    assert (quota.used, state.requested.sum()) == ({}, 0)


def test_restoring_an_assumed_pod_confirms_it_without_a_second_charge() -> None:
    state, quota = fleet(a=["n1"]), Quota()
    one = scheduler(state, Fit(), quota)
    decision = placed_by(one, pod().cpu(1))
    one.restore(decision.pod_id, pod().cpu(1).on("n1").placed(), "a", "n1")
    seat = state.occupant(decision.pod_id)
    assert seat is not None
    assert not seat.assumed
    assert quota.used == {"default": 1000}


class Given(Reserve):
    """Remembers for which pods it gave back."""

    name = "Given"

    def __init__(self) -> None:
        self.back: list[PodInfo] = []

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        return None

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self.back.append(pod_info)


@pytest.mark.parametrize("way", ["restore", "confirm"])
@pytest.mark.parametrize(
    ("labels", "is_latest"),
    [
        ({"app": "web"}, True),
        ({"app": "web", "topology.kubernetes.io/zone": "z1"}, True),
        ({"app": "other"}, False),
    ],
    ids=["the same", "its node's zone", "another app"],
)
def test_what_was_booked_is_given_back_for_the_latest_version_that_is_the_same_to_a_plugin(
    way: str, labels: dict[str, str], is_latest: bool
) -> None:
    given = Given()
    one = scheduler(fleet(a=["n1"]), Fit(), given)
    decision = placed_by(one, pod().cpu(1).labels(app="web"))
    shown = pod().cpu(1).on("n1").labels(**labels).placed()
    if way == "restore":
        one.restore(decision.pod_id, shown, "a", "n1")
    else:
        one.confirm(decision.pod_id, shown)
    one.forget(decision.pod_id)
    assert given.back == [shown if is_latest else decision.pod_info]


@pytest.mark.parametrize("way", ["restore", "confirm"])
def test_what_was_booked_for_the_use_of_a_pods_owner_is_given_back_by_the_same_use(way: str) -> None:
    given = Given()
    one = scheduler(fleet(a=["n1"]), Fit(), given)
    booked = msgspec.structs.replace(pod("p").cpu(1).placed(), counts_as=(250, 2**30))
    decision = one.schedule(booked, ("a", booked.pod.uid))
    assert isinstance(decision, Decision)
    shown = pod("p").cpu(1).on("n1").placed()  # its cluster says nothing of what its owner uses
    if way == "restore":
        one.restore(decision.pod_id, shown, "a", "n1")
    else:
        one.confirm(decision.pod_id, shown)
    one.forget(decision.pod_id)
    assert given.back == [msgspec.structs.replace(shown, counts_as=(250, 2**30))]


class Poison(Filter, Score, Reserve, Permit):
    """Raises at one point for pods labelled poison=<point>."""

    name = "Poison"

    def __init__(self) -> None:
        self.booked = 0

    def class_key(self, pod_info: PodInfo) -> Hashable:
        self._burst(pod_info, "class_key")
        return pod_info.pod.labels.get("poison")

    def _burst(self, placed: object, point: str) -> None:
        if isinstance(placed, PodInfo) and placed.pod.labels.get("poison") == point:
            raise RuntimeError("boom")

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        self._burst(pod_info, "pre_filter")
        return pod_info

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        self._burst(state, "filter")
        return np.zeros(length(rows, fleet), dtype=np.uint16)

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        self._burst(state, "score")
        assert isinstance(state, PodInfo)
        worst = {"nan": np.nan, "short": 0.0}.get(state.pod.labels.get("poison", ""), 1.0)
        return np.full(length(rows, fleet) + (worst == 0.0), worst)

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        self._burst(pod_info, "reserve")
        self.booked += 1
        return None

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self.booked -= 1
        self._burst(pod_info, "unreserve")

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        self._burst(pod_info, "permit")
        answers: dict[str, Refuse | float] = {"refused": refuse(Reasons.REFUSED, "not now"), "wait": 7.5}
        return answers.get(pod_info.pod.labels.get("poison", ""))


@pytest.mark.parametrize(
    "point", ["class_key", "pre_filter", "filter", "score", "nan", "short", "reserve", "permit", "refused"]
)
@pytest.mark.parametrize("batch", [1, 6], ids=["alone", "in a batch"])
def test_a_plugin_that_fails_for_a_pod_refuses_that_pod_and_leaves_no_trace(point: str, batch: int) -> None:
    state, quota, poison = fleet(a=["n1", "n2"]), Quota(), Poison()
    one = scheduler(state, Fit(), quota, poison)
    placed_by(one, pod("before").cpu(1))
    before = columns(state), dict(quota.used), poison.booked
    items = [(("a", f"u{index}"), pod().labels(poison=point).placed()) for index in range(batch)]
    for result in one.schedule_class(items):
        assert isinstance(result, Unschedulable)
        assert result.reasons == {Reasons.REFUSED if point == "refused" else Reasons.PLUGIN_ERROR}
    assert (columns(state), quota.used, poison.booked) == before
    placed_by(one, pod("after").cpu(1))


def test_a_plugin_that_fails_to_give_back_does_not_keep_the_others_from_it() -> None:
    state, quota, poison = fleet(a=["n1"]), Quota(), Poison()
    one = scheduler(state, Fit(), quota, poison)
    decision = placed_by(one, pod().cpu(1).labels(poison="unreserve"))
    one.forget(decision.pod_id)
    assert (quota.used, state.requested.sum(), one.faults["Poison"]) == ({}, 0, 1)


def test_a_permit_may_ask_to_hold_the_place() -> None:
    assert placed_by(scheduler(fleet(a=["n1"]), Fit(), Poison()), pod().labels(poison="wait")).waits == {"Poison": 7.5}


def test_equal_nodes_are_told_apart_by_a_stable_rank_and_not_by_the_order_of_arrival() -> None:
    nodes = [f"n{index}" for index in range(8)]
    chosen = set()
    for order in (nodes, nodes[::-1]):
        decision = placed_by(scheduler(fleet(a=order)), pod())
        chosen.add(decision.node)
    assert len(chosen) == 1


def test_time_alone_makes_a_reading_fade() -> None:
    state = fleet(a=[node("busy")], b=[node("full")], now=1000.0)
    one = scheduler(state, Live())
    state.put_reading("a", reading("busy", cpu=0.9))
    state.put_reading("b", reading("full", cpu=0.4))
    state.place(("b", "foreign"), pod("f").cpu(3).placed(), "b", "full", assumed=False)
    state.put_reading("b", reading("full", cpu=0.4))
    assert placed_by(one, pod("p1")).node == "full"
    state.now += 100
    assert placed_by(one, pod("p2")).node == "busy"


def test_the_record_of_a_decision_says_it_all_in_plain_json() -> None:
    state = fleet(
        a=[node("n1").cpu(4).labels(zone="x"), node("n2").cpu("100m")], b=[node("n1").cpu(2).labels(zone="y")]
    )
    put(state, pod("foreign").cpu("500m"), "b", "n1")
    state.put_reading("a", reading("n1", cpu=0.25, age=10))
    one = scheduler(state, Ready(), Fit(), Live(), Spread())
    decision = placed_by(one, pod("web-1").cpu(1).labels(app="web").spread("zone"))
    record = json.loads(json.dumps(decision.record()))
    assert record["pod"] == {"namespace": "default", "name": "web-1", "uid": "uid-web-1"}
    assert record["decision"] == {"cluster": "a", "node": "n1", "score": decision.score}
    assert record["runner_up"]["cluster"] == "b"
    assert record["margin"] == pytest.approx(decision.score - record["runner_up"]["score"])
    assert set(record["scores"]) == {"Fit", "Live", "Spread"}
    assert sum(score["weighted"] for score in record["scores"].values()) == pytest.approx(decision.score, abs=1e-5)
    assert record["rejected"] == [{"reason": "Insufficient cpu", "cluster": "a", "count": 1}]
    assert (record["feasible"], record["evaluated"]) == (2, 3)
    assert record["readings"]["cpu"] == {"used": 0.25, "mean": 0.25, "age_s": 10.0, "source": "test"}
    assert record["readings"]["network"] == "unknown"
    assert record["extras"] == {"Spread": {"min": 0}}


def test_the_record_of_a_batch_shows_each_pod_its_place_and_what_the_first_one_met() -> None:
    state = fleet(a=[node("n1").cpu(2)], b=[node("n1").cpu(4)])
    items = [(("a", f"u{index}"), pod(f"p{index}").cpu(1).placed()) for index in range(8)]
    results = scheduler(state, Fit()).schedule_class(items)
    records = [result.record() for result in results]
    assert [record["feasible"] for record in records] == [2] * 6 + [0] * 2
    assert [record.get("batch") for record in records[:6]] == [{"place": at, "of": 6} for at in range(1, 7)]
    assert records[-1]["message"] == "0/2 nodes are available: 2 Insufficient cpu."


class Standing(Fit):
    """Notes of which pods it is asked what else tells them apart."""

    name = "Fit"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        self.asked.append(pod_info.pod.name)
        return pod_info.pod.labels.get("means")


class StandingByTemplate(Standing):
    keyed_by_template = True
    fleet_key = Standing.fleet_key


@pytest.mark.parametrize(
    ("plugin", "volumes", "asked"),
    [(Standing, (), True), (StandingByTemplate, (), False), (StandingByTemplate, (Volume("claim", "c"),), True)],
    ids=["silent", "by template", "with volumes"],
)
def test_of_pods_of_one_template_that_fit_nowhere_one_is_asked_what_tells_it_apart(
    plugin: type[Standing], volumes: tuple[Volume, ...], *, asked: bool
) -> None:
    one = plugin()
    pods = [pod(f"p{at}").cpu(64).set(volumes=volumes).labels(means="a" if at < 6 else "b") for at in range(8)]
    items = [(("a", built.pod.uid), built) for built in (each.placed() for each in pods)]
    results = scheduler(fleet(a=[node("n1").cpu(2)]), one, make("DefaultPreemption")).schedule_class(items)
    assert {one.reasons for one in results if isinstance(one, Unschedulable)} == {frozenset((Reasons.INSUFFICIENT,))}
    assert len(results) == len(items)
    assert ("p4" in one.asked) is asked
    assert "p6" in one.asked


@pytest.mark.parametrize(
    ("plugin", "volumes", "asked"),
    [(Standing, (), True), (StandingByTemplate, (), False), (StandingByTemplate, (Volume("claim", "c"),), True)],
    ids=["silent", "by template", "with volumes"],
)
def test_of_pods_of_one_template_that_are_decided_together_one_is_asked_what_tells_it_apart(
    plugin: type[Standing], volumes: tuple[Volume, ...], *, asked: bool
) -> None:
    one = plugin()
    pods = [pod(f"p{at}").cpu(1).set(volumes=volumes).labels(means="a" if at < 6 else "b") for at in range(8)]
    items = [(("a", built.pod.uid), built) for built in (each.placed() for each in pods)]
    results = scheduler(fleet(a=[node(f"n{at}").cpu(8) for at in range(3)]), one).schedule_class(items)
    assert all(isinstance(one, Decision) for one in results)
    assert ("p4" in one.asked) is asked
    assert "p6" in one.asked
