"""Which controllers a cluster has, over which resources."""

from typing import NamedTuple

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.resources import RESOURCES
from localfleet.embedded.controllers.budget import BudgetController
from localfleet.embedded.controllers.collector import Collector
from localfleet.embedded.controllers.jobs import JobController
from localfleet.embedded.controllers.loop import ControlLoop
from localfleet.embedded.controllers.nodes import NodeController, Patience
from localfleet.embedded.controllers.replicaset import ReplicaSetController
from localfleet.embedded.controllers.rollout import DeploymentController
from localfleet.embedded.controllers.unscheduled import UnscheduledController
from localfleet.embedded.controllers.volumes import VolumeController
from localfleet.embedded.controllers.world import Clock, World
from localfleet.embedded.recorder import Recorder

_UNWATCHED = ("events",)  # many, and nobody's business here


class Tempo(NamedTuple):
    """Timers of the controllers, in seconds. Tests and demos shorten them."""

    node: Patience = Patience()
    job_backoff_s: float = 10.0


def control_loop(api: Api, clock: Clock, tempo: Tempo) -> ControlLoop:
    """All controllers of one cluster over one cache."""
    rows = [row for row in RESOURCES.values() if not row.stored_as and row.key not in _UNWATCHED]
    world = World(api, [row.key for row in rows])
    kinds = {(row.api_version, row.kind): row.key for row in rows}

    def recorder(component: str) -> Recorder:
        return Recorder(api, clock, component)

    return ControlLoop(
        world,
        (
            NodeController(api, world, recorder(NodeController.name), tempo.node),
            DeploymentController(api, world, recorder(DeploymentController.name)),
            ReplicaSetController(api, world, recorder(ReplicaSetController.name)),
            JobController(api, world, recorder(JobController.name), tempo.job_backoff_s),
            BudgetController(api, world),
            VolumeController(api, world),
            UnscheduledController(world, recorder(UnscheduledController.name)),
            Collector(api, world, kinds),
        ),
        clock,
    )
