"""Events: two APIs, one store."""

import pytest

from tests.contract.client import Api, Body, causes

_AT = "2026-01-01T00:00:00.000001Z"


def about(api: Api) -> Body:
    return {"kind": "Pod", "namespace": api.namespace, "name": "web", "uid": "u"}


def old(api: Api, **parts: object) -> Body:
    """A core/v1 Event."""
    first = {"metadata": {"name": "old"}, "involvedObject": about(api), "reason": "Failed", "message": "why"}
    return first | {"type": "Warning", "count": 1, "source": {"component": "me"}} | parts


def new(api: Api, **parts: object) -> Body:
    """An events.k8s.io/v1 Event."""
    first = {"metadata": {"name": "new"}, "eventTime": _AT, "regarding": about(api), "reason": "Scheduled"}
    who = {"reportingController": "a.io/b", "reportingInstance": "b-0", "action": "Binding", "type": "Normal"}
    return first | who | {"note": "well"} | parts


async def test_an_old_event_is_seen_in_both_ways(api: Api) -> None:
    made = await api.add("events", old(api))
    assert (made["eventTime"], made["firstTimestamp"], made["reportingComponent"]) == (None, None, "")
    seen = await api.read("new-events", "old")
    assert (seen["apiVersion"], seen["regarding"], seen["note"], seen["deprecatedCount"]) == (
        *("events.k8s.io/v1", about(api), "why", 1),
    )
    assert seen["deprecatedSource"] == {"component": "me"}


async def test_a_new_event_is_seen_in_both_ways(api: Api) -> None:
    made = await api.add("new-events", new(api))
    assert (made["deprecatedFirstTimestamp"], made["deprecatedSource"]) == (None, {})
    seen = await api.read("events", "new")
    assert (seen["apiVersion"], seen["involvedObject"], seen["message"]) == ("v1", about(api), "well")
    assert (seen["reportingComponent"], seen["reportingInstance"], seen["source"]) == ("a.io/b", "b-0", {})


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("involvedObject.kind=Pod,type=Warning", ["failed"]),
        ("involvedObject.kind=Pod,type=Normal,source=kubelet", ["started"]),
    ],
)
async def test_warnings_and_what_kubelets_tell_are_selected(api: Api, selector: str, found: list[str]) -> None:
    await api.add("events", old(api, metadata={"name": "failed"}))
    for name, component in (("started", "kubelet"), ("scheduled", "default-scheduler")):
        parts = {"metadata": {"name": name}, "type": "Normal", "source": {"component": component}}
        await api.add("events", old(api, **parts))
    assert await api.names("events", fieldSelector=selector) == found


async def test_an_old_event_is_counted_up_and_a_new_one_becomes_a_series(api: Api) -> None:
    await api.add("events", old(api))
    assert (await api.change("events", "old", {"count": 2, "message": "again"}))["count"] == 2
    await api.add("new-events", new(api))
    series = {"series": {"count": 2, "lastObservedTime": _AT}}
    assert (await api.change("new-events", "new", series))["series"]["count"] == 2


@pytest.mark.parametrize(
    ("resource", "name", "patch", "cause"),
    [
        ("new-events", "new", {"reason": "Other"}, 'reason: Invalid value: "Other": field is immutable'),
        ("new-events", "new", {"note": "other"}, 'message: Invalid value: "other": field is immutable'),
        ("new-events", "old", {"note": "other"}, 'message: Invalid value: "other": field is immutable'),
    ],
)
async def test_what_a_new_event_says_is_not_unsaid(api: Api, resource: str, name: str, patch: Body, cause: str) -> None:
    await api.add("events", old(api))
    await api.add("new-events", new(api))
    answer = await api.patch(api.at(resource, name), patch)
    assert (answer.status, causes(answer)) == (422, {cause})


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        ({"eventTime": None}, "eventTime: Required value"),
        ({"reportingInstance": ""}, "reportingInstance: Required value"),
        ({"reportingController": "a b"}, 'reportingController: Invalid value: "a b": name part'),
        ({"action": ""}, "action: Required value"),
        ({"action": "x" * 129}, 'action: Invalid value: "": can have at most 128 characters'),
        ({"reason": ""}, "reason: Required value"),
        ({"note": "x" * 1025}, 'message: Invalid value: "": can have at most 1024 characters'),
        ({"type": "Odd"}, 'type: Invalid value: "": has invalid value: Odd'),
        ({"regarding": None}, 'involvedObject.namespace: Invalid value: "": does not match event.namespace'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_new_event_says_all_that_it_must(api: Api, parts: Body, cause: str) -> None:
    answer = await api.post(api.at("new-events"), new(api, **parts), dryRun="All")
    assert (answer.status, causes(answer)) == (422, {cause})


@pytest.mark.parametrize(
    ("namespace", "cause"),
    [
        ("other", 'involvedObject.namespace: Invalid value: "other": does not match event.namespace'),
        ("", 'involvedObject.namespace: Invalid value: "": does not match event.namespace'),
    ],
)
async def test_an_old_event_lies_where_its_object_lies(api: Api, namespace: str, cause: str) -> None:
    body = old(api, involvedObject=about(api) | {"namespace": namespace})
    answer = await api.post(api.at("events"), body, dryRun="All")
    assert (answer.status, causes(answer)) == (422, {cause})


async def test_an_old_event_may_say_little(api: Api) -> None:
    made = await api.add("events", {"metadata": {"name": "bare"}, "involvedObject": about(api)})
    assert {key: made[key] for key in ("source", "firstTimestamp", "lastTimestamp", "eventTime")} == {
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
    }


@pytest.mark.parametrize(
    ("resource", "selector", "found"),
    [
        ("events", "involvedObject.name=web,reason=Failed", ["old"]),
        ("events", "involvedObject.kind=Pod", ["new", "old"]),
        ("events", "type=Warning", ["old"]),
        ("events", "involvedObject.uid=other", []),
        ("events", "reportingComponent=a.io/b", ["new"]),
        ("new-events", "regarding.name=web", ["new", "old"]),
        ("new-events", "reason=Scheduled", ["new"]),
    ],
)
async def test_events_are_found(api: Api, resource: str, selector: str, found: list[str]) -> None:
    await api.add("events", old(api))
    await api.add("new-events", new(api))
    assert await api.names(resource, fieldSelector=selector) == found
