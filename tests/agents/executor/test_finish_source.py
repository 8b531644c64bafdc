"""FinishSource: the source goes when its delegate is gone, and nothing else goes with it."""

from typing import Any

import msgspec
import pytest

from agents.executor.duties.proxy_pods import reconcile_tasks
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import DONE, REFUSED, UNKNOWN, DeleteSource, FinishSource, PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, lost_reply, pod_object, run

PROXY = names.proxy_node_name("b")
DELETED = "2026-01-01T00:00:00Z"


def source(world: World, *, phase: str = "Running", finalizers: tuple[str, ...] = (names.FINALIZER,)) -> PodRef:
    pod = pod_object(nodeName=PROXY)
    pod["status"]["phase"] = phase
    pod["metadata"]["finalizers"] = list(finalizers)
    return world.submit(pod)


def finish(ref: PodRef, target_uid: str = "") -> FinishSource:
    return FinishSource("i", ref, 1, target_uid)


def status_with(*conditions: dict[str, str]) -> bytes:
    return msgspec.json.encode({"phase": "Running", "conditions": conditions})


PREEMPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "kube-scheduler: preempting to accommodate a higher priority pod",
}


def test_who_disrupted_the_delegate_is_shown_on_the_source_before_it_goes() -> None:
    world = World(peers=("b",))
    ref = source(world)
    assert world.do(DeleteSource("i", ref, 1, status_with(PREEMPTED))).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["deletionTimestamp"]
    (shown,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (shown["reason"], shown["message"]) == (PREEMPTED["reason"], PREEMPTED["message"])
    (event,) = [msgspec.json.decode(one.body) for one in world.local.events]
    assert event["reason"] == "PreemptionByScheduler"
    assert event["note"] == f"in cluster b: {PREEMPTED['message']}"


@pytest.mark.parametrize("status", [b"", b"{", status_with({**PREEMPTED, "status": "False"}), status_with()])
def test_a_source_goes_without_a_word_where_nobody_disrupted_its_delegate(status: bytes) -> None:
    world = World(peers=("b",))
    assert world.do(DeleteSource("i", source(world), 1, status)).verdict == DONE
    assert world.api.count("patch") == 0
    assert not world.local.events


def test_a_source_goes_though_the_word_could_not_be_written() -> None:
    world = World(peers=("b",))
    intent = DeleteSource("i", source(world), 1, status_with(PREEMPTED))

    def no_patches(request: Request) -> Response:
        return Response(500) if request.method == "PATCH" else world.api.answer(request)

    assert run(carry_out(intent, 1, world.local, NOW), no_patches).verdict == DONE
    assert (world.api.pod("web") or {})["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("deleted", [True, False], ids=["a user deleted it", "nobody did"])
@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_source_that_others_hold_has_failed_when_its_delegate_is_gone(phase: str, deleted: bool) -> None:
    """Else its Job waits for ever for it to end, and its StatefulSet counts it as ready."""
    world = World(peers=("b",))
    ref = source(world, phase=phase, finalizers=("batch.kubernetes.io/job-tracking", names.FINALIZER))
    pod = world.api.pod("web")
    assert pod is not None
    if deleted:
        pod["metadata"] |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}
    assert world.do(finish(ref)).verdict == DONE
    left = world.api.pod("web")
    assert left is not None
    assert left["status"]["phase"] == "Failed"
    shown = {one["type"]: one["status"] for one in left["status"]["conditions"]}
    assert shown == {"Ready": "False", "ContainersReady": "False"}
    assert left["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert left["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("node", "says"),
    [
        pytest.param(PROXY, "its copy in cluster b is gone, and how it ended was not seen", id="bound"),
        pytest.param("", "it was deleted before it was bound: no other cluster has a copy of it", id="claimed alone"),
    ],
)
def test_a_source_that_has_failed_so_says_why(node: str, says: str) -> None:
    world = World(peers=("b",))
    pod = pod_object(**({"nodeName": node} if node else {}))
    pod["metadata"] |= {"finalizers": ["x/y", names.FINALIZER]}
    pod["metadata"] |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}
    assert world.do(finish(world.submit(pod))).verdict == DONE
    assert (world.api.pod("web") or {})["status"]["message"] == says


def test_a_source_goes_though_it_could_not_be_said_that_it_failed() -> None:
    world = World(peers=("b",))
    ref = source(world, finalizers=("x/y", names.FINALIZER))

    def no_status(request: Request) -> Response:
        return Response(403) if request.path.endswith("/status") else world.api.answer(request)

    assert run(carry_out(finish(ref), 1, world.local, NOW), no_status).verdict == DONE
    assert (world.api.pod("web") or {})["metadata"]["finalizers"] == ["x/y"]


def test_a_source_whose_delegate_is_gone_goes_at_once() -> None:
    world = World(peers=("b",))
    assert world.do(finish(source(world))).verdict == DONE
    assert world.api.pod("web") is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_source_that_has_ended_by_itself_stays_to_be_seen(phase: str) -> None:
    world = World(peers=("b",))
    assert world.do(finish(source(world, phase=phase))).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["finalizers"] == []
    assert world.api.count("delete") == 0


def test_a_source_that_a_user_deletes_goes_even_after_it_ended() -> None:
    world = World(peers=("b",))
    ref = source(world, phase="Succeeded")
    pod = world.api.pod("web")
    assert pod is not None
    pod["metadata"] |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}
    assert world.do(finish(ref)).verdict == DONE
    assert world.api.pod("web") is None


def test_finalizers_of_others_are_respected() -> None:
    world = World(peers=("b",))
    world.do(finish(source(world, finalizers=("other/one", names.FINALIZER))))
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["finalizers"] == ["other/one"]


def test_a_replacement_under_the_same_name_is_never_touched() -> None:
    world = World(peers=("b",))
    old = source(world)
    world.api.put_pod(pod_object())
    assert world.do(finish(old)).verdict == DONE
    assert world.api.done == []


@pytest.mark.parametrize(
    ("target_uid", "fenced", "goes"),
    [
        pytest.param("b-cluster-uid", False, True, id="the cluster that is known by this name"),
        pytest.param("another", False, False, id="another cluster that answers under its name"),
        pytest.param("c-cluster-uid", False, False, id="one that is known by another name"),
        pytest.param("another", True, True, id="another one, where an operator has fenced the name"),
        pytest.param("", False, True, id="a dispatcher that does not say which"),
    ],
)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_source_is_let_go_if_the_cluster_known_here_has_no_delegate_whatever_its_claim_says(
    target_uid: str, fenced: bool, goes: bool, deleted: bool
) -> None:
    world = World(peers=("b",))
    ref = source(world)  # its claim was taken off
    if deleted:
        ending = {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}
        world.api.pod("web")["metadata"].update(ending)  # type: ignore[index]
    if fenced:
        world.api.objects[f"/api/v1/nodes/{PROXY}"]["metadata"].setdefault("labels", {})[names.FENCED] = "true"
        world.sync()
    answer = world.do(finish(ref, target_uid))
    assert (answer.verdict, world.api.pod("web") is None) == ((DONE, True) if goes else (REFUSED, False))
    assert goes or f"kube-system UID {target_uid}" in answer.message
    assert goes or world.api.done == []


def test_a_cluster_that_was_rebuilt_under_its_name_counts_once_the_old_one_is_forgotten() -> None:
    world = World(peers=("b",))
    ref = source(world)
    world.local.trusted.forget("b")
    assert world.do(finish(ref, "rebuilt")).verdict == DONE


def test_a_pod_that_we_do_not_hold_is_never_deleted() -> None:
    world = World()
    ref = world.submit(pod_object(nodeName="n1"))
    assert world.do(finish(ref)).verdict == REFUSED
    assert world.api.done == []


class Killed(Exception):  # noqa: N818 - reads as what happened
    """The executor's process has ended."""


def finish_until(world: World, ref: PodRef, writes: int) -> bool:
    """Finish by an executor that is killed after so many writes; whether it was done before."""
    left = writes

    def answer(request: Request) -> Response:
        nonlocal left
        if request.method != "GET":
            if not left:
                raise Killed
            left -= 1
        return world.api.answer(request)

    try:
        return run(carry_out(finish(ref), 1, world.local, NOW), answer).verdict == DONE
    except Killed:
        return False


@pytest.mark.parametrize("others", [(), ("batch.kubernetes.io/job-tracking",)], ids=["held by us", "by others, too"])
@pytest.mark.parametrize("deleted", [True, False], ids=["a user deletes it", "nobody does"])
def test_what_an_executor_left_half_done_shows_and_is_finished_by_the_next(
    others: tuple[str, ...], deleted: bool
) -> None:
    for writes in range(10):
        world = World(peers=("b",))
        ref = source(world, finalizers=(*others, names.FINALIZER))
        pod = world.api.pod("web") or {}
        if deleted:
            pod["metadata"] |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}
        done = finish_until(world, ref, writes)
        left = (world.api.pod("web") or {}).get("metadata", {})
        # By either the dispatcher sees that it is to end; one that ended by itself would stay.
        assert done or not left or "deletionTimestamp" in left or pod["status"]["phase"] == "Running"
        assert done or not left or "deletionTimestamp" in left or names.FINALIZER in left["finalizers"]
        assert world.do(finish(ref)).verdict == DONE
        end = world.api.pod("web")
        assert (end is not None) == bool(others)
        if end is not None:
            assert end["status"]["phase"] == "Failed"
            assert end["metadata"]["finalizers"] == list(others)
            assert end["metadata"]["deletionGracePeriodSeconds"] == 0
        if done:
            return
    pytest.fail("it is never done")


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_a_lost_reply_at_any_step_ends_done(method: str) -> None:
    world = World(peers=("b",))
    ref = source(world)
    answer = lost_reply(world.api.answer, method)
    assert run(carry_out(finish(ref), 1, world.local, NOW), answer).verdict == DONE
    assert world.api.pod("web") is None


def test_a_server_that_is_away_makes_it_unknown() -> None:
    world = World(peers=("b",))
    ref = source(world)
    assert run(carry_out(finish(ref), 1, world.local, NOW), lambda _: Response(500)).verdict == UNKNOWN


@pytest.mark.parametrize(
    ("metadata", "goes"),
    [
        ({"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30, "finalizers": [names.FINALIZER]}, False),
        ({}, False),
    ],
    ids=["terminating", "terminating with a delegate", "running"],
)
def test_a_stranded_pod_on_a_proxy_node_is_let_go(metadata: dict[str, Any], goes: bool) -> None:
    world = World(peers=("b",))
    pod = pod_object(nodeName=PROXY)
    pod["metadata"] |= metadata
    world.submit(pod)
    for _, _, procedure in reconcile_tasks(world.local, NOW):
        assert run(procedure, world.api.answer) == ""
    assert (world.api.pod("web") is None) is goes


def test_a_source_whose_delegate_is_being_deleted_begins_to_go_and_keeps_our_finalizer() -> None:
    world = World(peers=("b",))
    assert world.do(DeleteSource("i", source(world), 1)).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["deletionTimestamp"]
    assert pod["metadata"]["finalizers"] == [names.FINALIZER]


@pytest.mark.parametrize(("told", "has"), [(-1, 30), (0, 1), (600, 600)])
def test_a_source_has_as_long_to_end_as_its_delegate(told: int, has: int) -> None:
    world = World(peers=("b",))
    assert world.do(DeleteSource("i", source(world), 1, grace_s=told)).verdict == DONE
    pod = world.api.pod("web")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == has


def test_a_pod_that_is_not_on_a_proxy_node_is_not_deleted() -> None:
    world = World()
    ref = world.submit(pod_object(nodeName="n1"))
    assert world.do(DeleteSource("i", ref, 1)).verdict == REFUSED
    assert world.api.pod("web") is not None
