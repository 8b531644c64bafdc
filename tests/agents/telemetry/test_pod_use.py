"""Use of single pods from a kubelet's summary and from metrics.k8s.io: what is not told is unknown, never 0."""

import json
from typing import Any

import pytest

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Sample
from agents.observer.owner_uses import PodUse
from agents.observer.seen import NodeTarget
from agents.telemetry.kubelet import read_summary
from agents.telemetry.metrics_api import read_pod_metrics
from agents.telemetry.source import SourceError

TIME, SECONDS = "2026-01-01T00:00:00Z", 1767225600.0
REFERENCE = {"name": "web-1", "namespace": "shop", "uid": "u"}


def summary(*pods: dict[str, Any]) -> bytes:
    return json.dumps({"node": {"nodeName": "n1"}, "pods": [{"podRef": REFERENCE, **one} for one in pods]}).encode()


def listed(*containers: dict[str, str]) -> bytes:
    metadata = {"name": "web-1", "namespace": "shop"}
    items = [{"metadata": metadata, "timestamp": TIME, "containers": [{"usage": one} for one in containers]}]
    return json.dumps({"items": items}).encode()


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (
            {"cpu": {"time": TIME, "usageNanoCores": 250_000_000}, "memory": {"workingSetBytes": 1024}},
            PodUse("shop", "web-1", 0.25, 1024.0, SECONDS),
        ),
        ({"cpu": {"time": "odd", "usageNanoCores": -5e9}}, PodUse("shop", "web-1", -5.0, None)),
        ({"memory": {"workingSetBytes": 1e30}}, PodUse("shop", "web-1", None, 1e30)),
        ({"cpu": None, "memory": None}, PodUse("shop", "web-1", None, None)),
    ],
)
def test_a_summary_tells_what_its_pods_use(pod: dict[str, Any], want: PodUse) -> None:
    assert read_summary(summary(pod)).pods == [want]


def test_a_summary_without_pods_is_one_of_the_node() -> None:
    assert read_summary(b'{"node": {}}').pods == read_summary(b'{"node": {}, "pods": null}').pods == []


def test_pod_metrics_add_up_containers_and_are_unknown_where_one_is() -> None:
    one, other = {"cpu": "100m", "memory": "1Ki"}, {"cpu": "150000000n", "memory": "2Ki"}
    assert read_pod_metrics(listed(one, other)) == [PodUse("shop", "web-1", 0.25, 3072.0, SECONDS)]
    assert read_pod_metrics(listed(one, {"cpu": "lots"})) == [PodUse("shop", "web-1", None, None, SECONDS)]
    assert read_pod_metrics(listed()) == [PodUse("shop", "web-1", None, None, SECONDS)]
    assert read_pod_metrics(b'{"items": null}') == []
    with pytest.raises(SourceError, match="cannot be read"):
        read_pod_metrics(b"<html>")


def test_samples_of_pods_reach_who_learns_from_them_with_the_time_and_the_node_of_the_answer() -> None:
    loads, told = Loads(ChangeLog(), tau_s=0), list[tuple[list[PodUse], float, str]]()
    loads.on_pods = lambda pods, now, node: told.append((list(pods), now, node))
    loads.add(NodeTarget("n1"), Sample("kubelet", {}, [PodUse("shop", "web-1", 0.1, 5.0)]), 7.0)
    loads.add(NodeTarget("n1"), Sample("kubelet", {}), 8.0)
    assert told == [([PodUse("shop", "web-1", 0.1, 5.0)], 7.0, "n1")]
