"""Other tenants while the dispatcher runs: who is charged, who is told what, who goes on and who waits."""

import dataclasses
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.framework import ClusterInfo
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.unsynced_usage import UnsyncedUsage
from dispatcher.service.assembly import assemble
from dispatcher.service.files.changed_tenants import MOST_LINES
from dispatcher.service.files.quota_file import QuotaFile, read_quota
from dispatcher.service.links.link import LocalLink
from shared.model.tenant import Share
from tests.laws.examples import examples
from tests.service.fakes import FakeAgent
from tests.service.tenant_world import World, tenant


def test_more_quota_lets_those_go_that_wait() -> None:
    world = World(tenant("a", cpu=1))
    world.come("a", "p1", "p2")
    assert world.running() == {"p1"}
    told = world.change(tenant("a", cpu=2))
    assert world.running() == {"p1", "p2"}
    assert told == ["tenant a: cpu may use 2 (before: 1), has 1 more for pods that wait"]


def test_less_quota_than_is_used_evicts_nobody_and_lets_nobody_in() -> None:
    world = World(tenant("a", cpu=3))
    world.come("a", "p1", "p2")
    told = world.change(tenant("a", cpu=1))
    world.come("a", "p3")
    assert world.running() == {"p1", "p2"}
    assert told == [
        "tenant a: cpu may use 1 (before: 3), is 1 above that: its pods stay, and none of more comes until enough have "
        "ended"
    ]
    world.report(pods_gone=("uid-p1",))
    world.tick(60.0)
    assert "p3" not in world.running()
    world.report(pods_gone=("uid-p2",))
    world.tick(60.0)
    assert "p3" in world.running()


def test_a_namespace_takes_what_its_pods_use_along_to_another_tenant() -> None:
    world = World(tenant("a", "x", "y", cpu=9), tenant("b", cpu=2))
    world.come("x", "p1", "p2", "p3")
    world.come("y", "q1")
    told = world.change(tenant("a", "y", cpu=9), tenant("b", "b", "x", cpu=2))
    assert (world.cpus("a"), world.cpus("b")) == (1, 3)
    assert told == [
        "tenant a: namespaces changed",
        "tenant a: cpu is charged 1 (before: 4)",
        "tenant b: namespaces changed",
        "tenant b: cpu is charged 3 (before: 0), is 1 above that: its pods stay, and none of more comes until enough "
        "have ended",
    ]
    world.report(pods_gone=("uid-p1", "uid-p2", "uid-p3", "uid-q1"))
    assert (world.cpus("a"), world.cpus("b")) == (0, 0)


def test_pods_that_nobody_was_charged_for_are_once_they_have_a_tenant_and_those_of_one_that_goes_are_free() -> None:
    world = World()
    world.come("a", "p1", "p2")
    assert world.change(tenant("a", cpu=2))[0] == "tenant a is new"
    assert world.cpus("a") == 2
    world.come("a", "p3")
    assert world.running() == {"p1", "p2"}
    assert world.change() == ["tenant a is no more: it was charged cpu 2, pods 2"]
    assert world.running() == {"p1", "p2", "p3"}


def test_the_tenant_is_that_of_the_namespace_whatever_labels_say() -> None:
    world = World(tenant("a", cpu=1), tenant("b", cpu=9))
    world.come("a", "p1", "p2", tenant="b", queue="b")
    assert (world.cpus("a"), world.cpus("b")) == (1, 0)


def test_who_joins_a_tree_may_borrow_in_it() -> None:
    world = World(tenant("all", "-", cpu=4), tenant("a", cpu=0))
    world.come("a", "p1")
    assert world.running() == set()
    told = world.change(tenant("all", "-", cpu=4), tenant("a", cpu=0, parent="all"))
    assert world.running() == {"p1"}
    assert told[0] == "tenant a is part of all, no more of nobody"


def test_the_same_tenants_again_are_nothing_to_be_told() -> None:
    world = World(tenant("a", cpu=1))
    world.come("a", "p1", "p2")
    assert world.change(tenant("a", cpu=1)) == []
    assert world.cpus("a") == 1


def test_who_keeps_what_it_uses_puts_nobody_above_it_over_the_limit() -> None:
    kept = tenant("a", cpu=4, parent="all", lending_limit={"cpu": Share(absolute=1000)})
    world = World(tenant("all", "-", cpu=1), kept, tenant("b", parent="all"))
    world.come("a", "p1", "p2", "p3")
    world.come("b", "q1")
    told = world.change(tenant("all", "-", cpu=2), kept, tenant("b", parent="all"))
    assert "tenant all: cpu may use 3 (before: 2), has 1 more for pods that wait" in told
    world.come("b", "q2", "q3", "q4")
    assert {"q2", "q3"} < world.running()
    assert "q4" not in world.running()


def test_other_words_on_what_comes_back_are_told() -> None:
    world = World(tenant("a", cpu=1))
    assert world.change(tenant("a", cpu=1, reclaim="any", min_runtime_s=60.0)) == [
        "tenant a: reclaim, min_runtime_s changed"
    ]
    assert world.change(tenant("a", cpu=1, clusters=("east",))) == [
        "tenant a: clusters, reclaim, min_runtime_s changed, pods that have a place keep it"
    ]


def test_no_change_is_told_without_end() -> None:
    assert len(World().change(*(tenant(f"t{at}", cpu=1) for at in range(2 * MOST_LINES)))) == MOST_LINES


NAMESPACES = "abc"
owners = st.lists(st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True), max_size=3)
amounts = st.lists(st.integers(0, 3), min_size=3, max_size=3)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(st.sampled_from(NAMESPACES), st.tuples(owners, amounts)), max_size=8))
def test_charges_are_those_of_the_namespaces_after_any_history_of_files(
    history: list[str | tuple[list[list[str]], list[int]]],
) -> None:
    world = World()
    for at, what in enumerate(history):
        if isinstance(what, str):
            world.come(what, f"p{at}")
            continue
        of, cpus = what
        world.change(*(tenant(f"t{n}", *some, cpu=cpus[n]) for n, some in enumerate(of) if some))
        for one in world.ledger.tenants:
            seen = [name for name in world.running() if _owner(world, world.pods[name].namespace) == one.name]
            assert world.cpus(one.name) == len(seen)


def _owner(world: World, namespace: str) -> str | None:
    return next((one.name for one in world.ledger.tenants if namespace in one.namespaces), None)


# --- what is remembered ----------------------------------------------------------------------------------------------

SILENT = [ClusterInfo("east", ready=False, synced=False)]


def test_what_a_silent_cluster_uses_is_unknown_once_namespaces_have_moved() -> None:
    ledger = QuotaLedger([tenant("a", cpu=9)], UnsyncedUsage({"east": {"a": {"cpu": 1000}}}))
    ledger.take([tenant("a", cpu=8)])
    assert ledger.unknown("a", SILENT) == ""
    ledger.take([tenant("a", "a", "b", cpu=8)])
    assert ledger.unknown("a", SILENT) == "tenant a: cluster east has not been heard since the start"


def test_the_file_of_quota_in_use_is_of_the_tenants_that_hold(tmp_path: Path) -> None:
    path = tmp_path / "quota.json"
    first, then = (tenant("a", cpu=9),), (tenant("a", "b", cpu=9),)
    ledger = QuotaLedger(first)
    file = QuotaFile(path, ledger, [ClusterInfo("east", ready=True, synced=True)], None)
    ledger.charge(("east", "1"), "a", {"cpu": 8})
    file.keep(0)
    ledger.take(then)
    file.keep(1)
    assert read_quota(path, first) is None
    assert read_quota(path, then) == {"east": {"a": {"cpu": 8}}}
    ledger.take(())
    file.keep(2)
    assert not path.exists(), "it would count when tenants come back, and nobody is charged meanwhile"
    file.keep(3)
    ledger.take(then)
    file.keep(4)
    assert read_quota(path, then) == {"east": {"a": {}}}


# --- the dispatcher as it is put together ----------------------------------------------------------------------------


def test_a_dispatcher_holds_and_shows_the_tenants_of_the_changed_configuration() -> None:
    first = DispatcherConfig(tenants=(tenant("a", cpu=1),))
    made = assemble([LocalLink("east", FakeAgent("east"))], first)
    assert [row["tenant"] for row in made.views.tenants()] == ["a"]
    changed = (tenant("all", "-", cpu=3), tenant("a", cpu=1, parent="all"))
    made.take_policies(dataclasses.replace(first, tenants=changed))
    told = made.views.tenant("a")
    assert told is not None
    assert (told["path"], told["resources"][0]["limit"]) == (["all", "a"], "4")
    assert 'quota_limit{resource="cpu",tenant="a"} 4.0' in made.service.metrics.render().decode()
