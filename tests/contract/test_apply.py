"""Server-side apply: who owns what, and who may take it over."""

from typing import Any

import pytest

from tests.contract.client import APPLY, Answer, Api, Body, config_map, deployment


async def apply(api: Api, body: Any, manager: str, **query: str) -> Answer:
    resource = "deployments" if isinstance(body, dict) and body.get("kind") == "Deployment" else "configmaps"
    name = "shop" if resource == "deployments" else "settings"
    given = {"fieldManager": manager} if manager else {}
    return await api.patch(api.at(resource, name), body, APPLY, **given, **query)


def settings(**data: str) -> Body:
    return config_map() | {"data": data}


async def owners(api: Api) -> dict[str, set[str]]:
    """manager/operation -> the keys of `data` that it owns."""
    meta = (await api.read("configmaps", "settings"))["metadata"]
    return {
        f"{entry['manager']}/{entry['operation']}": {key[2:] for key in entry["fieldsV1"].get("f:data", {})} - {""}
        for entry in meta["managedFields"]
    }


async def test_apply_creates_and_then_changes_nothing(api: Api) -> None:
    first = await apply(api, settings(a="1"), "me")
    assert first.status == 201
    again = await apply(api, settings(a="1"), "me")
    assert (again.status, again.body) == (200, first.body)


async def test_apply_takes_away_what_its_manager_no_longer_names(api: Api) -> None:
    (await apply(api, settings(a="1", b="2"), "me")).ok()
    await api.change("configmaps", "settings", {"data": {"theirs": "3"}})
    assert (await apply(api, settings(a="1"), "me")).ok()["data"] == {"a": "1", "theirs": "3"}


async def test_a_field_that_another_applied_is_a_conflict_unless_forced(api: Api) -> None:
    (await apply(api, settings(a="1"), "me")).ok()
    refused = await apply(api, settings(a="2"), "you")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.a"}
    ]
    assert (await apply(api, settings(a="2"), "you", force="true")).ok()["data"] == {"a": "2"}
    assert await owners(api) == {"you/Apply": {"a"}}


async def test_a_field_that_another_updated_is_a_conflict_too(api: Api) -> None:
    (await apply(api, settings(a="1"), "me")).ok()
    (await api.patch(api.at("configmaps", "settings"), {"data": {"a": "2"}}, fieldManager="editor")).ok()
    assert await owners(api) == {"editor/Update": {"a"}}
    refused = await apply(api, settings(a="1"), "me")
    assert (refused.status, refused.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a',
    )


async def test_what_a_creator_wrote_is_the_creators(api: Api) -> None:
    (await api.post(api.at("configmaps"), settings(a="1", b="2"), fieldManager="maker")).ok()
    assert await owners(api) == {"maker/Update": {"a", "b"}}
    refused = await apply(api, settings(a="2"), "me")
    assert (refused.status, refused.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "maker" using v1: .data.a',
    )


async def test_a_field_that_two_apply_alike_has_two_owners(api: Api) -> None:
    (await apply(api, settings(a="1"), "me")).ok()
    (await apply(api, settings(a="1"), "you")).ok()
    assert await owners(api) == {"me/Apply": {"a"}, "you/Apply": {"a"}}
    assert (await apply(api, settings(), "me")).ok()["data"] == {"a": "1"}


async def test_list_items_are_owned_by_their_keys(api: Api) -> None:
    body = deployment()
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    (await apply(api, body, "me")).ok()
    del container["env"][0]
    made = (await apply(api, body, "me")).ok()
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]


async def test_a_dry_apply_makes_nothing(api: Api) -> None:
    assert (await apply(api, settings(a="1"), "me", dryRun="All")).status == 201
    assert (await api.get(api.at("configmaps", "settings"))).status == 404


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"metadata": {"name": "settings", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
        ({"metadata": {"name": "other"}}, 400, "does not match the name on the URL (settings)"),
        ({"metadata": {"name": "settings", "resourceVersion": "1"}}, 409, "the object has been modified"),
        ({"kind": ""}, 400, "invalid object type: "),
        ({"apiVersion": ""}, 400, "invalid object type: "),
        ({"colour": "red"}, 500, ".colour: field not declared in schema"),
    ],
    ids=["managedFields", "name", "version", "kind", "apiVersion", "unknown"],
)
async def test_an_apply_that_cannot_be_done(api: Api, change: Body, status: int, message: str) -> None:
    (await apply(api, settings(a="1"), "me")).ok()
    answer = await apply(api, settings(a="1") | change, "me", force="true")
    assert answer.status == status
    assert message in answer.message


async def test_apply_needs_a_manager(api: Api) -> None:
    answer = await apply(api, settings(a="1"), "")
    assert answer.status == 422
    assert answer.message.endswith("is invalid: fieldManager: Required value: is required for apply patch")


async def test_status_is_owned_apart(api: Api) -> None:
    await api.add("pods", {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "b"}]}})
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "status": {"message": "m"}}
    made = (await api.patch(api.at("pods", "web", "status"), body, APPLY, fieldManager="me")).ok()
    assert made["status"]["message"] == "m"
    (entry,) = [entry for entry in made["metadata"]["managedFields"] if entry["operation"] == "Apply"]
    assert (entry["manager"], entry["subresource"]) == ("me", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:message": {}}}
