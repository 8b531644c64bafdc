"""Evict: a pod gives its node away, only to higher priority, only from that node, only within the policy."""

from typing import Any

import msgspec
import pytest

from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import DONE, NO_PRIORITY, REFUSED, STALE, UNKNOWN, Evict, PodRef, ReportUnschedulable
from shared.messages.intents import Intent
from shared.model import names
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
    assert condition["message"].endswith("a higher priority pod (default/urgent of cluster a)")
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


# --- pods that are moved ---------------------------------------------------------------------------------------------


def move(ref: PodRef, *, local_data: bool = False) -> Evict:
    return Evict("i", ref, 1, "n1", NO_PRIORITY, "", "node n1 is hot", local_data)


def test_a_pod_that_is_moved_goes_by_the_eviction_api_whatever_its_priority() -> None:
    world = World()
    assert world.do(move(victim(world, priority=1000))).verdict == DONE
    assert [done[0] for done in world.api.done] == ["delete"]
    (event,) = world.local.events
    assert b'"reason":"Rebalanced"' in event.body
    assert b"Evicted to be placed anew: node n1 is hot" in event.body


def test_the_api_is_asked_for_this_very_pod() -> None:
    world = World()
    ref = victim(world)
    asked = []

    def answer(request: Request) -> Response:
        asked.append(request)
        return world.api.answer(request)

    run(carry_out(move(ref), 1, world.local, NOW), answer)
    assert asked[-1].path == "/api/v1/namespaces/default/pods/web/eviction"
    body = msgspec.json.decode(asked[-1].body)
    assert (body["kind"], body["deleteOptions"]) == ("Eviction", {"preconditions": {"uid": ref.uid}})


def test_a_budget_that_is_spent_refuses_at_once() -> None:
    world = World()
    ref = victim(world)
    world.api.budgets_spent = True
    outcome = world.do(move(ref))
    assert outcome.verdict == REFUSED
    assert "disruption budget" in outcome.message
    assert world.api.done == []


def test_a_busy_server_is_asked_again() -> None:
    world = World()
    order, busy = move(victim(world)), Response(429, b'{"message": "too many requests"}')
    answers = iter([None, busy, busy])
    outcome = run(carry_out(order, 1, world.local, NOW), lambda one: next(answers, None) or world.api.answer(one))
    assert outcome.verdict == DONE


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulerName": "default-scheduler"}, "is of another scheduler"),
        ({"volumes": [{"name": "tmp", "emptyDir": {}}]}, "has local data"),
        ({"volumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}]}, "has local data"),
    ],
    ids=["of another scheduler", "emptyDir", "hostPath"],
)
def test_who_is_not_to_be_moved_stays_untouched(spec: dict[str, Any], why: str) -> None:
    world = World(policy=ExecutorPolicy(evict_foreign=True))
    outcome = world.do(move(victim(world, **spec)))
    assert (outcome.verdict, world.api.done) == (REFUSED, [])
    assert why in outcome.message


def test_an_owner_may_let_local_data_go_and_may_say_no() -> None:
    world = World()
    ref = victim(world, volumes=[{"name": "tmp", "emptyDir": {}}])
    assert world.do(move(ref, local_data=True)).verdict == DONE
    world = World()
    pod = pod_object(nodeName="n1")
    pod["metadata"]["annotations"] = {names.REBALANCE: "false"}
    assert world.do(move(world.submit(pod))).verdict == REFUSED
    assert world.api.done == []


class OldEvict(Intent, frozen=True, tag="Evict"):
    """The order as agents know it that cannot move pods."""

    node: str
    priority: int
    preemptor: str = ""


def test_an_agent_that_cannot_move_pods_refuses_the_order_for_its_priority() -> None:
    world = World()
    raw = msgspec.msgpack.encode(move(victim(world, priority=-(2**31))))
    read = msgspec.msgpack.decode(raw, type=OldEvict)
    outcome = world.do(Evict("i", read.pod, 1, read.node, read.priority, read.preemptor))
    assert outcome.verdict == REFUSED
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


def reclaim(ref: PodRef) -> Evict:
    return Evict("i", ref, 1, "n1", NO_PRIORITY, "red/p of cluster a", reclaimed="of tenant blue, for pod red/p")


def test_borrowed_quota_is_given_back_whatever_the_priority_through_the_eviction_api_and_with_words() -> None:
    world = World()
    assert world.do(reclaim(victim(world, priority=1_000_000))).verdict == DONE
    (event,) = world.local.events
    assert b'"reason":"Reclaimed"' in event.body
    assert b"Evicted to give back quota of tenant blue, for pod red/p" in event.body
    assert [done[0] for done in world.api.done] == ["delete"], "no condition of ours: budgets may refuse it"


def test_the_borrowers_own_word_does_not_keep_what_was_lent() -> None:
    world = World()
    pod = pod_object(nodeName="n1", volumes=[{"name": "v", "emptyDir": {}}])
    pod["metadata"]["annotations"] = {names.REBALANCE: "false"}
    pod["status"]["phase"] = "Running"
    assert world.do(reclaim(world.submit(pod))).verdict == DONE


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("asked_s", [600, 31_536_000])
def test_a_borrower_has_ten_minutes_to_go_at_most_and_who_is_moved_all_of_its_own(asked_s: int, moved: bool) -> None:
    world = World()
    ref = victim(world, terminationGracePeriodSeconds=asked_s)
    assert world.do(move(ref) if moved else reclaim(ref)).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    own = 30  # what the API model gives where nothing is asked for
    assert pod["metadata"]["deletionGracePeriodSeconds"] == (own if moved or asked_s == 600 else 600)


@pytest.mark.parametrize(
    ("spec", "want"),
    [({"schedulerName": "default-scheduler"}, REFUSED), ({"nodeName": "n2"}, STALE)],
    ids=["of another scheduler", "on another node"],
)
def test_nothing_is_reclaimed_from_pods_that_are_not_ours_or_elsewhere(spec: dict[str, Any], want: str) -> None:
    world = World(policy=ExecutorPolicy(evict_foreign=True))
    assert world.do(reclaim(victim(world, **spec))).verdict == want
    assert world.api.done == []
