"""The status of pods and nodes, and the taints and labels that come with nodes."""

from typing import Any

import pytest

from tests.contract.client import STRATEGIC, Api, Body, causes, pod

SAID: Body = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
_STARTED = "2026-01-01T00:00:00Z"
RUNNING: Body = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "podIPs": [{"ip": "10.0.0.1"}],
    "hostIP": "10.0.0.2",
    "startTime": _STARTED,
    "containerStatuses": [
        {
            "name": "main",
            "ready": True,
            "restartCount": 0,
            "image": "app:1",
            "imageID": "",
            "state": {"running": {"startedAt": _STARTED}},
        }
    ],
}


async def test_a_pods_status_alone_comes_in_by_its_own_door(api: Api) -> None:
    before = await api.add("pods", pod())
    patch = {
        "spec": {"schedulerName": "other"},
        "metadata": {"labels": {"via": "status"}, "annotations": {"a": "b"}},
        "status": {"conditions": [SAID]},
    }
    after = await api.change("pods", "web/status", patch)
    assert after["spec"] == before["spec"]
    assert (after["metadata"]["labels"], after["metadata"]["annotations"]) == ({"via": "status"}, {"a": "b"})
    assert after["status"]["conditions"] == [SAID | {"lastProbeTime": None, "lastTransitionTime": None}]


async def test_conditions_merge_by_type_and_the_new_one_comes_first(api: Api) -> None:
    await api.add("pods", pod())
    await api.change("pods", "web/status", {"status": {"conditions": [SAID]}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    both = await api.change("pods", "web/status", ready, STRATEGIC)
    assert [item["type"] for item in both["status"]["conditions"]] == ["Ready", "PodScheduled"]
    less = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    one = await api.change("pods", "web/status", less, STRATEGIC)
    assert [item["type"] for item in one["status"]["conditions"]] == ["PodScheduled"]


async def test_a_mirrored_status_is_kept_as_it_was_sent(api: Api) -> None:
    await api.add("pods", pod())
    status = (await api.change("pods", "web/status", {"status": RUNNING}))["status"]
    assert {key: status[key] for key in RUNNING if key != "containerStatuses"} == {
        key: value for key, value in RUNNING.items() if key != "containerStatuses"
    }
    (container,) = status["containerStatuses"]
    assert container == RUNNING["containerStatuses"][0] | {"lastState": {}}


@pytest.mark.parametrize(
    ("patch", "cause"),
    [
        (
            {"podIP": "x", "podIPs": [{"ip": "x"}]},
            'status.podIPs[0]: Invalid value: "x": must be a valid IP address,',
        ),
        (
            {"nominatedNodeName": "Bad!"},
            'status.nominatedNodeName: Invalid value: "Bad!": a lowercase RFC 1123 subdomain',
        ),
        pytest.param(
            {"qosClass": "Guaranteed"},
            'status.qosClass: Invalid value: "Guaranteed": field is immutable',
            marks=pytest.mark.since("1.32"),
        ),
    ],
    ids=["address", "node", "quality"],
)  # fmt: skip
async def test_a_status_that_cannot_be_is_refused(api: Api, patch: Body, cause: str) -> None:
    before = await api.add("pods", pod())
    answer = await api.patch(api.at("pods", "web", "status"), {"status": patch})
    assert (answer.status, causes(answer)) == (422, {cause})
    assert await api.read("pods", "web") == before


@pytest.mark.since("1.32")
async def test_a_status_that_is_taken_away_keeps_the_quality_of_service(api: Api) -> None:
    await api.add("pods", pod())
    assert (await api.change("pods", "web/status", {"status": None}))["status"] == {"qosClass": "Burstable"}


@pytest.mark.parametrize(
    ("meta", "status"), [({"resourceVersion": "1"}, 409), ({"uid": "another"}, 422)], ids=["version", "uid"]
)
async def test_a_guarded_status_of_another_state_is_refused(api: Api, meta: Body, status: int) -> None:
    await api.add("pods", pod())
    answer = await api.patch(api.at("pods", "web", "status"), {"metadata": meta, "status": {"message": "m"}})
    assert answer.status == status


@pytest.mark.parametrize("phase", ["Running", "Failed", "Pending"])
async def test_an_ended_pod_may_be_told_otherwise(api: Api, phase: str) -> None:
    await api.add("pods", pod())
    await api.change("pods", "web/status", {"status": {"phase": "Succeeded"}})
    assert (await api.change("pods", "web/status", {"status": {"phase": phase}}))["status"]["phase"] == phase


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
        ({"cpu": "0"}, {}, "BestEffort"),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, "BestEffort"),
    ],
)
async def test_quality_of_service(default: Api, requests: Body, limits: Body, quality: str) -> None:
    container = {"name": "a", "image": "b", "resources": {"requests": requests, "limits": limits}}
    answer = await default.post(default.at("pods"), pod(spec={"containers": [container]}), dryRun="All")
    assert answer.ok()["status"]["qosClass"] == quality


async def test_limits_stand_for_requests_that_are_not_given(default: Api) -> None:
    container = {"name": "a", "image": "b", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}
    made = (await default.post(default.at("pods"), pod(spec={"containers": [container]}), dryRun="All")).ok()
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def new_node(api: Api, **parts: Any) -> str:
    """A node that nobody plays."""
    name = f"node-of-{api.namespace}"
    await api.add("nodes", {"metadata": {"name": name}, **parts})
    return name


@pytest.mark.parametrize("ready", ["True", "False", None])
async def test_a_new_node_begins_tainted_whatever_it_says(api: Api, ready: str | None) -> None:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    body = {"metadata": {"name": "dry"}, "status": {"conditions": conditions}}
    made = (await api.post(api.at("nodes"), body, dryRun="All")).ok()
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_a_node_that_reports_ready_loses_its_taint(api: Api) -> None:
    name = await new_node(api)
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    await api.change("nodes", f"{name}/status", {"status": {"conditions": [ready]}})
    await api.until("nodes", name, lambda node: not node["spec"].get("taints"))
    (await api.delete(api.at("nodes", name))).ok()


async def test_a_nodes_capacity_comes_in_by_its_status_alone(api: Api) -> None:
    name = await new_node(api, status={"capacity": {"cpu": "8"}})
    assert (await api.change("nodes", name, {"status": {"capacity": {"cpu": "9"}}}))["status"]["capacity"] == {
        "cpu": "8"
    }
    patch = {
        "status": {"capacity": {"a.io/b": "3"}},
        "spec": {"unschedulable": True},
        "metadata": {"labels": {"a": "b"}},
    }
    after = await api.change("nodes", f"{name}/status", patch)
    assert after["status"]["capacity"] == {"cpu": "8", "a.io/b": "3"}
    assert "unschedulable" not in after["spec"]
    assert after["metadata"]["labels"]["a"] == "b"
    (await api.delete(api.at("nodes", name))).ok()


async def test_a_change_of_a_node_that_is_refused(api: Api) -> None:
    name = await new_node(api)
    answer = await api.patch(api.at("nodes", name), {"spec": {"taints": [{"key": "a", "effect": "Bad"}]}})
    cause = 'metadata.taints[0].effect: Unsupported value: "Bad": '
    cause += 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
    assert (answer.status, causes(answer)) == (422, {cause})
    (await api.delete(api.at("nodes", name))).ok()


async def test_every_node_keeps_a_fresh_lease(api: Api) -> None:
    for name in await api.names("nodes"):
        if name.startswith("node-of-"):
            continue
        lease = (await api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")).ok()
        assert lease["spec"]["holderIdentity"]
        assert lease["spec"]["renewTime"]
