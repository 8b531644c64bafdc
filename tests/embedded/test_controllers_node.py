"""Silent and sick nodes, evictions, and pods whose node is gone."""

from math import inf

import pytest

from localfleet.embedded.controllers.node import UNREACHABLE, eviction_time, retainted, silenced
from localfleet.embedded.meta import condition, is_ready, stamp
from tests.embedded.simulated import START, Object, SimulatedCluster, deployment, pod

KUBELET = "embedded.global-dispatcher.io/kubelet"


def set_kubelet(cluster: SimulatedCluster, node: str, value: str | None) -> None:
    cluster.api.patch("nodes", node, "", {"metadata": {"annotations": {KUBELET: value}}}, kind="merge")


def taints(cluster: SimulatedCluster, node: str = "a-node-000") -> set[tuple[str, str]]:
    found = cluster.api.get("nodes", node)["spec"].get("taints") or ()
    return {(taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in found}


def ready(cluster: SimulatedCluster, node: str = "a-node-000") -> str:
    return str(condition(cluster.api.get("nodes", node), "Ready")["status"])


def foreign_node(name: str = "global-dispatcher-b") -> Object:
    healthy = [{"type": "Ready", "status": "True", "lastHeartbeatTime": stamp(START)}]
    return {"metadata": {"name": name}, "status": {"conditions": healthy, "allocatable": {"cpu": "100", "pods": "500"}}}


def test_a_node_whose_lease_is_renewed_stays_ready() -> None:
    cluster = SimulatedCluster()
    cluster.advance(300, step=5)
    assert ready(cluster) == "True"


def test_a_silent_node_becomes_unknown_and_tainted_and_recovers() -> None:
    cluster = SimulatedCluster()
    set_kubelet(cluster, "a-node-000", "down")
    cluster.advance(35, step=1)
    assert ready(cluster) == "True"
    cluster.advance(20, step=1)
    assert ready(cluster) == "Unknown"
    assert taints(cluster) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert ready(cluster, "a-node-001") == "True"
    set_kubelet(cluster, "a-node-000", None)
    cluster.advance(11, step=1)
    assert ready(cluster) == "True"
    assert taints(cluster) == set()


def test_a_cordoned_node_is_tainted_unschedulable() -> None:
    cluster = SimulatedCluster()
    cluster.api.patch("nodes", "a-node-000", "", {"spec": {"unschedulable": True}}, kind="merge")
    cluster.settle()
    assert taints(cluster) == {("unschedulable", "NoSchedule")}
    cluster.api.patch("nodes", "a-node-000", "", {"spec": {"unschedulable": None}}, kind="merge")
    cluster.settle()
    assert taints(cluster) == set()


def test_pods_leave_a_lost_node_after_their_toleration_and_are_replaced() -> None:
    cluster = SimulatedCluster(2)
    cluster.api.create("deployments.apps", deployment(2), "default")
    cluster.advance(2)
    set_kubelet(cluster, "a-node-000", "down")
    cluster.advance(60, step=1)
    lost = next(one for one in cluster.pods() if one["spec"]["nodeName"] == "a-node-000")
    assert not is_ready(lost)
    assert "deletionTimestamp" not in lost["metadata"]
    cluster.advance(300, step=5)
    lost = cluster.pod(lost["metadata"]["name"])
    assert lost["metadata"]["deletionTimestamp"]
    assert condition(lost, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    assert len(cluster.pods()) == 3


def test_a_node_without_kubelet_is_watched_over_too() -> None:
    cluster = SimulatedCluster(scheduled=False)
    cluster.api.create("nodes", foreign_node())
    body = pod()
    tolerations = [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    body["spec"]["tolerations"] = tolerations
    cluster.bind(cluster.api.create("pods", body, "default"), "global-dispatcher-b")
    cluster.advance(60, step=1)
    assert ready(cluster, "global-dispatcher-b") == "Unknown"
    assert cluster.pod("p")["metadata"]["deletionTimestamp"]


def test_a_lease_of_somebody_else_keeps_a_node_ready() -> None:
    cluster = SimulatedCluster()
    name, namespace, leases = "global-dispatcher-b", "kube-node-lease", "leases.coordination.k8s.io"
    cluster.api.create("nodes", foreign_node(name))
    lease = {
        "metadata": {"name": name},
        "spec": {"holderIdentity": "agent", "renewTime": stamp(START).replace("Z", ".000000Z")},
    }
    cluster.api.create(leases, lease, namespace)
    for _ in range(12):
        cluster.advance(10, step=5)
        renewed = {"spec": {"renewTime": stamp(cluster.clock.now).replace("Z", ".000000Z")}}
        cluster.api.patch(leases, name, namespace, renewed, kind="merge")
    assert ready(cluster, name) == "True"


def test_time_in_which_the_whole_process_stood_still_is_nobodys_silence() -> None:
    cluster = SimulatedCluster()
    cluster.advance(20, step=1)
    cluster.clock.now += 3600
    cluster.controllers.settle()  # before any kubelet has had its turn
    assert ready(cluster) == "True"
    cluster.advance(60, step=1)
    assert ready(cluster) == "True"


def test_pods_of_a_deleted_node_are_removed_after_the_quarantine() -> None:
    cluster = SimulatedCluster(2)
    cluster.api.create("deployments.apps", deployment(2), "default")
    cluster.advance(2)
    cluster.api.delete("nodes", "a-node-000")
    cluster.scheduled = False
    cluster.advance(30, step=1)
    assert {one["spec"].get("nodeName") for one in cluster.pods()} == {"a-node-000", "a-node-001"}
    cluster.advance(20, step=1)
    assert {one["spec"].get("nodeName") for one in cluster.pods()} == {None, "a-node-001"}
    assert "a-node-000" not in [lease["metadata"]["name"] for lease in cluster.api.list("leases.coordination.k8s.io")]


EXECUTE = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": stamp(START)}


@pytest.mark.parametrize(
    ("tolerations", "due"),
    [
        ([], START + 7),
        ([{"key": "k", "operator": "Exists"}], inf),
        ([{"operator": "Exists"}], inf),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 60}], START + 60),
        (
            [{"key": "k", "value": "v", "tolerationSeconds": 60}, {"operator": "Exists", "tolerationSeconds": 9}],
            START + 9,
        ),
        ([{"key": "k", "value": "other"}], START + 7),
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], START + 7),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": -5}], START),
    ],
    ids=["none", "for ever", "all taints", "for a while", "shortest", "other value", "other effect", "negative"],
)
def test_tolerations_say_when_a_pod_must_leave(tolerations: list[Object], due: float) -> None:
    assert eviction_time({"spec": {"tolerations": tolerations}}, [EXECUTE], START + 7) == due


def test_one_untolerated_taint_is_enough_to_leave_now() -> None:
    pod_ = {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}
    other = {"key": "z", "effect": "NoExecute"}
    assert eviction_time(pod_, [EXECUTE, other], START + 7) == START + 7


def test_taints_of_others_are_kept() -> None:
    mine = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    node = {"spec": {"taints": [mine]}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    new = retainted(node, START)
    assert new is not None
    assert mine in new
    assert retainted({**node, "spec": {"taints": new}}, START + 1) is None


def test_silence_turns_every_condition_unknown_and_remembers_the_last_heartbeat() -> None:
    old = {"type": "Ready", "status": "True", "lastHeartbeatTime": stamp(START)}
    node = {"metadata": {"creationTimestamp": stamp(START)}, "status": {"conditions": [old]}}
    conditions = {entry["type"]: entry for entry in silenced(node, START + 50)}
    assert {entry["status"] for entry in conditions.values()} == {"Unknown"}
    assert conditions["Ready"]["reason"] == "NodeStatusUnknown"
    assert conditions["Ready"]["lastHeartbeatTime"] == stamp(START)
    assert conditions["DiskPressure"]["reason"] == "NodeStatusNeverUpdated"
