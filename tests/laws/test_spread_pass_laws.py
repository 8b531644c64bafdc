"""Pods spread by default, of several apps and homes, go where the naive oracle sends them."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.framework import PodInfo, kernels
from dispatcher.scheduling.placing import passes
from dispatcher.scheduling.placing.one_pass import OnePass
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.names import ACCEPT
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.laws.examples import examples
from tests.laws.pairs import CLUSTERS, Pair
from tests.laws.test_placement_laws import clusters, real

NODES = 24  # of each cluster
names = st.integers(0, NODES - 1).map("n{}".format)
namespaces = st.sampled_from(("default", "other"))


def built(name: str, zone: str) -> NodeBuilder:
    one = node(name).cpu("4").memory("8Gi")
    return one.labels(zone=zone) if zone else one


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one: PodBuilder = pod("p").namespace(draw(namespaces)).labels(app=draw(st.sampled_from("uv")))
    one = one.cpu(draw(st.sampled_from(("100m", "100m", "250m", "5"))))
    kind = draw(st.integers(0, 6))
    if kind == 4:
        one = one.spread("host", 2, hard=False)
    elif kind == 5:
        one = one.spread("zone", 2, hard=False).spread("host", hard=False)
    elif kind == 6:
        one = one.spread("zone", 3)
    return one.placed(draw(clusters))


events = st.one_of(
    st.tuples(st.just("pods"), pods(), st.integers(1, 6)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 6)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(
        st.just("node"),
        clusters,
        st.builds(lambda name, zone: built(name, zone).build(), names, st.sampled_from(("", "x", "z"))),
    ),
    st.tuples(st.just("gone"), clusters, names),
    st.tuples(st.just("cluster"), clusters, st.booleans()),
    st.tuples(st.just("namespace"), clusters, namespaces, st.sampled_from(({}, {ACCEPT: "false"}))),
    st.tuples(st.just("reading"), clusters, names, st.floats(0, 1), st.floats(0, 90)),
    st.tuples(st.just("later"), st.floats(0, 30)),
)
scripts = st.lists(events, min_size=4, max_size=14)


def decided(script: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The records, each place being the oracle's."""
    pair = Pair(DEFAULT_PROFILE, real, batched=False)
    for cluster in CLUSTERS:
        for at in range(NODES):
            pair.node(cluster, built(f"n{at}", "xyz"[at % 3]).build())
    for event in script:
        pair.apply(event)
    return [one.record() for one in pair.results]


@settings(max_examples=examples(25), deadline=None)
@given(
    before=st.lists(st.tuples(st.integers(1, 12), clusters), min_size=3, max_size=14),
    home=clusters,
)
@example(before=[(2, "a"), (10, "b"), (7, "b"), (9, "b"), (3, "c"), (4, "b"), (8, "a")], home="a")
def test_a_pod_that_fits_nowhere_leaves_nothing_behind_for_the_next_of_its_app(
    before: list[tuple[int, str]], home: str
) -> None:
    app = pod("p").labels(app="u")
    odd = [app.cpu(f"{100 * size + at}m").placed(place) for at, (size, place) in enumerate(before)]
    last = [app.cpu("5").placed(home), app.cpu("150m").placed(home)]
    decided([("pods", placed, 1) for placed in (*odd, *last)])


@pytest.fixture
def passed(compiled: None, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each pass, whether it found a place."""
    found: list[bool] = []
    select = OnePass.select

    def noted(self: OnePass, *told: Any) -> Any:
        decision = select(self, *told)
        found.append(decision is not None)
        return decision

    monkeypatch.setattr(OnePass, "select", noted)
    return found


def test_pods_of_one_app_from_all_homes_are_decided_by_passes(passed: list[bool]) -> None:
    one = pod("p").labels(app="u").cpu("100m").placed("a")
    homes = [msgspec.structs.replace(one, home=home) for home in CLUSTERS]
    decided([("pods", placed, 1) for _ in range(3) for placed in homes])
    assert passed == [True] * 9


def test_odd_pods_of_an_app_that_is_on_many_hosts_are_decided_by_passes(passed: list[bool]) -> None:
    odd = [pod("p").labels(app="u").cpu(f"{100 + at}m").placed("a") for at in range(16)]
    records = decided([("pods", placed, 1) for placed in odd])
    assert len({(one["decision"]["cluster"], one["decision"]["node"]) for one in records}) > len(CLUSTERS) * NODES / 8
    assert passed == [True] * 16


def test_compiled_loops_give_the_records_that_numpy_gives(request: pytest.FixtureRequest) -> None:
    apps = [pod("p").labels(app=app).cpu(f"{100 + at}m") for at in range(9) for app in "uv"]
    hard = [pod("p").labels(app="u").cpu(f"{200 + at}m").spread("host", 2).spread("zone", 3) for at in range(3)]
    script = [("pods", one.placed("a"), 1) for one in (*apps, *hard)] + [
        ("gone", "a", "n3"),
        ("pods", apps[0].placed("b"), 3),
    ]
    plain = decided(script)
    request.getfixturevalue("compiled")
    assert decided(script) == plain


def test_odd_pods_of_one_app_in_a_row_find_its_hosts_as_pods_that_came_and_went_left_them(
    request: pytest.FixtureRequest,
) -> None:
    odd = [("pods", pod("p").labels(app="u").cpu(f"{100 + at}m").placed("a"), 1) for at in range(90)]
    script = [*odd[:30], ("end", 3), *odd[30:80], ("end", 7), ("end", 0), *odd[80:]]
    plain = decided(script)
    request.getfixturevalue("compiled")
    assert decided(script) == plain


@settings(max_examples=examples(10), deadline=None)
@given(script=scripts)
def test_passes_give_the_records_that_classes_give(script: list[tuple[Any, ...]]) -> None:
    pytest.importorskip("numba")
    plain = decided(script)
    assert kernels.compile_all()
    try:
        assert decided(script) == plain
    finally:
        kernels.use_numpy()


def test_of_apps_that_come_and_go_in_a_small_fleet_no_more_are_kept_than_of_silent_pods(
    compiled: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "_MOST_KEPT", 20, raising=False)
    pair = Pair(DEFAULT_PROFILE, real, batched=False)
    for at in range(3):
        pair.node("a", built(f"n{at}", "xyz"[at]).build())
    for at in range(30):
        for _ in range(2):
            pair.pods(pod("p").labels(app=f"u{at}").cpu("10m").placed("a"), 1)
    assert len(pair.scheduler._passes._some_active) == 20
