"""The core as a whole, told by single cases; its laws are in tests/laws."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from dispatcher.scheduling.clusters import GapError
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import (
    Answered,
    ClusterChanged,
    ClusterSilent,
    Decide,
    Effect,
    OperatorWarning,
    PeersAcknowledged,
    SendIntents,
    SendPeers,
    Tick,
)
from dispatcher.scheduling.views import explain, pods_view, whole
from shared import messages
from shared.messages import DONE, REFUSED, Bind, Changes, ConfirmNoSource, Evict, Outcome, ReportUnschedulable
from shared.messages.memory import memory_of_record
from shared.model.crossing import Opening
from shared.model.labels import LabelSelector
from shared.model.names import CLUSTERS, SCHEDULER_NAME
from shared.model.node import Node, Taint
from shared.model.objects import AnyObject, Namespace, ObjectRef, PriorityClass, StorageClass
from shared.model.pod import Claim, Need, Needs, Pod, PodAffinity, PodAffinityTerm, SourceRef, Toleration
from tests.agents.executor.world import keys_of
from tests.laws.cores import make_core
from tests.scheduling.core.test_preemptors import signed

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})


def pod(name: str, **more: object) -> Pod:
    fields = {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod(f"uid-{name}", "default", name, **fields)  # type: ignore[arg-type]


def report(
    core: SchedulerCore,
    *pods: Pod,
    nodes: tuple[Node, ...] = (NODE,),
    objects: tuple[AnyObject, ...] = (),
    now: float = 1.0,
) -> Sequence[Effect]:
    changes = Changes("east", "east-uid", "life-1", 0, 1, full=True, nodes=nodes, pods=pods, objects=objects)
    return core.handle(ClusterChanged(changes), now)


def intents(effects: Sequence[Effect], kind: type) -> list[object]:
    return [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents if type(one) is kind]


def test_nothing_is_decided_before_every_cluster_was_heard_of() -> None:
    core = make_core(("east", "west"))
    report(core, pod("a"))
    assert not intents(core.handle(Tick(), 1.0), Bind)
    core.handle(ClusterSilent("west", "no answer"), 1.0)
    assert intents(core.handle(Tick(), 2.0), Bind)


def test_a_pod_with_problems_is_told_once_and_never_placed() -> None:
    core = make_core(("east",))
    effects = report(core, pod("bad", problems=("spec.containers[0]: quantity '1e999999' is absurd",)), pod("good"))
    (told,) = intents(effects, ReportUnschedulable)
    assert "1e999999" in told.message  # type: ignore[attr-defined]
    assert not told.nodes_help  # type: ignore[attr-defined]
    assert [bind.pod.name for bind in intents(core.handle(Tick(), 1.0), Bind)] == ["good"]  # type: ignore[attr-defined]


def test_a_pod_is_told_anew_when_a_new_node_at_home_would_help_it_by_now_though_the_words_are_the_same() -> None:
    core = make_core(("east", "west"))
    large = partial(pod, "large", requests={"cpu": 9000})
    report(core, large(annotations={CLUSTERS: "west"}))
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 1.0)
    (first,) = intents(core.handle(Tick(), 2.0), ReportUnschedulable)
    allowed = Changes("east", "east-uid", "life-1", 1, 2, pods=(large(annotations={CLUSTERS: "east"}),))
    later = [*core.handle(ClusterChanged(allowed), 60.0), *core.handle(Tick(), 60.0)]
    (second,) = intents(later, ReportUnschedulable)
    assert (first.message, first.nodes_help) == (second.message, False)  # type: ignore[attr-defined]
    assert second.nodes_help  # type: ignore[attr-defined]


def test_a_refused_bind_gives_the_room_back_and_waits_before_the_next_try() -> None:
    core = make_core(("east",))
    report(core, pod("a"))
    (bind,) = intents(core.handle(Tick(), 1.0), Bind)
    outcome = Outcome(bind.id, bind.pod.uid, bind.epoch, REFUSED, "node is full")  # type: ignore[attr-defined]
    core.handle(Answered("east", (outcome,)), 1.1)
    assert core.fleet.occupant(("east", "uid-a")) is None
    assert [row["reason"] for row in whole(pods_view(core))] == ["node(s) were refused by their agent (node is full)"]
    assert not intents(core.handle(Tick(), 1.2), Bind)
    (again,) = intents(core.handle(Tick(), 3.0), Bind)
    assert again.epoch > bind.epoch  # type: ignore[attr-defined]


def test_a_report_that_skips_revisions_is_refused_and_changes_nothing() -> None:
    core = make_core(("east",))
    report(core, pod("a"))
    gap = Changes("east", "east-uid", "life-1", 5, 6, pods_gone=("uid-a",))
    with pytest.raises(GapError, match="does not continue"):
        core.handle(ClusterChanged(gap), 2.0)
    assert ("east", "uid-a") in core.tracked


def test_a_cluster_that_has_told_more_than_its_share_is_asked_for_all_of_it_anew() -> None:
    core = make_core(("east",))
    core.pin("east", "", most_memory=20_000)
    report(core)
    view, told = core.clusters["east"], 0
    fat = [pod(f"p{at}", labels={"k": "v" * 1000}) for at in range(20)]
    while view.memory <= 20_000:
        change(core, fat[told])
        told += 1
    with pytest.raises(GapError, match="more than its share"):
        change(core, fat[told])
    assert 5 < told < 19
    assert sum(map(memory_of_record, fat[:told])) == view.memory > 20_000
    for one in (fat[0], fat[0]):  # what it tells again, and what goes, takes no more
        full = Changes("east", "east-uid", "life-1", 0, view.revision + 1, full=True, pods=(one,))
        core.handle(ClusterChanged(full, memory=3_000), 4.0)
        assert view.memory == 3_000
    change(core, fat[0], gone=(fat[1].uid,))
    assert view.memory == 3_000
    change(core, fat[1])
    change(core, gone=(fat[1].uid,))
    assert view.memory == 3_000


def test_agents_are_told_of_peers_at_once_when_a_cluster_falls_silent() -> None:
    core = make_core(("east", "west"))
    for name in ("east", "west"):
        core.handle(ClusterChanged(Changes(name, f"{name}-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 0.0)

    def told(now: float) -> set[str]:
        return {effect.cluster for effect in core.handle(Tick(), now) if isinstance(effect, SendPeers)}

    assert told(0.0) == {"east", "west"}
    assert told(1.0) == set()
    core.handle(ClusterSilent("west", "away"), 1.0)
    assert told(1.5) == {"east"}


def test_a_node_that_comes_wakes_a_pod_that_found_none() -> None:
    core = make_core(("east",))
    report(core, pod("a"), nodes=())
    effects = core.handle(Tick(), 1.0)
    assert intents(effects, ReportUnschedulable)
    core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 1, 2, nodes=(NODE,))), 2.0)
    assert intents(core.handle(Tick(), 3.0), Bind)


@pytest.mark.parametrize(
    ("labels", "wakes"), [({"app": "db"}, True), ({"app": "web"}, False)], ids=["meant", "not meant"]
)
def test_a_foreign_pod_that_comes_to_a_node_wakes_a_pod_that_wants_to_be_near_it(
    labels: dict[str, str], wakes: bool
) -> None:
    core, near = make_core(("east",)), PodAffinityTerm("host", LabelSelector({"app": "db"}), ("default",))
    waiting = pod("a", pod_affinity=PodAffinity((near,)))
    report(core, waiting)
    assert not intents(core.handle(Tick(), 1.0), Bind)
    report(core, waiting, pod("b", labels=labels, node="n1", scheduler_name="default-scheduler"), now=5.0)
    assert bool(intents(core.handle(Tick(), 20.0), Bind)) is wakes


def objects_of(core: SchedulerCore, cluster: str = "east") -> set[tuple[str, str]]:
    return set(core.fleet.kept.keys_of(cluster))


def test_objects_come_change_and_go_with_the_reports_of_their_cluster() -> None:
    core = make_core(("east", "west"))
    report(core, objects=(Namespace("a"), StorageClass("a")))
    other = Changes("west", "west-uid", "life-1", 0, 1, full=True, objects=(Namespace("a"),))
    core.handle(ClusterChanged(other), 1.0)
    changed = Changes("east", "east-uid", "life-1", 1, 2, objects=(Namespace("a", {"x": "y"}),))
    core.handle(ClusterChanged(changed), 2.0)
    assert core.fleet.kept.of("east", Namespace)["a"].labels == {"x": "y"}
    assert core.fleet.kept.of("west", Namespace)["a"].labels == {}
    gone = Changes("east", "east-uid", "life-1", 2, 3, objects_gone=(ObjectRef("Namespace", "a"),))
    core.handle(ClusterChanged(gone), 3.0)
    assert objects_of(core) == {("StorageClass", "a")}
    assert objects_of(core, "west") == {("Namespace", "a")}


def test_a_full_report_forgets_the_objects_it_does_not_name() -> None:
    core = make_core(("east",))
    report(core, objects=(Namespace("a"), Namespace("b")))
    report(core, objects=(Namespace("b"),), now=2.0)
    assert objects_of(core) == {("Namespace", "b")}


def test_a_pod_of_an_unknown_profile_waits_with_the_names_of_the_known_ones() -> None:
    core = make_core(("east",))
    effects = report(core, pod("a", scheduler_name="global-dispatcher-x"), pod("b"))
    (told,) = intents(effects, ReportUnschedulable)
    assert told.message.endswith("known: global-dispatcher")  # type: ignore[attr-defined]
    assert [bind.pod.name for bind in intents(core.handle(Tick(), 1.0), Bind)] == ["b"]  # type: ignore[attr-defined]


FULL = {"requests": {"cpu": 3000}}


def bound(name: str, **more: object) -> Pod:
    return pod(name, node="n1", phase="Running", **{**FULL, **more})


def change(core: SchedulerCore, *pods: Pod, gone: tuple[str, ...] = (), now: float = 3.0) -> Sequence[Effect]:
    view = core.clusters["east"]
    changes = Changes(
        "east", "east-uid", "life-1", view.revision, view.revision + 1, pods=pods, pods_gone=gone, evicts_foreign=True
    )
    return core.handle(ClusterChanged(changes), now)


def test_an_urgent_pod_has_a_lower_one_evicted_and_takes_its_room_when_it_is_gone() -> None:
    core = make_core(("east",))
    report(core, bound("low"), pod("urgent", priority=10, **FULL))
    effects = core.handle(Tick(), 1.0)
    (evict,) = intents(effects, Evict)
    assert (evict.pod.name, evict.node, evict.priority) == ("low", "n1", 10)  # type: ignore[attr-defined]
    (told,) = intents(effects, ReportUnschedulable)
    assert told.nominated_node == "n1"  # type: ignore[attr-defined]
    outcome = Outcome(evict.id, evict.pod.uid, evict.epoch, DONE)  # type: ignore[attr-defined]
    core.handle(Answered("east", (outcome,)), 1.5)
    change(core, pod("between", priority=5, **FULL), now=2.5)
    assert not intents(core.handle(Tick(), 2.6), Bind)
    change(core, gone=("uid-low",), now=3.0)
    (bind,) = intents(core.handle(Tick(), 4.0), Bind)
    assert bind.pod.name == "urgent"  # type: ignore[attr-defined]


def test_victims_that_are_going_are_waited_for_and_nobody_else_is_evicted() -> None:
    core = make_core(("east",))
    report(core, bound("low"), pod("urgent", priority=10, **FULL))
    assert len(intents(core.handle(Tick(), 1.0), Evict)) == 1
    effects = [*change(core, bound("low", terminating=True), now=2.0), *core.handle(Tick(), 400.0)]
    assert not intents(effects, Evict)
    row = explain(core, "default", "urgent")
    assert row is not None
    assert "not eligible due to a terminating pod on the nominated node" in row["reason"]


def test_a_refused_eviction_takes_the_promise_back() -> None:
    core = make_core(("east",))
    report(core, bound("low"), pod("urgent", priority=10, **FULL))
    (evict,) = intents(core.handle(Tick(), 1.0), Evict)
    outcome = Outcome(evict.id, evict.pod.uid, evict.epoch, REFUSED, "not allowed")  # type: ignore[attr-defined]
    effects = core.handle(Answered("east", (outcome,)), 1.5)
    assert any(isinstance(effect, OperatorWarning) and "not allowed" in effect.text for effect in effects)
    assert core.profiles.nominations.of(("east", "uid-urgent")) is None


@pytest.mark.parametrize("allowed", [True, False], ids=["where it is allowed", "not elsewhere"])
def test_pods_of_other_schedulers_are_evicted(allowed: bool) -> None:
    core = make_core(("east",))
    report(core, nodes=(NODE,))
    foreign = bound("low", scheduler_name="default-scheduler")
    view = core.clusters["east"]
    pods = (foreign, pod("urgent", priority=10, **FULL))
    changes = Changes("east", "east-uid", "life-1", view.revision, 9, pods=pods, evicts_foreign=allowed)
    core.handle(ClusterChanged(changes), 2.0)
    assert bool(intents(core.handle(Tick(), 2.0), Evict)) == allowed


def test_a_promise_of_an_earlier_life_is_kept() -> None:
    core = make_core(("east",))
    report(core, bound("going", terminating=True), pod("urgent", priority=10, nominated_node="n1", **FULL))
    effects = core.handle(Tick(), 1.0)
    assert not intents(effects, Evict)
    change(core, pod("other", **FULL), gone=("uid-going",), now=2.0)
    assert [bind.pod.name for bind in intents(core.handle(Tick(), 3.0), Bind)] == ["urgent"]  # type: ignore[attr-defined]


def test_a_gated_pod_says_which_gates_hold_it() -> None:
    core = make_core(("east",))
    effects = report(core, pod("a", gated=True, gates=("example.com/quota", "example.com/review")))
    (told,) = intents(effects, ReportUnschedulable)
    assert told.reason == "SchedulingGated"  # type: ignore[attr-defined]
    assert told.message == (  # type: ignore[attr-defined]
        "Scheduling is blocked due to non-empty scheduling gates: example.com/quota, example.com/review"
    )
    change(core, pod("a"))
    assert intents(core.handle(Tick(), 3.0), Bind)


@pytest.mark.parametrize(("at_home", "there", "evicted"), [(5, 9, 1), (2_000, 9, 1), (0, 10, 0)])
def test_a_delegate_is_as_important_as_it_is_where_it_runs_and_is_evicted_there(
    at_home: int, there: int, evicted: int
) -> None:
    core = make_core(("east", "west"))
    claim = Claim("west", "n1", 5)
    source = pod("low", priority=at_home, node="global-dispatcher-west", claim=claim, has_finalizer=True, **FULL)
    report(core, source, nodes=())
    marks = SourceRef("east", "east-uid", "default", "low", "uid-low", 5)
    delegate = pod("low-copy", node="n1", phase="Running", source=marks, priority=there, **FULL)
    pods = (delegate, pod("urgent", priority=10, **FULL), pod("meek", priority=3, **FULL))
    changes = Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,), pods=pods)
    core.handle(ClusterChanged(changes), 1.0)
    ordered = intents(core.handle(Tick(), 1.0), Evict)
    assert [(one.pod.uid, one.node, one.priority) for one in ordered] == [  # type: ignore[attr-defined]
        ("uid-low-copy", "n1", 10)
    ] * evicted


@pytest.mark.parametrize(
    ("value", "evicted"),
    [
        pytest.param(60, [60], id="higher there than who runs there"),
        pytest.param(50, [], id="no higher there"),
        pytest.param(101, [], id="higher than the row lets in"),
        pytest.param(None, [], id="no such class there"),
    ],
)
def test_a_pod_preempts_in_another_cluster_by_the_priority_that_it_will_have_there(
    value: int | None, evicted: list[int]
) -> None:
    core = make_core(("east", "west"))
    need = Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"')
    vip = pod("vip", priority=100_000, needs=Needs(of_policy=(need,)), **FULL)
    keys = keys_of("east").endorsed_keys()
    core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 0, 1, full=True, pods=(vip,), keys=keys)), 1.0)
    running = pod("usual", priority=50, node="n1", phase="Running", **FULL)
    opens = (Opening(("*",), ("*",), (), closed=(), max_priority=100),)
    known = (PriorityClass("other", 1), *([] if value is None else [PriorityClass("high", value)]))
    west = Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,), pods=(running,), opens=opens)
    core.handle(ClusterChanged(msgspec.structs.replace(west, priority_classes=known)), 1.0)
    effects = [one for second in range(1, 8) for one in core.handle(Tick(), float(second))]
    asked = intents(effects, ConfirmNoSource)
    answers = tuple([signed(one, priority=vip.priority, priority_class="high") for one in asked])  # type: ignore[arg-type]
    effects += core.handle(Answered("east", answers), 8.0)
    assert [one.priority for one in intents(effects, Evict)] == evicted  # type: ignore[attr-defined]


def test_a_pod_that_waits_for_its_class_in_another_cluster_goes_once_that_is_made() -> None:
    core = make_core(("east", "west"))
    need = Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"')
    opens = (Opening(("*",), ("*",), (), closed=(), max_priority=100),)
    classes = (PriorityClass("other", 1),)
    west = Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,), opens=opens, priority_classes=classes)
    core.handle(ClusterChanged(west), 1.0)
    effects = report(core, pod("vip", needs=Needs(of_policy=(need,)), **FULL), nodes=())
    (told,) = intents([*effects, *core.handle(Tick(), 1.0)], ReportUnschedulable)
    assert 'is PriorityClass "high", which does not exist in that cluster' in told.message  # type: ignore[attr-defined]
    made = (PriorityClass("high", 5), *classes)
    later = Changes("west", "west-uid", "life-1", 1, 2, opens=opens, priority_classes=made)
    core.handle(ClusterChanged(later), 20.0)
    effects = [one for second in range(20, 24) for one in core.handle(Tick(), float(second))]
    assert len(intents(effects, messages.Claim)) == 1


def test_a_pod_that_still_runs_where_it_did_not_go_is_told_so_and_placed_once_that_is_gone() -> None:
    core = make_core(("east", "west"))
    source = SourceRef("east", "east-uid", "default", "a", "uid-a", 1)
    dying = Pod("d1", "default", "a-123", node="w1", phase="Running", terminating=True, source=source)
    west = Changes("west", "west-uid", "life-1", 0, 1, full=True, pods=(dying,))
    core.handle(ClusterChanged(west), 1.0)
    (told,) = intents(report(core, pod("a")), ReportUnschedulable)
    settled = 2.0 + core.timing.absence_grace_s
    effects = core.handle(Tick(), settled)
    assert told.message == "its delegate in cluster west is not gone yet"  # type: ignore[attr-defined]
    assert not intents(effects, Bind)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 1, 2, pods_gone=("d1",))), settled + 1)
    assert intents(core.handle(Tick(), settled + 2), Bind)


def test_a_source_whose_delegate_went_while_its_cluster_was_held_as_restored_is_let_go_after_the_hold() -> None:
    core = make_core(("east", "west"), boot_epoch=10)
    marks = SourceRef("east", "east-uid", "default", "a", "uid-a", 5)
    copy = Pod("d1", "default", "a-123", node="n1", phase="Running", terminating=True, source=marks)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, pods=(copy,))), 1.0)
    claim = Claim("west", "n1", 5)
    report(core, pod("a", node="global-dispatcher-west", claim=claim, has_finalizer=True, terminating=True), nodes=())
    held = Changes("west", "west-uid", "life-1", 1, 2, pods_gone=("d1",), restored=True)
    assert not intents(core.handle(ClusterChanged(held), 2.0), messages.FinishSource)
    over = Changes("west", "west-uid", "life-1", 2, 2)
    (asked,) = intents(core.handle(ClusterChanged(over), 3.0), messages.ConfirmNoDelegate)
    gone = Outcome(asked.id, asked.pod.uid, asked.epoch, DONE)  # type: ignore[attr-defined]
    assert intents(core.handle(Answered("west", (gone,)), 3.0), messages.FinishSource)


def test_the_running_delegate_of_an_earlier_life_is_bound_by_an_attempt_of_this_one() -> None:
    core = make_core(("east", "west"), boot_epoch=1000)
    marks = SourceRef("east", "east-uid", "default", "a", "uid-a", 5)
    copies = (Pod("d1", "default", "a-123", node="n1", phase="Running", source=marks),)
    west = Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,), pods=copies)
    core.handle(ClusterChanged(west), 1.0)
    effects = report(core, pod("a", claim=Claim("west", "n1", 5), has_finalizer=True))
    (sent,) = intents(effects, Bind)
    assert sent.epoch > 1000  # type: ignore[attr-defined]


def test_a_claim_of_an_earlier_life_without_a_delegate_is_taken_off_and_the_pod_decided_anew() -> None:
    core = make_core(("east", "west"), boot_epoch=1000)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True)), 1.0)
    effects = report(core, pod("a", claim=Claim("west", "n1", 5), has_finalizer=True))
    (confirm,) = intents(effects, messages.ConfirmNoDelegate)
    assert not confirm.collect  # type: ignore[attr-defined]
    assert confirm.epoch > 1000  # type: ignore[attr-defined]
    (unclaim,) = intents(answer(core, "west", confirm, messages.DONE, 2.0), messages.Unclaim)
    answer(core, "east", unclaim, messages.DONE, 3.0)
    core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 1, 2, pods=(pod("a"),))), 4.0)
    (bound,) = intents(core.handle(Tick(), 5.0), Bind)
    assert bound.node == "n1"  # type: ignore[attr-defined]


def test_a_claim_of_a_higher_attempt_than_ours_is_asked_about_without_haste() -> None:
    core = make_core(("east", "west"))
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True)), 1.0)
    (confirm,) = intents(
        report(core, pod("a", claim=Claim("west", "n1", 500), has_finalizer=True)), messages.ConfirmNoDelegate
    )
    assert not intents(answer(core, "west", confirm, messages.DONE, 2.0), messages.ConfirmNoDelegate)
    assert intents(core.handle(Tick(), 20.0), messages.ConfirmNoDelegate)


def test_an_older_claim_that_somebody_puts_back_is_not_followed() -> None:
    core = make_core(("east", "west"), boot_epoch=1000)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 1.0)
    gated = pod("a", gated=True)
    report(core, gated, nodes=())
    replayed = pod("a", gated=True, claim=Claim("west", "n1", 5), has_finalizer=True)
    effects = core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 1, 2, pods=(replayed,))), 2.0)
    (confirm,) = intents(effects, messages.ConfirmNoDelegate)
    after = answer(core, "west", confirm, messages.DONE, 3.0)
    assert intents(after, messages.Unclaim)
    assert not intents(after, messages.Claim)


def answer(core: SchedulerCore, cluster: str, intent: object, verdict: str, now: float) -> Sequence[Effect]:
    outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, manifest=b"{}")  # type: ignore[attr-defined]
    return core.handle(Answered(cluster, (outcome,)), now)


@pytest.mark.parametrize(
    ("networks", "follows", "annotations", "first"),
    [
        (("flat", "flat"), ("Service",), {}, True),
        (("flat", "flat"), ("ConfigMap",), {}, False),
        (("flat", "hall"), ("Service",), {}, False),
        (("own", "own"), ("Service",), {}, False),
        (("flat", "flat"), ("Service",), {"global-dispatcher.io/services": "none"}, False),
    ],
)
def test_services_come_first_where_both_agents_do_that_in_one_network_and_the_pod_calls_any(
    networks: tuple[str, str], follows: tuple[str, ...], annotations: dict[str, str], first: bool
) -> None:
    core = make_core(("east", "west"))
    for cluster, network in zip(("east", "west"), networks, strict=True):
        core.pin(cluster, "", network=network)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 1.0)
    report(core, pod("a", annotations=annotations), nodes=())
    for cluster in ("east", "west"):
        core.handle(PeersAcknowledged(cluster, follows=follows), 1.0)
    now = 2.0 + core.timing.absence_grace_s
    told = core.handle(Tick(), now)
    assert {one.network for one in told if isinstance(one, SendPeers)} <= set(networks)
    (claim,) = intents(told, messages.Claim)
    (create,) = intents(answer(core, "east", claim, messages.CLAIMED, now), messages.CreateDelegate)
    assert create.services is first  # type: ignore[attr-defined]


def test_a_delegate_is_no_stray_while_the_claim_that_we_made_may_be_unseen() -> None:
    core = make_core(("east", "west"))
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(NODE,))), 1.0)
    report(core, pod("a"), nodes=())
    now = 2.0 + core.timing.absence_grace_s  # a home that has long been settled
    (claim,) = intents(core.handle(Tick(), now), messages.Claim)
    (create,) = intents(answer(core, "east", claim, messages.CLAIMED, now), messages.CreateDelegate)
    (proxy,) = intents(answer(core, "west", create, messages.BOUND, now), Bind)
    marks = SourceRef("east", "east-uid", "default", "a", "uid-a", 5)
    runs = Pod("d1", "default", "a-123", node="n1", phase="Running", source=marks)
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 1, 2, pods=(runs,))), now)
    answer(core, "east", proxy, messages.STALE, now)  # its agent's new life has listed nothing yet
    effects = core.handle(Tick(), now + 10)
    assert not intents(effects, messages.DeleteDelegate)
    (restore,) = intents(effects, messages.RestoreClaim)
    answer(core, "east", restore, messages.DONE, now + 11)
    claimed = pod("a", claim=Claim("west", "n1", 5), has_finalizer=True)
    effects = core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 1, 2, pods=(claimed,))), now + 20)
    (again,) = intents(effects, Bind)
    assert again.proxy  # type: ignore[attr-defined]


@pytest.mark.parametrize(("opens", "placed"), [((), False), ((Opening(("*",), ("*",), ("*",)),), True), (None, True)])
def test_what_another_cluster_opens_decides_whether_a_blanket_toleration_reaches_its_tainted_nodes(
    opens: tuple[Opening, ...] | None, placed: bool
) -> None:
    core = make_core(("east", "west"))
    tainted = msgspec.structs.replace(NODE, name="w1", taints=(Taint("gpu"),))
    told = Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(tainted,), opens=())
    report(core, pod("a", tolerations=(Toleration(operator="Exists"),)), nodes=())
    core.handle(ClusterChanged(told), 1.0)
    core.handle(Tick(), 1.0)
    # An agent with another policy, for which nothing else has changed: the pod that waits is woken.
    core.handle(ClusterChanged(msgspec.structs.replace(told, incarnation="life-2", opens=opens)), 2.0)
    effects = [effect for at in (2.0, 3.0, 15.0) for effect in core.handle(Tick(), at)]
    assert bool(intents(effects, messages.Claim)) == placed


def test_who_has_decided_enough_goes_on_with_the_next_class_the_next_time() -> None:
    core = make_core(("east",))
    small, large = (
        tuple(pod(f"{kind}-{n}", requests={"cpu": cpu}) for n in (1, 2)) for kind, cpu in (("a", 100), ("b", 200))
    )
    report(core, *small, *large)
    rounds = [intents(core.handle(Decide(enough=lambda: True), 2.0), Bind) for _ in range(3)]
    assert [[one.pod.name for one in bound] for bound in rounds] == [["a-1", "a-2"], ["b-1", "b-2"], []]  # type: ignore[attr-defined]


def test_who_never_has_enough_decides_all_classes_at_once() -> None:
    core = make_core(("east",))
    report(core, pod("a"), pod("b", requests={"cpu": 200}))
    assert len(intents(core.handle(Decide(), 2.0), Bind)) == 2
