"""What happens to nodes, and pods of other schedulers on them."""

import random

from tests.simulation.acts.table import Act, Stage, act, plain_pod
from tests.simulation.faults import OF_TEAM, OF_WEST, Fault
from tests.simulation.world.apiserver import NAMESPACES, NODES
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.objects import Object


@act("cordon")
def _cordon(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    node = dice.choice(cluster.nodes)
    cluster.cordon(node, on=True)
    yield
    cluster.cordon(node, on=False)


@act("nodes-kept")
def _nodes_kept(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A node is kept by a taint for pods of a tenant that gives its toleration, for good or for a while."""
    path, kept = f"{NODES}/{dice.choice(cluster.nodes)}", dice.choice((OF_WEST, OF_TEAM))
    others = [one for one in _taints(cluster, path) if one["key"] != kept.key]
    taint = {"key": kept.key, "effect": kept.effect}
    cluster.api.ask("admin", "PATCH", path, {"spec": {"taints": [*others, taint]}})
    yield
    if dice.random() < 0.5:
        left = [one for one in _taints(cluster, path) if one != taint]
        cluster.api.ask("admin", "PATCH", path, {"spec": {"taints": left}})


def _taints(cluster: Cluster, path: str) -> list[Object]:
    kept = cluster.api.kept(path)
    return list(kept.obj["spec"].get("taints") or ()) if kept is not None else []


@act("node-dies")
def _node_dies(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    node = dice.choice(cluster.nodes)
    cluster.kubelets.power(node, on=False)
    yield
    cluster.kubelets.power(node, on=True)


@act("node-cut-off")
def _node_cut_off(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    node = dice.choice(cluster.nodes)
    cluster.kubelets.cut_off.add(node)
    yield
    cluster.kubelets.cut_off.discard(node)


@act("rival")
def _rival(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    pod = plain_pod(f"rival{stage.number()}", "default", dice.choice((300, 900)), scheduler="default-scheduler")
    pod["spec"]["nodeName"] = dice.choice(cluster.nodes)
    cluster.api.ask("rival", "POST", f"{NAMESPACES}/default/pods", pod)
    yield
