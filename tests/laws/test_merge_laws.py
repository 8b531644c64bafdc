"""Batches that count pods by fault domain, decided by the compiled merge, decide what one by one decides."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast
from weakref import ReferenceType, ref

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch import bucket_sorting, count_merge
from dispatcher.scheduling.batch import leading_rows as leading_module
from dispatcher.scheduling.batch.buckets import BucketLayout, bucket_layout_of
from dispatcher.scheduling.batch.count_merge import count_merge_of
from dispatcher.scheduling.batch.leading_rows import leading_rows
from dispatcher.scheduling.batch.merge_compiled import MERGE
from dispatcher.scheduling.batch.merge_tables import Candidates
from dispatcher.scheduling.batch.pod_variants import PodVariants
from dispatcher.scheduling.equivalence import leaders
from dispatcher.scheduling.equivalence.best_rows import best_rows
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import SKIP, FleetView, Plugin, PodInfo, Profile, kernels
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.records.decision import Decision, records_of, tables_of
from dispatcher.service.files.journal import Journal, journal_lines
from shared.model.node import PREFER_NO_SCHEDULE
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.laws import test_affinity_laws as affinity
from tests.laws.examples import examples
from tests.laws.grain import Record, as_in_batches, recorded
from tests.laws.oracle import numbered
from tests.laws.pairs import CLUSTERS, Pair

clusters, names = st.sampled_from(CLUSTERS), st.sampled_from(tuple(f"n{at}" for at in range(8)))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Any, ...]:
    built = node(draw(names)).cpu(draw(st.sampled_from(("500m", "1", "4")))).pods(draw(st.sampled_from((2, 110))))
    for key in ("zone", "rack"):
        value = draw(st.sampled_from(("", "x", "y", "z")))
        built = built.labels(**{key: value}) if value else built
    tainted = draw(st.integers(0, 3)) == 0
    return ("node", draw(clusters), (built.taint("odd", "x", PREFER_NO_SCHEDULE) if tainted else built).build())


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    """Pods of a few apps that repel, attract and spread in every way that counts pods."""
    one: PodBuilder = pod("p").labels(app=draw(st.sampled_from("uv"))).cpu(draw(st.sampled_from(("100m", "300m"))))
    for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
        key, hard = draw(st.sampled_from(("zone", "host", "host", "cluster", "rack"))), draw(st.booleans())
        select = draw(st.sampled_from((None, selector(app="u"), selector())))
        one = one.spread(key, draw(st.sampled_from((1, 2, 5))), hard=hard, selector=select)
    for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
        tie = draw(st.sampled_from((one.near, one.away)))
        key, weight = draw(st.sampled_from(("zone", "host", "host", "rack"))), draw(st.sampled_from((0, 1, 29)))
        one = tie(key, draw(st.sampled_from((selector(app="u"), selector(app="v"), selector()))), weight=weight)
    if draw(st.integers(0, 3)) == 0:
        one = one.requires("zone", "In", "x", "y")
    return one.placed(draw(clusters))


events = st.one_of(
    nodes(),
    st.tuples(st.just("gone"), clusters, names),
    st.tuples(st.just("reading"), clusters, names, st.floats(0, 1), st.floats(0, 90)),
    *[st.tuples(st.just("pods"), pods(), st.integers(3, 20))] * 4,
    st.tuples(st.just("end"), st.integers(0, 30)),
)
scripts = st.lists(events, min_size=2, max_size=12)


class Alone(Pair):
    """The product without the oracle."""

    def decide(self, items: Sequence[tuple[tuple[str, str], PodInfo]]) -> None:
        one_by_one = [self.scheduler.schedule(one, pod_id) for pod_id, one in items] if not self.batched else None
        self.results += one_by_one or self.scheduler.schedule_class(items)

    def end(self, index: int) -> None:
        known = [one.pod_id for one in self.fleet.occupants()]
        if index < len(known):
            self.scheduler.forget(known[index])


def begin(kind: type[Pair], *, batched: bool) -> Pair:
    pair = kind(DEFAULT_PROFILE, real, batched=batched)
    for at, cluster in enumerate(CLUSTERS):
        for number in range(3):
            pair.node(
                cluster, node(f"n{number}").cpu("2").labels(zone="xyz"[(at + number) % 3], rack="xy"[at % 2]).build()
            )
    return pair


def real() -> Any:
    def plugins() -> list[Plugin]:
        return build(DEFAULT_PROFILE, PluginContext())

    return plugins


lawful = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("compiled")
@lawful
@given(script=scripts)
def test_a_merged_batch_decides_what_the_oracle_decides(script: list[tuple[Any, ...]]) -> None:
    kernels.compile_all()
    pair = begin(Pair, batched=True)
    for event in script:
        pair.apply(event)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("few_held", [0, 2], ids=["whatever is held", "while half is free"])
@lawful
@given(script=scripts)
def test_a_merge_that_looks_at_kept_best_rows_of_groups_records_what_one_by_one_records(
    few_held: int, script: list[tuple[Any, ...]]
) -> None:
    kernels.compile_all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_sorting, "MANY_GROUPS", 1)
        patch.setattr(bucket_sorting, "_FEW_HELD", few_held)
        patch.setattr(leading_module, "_MANY", 1)
        patch.setattr(leaders, "WIDTH", 4)
        merged = records(script, batched=True)
    kernels.use_numpy()
    assert as_in_batches(records(script, batched=False), merged) == merged


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 9), st.lists(st.lists(st.integers(0, 59), max_size=5), max_size=12))
def test_kept_best_rows_of_groups_are_their_best_rows_whatever_took_pods(width: int, steps: list[list[int]]) -> None:
    kernels.compile_all()
    one = pod("p").labels(app="u").cpu("300m").spread("zone", hard=False).placed("a")
    state = fleet(a=[node(f"n{at}").cpu("1").labels(zone=f"z{at % 12}") for at in range(60)])
    plan = Plan.of(DEFAULT_PROFILE, real()())
    kept = EquivalenceCache(plan, state, 2**26).get(plan.class_key(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaders, "WIDTH", width)
        for number, step in enumerate(steps):
            for at in step:
                put(state, pod(f"p{number}-{at}").cpu("300m"), "a", f"n{at}")
            kept.refresh(one)
            partition = kept.partitions.of([state.domain("zone")])
            assert partition is not None
            found = kept.rows.leaders(partition)
            assert found is not None
            total = found.table.total
            for group in range(partition.size):
                own = found.best[group][found.best[group] >= 0]
                want = best_rows(partition.rows(group), total, state.rank, len(own))
                fitting = int(np.count_nonzero(kept.rows.refusal_codes[partition.rows(group)] == 0))
                assert own.tolist() == want.tolist()
                assert found.members[group] == fitting
                assert len(own) >= min(fitting, width // 2)


def records(script: list[tuple[Any, ...]], *, batched: bool) -> list[Record]:
    pair = begin(Alone, batched=batched)
    for event in script:
        pair.apply(event)
    return recorded(pair.results)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("fast", [True, False], ids=["compiled", "before it is compiled"])
@lawful
@given(script=scripts)
def test_a_merged_batch_records_what_one_by_one_records(fast: bool, script: list[tuple[Any, ...]]) -> None:
    """But for counts, which are those at the beginning of the batch (see `as_in_batches`)."""
    kernels.compile_all() if fast else kernels.use_numpy()
    merged = records(script, batched=True)
    kernels.use_numpy()
    assert as_in_batches(records(script, batched=False), merged) == merged


@pytest.mark.usefixtures("compiled")
def test_buckets_made_during_a_batch_have_the_normalised_scores_of_all_others() -> None:
    """Rows come to buckets that the batch did not begin with; their normalised scores are those of all others."""
    kernels.compile_all()
    said = []
    for batched in (False, True):
        pair = Alone(DEFAULT_PROFILE, real, batched=batched)
        for cluster in CLUSTERS:
            for zone in "xyz":
                built = node(zone).cpu("64").labels(zone=zone).taint("odd", "x", PREFER_NO_SCHEDULE)
                pair.node(cluster, built.build())
        for count in (1, 60):
            pair.pods(pod().labels(app="u").cpu("100m").placed("a"), count)
        said.append([record["scores"] for record in records_of(cast(list[Decision], pair.results))])
    assert said[0] == said[1]


@pytest.mark.usefixtures("compiled")
@lawful
@given(script=scripts, step=st.integers(1, 3))
def test_records_that_are_made_together_are_those_made_alone(script: list[tuple[Any, ...]], step: int) -> None:
    """All of them, or of each second or third, as a journal and a list of pods ask for them."""
    kernels.compile_all()
    pair = begin(Alone, batched=True)
    for event in script:
        pair.apply(event)
    decisions = [result for result in pair.results if isinstance(result, Decision)][::step]
    alone = [json.dumps(one.record()) for one in decisions]
    assert [json.dumps(record) for record in records_of(decisions)] == alone


@pytest.mark.usefixtures("compiled")
@lawful
@given(script=scripts, batched=st.booleans())
def test_a_journal_prints_each_record_byte_for_byte(script: list[tuple[Any, ...]], *, batched: bool) -> None:
    kernels.compile_all()
    pair = begin(Alone, batched=batched)
    for event in script:
        pair.apply(event)
    decisions = [result for result in pair.results if isinstance(result, Decision)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "decisions"
        journal = Journal(path)
        journal.write(tables_of(decisions))
        journal.close()
        assert list(journal_lines(path)) == [msgspec.json.encode(one.record()) + b"\n" for one in decisions]


@pytest.mark.usefixtures("compiled")
def test_records_keep_nothing_of_candidates_that_were_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand decisions are kept, and for each of them there were some candidates."""
    kernels.compile_all()
    points = list[ReferenceType[Any]]()

    def made(*columns: Any) -> Candidates:
        points.append(ref(columns[0]))
        return Candidates(*columns)

    monkeypatch.setattr(count_merge, "Candidates", made)
    pair = begin(Alone, batched=True)
    pair.pods(pod().labels(app="u").cpu("100m").spread("zone", hard=False).placed("a"), 10)
    assert isinstance(pair.results[-1], Decision)
    assert points
    assert all(one() is None for one in points)


@st.composite
def new_apps(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Pods of apps that have none yet and no constraints of their own, some of them apps that differ in name alone."""
    script = draw(st.lists(nodes(), max_size=3))
    for app in draw(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=6)):
        one = pod("p").labels(app=app).cpu(draw(st.sampled_from(("50m", "100m", "300m"))))
        script.append(("pods", one.placed(draw(clusters)), draw(st.sampled_from((3, 5, 6, 12, 20)))))
    return script


@pytest.mark.usefixtures("compiled")
@lawful
@given(script=new_apps())
def test_pods_of_new_apps_that_are_decided_together_are_recorded_as_one_by_one(script: list[tuple[Any, ...]]) -> None:
    kernels.compile_all()
    merged = records(script, batched=True)
    kernels.use_numpy()
    assert as_in_batches(records(script, batched=False), merged) == merged


@pytest.mark.usefixtures("compiled")
def test_the_first_pod_of_a_new_app_is_booked_with_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.compile_all()
    booked, assume_all = list[int](), FleetState.assume_all

    def noted(self: FleetState, newcomers: Any, *how: Any, **more: Any) -> None:
        booked.append(len(newcomers))
        assume_all(self, newcomers, *how, **more)

    monkeypatch.setattr(FleetState, "assume_all", noted)
    pair = begin(Alone, batched=True)
    for app in "uv":
        pair.pods(pod().labels(app=app).cpu("100m").placed("a"), 6)
    assert booked == [6, 6]


class ForNobody(FaultDomainSpread):
    """Skips all pods, whether others of their app are placed or not."""

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        super().pre_filter(pod_info, fleet)  # it looks at the same counts
        return SKIP

    def refresh(self, _: Any, pod_info: PodInfo, fleet: FleetView) -> Any:
        return self.pre_filter(pod_info, fleet)


@pytest.mark.usefixtures("compiled")
def test_a_policy_that_replaces_pre_filter_is_not_asked_for_the_inherited_state_after_first() -> None:
    kernels.compile_all()

    def plugins() -> Any:
        built = build(DEFAULT_PROFILE, PluginContext())
        return lambda: [ForNobody((), "App") if isinstance(one, FaultDomainSpread) else one for one in built]

    said = []
    for batched in (False, True):
        pair = Alone(DEFAULT_PROFILE, plugins, batched=batched)
        for at, cluster in enumerate(CLUSTERS):
            pair.node(cluster, node("n0").cpu("64").labels(zone="xyz"[at]).build())
        pair.pods(pod().labels(app="u").cpu("100m").placed("a"), 12)
        said.append([record["scores"] for record in records_of(cast(list[Decision], pair.results))])
    assert said[0] == said[1]


@pytest.mark.usefixtures("compiled")
def test_batches_of_new_apps_begin_with_copies_of_the_same_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.compile_all()
    made = list[int]()

    def noted(eq_class: Any, rules: Any, count: int) -> Any:
        made.append(count)
        return bucket_layout_of(eq_class, rules, count)

    monkeypatch.setattr("dispatcher.scheduling.batch.fresh_layouts.bucket_layout_of", noted)
    pair = begin(Alone, batched=True)
    for app in "uvw":
        pair.pods(pod().labels(app=app).cpu("50m").placed("a"), 6)
    pair.node("a", node("n9").cpu("2").labels(zone="new").build())
    pair.pods(pod().labels(app="x").cpu("50m").placed("a"), 6)
    assert made == [6, 6]  # the first of all, and the first after a node came


@pytest.mark.parametrize("profile", [affinity.ALONE, DEFAULT_PROFILE], ids=["alone", "among all policies"])
@pytest.mark.usefixtures("compiled")
@lawful
@given(script=affinity.scripts)
def test_merged_batches_decide_as_the_rules_of_affinity_say(profile: Profile, script: list[tuple[Any, ...]]) -> None:
    kernels.compile_all()
    pair = affinity.begin(profile, batched=True)
    for event in script:
        pair.apply(event)


@pytest.mark.parametrize(
    "one",
    [
        pod().spread("zone", 2),
        pod().spread("host", hard=False),
        pod().spread("host", 3),
        pod().away("host", selector(app="u")),
        pod().away("host", selector(app="u"), weight=5),
        pod().near("zone", selector(app="u")),
    ],
    ids=["hard zones", "soft hosts", "hard hosts", "repelled on hosts", "rather not on a host", "drawn to a zone"],
)
@pytest.mark.usefixtures("compiled")
def test_all_of_a_batch_are_merged_once_their_terms_are_known(one: PodBuilder) -> None:
    pair = begin(Alone, batched=True)
    placed = one.labels(app="u").placed("a")
    pair.pods(placed, 2)
    plan, classes = pair.scheduler.plan, EquivalenceCache(pair.scheduler.plan, pair.fleet, 2**26)
    pods = classes.get(plan.fleet_key(plan.class_key(placed), placed, view_of(pair.fleet)))
    pods.refresh(placed)
    merged = count_merge_of(pods, PodVariants([0], [placed]), 7)
    assert merged is not None
    assert len(merged.decisions([numbered(placed, at) for at in range(100, 107)])) == 7
    assert len(MERGE.fast.signatures) == 1  # nothing is compiled while pods wait


@pytest.mark.usefixtures("compiled")
def test_a_batch_is_merged_where_there_are_hundreds_of_domains_and_decides_what_one_by_one_decides() -> None:
    results, one = [], pod().labels(app="u").spread("zone", 1, hard=False).spread("host", 1, hard=False).placed("a")
    for batched in (True, False):
        pair = Alone(DEFAULT_PROFILE, real, batched=batched)
        for at in range(2000):
            built = node(f"n{at}").cpu("2").labels(zone=f"z{at // 5}")
            pair.node(CLUSTERS[at % len(CLUSTERS)], built.build())
        pair.pods(one, 2)
        items = [numbered(one, at) for at in range(100, 450)]
        pair.decide(items)
        results.append([result for result in pair.results if isinstance(result, Decision)])
        plan, classes = pair.scheduler.plan, EquivalenceCache(pair.scheduler.plan, pair.fleet, 2**26)
        pods = classes.get(plan.fleet_key(plan.class_key(one), one, view_of(pair.fleet)))
        pods.refresh(one)
        assert count_merge_of(pods, PodVariants([0], [one]), len(items)) is not None
    merged, alone = results
    assert len(merged) == 352
    assert [(one.cluster, one.node) for one in merged] == [(one.cluster, one.node) for one in alone]


@dataclass
class Sorted:
    """As much of a layout as is asked for here."""

    sorting: Any
    begun: int
    all_buckets: Any


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 40), st.integers(0, 300), st.integers(1, 120), st.randoms())
def test_a_merge_begins_with_the_best_rows_of_each_bucket_in_order(
    buckets: int, rows: int, count: int, chance: Random
) -> None:
    kernels.compile_all()
    bucket_of = np.asarray([chance.randrange(buckets) for _ in range(rows)], dtype=np.int64)
    totals = np.asarray([float(chance.randrange(9)) for _ in range(rows)])
    ranks = np.asarray(chance.sample(range(rows), rows), dtype=np.int64)  # no two nodes have one rank
    members = np.bincount(bucket_of, minlength=buckets)
    sorting = SimpleNamespace(rows=np.arange(rows), bucket_of=bucket_of, leading=None)
    everything = Sorted(sorting, buckets, SimpleNamespace(members=members))
    points = SimpleNamespace(total=totals, totals_of=totals.__getitem__)
    found, starts = leading_rows(cast("BucketLayout", everything), cast("ClassRows", points), ranks, count)
    for bucket in range(buckets):
        own = found[starts[bucket] : starts[bucket + 1]]
        want = best_rows(np.flatnonzero(bucket_of == bucket), totals, ranks, len(own))
        assert own.tolist() == want.tolist()
        assert len(own) or not members[bucket]
