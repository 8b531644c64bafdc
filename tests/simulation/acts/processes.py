"""Faults of agents, dispatchers and their clocks."""

import random

from tests.simulation.acts.table import Act, Stage, act
from tests.simulation.faults import Fault
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.loop import running_loop
from tests.simulation.world.processes import LEASE


@act("agent-dies")
def _agent_dies(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.agent.kill()
    yield
    if cluster.agent.agent is None:
        stage.spawn(cluster.agent.start())


@act("agent-pauses")
def _agent_pauses(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    process = cluster.agent.process
    process.paused = True
    yield
    running_loop().resume(process)


@act("second-executor")
def _second_executor(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Two executors of one cluster at the same time; one of them ends well or badly."""
    if cluster.agent.second is not None and cluster.agent.second.agent is not None:
        return
    second = cluster.agent.second or cluster.add_second_agent(stage.fleet)
    stage.spawn(second.start())
    yield
    if dice.random() < 0.5:
        second.kill()
    else:
        stage.spawn(second.stop())


@act("dispatcher-dies")
def _dispatcher_dies(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    dispatcher = stage.fleet.dispatchers["dispatcher"]
    dispatcher.kill()
    yield
    if dispatcher.dispatcher is None:
        dispatcher.start()


@act("dispatcher-pauses")
def _dispatcher_pauses(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    process = stage.fleet.dispatchers["dispatcher"].process
    process.paused = True
    yield
    running_loop().resume(process)


@act("second-dispatcher")
def _second(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    second = stage.fleet.dispatchers.get("second") or stage.fleet.add_dispatcher("second")
    if second.dispatcher is not None:
        return
    second.start()
    yield
    second.kill()


@act("fail-over")
def _fail_over(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A second dispatcher stands by for a while, then the first dies; it stands by in its next life."""
    second = stage.fleet.dispatchers.get("second") or stage.fleet.add_dispatcher("second")
    if second.dispatcher is None:
        second.start()
    yield
    first = stage.fleet.dispatchers["dispatcher"]
    first.kill()
    first.start()


@act("standby-cut")
def _standby_cut(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The second dispatcher alone does not reach a cluster."""
    weather = stage.fleet.weathers.get(("second", cluster.name))
    if weather is None:
        return
    weather.cut_there = True
    yield
    weather.cut_there = False


@act("clock-jumps")
def _clock(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    offset = dice.choice((-86400.0 * 365, -60.0, 60.0, 86400.0))
    if dice.random() < 0.6:
        stage.fleet.dispatchers["dispatcher"].offset = offset
        stage.fleet.dispatchers["dispatcher"].process.offset = offset
    else:
        cluster.agent.offset = cluster.agent.process.offset = offset
    yield


@act("lease-down")
def _lease_down(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The API server that holds the Lease of the dispatchers is out of reach."""
    stage.fleet.lease_wire.weather.down = True
    yield
    stage.fleet.lease_wire.weather.down = False


@act("lease-deleted")
def _lease_deleted(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    stage.fleet.lease.ask("admin", "DELETE", LEASE.path)
    yield
