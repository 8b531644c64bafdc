"""API servers that go back in time, and clusters that are lost."""

import random

from tests.simulation.acts.table import ACTS, Act, Do, Stage, act
from tests.simulation.faults import Fault
from tests.simulation.world.fleet import Cluster

STOPPED_S = 2.0  # for which API servers stand still while their etcd is restored


def _go_back(bump: int) -> Do:
    def do(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
        kept = stage.backups.get(fault.cluster)
        if not kept:
            return
        cluster.api.store.restore(dice.choice(kept[-4:]), bump)
        stage.facts.went_back(fault.cluster)
        cluster.wire.restart(STOPPED_S)
        yield

    return do


ACTS |= {"restore": _go_back(0), "restore-bumped": _go_back(1_000_000)}


@act("cluster-lost")
def _lost(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Its agent and its API server are out of reach; what runs there runs on."""
    cluster.wire.weather.down = True
    for weather in stage.links(fault.cluster):
        weather.cut_there = weather.cut_back = True
    stage.fleet.lost[fault.cluster] = stage.fleet.now
    yield
    cluster.wire.weather.down = False
    for weather in stage.links(fault.cluster):
        weather.cut_there = weather.cut_back = False
    stage.fleet.lost.pop(fault.cluster, None)
