"""What an equivalence class keeps up to date equals what one made from scratch would hold, and kernels equal NumPy."""

from collections.abc import Hashable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.class_rows import _add_points
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.columns import RowStore, add_pods, highest
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import CountedPlugin, FleetView, PodInfo, kernels, refuse
from dispatcher.scheduling.framework.counted import pods_by_domain
from dispatcher.scheduling.framework.domain_counts import CountRules, Scale, ScoreTerm
from dispatcher.scheduling.framework.points import Plan, PluginError
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.records.decision import Decision
from shared.model.reasons import Reasons, Why
from tests.builders import fleet, node, pod, put, reading, selector
from tests.laws.examples import examples
from tests.laws.pairs import Pair
from tests.laws.test_placement_laws import begin, real, records, scripts
from tests.scheduling.tiny_plugins import Fit, Live, Ready, Selector, profile

SAMPLES = (
    pod("plain").cpu("100m").labels(app="u"),
    pod("zoned").cpu("250m").labels(app="u").spread("zone"),
    pod("soft").cpu("250m").labels(app="v").spread("host", hard=False),
    pod("picky").memory("300Mi").requires("zone", "In", "x").prefers(5, "soft", "In", "5"),
    pod("port").port(80),
)


def image(one: EquivalenceClass, n: int) -> dict[str, Any]:
    """All that decisions rest on."""
    found = one.select(("a", "image"), PodInfo(pod("image").build(), "a"))
    decision = found if isinstance(found, Decision) else None
    return {
        "first": one.rows.refusal_codes[:n].tolist(),
        "total": one.rows.total[:n].tolist(),
        "rejected": dict(one.context().rejected),
        "counts": (one.context().feasible, one.context().evaluated),
        "decision": decision
        and (decision.cluster, decision.node, decision.score, decision.runner_up, decision.record()["scores"]),
    }


class Audited(Pair):
    """After each event, classes that were kept are held against classes made anew."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept = EquivalenceCache(self.scheduler.plan, self.fleet, 2**26)

    def apply(self, event: tuple[Any, ...]) -> None:
        super().apply(event)
        plan = self.scheduler.plan
        for sample in SAMPLES:
            placed = sample.placed("a")
            key = plan.fleet_key(plan.class_key(placed), placed, view_of(self.fleet))
            fresh = EquivalenceCache(plan, self.fleet, 2**26).get(key)
            kept = self.kept.get(key)
            for one in (kept, fresh):
                one.refresh(placed)
            assert image(kept, self.fleet.n) == image(fresh, self.fleet.n)


@settings(max_examples=examples(40), deadline=None)
@given(script=scripts)
def test_what_a_class_keeps_up_to_date_equals_a_class_made_from_scratch(script: list[tuple[Any, ...]]) -> None:
    pair = begin(Audited(DEFAULT_PROFILE, real, batched=True))
    for event in script:
        pair.apply(event)


def test_scores_that_age_are_known_to_age_also_after_a_change_of_rows_that_are_not_scored() -> None:
    pair = begin(Audited(DEFAULT_PROFILE, real, batched=True))
    room = {"cpu": 500, "memory": 2**30, "pods": 1}
    barred = msgspec.structs.replace(node("n1").labels(zone="x").cordoned().build(), allocatable=room)
    pair.apply(("reading", "b", "n1", 0.0, 45.0))  # counts in full a last time
    pair.apply(("pods", pod("p").labels(app="u").cpu("100m").placed("b"), 1))
    pair.apply(("node", "a", barred))
    pair.apply(("later", 1.0))


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
def test_kernels_give_the_very_records_that_numpy_gives(script: list[tuple[Any, ...]]) -> None:
    kernels.compile_all()
    with_kernels = records(script, batched=False)
    kernels.use_numpy()
    assert records(script, batched=False) == with_kernels


@pytest.mark.usefixtures("compiled")
def test_kernels_score_many_odd_nodes_bit_for_bit_as_numpy_does() -> None:
    seed = np.random.default_rng(7)
    state = fleet(a=[odd_node(seed, at) for at in range(300)], now=1000.0)
    for at in range(0, 300, 2):
        load = float(seed.random())
        state.put_reading("a", reading(f"n{at}", cpu=load, memory=load / 2, net=load, age=float(seed.integers(0, 200))))
    for at in range(200):
        put(state, pod(f"p{at}").cpu(int(seed.integers(0, 3))).memory("1Gi"), "a", f"n{at}")
    plugins = build(DEFAULT_PROFILE, PluginContext())
    plan = Plan.of(DEFAULT_PROFILE, plugins)
    for one in (pod().cpu("700m").memory("3Gi"), pod(), pod().cpu(5), pod().memory(2**61)):
        placed = one.placed("a")
        totals = []
        for _ in range(2):
            kept = EquivalenceCache(plan, state, 2**26).get(plan.class_key(placed))
            kept.refresh(placed)
            totals.append(kept.rows.total[: state.n].tobytes())
            kernels.use_numpy()
        kernels.compile_all()
        assert totals[0] == totals[1]


def odd_node(seed: np.random.Generator, at: int) -> Any:
    amount = int(seed.choice((0, 1, 2**30, 2**45, 2**50, 2**62)))
    return node(f"n{at}").cpu(int(seed.integers(0, 8))).pods(int(seed.integers(0, 20))).memory(amount)


def test_without_numba_numpy_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numba", None)
    kernels.use_numpy()
    assert not kernels.compile_all()
    one = Scheduler(profile(Ready=1, Selector=1, Fit=1, Live=1), [Ready(), Selector(), Fit(), Live()], fleet(a=["n1"]))
    assert one.schedule(pod().placed("a"), ("a", "u")).record()["outcome"] == "scheduled"


def test_a_class_that_pre_filter_refuses_as_a_whole_has_no_feasible_rows() -> None:
    fit, state = Fit(), fleet(a=["n1"])
    fit.pre_filter = lambda pod_info, fleet: refuse(Reasons.INVALID, "odd")  # type: ignore[method-assign]
    plan, placed = Plan.of(profile(Fit=1), [fit]), pod("p").placed("a")
    one = EquivalenceCache(plan, state, 2**26).get(plan.class_key(placed))
    assert one.prepare(placed) == Why(Reasons.INVALID, "odd")
    assert (one.rows.feasible, one.rows.evaluated, len(one.rows.refusal_codes)) == (0, 0, 0)


def test_a_class_that_was_dropped_keeps_its_answers_while_others_are_made() -> None:
    state = fleet(a=[f"n{at}" for at in range(5)], b=["n1"])
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    cache = EquivalenceCache(plan, state, 2**26)
    one = pod("p").cpu("100m").placed("a")
    kept = cache.get(plan.class_key(one))
    kept.refresh(one)
    before = image(kept, state.n)
    cache.drop(plan.class_key(one))
    for amount in (5, 50, 500):
        other = pod("q").cpu(f"{amount}").placed("a")
        cache.get(plan.class_key(other)).refresh(other)
    assert image(kept, state.n) == before


class Beside(CountedPlugin[Any]):
    """Prefers hosts with few pods of the app; it looks at their counts only when it is asked for scores."""

    name = "Beside"
    scale = Scale.RANGE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return tuple(sorted(pod_info.pod.app_labels.items()))

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        fleet.topology.count_matching(pod_info.pod, selector(app="nobody"), "cluster")  # which never moves
        return pod_info.pod

    def rules(self, state: Any, fleet: FleetView) -> CountRules:
        return CountRules(
            score_terms=[ScoreTerm(pods_by_domain(state, "host", fleet), -1.0, 10.0, 3.0)], scale=self.scale
        )


@pytest.mark.parametrize("asked", [(0, 1, 2, 3, 4, 5), (1, 4), (0, 5)], ids=["each time", "now and then", "once more"])
def test_scores_of_hosts_that_are_asked_for_late_follow_the_counts(asked: tuple[int, ...]) -> None:
    hosts = 80  # too many to go by groups
    state = fleet(a=[node(f"n{at}").cpu(4) for at in range(hosts)])
    plan = Plan.of(profile(Beside=1, Fit=1), [Beside(), Fit()])
    placed, kept = pod("p").cpu(1).labels(app="u").placed("a"), EquivalenceCache(plan, state, 2**26)
    for at in range(6):
        one, fresh = (cache.get(plan.class_key(placed)) for cache in (kept, EquivalenceCache(plan, state, 2**26)))
        for each in (one, fresh):
            each.refresh(placed)
        assert one.groups is None
        if at in asked:
            assert image(one, hosts) == image(fresh, hosts)
        put(state, pod(f"p{at}").labels(app="u"), "a", f"n{at}")


def test_a_class_whose_late_question_failed_asks_it_again() -> None:
    state = fleet(a=[f"n{at}" for at in range(80)])
    beside = Beside()
    plan, placed = Plan.of(profile(Beside=1), [beside]), pod("p").labels(app="u").placed("a")
    one = EquivalenceCache(plan, state, 2**26).get(plan.class_key(placed))
    one.refresh(placed)
    beside.normalize = lambda raw: raw * np.nan  # type: ignore[method-assign]
    with pytest.raises(PluginError):
        one.select(("a", "p"), placed)
    del beside.normalize
    assert isinstance(one.select(("a", "p"), placed), Decision)


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 2**60), st.integers(-3, 3), st.booleans())),
    st.dictionaries(st.integers(0, 3), st.integers(0, 2**50), min_size=1),
    st.lists(st.integers(0, 2**50), min_size=6, max_size=6),
)
def test_pods_are_added_on_rows_by_kernels_as_by_numpy(
    cells: list[tuple[int, int, bool]], wanted: dict[int, int], pairs: list[int]
) -> None:
    rows = np.asarray([at for at, (_, _, chosen) in enumerate(cells) if chosen], dtype=np.intp)
    times = np.asarray([more for _, more, chosen in cells if chosen], dtype=np.int64)
    found = []
    for compiled in (True, False):
        kernels.compile_all() if compiled else kernels.use_numpy()
        store = RowStore(4, 1)
        store.reserve(len(cells), 4, 1)
        taken = store.requested, store.nonzero, store.recent, store.settling
        for at, column in enumerate(taken):
            column[:, : len(cells)] = [cell + at for cell, _, _ in cells]
        add_pods(store, rows, times, list(wanted.items()), pairs)
        found.append(([column.tolist() for column in taken], highest(store, rows)))
    assert found[0] == found[1]


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from((-np.inf, 0.1, 7.0, 33.3)), st.integers(-1, 2))))
def test_what_clusters_add_is_added_by_kernels_as_by_numpy(rows: list[tuple[float, int]]) -> None:
    kernels.compile_all()
    total = np.asarray([points for points, _ in rows], dtype=np.float64)
    cluster = np.asarray([at for _, at in rows], dtype=np.int32)
    by_cluster, found = np.asarray([0.1, 0.2, -5.0]), np.empty(len(rows))
    _add_points(total, by_cluster, cluster, found)
    assert found.tolist() == (total + by_cluster[cluster]).tolist()


@pytest.mark.usefixtures("compiled")
def test_a_cluster_of_which_nothing_is_known_is_no_read_beyond_the_end() -> None:
    with pytest.raises(IndexError):
        _add_points(np.zeros(2), np.zeros(1), np.asarray([0, 1], dtype=np.int32), np.zeros(2))
