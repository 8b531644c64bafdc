"""Clusters that join a fleet at work."""

import asyncio
import random

from tests.simulation.acts.table import Act, Stage, act, plain_pod
from tests.simulation.faults import Fault
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.fleet import Cluster

NEW = "south"


@act("cluster-joins")
def _joins(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A cluster with its agent; the dispatcher starts anew with it in its configuration, and a pod is sent there."""
    if NEW in stage.fleet.clusters:
        return
    new = stage.fleet.add_cluster(NEW)
    new.api.add_namespace("team")
    stage.spawn(new.agent.start())
    stage.spawn(_with_new_configuration(stage))
    pod = plain_pod(f"to-{NEW}", "default", 100, clusters=NEW)
    cluster.api.ask("user", "POST", f"{NAMESPACES}/default/pods", pod)
    yield


async def _with_new_configuration(stage: Stage) -> None:
    dispatcher = stage.fleet.dispatchers["dispatcher"]
    dispatcher.kill()
    await asyncio.sleep(2.0)
    if dispatcher.dispatcher is None:
        dispatcher.start()
