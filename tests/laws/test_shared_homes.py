"""Pods of one template from several homes are decided together, and each goes where it would go alone."""

from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.home_cluster import HomeCluster
from dispatcher.plugins.node_affinity import NodeAffinity
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.batch.count_merge import CountMerge, count_merge_of
from dispatcher.scheduling.batch.pod_variants import PodVariants
from dispatcher.scheduling.cycle import batches
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.framework import (
    ClusterScore,
    FleetView,
    Floats,
    PluginUse,
    PodInfo,
    Profile,
    kernels,
)
from dispatcher.scheduling.framework.class_keys import batch_key
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.rules import eligibility
from shared.model.names import ACCEPT
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.laws.examples import examples
from tests.laws.grain import Record, as_in_batches, recorded
from tests.laws.pairs import CLUSTERS
from tests.laws.test_merge_laws import Alone

IN_X = {"region": "x"}
clusters, regions = st.sampled_from(CLUSTERS), st.sampled_from("xyz")
wanted = st.sampled_from(("", "", "x", "y", "z"))
Item = tuple[tuple[str, str], PodInfo]


class Queued(Alone):
    """Pods queue by the class that they are of when they come, and are decided once all have come."""

    def __init__(self, *, batched: bool, tenants: Sequence[Tenant] = ()) -> None:
        quota = QuotaLedger(tenants)
        super().__init__(
            DEFAULT_PROFILE, lambda: lambda: build(DEFAULT_PROFILE, PluginContext(quota=quota)), batched=batched
        )
        self.waiting: list[tuple[Any, Item]] = []
        self.seen = 0
        for at, cluster in enumerate(CLUSTERS):
            self.node(cluster, node("n0").cpu("2").labels(region="xyz"[at]).build())

    def queue(self, homes: Sequence[str], region: str, app: str, namespace: str) -> None:
        for home in homes:
            self.seen += 1
            one = pod(f"p{self.seen}").labels(app=app).namespace(namespace).cpu("300m")
            one = one.node_selector({"region": region}) if region else one
            placed = one.placed(home)
            self.waiting.append((batch_key(self.scheduler.classify(placed)), ((home, placed.pod.uid), placed)))

    def close(self, home: str, cluster: str, closed: bool) -> None:
        self.fleet.set_closed(home, cluster, closed=closed)

    def decide_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, run in groupby(waiting, lambda one: one[0]):
            self.decide([item for _, item in run])

    def records(self, script: Sequence[tuple[Any, ...]]) -> list[Record]:
        for name, *arguments in script:
            getattr(self, name)(*arguments)
        self.decide_all()
        return recorded(self.results)


events = st.one_of(
    *[
        st.tuples(
            st.just("queue"),
            st.lists(clusters, min_size=1, max_size=12),
            wanted,
            st.sampled_from("uv"),
            st.sampled_from(("default", "shop")),
        )
    ]
    * 3,
    st.tuples(st.just("node"), clusters, regions.map(lambda one: node("n1").cpu("2").labels(region=one).build())),
    st.tuples(st.just("gone"), clusters, st.sampled_from(("n0", "n1"))),
    st.tuples(st.just("namespace"), clusters, st.just("shop"), st.sampled_from(({}, {ACCEPT: "false"}))),
    st.tuples(st.just("namespace"), clusters, st.just("default"), st.just({})),
    st.tuples(st.just("close"), clusters, clusters, st.booleans()),
    st.tuples(st.just("decide_all")),
)
SHARED, TIGHT = Tenant("both", ("a/*", "b/*"), {"cpu": Share(ratio=0.6)}), {"pods": Share(absolute=2)}
TENANTS: dict[str, tuple[Tenant, ...]] = {
    "nobody": (),
    "one a cluster": tuple(Tenant(f"of-{one}", (f"{one}/*",), {"cpu": Share(ratio=0.4)}) for one in CLUSTERS),
    "one has little": (SHARED, Tenant("little", ("c/*",), TIGHT)),
    "some pods are nobody's": (Tenant("little", ("a/*",), TIGHT), Tenant("shop", ("b/shop",), TIGHT)),
}
OPEN: list[tuple[Any, ...]] = [("namespace", cluster, "shop", {}) for cluster in CLUSTERS]
OPENED_AT_HOME = [
    ("queue", ["c", "b"] * 4, "x", "u", "default"),
    ("node", "b", node("n1").cpu("2").labels(region="x").build()),
]
CLOSED_AT_HOME = [
    *[("namespace", cluster, "shop", {ACCEPT: "false"} if cluster == "a" else {}) for cluster in CLUSTERS],
    ("queue", ["a", "b"] * 4, "z", "u", "shop"),
]


@pytest.fixture(autouse=True)
def _few_nodes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "_FEW", 1)


@pytest.mark.usefixtures("compiled")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(events, min_size=2, max_size=10), tenants=st.sampled_from([*TENANTS.values()]))
@example(script=OPENED_AT_HOME, tenants=())
@example(script=CLOSED_AT_HOME, tenants=())
@example(script=[("queue", ["b", "c", "a"] * 4, "", "u", "default")] * 2, tenants=())
@example(script=[("close", "a", "b", True), ("queue", ["b", "a", "c"] * 4, "", "u", "default")], tenants=())
@example(script=[("queue", list("aaaba"), "", "u", "default"), ("decide_all",), ("gone", "a", "n0")], tenants=())
@example(script=[("queue", ["b", "c", "a"] * 9, "", "u", "default")], tenants=TENANTS["one has little"])
@example(script=[("queue", ["b", "c"] * 6, "x", "u", "default")], tenants=TENANTS["one has little"])
@example(script=[*OPEN, ("queue", ["c", "b"] * 6, "x", "u", "shop")], tenants=TENANTS["some pods are nobody's"])
def test_pods_of_homes_that_share_a_class_are_decided_and_recorded_as_each_alone(
    script: list[tuple[Any, ...]], tenants: tuple[Tenant, ...]
) -> None:
    kernels.compile_all()
    together = Queued(batched=True, tenants=tenants).records(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(NodeAffinity, "possible_clusters")
        alone = Queued(batched=False, tenants=tenants).records(script)
    assert as_in_batches(alone, together) == together


@pytest.mark.usefixtures("compiled")
def test_pods_that_may_go_home_are_decided_in_one_merge_and_each_prefers_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels.compile_all()
    one, merged = Queued(batched=True), list[int]()

    def noted(eq_class: EquivalenceClass, variants: PodVariants, count: int) -> CountMerge | None:
        merged.append(count)
        return count_merge_of(eq_class, variants, count)

    monkeypatch.setattr(batches, "count_merge_of", noted)
    for homes in (["a", "b", "c"], ["c", "b", "a"] * 2):
        one.queue(homes, "", "u", "default")
        one.decide_all()
    assert merged == [6]
    assert [(result.pod_id[0], result.cluster) for result in one.results if isinstance(result, Decision)] == [
        (home, home) for home in ("a", "b", "c", *("c", "b", "a") * 2)
    ]


def test_pods_of_several_tenants_are_decided_together_and_wait_for_quota_apart() -> None:
    one, remote = Queued(batched=True, tenants=TENANTS["one a cluster"]), pod().cpu("300m").node_selector(IN_X)
    b, c = (one.scheduler.classify(remote.placed(home)) for home in "bc")
    assert b != c
    assert batch_key(b) == batch_key(c)
    larger = one.scheduler.classify(remote.cpu("400m").placed("b"))
    assert batch_key(larger) != batch_key(b)


def test_pods_of_two_homes_queue_apart_once_a_cluster_is_closed_to_those_of_one() -> None:
    one = Queued(batched=True)

    def queues() -> int:
        return len({batch_key(one.scheduler.classify(pod().cpu("300m").placed(home))) for home in "ab"})

    before = queues()
    one.close("a", "c", closed=True)
    assert (before, queues()) == (1, 2)
    one.close("a", "c", closed=False)
    assert queues() == 1


class OfAnother(TenantQuota):
    """Says nothing of what several tenants share."""


class Broken(TenantQuota):
    """Cannot tell what several tenants share."""

    def batch_key(self, key: Hashable) -> Hashable:
        """Fails."""
        raise KeyError(key)


def keys_with(quota: type[TenantQuota]) -> set[Hashable]:
    """By what pods of two clusters with a tenant each are decided."""
    one, ledger = Queued(batched=True), QuotaLedger(TENANTS["one a cluster"])
    found = [quota(ledger) if isinstance(each, TenantQuota) else each for each in one.scheduler.plan.plugins]
    one.scheduler.plan = one.scheduler.plan.of(DEFAULT_PROFILE, found)
    return {batch_key(one.scheduler.classify(pod().node_selector(IN_X).placed(home))) for home in "bc"}


def test_who_inherits_a_book_says_anew_what_pods_of_several_tenants_share() -> None:
    assert [len(keys_with(one)) for one in (TenantQuota, OfAnother)] == [1, 2]


def test_a_book_that_cannot_tell_what_pods_share_is_named() -> None:
    assert keys_with(Broken) == {("fault", "TenantQuota", home, "uid-p1") for home in "bc"}


class Wished(ClusterScore):
    """Prefers the cluster that an annotation names."""

    name = "Wished"

    def class_key(self, pod_info: PodInfo) -> str:
        """The cluster."""
        return pod_info.pod.annotations.get("wish", "")

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Floats:
        """100 there."""
        return np.array([100.0 * (info.name == pod_info.pod.annotations.get("wish")) for info in fleet.clusters])


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("homes", ["c", "bc"])
def test_pods_that_bring_different_scores_each_go_by_their_own_from_one_home_too(homes: str) -> None:
    kernels.compile_all()
    profile = Profile("wishes", (*DEFAULT_PROFILE.plugins, PluginUse("Wished", weight=10.0)))
    pair = Alone(profile, lambda: lambda: [*build(DEFAULT_PROFILE, PluginContext()), Wished()], batched=True)
    for cluster in CLUSTERS:
        pair.node(cluster, node("n0").cpu("20").build())
    pods = [
        pod(f"p{at}").cpu("100m").annotation("wish", "aab"[at % 3]).placed(homes[at % len(homes)]) for at in range(9)
    ]
    assert len({batch_key(pair.scheduler.classify(one)) for one in pods}) == 1
    pair.decide([((one.home, one.pod.uid), one) for one in pods])
    assert "".join(one.cluster for one in pair.results if isinstance(one, Decision)) == "aab" * 3


class MoreThanHome(HomeCluster):
    """Says nothing of pods that are away."""


def test_who_inherits_a_plugin_says_anew_what_pods_of_several_homes_share() -> None:
    one = Queued(batched=True)
    one.scheduler.plan = one.scheduler.plan.of(
        DEFAULT_PROFILE,
        [MoreThanHome() if isinstance(each, HomeCluster) else each for each in one.scheduler.plan.plugins],
    )
    assert len({one.scheduler.classify(pod().node_selector({"region": "x"}).placed(home)) for home in CLUSTERS}) == 3
