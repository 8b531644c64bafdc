"""Watching: what comes, in which order, and how a watch that cannot be continued says so."""

import asyncio
from typing import Any

import pytest

from tests.contract.client import METADATA, TABLE, Api, Body, config_map, pod

INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
with_watch_list = pytest.mark.since("1.34")  # 1.32 has it on, too, 1.33 off again


def told(events: list[Body]) -> list[tuple[str, str]]:
    """(type, name) of every event."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def history(api: Api) -> str:
    """The version before a pod was made, labelled x, y, x, bound and deleted."""
    before = await api.now()
    await api.add("pods", pod("a"))
    for value in ("x", "y", "x"):
        await api.change("pods", "a", {"metadata": {"labels": {"app": value}}})
    await api.bound("a")
    (await api.delete(api.at("pods", "a"), {"gracePeriodSeconds": 0})).ok()
    return before


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ({}, ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]),
        ({"labelSelector": "app=x"}, ["ADDED", "DELETED", "ADDED", "MODIFIED", "MODIFIED", "DELETED"]),
        ({"fieldSelector": "spec.nodeName=nowhere"}, ["ADDED", "MODIFIED", "DELETED"]),
        ({"fieldSelector": "spec.nodeName="}, ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]),
        ({"fieldSelector": "metadata.name=b"}, []),
    ],
    ids=str,
)
async def test_a_watch_resumes_after_a_version(api: Api, query: dict[str, str], types: list[str]) -> None:
    before = await history(api)
    await api.add("pods", pod("b"))
    limits = {"timeoutSeconds": "2"} if not types else {}
    events = await api.events(api.at("pods"), len(types) or 1, resourceVersion=before, **query, **limits)
    if not types:
        assert told(events) == [("ADDED", "b")]
        return
    assert [event["type"] for event in events] == types
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(before)


async def test_an_object_that_leaves_a_selector_is_told_as_it_last_matched(api: Api) -> None:
    before = await history(api)
    events = await api.events(api.at("pods"), 2, resourceVersion=before, labelSelector="app=x")
    assert told(events) == [("ADDED", "a"), ("DELETED", "a")]
    assert events[1]["object"]["metadata"]["labels"] == {"app": "x"}
    first, last = (int(event["object"]["metadata"]["resourceVersion"]) for event in events)
    assert last == first + 1 or last > first


async def test_a_deleted_object_is_told_with_the_version_of_its_deletion(api: Api) -> None:
    before = await history(api)
    events = await api.events(api.at("pods"), 7, resourceVersion=before)
    marked, gone = events[5]["object"], events[6]["object"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert gone["spec"]["nodeName"] == "nowhere"
    assert int(gone["metadata"]["resourceVersion"]) > int(marked["metadata"]["resourceVersion"])


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_the_present(api: Api, version: str) -> None:
    await api.add("configmaps", config_map("a"))
    await api.add("configmaps", config_map("b"))
    events = await api.events(
        api.at("configmaps"), 2, resourceVersion=version, fieldSelector="metadata.name!=kube-root-ca.crt"
    )
    assert told(events) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_tells_live_changes_of_its_own_namespace(api: Api) -> None:
    before = await api.now()
    watching = asyncio.create_task(api.events(api.at("pods"), 2, resourceVersion=before))
    far = pod("far")
    (await api.post("/api/v1/namespaces/default/pods", far, dryRun="All")).ok()
    await api.add("pods", pod("a"))
    await api.add("pods", pod("b"))
    assert told(await watching) == [("ADDED", "a"), ("ADDED", "b")]


@with_watch_list
async def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    await api.add("pods", pod("a"))
    events = await api.events(api.at("pods"), 2, **INITIAL)
    assert told(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    mark = events[1]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("Pod", "v1")
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["metadata"]["resourceVersion"]) >= int(events[0]["object"]["metadata"]["resourceVersion"])


@with_watch_list
async def test_a_watch_goes_on_from_a_bookmark(api: Api) -> None:
    await api.add("pods", pod("a"))
    mark = (await api.events(api.at("pods"), 2, **INITIAL))[1]["object"]["metadata"]["resourceVersion"]
    await api.add("pods", pod("b"))
    assert told(await api.events(api.at("pods"), 1, resourceVersion=mark)) == [("ADDED", "b")]


@with_watch_list
async def test_whoever_wants_no_bookmarks_gets_none(api: Api) -> None:
    await api.add("pods", pod("a"))
    query: dict[str, Any] = {key: value for key, value in INITIAL.items() if key != "allowWatchBookmarks"}
    assert told(await api.events(api.at("pods"), 2, timeoutSeconds="1", **query)) == [("ADDED", "a")]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        (
            {"sendInitialEvents": "true"},
            422,
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            422,
            'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"',
        ),
        ({"resourceVersionMatch": "NotOlderThan"}, 422, "is forbidden for watch unless sendInitialEvents is provided"),
        ({"resourceVersion": "soon"}, 500, 'resourceVersion: Invalid value: "soon": strconv.ParseUint: parsing "soon"'),
        ({"timeoutSeconds": "soon"}, 400, 'strconv.ParseInt: parsing "soon": invalid syntax'),
        ({"labelSelector": "a in (b"}, 400, "unable to parse requirement: found '', expected: ',' or ')'"),
        ({"fieldSelector": "spec.colour=red"}, 400, "field label not supported: spec.colour"),
    ],
    ids=lambda value: "&".join(value) if isinstance(value, dict) else "",
)
async def test_a_watch_with_bad_parameters_is_refused(
    default: Api, query: dict[str, str], status: int, message: str
) -> None:
    answer = await default.get(default.at("pods"), watch="1", **{"timeoutSeconds": "1", **query})
    assert answer.status == status
    assert message in answer.message


async def test_a_table_watch_tells_columns_once(api: Api) -> None:
    await api.add("pods", pod("a"))
    await api.add("pods", pod("b"))
    first, second = await api.events(api.at("pods"), 2, accept=TABLE)
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][:4] for event in (first, second)] == [
        ["a", "0/1", "Pending", "0"],
        ["b", "0/1", "Pending", "0"],
    ]


async def test_a_metadata_watch_tells_metadata(api: Api) -> None:
    await api.add("pods", pod("a"))
    (event,) = await api.events(api.at("pods"), 1, accept=METADATA)
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"].keys() == {"kind", "apiVersion", "metadata"}


async def test_a_watch_ends_when_its_time_is_over(api: Api) -> None:
    await api.add("pods", pod("a"))
    assert told(await api.events(api.at("pods"), 9, timeoutSeconds="1")) == [("ADDED", "a")]


async def test_many_watchers_see_the_same_changes(api: Api) -> None:
    before = await api.now()
    watching = [asyncio.create_task(api.events(api.at("pods"), 20, resourceVersion=before)) for _ in range(4)]
    await asyncio.gather(*(api.add("pods", pod(f"p{index}")) for index in range(20)))
    first, *others = await asyncio.gather(*watching)
    assert all(told(other) == told(first) for other in others)
    assert {name for _, name in told(first)} == {f"p{index}" for index in range(20)}
