"""Creating, reading and replacing objects over HTTP."""

from typing import Any

import pytest

from tests.embedded.api_client import DEPLOYMENTS, MERGE, NODES, PODS, ApiClient, binding, deployment, node, pod


async def test_a_created_pod_has_identity_defaults_and_a_first_status(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    assert made["metadata"]["uid"]
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["serviceAccountName"] == "default"
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert (await client.get(f"{PODS}/web")).ok() == made


async def test_generate_name_gives_every_pod_a_name_of_its_own(client: ApiClient) -> None:
    body = pod() | {"metadata": {"generateName": "web-"}}
    names = {(await client.make(PODS, body))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("web-") and len(name) == len("web-") + 5 for name in names)


async def test_resource_versions_grow_with_every_write_of_any_kind(client: ApiClient) -> None:
    first = await client.make(PODS, pod())
    second = await client.make(NODES, node())
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_a_second_object_of_the_same_name_is_refused(client: ApiClient) -> None:
    await client.make(PODS, pod())
    answer = await client.post(PODS, pod())
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'pods "web" already exists'
    assert answer.body["details"] == {"name": "web", "kind": "pods"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{PODS}/none", 'pods "none" not found'),
        (f"{DEPLOYMENTS}/none", 'deployments.apps "none" not found'),
        ("/api/v1/nodes/none", 'nodes "none" not found'),
        ("/api/v1/unheardof", "the server could not find the requested resource"),
        (f"{PODS}/none/unheardof", "the server could not find the requested resource"),
    ],
)
async def test_what_does_not_exist_is_a_404(client: ApiClient, path: str, message: str) -> None:
    answer = await client.get(path)
    assert (answer.status, answer.reason, answer.message) == (404, "NotFound", message)


async def test_an_object_of_a_missing_namespace_is_a_404(client: ApiClient) -> None:
    answer = await client.post("/api/v1/namespaces/none/pods", pod())
    assert (answer.status, answer.message) == (404, 'namespaces "none" not found')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(pod() | {"kind": "Node"}, "cannot be handled as a Pod", id="another kind"),
        pytest.param(
            pod() | {"apiVersion": "v2"}, 'no kind "Pod" is registered for version "v2"', id="another version"
        ),
        pytest.param(
            pod(namespace="other"), "does not match the namespace sent on the request", id="another namespace"
        ),
        pytest.param([1], "the object provided is unrecognized", id="a list"),
        pytest.param(b"{", "json parse error", id="half a document"),
        pytest.param(b"", "the object provided is unrecognized", id="nothing"),
        pytest.param(pod(spec={"containers": "x"}), "cannot unmarshal string into Go struct field", id="a wrong type"),
        pytest.param(pod(labels={"a": 1}), "cannot unmarshal number into Go struct field", id="a number as label"),
        pytest.param(b'{"metadata":' * 5000 + b"1" + b"}" * 5000, "", id="deep nesting"),
    ],
)
async def test_a_body_that_is_no_pod_is_a_400(client: ApiClient, body: Any, message: str) -> None:
    answer = await client.post(PODS, body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


async def test_a_body_beyond_3_mib_is_a_413(client: ApiClient) -> None:
    answer = await client.post(PODS, b" " * (3 * 1024 * 1024 + 1))
    assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")


async def test_unknown_fields_are_dropped_or_refused_as_the_client_asks(client: ApiClient) -> None:
    body = pod(spec={"colour": "red"}) | {"flavour": 1}
    strict = await client.post(PODS, body, fieldValidation="Strict")
    assert strict.status == 400
    assert strict.message.endswith('strict decoding error: unknown field "spec.colour", unknown field "flavour"')
    made = (await client.post(PODS, body)).ok()
    assert "colour" not in made["spec"]
    assert "flavour" not in made


async def test_an_update_with_an_old_version_is_a_conflict_in_the_real_words(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    (await client.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})).ok()
    answer = await client.put(f"{PODS}/web", made)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods "web": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_for_another_uid_is_a_failed_precondition(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    made["metadata"] |= {"uid": "another"}
    answer = await client.put(f"{PODS}/web", made)
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: another, UID in object meta: " in answer.message


@pytest.mark.parametrize(
    ("meta", "status"),
    [({"resourceVersion": "1"}, 409), ({"uid": "another"}, 422), ({"uid": "another", "resourceVersion": "1"}, 409)],
    ids=["old version", "other uid", "both"],
)
async def test_a_guarded_patch_of_the_wrong_object_is_refused(
    client: ApiClient, meta: dict[str, str], status: int
) -> None:
    before = await client.make(PODS, pod())
    answer = await client.patch(f"{PODS}/web", {"metadata": {**meta, "labels": {"a": "1"}}}, MERGE)
    assert answer.status == status
    assert (await client.get(f"{PODS}/web")).ok() == before


async def test_an_update_that_changes_nothing_keeps_the_version(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    assert (await client.put(f"{PODS}/web", made)).ok() == made
    assert (await client.patch(f"{PODS}/web", {})).ok() == made


async def test_dry_run_answers_and_stores_nothing(client: ApiClient) -> None:
    version = await client.version()
    assert (await client.post(PODS, pod(), dryRun="All")).status == 201
    assert (await client.get(f"{PODS}/web")).status == 404
    await client.make(DEPLOYMENTS, deployment())
    after = await client.version()
    patched = await client.patch(f"{DEPLOYMENTS}/shop", {"spec": {"replicas": 9}}, dryRun="All")
    assert patched.ok()["spec"]["replicas"] == 9
    assert (await client.delete(f"{DEPLOYMENTS}/shop", dryRun="All")).status == 200
    assert (await client.get(f"{DEPLOYMENTS}/shop")).ok()["spec"]["replicas"] == 2
    assert int(after) > int(version)
    assert await client.version() == after


async def test_spec_and_status_are_written_apart(client: ApiClient) -> None:
    made = await client.make(DEPLOYMENTS, deployment())
    both = {"spec": {"replicas": 5}, "status": {"readyReplicas": 4}}
    main = (await client.patch(f"{DEPLOYMENTS}/shop", both)).ok()
    assert (main["spec"]["replicas"], main.get("status")) == (5, {})
    assert main["metadata"]["generation"] == made["metadata"]["generation"] + 1
    both = {"spec": {"replicas": 7}, "status": {"readyReplicas": 4}}
    status = (await client.patch(f"{DEPLOYMENTS}/shop/status", both)).ok()
    assert (status["spec"]["replicas"], status["status"]) == (5, {"readyReplicas": 4})
    assert status["metadata"]["generation"] == main["metadata"]["generation"]


async def test_scale_reads_and_writes_replicas(client: ApiClient) -> None:
    await client.make(DEPLOYMENTS, deployment())
    scale = (await client.get(f"{DEPLOYMENTS}/shop/scale")).ok()
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=shop")
    (await client.patch(f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 0}})).ok()
    assert (await client.get(f"{DEPLOYMENTS}/shop")).ok()["spec"]["replicas"] == 0
    stale = await client.put(f"{DEPLOYMENTS}/shop/scale", scale | {"spec": {"replicas": 3}})
    assert stale.status == 409


async def test_a_pods_spec_is_settled_but_for_a_few_fields(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    container = made["spec"]["containers"][0]
    image = {"spec": {"containers": [container | {"image": "busybox:2"}]}}
    assert (await client.patch(f"{PODS}/web", image)).ok()["spec"]["containers"][0]["image"] == "busybox:2"
    refused = await client.patch(f"{PODS}/web", {"spec": {"schedulerName": "other"}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message.startswith(
        'Pod "web" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`'
    )
    node_name = await client.patch(f"{PODS}/web", {"spec": {"nodeName": "n1"}})
    assert node_name.status == 422
    more = await client.patch(f"{PODS}/web", {"spec": {"containers": [container, container | {"name": "b"}]}})
    assert "pod updates may not add or remove containers" in more.message


async def test_tolerations_of_a_pod_may_be_added_not_removed(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    tolerations = [*made["spec"]["tolerations"], {"key": "a", "operator": "Exists"}]
    assert (await client.patch(f"{PODS}/web", {"spec": {"tolerations": tolerations}})).status == 200
    assert (await client.patch(f"{PODS}/web", {"spec": {"tolerations": []}})).status == 422


async def test_a_deployments_selector_never_changes(client: ApiClient) -> None:
    await client.make(DEPLOYMENTS, deployment())
    labels = {"app": "shop", "b": "c"}
    template = {"metadata": {"labels": labels}}
    answer = await client.patch(
        f"{DEPLOYMENTS}/shop", {"spec": {"selector": {"matchLabels": labels}, "template": template}}
    )
    assert answer.status == 422
    assert "spec.selector: Invalid value" in answer.message
    assert answer.message.endswith("field is immutable")


async def test_both_event_groups_show_the_same_events(client: ApiClient) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    when = "2026-01-01T00:00:00.000000Z"
    event = {"metadata": {"name": "e1"}, "regarding": about, "note": "hello", "reason": "R", "type": "Normal"}
    event |= {"eventTime": when, "action": "Bind", "reportingController": "us", "reportingInstance": "us-1"}
    made = await client.make("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (made["apiVersion"], made["note"], made["regarding"]) == ("events.k8s.io/v1", "hello", about)
    core = (await client.get("/api/v1/namespaces/default/events/e1")).ok()
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "hello", about)
    found = await client.get("/api/v1/events", fieldSelector="involvedObject.name=web,reason=R")
    assert [item["metadata"]["name"] for item in found.ok()["items"]] == ["e1"]


async def test_a_secret_stores_plain_text_encoded(client: ApiClient) -> None:
    made = await client.make(
        "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    )
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made


async def test_a_job_selects_its_own_pods_alone(client: ApiClient) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "work"}, "spec": {"template": template}}
    made = await client.make("/apis/batch/v1/namespaces/default/jobs", body)
    selector = made["spec"]["selector"]["matchLabels"]
    assert selector == {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}
    assert selector.items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (1, 1, 6)


async def test_two_writers_of_one_version_cannot_both_win(client: ApiClient) -> None:
    made = await client.make(PODS, pod())
    guard = {"resourceVersion": made["metadata"]["resourceVersion"], "uid": made["metadata"]["uid"]}
    answers = [
        (await client.patch(f"{PODS}/web", {"metadata": {**guard, "annotations": {"claim": who}}})).status
        for who in ("first", "second")
    ]
    assert answers == [200, 409]
    bound = await client.post(f"{PODS}/web/binding", binding("web", "n1", resourceVersion=guard["resourceVersion"]))
    assert bound.status == 409


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def test_a_put_of_a_lease_creates_it_and_then_needs_its_version(client: ApiClient) -> None:
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 40}}
    made = await client.put(f"{_LEASES}/n1", lease)
    assert made.status == 201
    blind = await client.put(f"{_LEASES}/n1", lease)
    assert (blind.status, "metadata.resourceVersion: Invalid value" in blind.message) == (422, True)
    renewed = made.ok() | {"spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000000Z"}}
    assert (await client.put(f"{_LEASES}/n1", renewed)).status == 200
    assert (await client.put(f"{_LEASES}/n1", renewed)).status == 409


async def test_a_put_of_a_pod_that_does_not_exist_is_a_404(client: ApiClient) -> None:
    assert (await client.put(f"{PODS}/web", pod())).status == 404
