"""Clusters that join a fleet at work, leave it, or are taken for each other."""

import asyncio
import random

from tests.simulation.acts.table import Act, Stage, act, plain_pod
from tests.simulation.faults import TROUBLE_S, Fault
from tests.simulation.judges.facts import PREFIX, PROXY
from tests.simulation.world.apiserver import NAMESPACES, NODES
from tests.simulation.world.controllers import path_of
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.keys import key_file
from tests.simulation.world.processes import AgentProcess

NEW, ALIAS, IMPOSTOR = "south", "west-2", "rebuilt"
LET_GO_S = 120  # for which an operator waits until nothing is left that went to a cluster


@act("cluster-joins")
def _joins(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A cluster with its agent; the dispatcher starts anew with it in its configuration, and a pod is sent there."""
    if NEW in stage.fleet.clusters:
        return
    swapped = {(NEW, name) for name, one in stage.fleet.clusters.items() if one.agent.wire is not one.wire}
    stage.fleet.misled |= swapped
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


@act("cluster-named-twice")
def _named_twice(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A second entry of the configuration, with an agent, for a cluster that is there; pods are sent to it."""
    if ALIAS in stage.fleet.members:
        return
    settings = cluster.agent.settings.model_copy(update={"cluster": ALIAS})
    alias = stage.fleet.members[ALIAS] = AgentProcess(settings, cluster.wire)
    stage.spawn(alias.start())
    stage.spawn(_with_new_configuration(stage))
    for home, clusters in ((cluster, ""), (dice.choice([*stage.fleet.clusters.values()]), ALIAS)):
        chosen = {"clusters": clusters} if clusters else {}
        pod = plain_pod(f"alias{stage.number()}", "default", 100, **chosen)
        home.api.ask("user", "POST", f"{NAMESPACES}/default/pods", pod)
    yield
    del stage.fleet.members[ALIAS]
    alias.kill()
    stage.spawn(_with_new_configuration(stage))


@act("cluster-swapped")
def _swapped(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The agent's kubeconfig leads to another cluster for a while; with the key of this one, or with its own."""
    if IMPOSTOR in stage.fleet.outside:
        return
    other = stage.fleet.add_outside(IMPOSTOR)
    other.api.add_namespace("team")
    agent, settings, wire = cluster.agent, cluster.agent.settings, cluster.agent.wire
    agent.kill()
    agent.wire = other.wire
    if dice.random() < 0.5:
        agent.settings = settings.model_copy(update={"key_file": key_file(IMPOSTOR)})
    stage.spawn(agent.start())
    if dice.random() < 0.5:
        stage.spawn(_with_new_configuration(stage))
    yield
    agent.kill()
    agent.settings, agent.wire = settings, wire
    stage.spawn(agent.start())
    stage.spawn(_with_new_configuration(stage))  # a dispatcher that began with the other one is told by its log to


@act("cluster-removed")
def _removed(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Taken off the configuration too early, while its pods run elsewhere and others' there; and put back."""
    if stage.fleet.members.pop(fault.cluster, None) is None:
        return
    stage.spawn(_with_new_configuration(stage))
    yield
    if fault.cluster not in stage.fleet.clusters:  # burnt down meanwhile: nobody puts it back
        return
    stage.fleet.members[fault.cluster] = cluster.agent
    stage.spawn(_with_new_configuration(stage))


@act("cluster-gone")
def _gone(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Burnt down: it is fenced, what went there is let go, copies of its pods are deleted, its entry is taken off."""
    if len(stage.fleet.clusters) < 3 or fault.cluster not in stage.fleet.members:
        return
    cluster.agent.kill()
    cluster.wire.weather.down = True
    for node in cluster.nodes:
        cluster.kubelets.power(node, on=False)
    del stage.fleet.clusters[fault.cluster]
    stage.facts.lost_for_ever(fault.cluster)
    stage.spawn(_leave_lost(stage, fault.cluster))
    yield


async def _leave_lost(stage: Stage, gone: str) -> None:
    """As `global-dispatcher cluster leave NAME --lost` does, again while clusters may go back; its entry goes then."""
    await asyncio.sleep(5.0)
    clusters, proxy = stage.fleet.clusters, PROXY + gone
    for _ in range(LET_GO_S):
        for cluster in clusters.values():
            cluster.api.ask("admin", "PATCH", f"{NODES}/{proxy}", {"metadata": {"labels": {f"{PREFIX}fenced": "true"}}})
        await asyncio.sleep(1.0)
        mine = [(cluster, pod) for cluster in clusters.values() for pod in cluster.api.pods()]
        copies = [(cluster, pod) for cluster, pod in mine if stage.facts.home_of(pod) == gone]
        for cluster, pod in copies:
            cluster.api.ask("admin", "DELETE", path_of(pod))
        if (
            stage.fleet.now > TROUBLE_S
            and not copies
            and not any(pod["spec"].get("nodeName") == proxy for _, pod in mine)
        ):
            break
    stage.fleet.members.pop(gone, None)
    await _with_new_configuration(stage)
