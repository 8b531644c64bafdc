"""ReportUnschedulable: a waiting pod says why, once, and not for ever."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.intents.procedures import carry_out
from agents.executor.intents.report import EVENT_GAP_S, REPEAT_S
from agents.executor.objects.events import MAX_NOTE, foreign_scheduler
from shared.kube.http import Response
from shared.messages import (
    DONE,
    HOME_ONLY,
    LOWER_PRIORITY,
    REFUSED,
    STALE,
    UNKNOWN,
    WAITING,
    PodRef,
    ReportUnschedulable,
)
from shared.model import names
from shared.model.pod import Toleration
from tests.agents.executor.world import NOW, World, pod_object, run

WHY = "0/3 nodes are available: 3 Insufficient cpu."


def later(seconds: float) -> Moment:
    return Moment(NOW.mono + seconds, NOW.wall + seconds)


def report(ref: PodRef, message: str = WHY, reason: str = "Unschedulable") -> ReportUnschedulable:
    return ReportUnschedulable("i", ref, 1, message, reason)


def condition_of(world: World) -> dict[str, Any]:
    pod = world.api.pod("web")
    assert pod is not None
    (condition,) = pod["status"]["conditions"]
    found: dict[str, Any] = condition
    return found


def test_the_condition_and_the_event_say_why() -> None:
    world = World()
    assert world.do(report(world.submit())).verdict == DONE
    assert condition_of(world) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": WHY,
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }
    event = msgspec.json.decode(next(iter(world.local.events)).body)
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert (event["note"], event["reportingController"]) == (WHY, names.SCHEDULER_NAME)
    assert event["eventTime"] == "2023-11-14T22:13:20.000000Z"


def provokes_autoscalers(condition: dict[str, Any]) -> bool:
    """What Cluster Autoscaler and Karpenter make nodes for, as their filters have it."""
    found = (condition["type"], condition["status"], condition["reason"])
    return found == ("PodScheduled", "False", "Unschedulable")


@pytest.mark.parametrize("helps", [True, False])
def test_autoscalers_make_nodes_only_for_pods_that_these_would_help(helps: bool) -> None:
    world = World()
    world.do(msgspec.structs.replace(report(world.submit()), nodes_help=helps))
    assert provokes_autoscalers(condition_of(world)) is helps
    assert condition_of(world)["message"] == WHY


def test_a_pod_with_a_place_that_waits_gets_an_event_and_no_condition() -> None:
    world = World()
    assert world.do(report(world.submit(), "waiting on Permit plugin Gang", WAITING)).verdict == DONE
    assert world.api.count("patch") == 0
    event = msgspec.json.decode(next(iter(world.local.events)).body)
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Waiting", "waiting on Permit plugin Gang")


@pytest.mark.parametrize("node", ["", "n1"])
@pytest.mark.parametrize("reason", [HOME_ONLY, LOWER_PRIORITY])
def test_what_there_is_to_say_of_a_place_is_an_event_before_and_after_the_bind(node: str, reason: str) -> None:
    world = World()
    ref = world.submit(pod_object(nodeName=node) if node else None)
    assert world.do(report(ref, "it stays", reason)).verdict == DONE
    event = msgspec.json.decode(next(iter(world.local.events)).body)
    assert (event["type"], event["reason"], event["note"]) == ("Normal", reason, "it stays")
    assert "conditions" not in world.api.pod("web")["status"]  # type: ignore[index]
    assert world.do(report(PodRef("default", "web", "another"), "it stays", reason)).verdict == STALE


def test_the_same_again_is_written_only_after_a_period() -> None:
    world = World()
    ref = world.submit()
    for seconds in (0.0, 1.0, REPEAT_S - 1):
        world.do(report(ref), later(seconds))
    assert (world.api.count("patch"), len(world.local.events)) == (1, 1)
    world.do(report(ref), later(REPEAT_S))
    assert (world.api.count("patch"), len(world.local.events)) == (2, 2)


def test_a_new_message_keeps_the_transition_time_and_waits_with_its_event() -> None:
    world = World()
    ref = world.submit()
    world.do(report(ref))
    world.do(report(ref, "other"), later(5))
    assert condition_of(world)["message"] == "other"
    assert condition_of(world)["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert len(world.local.events) == 1
    world.do(report(ref, "third"), later(EVENT_GAP_S))
    assert len(world.local.events) == 2


def test_a_gated_pod_may_be_reported() -> None:
    world = World()
    ref = world.submit(pod_object(schedulingGates=[{"name": "wait"}]))
    assert world.do(report(ref, "waits for its gates", "SchedulingGated")).verdict == DONE


def test_a_bound_or_missing_pod_is_stale() -> None:
    world = World()
    assert world.do(report(world.submit(pod_object(nodeName="n1")))).verdict == STALE
    assert world.do(report(PodRef("default", "web", "gone"))).verdict == STALE
    assert world.api.done == []


def test_a_pod_made_again_under_the_name_gets_no_report_of_the_old_one() -> None:
    world = World()
    old = world.submit()
    world.api.put_pod(pod_object())
    assert world.do(report(old)).verdict == STALE
    assert world.api.done == []


def test_an_unknown_reason_is_refused_and_a_silent_server_unknown() -> None:
    world = World()
    ref = world.submit()
    assert world.do(report(ref, reason="Whatever")).verdict == REFUSED
    assert run(carry_out(report(ref), 1, world.local, NOW), lambda _: Response(0)).verdict == UNKNOWN
    assert world.do(report(ref)).verdict == DONE


def test_a_long_message_is_cut_to_what_an_event_holds() -> None:
    world = World()
    world.do(report(world.submit(), "ü" * 5000))
    note = msgspec.json.decode(next(iter(world.local.events)).body)["note"]
    assert len(note.encode()) <= MAX_NOTE
    assert note.startswith("üü")


def test_a_pod_of_another_scheduler_is_told_and_left_alone() -> None:
    world = World()
    foreign_scheduler(world.local, PodRef("default", "web", "u"), "default-scheduler", NOW)
    event = msgspec.json.decode(next(iter(world.local.events)).body)
    assert event["type"] == "Warning"
    assert '"default-scheduler"' in event["note"]


# --- what its tenant gives a pod --------------------------------------------------------------------------------------

POOL = Toleration("pool", "Equal", "ml", "NoExecute")
WRITTEN = {"key": "pool", "operator": "Equal", "value": "ml", "effect": "NoExecute"}
OWN: dict[str, Any] = {"key": "spot", "value": "yes"}  # without an operator, as users write it


def given(ref: PodRef, *tolerations: Toleration) -> ReportUnschedulable:
    return msgspec.structs.replace(report(ref, "waits for pool"), tolerations=tolerations)


def tolerations_of(world: World) -> list[dict[str, Any]]:
    pod = world.api.pod("web")
    assert pod is not None
    found: list[dict[str, Any]] = pod["spec"].get("tolerations", [])
    return found


@pytest.mark.parametrize("own", [[], [OWN]])
def test_a_pod_is_given_what_it_waits_for_behind_its_own_and_nothing_is_said(own: list[dict[str, Any]]) -> None:
    world = World()
    ref = world.submit(pod_object(tolerations=own))
    assert world.do(given(ref, POOL)).verdict == DONE
    assert tolerations_of(world) == [*own, WRITTEN]
    assert "conditions" not in (world.api.pod("web") or {})["status"]
    assert not list(world.local.events)
    written = world.api.done.copy()
    assert world.do(given(ref, POOL)).verdict == DONE  # sent again
    assert world.api.done == written


@pytest.mark.parametrize(
    "key",
    [
        "",
        "node.kubernetes.io/unschedulable",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/x",
        "a.k8s.io/x",
        names.PROXY_TAINT,
    ],
)
def test_no_order_opens_nodes_that_are_guarded_and_the_pod_says_so(key: str) -> None:
    world = World()
    assert world.do(given(world.submit(), POOL, Toleration(key, "Exists"))).verdict == DONE
    assert tolerations_of(world) == []
    assert condition_of(world)["message"] == f'waits for pool; no pod is given a toleration of taint "{key}"'


def test_a_server_that_refuses_is_quoted_to_the_user() -> None:
    world = World()
    ref = world.submit()
    world.api.refuses = lambda body: "no patch" if "spec" in body else ""
    assert world.do(given(ref, POOL)).verdict == DONE
    assert condition_of(world)["message"] == "waits for pool; no patch (HTTP 403)"


def test_a_pod_whose_tolerations_are_taken_off_again_says_so_in_an_event() -> None:
    """As by a webhook, which lets the patch pass and changes it."""
    world = World()
    ref = world.submit(pod_object(tolerations=[OWN]))
    world.api.refuses = lambda body: (body.get("spec") or {}).update(tolerations=[OWN]) or ""
    for seconds in (0.0, 60.0):
        assert world.do(given(ref, POOL), later(seconds)).verdict == DONE
    why = "waits for pool; a webhook or policy of this cluster takes off again what is added: pool=ml:NoExecute"
    assert condition_of(world)["message"] == why
    (event,) = world.local.events
    assert (msgspec.json.decode(event.body)["reason"], msgspec.json.decode(event.body)["note"]) == (
        "FailedScheduling",
        why,
    )
    world.api.refuses = lambda body: ""
    assert world.do(given(ref, POOL), later(90.0)).verdict == DONE
    assert tolerations_of(world) == [OWN, WRITTEN]
