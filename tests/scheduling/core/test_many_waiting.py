"""A cluster with many waiting pods that falls silent and is back: nothing is done for all of them in one piece."""

from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, Effect, FoldOn, SendIntents, Tick, Unanswered
from dispatcher.scheduling.retried import RefusedPods
from shared.messages import Bind, Changes, ReportUnschedulable
from tests.laws.cores import make_core
from tests.scheduling.core.test_folding import report
from tests.scheduling.test_retried_pods import refused

PODS, AT_ONCE = 60, 10


def waiting(pods: int = PODS) -> SchedulerCore:
    """Pods of west wait, and wherever they could run is no room."""
    core = make_core(("east", "west"), timing=CoreTiming(look_at_once=AT_ONCE))
    core.handle(report("east", nodes=0), 1.0)
    core.handle(report("west", nodes=0, pods=pods), 1.0)
    while core.folding:
        core.handle(FoldOn("west"), 1.0)
    return core


def told(effects: list[Effect]) -> list[str]:
    sent = [intent for one in effects if isinstance(one, SendIntents) for intent in one.intents]
    return [one.id for one in sent if isinstance(one, ReportUnschedulable)]


def back(core: SchedulerCore, now: float) -> None:
    view = core.clusters["west"]
    changes = Changes("west", view.uid, view.incarnation, view.revision, view.revision + 1, synced=True, api_ok=True)
    core.handle(ClusterChanged(changes), now)


def queued(core: SchedulerCore) -> int:
    return sum(core.queue.counts().values())


def test_pods_of_a_cluster_that_falls_silent_leave_the_queue_by_parts_and_come_back_so() -> None:
    core, left, came = waiting(), list[int](), list[int]()
    core.handle(ClusterSilent("west", "no answer"), 2.0)
    while core.folding:
        left.append(queued(core))
        core.handle(FoldOn("west"), 2.0)
    assert left == list(range(PODS, 0, -AT_ONCE))
    back(core, 3.0)
    while core.folding:
        came.append(queued(core))
        core.handle(FoldOn("west"), 3.0)
    assert (came, queued(core)) == (list(range(0, PODS, AT_ONCE)), PODS)


def test_each_tick_looks_at_a_part_too() -> None:
    core = waiting()
    core.handle(ClusterSilent("west", "no answer"), 2.0)
    for at in range(PODS // AT_ONCE):
        assert core.folding
        core.handle(Tick(None), 2.1 + at)
    assert (set(core.folding), queued(core)) == (set(), 0)


def test_reports_that_failed_together_are_sent_again_by_parts_once_orders_are_taken() -> None:
    core = waiting(pods=2500)
    first = told(core.handle(Tick(2500), 1.1))
    assert len(first) == 2500
    core.handle(Unanswered("west", tuple(first), "no answer"), 1.2)
    again = [len(told(core.handle(Tick(None), 5.0 + at / 10))) for at in range(4)]
    assert again == [1000, 1000, 500, 0]


def test_a_report_in_place_of_one_that_failed_is_the_only_one_that_is_kept() -> None:
    core = waiting(pods=1)
    core.handle(Unanswered("west", tuple(told(core.handle(Tick(1), 1.1))), "no answer"), 1.2)
    state = core._state
    state.report(state.tracked["west", "west-0"], "something else", 20.0)
    assert len(state.side_intents) == 1
    state.forget(("west", "west-0"))
    assert len(state.side_intents) == 0


def test_pods_that_were_taken_out_of_the_queue_are_not_remembered_as_refused() -> None:
    queue = refused(200)
    for at in range(200):
        queue.remove(("c", f"u{at:05}"))
    unflushed: RefusedPods = queue._unflushed
    unflushed.forget_void(0)
    assert len(unflushed) == 0


def test_binds_that_failed_together_are_sent_again_by_parts() -> None:
    core = make_core(("east", "west"))
    core.handle(report("east", nodes=0), 1.0)
    core.handle(report("west", nodes=30, pods=1500), 1.0)
    while core.folding:
        core.handle(FoldOn("west"), 1.0)

    def binds(effects: list[Effect]) -> list[str]:
        sent = [intent for one in effects if isinstance(one, SendIntents) for intent in one.intents]
        return [one.id for one in sent if isinstance(one, Bind)]

    first = binds(core.handle(Tick(1500), 1.1))
    core.handle(Unanswered("west", tuple(first), "no answer"), 1.2)
    assert [len(first), *(len(binds(core.handle(Tick(None), 5.0 + at / 10))) for at in range(3))] == [
        1500,
        1000,
        500,
        0,
    ]
