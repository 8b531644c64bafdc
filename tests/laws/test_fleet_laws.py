"""What is put into the fleet comes out again bit for bit, and what is kept up to date equals a count from scratch."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatcher.model.labels import LabelSelector
from dispatcher.model.names import DOMAIN_SCOPE, RACK, ZONE
from dispatcher.model.node import Node, Reading, Taint
from dispatcher.model.objects import Namespace
from dispatcher.model.pod import Pod, PodAffinityTerm
from dispatcher.model.resources import MAX_QUANTITY
from dispatcher.model.topology import within_cluster
from dispatcher.scheduling.fleet.columns import _TABLE as COLUMNS
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Ints, Placed
from dispatcher.scheduling.framework.pod_sets import pods_of_terms
from tests.builders import PodBuilder, node, pod, selector
from tests.laws.examples import examples

LEVELS = ("zone", "cluster", "host", "rack")
SELECTORS = (None, selector(app="u"), selector(), selector(app="u", part="1"))
LOOKS: tuple[dict[str, str], ...] = (  # labels of pods; the first three tell one app
    {"app": "u"},
    {"app": "u", "pod-template-hash": "7"},
    {"app": "u", "job-name": "j"},
    {"app": "v"},
    {"app": "u", "part": "1"},
    {"app": "u", "part": "2"},
    {"job-name": "j"},
    {},
)
SPACES: tuple[LabelSelector | None, ...] = (None, selector(team="t"), selector())


@st.composite
def tied(draw: st.DrawFn, one: PodBuilder) -> PodBuilder:
    """The pod with up to three terms of any kind."""
    for _ in range(draw(st.sampled_from((0, 0, 1, 2, 3)))):
        how = draw(st.sampled_from((one.near, one.away)))
        weight = draw(st.sampled_from((0, 0, 1, 7)))
        spaces, key = draw(st.sampled_from(SPACES)), draw(st.sampled_from(LEVELS))
        how(key, draw(st.sampled_from(SELECTORS)), weight=weight, namespace_selector=spaces)
    return one


@st.composite
def pods(draw: st.DrawFn) -> Placed:
    one = pod("p").labels(**draw(st.sampled_from(LOOKS))).namespace(draw(st.sampled_from("mn")))
    one = one.cpu(draw(st.integers(0, 5))).request("memory", draw(st.sampled_from((0, 7, MAX_QUANTITY))))
    one = one.set(terminating=draw(st.booleans()))
    if draw(st.booleans()):
        one = one.port(draw(st.integers(1, 3)))
    if draw(st.integers(0, 3)) == 0:
        one = one.annotation(DOMAIN_SCOPE, "cluster")
    return msgspec.structs.replace(
        draw(tied(one)).placed(), counts_as=draw(st.sampled_from((None, None, (3, 7), (10**6, 2**40))))
    )


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, Any]:
    one = node(draw(st.sampled_from(("n1", "n2", "n3"))))
    for level in ("zone", "rack"):
        value = draw(st.sampled_from(("", "x", "y")))
        one = one.labels(**{level: value}) if value else one
    return draw(st.sampled_from("ab")), one.build()


places = st.tuples(
    st.just("place"),
    st.integers(0, 9),
    pods(),
    st.sampled_from("ab"),
    st.sampled_from(("n1", "n2", "n3", "n4")),
    st.booleans(),
)
events = st.one_of(
    places,
    places,
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("node"), nodes()),
    st.tuples(st.just("gone"), st.sampled_from("ab"), st.sampled_from(("n1", "n2", "n3"))),
    st.tuples(st.just("namespace"), st.sampled_from("mn"), st.sampled_from(("", "t"))),
    st.tuples(st.just("changed"), st.integers(0, 9), pods()),
)


def apply(fleet: FleetState, event: tuple[Any, ...]) -> None:
    if event[0] == "place":
        _, index, placed, cluster, name, assumed = event
        fleet.place(("a", f"u{index}"), placed, cluster, name, assumed=assumed)
    elif event[0] == "remove":
        fleet.remove(("a", f"u{event[1]}"))
    elif event[0] == "node":
        fleet.put_node(*event[1])
    elif event[0] == "changed":
        change(fleet, ("a", f"u{event[1]}"), event[2].pod)
    elif event[0] == "namespace":
        fleet.kept.put("a", Namespace(event[1], {"team": event[2]} if event[2] else {}))
    else:
        fleet.remove_node(event[1], event[2])


def change(fleet: FleetState, pod_id: tuple[str, str], like: Pod) -> None:
    """A placed pod gets other terms (and nothing else) where it is."""
    known = fleet.occupant(pod_id)
    if known is not None:
        terms = {"pod_affinity": like.pod_affinity, "pod_anti_affinity": like.pod_anti_affinity}
        changed = Placed(msgspec.structs.replace(known.placed.pod, annotations=like.annotations, **terms), "a")
        fleet.place(pod_id, changed, known.cluster, known.node, assumed=known.assumed)


def made(script: list[tuple[Any, ...]]) -> FleetState:
    fleet = FleetState(now=5.0)
    for name in "ab":
        fleet.set_cluster(name, ready=True, synced=True)
        fleet.put_node(name, node("n1").labels(zone="x").build())
    for event in script:
        apply(fleet, event)
    return fleet


def image(fleet: FleetState) -> dict[str, object]:
    """Every column as bytes, ports and counts as plain values."""
    bits: dict[str, object] = {name: getattr(fleet, name).tobytes() for name in COLUMNS}
    bits["ports"] = {row: dict(fleet.ports_taken(row)) for row in fleet.rows_with_ports()}
    bits["counts"] = counts(fleet)
    bits["ties"] = {key: counts for key, counts in ties(fleet).items() if counts}
    return bits


def counts(fleet: FleetState) -> dict[object, dict[str, int]]:
    asked = [pod("q").labels(**labels).namespace(namespace).build() for labels in LOOKS for namespace in "mn"]
    found: dict[object, dict[str, int]] = {}
    for which, one in enumerate(asked):
        for number, chosen in enumerate(SELECTORS):
            for level in LEVELS:
                values = view_of(fleet).topology.count_matching(one, chosen, level)
                found[which, number, level] = by_name(fleet, level, values)
    return found


TERMS = tuple(PodAffinityTerm("", one, ("m",), spaces) for one in SELECTORS for spaces in SPACES)
SETS = (*(pods_of_terms([term]) for term in TERMS), pods_of_terms([TERMS[-1], TERMS[3]]))


def ties(fleet: FleetState) -> dict[object, dict[str, int]]:
    """Members of sets of pods by domain, and what the terms about a pod come to by kind and domain."""
    found: dict[object, dict[str, int]] = {}
    for number, pods in enumerate(SETS):
        for level in LEVELS:
            found[number, level] = by_name(fleet, level, fleet.counted(fleet.count_in(pods, level)))
    for app in "uv":
        for namespace in "mn":
            one = pod("q").labels(app=app).namespace(namespace).placed()
            for term in view_of(fleet).affinity.terms_about(one):
                so_far = found.setdefault((app, namespace, term.kind, term.key), {})
                for name, count in by_name(fleet, term.key, view_of(fleet).affinity.count_of(term)).items():
                    so_far[name] = so_far.get(name, 0) + count
    return {key: {name: count for name, count in counts.items() if count} for key, counts in found.items()}


def rebuilt(fleet: FleetState) -> FleetState:
    """Another fleet of the same nodes, pods and namespaces, each entered once."""
    other = FleetState(now=5.0)
    for name in "ab":
        other.set_cluster(name, ready=True, synced=True)
        for found in fleet.kept.of(name, Namespace).values():
            other.kept.put(name, found)
    for row in range(fleet.n):
        known = fleet.node(row)
        if known is not None:
            other.put_node(fleet.name_of(row)[0], known)
    for one in fleet.occupants():
        other.place(one.pod_id, one.placed, one.cluster, one.node, assumed=one.assumed)
    return other


def by_name(fleet: FleetState, level: str, counts: Ints) -> dict[str, int]:
    names = fleet.domain_values(level)
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=20), st.lists(pods(), min_size=1, max_size=6), st.data())
def test_assume_then_forget_restores_every_column_bit_for_bit(
    script: list[tuple[Any, ...]], extra: list[Placed], data: st.DataObject
) -> None:
    fleet = made(script)
    before = image(fleet)
    for index, placed in enumerate(extra):
        where = data.draw(st.sampled_from((("a", "n1"), ("b", "n1"), ("b", "n2"))))
        fleet.place(("b", f"extra{index}"), placed, *where, assumed=True)
    for index in data.draw(st.permutations(range(len(extra)))):
        assert fleet.remove(("b", f"extra{index}"))
    assert image(fleet) == before


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=25), st.integers(0, 25))
def test_counts_kept_up_to_date_equal_counts_from_scratch(script: list[tuple[Any, ...]], asked_after: int) -> None:
    fleet = made(script[:asked_after])
    counts(fleet)  # from here on every count is kept pod by pod
    for event in script[asked_after:]:
        apply(fleet, event)
    assert counts(fleet) == counts(made(script))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(events, max_size=25), st.integers(0, 25), st.integers(1, 3))
def test_ties_kept_up_to_date_equal_ties_from_scratch(
    script: list[tuple[Any, ...]], asked_after: int, asked_again: int
) -> None:
    fleet = made(script[:asked_after])
    ties(fleet)
    for number, event in enumerate(script[asked_after:]):
        apply(fleet, event)
        if number % asked_again == 0:
            ties(fleet)
    assert {key: found for key, found in ties(fleet).items() if found} == {
        key: found for key, found in ties(rebuilt(fleet)).items() if found
    }


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(events, max_size=20), st.lists(pods(), min_size=1, max_size=4), st.data())
def test_pods_assumed_together_leave_the_fleet_as_one_by_one(
    script: list[tuple[Any, ...]], kinds: list[Placed], data: st.DataObject
) -> None:
    together, single = made(script), made(script)
    image(together)  # from here on every count is kept
    live = together.live.nonzero()[0].tolist()
    assume(live)
    rows = data.draw(st.lists(st.sampled_from(live), min_size=1, max_size=12))
    room = {"requests": {"cpu": 3}, "ports": (), "volumes": ()}
    counts_as = kinds[0].counts_as
    drawn = (msgspec.structs.replace(data.draw(st.sampled_from(kinds)).pod, **room) for _ in rows)
    likes = [Placed(like, "a", counts_as=counts_as) for like in drawn]
    assume(together.can_suppose(np.asarray(sorted(set(rows))), likes[0], len(rows) + 1))
    items = [(("b", f"extra{at}"), like) for at, like in enumerate(likes)]
    together.assume_all(items, rows)
    for (pod_id, placed), row in zip(items, rows, strict=True):
        single.place(pod_id, placed, *single.name_of(row), assumed=True)
    assert image(together) == image(single)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(events, max_size=20), pods(), st.integers(1, 5))
def test_supposing_pods_and_taking_the_supposition_back_leaves_no_trace(
    script: list[tuple[Any, ...]], placed: Placed, times: int
) -> None:
    fleet = made(script)
    rows = fleet.live.nonzero()[0]
    assume(len(rows) and fleet.can_suppose(rows, placed, times))
    before = image(fleet)
    fleet.suppose(rows, placed, times)
    assert image(fleet) != before
    fleet.suppose(rows, placed, -times)
    assert image(fleet) == before


def test_a_namespace_that_gets_a_label_takes_its_pods_into_the_sets_that_ask_for_it() -> None:
    asked = pods_of_terms([PodAffinityTerm("", selector(), (), selector(team="t"))])
    fleet = made([])
    fleet.place(("a", "u"), pod("p").namespace("m").placed(), "b", "n1", assumed=False)
    found = []
    for labels in ({}, {"team": "t"}, {"team": "s"}):
        fleet.kept.put("a", Namespace("m", labels))
        found.append(int(fleet.counted(fleet.count_in(asked, "zone")).sum()))
    assert found == [0, 1, 0]


def _columns(fleet: FleetState) -> dict[tuple[str, str], list[object]]:
    names = fleet.axis.names
    found = {}
    for row in np.flatnonzero(fleet.live).tolist():
        amounts = {name: fleet.allocatable[at, row].item() for at, name in enumerate(names)}
        requested = {name: fleet.requested[at, row].item() for at, name in enumerate(names)}
        labels = [
            fleet.domain_values(level)[fleet.domain(level)[row]] for level in LEVELS if fleet.domain(level)[row] >= 0
        ]
        taints = fleet.taint_sets[fleet.taint_set[row]]
        state = [fleet.ready[row].item(), fleet.unschedulable[row].item(), fleet.rank[row].item(), fleet.node(row)]
        found[fleet.name_of(row)] = [amounts, requested, labels, taints, *state, repr(fleet.readings_of(row))]
    return found


@given(
    before=st.lists(nodes(), max_size=4),
    told=st.lists(nodes(), max_size=9, unique_by=lambda one: one[1].name),
    gone=st.sets(st.sampled_from(("n1", "n2", "n3"))),
    known=st.lists(st.tuples(pods(), st.sampled_from(("n1", "n2", "n3"))), max_size=3),
    early=st.booleans(),
)
def test_nodes_of_a_report_enter_together_as_they_would_one_by_one(
    before: list[Any], told: list[Any], gone: set[str], known: list[Any], early: bool
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
            _columns(fleet)
        if at:
            fleet.put_nodes("a", [one for _, one in told])
        else:
            for _, one in told:
                fleet.put_node("a", one)
    assert _columns(fleets[0]) == _columns(fleets[1])
    assert fleets[0].free_total("a") == fleets[1].free_total("a")


OTHERS = st.builds(
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
    before=st.lists(OTHERS, min_size=12, max_size=12),
    after=st.lists(OTHERS, min_size=12, max_size=12),
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
    told = [Node(f"n{at}", **one) for at, one in enumerate([*after, after[0]])]
    for at, fleet in enumerate(fleets):
        for name in "ab":
            fleet.set_cluster(name, ready=True, synced=True)
            fleet.put_node(name, Node("n0", labels={ZONE: "z"}, ready=True))
        for number, one in enumerate(before):
            fleet.put_node("a", Node(f"n{number}", **one))
        for number, (one, where) in enumerate(placed):
            fleet.place(("a", f"p{number}"), one, "a", f"n{where}", assumed=False)
        if asked:  # columns and counts are kept up to date from here on
            image(fleet), fleet.image_sizes("i"), fleet.metric("m"), fleet.domain(within_cluster("zone"))
        seen = fleet.changes.position
        if at:
            fleet.put_nodes("a", copies(told))
        else:
            for other in copies(told):
                fleet.put_node("a", other)
        assert set(_changed(fleet, seen)) >= {f"n{number}" for number in range(12) if before[number] != after[number]}
    single, together = fleets
    assert image(together) == image(single)
    assert _columns(together) == _columns(single)
    for what in (
        lambda one: one.image_sizes("i"),
        lambda one: repr(one.metric("m")),
        lambda one: one.domain(within_cluster("zone")),
    ):
        assert list(what(together)) == list(what(single))
    assert together.nodes_with_image("i") == single.nodes_with_image("i")
    assert ties(together) == ties(rebuilt(together))


def copies(told: list[Node]) -> list[Node]:
    """Equal nodes that share nothing, as they come out of a report."""
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Node) for one in told]


def _changed(fleet: FleetState, seen: int) -> list[str]:
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
    told=st.lists(
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
def test_readings_of_a_report_enter_together_as_they_would_one_by_one(told: list[list[Reading]]) -> None:
    fleets = FleetState(now=100.0), FleetState(now=100.0)
    for at, fleet in enumerate(fleets):
        fleet.set_cluster("a", ready=True, synced=True)
        for number in range(12):
            fleet.put_node("a", node(f"n{number}").build())
            fleet.place(("a", f"p{number}"), pod(f"p{number}").cpu(7).placed(), "a", f"n{number}", assumed=True)
        for batch in told:
            fleet.now += 2.0
            if at:
                fleet.put_readings("a", batch)
            else:
                for one in batch:
                    fleet.put_reading("a", one)
    assert _columns(fleets[0]) == _columns(fleets[1])
    assert fleets[0].recent.tolist() == fleets[1].recent.tolist()
    assert repr(fleets[0].used_mean.tolist()) == repr(fleets[1].used_mean.tolist())
    assert [fleets[0].sources_of(row) for row in range(12)] == [fleets[1].sources_of(row) for row in range(12)]
