"""Pods that want to be near to something: batches decide what a naive scheduler does, and unknown is no edge."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.links import STALE_S
from dispatcher.scheduling.framework import FleetView, PluginUse, PodInfo, Profile, kernels
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.rules.named_places import PlacePlugin
from dispatcher.scheduling.rules.nearness import to_many, to_nearest
from shared.messages import LinkReading
from shared.model.names import DATA, NEAR, REQUIRE_DATA, ZONE
from shared.model.objects import Service
from tests.builders import PodBuilder, fleet, node, pod
from tests.laws.examples import examples
from tests.laws.grain import Record, as_in_batches, recorded
from tests.laws.pairs import CLUSTERS, Pair
from tests.laws.test_placement_laws import node_events

ARGS: dict[str, dict[str, Any]] = {
    "Nearness": {"app": True},
    "DataLocality": {"datasets": {"genomes": ["a", "c"], "maps": ["b"], "moon": ["nowhere"]}},
}
PRICES = [{"from": "a", "to": "b", "per_gib": 0.02}, {"from": "b", "to": "*", "per_gib": 0.09}]
PROFILE = Profile(
    DEFAULT_PROFILE.scheduler_name,
    (
        *(PluginUse(one.name, one.weight, ARGS.get(one.name, one.args)) for one in DEFAULT_PROFILE.plugins),
        PluginUse("NodePrice", 1.3, {"label": ZONE, "prices": {"x": 0.2, "y": 0.1}, "clusters": {"c": 1.5}}),
        PluginUse("NetworkTopology", 1.7, {"levels": {"zone": 2, "rack": 1, "host": 1}}),
        PluginUse("EgressPrice", 0.7, {"prices": PRICES, "datasets": {"maps": ["b"], "genomes": ["c"]}}),
    ),
)
WISHES: tuple[dict[str, str], ...] = (
    {},
    {NEAR: "cluster/b"},
    {NEAR: "cluster/nowhere"},
    {NEAR: "zone/x"},
    {NEAR: "service/default/db"},
    {NEAR: "cannot be read"},
    {DATA: "genomes"},
    {DATA: "maps", NEAR: "zone/y"},
    {REQUIRE_DATA: "maps"},
    {REQUIRE_DATA: "moon"},
    {DATA: "maps", REQUIRE_DATA: "genomes"},
)
clusters = st.sampled_from(CLUSTERS)


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one: PodBuilder = pod("p").labels(app=draw(st.sampled_from("uv"))).cpu(draw(st.sampled_from(("100m", "250m"))))
    for key, value in draw(st.sampled_from(WISHES)).items():
        one = one.annotation(key, value)
    if draw(st.integers(0, 2)) == 0:
        one = one.spread(draw(st.sampled_from(("cluster", "zone"))), 2, hard=draw(st.booleans()))
    return one.placed(draw(clusters))


events = st.one_of(
    node_events(),
    st.tuples(st.just("link"), clusters, clusters, st.sampled_from((0.3, 1.0, 1.2, 20.0, 90.0)), st.floats(0, 200)),
    st.tuples(st.just("link"), clusters, clusters, st.floats(0.1, 300), st.just(0.0)),
    st.tuples(st.just("service"), clusters, st.just("db"), st.sampled_from(("u", "v", ""))),
    st.tuples(st.just("later"), st.floats(0, 100)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 10)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 10)),
    st.tuples(st.just("end"), st.integers(0, 30)),
)
scripts = st.lists(events, max_size=20)


def real() -> Any:
    return lambda: build(PROFILE, PluginContext())


def begin(*, batched: bool) -> Pair:
    pair = Pair(PROFILE, real, batched=batched)
    for name in CLUSTERS:
        pair.node(name, node("n1").cpu("2").labels(zone="x" if name == "a" else "y").build())
    return pair


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(60), deadline=None)
@given(script=scripts)
def test_wishes_to_be_near_are_decided_as_the_oracle_decides(batched: bool, script: list[tuple[Any, ...]]) -> None:
    pair = begin(batched=batched)
    for event in script:
        pair.apply(event)


def records(script: list[tuple[Any, ...]], *, batched: bool) -> list[Record]:
    pair = begin(batched=batched)
    for event in script:
        pair.apply(event)
    return recorded(pair.results)


@settings(max_examples=examples(30), deadline=None)
@given(script=scripts)
def test_a_batch_records_what_one_by_one_records(script: list[tuple[Any, ...]]) -> None:
    """But for counts, which are those at the beginning of the batch (see `as_in_batches`)."""
    together = records(script, batched=True)
    assert as_in_batches(records(script, batched=False), together) == together


@pytest.mark.parametrize("asked", [{NEAR: "zone/x"}, {NEAR: "service/default/db"}, {REQUIRE_DATA: "maps"}])
def test_a_batch_is_decided_at_once_where_no_pod_of_it_moves_what_is_named(
    asked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    assert kernels.compile_all()
    asks: list[str] = []
    pre_filter = PlacePlugin.pre_filter

    def counted(self: PlacePlugin, one: PodInfo, view: FleetView) -> Any:
        asks.append(one.pod.name)
        return pre_filter(self, one, view)

    monkeypatch.setattr(PlacePlugin, "pre_filter", counted)
    other = {"NetworkTopology": None, "Nearness": PluginUse("Nearness", 2.0)}  # these go by the pod's own app
    uses = (other.get(one.name, one) for one in PROFILE.plugins)
    profile = Profile("p", tuple(one for one in uses if one is not None))
    nodes: dict[str, Any] = {name: [node("n1").cpu(8).labels(zone="x" if name == "a" else "y")] for name in CLUSTERS}
    state = fleet(**nodes)
    state.kept.put("a", Service("default", "db", selector={"app": "v"}))
    scheduler = Scheduler(profile, build(profile, PluginContext()), state)
    pods = [pod(f"p{at}").labels(app="u").cpu("100m").annotation(*next(iter(asked.items()))) for at in range(12)]
    results = scheduler.schedule_class([(("a", one.build().uid), one.placed("a")) for one in pods])
    assert all(isinstance(one, Decision) for one in results)
    assert len(asks) < 6, asks


# --- unknown is neither near nor far ---------------------------------------------------------------------------------


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[clusters, clusters] round-trip times, symmetric, some unknown."""
    size = draw(st.integers(2, 6))
    found = np.zeros((size, size))
    for one in range(size):
        for other in range(one):
            found[one, other] = found[other, one] = draw(st.one_of(st.just(math.nan), st.floats(0.01, 1000)))
    return found


@given(rtt=matrices(), data=st.data())
def test_a_cluster_of_unknown_ways_is_among_the_known_ones_and_moves_nobody(rtt: Any, data: st.DataObject) -> None:
    size = len(rtt)
    there = np.zeros(size, dtype=np.bool_)
    there[sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size)))] = True
    for points in (to_nearest(rtt, there, 20.0), to_many(rtt, there.astype(float), 20.0)):
        assert ((points > 0) & (points <= 100)).all()
    points = to_nearest(rtt, there, 20.0)
    known = ~np.isnan(rtt[:, there]).all(axis=1)
    others = points[known & ~there]
    low, high = (others.min(), others.max()) if len(others) else (50.0, 50.0)
    unknown = points[~known]
    assert ((unknown >= low - 1e-9) & (unknown <= high + 1e-9)).all()
    assert (points[there] == 100).all()
    forgotten = data.draw(st.integers(0, size - 1))
    if not there[forgotten]:
        less = rtt.copy()
        less[forgotten, :] = less[:, forgotten] = math.nan
        less[forgotten, forgotten] = 0.0
        still = known.copy()
        still[forgotten] = False
        assert np.array_equal(to_nearest(less, there, 20.0)[still], points[still])


@given(
    said=st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(0.01, 500), st.floats(-5, 300), st.floats(0, 200), st.booleans()),
        max_size=12,
    )
)
def test_what_counts_is_fresh_and_believed_of_the_end_that_says_more(said: list[tuple[Any, ...]]) -> None:
    """Whatever comes in: known exactly while an end measured lately; never nearer than a fresh end says, by a tenth."""
    state, now = fleet(a=["n"], b=["n"]), 1000.0
    last: dict[str, tuple[float, float]] = {}
    for source, rtt, age, later, broken in said:
        now += later
        state.links.expire(now)
        other = "b" if source == "a" else "a"
        state.links.take(source, [LinkReading(other, math.nan if broken else rtt, age_s=age)], now)
        if not broken and age >= -1.0 and now - max(age, 0.0) >= last.get(source, (0.0, -math.inf))[1]:
            last[source] = (rtt, now - max(age, 0.0))
        fresh = [rtt for rtt, at in last.values() if now - at < STALE_S]
        found = float(state.links.rtt_ms()[0, 1])
        if not fresh:
            assert math.isnan(found)
            assert state.links.between("a", "b", now) is None
            continue
        most = max(fresh)
        assert abs(found - most) <= max(found / 10, 0.5) + 1e-9
        link = state.links.between("b", "a", now)
        assert link is not None
        assert link.age_s is not None
        assert 0 <= link.age_s < STALE_S
