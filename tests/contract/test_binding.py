"""pods/binding: the write that places a pod."""

from typing import Any

import pytest

from tests.contract.client import Api, Body, binding, pod


async def test_a_binding_gives_node_annotations_and_condition_in_one_write(api: Api) -> None:
    made = await api.add("pods", pod(annotations={"a": "old", "b": "kept"}))
    guard = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    body = binding("web", annotations={"a": "new", "c": "added"}, **guard)
    answer = await api.post(api.at("pods", "web", "binding"), body)
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    (event,) = await api.events(api.at("pods"), 1, resourceVersion=guard["resourceVersion"])
    bound = event["object"]
    assert bound["spec"]["nodeName"] == "nowhere"
    assert bound["metadata"]["annotations"] == {"a": "new", "b": "kept", "c": "added"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["lastProbeTime"]) == ("PodScheduled", "True", None)


@pytest.mark.since("1.35")
async def test_a_binding_gives_labels(api: Api) -> None:
    await api.add("pods", pod(labels={"l": "1", "m": "kept"}))
    (await api.post(api.at("pods", "web", "binding"), binding("web", labels={"l": "2", "k": "v"}))).ok()
    assert (await api.read("pods", "web"))["metadata"]["labels"] == {"l": "2", "m": "kept", "k": "v"}


async def test_a_binding_clears_why_a_pod_had_to_wait(api: Api) -> None:
    await api.add("pods", pod())
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    await api.change("pods", "web/status", {"status": {"conditions": [said]}})
    await api.bound("web")
    status = (await api.read("pods", "web"))["status"]
    assert [(item["type"], item["status"], item.get("reason")) for item in status["conditions"]] == [
        ("PodScheduled", "True", None)
    ]


@pytest.mark.since("1.35")
async def test_a_binding_clears_the_nominated_node(api: Api) -> None:
    await api.add("pods", pod())
    await api.change("pods", "web/status", {"status": {"nominatedNodeName": "other"}})
    await api.bound("web")
    assert "nominatedNodeName" not in (await api.read("pods", "web"))["status"]


@pytest.mark.parametrize("node", ["nowhere", "elsewhere"])
async def test_a_pod_is_bound_once(api: Api, node: str) -> None:
    await api.add("pods", pod())
    await api.bound("web")
    answer = await api.post(api.at("pods", "web", "binding"), binding("web", node))
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "nowhere"'
    )
    assert answer.body["details"] == {"name": "web", "kind": "pods/binding"}


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ({"uid": "another"}, "Precondition failed: UID in precondition: another, UID in object meta: "),
        (
            {"resourceVersion": "1"},
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object",
        ),
        (
            {"resourceVersion": "x"},
            "Precondition failed: ResourceVersion in precondition: x, ResourceVersion in object",
        ),
    ],
    ids=["uid", "version", "no version at all"],
)
async def test_a_binding_of_another_state_fails_its_precondition(api: Api, guard: Body, words: str) -> None:
    before = await api.add("pods", pod())
    answer = await api.post(api.at("pods", "web", "binding"), binding("web", **guard))
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert words in answer.message
    assert await api.read("pods", "web") == before


async def test_an_old_guard_is_told_before_the_second_binding(api: Api) -> None:
    made = await api.add("pods", pod())
    body = binding("web", resourceVersion=made["metadata"]["resourceVersion"])
    (await api.post(api.at("pods", "web", "binding"), body)).ok()
    late = await api.post(api.at("pods", "web", "binding"), body)
    assert "Precondition failed: ResourceVersion" in late.message


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    gates: list[Body] = [{"name": "a.io/wait"}]
    made = await api.add("pods", pod(spec={"schedulingGates": gates}))
    (condition,) = made["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "SchedulingGated",
        "Scheduling is blocked due to non-empty scheduling gates",
    )
    refused = await api.post(api.at("pods", "web", "binding"), binding("web"))
    assert (refused.status, refused.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web has non-empty .spec.schedulingGates',
    )
    await api.change("pods", "web", {"spec": {"schedulingGates": None}})
    await api.bound("web")


async def test_a_terminating_pod_is_not_bound(api: Api) -> None:
    await api.add("pods", pod(finalizers=["a.io/x"]))
    (await api.delete(api.at("pods", "web"))).ok()
    refused = await api.post(api.at("pods", "web", "binding"), binding("web"))
    assert (refused.status, refused.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web is being deleted, cannot be assigned to a host',
    )


async def test_a_pod_that_has_ended_can_still_be_bound(api: Api) -> None:
    await api.add("pods", pod())
    await api.change("pods", "web/status", {"status": {"phase": "Succeeded"}})
    await api.bound("web")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (binding("other"), 400, "name in URL does not match name in Binding object"),
        ({}, 400, "name in URL does not match name in Binding object"),
        ({"metadata": {"name": "web"}}, 500, "target.name: Required value"),
        ({"metadata": {"name": "web"}, "target": {"kind": "Node"}}, 500, "target.name: Required value"),
        (
            {"metadata": {"name": "web"}, "target": {"kind": "Pod", "name": "x"}},
            500,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
        (binding("web", namespace="other"), 400, "the namespace of the provided object does not match the namespace"),
        (pod(), 400, 'Pod in version "v1" cannot be handled as a Binding'),
        (b"", 400, "the object provided is unrecognized (must be of type Binding)"),
        ([], 400, "the object provided is unrecognized (must be of type Binding)"),
    ],
    ids=["name", "nothing", "no target", "no node", "no such kind", "namespace", "a pod", "empty", "a list"],
)
async def test_a_binding_that_cannot_be_read_binds_nothing(api: Api, body: Any, status: int, message: str) -> None:
    before = await api.add("pods", pod())
    answer = await api.post(api.at("pods", "web", "binding"), body)
    assert answer.status == status
    assert message in answer.message
    assert await api.read("pods", "web") == before


async def test_a_pod_that_is_not_there_is_not_bound(default: Api) -> None:
    answer = await default.post(default.at("pods", "none", "binding"), binding("none"))
    assert (answer.status, answer.message) == (404, 'pods "none" not found')


async def test_a_dry_binding_binds_nothing(api: Api) -> None:
    await api.add("pods", pod())
    assert (await api.post(api.at("pods", "web", "binding"), binding("web"), dryRun="All")).status == 201
    assert "nodeName" not in (await api.read("pods", "web"))["spec"]


async def test_the_old_way_to_bind_works_too(api: Api) -> None:
    await api.add("pods", pod())
    assert (await api.post(api.at("bindings"), binding("web"))).status == 201
    assert (await api.read("pods", "web"))["spec"]["nodeName"] == "nowhere"


async def test_a_node_is_not_given_by_patch(api: Api) -> None:
    await api.add("pods", pod())
    answer = await api.patch(api.at("pods", "web"), {"spec": {"nodeName": "nowhere"}})
    assert answer.status == 422
    assert "spec: Forbidden: pod updates may not change fields other than" in answer.message


async def test_a_pod_that_is_made_with_a_node_is_bound(api: Api) -> None:
    await api.add("pods", pod(spec={"nodeName": "nowhere"}))
    assert (await api.post(api.at("pods", "web", "binding"), binding("web"))).status == 409


@pytest.mark.parametrize(
    ("before", "patch", "refused"),
    [
        ({}, {"nodeSelector": {"a": "b"}}, ""),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}, ""),
        pytest.param(
            {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            'spec.nodeSelector: Invalid value: {"a":"c"}: '
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            marks=pytest.mark.since("1.34"),
        ),
        (
            {},
            {"schedulingGates": [{"name": "a.io/wait"}, {"name": "a.io/more"}]},
            "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, "
            "but found new scheduling gate 'a.io/more'",
        ),
    ],
    ids=["adds", "adds more", "changes", "another gate"],
)
async def test_a_gated_pod_may_be_steered(api: Api, before: Body, patch: Body, refused: str) -> None:
    await api.add("pods", pod(spec={"schedulingGates": [{"name": "a.io/wait"}], **before}))
    answer = await api.patch(api.at("pods", "web"), {"spec": patch})
    assert (answer.status, answer.message) == ((422, f'Pod "web" is invalid: {refused}') if refused else (200, ""))
