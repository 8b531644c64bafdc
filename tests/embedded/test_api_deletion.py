"""Deleting: grace, finalizers, preconditions, whole collections and namespaces."""

from typing import Any

import pytest

from tests.embedded.api_client import DEPLOYMENTS, NODES, PODS, ApiClient, Body, binding, deployment, node, pod


async def _bound(client: ApiClient, name: str = "web", **meta: Any) -> Body:
    await client.make(PODS, pod(name, **meta))
    (await client.post(f"{PODS}/{name}/binding", binding(name, "n1"))).ok()
    return (await client.get(f"{PODS}/{name}")).ok()


async def test_an_unbound_pod_goes_at_once(client: ApiClient) -> None:
    await client.make(PODS, pod())
    assert (await client.delete(f"{PODS}/web")).ok()["metadata"]["name"] == "web"
    assert (await client.get(f"{PODS}/web")).status == 404


async def test_a_bound_pod_terminates_until_it_is_deleted_without_grace(client: ApiClient) -> None:
    await _bound(client)
    meta = (await client.delete(f"{PODS}/web")).ok()["metadata"]
    assert (meta["deletionGracePeriodSeconds"], "deletionTimestamp" in meta) == (30, True)
    again = (await client.delete(f"{PODS}/web")).ok()["metadata"]
    assert again["resourceVersion"] == meta["resourceVersion"], "deleting twice changes nothing"
    (await client.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})).ok()
    assert (await client.get(f"{PODS}/web")).status == 404


@pytest.mark.parametrize("grace", [0, 1, 5])
async def test_a_grace_period_can_be_shortened_never_lengthened(client: ApiClient, grace: int) -> None:
    await _bound(client)
    (await client.delete(f"{PODS}/web", {"gracePeriodSeconds": 5})).ok()
    (await client.delete(f"{PODS}/web", {"gracePeriodSeconds": 60})).ok()
    assert (await client.get(f"{PODS}/web")).ok()["metadata"]["deletionGracePeriodSeconds"] == 5
    (await client.delete(f"{PODS}/web", {"gracePeriodSeconds": grace})).ok()
    left = await client.get(f"{PODS}/web")
    assert left.status == 404 if grace == 0 else left.ok()["metadata"]["deletionGracePeriodSeconds"] == grace


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_needs_no_grace(client: ApiClient, phase: str) -> None:
    await _bound(client)
    (await client.patch(f"{PODS}/web/status", {"status": {"phase": phase}})).ok()
    (await client.delete(f"{PODS}/web")).ok()
    assert (await client.get(f"{PODS}/web")).status == 404


async def test_finalizers_hold_an_object_until_the_last_is_gone(client: ApiClient) -> None:
    await client.make(PODS, pod(finalizers=["a.io/one", "a.io/two"]))
    held = (await client.delete(f"{PODS}/web")).ok()["metadata"]
    assert (held["deletionGracePeriodSeconds"], held["finalizers"]) == (0, ["a.io/one", "a.io/two"])
    more = await client.patch(f"{PODS}/web", {"metadata": {"finalizers": ["a.io/one", "a.io/three"]}})
    assert (more.status, "no new finalizers can be added" in more.message) == (422, True)
    (await client.patch(f"{PODS}/web", {"metadata": {"finalizers": ["a.io/two"]}})).ok()
    assert (await client.get(f"{PODS}/web")).status == 200
    (await client.patch(f"{PODS}/web", {"metadata": {"finalizers": None}})).ok()
    assert (await client.get(f"{PODS}/web")).status == 404


async def test_a_bound_pod_with_a_finalizer_needs_both_to_go(client: ApiClient) -> None:
    await _bound(client, finalizers=["a.io/one"])
    (await client.delete(f"{PODS}/web")).ok()
    (await client.patch(f"{PODS}/web", {"metadata": {"finalizers": None}})).ok()
    assert (await client.get(f"{PODS}/web")).status == 200, "its grace is not over"
    (await client.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})).ok()
    assert (await client.get(f"{PODS}/web")).status == 404


async def test_a_terminating_object_stays_terminating_whatever_is_written(client: ApiClient) -> None:
    await _bound(client)
    (await client.delete(f"{PODS}/web")).ok()
    meta = (await client.patch(f"{PODS}/web", {"metadata": {"deletionTimestamp": None, "labels": {"a": "b"}}})).ok()[
        "metadata"
    ]
    assert (meta["labels"], "deletionTimestamp" in meta) == ({"a": "b"}, True)


@pytest.mark.parametrize(
    ("preconditions", "word"),
    [({"uid": "another"}, "UID"), ({"resourceVersion": "1"}, "ResourceVersion")],
    ids=["uid", "version"],
)
async def test_a_deletion_of_another_object_is_refused(client: ApiClient, preconditions: Body, word: str) -> None:
    await client.make(PODS, pod())
    answer = await client.delete(f"{PODS}/web", {"preconditions": preconditions})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert f"the {word} in the precondition" in answer.message
    assert (await client.get(f"{PODS}/web")).status == 200


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
async def test_propagation_leaves_its_finalizer_for_the_collector(
    client: ApiClient, policy: str, finalizer: list[str] | None
) -> None:
    await client.make(DEPLOYMENTS, deployment())
    (await client.delete(f"{DEPLOYMENTS}/shop", {"propagationPolicy": policy})).ok()
    left = await client.get(f"{DEPLOYMENTS}/shop")
    assert (left.ok()["metadata"]["finalizers"] if finalizer else left.status) == (finalizer or 404)


async def test_deleting_what_is_no_pod_answers_with_a_status(client: ApiClient) -> None:
    made = await client.make(NODES, node())
    status = (await client.delete(f"{NODES}/n1")).ok()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "n1", "kind": "nodes", "uid": made["metadata"]["uid"]}


async def test_a_collection_is_deleted_by_selector(client: ApiClient) -> None:
    for name, app in {"a": "x", "b": "y", "c": "x"}.items():
        await client.make(PODS, pod(name, labels={"app": app}))
    deleted = (await client.delete(PODS, labelSelector="app=x")).ok()
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await client.get(PODS)).ok()["items"]] == ["b"]


async def test_a_namespace_goes_when_the_last_object_in_it_has_gone(client: ApiClient) -> None:
    await client.make("/api/v1/namespaces", {"metadata": {"name": "n"}})
    pods = "/api/v1/namespaces/n/pods"
    assert (await client.get("/api/v1/namespaces/n/serviceaccounts/default")).status == 200
    await client.make(pods, pod("quick"))
    await client.make(pods, pod("slow", finalizers=["a.io/one"]))
    going = (await client.delete("/api/v1/namespaces/n")).ok()
    assert going["status"]["phase"] == "Terminating"
    assert [item["metadata"]["name"] for item in (await client.get(pods)).ok()["items"]] == ["slow"]
    refused = await client.post(pods, pod("late"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'pods "late" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    (await client.patch(f"{pods}/slow", {"metadata": {"finalizers": None}})).ok()
    assert (await client.get("/api/v1/namespaces/n")).status == 404
    await client.make("/api/v1/namespaces", {"metadata": {"name": "n"}})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_first_namespaces_stay(client: ApiClient, name: str) -> None:
    answer = await client.delete(f"/api/v1/namespaces/{name}")
    assert (answer.status, answer.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


@pytest.mark.parametrize(
    ("options", "status"), [({"propagationPolicy": "Later"}, 422), ({"gracePeriodSeconds": "soon"}, 400)], ids=str
)
async def test_bad_options_are_refused(client: ApiClient, options: Body, status: int) -> None:
    await client.make(PODS, pod())
    assert (await client.delete(f"{PODS}/web", options)).status == status
