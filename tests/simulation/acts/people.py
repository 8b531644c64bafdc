"""What users and admins do, and pods that end or stop slowly."""

import asyncio
import random

from tests.simulation.acts.table import Act, Stage, act, plain_pod, pods_of
from tests.simulation.faults import TENANTS, Fault
from tests.simulation.judges.facts import CLUSTERS
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.controllers import path_of
from tests.simulation.world.fleet import Cluster


@act("recreate")
def _recreate(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """kubectl replace --force: another pod by the same name, at once or a moment later."""
    pods = [pod for pod in pods_of(stage, cluster, source=True) if not pod["metadata"].get("ownerReferences")]
    if not pods:
        return
    pod = dice.choice(pods)
    meta, space = pod["metadata"], pod["metadata"]["namespace"]
    cluster.api.ask("user", "DELETE", path_of(pod), {"gracePeriodSeconds": dice.choice((0, 1, 10))})
    clusters = meta.get("annotations", {}).get(CLUSTERS, "")
    anew = plain_pod(meta["name"], space, 100, **({"clusters": clusters} if clusters else {}))

    async def again() -> None:
        for _ in range(60):
            if cluster.api.ask("user", "POST", f"{NAMESPACES}/{space}/pods", anew)[0] != 409:
                return
            await asyncio.sleep(0.5)

    stage.spawn(again())
    yield


@act("burst")
def _burst(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Many pods of one tenant at once."""
    for _ in range(dice.choice((4, 8))):
        pod = plain_pod(f"burst{stage.number()}", "team", 300)
        cluster.api.ask("user", "POST", f"{NAMESPACES}/team/pods", pod)
    yield


@act("gang")
def _gang(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Pods that start together, one of which may come a while later, or too many."""
    name, size = f"gang{stage.number()}", dice.choice((2, 3, 4))
    space = dice.choice(("default", "team"))  # which is a tenant's, where there are any
    least = max(2, size - dice.choice((0, 0, 1)))
    marks = {"group": name, "group-min": str(least), "group-within": dice.choice(("cluster", "cluster", "fleet"))}
    others = [one for one in stage.fleet.clusters if one != cluster.name]
    if dice.random() < 0.6:
        marks["clusters"] = dice.choice(others)

    async def come() -> None:
        for at in range(size):
            pod = plain_pod(f"{name}-{at}", space, dice.choice((100, 300)), **marks)
            cluster.api.ask("user", "POST", f"{NAMESPACES}/{space}/pods", pod)
            await asyncio.sleep(dice.choice((0.0, 0.0, 0.5, 8.0)))

    stage.spawn(come())
    yield


@act("tenants-change")
def _tenants_change(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The tenants file says something else, for good or for a while."""
    before = stage.fleet.sizes.tenants
    stage.fleet.take_tenants(dice.choice(TENANTS))
    yield
    if dice.random() < 0.5:
        stage.fleet.take_tenants(before)


@act("delete")
def _delete(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    if pods := pods_of(stage, cluster, source=True):
        cluster.api.ask("user", "DELETE", path_of(dice.choice(pods)))
    yield


@act("drain")
def _drain(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    if pods := pods_of(stage, cluster, source=False):
        cluster.api.ask("admin", "DELETE", path_of(dice.choice(pods)))
    yield


@act("delete-namespace")
def _delete_namespace(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.api.ask("admin", "DELETE", f"{NAMESPACES}/team")
    yield


@act("ends")
def _ends(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.kubelets.ends_share = 0.5
    yield
    cluster.kubelets.ends_share = 0.0


@act("slow-stop")
def _slow_stop(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.kubelets.slow_s = 25.0
    yield
    cluster.kubelets.slow_s = 2.0
