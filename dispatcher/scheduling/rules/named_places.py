"""Where what a pod names is: by cluster, as the fleet is now."""

from collections.abc import Hashable

import numpy as np

from dispatcher.scheduling.framework import FleetView, Ints, PodInfo
from dispatcher.scheduling.framework.pod_sets import PodSet, pods_beside, pods_in
from shared.model import names
from shared.model.labels import LabelSelector
from shared.model.nearness import CLUSTER, SERVICE, ZONE, Near, read_near
from shared.model.objects import Service
from shared.model.pod import Pod

APP = "app"
CLUSTER_KEY = "cluster"
ZONE_KEY = "zone"
OWN_APP = Near(APP, "")


def near_of(pod: Pod) -> Near | None:
    """What the annotation `near` names; None for a pod without it, or with one that cannot be read:
    its agent has said so.
    """
    text = pod.annotations.get(names.NEAR)
    try:
        return None if text is None else read_near(text)
    except ValueError:
        return None


def near_key(near: Near | None, pod_info: PodInfo) -> Hashable:
    """All of the pod that `clusters_with` looks at."""
    if near is None:
        return None
    if near.kind == APP:
        return near, pod_info.pod.namespace, frozenset(pod_info.pod.app_labels.items())
    return (near, pod_info.home) if near.kind == SERVICE else near


def clusters_with(near: Near, pod_info: PodInfo, fleet: FleetView) -> Ints:
    """[clusters] how many of the named pods run there; of a cluster or a zone, 1 where it is."""
    found = np.zeros(len(fleet.clusters), dtype=np.int64)
    if near.kind in (APP, SERVICE):
        pods = pods_meant(near, pod_info, fleet)
        return found if pods is None else fleet.affinity.count_in(pods, CLUSTER_KEY).copy()
    if near.kind == CLUSTER:
        found[[at for at, info in enumerate(fleet.clusters) if info.name == near.name]] = 1
        return found
    values = list(fleet.topology.domain_values(ZONE_KEY))
    if near.kind == ZONE and near.name in values:
        in_zone = fleet.nodes.live & (fleet.topology.domain(ZONE_KEY) == values.index(near.name))
        found[np.unique(fleet.nodes.cluster[in_zone])] = 1
    return found


def pods_meant(near: Near, pod_info: PodInfo, fleet: FleetView) -> PodSet | None:
    """The pods of an APP, or those that a SERVICE of the cluster of submission selects; None if
    there is none, or it selects none.
    """
    if near.kind == APP:
        return pods_beside(pod_info.pod, None)
    service = fleet.objects.of(pod_info.home, Service).get(f"{near.namespace}/{near.name}")
    if service is None or not service.selector:
        return None
    return pods_in(near.namespace, LabelSelector(dict(service.selector)))
