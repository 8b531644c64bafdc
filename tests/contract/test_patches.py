"""JSON, merge and strategic patches."""

from typing import Any

import pytest

from tests.contract.client import JSON_PATCH, MERGE, STRATEGIC, Api, Body, config_map, pod

REFUSED = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("kind", "patch", "labels"),
    [
        (MERGE, {"metadata": {"labels": {"b": "2"}}}, {"a": "1", "b": "2"}),
        (MERGE, {"metadata": {"labels": {"a": None}}}, None),
        (MERGE, {"metadata": {"labels": None}}, None),
        (STRATEGIC, {"metadata": {"labels": {"b": "2"}}}, {"a": "1", "b": "2"}),
        (STRATEGIC, {"metadata": {"labels": {"a": None}}}, None),
        (STRATEGIC, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}, {"c": "3"}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/c~1d", "value": "e"}], {"a": "1", "c/d": "e"}),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata/labels/a", "value": "2"}], {"a": "2"}),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}], None),
        (JSON_PATCH, [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
         {"a": "1", "b": "1"}),
        (JSON_PATCH, [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}], {"b": "1"}),
        (JSON_PATCH, [{"op": "test", "path": "/metadata/labels/a", "value": "1"}], {"a": "1"}),
        (JSON_PATCH, [], {"a": "1"}),
    ],
    ids=str,
)  # fmt: skip
async def test_labels_are_patched(api: Api, kind: str, patch: Any, labels: dict[str, str] | None) -> None:
    await api.add("configmaps", config_map(labels={"a": "1"}))
    assert (await api.change("configmaps", "settings", patch, kind))["metadata"].get("labels") == labels


def _taints(*keys: str) -> list[Body]:
    return [{"key": key, "effect": "NoSchedule"} for key in keys]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        pytest.param({"containers": [{"name": "b", "image": "new"}]}, "ab", id="changes by key"),
        pytest.param({"containers": [{"name": "c", "image": "new"}]}, "cab", id="what is new comes first"),
        pytest.param({"containers": [{"name": "a", "$patch": "delete"}]}, "b", id="deletes by key"),
        pytest.param({"containers": [{"$patch": "replace"}, {"name": "z", "image": "i"}]}, "z", id="replaces"),
        pytest.param(
            {
                "containers": [{"name": "c", "image": "new"}],
                "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
            },
            "bca",
            id="orders",
        ),
    ],
)
async def test_a_strategic_patch_merges_lists_by_their_keys(api: Api, patch: Body, names: str) -> None:
    containers = [{"name": name, "image": "old"} for name in "ab"]
    labels = {"app": "x"}
    inner = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": inner}
    await api.add("deployments", {"metadata": {"name": "shop"}, "spec": spec})
    new = await api.change("deployments", "shop", {"spec": {"template": {"spec": patch}}}, STRATEGIC)
    assert "".join(item["name"] for item in new["spec"]["template"]["spec"]["containers"]) == names


async def test_a_strategic_patch_keeps_a_list_of_words_as_a_set(api: Api) -> None:
    await api.add("configmaps", config_map(finalizers=["a.io/x"]))
    more = await api.change("configmaps", "settings", {"metadata": {"finalizers": ["a.io/y", "a.io/x"]}}, STRATEGIC)
    assert sorted(more["metadata"]["finalizers"]) == ["a.io/x", "a.io/y"]
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x", "a.io/y"]}}
    assert "finalizers" not in (await api.change("configmaps", "settings", less, STRATEGIC))["metadata"]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_tolerations_are_replaced_as_a_whole(api: Api, kind: str) -> None:
    await api.add("pods", pod(spec={"tolerations": [{"key": "a", "operator": "Exists"}]}))
    answer = await api.patch(
        api.at("pods", "web"), {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}, kind
    )
    assert answer.status == 422
    assert "existing toleration can not be modified except its tolerationSeconds" in answer.message


async def test_tolerations_are_taken_behind_those_that_a_pod_has_as_it_has_written_them(api: Api) -> None:
    own, more = {"key": "a", "value": "b"}, {"key": "pool", "operator": "Equal", "value": "ml", "effect": "NoExecute"}
    await api.add("pods", pod(spec={"tolerations": [own]}))
    there = (await api.change("pods", "web", {"spec": {}}, MERGE))["spec"]["tolerations"]
    assert there[0] == own
    new = await api.change("pods", "web", {"spec": {"tolerations": [*there, more]}}, MERGE)
    assert new["spec"]["tolerations"] == [*there, more]


@pytest.mark.parametrize(
    ("kind", "patch", "status", "message"),
    [
        (MERGE, [], 400, "error decoding patch: json: cannot unmarshal array into Go value"),
        pytest.param(MERGE, b"{", 400, "invalid JSON patch", marks=pytest.mark.since("1.37")),
        pytest.param(JSON_PATCH, b"[", 400, "invalid JSON patch", marks=pytest.mark.since("1.37")),
        pytest.param(STRATEGIC, b"{", 400, "invalid JSON patch", marks=pytest.mark.since("1.37")),
        (
            MERGE,
            {"metadata": {"name": "other"}},
            400,
            "the name of the object (other) does not match the name on the U",
        ),
        (MERGE, {"metadata": {"name": None}}, 400, "the name of the object (web based on URL) was undeterminable"),
        (MERGE, {"metadata": {"namespace": "other"}}, 400, "the namespace of the provided object does not match"),
        (MERGE, {"kind": "Node"}, 422, ' "" is invalid: patch: Invalid value: '),
        (MERGE, {"apiVersion": "v2"}, 422, ' "" is invalid: patch: Invalid value: '),
        (MERGE, {"metadata": {"labels": {"a": 1}}}, 422, ' "" is invalid: patch: Invalid value: '),
        (JSON_PATCH, {}, 400, "error decoding patch: json: cannot unmarshal object into Go value"),
        (JSON_PATCH, [1], 400, "error decoding patch: json: cannot unmarshal number into Go value"),
        (JSON_PATCH, [{"op": "remove", "path": "/none"}], 422, REFUSED),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/annotations/x", "value": "e"}], 422, REFUSED),
        (JSON_PATCH, [{"op": "test", "path": "/kind", "value": "Node"}], 422, REFUSED),
        pytest.param(
            JSON_PATCH, [{"op": "replace", "path": "", "value": 1}], 422, REFUSED, marks=pytest.mark.since("1.35")
        ),
        (JSON_PATCH, [{"op": "melt", "path": "/x"}], 422, REFUSED),
        (JSON_PATCH, [{"op": "add"}], 422, REFUSED),
        (JSON_PATCH, [{"op": "add", "path": "/spec/tolerations/99", "value": {}}], 422, REFUSED),
        (STRATEGIC, [], 400, "json: cannot unmarshal array into Go value"),
        (STRATEGIC, {"spec": {"containers": [{"image": "x"}]}}, 500, "does not contain declared merge key: name"),
        (STRATEGIC, {"spec": {"$patch": "melt"}}, 500, "unknown patch type: melt"),
        ("text/plain", {}, 415, "415: Unsupported Media Type"),
        ("application/json", {}, 415, "415: Unsupported Media Type"),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_a_patch_that_cannot_be_applied_changes_nothing(
    api: Api, kind: str, patch: Any, status: int, message: str
) -> None:
    made = await api.add("pods", pod())
    answer = await api.patch(api.at("pods", "web"), patch, kind)
    assert answer.status == status
    assert message in answer.message
    if kind == JSON_PATCH and status == 422:
        assert answer.message == REFUSED
    assert await api.read("pods", "web") == made


async def test_a_json_patch_may_replace_a_label_that_is_not_there_but_not_remove_it(api: Api) -> None:
    await api.add("configmaps", config_map(labels={"a": "1"}))
    patch = {"path": "/metadata/labels/b", "value": "2"}
    removed = await api.patch(api.at("configmaps", "settings"), [patch | {"op": "remove"}], JSON_PATCH)
    assert (removed.status, removed.message) == (422, REFUSED)
    replaced = await api.change("configmaps", "settings", [patch | {"op": "replace"}], JSON_PATCH)
    assert replaced["metadata"]["labels"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("meta", "status", "message"),
    [
        ({"resourceVersion": "1"}, 409, "the object has been modified"),
        ({"uid": "another"}, 422, 'metadata.uid: Invalid value: "another": field is immutable'),
        ({"uid": "another", "resourceVersion": "1"}, 409, ""),
    ],
    ids=["version", "uid", "both"],
)
async def test_a_guarded_patch_of_another_state_is_refused(api: Api, meta: Body, status: int, message: str) -> None:
    before = await api.add("pods", pod())
    answer = await api.patch(api.at("pods", "web"), {"metadata": {**meta, "labels": {"a": "1"}}})
    assert answer.status == status
    assert message in answer.message
    assert await api.read("pods", "web") == before


async def test_of_two_guarded_patches_one_wins(api: Api) -> None:
    meta = (await api.add("pods", pod()))["metadata"]
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    claims = [{"metadata": {**guard, "annotations": {"claim": who}, "finalizers": ["a.io/x"]}} for who in "ab"]
    first, second = [await api.patch(api.at("pods", "web"), claim) for claim in claims]
    assert (first.status, second.status) == (200, 409)
    assert (await api.read("pods", "web"))["metadata"]["annotations"] == {"claim": "a"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
        pytest.param(
            {"dryRun": "x"},
            'dryRun: Unsupported value: ["x"]: supported values: "All"',
            marks=pytest.mark.since("1.34"),
        ),
        pytest.param(
            {"fieldManager": "x" * 129},
            "fieldManager: Too long: may not be more than 128 bytes",
            marks=pytest.mark.since("1.32"),
        ),
    ],
    ids=["force", "dryRun", "fieldManager"],
)
async def test_a_parameter_that_means_nothing_is_a_422(api: Api, query: dict[str, str], message: str) -> None:
    await api.add("configmaps", config_map())
    answer = await api.patch(api.at("configmaps", "settings"), {}, **query)
    assert (answer.status, answer.message) == (422, f'PatchOptions.meta.k8s.io "" is invalid: {message}')


async def test_unknown_fields_of_a_patch_are_dropped_or_refused(api: Api) -> None:
    before = await api.add("pods", pod())
    assert await api.change("pods", "web", {"spec": {"colour": "red"}}) == before
    strict = await api.patch(api.at("pods", "web"), {"spec": {"colour": "red"}}, fieldValidation="Strict")
    assert strict.status == 422
    assert strict.message.endswith('strict decoding error: unknown field "spec.colour"')


async def test_status_does_not_come_in_by_the_front_door(api: Api) -> None:
    before = await api.add("pods", pod())
    assert await api.change("pods", "web", {"status": {"phase": "Failed"}}) == before
