"""Pods, nodes and readings that enter the fleet together leave it as it is when they enter one by one."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.model.names import RACK, ZONE
from shared.model.node import Node, Reading, Taint
from shared.model.topology import within_cluster
from tests.builders import node, pod
from tests.laws.examples import examples
from tests.laws.fleet_events import columns_by_node, events, fleet_after, nodes, pods, rebuilt, snapshot, ties


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=20), st.lists(pods(), min_size=1, max_size=4), st.data())
def test_pods_assumed_together_leave_the_fleet_as_one_by_one(
    script: list[tuple[Any, ...]], kinds: list[PodInfo], data: st.DataObject
) -> None:
    together, single = fleet_after(script), fleet_after(script)
    snapshot(together)  # from here on every count is kept
    live = together.live.nonzero()[0].tolist()
    assume(live)
    rows = data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=12))
    room = {"requests": {"cpu": 3}, "ports": (), "volumes": ()}
    counts_as = kinds[0].counts_as
    drawn = (msgspec.structs.replace(data.draw(st.sampled_from(kinds)).pod, **room) for _ in rows)
    likes = [PodInfo(like, "a", counts_as=counts_as) for like in drawn]
    assume(together.can_suppose(np.asarray(sorted(set(rows))), likes[0], len(rows) + 1))
    items = [(("b", f"extra{at}"), like) for at, like in enumerate(likes)]
    together.assume_all(items, rows)
    for (pod_id, placed), row in zip(items, rows, strict=True):
        single.place(pod_id, placed, *single.name_of(row), assumed=True)
    assert snapshot(together) == snapshot(single)


@given(
    before=st.lists(nodes(), max_size=4),
    reported=st.lists(nodes(), max_size=9, unique_by=lambda one: one[1].name),
    gone=st.sets(st.sampled_from(("n1", "n2", "n3"))),
    known=st.lists(st.tuples(pods(), st.sampled_from(("n1", "n2", "n3"))), max_size=3),
    early=st.booleans(),
)
def test_nodes_of_a_report_enter_together_as_they_would_one_by_one(
    before: list[Any], reported: list[Any], gone: set[str], known: list[Any], early: bool
) -> None:
    fleets = FleetState(), FleetState()
    for at, fleet in enumerate(fleets):
        for name in "ab":
            fleet.set_cluster(name, ready=True, synced=True)
        for cluster, one in before:
            fleet.put_node(cluster, one)
        for name in gone:
            fleet.remove_node("a", name)
        for number, (placed, name) in enumerate(known):
            fleet.place(("a", f"p{number}"), placed, "a", name, assumed=False)
        if early:  # columns that somebody has asked for already are kept up to date
            columns_by_node(fleet)
        if at:
            fleet.put_nodes("a", [one for _, one in reported])
        else:
            for _, one in reported:
                fleet.put_node("a", one)
    assert columns_by_node(fleets[0]) == columns_by_node(fleets[1])
    assert fleets[0].free_total("a") == fleets[1].free_total("a")


NODE_FIELDS = st.builds(
    lambda zone, rack, cpu, more, images, metrics, state: {
        "labels": {key: value for key, value in ((ZONE, zone), (RACK, rack)) if value},
        "allocatable": {"cpu": cpu, "pods": 9, **more},
        "images": images,
        "metrics": metrics,
        "ready": state > 0,
        "unschedulable": state > 2,
        "taints": (Taint("t", str(state)),) if state > 1 else (),
    },
    st.sampled_from(("", "x", "y")),
    st.sampled_from(("", "", "", "r")),
    st.integers(1, 2),
    st.sampled_from(({}, {}, {"gpu": 1})),
    st.sampled_from(({}, {"i": 5})),
    st.sampled_from(({}, {}, {"m": 1.0})),
    st.integers(0, 3),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    before=st.lists(NODE_FIELDS, min_size=12, max_size=12),
    after=st.lists(NODE_FIELDS, min_size=12, max_size=12),
    placed=st.lists(st.tuples(pods(), st.integers(0, 12)), max_size=9),
    asked=st.booleans(),
    racks=st.booleans(),
)
def test_known_nodes_that_change_together_enter_as_they_would_one_by_one(
    before: list[dict[str, Any]], after: list[dict[str, Any]], placed: list[Any], asked: bool, racks: bool
) -> None:
    """Twelve known nodes, of which none is in a rack unless there are `racks`; and one that pods came before."""
    for one in before:
        one["labels"] = {key: value for key, value in one["labels"].items() if racks or key != RACK}
    fleets = FleetState(now=5.0), FleetState(now=5.0)
    reported = [Node(f"n{at}", **one) for at, one in enumerate([*after, after[0]])]
    for at, fleet in enumerate(fleets):
        for name in "ab":
            fleet.set_cluster(name, ready=True, synced=True)
            fleet.put_node(name, Node("n0", labels={ZONE: "z"}, ready=True))
        for number, one in enumerate(before):
            fleet.put_node("a", Node(f"n{number}", **one))
        for number, (one, where) in enumerate(placed):
            fleet.place(("a", f"p{number}"), one, "a", f"n{where}", assumed=False)
        if asked:  # columns and counts are kept up to date from here on
            snapshot(fleet), fleet.image_sizes("i"), fleet.metric("m"), fleet.domain(within_cluster("zone"))
        seen = fleet.changes.position
        if at:
            fleet.put_nodes("a", copies(reported))
        else:
            for other in copies(reported):
                fleet.put_node("a", other)
        assert set(names_changed_since(fleet, seen)) >= {
            f"n{number}" for number in range(12) if before[number] != after[number]
        }
    single, together = fleets
    assert snapshot(together) == snapshot(single)
    assert columns_by_node(together) == columns_by_node(single)
    for what in (
        lambda one: one.image_sizes("i"),
        lambda one: repr(one.metric("m")),
        lambda one: one.domain(within_cluster("zone")),
    ):
        assert list(what(together)) == list(what(single))
    assert together.nodes_with_image("i") == single.nodes_with_image("i")
    assert ties(together) == ties(rebuilt(together))


def copies(reported: list[Node]) -> list[Node]:
    """Equal nodes that share nothing, as they come out of a report."""
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Node) for one in reported]


def names_changed_since(fleet: FleetState, seen: int) -> list[str]:
    rows = fleet.changes.since(seen)
    assert rows is not None
    return [fleet.name_of(row)[1] for row in rows.tolist()]


SHARES = st.sampled_from((None, 0.0, 0.25, 0.5, 1.5, -0.1, float("nan"), float("inf")))
AGES = st.sampled_from((0.0, 1.0, 5.0, -3.0, float("nan"), float("inf")))


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    more = {"disk": (0.5, draw(AGES))} if draw(st.integers(0, 9)) == 0 else {}
    (cpu, memory, net), ages = draw(st.tuples(SHARES, SHARES, SHARES)), draw(st.tuples(AGES, AGES, AGES))
    source = draw(st.sampled_from(("kubelet", "kubelet", "kubelet", "prometheus")))
    return Reading(f"n{draw(st.integers(0, 13))}", cpu, memory, net, None, None, *ages, source, more)


@st.composite
def alike_readings(draw: st.DrawFn) -> Reading:
    """Of the same signals from the same source: those of different nodes enter together."""
    ages = draw(st.tuples(AGES, AGES, AGES))
    return Reading(
        f"n{draw(st.integers(0, 13))}", draw(st.sampled_from((0.0, 0.5))), 0.25, None, None, None, *ages, "x"
    )


@given(
    reported=st.lists(
        st.lists(readings(), min_size=9, max_size=14, unique_by=lambda one: one.node)
        | st.lists(readings(), max_size=14)
        | st.lists(
            readings().map(
                lambda one: msgspec.structs.replace(one, cpu=0.5, memory=0.25, net=0.5, more={}, source="kubelet")
            ),
            min_size=9,
            max_size=14,
            unique_by=lambda one: one.node,
        )
        | st.lists(alike_readings(), min_size=12, max_size=20),
        max_size=3,
    )
)
def test_readings_of_a_report_enter_together_as_they_would_one_by_one(reported: list[list[Reading]]) -> None:
    fleets = FleetState(now=100.0), FleetState(now=100.0)
    for at, fleet in enumerate(fleets):
        fleet.set_cluster("a", ready=True, synced=True)
        for number in range(12):
            fleet.put_node("a", node(f"n{number}").build())
            fleet.place(("a", f"p{number}"), pod(f"p{number}").cpu(7).placed(), "a", f"n{number}", assumed=True)
        for batch in reported:
            fleet.now += 2.0
            if at:
                fleet.put_readings("a", batch)
            else:
                for one in batch:
                    fleet.put_reading("a", one)
    assert columns_by_node(fleets[0]) == columns_by_node(fleets[1])
    assert fleets[0].recent.tolist() == fleets[1].recent.tolist()
    assert repr(fleets[0].used_mean.tolist()) == repr(fleets[1].used_mean.tolist())
    assert [fleets[0].sources_of(row) for row in range(12)] == [fleets[1].sources_of(row) for row in range(12)]
