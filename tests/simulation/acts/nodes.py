"""What happens to nodes, and pods of other schedulers on them."""

import random

from tests.simulation.acts.table import Act, Stage, act, plain_pod
from tests.simulation.faults import Fault
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.fleet import Cluster


@act("cordon")
def _cordon(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    node = dice.choice(cluster.nodes)
    cluster.cordon(node, on=True)
    yield
    cluster.cordon(node, on=False)


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
