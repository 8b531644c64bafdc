"""Fleets and pods of the size that the benchmarks need, deterministic."""

from collections.abc import Iterator

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.names import HOSTNAME, RACK, REGION, SCHEDULER_NAME, ZONE
from shared.model.node import Node, Reading
from shared.model.pod import Pod

NODE = {"cpu": 32_000, "memory": 128 * 2**30, "ephemeral-storage": 2**40, "pods": 250}
ZONES = "abc"


def fleet_of(clusters: int, nodes: int, *, read: bool = True, in_a_rack: int = 0) -> FleetState:
    """`clusters` x `nodes` nodes of 32 CPU and 128 GiB in three zones; `read`: with readings of
    different load; `in_a_rack`: so many nodes in each rack of a cluster, 0: no racks are known.
    """
    fleet = FleetState(now=1000.0)
    for c in range(clusters):
        name = f"c{c:03}"
        fleet.set_cluster(name, ready=True, synced=True)
        for n in range(nodes):
            fleet.put_node(name, _node(c, n, in_a_rack))
            if not read:
                continue
            load = ((n * 7919 + c * 104729) % 1000) / 2500
            fleet.put_reading(
                name, Reading(f"n{n:04}", cpu=load, memory=load / 2, net=load / 4, source="kubelet")
            )
    return fleet


def _node(cluster: int, n: int, in_a_rack: int) -> Node:
    name, zone = f"n{n:04}", ZONES[n % len(ZONES)]
    labels = {
        HOSTNAME: name,
        REGION: f"r{cluster % 10}",
        ZONE: f"r{cluster % 10}{zone}",
        "disk": ("ssd", "hdd")[n % 2],
    }
    if in_a_rack:
        labels[RACK] = f"rack-{n // in_a_rack}"
    return Node(
        name, f"c{cluster}-{n}", labels, ready=True, allocatable=NODE, bandwidth=1_250_000_000
    )


def scheduler_of(fleet: FleetState) -> Scheduler:
    """The default profile over a fleet."""
    return Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), fleet)


def same_pods(count: int) -> Iterator[PodInfo]:
    """Pods of one template."""
    for i in range(count):
        yield placed(i, 500, 512 * 2**20)


def different_pods(count: int) -> Iterator[PodInfo]:
    """Every pod asks for an amount of its own: no two are of one class."""
    for i in range(count):
        yield placed(i, 100 + i, 2**28 + i * 4096)


def placed(i: int, cpu: int, memory: int) -> PodInfo:
    """One pod submitted in the first cluster."""
    pod = Pod(
        f"uid-{i}",
        "default",
        f"pod-{i}",
        labels={"app": "bench"},
        requests={"cpu": cpu, "memory": memory},
        scheduler_name=SCHEDULER_NAME,
    )
    return PodInfo(pod, "c000")
