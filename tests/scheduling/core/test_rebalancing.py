"""Rebalancing in the core: what is ordered, what is only said, and what of it is told."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.rebalancing import COUNTER, Mode, Result
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, OperatorNotice, SendIntents, Tick
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from dispatcher.scheduling.views import explain
from shared.messages import DONE, NO_PRIORITY, REFUSED, Bind, Changes, Evict, Outcome
from shared.model.names import REBALANCE, SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Claim, Needs, Pod, SourceRef
from tests.builders import reading
from tests.laws.cores import make_core

ROOM = {"cpu": 4000, "memory": 2**33, "pods": 20}
NODES = tuple(Node(name, ready=True, allocatable=ROOM) for name in ("n1", "n2"))
RULES = RebalancingRules(signals=("cpu",), rest_s=600.0)
RESTED = 10  # minutes, after which pods may go


def web(name: str, node: str, cpu: int = 1200, **more: object) -> Pod:
    fields = {"requests": {"cpu": cpu}, "scheduler_name": SCHEDULER_NAME, "owner": "ReplicaSet/web/u", **more}
    return Pod(f"uid-{name}", "default", name, node=node, phase="Running", **fields)  # type: ignore[arg-type]


class Fleet:
    """One cluster of two nodes, n1 hot; time passes minute by minute."""

    def __init__(self, mode: Mode, scheduler: str = SCHEDULER_NAME) -> None:
        self.core: SchedulerCore = make_core(("east",), rebalancing=(RULES, mode))
        self.now, self.revision = 1000.0, 1
        pods = (*(web(name, "n1", scheduler_name=scheduler) for name in "abc"), web("other", "n2", 100))
        self.report(Changes("east", "east-uid", "life-1", 0, 1, full=True, nodes=NODES, pods=pods))

    def report(self, changes: Changes) -> Sequence[Effect]:
        return self.core.handle(ClusterChanged(changes), self.now)

    def change(self, *pods: Pod, gone: tuple[str, ...] = ()) -> Sequence[Effect]:
        """The cluster tells of pods, and how hot its nodes are."""
        told = (reading("n1", cpu=0.9), reading("n2", cpu=0.1))
        self.revision += 1
        before = self.revision - 1
        return self.report(
            Changes("east", "east-uid", "life-1", before, self.revision, pods=pods, pods_gone=gone, readings=told)
        )

    def minutes(self, count: int) -> list[Effect]:
        found: list[Effect] = []
        for _ in range(count):
            self.now += 60.0
            found += [*self.change(), *self.core.handle(Tick(), self.now)]
        return found

    def answer(self, intent: Evict, verdict: str, message: str = "") -> None:
        outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, message)
        self.core.handle(Answered("east", (outcome,)), self.now)


def orders(effects: Sequence[Effect]) -> list[Evict]:
    sent = [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]
    return [one for one in sent if isinstance(one, Evict)]


def notices(effects: Sequence[Effect]) -> list[str]:
    return [one.text for one in effects if isinstance(one, OperatorNotice)]


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (Needs(), ""),
        (Needs("spec.hostNetwork reaches into the node"), "its own node would be chosen again"),
        (None, "it would go to cluster west, and its agent does not tell what it would need in another cluster"),
    ],
    ids=["nothing", "it cannot cross", "not told"],
)
def test_a_pod_that_is_placed_at_home_is_moved_abroad_only_where_it_is_known_that_it_may_go(
    needs: Needs | None, why: str
) -> None:
    core: SchedulerCore = make_core(("east", "west"), rebalancing=(RULES, Mode.ON))
    pods = tuple(web(name, "n1", needs=needs) for name in "abc")
    ordered: list[Evict] = []
    for minute in range(RESTED + 4):
        now = 1000.0 + 60.0 * minute
        for cluster, node, shown, cpu in (("east", "n1", pods, 0.9), ("west", "w1", (), 0.1)):
            first = {"full": True, "pods": shown, "nodes": (Node(node, ready=True, allocatable=ROOM),)}
            more: dict[str, Any] = {} if minute else first
            told = Changes(
                cluster, f"{cluster}-uid", "l", minute, minute + 1, readings=(reading(node, cpu=cpu),), **more
            )
            core.handle(ClusterChanged(told), now)
        ordered += orders(core.handle(Tick(), now))
    assert bool(ordered) == (not why)
    staying = {row["why"] for row in core.rebalancing.rows() if row["result"] == "stays"}
    assert all(one.startswith(why) for one in staying) or not why


def test_off_nothing_is_looked_at() -> None:
    fleet = Fleet(Mode.OFF)
    assert not orders(fleet.minutes(RESTED + 4))
    assert fleet.core.rebalancing.rows() == []


def test_a_dry_run_says_once_what_would_be_moved_and_moves_nothing() -> None:
    fleet = Fleet(Mode.DRY_RUN)
    effects = fleet.minutes(RESTED + 4)
    assert not orders(effects)
    (notice,) = notices(effects)
    assert notice.startswith("pod default/a would be moved off east/n1: node n1 of cluster east has been above")
    (row, *_) = fleet.core.rebalancing.rows()
    assert (row["name"], row["from"], row["to"], row["result"]) == ("a", "east/n1", "east/n2", "planned")
    assert fleet.core.counters[COUNTER, Result.PLANNED] == 1


def test_a_move_is_an_eviction_that_older_agents_refuse_and_the_new_pod_goes_to_the_better_node() -> None:
    fleet = Fleet(Mode.ON)
    (order,) = orders(fleet.minutes(RESTED))
    assert (order.pod.name, order.node, order.priority) == ("a", "n1", NO_PRIORITY)
    assert "cpu 90%" in order.moved
    fleet.answer(order, DONE)
    assert fleet.core.counters[COUNTER, Result.EVICTED] == 1
    anew = msgspec.structs.replace(web("a2", ""), phase="Pending")
    fleet.change(anew, gone=("uid-a",))
    effects = fleet.core.handle(Tick(), fleet.now + 1)
    (bind,) = [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]
    assert isinstance(bind, Bind)
    assert bind.node == "n2"
    found = explain(fleet.core, "default", "a2")
    assert found is not None
    assert (found["moved"]["name"], found["moved"]["result"]) == ("a", "evicted")


def test_a_pod_that_a_budget_keeps_rests_and_another_one_is_tried() -> None:
    fleet = Fleet(Mode.ON)
    (order,) = orders(fleet.minutes(RESTED))
    fleet.answer(order, REFUSED, "Cannot evict pod as it would violate the pod's disruption budget.")
    (row, *_) = fleet.core.rebalancing.rows()
    assert row["result"] == "refused"
    assert "disruption budget" in row["why"]
    (again,) = orders(fleet.minutes(2))
    assert again.pod.name != order.pod.name


def test_a_move_that_nobody_answers_is_given_up() -> None:
    fleet = Fleet(Mode.ON)
    (order,) = orders(fleet.minutes(RESTED))
    fleet.minutes(4)
    told = [row for row in fleet.core.rebalancing.rows() if row["name"] == order.pod.name]
    assert told[0]["result"] == "refused"
    assert "has not answered" in told[0]["why"]


@pytest.mark.parametrize("scheduler", ["default-scheduler", ""])
def test_pods_of_other_schedulers_stay(scheduler: str) -> None:
    fleet = Fleet(Mode.ON, scheduler)
    assert not orders(fleet.minutes(RESTED + 1))
    assert {row["why"] for row in fleet.core.rebalancing.rows()} == {"it is of another scheduler"}


@pytest.mark.parametrize(("said", "moved"), [({}, ["a-copy"]), ({REBALANCE: "false"}, [])])
def test_a_delegate_is_evicted_where_it_runs_if_the_owner_of_its_source_lets_it(
    said: dict[str, str], moved: list[str]
) -> None:
    core = make_core(("east", "west"), rebalancing=(RULES, Mode.ON))
    sources, delegates = [], []
    for epoch, name in enumerate("abc", start=1):
        claim = Claim("west", "n1", epoch)
        more: dict[str, Any] = {"claim": claim, "has_finalizer": True, "annotations": said}
        sources.append(web(name, "global-dispatcher-west", **more))
        marks = SourceRef("east", "east-uid", "default", name, f"uid-{name}", epoch)
        delegates.append(web(f"{name}-copy", "n1", source=marks, owner=""))
    now = 1000.0
    for cluster, nodes, pods in (("east", (), sources), ("west", NODES, delegates)):
        told = Changes(cluster, f"{cluster}-uid", "life-1", 0, 1, full=True, nodes=nodes, pods=tuple(pods))
        core.handle(ClusterChanged(told), now)
    effects: list[Effect] = []
    for minute in range(1, RESTED + 2):
        now += 60.0
        readings = (reading("n1", cpu=0.9), reading("n2", cpu=0.1))
        west = Changes("west", "west-uid", "life-1", minute, minute + 1, readings=readings)
        effects += [*core.handle(ClusterChanged(west), now), *core.handle(Tick(), now)]
    assert [order.pod.name for order in orders(effects)] == moved
