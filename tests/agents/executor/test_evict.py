"""Evict: a pod gives its node away, only to higher priority, only from that node, only within the policy."""

from typing import Any

import pytest

from agents.executor.http import Response
from agents.executor.policy import ExecutorPolicy
from agents.executor.procedures import carry_out
from dispatcher.model import names
from dispatcher.model.messages import DONE, REFUSED, STALE, UNKNOWN, Evict, PodRef, ReportUnschedulable
from tests.agents.executor.world import NOW, World, lost_reply, pod_object, run, scripted


def victim(world: World, **spec: Any) -> PodRef:
    pod = pod_object(**{"nodeName": "n1", "priority": 5, **spec})
    pod["status"]["phase"] = "Running"
    return world.submit(pod)


def evict(ref: PodRef, *, node: str = "n1", priority: int = 100) -> Evict:
    return Evict("i", ref, 1, node, priority, "default/urgent of cluster a")


def conditions(world: World) -> list[dict[str, Any]]:
    pod = world.api.pod("web")
    return [] if pod is None else pod["status"].get("conditions", [])


def test_a_victim_is_marked_then_deleted_with_its_own_grace_period() -> None:
    world = World()
    assert world.do(evict(victim(world))).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    (condition,) = conditions(world)
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["reason"] == "PreemptionByScheduler"
    assert [done[0] for done in world.api.done] == ["patch", "delete"]


def test_the_victim_is_told_by_an_event() -> None:
    world = World()
    world.do(evict(victim(world)))
    (event,) = world.local.events
    assert b'"reason":"Preempted"' in event.body
    assert b"Preempted by pod default/urgent of cluster a on node n1" in event.body


@pytest.mark.parametrize(
    ("spec", "node", "priority", "want"),
    [
        ({}, "n2", 100, STALE),
        ({"nodeName": ""}, "n1", 100, STALE),
        ({"priority": 100}, "n1", 100, REFUSED),
        ({"nodeName": names.proxy_node_name("b")}, names.proxy_node_name("b"), 100, REFUSED),
    ],
    ids=["on another node", "not bound", "as important", "running in another cluster"],
)
def test_who_is_not_to_be_evicted_stays_untouched(spec: dict[str, Any], node: str, priority: int, want: str) -> None:
    world = World(peers=("b",))
    ref = victim(world, **spec)
    assert world.do(evict(ref, node=node, priority=priority)).verdict == want
    assert world.api.done == []


@pytest.mark.parametrize(("allowed", "want"), [(True, DONE), (False, REFUSED)], ids=["allowed", "not allowed"])
def test_pods_of_other_schedulers_go_where_the_policy_lets_them(allowed: bool, want: str) -> None:
    world = World(policy=ExecutorPolicy(evict_foreign=allowed))
    ref = victim(world, schedulerName="default-scheduler")
    assert world.do(evict(ref)).verdict == want
    assert world.api.count("delete") == (1 if allowed else 0)


def test_another_pod_of_that_name_is_left_alone() -> None:
    world = World()
    ref = victim(world)
    other = PodRef(ref.namespace, ref.name, "another-uid")
    assert world.do(evict(other)).verdict == DONE
    assert world.api.done == []


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_lost_answer_is_asked_again_and_done_once(method: str) -> None:
    world = World()
    order = evict(victim(world))
    outcome = run(carry_out(order, 1, world.local, NOW), lost_reply(world.api.answer, method))
    assert outcome.verdict == DONE
    assert world.api.pod("web") is not None


def test_a_server_that_does_not_answer_leaves_it_unknown() -> None:
    world = World()
    order = evict(victim(world))
    silence = scripted(*[Response(0, b"timeout")] * 10, then=world.api.answer)
    assert run(carry_out(order, 1, world.local, NOW), silence).verdict == UNKNOWN
    assert world.api.done == []


def test_a_report_writes_and_takes_away_the_nominated_node() -> None:
    world = World()
    ref = world.submit()
    assert world.do(ReportUnschedulable("r", ref, 1, "no room", nominated_node="n1")).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["status"]["nominatedNodeName"] == "n1"
    assert world.do(ReportUnschedulable("r", ref, 2, "no room", nominated_node="")).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert "nominatedNodeName" not in pod["status"]
