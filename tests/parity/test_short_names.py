"""A label that has the name of one of our levels is, in a field of Kubernetes, that label and nothing else."""

from typing import Any

import pytest

from shared.model import names
from tests.parity.case import Case, Object
from tests.parity.oracle.defaulting import defaulted
from tests.parity.oracle.judge import Oracle
from tests.parity.ours import OurSide

NAMES = ("rack", "zone", "region", "provider", "host", "cluster", "zones")
WEB = {"app": "web"}
SELECTOR = {"matchLabels": WEB}
LACKS = "node(s) didn't match pod topology spread constraints (missing required label)"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, **labels: str) -> Object:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "labels": {names.HOSTNAME: name, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def pod(name: str, **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default", "labels": dict(WEB)}
    containers = [{"name": "c", "image": "nginx:latest"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def spread(key: str) -> Object:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    return pod("asks", topologySpreadConstraints=[rule])


def tied(kind: str, key: str) -> Object:
    return pod("asks", affinity={kind: {REQUIRED: [{"topologyKey": key, "labelSelector": SELECTOR}]}})


def judged(asking: Object, nodes: list[Object]) -> tuple[set[str], str]:
    """The nodes that are open to the pod, and its message; one pod of app web runs on n1. As the oracle has it, too."""
    case = defaulted(Case(nodes=nodes, bound=[pod("there", nodeName="n1")], pending=[asking]))
    ours, oracle = OurSide(case).judge(case.pending[0]), Oracle(case).judge(case.pending[0])
    assert (ours.feasible, ours.message) == (oracle.feasible, oracle.message)
    return set(ours.feasible or ()), ours.message


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("make", "want"),
    [
        pytest.param(spread, {"n3"}, id="topologySpreadConstraints"),
        pytest.param(lambda key: tied("podAntiAffinity", key), {"n3"}, id="podAntiAffinity"),
        pytest.param(lambda key: tied("podAffinity", key), {"n1", "n2"}, id="podAffinity"),
    ],
)
def test_nodes_lie_in_the_domains_that_the_label_says(name: str, make: Any, want: set[str]) -> None:
    """All of them in one zone, region and so on: the label behind the level says nothing here."""
    levels = {names.ZONE: "z", names.REGION: "r", names.RACK: "k", names.PROVIDER: "p"}
    nodes = [node(at, **levels, **{name: value}) for at, value in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
    assert judged(make(name), nodes)[0] == want


@pytest.mark.parametrize("name", NAMES)
def test_the_message_about_a_label_that_no_node_has_is_kube_schedulers(name: str) -> None:
    nodes = [node("n1", **{names.ZONE: "z"})]
    helped = f"0/1 nodes are available: 1 {LACKS}."
    assert judged(spread(name), nodes) == (set(), helped)


@pytest.mark.parametrize("name", NAMES)
def test_a_node_selector_means_that_label_as_well(name: str) -> None:
    nodes = [node("n1", **{names.ZONE: "a"}), node("n2", **{name: "a"})]
    assert judged(pod("asks", nodeSelector={name: "a"}), nodes)[0] == {"n2"}
