"""Patches: merge, JSON, strategic, and server-side apply."""

from typing import Any

import pytest

from localfleet.embedded.apiserver import patching, strategic
from localfleet.embedded.apiserver.schema import object_type
from tests.embedded.api_client import (
    APPLY,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    ApiClient,
    Body,
    deployment,
    pod,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": None, "e": 4}}, {"a": 1, "b": {"d": 3, "e": 4}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({}, {"a": None}, {}),
    ],
)
def test_a_merge_patch_follows_rfc_7386(target: Body, patch: Body, result: Body) -> None:
    assert patching.merge(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3], "x/y": 0}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2], "x/y": 0}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2], "x/y": 0}),
        ([{"op": "replace", "path": "/x~1y", "value": 5}], {"a": [1, 2], "x/y": 5}),
        ([{"op": "move", "from": "/x~1y", "path": "/z"}], {"a": [1, 2], "z": 0}),
        ([{"op": "copy", "from": "/a/1", "path": "/z"}], {"a": [1, 2], "x/y": 0, "z": 2}),
        ([{"op": "test", "path": "/a/1", "value": 2}, {"op": "remove", "path": "/a"}], {"x/y": 0}),
    ],
)
def test_a_json_patch_follows_rfc_6902(operations: list[Body], result: Body) -> None:
    target = {"a": [1, 2], "x/y": 0}
    assert patching.json_patch(target, operations) == result
    assert target == {"a": [1, 2], "x/y": 0}, "the target itself is untouched"


_SPEC = object_type("core.v1.PodSpec")


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
            {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]},
            id="merges by key",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
            id="deletes by key",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"$patch": "replace"}, {"name": "z"}]},
            {"containers": [{"name": "z"}]},
            id="replaces a list",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "c"}], "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]},
            {"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]},
            id="orders",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}, id="a"
        ),
        pytest.param(
            {"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"a": None}}, {"nodeSelector": {"b": "2"}}, id="m"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
            id="retains keys",
        ),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "replace", "d": 3}}, {"a": {"d": 3}}, id="replaces a map"),
    ],
)  # fmt: skip
def test_a_strategic_patch_merges_lists_by_their_keys(target: Body, patch: Body, result: Body) -> None:
    assert strategic.merge(target, patch, _SPEC) == result


def test_a_strategic_patch_keeps_finalizers_as_a_set() -> None:
    meta = object_type("meta.v1.ObjectMeta")
    assert strategic.merge({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, meta) == {"finalizers": ["b", "a"]}
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert strategic.merge({"finalizers": ["a", "b"]}, patch, meta) == {"finalizers": ["b"]}


@pytest.mark.parametrize(
    ("kind", "patch", "status"),
    [
        (MERGE, [], 400),
        (MERGE, {"metadata": {"name": "other"}}, 400),
        (MERGE, {"kind": "Node"}, 422),
        (JSON_PATCH, {}, 400),
        (JSON_PATCH, [{"op": "remove", "path": "/none"}], 422),
        (JSON_PATCH, [{"op": "test", "path": "/kind", "value": "Node"}], 422),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 1}], 422),
        (STRATEGIC, {"spec": {"containers": [{"image": "x"}]}}, 500),
        (STRATEGIC, {"spec": {"$patch": "melt"}}, 500),
        ("text/plain", {}, 415),
    ],
)
async def test_a_patch_that_cannot_be_applied_changes_nothing(
    client: ApiClient, kind: str, patch: Any, status: int
) -> None:
    made = await client.make(PODS, pod())
    assert (await client.patch(f"{PODS}/web", patch, kind)).status == status
    assert (await client.get(f"{PODS}/web")).ok() == made


async def test_a_patch_of_nothing_is_a_404(client: ApiClient) -> None:
    assert (await client.patch(f"{PODS}/none", {})).message == 'pods "none" not found'


async def _apply(client: ApiClient, body: Body, manager: str, **query: str) -> Any:
    return await client.patch(f"{DEPLOYMENTS}/shop", body, APPLY, fieldManager=manager, **query)


async def test_apply_creates_and_then_changes_nothing(client: ApiClient) -> None:
    first = await _apply(client, deployment(), "me")
    assert first.status == 201
    again = await _apply(client, deployment(), "me")
    assert (again.status, again.body) == (200, first.body)


async def test_apply_removes_what_its_manager_no_longer_names(client: ApiClient) -> None:
    body = deployment()
    body["metadata"]["labels"] |= {"mine": "1"}
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "2"},
    ]
    (await _apply(client, body, "me")).ok()
    (await client.patch(f"{DEPLOYMENTS}/shop", {"metadata": {"labels": {"theirs": "1"}}})).ok()
    del body["metadata"]["labels"]["mine"]
    del body["spec"]["template"]["spec"]["containers"][0]["env"][0]
    made = (await _apply(client, body, "me")).ok()
    assert made["metadata"]["labels"] == {"app": "shop", "theirs": "1"}
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]


async def test_apply_of_a_field_that_another_manager_applied_is_a_conflict_unless_forced(client: ApiClient) -> None:
    (await _apply(client, deployment(), "me")).ok()
    refused = await _apply(client, deployment(replicas=9), "you")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "me": .spec.replicas'
    assert (await _apply(client, deployment(replicas=9), "you", force="true")).ok()["spec"]["replicas"] == 9
    mine = await _apply(client, deployment(replicas=2), "me")
    assert mine.status == 409, "the field now belongs to the other"


async def test_apply_shares_a_field_that_two_managers_agree_on(client: ApiClient) -> None:
    (await _apply(client, deployment(), "me")).ok()
    (await _apply(client, deployment(), "you")).ok()
    less = deployment()
    del less["spec"]["replicas"]
    assert (await _apply(client, less, "me")).ok()["spec"]["replicas"] == 2


async def test_apply_needs_a_manager(client: ApiClient) -> None:
    answer = await client.patch(f"{DEPLOYMENTS}/shop", deployment(), APPLY)
    assert (answer.status, "fieldManager: Required value" in answer.message) == (422, True)
