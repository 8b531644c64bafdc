"""What clusters charge that were not heard since the start; and that no order of hearing them gives quota out twice."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import REGISTRY, PluginContext
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import ClusterInfo, CycleState, PodInfo
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.unsynced_usage import PersistedUsage, UnsyncedUsage
from shared.model.pod import Pod
from shared.model.tenant import Share, Tenant
from tests.laws.examples import examples
from tests.scheduling.tenants.naive import Naive

LIMIT = 10
TEAM = Tenant("team", ("shop",), {"cpu": Share(absolute=LIMIT)})
FREE = Tenant("free", ("lab",), {})


def infos(**synced: bool) -> list[ClusterInfo]:
    return [ClusterInfo(name, ready=heard, synced=heard) for name, heard in synced.items()]


def ledger_of(remembered: PersistedUsage | None, *, wait: bool = True) -> QuotaLedger:
    return QuotaLedger((TEAM, FREE), UnsyncedUsage(remembered, wait=wait))


def test_a_tenant_with_quota_waits_for_a_cluster_that_was_never_heard() -> None:
    ledger = ledger_of(None)
    text = "tenant team: cluster east has not been heard since the start"
    assert ledger.unknown("team", infos(east=False, west=True)) == text
    assert ledger.unknown("free", infos(east=False, west=True)) == ""
    assert ledger.unknown("team", infos(east=True, west=True)) == ""


def test_a_cluster_that_was_heard_once_and_fell_silent_is_known() -> None:
    ledger = ledger_of(None)
    ledger.unknown("team", infos(east=True))
    assert ledger.unknown("team", infos(east=False)) == ""


def test_an_operator_may_say_that_the_unknown_is_nothing() -> None:
    ledger = ledger_of(None, wait=False)
    assert ledger.unknown("team", infos(east=False)) == ""
    assert ledger.exceeded("team", {"cpu": LIMIT}, {}) is None


def test_what_is_remembered_of_a_silent_cluster_counts_until_it_is_heard() -> None:
    ledger = ledger_of({"east": {"team": {"cpu": 8}}, "west": {"team": {"cpu": 9}}})
    assert ledger.unknown("team", infos(east=False, west=True)) == ""
    short = ledger.exceeded("team", {"cpu": 3}, {})
    assert short is not None
    assert (
        short.text == "tenant team: cpu asked 3m, used 8m (8m of it in clusters not heard since the start), limit 10m"
    )
    assert ledger.exceeded("team", {"cpu": 2}, {}) is None
    ledger.unknown("team", infos(east=True, west=True))
    assert ledger.exceeded("team", {"cpu": LIMIT}, {}) is None


def test_what_is_seen_of_it_elsewhere_counts_once() -> None:
    ledger = ledger_of({"east": {"team": {"cpu": 8}}})
    ledger.unknown("team", infos(east=False))
    ledger.charge(("east", "1"), "team", {"cpu": 5})  # its delegate was seen in another cluster
    assert ledger.exceeded("team", {"cpu": 2}, {}) is None
    assert ledger.exceeded("team", {"cpu": 3}, {}) is not None


def test_the_next_life_remembers_the_heard_as_they_are_the_silent_as_they_were_and_the_unknown_not_at_all() -> None:
    ledger = ledger_of({"east": {"team": {"cpu": 8}}, "gone": {"team": {"cpu": 1}}})
    ledger.unknown("team", infos(east=False, west=True, new=False, idle=True))
    ledger.charge(("east", "1"), "team", {"cpu": 5})
    ledger.charge(("west", "2"), "team", {"cpu": 3})
    ledger.charge(("west", "3"), "team", {"cpu": 3})
    ledger.release(("west", "3"))
    ledger.charge(("new", "4"), "team", {"cpu": 1})
    want = {"east": {"team": {"cpu": 8}}, "west": {"team": {"cpu": 3}}, "idle": {}}
    assert ledger.unsynced.known() == want


# --- the law ---------------------------------------------------------------------------------------------------------

HOMES = ("east", "north", "west")
Submission = tuple[str, int, bool]  # home, milli-CPU, whether it is booked as batches are


@dataclass
class Life:
    """One dispatcher's life over pods that go on running whether it hears of them or not."""

    pods: dict[str, tuple[str, int]]  # uid -> (cluster of submission, cpu), of all that run
    remembered: PersistedUsage | None
    fleet: FleetState = field(default_factory=FleetState)

    def __post_init__(self) -> None:
        self.ledger = ledger_of(self.remembered)
        self.plugin: Any = REGISTRY["TenantQuota"].make({}, PluginContext(quota=self.ledger))
        for name in HOMES:
            self.fleet.set_cluster(name, ready=False, synced=False)

    def hear(self, home: str) -> None:
        self.fleet.set_cluster(home, ready=True, synced=True)
        for uid, (where, cpu) in self.pods.items():
            if where == home:
                self.plugin.restore(_placed(uid, where, cpu), -1, view_of(self.fleet))

    def submit(self, uid: str, home: str, cpu: int, *, in_batch: bool = False) -> None:
        if next(info for info in self.fleet.clusters if info.name == home).synced:
            placed, reserve = _placed(uid, home, cpu), self._reserve_in_batch if in_batch else self._reserve
            if reserve(placed):
                self.pods[uid] = (home, cpu)

    def _reserve(self, pod_info: PodInfo) -> bool:
        return self.plugin.reserve(CycleState(), pod_info, 0, view_of(self.fleet)) is None

    def _reserve_in_batch(self, pod_info: PodInfo) -> bool:
        fits: bool = self.plugin.fits(None, [pod_info], view_of(self.fleet)) == 1
        if fits:
            self.plugin.reserve_all(None, [pod_info], (), view_of(self.fleet))
        return fits

    def end(self, uid: str) -> None:
        home, cpu = self.pods.pop(uid)
        self.plugin.unreserve(_placed(uid, home, cpu), 0, view_of(self.fleet))


def _placed(uid: str, home: str, cpu: int) -> PodInfo:
    return PodInfo(Pod(uid, "shop", uid, requests={"cpu": cpu}), home)


submissions = st.lists(st.tuples(st.sampled_from(HOMES), st.integers(1, LIMIT), st.booleans()), max_size=3)
# A life hears some clusters one after the other; after each, pods are submitted, and some that it knows end.
lives = st.lists(st.lists(st.tuples(st.sampled_from(HOMES), submissions, st.booleans()), max_size=4), max_size=5)


@pytest.mark.parametrize("keeps", [True, False], ids=["a ledger is kept", "nothing is remembered"])
@given(submissions, lives)
def test_in_whatever_order_clusters_are_heard_after_a_start_no_quota_is_given_out_twice(
    keeps: bool, first: list[Submission], later: list[list[tuple[str, list[Submission], bool]]]
) -> None:
    life, serial = Life({}, {} if keeps else None), itertools.count()
    for steps in ([(home, first, False) for home in HOMES], *later):
        for home, submitted, ends in steps:
            life.hear(home)
            for where, cpu, in_batch in submitted:
                life.submit(f"u{next(serial)}", where, cpu, in_batch=in_batch)
            known = [uid for uid, (where, _) in life.pods.items() if life.ledger.charged((where, uid))]
            if ends and known:
                life.end(known[0])
            assert sum(cpu for _, cpu in life.pods.values()) <= LIMIT
        life.ledger.unknown("team", life.fleet.clusters)
        life = Life(life.pods, life.ledger.unsynced.known() if keeps else None)


def test_the_law_is_not_held_by_giving_out_nothing() -> None:
    life = Life({}, {})
    for home in HOMES:
        life.hear(home)
    life.submit("a", "east", 6)
    life.ledger.unknown("team", life.fleet.clusters)
    life = Life(life.pods, life.ledger.unsynced.known())
    life.hear("west")
    life.submit("b", "west", 5)
    life.submit("c", "west", 4)
    assert sorted(life.pods) == ["a", "c"]


# --- the law, for a tree of tenants ----------------------------------------------------------------------------------

TREE = (
    Tenant("all", (), {"cpu": Share(absolute=4)}),
    Tenant("lends", ("lends",), {"cpu": Share(absolute=6)}, "all", lending_limit={"cpu": Share(absolute=4)}),
    Tenant("borrows", ("borrows",), {"cpu": Share(absolute=2)}, "all", borrowing_limit={"cpu": Share(absolute=5)}),
)
NAMES = ("lends", "borrows")
several = st.lists(st.tuples(st.sampled_from(HOMES), st.sampled_from(NAMES), st.integers(1, 6)), max_size=3)


@pytest.mark.parametrize("keeps", [True, False], ids=["a ledger is kept", "nothing is remembered"])
@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(HOMES), several, st.booleans()), max_size=4), max_size=5))
def test_no_limit_of_a_tree_is_broken_in_whatever_order_clusters_are_heard_after_starts(
    keeps: bool, history: list[list[tuple[str, list[tuple[str, str, int]], bool]]]
) -> None:
    """Of all that runs, whether the dispatcher of the moment has heard of it or not."""
    serial = itertools.count()
    pods: dict[str, tuple[str, str, int]] = {}
    remembered: PersistedUsage | None = {}
    empty: list[tuple[str, list[tuple[str, str, int]], bool]] = [(home, [], False) for home in HOMES]
    for at, steps in enumerate((empty, *history)):
        ledger = QuotaLedger(TREE, UnsyncedUsage(remembered, wait=at > 0))
        fleet = FleetState()
        plugin: Any = REGISTRY["TenantQuota"].make({}, PluginContext(quota=ledger))
        for name in HOMES:
            fleet.set_cluster(name, ready=False, synced=False)
        for home, submitted, ends in steps:
            fleet.set_cluster(home, ready=True, synced=True)
            for uid, (where, namespace, cpu) in pods.items():
                if where == home:
                    plugin.restore(_of(uid, where, namespace, cpu), -1, view_of(fleet))
            for where, namespace, cpu in submitted:
                uid = f"u{next(serial)}"
                heard = next(info for info in fleet.clusters if info.name == where).synced
                one = _of(uid, where, namespace, cpu)
                if heard and plugin.reserve(CycleState(), one, 0, view_of(fleet)) is None:
                    pods[uid] = (where, namespace, cpu)
            known = [uid for uid, (where, *_) in pods.items() if ledger.charged((where, uid))]
            if ends and known:
                where, namespace, cpu = pods.pop(known[0])
                plugin.unreserve(_of(known[0], where, namespace, cpu), 0, view_of(fleet))
            _assert_within_limits(pods)
        ledger.unknown("lends", fleet.clusters)
        remembered = ledger.unsynced.known() if keeps else None


def _of(uid: str, home: str, namespace: str, cpu: int) -> PodInfo:
    return PodInfo(Pod(uid, namespace, uid, requests={"cpu": cpu}), home)


def _assert_within_limits(pods: dict[str, tuple[str, str, int]]) -> None:
    own = {name: {"cpu": sum(cpu for _, of, cpu in pods.values() if of == name)} for name in NAMES}
    naive = Naive(TREE, own, {})
    assert all(naive.within(name, "cpu") for name in NAMES)
