"""Tables: the columns and cells that kubectl shows."""

from typing import Any

import pytest

from tests.contract.client import TABLE, Api, Body, config_map, deployment, job, pod

_WIDE = ["Containers", "Images", "Selector"]
COLUMNS: dict[str, tuple[list[str], list[str]]] = {
    "pods": (["Name", "Ready", "Status", "Restarts", "Age"], ["IP", "Node", "Nominated Node", "Readiness Gates"]),
    "nodes": (
        ["Name", "Status", "Roles", "Age", "Version"],
        ["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"],
    ),
    "deployments": (["Name", "Ready", "Up-to-date", "Available", "Age"], _WIDE),
    "replicasets": (["Name", "Desired", "Current", "Ready", "Age"], _WIDE),
    "jobs": (["Name", "Status", "Completions", "Duration", "Age"], _WIDE),
    "events": (
        ["Last Seen", "Type", "Reason", "Object", "Message"],
        ["Subobject", "Source", "First Seen", "Count", "Name"],
    ),
    "leases": (["Name", "Holder", "Age"], []),
    "namespaces": (["Name", "Status", "Age"], []),
    "configmaps": (["Name", "Data", "Age"], []),
    "secrets": (["Name", "Type", "Data", "Age"], []),
    "poddisruptionbudgets": (["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"], []),
}


@pytest.mark.parametrize("resource", COLUMNS)
async def test_a_table_has_these_columns(default: Api, resource: str) -> None:
    table = (await default.get(default.at(resource), accept=TABLE)).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = table["columnDefinitions"]
    by_priority = [[item["name"] for item in columns if (item["priority"] > 0) is wide] for wide in (False, True)]
    assert by_priority == list(COLUMNS[resource])
    assert [item["format"] for item in columns if item["name"] == "Name"] == ["name"]


async def cells(api: Api, resource: str, name: str) -> list[Any]:
    table = (await api.get(api.at(resource, name), accept=TABLE)).ok()
    (row,) = table["rows"]
    return list(row["cells"])


@pytest.mark.parametrize(
    ("resource", "body", "expected"),
    [
        ("pods", pod("x"), ["x", "0/1", "Pending", "0", *["<none>"] * 4]),
        ("pods", pod("x", spec={"schedulingGates": [{"name": "a"}]}), ["x", "0/1", "SchedulingGated", "0"]),
        ("deployments", deployment("x"), ["x", "0/0", 0, 0, "main", "app:1", "app=x"]),
        ("jobs", job("x"), ["x"]),
        ("leases", {"metadata": {"name": "x"}, "spec": {"holderIdentity": "me"}}, ["x", "me"]),
        ("configmaps", config_map("x"), ["x", 1]),
        ("secrets", {"metadata": {"name": "x"}, "data": {"a": "Yg=="}}, ["x", "Opaque", 1]),
        (
            "poddisruptionbudgets",
            {"metadata": {"name": "x"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"z": "z"}}}},
            ["x", "50%", "N/A", 0],
        ),
    ],
    ids=["pod", "gated pod", "deployment", "job", "lease", "config map", "secret", "budget"],
)
async def test_a_row_shows(api: Api, resource: str, body: Body, expected: list[Any]) -> None:
    await api.add(resource, body)
    found = [cell for cell in await cells(api, resource, "x") if not str(cell).endswith("s") or cell == "x"]
    assert found[: len(expected)] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running", "containerStatuses": [("waiting", {"reason": "CrashLoopBackOff"})]}, "CrashLoopBackOff"),
        ({"phase": "Succeeded", "containerStatuses": [("terminated", {"exitCode": 0, "reason": "Done"})]}, "Done"),
        ({"phase": "Failed", "containerStatuses": [("terminated", {"exitCode": 3})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [("terminated", {"exitCode": 0, "signal": 9})]}, "Signal:9"),
        ({"phase": "Unknown", "reason": "NodeLost"}, "NodeLost"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_the_status_of_a_pod_in_a_word(api: Api, status: Body, expected: str) -> None:
    await api.add("pods", pod("x"))
    fixed = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    containers = [fixed | {"state": {kind: detail}} for kind, detail in status.get("containerStatuses", [])]
    await api.change("pods", "x/status", {"status": status | ({"containerStatuses": containers} if containers else {})})
    assert (await cells(api, "pods", "x"))[2] == expected


async def test_a_terminating_pod_is_shown_so(api: Api) -> None:
    await api.add("pods", pod("x", finalizers=["a.io/x"]))
    (await api.delete(api.at("pods", "x"))).ok()
    assert (await cells(api, "pods", "x"))[2] == "Terminating"


async def test_a_node_shows_its_state_and_roles(api: Api) -> None:
    name = f"node-of-{api.namespace}"
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "other"}
    await api.add("nodes", {"metadata": {"name": name, "labels": labels}})
    assert (await cells(api, "nodes", name))[1:3] == ["Unknown", "other,worker"]
    await api.change("nodes", name, {"spec": {"unschedulable": True}})
    assert (await cells(api, "nodes", name))[1] == "Unknown,SchedulingDisabled"
    (await api.delete(api.at("nodes", name))).ok()


@pytest.mark.parametrize(
    ("include", "carried"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
async def test_a_row_carries_what_is_asked_for(api: Api, include: str, carried: str | None) -> None:
    await api.add("pods", pod("x"))
    (row,) = (await api.get(api.at("pods"), accept=TABLE, includeObject=include)).ok()["rows"]
    assert (row["object"] or {}).get("kind") == carried
