"""What is put into the fleet comes out again bit for bit, and what is kept up to date equals a count from scratch."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatcher.model.resources import MAX_QUANTITY
from dispatcher.scheduling.columns import _TABLE as COLUMNS
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from tests.builders import node, pod, selector

LEVELS = ("zone", "cluster", "host", "rack")
SELECTORS = (None, selector(app="u"), selector())


@st.composite
def pods(draw: st.DrawFn) -> Placed:
    one = pod("p").labels(app=draw(st.sampled_from("uv"))).namespace(draw(st.sampled_from("mn")))
    one = one.cpu(draw(st.integers(0, 5))).request("memory", draw(st.sampled_from((0, 7, MAX_QUANTITY))))
    one = one.set(terminating=draw(st.booleans()))
    if draw(st.booleans()):
        one = one.port(draw(st.integers(1, 3)))
    return one.placed()


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
)


def apply(fleet: FleetState, event: tuple[Any, ...]) -> None:
    if event[0] == "place":
        _, index, placed, cluster, name, assumed = event
        fleet.place(("a", f"u{index}"), placed, cluster, name, assumed=assumed)
    elif event[0] == "remove":
        fleet.remove(("a", f"u{event[1]}"))
    elif event[0] == "node":
        fleet.put_node(*event[1])
    else:
        fleet.remove_node(event[1], event[2])


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
    return bits


def counts(fleet: FleetState) -> dict[object, dict[str, int]]:
    asked = [pod("q").labels(app=app).namespace(namespace).build() for app in "uv" for namespace in "mn"]
    found: dict[object, dict[str, int]] = {}
    for which, one in enumerate(asked):
        for number, chosen in enumerate(SELECTORS):
            for level in LEVELS:
                values = fleet.count_matching(one, chosen, level).tolist()
                names = fleet.domain_values(level)
                found[which, number, level] = {name: count for name, count in zip(names, values, strict=True) if count}
    return found


@settings(max_examples=80, deadline=None)
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


@settings(max_examples=80, deadline=None)
@given(st.lists(events, max_size=25), st.integers(0, 25))
def test_counts_kept_up_to_date_equal_counts_from_scratch(script: list[tuple[Any, ...]], asked_after: int) -> None:
    fleet = made(script[:asked_after])
    counts(fleet)  # from here on every count is kept pod by pod
    for event in script[asked_after:]:
        apply(fleet, event)
    assert counts(fleet) == counts(made(script))


@settings(max_examples=50, deadline=None)
@given(st.lists(events, max_size=20), pods(), st.integers(1, 5))
def test_supposing_pods_and_taking_the_supposition_back_leaves_no_trace(
    script: list[tuple[Any, ...]], placed: Placed, times: int
) -> None:
    fleet = made(script)
    rows = fleet.live.nonzero()[0]
    assume(len(rows) and fleet.can_suppose(rows, placed.pod, times))
    before = image(fleet)
    fleet.suppose(rows, placed.pod, times)
    assert image(fleet) != before
    fleet.suppose(rows, placed.pod, -times)
    assert image(fleet) == before
