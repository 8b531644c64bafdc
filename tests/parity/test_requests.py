"""What a pod takes of its node by kube-scheduler's PodRequests: our reading and the oracle's, each with a figure."""

from typing import Any

import pytest

from shared.model.resources import CPU, MEMORY
from tests.parity.case import Case, Object
from tests.parity.oracle.defaulting import defaulted
from tests.parity.oracle.judge import Oracle
from tests.parity.oracle.requests import expected, requests
from tests.parity.ours import OurSide

MIB = 2**20
Amount = tuple[int, int]  # milli-CPU, MiB


def asks(name: str = "c", **amounts: str) -> Object:
    return {"name": name, "image": "app:1", "resources": {"requests": amounts}}


def told(name: str = "c", allotted: Object | None = None, **has: str) -> Object:
    more = {"allocatedResources": allotted} if allotted else {}
    return {"name": name, "resources": {"requests": has}, **more}


def on_a_node(status: Object, *containers: Object, **spec: Any) -> Object:
    meta = {"name": "p", "namespace": "default", "uid": "u"}
    made = {"containers": list(containers), "nodeName": "n1", **spec}
    return {"kind": "Pod", "metadata": meta, "spec": made, "status": {"phase": "Running", **status}}


SIDECAR = {**asks("s", cpu="300m"), "restartPolicy": "Always"}
WHOLE = {"resources": {"requests": {"memory": "1Gi"}}}
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
GROWN = {"containerStatuses": [told(cpu="2", memory="300Mi")]}


@pytest.mark.parametrize(
    ("pod", "asked", "reckoned"),
    [
        pytest.param(
            on_a_node({}, asks(), initContainers=[SIDECAR], **WHOLE),
            (300, 1024),
            (300, 1024),
            id="memory of the pod beside a sidecar's CPU",
        ),
        pytest.param(
            on_a_node({"initContainerStatuses": [told("s", cpu="700m")]}, asks(), initContainers=[SIDECAR], **WHOLE),
            (700, 1024),
            (700, 1024),
            id="and the sidecar resized",
        ),
        pytest.param(
            on_a_node({"initContainerStatuses": [told("s")]}, asks(), initContainers=[SIDECAR], **WHOLE),
            (300, 1024),
            (300, 1024),
            id="and the sidecar has nothing yet",
        ),
        pytest.param(
            on_a_node(
                {"initContainerStatuses": [told("s")], "conditions": INFEASIBLE},
                asks(),
                initContainers=[SIDECAR],
                **WHOLE,
            ),
            (0, 1024),
            (200, 1024),
            id="and cannot get it: the default for both containers",
        ),
        pytest.param(on_a_node(GROWN, asks(cpu="1")), (2000, 300), (2000, 300), id="a container that has more"),
        pytest.param(
            on_a_node({**GROWN, "conditions": DEFERRED}, asks(cpu="3")), (3000, 300), (3000, 300), id="grows later"
        ),
        pytest.param(
            on_a_node({**GROWN, "conditions": INFEASIBLE}, asks(cpu="3")), (2000, 300), (2000, 300), id="cannot grow"
        ),
        pytest.param(
            on_a_node({"containerStatuses": [told(allotted={"cpu": "4"}, cpu="1")]}, asks(cpu="1")),
            (4000, 0),
            (4000, 200),
            id="is allotted more",
        ),
        pytest.param(
            on_a_node(
                {"initContainerStatuses": [told("i", cpu="9")]}, asks(cpu="1"), initContainers=[asks("i", cpu="2")]
            ),
            (9000, 0),
            (9000, 200),
            id="an init container is resized, too",
        ),
        pytest.param(
            on_a_node({**GROWN, "resources": {"requests": {"memory": "2Gi"}}}, asks(cpu="1"), **WHOLE),
            (2000, 2048),
            (2000, 2048),
            id="the pod as a whole is resized",
        ),
    ],
)
def test_a_pod_on_a_node_takes(pod: Object, asked: Amount, reckoned: Amount) -> None:
    assert in_mib(requests(pod)) == asked
    assert in_mib(expected(pod)) == reckoned
    ours = OurSide(fleet(pod)).fleet
    assert in_mib(dict(zip(ours.axis.names, ours.requested[:, 0].tolist(), strict=True))) == asked
    assert in_mib(dict(zip((CPU, MEMORY), ours.nonzero[:, 0].tolist(), strict=True))) == reckoned


def in_mib(found: dict[str, int]) -> Amount:
    return found.get(CPU, 0), found.get(MEMORY, 0) // MIB


def fleet(*bound: Object, pending: Object | None = None) -> Case:
    room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}, "status": status}
    return defaulted(Case(nodes=[node], bound=list(bound), pending=[pending] if pending else []))


def test_nine_exabytes_are_insufficient_and_not_invalid() -> None:
    meta = {"name": "p", "namespace": "default"}
    case = fleet(pending={"kind": "Pod", "metadata": meta, "spec": {"containers": [asks(memory="9E")]}})
    ours, oracle = OurSide(case).judge(case.pending[0]), Oracle(case).judge(case.pending[0])
    assert ours.message == oracle.message == "0/1 nodes are available: 1 Insufficient memory."
