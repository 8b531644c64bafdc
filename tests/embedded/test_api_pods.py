"""A pod's own verbs and the policies it meets: binding, eviction, admission, logs, metrics."""

import pytest

from localfleet.embedded.usage import Usage
from tests.embedded.api_client import NODES, PODS, ApiClient, Body, binding, node, pod, serving

_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_a_binding_gives_node_annotations_and_condition_in_one_write(client: ApiClient) -> None:
    made = await client.make(PODS, pod(annotations={"a": "old", "b": "kept"}))
    version = made["metadata"]["resourceVersion"]
    body = binding("web", "n1", uid=made["metadata"]["uid"], annotations={"a": "new", "c": "added"})
    answer = await client.post(f"{PODS}/web/binding", body)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    events = await client.events(PODS, 1, resourceVersion=version)
    bound = events[0]["object"]
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "new", "b": "kept", "c": "added"}
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_node_that_does_not_exist_is_accepted(client: ApiClient) -> None:
    await client.make(PODS, pod())
    assert (await client.post(f"{PODS}/web/binding", binding("web", "nowhere"))).status == 201


async def test_a_pod_is_bound_once(client: ApiClient) -> None:
    await client.make(PODS, pod())
    (await client.post(f"{PODS}/web/binding", binding("web", "n1"))).ok()
    answer = await client.post(f"{PODS}/web/binding", binding("web", "n2"))
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"'
    )


@pytest.mark.parametrize("meta", [{"uid": "another"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_a_binding_of_another_pod_fails_its_precondition(client: ApiClient, meta: Body) -> None:
    await client.make(PODS, pod())
    answer = await client.post(f"{PODS}/web/binding", binding("web", "n1", **meta))
    assert answer.status == 409
    assert "Precondition failed: " in answer.message
    assert "nodeName" not in (await client.get(f"{PODS}/web")).ok()["spec"]


async def test_a_terminating_pod_is_not_bound(client: ApiClient) -> None:
    await client.make(PODS, pod(finalizers=["a.io/one"]))
    (await client.delete(f"{PODS}/web")).ok()
    answer = await client.post(f"{PODS}/web/binding", binding("web", "n1"))
    assert (answer.status, "is being deleted, cannot be assigned to a host" in answer.message) == (409, True)


async def test_a_gated_pod_is_not_bound_until_its_gates_are_gone(client: ApiClient) -> None:
    made = await client.make(PODS, pod(spec={"schedulingGates": [{"name": "a.io/wait"}]}))
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    refused = await client.post(f"{PODS}/web/binding", binding("web", "n1"))
    assert (refused.status, "has non-empty .spec.schedulingGates" in refused.message) == (409, True)
    more = await client.patch(
        f"{PODS}/web", {"spec": {"schedulingGates": [{"name": "a.io/wait"}, {"name": "a.io/more"}]}}
    )
    assert more.status == 422
    (await client.patch(f"{PODS}/web", {"spec": {"schedulingGates": None}})).ok()
    (await client.post(f"{PODS}/web/binding", binding("web", "n1"))).ok()


async def test_a_dry_binding_binds_nothing(client: ApiClient) -> None:
    await client.make(PODS, pod())
    assert (await client.post(f"{PODS}/web/binding", binding("web", "n1"), dryRun="All")).status == 201
    assert "nodeName" not in (await client.get(f"{PODS}/web")).ok()["spec"]


async def _running(client: ApiClient, budget: Body | None = None) -> None:
    await client.make(PODS, pod(labels={"app": "x"}))
    (await client.post(f"{PODS}/web/binding", binding("web", "n1"))).ok()
    ready = [{"type": "Ready", "status": "True"}]
    (await client.patch(f"{PODS}/web/status", {"status": {"phase": "Running", "conditions": ready}})).ok()
    if budget is not None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        await client.make(_BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        (await client.patch(f"{_BUDGETS}/b/status", {"status": budget})).ok()


_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}


async def test_an_eviction_spends_the_budget_and_ends_the_pod(client: ApiClient) -> None:
    counts = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "observedGeneration": 1}
    await _running(client, counts)
    assert (await client.post(f"{PODS}/web/eviction", _EVICTION)).status == 201
    going = (await client.get(f"{PODS}/web")).ok()
    assert "deletionTimestamp" in going["metadata"]
    assert going["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    budget = (await client.get(f"{_BUDGETS}/b")).ok()["status"]
    assert (budget["disruptionsAllowed"], list(budget["disruptedPods"])) == (0, ["web"])


@pytest.mark.parametrize(
    ("counts", "cause"),
    [
        (
            {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "observedGeneration": 1},
            "The disruption budget b needs 1 healthy pods and has 1 currently",
        ),
        ({"disruptionsAllowed": 5}, "The disruption budget b is still being processed by the server."),
    ],
    ids=["spent", "not yet counted"],
)
async def test_an_eviction_beyond_the_budget_is_a_429(client: ApiClient, counts: Body, cause: str) -> None:
    await _running(client, counts)
    answer = await client.post(f"{PODS}/web/eviction", _EVICTION)
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert "deletionTimestamp" not in (await client.get(f"{PODS}/web")).ok()["metadata"]


async def test_a_pending_pod_is_evicted_whatever_the_budget(client: ApiClient) -> None:
    await client.make(PODS, pod())
    assert (await client.post(f"{PODS}/web/eviction", _EVICTION)).status == 201
    assert (await client.get(f"{PODS}/web")).status == 404


@pytest.mark.parametrize(
    ("annotation", "asked", "scheduler"),
    [
        ("true", None, "global-dispatcher"),
        ("true", "default-scheduler", "global-dispatcher"),
        ("true", "mine", "mine"),
        ("false", None, "default-scheduler"),
        (None, "global-dispatcher", "global-dispatcher"),
    ],
)
async def test_our_annotation_chooses_our_scheduler(
    client: ApiClient, annotation: str | None, asked: str | None, scheduler: str
) -> None:
    notes = {"global-dispatcher.io/schedule": annotation} if annotation else {}
    made = await client.make(PODS, pod(annotations=notes, spec={"schedulerName": asked} if asked else None))
    assert made["spec"]["schedulerName"] == scheduler


async def test_a_priority_class_becomes_a_number(client: ApiClient) -> None:
    await client.make(_CLASSES, {"metadata": {"name": "high"}, "value": 500, "preemptionPolicy": "Never"})
    spec = (await client.make(PODS, pod(spec={"priorityClassName": "high"})))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (500, "Never")
    refused = await client.post(PODS, pod("other", spec={"priorityClassName": "none"}))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == 'pods "other" is forbidden: no PriorityClass with name none was found'


async def test_the_default_priority_class_is_for_pods_without_one(client: ApiClient) -> None:
    assert (await client.make(PODS, pod("before")))["spec"]["priority"] == 0
    await client.make(_CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = (await client.make(PODS, pod()))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")


async def test_pods_tolerate_a_lost_node_for_a_while_unless_they_say_otherwise(client: ApiClient) -> None:
    def seconds(made: Body) -> dict[str, int | None]:
        return {item["key"]: item.get("tolerationSeconds") for item in made["spec"]["tolerations"]}

    usual = {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}
    assert seconds(await client.make(PODS, pod("usual"))) == usual
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    made = await client.make(PODS, pod("own", spec={"tolerations": [own]}))
    assert seconds(made) == usual | {"node.kubernetes.io/unreachable": 5}


@pytest.mark.parametrize("ready", [True, False])
async def test_a_node_begins_tainted_whatever_it_says(client: ApiClient, ready: bool) -> None:
    made = await client.make(NODES, node(ready=ready))
    assert [taint["key"] for taint in made["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]


@pytest.mark.parametrize(
    ("requests", "limits", "qos"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
    ],
)
async def test_quality_of_service_follows_requests_and_limits(
    client: ApiClient, requests: Body, limits: Body, qos: str
) -> None:
    resources = {"requests": requests, "limits": limits}
    made = await client.make(PODS, pod(spec={"containers": [{"name": "c", "image": "i", "resources": resources}]}))
    assert made["status"]["qosClass"] == qos


async def test_logs_come_from_the_kubelets_in_plain_text() -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: (
            f"{found['metadata']['name']}/{container} {query.get('tailLines')}\n"
        )
        await client.make(PODS, pod())
        waiting = await client.get(f"{PODS}/web/log")
        assert (waiting.status, waiting.message) == (400, "pod web does not have a host assigned")
        await _run(client)
        assert (await client.get(f"{PODS}/web/log", tailLines="5")).body == "web/main 5\n"
        wrong = await client.get(f"{PODS}/web/log", container="other")
        assert (wrong.status, wrong.message) == (400, "container other is not valid for pod web")


@pytest.mark.parametrize(
    ("state", "query", "words"),
    [
        ({"running": {}}, {"previous": "true"}, 'previous terminated container "main" in pod "web" not found'),
        (
            {"waiting": {"reason": "CreateContainerConfigError"}},
            {},
            'container "main" in pod "web" is waiting to start: CreateContainerConfigError',
        ),
    ],
)
async def test_a_container_without_such_a_run_has_no_log_as_with_a_kubelet(
    state: Body, query: dict[str, str], words: str
) -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: "invented\n"
        await client.make(PODS, pod())
        await _run(client)
        entry = {"name": "main", "state": state, "restartCount": 0, "ready": False, "image": "i", "imageID": ""}
        (await client.patch(f"{PODS}/web/status", {"status": {"containerStatuses": [entry]}})).ok()
        told = await client.get(f"{PODS}/web/log", **query)
        assert (told.status, told.message) == (400, words)


async def test_a_node_without_a_kubelet_has_no_logs() -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: "invented\n"
        await client.make(PODS, pod())
        await _run(client, addresses=[])
        told = await client.get(f"{PODS}/web/log")
        assert (told.status, told.message) == (500, "no preferred addresses found; known addresses: []")


async def _run(client: ApiClient, addresses: list[Body] | None = None) -> None:
    """On a node that has an address, if nothing else is said."""
    await client.make(NODES, node("n1"))
    found = [{"type": "InternalIP", "address": "127.0.0.1"}] if addresses is None else addresses
    (await client.patch(f"{NODES}/n1/status", {"status": {"addresses": found}})).ok()
    (await client.post(f"{PODS}/web/binding", binding("web", "n1"))).ok()
    (await client.patch(f"{PODS}/web/status", {"status": {"phase": "Running"}})).ok()


async def test_a_followed_log_ends_with_its_pod() -> None:
    async with serving() as (client, api):
        lines = ["one\n"]
        api.log_source = lambda found, container, query: "".join(lines)
        await client.make(PODS, pod())
        await _run(client)
        async with client.session.get(f"{client.url}{PODS}/web/log?follow=true") as response:
            assert await response.content.readline() == b"one\n"
            lines.append("two\n")
            (await client.patch(f"{PODS}/web/status", {"status": {"phase": "Succeeded"}})).ok()
            assert await response.content.read() == b"two\n"


async def test_metrics_show_what_the_kubelets_measured() -> None:
    async with serving() as (client, api):
        api.node_usage = lambda name: Usage(1_767_225_600.5, 75.25, 0.25, 2**30) if name == "n1" else None
        for name in ("n1", "n2"):
            await client.make(NODES, node(name))
        listed = (await client.get("/apis/metrics.k8s.io/v1beta1/nodes")).ok()
        assert [(item["metadata"]["name"], item["usage"]) for item in listed["items"]] == [
            ("n1", {"cpu": "250m", "memory": "1Gi"})
        ]
        one = (await client.get("/apis/metrics.k8s.io/v1beta1/nodes/n1")).ok()
        assert (one["kind"], one["timestamp"], one["window"]) == ("NodeMetrics", "2026-01-01T00:00:00Z", "1m15.25s")
        missing = await client.get("/apis/metrics.k8s.io/v1beta1/nodes/n2")
        assert (missing.status, missing.message) == (404, 'nodemetrics.metrics.k8s.io "n2" not found')
