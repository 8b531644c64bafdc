"""Watching over HTTP: what comes, in which order, and how a watch that cannot be continued says so."""

import asyncio
import json

import pytest

from tests.embedded.api_client import AS_TABLE, NODES, PODS, ApiClient, Body, binding, node, pod, serving


def _short(events: list[Body]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_from_a_version_tells_what_came_after_it_in_order(client: ApiClient) -> None:
    await client.make(PODS, pod("before"))
    version = await client.version()
    await client.make(PODS, pod("a"))
    (await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
    (await client.delete(f"{PODS}/a")).ok()
    events = await client.events("/api/v1/pods", 4, resourceVersion=version)
    assert _short(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert [int(version), *versions] == sorted({int(version), *versions})


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_the_present_state(client: ApiClient, version: str) -> None:
    await client.make(PODS, pod("a"))
    (await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
    await client.make(PODS, pod("b"))
    events = await client.events(PODS, 2, resourceVersion=version)
    assert _short(events) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_tells_live_changes(client: ApiClient) -> None:
    version = await client.version()
    watching = asyncio.create_task(client.events(PODS, 2, resourceVersion=version))
    await client.make(PODS, pod("a"))
    await client.make(PODS, pod("b"))
    assert _short(await watching) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_hears_of_its_own_namespace_alone(client: ApiClient) -> None:
    await client.make("/api/v1/namespaces", {"metadata": {"name": "other"}})
    version = await client.version()
    await client.make("/api/v1/namespaces/other/pods", pod("far"))
    await client.make(PODS, pod("near"))
    assert _short(await client.events(PODS, 1, resourceVersion=version)) == [("ADDED", "near")]
    everywhere = await client.events("/api/v1/pods", 2, resourceVersion=version)
    assert _short(everywhere) == [("ADDED", "far"), ("ADDED", "near")]


async def test_an_object_that_enters_or_leaves_a_selector_is_added_or_deleted(client: ApiClient) -> None:
    version = await client.version()
    await client.make(PODS, pod("a", labels={"app": "x"}))
    for value in ("y", "x"):
        (await client.patch(f"{PODS}/a", {"metadata": {"labels": {"app": value}}})).ok()
    (await client.delete(f"{PODS}/a")).ok()
    events = await client.events(PODS, 5, resourceVersion=version, labelSelector="app=x")
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    left = events[1]["object"]["metadata"]
    assert left["labels"] == {"app": "x"}, "it is told in its last matching state"
    assert int(left["resourceVersion"]) > int(events[0]["object"]["metadata"]["resourceVersion"])


async def test_a_field_selector_on_the_node_follows_binding(client: ApiClient) -> None:
    version = await client.version()
    await client.make(PODS, pod("a"))
    (await client.post(f"{PODS}/a/binding", binding("a", "n1"))).ok()
    events = await client.events(PODS, 1, resourceVersion=version, fieldSelector="spec.nodeName=n1")
    assert _short(events) == [("ADDED", "a")]
    unbound = await client.events(PODS, 2, resourceVersion=version, fieldSelector="spec.nodeName=")
    assert [event["type"] for event in unbound] == ["ADDED", "DELETED"]


async def test_a_version_older_than_the_history_ends_in_410() -> None:
    async with serving(history=3) as (client, _):
        version = await client.version()
        for name in "abcde":
            await client.make(PODS, pod(name))
        events = await client.events(PODS, 5, resourceVersion=version)
    assert len(events) == 1
    status = events[0]["object"]
    assert (events[0]["type"], status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")


async def test_the_history_of_one_resource_is_not_used_up_by_another() -> None:
    async with serving(history=3) as (client, _):
        version = await client.version()
        await client.make(PODS, pod("a"))
        for index in range(6):
            await client.make(NODES, node(f"n{index}"))
        assert _short(await client.events(PODS, 1, resourceVersion=version)) == [("ADDED", "a")]


async def test_initial_events_end_with_a_marked_bookmark(client: ApiClient) -> None:
    await client.make(PODS, pod("a"))
    version = await client.version()
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = await client.events(PODS, 2, **query)
    assert _short(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    mark = events[1]["object"]
    assert mark["kind"] == "Pod"
    assert mark["metadata"] == {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents",
        ),
        ({"resourceVersion": "soon"}, "invalid syntax"),
        ({"timeoutSeconds": "soon"}, "invalid syntax"),
        ({"labelSelector": "a in (b"}, "unable to parse requirement"),
        ({"fieldSelector": "spec.colour=red"}, "field label not supported: spec.colour"),
    ],
    ids=lambda value: "&".join(value) if isinstance(value, dict) else "",
)
async def test_a_watch_with_bad_parameters_is_refused(client: ApiClient, query: dict[str, str], message: str) -> None:
    answer = await client.get(PODS, watch="1", **query)
    assert answer.status in (400, 422, 500)
    assert message in answer.message


async def test_a_watch_ends_by_itself_with_a_last_bookmark(client: ApiClient) -> None:
    version = await client.version()
    events = await client.events(PODS, 9, resourceVersion=version, timeoutSeconds="1", allowWatchBookmarks="true")
    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert events[0]["object"]["metadata"]["resourceVersion"] == version


async def test_a_stopping_server_ends_its_watches_cleanly() -> None:
    async with serving() as (client, _):
        version = await client.version()
        url = f"{client.url}{PODS}?watch=1&resourceVersion={version}"
        response = await client.session.get(url)
        await client.make(PODS, pod("a"))
        assert json.loads(await response.content.readline())["type"] == "ADDED"
        reading = asyncio.create_task(response.content.readline())
        await asyncio.sleep(0)
    assert await reading == b""


async def test_a_table_watch_tells_columns_once(client: ApiClient) -> None:
    await client.make(PODS, pod("a"))
    await client.make(PODS, pod("b"))
    first, second = await client.events(PODS, 2, accept=AS_TABLE)
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["b", "0/1", "Pending"]
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


async def test_many_watchers_see_the_same_changes(client: ApiClient) -> None:
    version = await client.version()
    watching = [asyncio.create_task(client.events(PODS, 30, resourceVersion=version)) for _ in range(5)]
    await asyncio.gather(*(client.make(PODS, pod(f"p{index}")) for index in range(30)))
    first, *others = await asyncio.gather(*watching)
    assert all(other == first for other in others)
    assert {name for _, name in _short(first)} == {f"p{index}" for index in range(30)}


async def test_a_table_watch_tells_ages_by_the_time_of_the_event() -> None:
    now = [1000.0]
    async with serving(clock=lambda: now[0]) as (client, api):
        await client.make(PODS, pod("a"))
        watching = asyncio.create_task(client.events(PODS, 2, accept=AS_TABLE))
        while not api.objects.shelves["pods"].followers:  # noqa: ASYNC110 - the server offers no event for it
            await asyncio.sleep(0.01)
        now[0] += 60
        (await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
        assert [event["object"]["rows"][0]["cells"][4] for event in await watching] == ["0s", "60s"]
