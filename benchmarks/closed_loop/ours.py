"""The product's own scheduling core as a policy, under virtual time: FleetState and Scheduler with a profile file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.closed_loop.peers import MOST_PODS
from benchmarks.closed_loop.policy import Setting
from benchmarks.closed_loop.readings import Batch
from dispatcher.config.profile_files import read_profile_file
from dispatcher.model.names import HOSTNAME, REGION, SCHEDULER_NAME, ZONE
from dispatcher.model.node import Node, Reading
from dispatcher.model.pod import Pod
from dispatcher.plugins.registry import REGISTRY, PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Placed, Profile

_SCORE = "ExpectedLoad"
DEFAULT = Path(__file__).parents[2] / "configs" / "profiles" / "default.yaml"


def read_profile(file: Path = DEFAULT) -> Profile:
    """The first profile of a file. ConfigError."""
    return read_profile_file(file, REGISTRY).profiles[0]


class Ours:
    """Readings come as an agent tells them, with their age; decisions are the core's, nothing is scored here."""

    def __init__(self, setting: Setting) -> None:
        self._workload = setting.workload
        size = self._workload.size
        self._places = [(f"cluster-{node % size.clusters}", f"node-{node:04}") for node in range(size.nodes)]
        self._numbers = {place: node for node, place in enumerate(self._places)}
        self._fleet = self._filled(size.clusters)
        profile = self._profile(setting)
        plugins = build(profile, PluginContext())
        self._scheduler = Scheduler(profile, plugins, self._fleet)

    def _profile(self, setting: Setting) -> Profile:
        return setting.profile

    def _filled(self, clusters: int) -> FleetState:
        fleet = FleetState(now=0.0)
        cpu, memory = self._workload.allocatable
        room = {"cpu": cpu, "memory": memory, "pods": MOST_PODS}
        for at in range(clusters):
            fleet.set_cluster(f"cluster-{at}", ready=True, synced=True)
        for number, (cluster, name) in enumerate(self._places):
            zone = f"{cluster}-{number % 2}"
            labels = {HOSTNAME: name, REGION: cluster, ZONE: zone}
            fleet.put_node(cluster, Node(name, name, labels, ready=True, allocatable=room, bandwidth=1_250_000_000))
        return fleet

    def read(self, batch: Batch, now: float) -> None:
        """Node readings, as an agent reports them."""
        self._fleet.now = now
        ages = (now - batch.sampled_at).tolist()
        for node, age, (cpu, memory, net) in zip(batch.node.tolist(), ages, batch.shares.T.tolist(), strict=True):
            cluster, name = self._places[node]
            reading = Reading(name, cpu, memory, net, cpu_age_s=age, memory_age_s=age, net_age_s=age, source="kubelet")
            self._fleet.put_reading(cluster, reading)
        self._fleet.learn_usual()
        self._fleet.learn_forecast(wanted=self._scheduler.plan.forecasts)

    def place(self, pod: int, now: float) -> int | None:
        """The core's decision, assumed in its fleet."""
        self._fleet.now = now
        placed = self._placed(pod)
        result = self._scheduler.schedule(placed, (placed.home, placed.pod.uid))
        return self._numbers[result.cluster, result.node] if isinstance(result, Decision) else None

    def ended(self, pod: int, now: float) -> None:
        """The core forgets the pod."""
        self._fleet.now = now
        self._scheduler.forget((f"cluster-{self._workload.home[pod]}", f"uid-{pod}"))

    def rebalance(self, now: float) -> Sequence[tuple[int, int]]:
        """The product moves no pods for load."""
        return ()

    def _placed(self, pod: int) -> Placed:
        app = self._workload.app[pod]
        cpu, memory = self._workload.requests[:, pod].tolist()
        made = Pod(
            f"uid-{pod}",
            "default",
            f"app-{app}-{pod}",
            labels={"app": f"app-{app}"},
            requests={"cpu": cpu, "memory": memory},
            scheduler_name=SCHEDULER_NAME,
        )
        return Placed(made, f"cluster-{self._workload.home[pod]}")


class OursForecast(Ours):
    """The same, and ExpectedLoad goes by forecasts."""

    def _profile(self, setting: Setting) -> Profile:
        uses = setting.profile.plugins
        changed = [replace(use, args={**use.args, "forecast": 1.0}) if use.name == _SCORE else use for use in uses]
        return replace(setting.profile, plugins=tuple(changed))
