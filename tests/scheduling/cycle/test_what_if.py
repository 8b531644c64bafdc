"""Pods of several classes decided and taken away in a what-if, and what of it leaves."""

from collections.abc import Sequence

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.batches import Batches, Result
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import CycleState, Depends, FleetView, Permit, PluginUse, PodInfo, Profile
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.pod import PodId
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, fleet, node, pod, selector
from tests.scheduling.cycle.test_future_nodes import World, group, urgent
from tests.scheduling.tiny_plugins import Fit

Item = tuple[PodId, PodInfo]


def item(name: str, cpu: int, **more: object) -> Item:
    return ("a", f"uid-{name}"), pod(name).cpu(cpu).set(**more).placed()


def default(state: FleetState, *tenants: Tenant) -> Profiles:
    plugins = build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(tenants)))
    return Profiles([Scheduler(DEFAULT_PROFILE, plugins, state)])


def nodes_of(results: Sequence[object]) -> list[str]:
    return [one.node if isinstance(one, Decision) else "" for one in results]


def test_where_batches_are_cut_short_not_all_who_wait_are_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one class, but not of one template: each is asked what it is."""
    asked, ahead = list[int](), Batches.ahead

    def few(batches: Batches, key: ClassKey, items: Sequence[Item], *, alike: bool = False) -> Sequence[Result]:
        asked.append(len(items))
        return ahead(batches, key, items[:100], alike=alike)

    monkeypatch.setattr(Batches, "ahead", few)
    items = [item(f"p{at}", 1, labels={"apps.kubernetes.io/pod-index": str(at)}) for at in range(600)]
    with default(fleet(a=[node(f"n{at}").cpu(64) for at in range(10)])).what_if() as trial:
        assert all(nodes_of(trial.schedule(items)))
    assert asked == [600, 200, 200, 200, 200, 100]


def test_few_nodes_take_many_pods_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod more on a host makes the node another one to spread over hosts."""
    taken, ahead = list[int](), Batches.ahead

    def noted(batches: Batches, key: ClassKey, items: Sequence[Item], *, alike: bool = False) -> Sequence[Result]:
        found = ahead(batches, key, items, alike=alike)
        taken.append(len(found))
        return found

    monkeypatch.setattr(Batches, "ahead", noted)
    nodes = [node(f"n{at}").cpu(150).pods(150) for at in range(2)]
    items = [item(f"p{at}", 1, labels={"app": "w"}) for at in range(200)]
    with default(fleet(a=nodes)).what_if() as trial:
        assert all(nodes_of(trial.schedule(items)))
    assert taken == [200]


def test_all_or_none_is_to_keep_it_only_if_each_has_a_place() -> None:
    """Five CPUs in three classes find no room on two nodes of two; without the last of them they do."""
    state = fleet(a=[node("n1").cpu(2), node("n2").cpu(2)])
    profiles = default(state)
    group_of = [item("big", 2), item("one", 1), item("other", 1, labels={"app": "u"}), item("more", 1)]
    for wanted, kept in ((group_of, []), (group_of[:3], ["big", "one", "other"])):
        with profiles.what_if() as trial:
            results = trial.schedule(wanted)
            if all(isinstance(one, Decision) for one in results):
                trial.commit()
        assert [one.pod_info.pod.name for one in state.occupants()] == kept
    assert "Insufficient cpu" in default(state).schedule_class(group_of[3:])[0].record()["message"]


def test_what_a_pod_uses_of_its_quota_is_free_for_the_one_in_its_place() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    profiles = default(state, Tenant("team", ("default",), {"cpu": Share(absolute=1000)}))
    old, new = item("old", 1), item("new", 1)
    profiles.schedule_class([old])
    with profiles.what_if() as trial:
        assert nodes_of(trial.schedule([new])) == [""]
        trial.take_away(old[0])
        assert nodes_of(trial.schedule([new])) == ["n1"]
    assert nodes_of(profiles.schedule_class([new])) == [""]


def test_the_same_pod_may_be_decided_anew_once_it_is_taken_away() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    profiles = default(state)
    one = item("one", 1)
    profiles.schedule_class([one])
    there = state.occupant(one[0])
    with profiles.what_if() as trial:
        with pytest.raises(ValueError, match="uid-one of cluster a has a place"):
            trial.schedule([one])
        trial.take_away(one[0])
        with pytest.raises(LookupError, match="uid-one of cluster a is nowhere"):
            trial.take_away(one[0])
        with pytest.raises(ValueError, match="twice"):
            trial.schedule([one, one])
        assert nodes_of(trial.schedule([one])) == ["n1"]
        assert state.occupant(one[0]) is not there
    assert state.occupant(one[0]) is there


class Later(Permit[None]):
    """Lets every pod wait."""

    name = "Later"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> None: ...

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> float:
        return 60.0


@pytest.mark.parametrize("within", [False, True], ids=["alone", "within another"])
def test_who_waits_for_permit_is_told_once_it_is_kept(within: bool) -> None:
    state = fleet(a=["n1"])
    plugins = [Fit(), Later()]
    scheduler = Scheduler(Profile("later", tuple(PluginUse(one.name) for one in plugins)), plugins, state)
    profiles, told = Profiles([scheduler]), list[str]()
    scheduler.on_wait = lambda decision: told.append(decision.pod_info.pod.name)
    with profiles.what_if() as trial:
        trial.schedule([item("undone", 1)])
    with profiles.what_if() as trial:
        if within:
            with profiles.what_if() as inner:
                inner.schedule([item("kept", 1)])
                inner.commit()
        else:
            trial.schedule([item("kept", 1)])
        trial.commit()
        assert not told
    profiles.schedule_class([item("after", 1)])
    assert told == ["kept", "after"]


def test_nobody_begins_to_wait_for_a_new_node_in_it() -> None:
    """Else the pod would wait less, once it is decided, than a node needs to come."""
    world = World(east=group())
    one: PodBuilder = urgent()
    with Profiles([world.scheduler]).what_if() as trial:
        (refused,) = trial.schedule([(("east", one.build().uid), one.placed("east"))])
        assert not isinstance(refused, Decision)
        assert refused.waits_until is not None
    world.state.now += 100.0
    assert world.refused(one).waits_until == world.state.now + 300.0


def test_nodes_that_change_in_it_are_an_error() -> None:
    state = fleet(a=["n1"])
    profiles = default(state)

    def change() -> None:
        with profiles.what_if():
            state.put_node("a", node("n2").build())

    with pytest.raises(RuntimeError, match="nodes or the time"):
        change()


def test_the_example_of_the_documents() -> None:
    """docs/algorithms/trial-and-undo.md"""
    state = fleet(a=[node("n1").cpu(2), node("n2").cpu(2)])
    ledger = QuotaLedger((Tenant("team", ("default",), {"cpu": Share(absolute=3000)}),))
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext(quota=ledger)), state)
    profiles = Profiles([scheduler])
    old = item("old", 1)
    profiles.restore(*old, "a", "n1")
    away = pod("more").cpu("500m").away("host", selector(app="one")).placed()
    one = pod("one").cpu("500m").labels(app="one").placed()
    wanted = [item("big", 2), (("a", "uid-one"), one), (("a", "uid-more"), away)]
    before = (state.requested.tobytes(), ledger.usage("team"))
    with profiles.what_if() as trial:
        trial.take_away(old[0])
        results = trial.schedule(wanted)
        assert nodes_of(results) in (["n1", "n2", ""], ["n2", "n1", ""])
        assert ledger.usage("team")["cpu"] == 2500
    assert isinstance(results[-1], Unschedulable)
    assert {one.name for one in results[-1].reasons} == {"insufficient", "pod_anti_affinity"}
    assert (state.requested.tobytes(), ledger.usage("team")) == before
