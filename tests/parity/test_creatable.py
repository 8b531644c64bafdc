"""Manifests that came out of an API server can be created again."""

from typing import Any

import pytest

from tests.parity.creatable import creatable, status_of


def pod(**spec: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7", "labels": {"app": "x", "rev": "1"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [], **spec}}


def test_what_a_server_has_written_is_left_out() -> None:
    made = creatable({**pod(), "status": {"phase": "Running"}})
    assert made["metadata"] == {"name": "p", "namespace": "a", "labels": {"app": "x", "rev": "1"}}
    assert "status" not in made


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "global-dispatcher"),
        ({"schedulerName": "default-scheduler"}, "global-dispatcher"),
        ({"schedulerName": "global-dispatcher-most"}, "global-dispatcher-most"),
        ({"schedulerName": "default-scheduler", "nodeName": "n"}, "default-scheduler"),
    ],
    ids=["none", "another", "a profile", "bound already"],
)
def test_pending_pods_are_given_to_the_scheduler_under_test(spec: dict[str, Any], name: str) -> None:
    assert creatable(pod(**spec))["spec"]["schedulerName"] == name


@pytest.mark.parametrize(("given", "kept"), [(0, None), (5, 5), (None, None)])
def test_a_victim_is_given_time_to_be_seen_going(given: int | None, kept: int | None) -> None:
    """With no time at all it is gone at once, and nobody knows that it was one; the API server's default is 30 s."""
    spec = {} if given is None else {"terminationGracePeriodSeconds": given}
    assert creatable(pod(nodeName="n", **spec))["spec"].get("terminationGracePeriodSeconds") == kept


def test_label_keys_that_are_clauses_already_are_not_given_twice() -> None:
    clause = {"key": "rev", "operator": "In", "values": ["1"]}
    rule = {"labelSelector": {"matchExpressions": [clause]}, "matchLabelKeys": ["rev", "app"]}
    made = creatable(pod(topologySpreadConstraints=[rule]))["spec"]["topologySpreadConstraints"]
    assert made == [{"labelSelector": {"matchExpressions": [clause]}, "matchLabelKeys": ["app"]}]
    assert rule["matchLabelKeys"] == ["rev", "app"]


@pytest.mark.parametrize(
    ("kind", "status", "written"),
    [
        ("Pod", {"phase": "Pending"}, None),
        ("Pod", {"nominatedNodeName": "n", "phase": "Pending"}, {"nominatedNodeName": "n"}),
        ("Node", {"allocatable": {}}, None),
        ("PersistentVolumeClaim", {"phase": "Bound"}, {"phase": "Bound"}),
    ],
)
def test_a_status_is_written_where_the_creation_cannot(kind: str, status: dict[str, Any], written: object) -> None:
    assert status_of({"kind": kind, "spec": {}, "status": status}) == written


def test_a_pod_on_a_node_keeps_its_status() -> None:
    status = {"phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}
    assert status_of({**pod(nodeName="n"), "status": status}) == status


def test_what_no_server_could_read_is_left_for_it_to_refuse() -> None:
    assert creatable(pod(affinity=[1], topologySpreadConstraints=7))["spec"]["affinity"] == [1]


def test_of_a_service_the_selector_is_kept_and_no_address() -> None:
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "clusterIP": "10.0.0.9"}}
    assert creatable(service)["spec"] == {"clusterIP": "None", "ports": [{"port": 1}], "selector": {"a": "b"}}


def test_a_number_is_no_priority_where_a_class_is_named() -> None:
    made = creatable(pod(priorityClassName="high", priority=7, preemptionPolicy="Never"))["spec"]
    assert (made["priorityClassName"], "priority" in made, "preemptionPolicy" in made) == ("high", False, False)
