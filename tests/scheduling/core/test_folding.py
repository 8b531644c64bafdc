"""A large report of a cluster that is not Ready is taken in part by part: until its last part nothing has changed."""

from unittest.mock import patch

import msgspec
import pytest

from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.core.reports import Reports
from dispatcher.scheduling.events import (
    ClusterChanged,
    ClusterSilent,
    Effect,
    FoldOn,
    OperatorWarning,
    SendIntents,
    SendPeers,
    Tick,
)
from dispatcher.scheduling.fleet.fleet import FleetState
from shared.messages import Bind, Changes
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node, Reading
from shared.model.objects import PriorityClass
from shared.model.pod import Pod
from tests.laws.cores import make_core


def report(cluster: str, nodes: int = 1, pods: int = 0, uid: str = "", **more: object) -> ClusterChanged:
    """All of a cluster: its nodes, and pods of ours that wait."""
    made = tuple(Node(f"n{at}", ready=True, allocatable={"cpu": 4000, "pods": 50}) for at in range(nodes))
    ours = tuple(
        Pod(f"{cluster}-{at}", "default", f"p{at}", requests={"cpu": 10}, scheduler_name=SCHEDULER_NAME)
        for at in range(pods)
    )
    told = {"full": True, "nodes": made, "pods": ours, **more}
    return ClusterChanged(Changes(cluster, uid or f"{cluster}-uid", "life", 0, 1, **told))  # type: ignore[arg-type]


def reborn(event: ClusterChanged) -> ClusterChanged:
    """The same of the agent's next life."""
    return ClusterChanged(msgspec.structs.replace(event.changes, incarnation="another life"))


def begun(pods: int = 6) -> SchedulerCore:
    """East is known and decided; of west two of its pods are taken in."""
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=2, peers_s=1.0))
    core.handle(report("east", pods=1), 1.0)
    core.handle(report("west", nodes=8, pods=pods), 1.0)
    return core


def finish(core: SchedulerCore, now: float = 2.0) -> list[Effect]:
    effects: list[Effect] = []
    while core.folding:
        effects += core.handle(FoldOn("west"), now)
    return effects


def test_until_the_last_part_it_is_as_if_it_had_not_reported() -> None:
    core = begun()
    parts = 0
    while core.folding:
        view = core.clusters["west"]
        assert (view.ready, view.heard, core.open) == (False, False, False)
        effects = core.handle(Tick(), 2.0 + parts)
        assert not [one for one in effects if isinstance(one, SendIntents)]
        told = [one for one in effects if isinstance(one, SendPeers) and one.cluster == "east"]
        assert all(not one.peers for one in told)
        core.handle(FoldOn("west"), 2.0 + parts)
        parts += 1
    assert parts > 3
    assert core.clusters["west"].ready
    sent = [one for one in core.handle(Tick(), 10.0) if isinstance(one, SendIntents)]
    assert sum(isinstance(intent, Bind) for one in sent for intent in one.intents) == 7


def test_a_small_report_is_taken_in_at_once() -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=500))
    core.handle(report("west", nodes=8, pods=6), 1.0)
    assert not core.folding
    assert core.clusters["west"].ready


def ready() -> SchedulerCore:
    """East and west are known, and their pods wait."""
    core = make_core(("east", "west"), timing=CoreTiming(fold_ready_at_once=10))
    for one in (report("east", pods=3), report("west", nodes=8, pods=6)):
        core.handle(one, 1.0)
    assert not core.folding
    return core


def changed(core: SchedulerCore, pods: int, **more: object) -> ClusterChanged:
    """So many other pods of west, as its agent goes on to tell."""
    after, made = core.clusters["west"].revision, report("west", pods=pods).changes
    told = {"full": False, "since": after, "revision": after + 1, "nodes": (), **more}
    return ClusterChanged(msgspec.structs.replace(made, **told))


def test_many_changes_of_a_ready_cluster_are_taken_in_part_by_part_with_decisions_between() -> None:
    core = ready()
    core.handle(changed(core, pods=60), 2.0)
    view, parts, seen = core.clusters["west"], 0, list[int]()
    while core.folding:
        assert (view.ready, view.revision, core.open) == (True, 1, True)
        seen.append(len(view.pods))
        effects = core.handle(Tick(), 2.0 + parts)
        assert parts or [one for one in effects if isinstance(one, SendIntents)]
        core.handle(FoldOn("west"), 2.0 + parts)
        parts += 1
    assert seen == [16, 26, 36, 46, 56, 60]
    assert (view.revision, len(view.pods)) == (2, 60)


@pytest.mark.parametrize(
    "news",
    [
        {"api_ok": False},
        {"synced": False},
        {"restored": True},
        {"confirmed": 1},
        {"keys": ("another",)},
        {"opens": ()},
        {"priority_classes": (PriorityClass("high", 5),)},
        {"runtime_classes": ("gvisor",)},
        {"evicts_foreign": True},
    ],
    ids=str,
)
def test_what_is_new_of_a_ready_cluster_s_health_counts_before_any_of_its_pods(news: dict[str, object]) -> None:
    core = ready()
    core.handle(changed(core, pods=60, **news), 2.0)
    assert not core.folding
    view = core.clusters["west"]
    assert len(view.pods) == 60
    assert all(getattr(view, name) == said for name, said in news.items())


def test_a_ready_cluster_of_which_a_part_fails_stays_ready_and_tells_all_anew() -> None:
    core = ready()
    core.handle(changed(core, pods=60), 2.0)
    view = core.clusters["west"]
    with patch.object(Reports, "_pod_changed", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        finish(core)
    assert (set(core.folding), view.ready, view.uid, view.revision) == (set(), True, "west-uid", 1)
    core.handle(reborn(report("west", nodes=8, pods=60)), 3.0)
    finish(core)
    assert len(view.pods) == 60


def test_a_ready_cluster_that_falls_silent_meanwhile_is_taken_in_and_then_silent() -> None:
    core = ready()
    core.handle(changed(core, pods=60), 2.0)
    core.handle(ClusterSilent("west", "no answer"), 2.0)
    view = core.clusters["west"]
    assert (set(core.folding), view.ready, len(view.pods), view.revision) == (set(), False, 60, 2)


def test_learning_from_readings_is_a_part_of_its_own_after_the_last_pod() -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=10))
    told = tuple(Reading(f"n{at}", 0.5, 0.5, 0.5) for at in range(8))
    core.handle(report("west", nodes=8, pods=15, readings=told), 1.0)
    view, learnt = core.clusters["west"], []
    with patch.object(FleetState, "learn_usual", autospec=True, side_effect=lambda fleet: learnt.append(view.ready)):
        while not learnt:
            before = len(view.pods)
            core.handle(FoldOn("west"), 1.0)
    assert (before, len(view.pods), view.ready, set(core.folding)) == (15, 15, False, {"west"})


def test_a_cluster_that_falls_silent_meanwhile_is_taken_in_and_then_silent() -> None:
    core = begun()
    core.handle(ClusterSilent("west", "no answer"), 2.0)
    view = core.clusters["west"]
    assert not core.folding
    assert (view.silent, view.heard, len(view.pods), len(view.nodes)) == (True, True, 6, 8)
    core.handle(FoldOn("west"), 3.0)  # it was on its way
    assert view.silent


def test_another_name_of_the_same_cluster_is_refused_meanwhile() -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=2))
    core.handle(report("west", nodes=8, pods=6), 1.0)
    effects = core.handle(report("east", uid="west-uid"), 1.0)
    assert any(isinstance(one, OperatorWarning) and "the same cluster" in one.text for one in effects)
    assert not core.clusters["east"].ready


def test_a_part_that_fails_leaves_the_cluster_unheard_and_the_next_report_mends_it() -> None:
    core = begun()
    with patch.object(Reports, "_pod_changed", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        finish(core)
    view = core.clusters["west"]
    assert (core.folding, view.uid, view.ready, view.heard) == ({}.keys(), "", False, False)
    core.handle(report("west", nodes=8, pods=6), 3.0)
    finish(core)
    assert (view.ready, len(view.pods)) == (True, 6)


def test_who_takes_over_while_a_report_is_folded_leads_once_it_is_whole() -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=10))
    core.follow()
    core.handle(report("east"), 1.0)
    core.handle(report("west", nodes=8, pods=60), 1.0)
    assert core.folding
    core.take_over(2_000_000)  # its next part is lost with the service that followed
    core.handle(ClusterChanged(Changes("east", "east-uid", "life", 1, 1)), 3.0)
    core.handle(reborn(report("west", nodes=8, pods=60)), 3.1)
    finish(core, 3.2)
    view = core.clusters["west"]
    assert (core.open, view.ready, len(view.nodes), len(view.pods)) == (True, True, 8, 60)


def test_a_full_report_that_lacks_many_pods_is_taken_in_parts_too() -> None:
    core = make_core(("east", "west"), timing=CoreTiming(fold_at_once=10))
    core.handle(report("east"), 1.0)
    core.handle(report("west", nodes=8, pods=60), 1.0)
    finish(core)
    core.handle(ClusterSilent("west", "no answer"), 1.5)
    core.handle(reborn(report("west", nodes=8, pods=1)), 2.0)
    assert set(core.folding) == {"west"}
    finish(core, 2.1)
    assert len(core.clusters["west"].pods) == 1
