"""Nodes, pods and fleets to ask a plugin about; valid by default, so that a test names only what it
is about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.model.names import HOSTNAME, SCHEDULER_NAME
from shared.model.node import Node, Reading
from shared.model.pod import Pod
from shared.model.resources import parse_resources

_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def a_node(
    name: str,
    *,
    room: Mapping[str, object] = _ROOM,
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Node:
    """A Ready node; `room` in Kubernetes' quantities, `more` any field of shared.model.node.Node."""
    allocatable = parse_resources({**_ROOM, **room}, where=f"node {name}", round_up=False)
    all_labels = {HOSTNAME: name, **(labels or {})}
    return Node(name, f"uid-{name}", all_labels, allocatable=allocatable, **{"ready": True, **more})


def a_pod(
    name: str = "web-1",
    *,
    wants: Mapping[str, object] | None = None,
    home: str = "east",
    **more: Any,
) -> PodInfo:
    """A pod that waits, submitted in cluster `home`; `wants` are its requests, `more` any field of
    model.pod.Pod.
    """
    requests = parse_resources(wants or {}, where=f"pod {name}")
    fields = {"namespace": "default", "labels": {"app": "web"}, **more}
    return PodInfo(
        Pod(f"uid-{name}", name=name, requests=requests, scheduler_name=SCHEDULER_NAME, **fields),
        home,
    )


def a_fleet(
    nodes: Mapping[str, Sequence[Node]],
    *,
    readings: Mapping[str, Reading] | None = None,
    now: float = 1000.0,
) -> FleetState:
    """Clusters with their nodes, all Ready; `readings` by node name."""
    fleet = FleetState(now=now)
    for cluster, members in nodes.items():
        fleet.set_cluster(cluster, ready=True, synced=True)
        for node in members:
            fleet.put_node(cluster, node)
            if readings and node.name in readings:
                fleet.put_reading(cluster, readings[node.name])
    return fleet


def seat(fleet: FleetState, pod_info: PodInfo, cluster: str, node: str) -> None:
    """Let a pod run on a node."""
    fleet.place((pod_info.home, pod_info.pod.uid), pod_info, cluster, node, assumed=False)
