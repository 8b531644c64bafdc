"""A small fleet of odd nodes and odd pods, on which the laws of plugins are tried."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dispatcher.kit.samples import a_fleet, a_node, a_pod, seat
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats, PodInfo, SmallInts
from shared.model.labels import NodeSelectorTerm, PreferredTerm, Requirement
from shared.model.names import REGION, ZONE
from shared.model.node import FEATURES, NO_SCHEDULE, PREFER_NO_SCHEDULE, Reading, Taint
from shared.model.pod import (
    CLAIM,
    GCE_DISK,
    RUNNING,
    Affinity,
    Claim,
    HostPort,
    SourceRef,
    SpreadConstraint,
    Toleration,
    Volume,
)
from shared.model.topology import label_of, level_of

_METRICS = (-3.5, 0.0, 1e12)
NO_NODES = "void"  # a cluster of the odd fleet


def odd_fleet(labels: Iterable[str] = (), metrics: Iterable[str] = ()) -> FleetState:
    """Three clusters, one without nodes; cordoned, tainted, unready, tiny and loaded nodes; pods on
    some.

    `labels` and `metrics` of nodes: some have them, too.
    """
    every = [{ZONE: f"z{at % 2}", REGION: "r1", "disk": ("ssd", "hdd")[at % 2]} for at in range(4)]
    some = [dict.fromkeys(labels, "web") | one if at % 2 else one for at, one in enumerate(every)]
    told = [dict.fromkeys(metrics, value) for value in _METRICS]
    east = [
        a_node("e1", labels=some[0], metrics=told[0], features=FEATURES),
        a_node(
            "e2", labels=some[1], metrics=told[1], taints=(Taint("dedicated", "gpu", NO_SCHEDULE),)
        ),
        a_node(
            "e3", labels=some[2], unschedulable=True, taints=(Taint("old", "", PREFER_NO_SCHEDULE),)
        ),
    ]
    west = [
        a_node("w1", labels=some[3], ready=False),
        a_node("w2", metrics=told[2], room={"cpu": "1m", "pods": "1"}),
        a_node("w3"),
    ]
    readings = {
        name: Reading(name, cpu=share, memory=share, net=share)
        for name, share in (("e1", 0.9), ("w3", 0.1))
    }
    fleet = a_fleet({"east": east, "west": west, NO_NODES: []}, readings=readings)
    seats = (("east", "e1"), ("east", "e1"), ("west", "w3"), ("east", "e2"))
    for at, (cluster, node) in enumerate(seats):
        seat(fleet, a_pod(f"old-{at}", wants={"cpu": "500m"}), cluster, node)
    return fleet


def odd_pods() -> list[PodInfo]:
    """Pods that ask for nothing, for everything, for too much, of other apps than those that run, and
    two of one template.
    """
    zone = Requirement(ZONE, "In", ("z0",))
    term = NodeSelectorTerm((zone,))
    return [
        a_pod("plain"),
        a_pod("plain-2"),
        a_pod("bare", labels={}),
        a_pod("of-another-app", labels={"app": "db"}),
        a_pod("of-another-namespace", namespace="shop"),
        a_pod("big", wants={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}),
        a_pod("huge", wants={"cpu": "4000000"}),
        a_pod(
            "choosy",
            affinity=Affinity((term,), (PreferredTerm(10, term),)),
            node_selector={"disk": "ssd"},
        ),
        a_pod("tolerant", tolerations=(Toleration(operator="Exists"),), priority=1000),
        a_pod("features", features=FEATURES[:1]),
        a_pod("port", ports=(HostPort(80),), home=NO_NODES),
        msgspec.structs.replace(
            a_pod("known", wants={"cpu": "2", "memory": "1Gi"}), counts_as=(300, 2**31)
        ),
        a_pod(
            "claims",
            volumes=(
                Volume(CLAIM, "data"),
                Volume(CLAIM, "own", ephemeral=True),
                Volume(GCE_DISK, "disk"),
            ),
        ),
        a_pod("spread", spread=(SpreadConstraint("zone"), SpreadConstraint("host", hard=False))),
    ]


class Asked:
    """A fleet that remembers of which labels, fault domains and metrics of nodes it was asked."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self.labels: dict[str, None] = {}
        self.metrics: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)

    def label(self, key: str) -> SmallInts:
        """As the fleet answers."""
        self.labels[key] = None
        return self._fleet.label(key)

    def domain(self, key: str) -> SmallInts:
        """As the fleet answers; the label behind it is one that it was asked of."""
        if label := label_of(level_of(key))[0]:
            self.labels[label] = None
        return self._fleet.domain(key)

    def metric(self, name: str) -> Floats:
        """As the fleet answers."""
        self.metrics[name] = None
        return self._fleet.metric(name)


def another_of_its_template(pod_info: PodInfo) -> PodInfo:
    """A pod that differs from this one in all of `model.pod.OWN_FIELDS` and in the names of its
    claims.
    """
    own = {
        "uid": "another",
        "name": "another",
        "phase": RUNNING,
        "reason": "Odd",
        "ready": True,
        "terminating": True,
    }
    own |= {
        "created": 7.0,
        "started": 7.0,
        "preempted": True,
        "nominated_node": "w3",
        "has_finalizer": True,
    }
    own |= {
        "status": b"{}",
        "claim": Claim("west", "w3", 7),
        "source": SourceRef("west", "uid-west", "a", "b", "c", 7),
    }
    own |= {"files": "another", "at_home": True, "ends_in_s": 7, "generation": 7}
    own["volumes"] = tuple(
        msgspec.structs.replace(one, name=f"another-{one.name}") if one.kind == CLAIM else one
        for one in pod_info.pod.volumes
    )
    return msgspec.structs.replace(pod_info, pod=msgspec.structs.replace(pod_info.pod, **own))
