"""Nodes from the API: placement's half and telemetry's half."""

import pytest

from agents.kube.nodes import MAX_METRICS, node_seen
from agents.observer.seen import NodeSeen, NodeTarget
from shared.messages import Changes, decode, encode
from shared.model import names
from shared.model.node import NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Taint
from shared.model.resources import MAX_QUANTITY
from tests.agents.kube.objects import Object, node_object, raw


def seen_of(thing: Object) -> NodeSeen:
    """What the converter makes of a node."""
    seen = node_seen(raw(thing))
    assert seen is not None
    return seen


def test_a_node_is_split_into_what_placement_and_what_telemetry_needs() -> None:
    seen = seen_of(
        node_object(
            metadata={"labels": {names.ZONE: "z1"}, "annotations": {names.BANDWIDTH: "125M"}},
            spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            status={
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10999}},
                "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "110", "nvidia.com/gpu": "2"},
                "images": [{"names": ["app@sha256:1", "app:1"], "sizeBytes": 5}],
            },
        )
    )
    node = seen.node
    assert (node.ready, node.unschedulable, node.taints[0].key) == (True, True, "k")
    assert node.allocatable == {"cpu": 3900, "memory": 7 * 2**30, "pods": 110, "nvidia.com/gpu": 2}
    assert node.images == {"app@sha256:1": 5, "app:1": 5}
    assert seen.target == NodeTarget("n1", "127.0.0.1", 10999, 4000, 8 * 2**30, 125_000_000, ("127.0.0.1",))


@pytest.mark.parametrize("text", ["9223372036854775807", "8Ei", "8E", "5E"])
def test_a_node_without_a_limit_has_as_much_as_is_counted(text: str) -> None:
    seen = seen_of(node_object(status={"allocatable": {"cpu": text, "example.com/seats": text}}))
    assert seen.node.allocatable == {"cpu": MAX_QUANTITY, "example.com/seats": MAX_QUANTITY}
    assert not seen.problems


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_is_ready_only_when_it_says_true(status: str) -> None:
    assert not seen_of(node_object(status={"conditions": [{"type": "Ready", "status": status}]})).node.ready


@pytest.mark.parametrize(
    ("kind", "effect"),
    [
        ("DrainInProgress", NO_SCHEDULE),
        ("Drained", NO_SCHEDULE),
        ("MaintenancePlanned", PREFER_NO_SCHEDULE),
        ("MaintenanceInProgress", PREFER_NO_SCHEDULE),
    ],
)
def test_a_node_that_is_being_emptied_counts_as_tainted_and_one_that_may_be_as_less_liked(
    kind: str, effect: str
) -> None:
    def seen(status: str) -> Node:
        conditions = [{"type": "Ready", "status": "True"}, {"type": kind, "status": status}]
        return seen_of(node_object(status={"conditions": conditions})).node

    assert seen("True").taints == (Taint(f"condition.global-dispatcher.io/{kind}", "", effect),)
    assert not seen("False").taints
    assert seen("True").ready


def test_a_node_of_which_nothing_is_said_is_ready() -> None:
    assert seen_of(node_object(status={"allocatable": {"cpu": "1"}})).node.ready


def test_a_proxy_node_is_nobody_to_ask_for_readings() -> None:
    seen = seen_of(node_object(metadata={"name": WEST, "labels": {names.PROXY_LABEL: "west"}}))
    assert (seen.node.proxy_for, seen.target) == ("west", None)


WEST = names.proxy_node_name("west")
OURS = {"key": names.PROXY_TAINT, "value": "west", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("name", "label", "taints", "behind"),
    [
        pytest.param(WEST, "west", [OURS], "west", id="as its agent made it"),
        pytest.param(WEST, "", [OURS], "west", id="somebody took the label off"),
        pytest.param(WEST, "east", [OURS], "west", id="somebody wrote another label"),
        pytest.param(WEST, "west", [], "west", id="somebody took the taint off"),
        pytest.param(WEST, "", [], "", id="a machine of that name"),
        pytest.param(WEST, "", [{**OURS, "key": "team"}], "", id="a machine with a taint"),
        pytest.param("n1", "west", [OURS], "", id="a machine of another name with our marks"),
    ],
)
def test_a_proxy_node_is_one_with_our_mark_and_its_name(
    name: str, label: str, taints: list[Object], behind: str
) -> None:
    labels = {names.PROXY_LABEL: label} if label else {}
    seen = seen_of(node_object(metadata={"name": name, "labels": labels}, spec={"taints": taints}))
    assert (seen.node.proxy_for, seen.target is None) == (behind, bool(behind))


METRIC = names.METRIC_PREFIX


@pytest.mark.parametrize(
    ("text", "value"), [("120.5", 120.5), ("-3", -3), ("1e3", 1000), ("500m", 0.5), ("2Gi", 2**31), ("0", 0)]
)
def test_an_annotation_may_tell_a_number_about_the_node(text: str, value: float) -> None:
    seen = seen_of(node_object(metadata={"annotations": {f"{METRIC}watts": text, "other.io/watts": "1"}}))
    assert (seen.node.metrics, seen.problems) == ({"watts": value}, ())


@pytest.mark.parametrize("text", ["much", "", "nan", "inf", "-1Gi", "1" * 41])
def test_an_annotation_that_tells_no_number_is_named(text: str) -> None:
    seen = seen_of(node_object(metadata={"annotations": {f"{METRIC}watts": text}}))
    assert seen.node.metrics == {}
    assert f"metadata.annotations[{METRIC}watts]: " in seen.problems[0]


def test_more_metrics_than_anybody_needs_are_left_out() -> None:
    many = {f"{METRIC}m{at:03}": "1" for at in range(MAX_METRICS + 1)}
    seen = seen_of(node_object(metadata={"annotations": many}))
    assert list(seen.node.metrics) == [f"m{at:03}" for at in range(MAX_METRICS)]
    assert f"more than {MAX_METRICS} metrics" in seen.problems[0]


def test_an_unreadable_quantity_costs_that_resource_and_is_named() -> None:
    seen = seen_of(node_object(status={"allocatable": {"cpu": "1e999999", "memory": "1Gi"}}))
    assert seen.node.allocatable == {"memory": 2**30}
    assert "status.allocatable[cpu]" in seen.problems[0]


def test_a_resource_whose_name_is_too_long_to_be_told_costs_that_resource_alone() -> None:
    told = seen_of(node_object(status={"allocatable": {"cpu": "1", "example.com/" + "x" * 600: "1"}}))
    assert told.node.allocatable == {"cpu": 1000}
    assert "longer than 512 characters" in told.problems[0]
    report = Changes("east", "uid", "one", 0, 1, full=True, nodes=(told.node,))
    assert decode(Changes, encode(report)) == report


def test_an_unreadable_node_stays_known_as_not_ready() -> None:
    seen = seen_of(node_object(status={"conditions": "none"}))
    assert (seen.node.name, seen.node.ready, seen.target) == ("n1", False, None)
    assert "cannot be read" in seen.problems[0]
