"""pods/ephemeralcontainers and pods/resize: what may change of a pod that runs."""

from typing import Any

import pytest

from tests.contract.client import STRATEGIC, Api, Body, pod

DEBUG = {"name": "debug", "image": "b", "targetContainerName": "main"}


def debug(*containers: Body, **meta: Any) -> Body:
    return {"metadata": meta, "spec": {"ephemeralContainers": list(containers)}}


def main_of(found: Body) -> str:
    return str(found["spec"]["containers"][0]["name"])


async def test_a_debug_container_is_added_by_its_own_part_which_changes_nothing_else(api: Api) -> None:
    made = await api.add("pods", pod(labels={"l": "1"}))
    container = {**DEBUG, "targetContainerName": main_of(made)}
    body = debug(container, labels={"l": "2"})
    body["spec"] |= {"activeDeadlineSeconds": 5}
    changed = await api.change("pods", "web/ephemeralcontainers", body, STRATEGIC)
    (added,) = changed["spec"]["ephemeralContainers"]
    assert (added["name"], added["image"], added["targetContainerName"]) == ("debug", "b", main_of(made))
    assert changed["metadata"]["labels"] == {"l": "1"}
    assert "activeDeadlineSeconds" not in changed["spec"]
    more = await api.change("pods", "web/ephemeralcontainers", debug({"name": "more", "image": "c"}), STRATEGIC)
    assert {one["name"] for one in more["spec"]["ephemeralContainers"]} == {"debug", "more"}


async def test_one_that_is_there_is_neither_changed_nor_removed_nor_added_elsewhere(api: Api) -> None:
    made = await api.add("pods", pod())
    container = {**DEBUG, "targetContainerName": main_of(made)}
    await api.change("pods", "web/ephemeralcontainers", debug(container), STRATEGIC)
    path = api.at("pods", "web", "ephemeralcontainers")
    answers = [
        await api.patch(path, debug({**container, "image": "other"}), STRATEGIC),
        await api.patch(path, {"spec": {"ephemeralContainers": None}}, STRATEGIC),
        await api.patch(path, debug({"name": main_of(made), "image": "b"}), STRATEGIC),
        await api.patch(api.at("pods", "web"), debug({"name": "more", "image": "c"}), STRATEGIC),
    ]
    assert [one.status for one in answers] == [422] * 4


async def test_a_stale_version_and_another_uid_add_nothing(api: Api) -> None:
    made = await api.add("pods", pod())
    await api.change("pods", "web", {"metadata": {"labels": {"a": "b"}}})
    path = api.at("pods", "web", "ephemeralcontainers")
    container = {"name": "debug", "image": "b"}
    late = await api.patch(path, debug(container, resourceVersion=made["metadata"]["resourceVersion"]), STRATEGIC)
    other = await api.patch(path, debug(container, uid="another"), STRATEGIC)
    assert late.status == 409
    assert other.status in (409, 422)
    assert "ephemeralContainers" not in (await api.read("pods", "web"))["spec"]


@pytest.mark.since("1.33")
async def test_resources_are_changed_by_their_own_part_alone(api: Api) -> None:
    spec = {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    await api.add("pods", pod(spec=spec))
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    refused = await api.patch(api.at("pods", "web"), change, STRATEGIC)
    assert refused.status == 422
    change["spec"]["containers"][0]["image"] = "other"
    changed = await api.change("pods", "web/resize", change, STRATEGIC)
    (container,) = changed["spec"]["containers"]
    assert (container["image"], container["resources"]["requests"]) == ("a", {"cpu": "2", "memory": "1Gi"})


@pytest.mark.since("1.33")
async def test_a_resize_is_held_to_a_version(api: Api) -> None:
    spec = {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}]}
    made = (await api.add("pods", pod(spec=spec)))["metadata"]
    await api.change("pods", "web", {"metadata": {"labels": {"a": "b"}}})
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    guard = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    late = await api.patch(api.at("pods", "web", "resize"), {**change, "metadata": guard}, STRATEGIC)
    assert late.status == 409
    guard["resourceVersion"] = (await api.read("pods", "web"))["metadata"]["resourceVersion"]
    assert (await api.change("pods", "web/resize", {**change, "metadata": guard}, STRATEGIC))["spec"]["containers"]


async def test_a_status_comes_with_annotations_and_takes_conditions_off_that_may_not_be_there(api: Api) -> None:
    made = await api.add("pods", pod(annotations={"a": "b"}))
    pending = {"type": "PodResizePending", "status": "True"}
    off = [{"type": kind, "$patch": "delete"} for kind in ("PodResizePending", "PodResizeInProgress")]
    guard = {"uid": made["metadata"]["uid"]}
    body = {"metadata": {**guard, "annotations": {"c": None}}, "status": {"conditions": off}}
    assert (await api.change("pods", "web/status", body, STRATEGIC))["metadata"]["annotations"] == {"a": "b"}
    debug_status = [{"name": "debug", "image": "b", "imageID": "", "ready": False, "restartCount": 0, "state": {}}]
    shown = {"conditions": [pending], "ephemeralContainerStatuses": debug_status}
    body = {"metadata": {**guard, "annotations": {"c": "d"}}, "status": shown}
    changed = await api.change("pods", "web/status", body, STRATEGIC)
    assert changed["metadata"]["annotations"] == {"a": "b", "c": "d"}
    assert [one["name"] for one in changed["status"]["ephemeralContainerStatuses"]] == ["debug"]
    body = {"metadata": {**guard, "annotations": {"c": None}}, "status": {"conditions": off}}
    changed = await api.change("pods", "web/status", body, STRATEGIC)
    assert not [one for one in changed["status"].get("conditions") or () if one["type"] == "PodResizePending"]
    assert changed["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.since("1.34")
async def test_a_status_says_of_a_generation_and_its_addresses_are_replaced_as_a_whole(api: Api) -> None:
    made = await api.add("pods", pod())
    assert made["metadata"]["generation"] == 1
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    two = [{"ip": "192.168.0.1"}, {"ip": "fd00::1"}]
    shown = {"observedGeneration": 1, "conditions": [ready], "hostIP": "192.168.0.1", "hostIPs": two}
    await api.change("pods", "web/status", {"status": shown}, STRATEGIC)
    one = {"hostIP": "192.168.0.2", "hostIPs": [{"ip": "192.168.0.2"}, {"$patch": "replace"}]}
    less = {"conditions": [{"type": "Ready", "status": "False"}], **one}
    changed = (await api.change("pods", "web/status", {"status": less}, STRATEGIC))["status"]
    assert (changed["hostIP"], changed["hostIPs"]) == ("192.168.0.2", [{"ip": "192.168.0.2"}])
    assert (changed["observedGeneration"], changed["conditions"][-1]["observedGeneration"]) == (1, 1)
    gone = {"hostIP": None, "hostIPs": [{"$patch": "replace"}]}
    changed = (await api.change("pods", "web/status", {"status": gone}, STRATEGIC))["status"]
    assert (changed.get("hostIP", ""), changed.get("hostIPs", [])) == ("", [])
