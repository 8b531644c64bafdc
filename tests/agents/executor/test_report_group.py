"""ReportGroup: a PodGroup says whether its pods have their places, where its own member leads, and nowhere else."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.intents.procedures import carry_out
from agents.executor.intents.report_group import REPEAT_S
from shared.kube.http import Request, Response
from shared.messages import DONE, PREEMPTED, REFUSED, SCHEDULER_ERROR, STALE, UNKNOWN, PodRef, ReportGroup
from shared.model.group_kinds import COSCHEDULING, POD_GROUPS, VERSIONS
from shared.model.pod import Group
from tests.agents.executor.world import NOW, Object, World, lost_reply, pod_object, run, scripted, source_of

WHY = "0/3 racks have room for 4 pods."
MEMBER = pod_object("web", schedulingGroup={"podGroupName": "train"})
SINCE = "2023-11-14T22:13:20Z"


def path(version: str = "v1beta1", namespace: str = "default", name: str = "train") -> str:
    return f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups/{name}"


class GroupWorld(World):
    """An executor in whose cluster a pod names the PodGroup `train`, which is served at one version."""

    def __init__(self, version: str = "v1beta1", *conditions: Object, **metadata: Any) -> None:
        super().__init__()
        self.path = path(version)
        meta = {"name": "train", "namespace": "default", "uid": "g1", **metadata}
        self.api.put(self.path, {"metadata": meta, "status": {"conditions": list(conditions)}})
        self.member = self.submit(MEMBER)
        self.group(Group(POD_GROUPS, "train", "g1", 4))

    def group(self, group: Group | None) -> None:
        """What the observer has found of the pod's group."""
        pod = self.cache.pod(self.member.uid)
        assert pod is not None
        self.cache._keep(msgspec.structs.replace(pod, group=group))

    @property
    def conditions(self) -> list[Object]:
        found: list[Object] = self.api.objects[self.path]["status"]["conditions"]
        return found

    def report(self, scheduled: bool = False, message: str = WHY, **fields: Any) -> ReportGroup:
        said = ReportGroup("i", self.member, 1, "train", "g1", scheduled, message=message)
        return msgspec.structs.replace(said, **fields)


def condition(status: str, reason: str, message: str = WHY, since: str = SINCE, kind: str = "") -> Object:
    return {
        "type": kind or "PodGroupInitiallyScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_condition_is_the_one_of_the_version_that_is_served(version: str) -> None:
    world = GroupWorld(version)
    assert world.do(world.report()).verdict == DONE
    kind = "PodGroupScheduled" if version == "v1alpha2" else "PodGroupInitiallyScheduled"
    assert world.conditions == [condition("False", "Unschedulable", kind=kind)]
    assert world.do(world.report(True, "")).verdict == DONE
    assert world.conditions == [condition("True", "Scheduled", "", kind=kind)]


def test_a_version_that_was_found_is_asked_first_afterwards_until_it_goes() -> None:
    world = GroupWorld("v1alpha2")
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(f"{request.method} {request.path.split('/')[3]}")
        return world.api.answer(request)

    def send(message: str) -> None:
        assert run(carry_out(world.report(message=message), 1, world.local, NOW), answer).verdict == DONE

    send("first")
    assert asked == [*(f"GET {one}" for one in VERSIONS), "PATCH v1alpha2"]
    asked.clear()
    send("second")
    assert asked == ["GET v1alpha2", "PATCH v1alpha2"]
    world.api.objects[path("v1beta1")] = world.api.objects.pop(world.path)
    send("after the upgrade")
    assert world.local.group_version == "v1beta1"


def test_what_was_scheduled_once_is_never_taken_back() -> None:
    world = GroupWorld()
    world.do(world.report(True, ""))
    for now in (NOW, Moment(NOW.mono + 2 * REPEAT_S, NOW.wall + 2 * REPEAT_S)):
        assert world.do(world.report(), now).verdict == DONE
    world.restart()
    world.group(Group(POD_GROUPS, "train", "g1", 4))
    assert world.do(world.report()).verdict == DONE
    assert world.conditions == [condition("True", "Scheduled", "")]
    assert world.api.count("patch") == 1


def test_an_unchanged_report_is_written_once_and_looked_at_again_after_a_while() -> None:
    world = GroupWorld()
    for _ in range(3):
        assert world.do(world.report()).verdict == DONE
    assert world.api.count("patch") == 1
    world.conditions.clear()
    assert world.do(world.report(), Moment(NOW.mono + REPEAT_S, NOW.wall + REPEAT_S)).verdict == DONE
    assert len(world.conditions) == 1


def test_conditions_of_others_stay_and_the_time_of_an_unchanged_status_too() -> None:
    others = condition("True", "PreemptionByScheduler", kind="DisruptionTarget")
    before = condition("False", "Unschedulable", "before", "2020-01-01T00:00:00Z")
    world = GroupWorld("v1beta1", before, others)
    assert world.do(world.report(reason=SCHEDULER_ERROR)).verdict == DONE
    assert world.conditions == [others, condition("False", "SchedulerError", since="2020-01-01T00:00:00Z")]


def test_a_group_that_was_scheduled_and_is_evicted_as_a_whole_says_both_and_for_whom_last() -> None:
    world = GroupWorld()
    world.do(world.report(True, ""))
    scheduled = condition("True", "Scheduled", "")
    for by in ("for a", "for a", "for b"):
        assert world.do(world.report(reason=PREEMPTED, message=by)).verdict == DONE
        disrupted = condition("True", "PreemptionByScheduler", by, kind="DisruptionTarget")
        assert world.conditions == [scheduled, disrupted]
    assert world.api.count("patch") == 3


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (None, "names no PodGroup here"),
        (Group(COSCHEDULING, "train", "g1", 4), "names no PodGroup here"),
        (Group(POD_GROUPS, "other", "g1", 4), 'is of PodGroup "other"'),
        (Group(POD_GROUPS, "train", "g2", 4), 'is of PodGroup "train"'),
    ],
)
def test_a_group_that_the_pod_does_not_name_is_not_written(group: Group | None, says: str) -> None:
    world = GroupWorld()
    world.group(group)
    answer = world.do(world.report())
    assert answer.verdict == STALE
    assert says in answer.message
    assert world.conditions == []


def test_an_executor_that_watches_no_groups_goes_by_the_name_that_its_pod_says() -> None:
    world = GroupWorld()
    world.sync()
    pod = world.cache.pod(world.member.uid)
    assert pod is not None
    assert pod.group == Group(POD_GROUPS, "train")
    assert world.do(world.report()).verdict == DONE
    assert len(world.conditions) == 1


@pytest.mark.parametrize(
    "ref", [PodRef("default", "web", "another"), PodRef("kube-system", "web", ""), PodRef("default", "db", "")]
)
def test_an_order_for_another_pod_writes_nothing(ref: PodRef) -> None:
    world = GroupWorld()
    pod = msgspec.structs.replace(ref, uid=ref.uid or world.member.uid)
    assert world.do(world.report(pod=pod)).verdict == STALE
    assert world.conditions == []


def test_a_group_whose_name_is_a_path_leads_nowhere_else() -> None:
    world = GroupWorld()
    name = "../../../../../api/v1/namespaces/kube-system/pods/x"
    world.group(Group(POD_GROUPS, name, "g1", 4))
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.path)
        return Response(404)

    assert run(carry_out(world.report(group=name), 1, world.local, NOW), answer).verdict == STALE
    assert {one.count("/") for one in asked} == {path().count("/")}


@pytest.mark.parametrize("metadata", [{"uid": "g2"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
def test_a_group_that_was_replaced_or_goes_is_left_alone(metadata: Object) -> None:
    world = GroupWorld(**metadata)
    answer = world.do(world.report())
    assert answer.verdict == STALE
    assert "was replaced or is being deleted" in answer.message
    assert world.conditions == []


def test_a_group_that_is_gone_is_stale() -> None:
    world = GroupWorld()
    del world.api.objects[world.path]
    answer = world.do(world.report())
    assert (answer.verdict, answer.message) == (STALE, 'podgroup "train" not found')


def test_a_reason_that_no_scheduler_writes_is_refused() -> None:
    assert GroupWorld().do(GroupWorld().report(reason="Because")).verdict == REFUSED


def test_a_lost_reply_is_looked_at_and_a_conflict_tried_again() -> None:
    world = GroupWorld()
    world.local.group_version = "v1beta1"
    lost = lost_reply(world.api.answer, "PATCH")
    assert run(carry_out(world.report(), 1, world.local, NOW), lost).verdict == DONE
    assert world.api.count("patch") == 1
    found = world.api.answer(Request("GET", world.path))
    again = scripted(found, 409, then=world.api.answer)
    assert run(carry_out(world.report(message="else"), 1, world.local, NOW), again).verdict == DONE
    assert world.conditions[0]["message"] == "else"


@pytest.mark.parametrize(("status", "verdict"), [(403, REFUSED), (500, UNKNOWN), (0, UNKNOWN)])
def test_a_server_that_does_not_let_it_be_written_is_told_from_one_that_fails(status: int, verdict: str) -> None:
    world = GroupWorld()

    def answer(request: Request) -> Response:
        return Response(status) if request.method == "PATCH" else world.api.answer(request)

    assert run(carry_out(world.report(), 1, world.local, NOW), answer).verdict == verdict
    assert world.local.reported_groups.get("g1") is None


def test_a_long_message_is_cut() -> None:
    world = GroupWorld()
    assert world.do(world.report(message="x" * 5000)).verdict == DONE
    assert len(world.conditions[0]["message"]) == 1024


def test_a_pod_that_runs_here_for_another_cluster_leads_to_no_group() -> None:
    world = GroupWorld()
    pod = world.cache.pod(world.member.uid)
    assert pod is not None
    world.cache._keep(msgspec.structs.replace(pod, source=source_of(world.member, 1, "b")))
    assert world.do(world.report()).verdict == STALE
    assert world.conditions == []
