"""The product's own scheduling core as a policy, under virtual time: FleetState and Scheduler with
a profile file.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.closed_loop.peers import MOST_PODS
from benchmarks.closed_loop.pod_readings import PodReadings
from benchmarks.closed_loop.policy import Setting
from benchmarks.closed_loop.readings import Batch
from dispatcher.config.profile_files import read_profile_file
from dispatcher.plugins.registry import REGISTRY, PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework import PodInfo, Profile
from dispatcher.scheduling.rebalancing.moves import Move
from dispatcher.scheduling.rebalancing.rebalancer import Rebalancer
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from shared.model.names import HOSTNAME, REGION, SCHEDULER_NAME, ZONE
from shared.model.node import Node, Reading
from shared.model.pod import RUNNING, Pod, PodId

DEFAULT = Path(__file__).parents[2] / "configs" / "profiles" / "default.yaml"


def read_profile(file: Path = DEFAULT) -> Profile:
    """The first profile of a file. ConfigError."""
    return read_profile_file(file, REGISTRY).profiles[0]


class Ours:
    """Readings come as an agent tells them, with their age; decisions are the core's, nothing is
    scored here.
    """

    def __init__(self, setting: Setting) -> None:
        self._workload = setting.workload
        size = self._workload.size
        self._places = [
            (f"cluster-{node % size.clusters}", f"node-{node:04}") for node in range(size.nodes)
        ]
        self._numbers = {place: node for node, place in enumerate(self._places)}
        self._fleet = self._filled(size.clusters)
        plugins = build(setting.profile, PluginContext())
        self._scheduler = Scheduler(setting.profile, plugins, self._fleet)
        self._pods = PodReadings(self._workload, setting.rng, size.clusters)
        self._node: dict[int, int] = {}

    def _filled(self, clusters: int) -> FleetState:
        fleet = FleetState(now=0.0)
        cpu, memory = self._workload.allocatable
        room = {"cpu": cpu, "memory": memory, "pods": MOST_PODS}
        for at in range(clusters):
            fleet.set_cluster(f"cluster-{at}", ready=True, synced=True)
        for number, (cluster, name) in enumerate(self._places):
            zone = f"{cluster}-{number % 2}"
            labels = {HOSTNAME: name, REGION: cluster, ZONE: zone}
            fleet.put_node(
                cluster,
                Node(name, name, labels, ready=True, allocatable=room, bandwidth=1_250_000_000),
            )
        return fleet

    def read(self, batch: Batch, now: float) -> None:
        """Node readings, as an agent reports them."""
        self._fleet.now = now
        ages = (now - batch.sampled_at).tolist()
        for node, age, (cpu, memory, net) in zip(
            batch.node.tolist(), ages, batch.shares.T.tolist(), strict=True
        ):
            cluster, name = self._places[node]
            reading = Reading(
                name,
                cpu,
                memory,
                net,
                cpu_age_s=age,
                memory_age_s=age,
                net_age_s=age,
                source="kubelet",
            )
            self._fleet.put_reading(cluster, reading)
        for number, uses in self._pods.read(batch):
            self._fleet.uses.put(f"cluster-{number}", uses)
        self._fleet.learn_usual()
        self._fleet.update_hot()

    def place(self, pod: int, now: float) -> int | None:
        """The core's decision, assumed in its fleet."""
        self._fleet.now = now
        placed = self._fleet.with_use(self._placed(pod))
        result = self._scheduler.schedule(placed, (placed.home, placed.pod.uid))
        if not isinstance(result, Decision):
            return None
        node = self._node[pod] = self._numbers[result.cluster, result.node]
        name = placed.pod.name
        self._pods.on[node][pod] = name
        self._pods.running[name] = msgspec.structs.replace(
            placed.pod, node=result.node, phase=RUNNING
        )
        return node

    def ended(self, pod: int, now: float) -> None:
        """The core forgets the pod."""
        self._fleet.now = now
        self._left(pod)
        self._scheduler.forget(self._pod_id(pod))

    def _left(self, pod: int) -> None:
        """No reading tells of the pod any more."""
        del self._pods.running[self._pods.on[self._node.pop(pod)].pop(pod)]

    def rebalance(self, now: float) -> Sequence[tuple[int, int]]:
        """Rebalancing is off."""
        return ()

    def _pod_id(self, pod: int) -> PodId:
        return f"cluster-{self._workload.home[pod]}", f"uid-{pod}"

    def _placed(self, pod: int) -> PodInfo:
        app = self._workload.app[pod]
        cpu, memory = self._workload.requests[:, pod].tolist()
        made = Pod(
            f"uid-{pod}",
            "default",
            f"app-{app}-{pod}",
            labels={"app": f"app-{app}"},
            requests={"cpu": cpu, "memory": memory},
            scheduler_name=SCHEDULER_NAME,
            owner=f"StatefulSet/app-{app}/uid-app-{app}",
            phase=RUNNING,
        )
        return PodInfo(made, f"cluster-{self._workload.home[pod]}")


class OursRebalancing(Ours):
    """The same with the product's rebalancing: a pod that it moves is decided anew at once, as any
    other pod.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._rebalancer = Rebalancer(
            self._fleet, RebalancingRules(), self._would_go, lambda occupant: ""
        )

    def _would_go(self, occupant: Occupant) -> Decision | None:
        return self._scheduler.would_go(occupant.pod_id, occupant.pod_info)

    def rebalance(self, now: float) -> Sequence[tuple[int, int]]:
        """The pods that the product evicts, and where its core places the pods that replace them."""
        self._fleet.now = now
        return [self._moved(move, now) for move in self._rebalancer.look().moves]

    def _moved(self, move: Move, now: float) -> tuple[int, int]:
        pod = int(move.pod_id[1].removeprefix("uid-"))
        self._left(pod)
        self._scheduler.forget(move.pod_id)
        node = self.place(pod, now)
        if node is None:
            raise LookupError(f"pod {pod} was moved and found no place")
        return pod, node
