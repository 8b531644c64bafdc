"""What a pod names (a cluster, a zone, pods, data), where that is, and policies that score fault
domains by what they cost to it.

Such a policy says what counts as named and its table of costs. Rows without the domain of a cost
get no points for it; a name that is nowhere makes no difference between nodes.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    CountedPlugin,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    closed_domains,
    constant,
)
from dispatcher.scheduling.framework.pod_sets import PodSet, app_name, pods_beside, pods_in
from shared.model import names
from shared.model.labels import LabelSelector
from shared.model.nearness import CLUSTER, SERVICE, ZONE, Near, read_near
from shared.model.objects import Service
from shared.model.pod import Pod

APP = "app"
DATA = "data"
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


def data_of(pod: Pod) -> Near | None:
    """The data that the pod wishes to be near to, or else requires."""
    told = pod.annotations
    name = told.get(names.DATA, told.get(names.REQUIRE_DATA))
    return None if name is None else Near(DATA, name)


@dataclass(frozen=True)
class Places:
    """What a pod names, as the fleet is now.

    `there`: [clusters] how many of the named pods run there, or 1 where what is named is. `costs`:
    by topology key, [domains]; none where it is nowhere. `rules`: the same as scores, always of the
    same keys, and which clusters are closed (`Filter.closed_clusters`); they do not last where pods
    of the class may be among those that are named.
    """

    near: Near
    there: Ints
    costs: Mapping[str, Floats]
    rules: CountRules


class PlacePlugin(CountedPlugin[Places]):
    """A policy by what fault domains cost to the place that a pod names."""

    keyed_by_template = True
    datasets: Mapping[str, Sequence[str]] = {}  # name of data: clusters that have it

    @abstractmethod
    def named(self, pod: Pod) -> Near | None:
        """What the pod names; None for nothing."""

    @abstractmethod
    def costs(
        self, near: Near, there: Ints, pod_info: PodInfo, fleet: FleetView
    ) -> Mapping[str, Floats]:
        """By topology key, what each domain costs to what is named, which is somewhere."""

    def keys(self, near: Near) -> Iterable[str]:
        """The topology keys of the costs."""
        return (CLUSTER_KEY,)

    def points(self, costs: Mapping[str, Floats], there: Ints) -> Mapping[str, Floats]:
        """The costs as scores; by default they are that."""
        return costs

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What is named, and all of the pod that tells where that is."""
        near = self.named(pod_info.pod)
        if near is None or near.kind not in (APP, SERVICE):
            return near
        return near, pod_info.home if near.kind == SERVICE else "", app_name(pod_info.pod)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Places | Refuse | Skip:
        """Costs as things stand; SKIP for a pod that names nothing."""
        near = self.named(pod_info.pod)
        if near is None:
            return SKIP
        there = self.clusters_with(near, pod_info, fleet)
        costs: Mapping[str, Floats] = {}
        if there.any():
            costs = self.costs(near, there, pod_info, fleet)
            points = self.points(costs, there)
        else:
            sizes = {key: len(fleet.topology.domain_values(key)) for key in self.keys(near)}
            points = {key: np.zeros(size) for key, size in sizes.items()}
        closed = self.closed_clusters(pod_info, fleet)
        pods = pods_meant(near, pod_info, fleet)
        moved = pods is not None and _may_hold(pods, pod_info.pod)
        return Places(near, there, costs, _rules(points, closed, fleet, lasting=not moved))

    def refresh(
        self, state: Places | Refuse | Skip, pod_info: PodInfo, fleet: FleetView
    ) -> Places | Refuse | Skip:
        """Pods move nothing but where pods are."""
        counts = isinstance(state, Places) and state.near.kind in (APP, SERVICE)
        return self.pre_filter(pod_info, fleet) if counts else state

    def rules(self, state: Places, fleet: FleetView) -> CountRules:
        """The points and closed clusters as tables."""
        return state.rules

    def clusters_with(self, near: Near, pod_info: PodInfo, fleet: FleetView) -> Ints:
        """[clusters] as `Places.there`."""
        pods = pods_meant(near, pod_info, fleet)
        if pods is not None:
            return fleet.affinity.count_in(pods, CLUSTER_KEY).copy()
        found = np.zeros(len(fleet.clusters), dtype=np.int64)
        if near.kind in (CLUSTER, DATA):
            having = (near.name,) if near.kind == CLUSTER else self.datasets.get(near.name, ())
            found[[at for at, info in enumerate(fleet.clusters) if info.name in having]] = 1
        elif near.kind == ZONE and near.name in (values := fleet.topology.domain_values(ZONE_KEY)):
            zone = list(values).index(near.name)
            in_zone = fleet.nodes.live & (fleet.topology.domain(ZONE_KEY) == zone)
            found[np.unique(fleet.nodes.cluster[in_zone])] = 1
        return found


def pods_meant(near: Near, pod_info: PodInfo, fleet: FleetView) -> PodSet | None:
    """The pods of an APP, or those that a SERVICE of the cluster of submission selects; None if
    there is none, or it selects none, and of anything else.
    """
    if near.kind == APP:
        return pods_beside(pod_info.pod, None)
    if near.kind != SERVICE:
        return None
    service = fleet.objects.of(pod_info.home, Service).get(f"{near.namespace}/{near.name}")
    if service is None or not service.selector:
        return None
    return pods_in(near.namespace, LabelSelector(dict(service.selector)))


def _rules(
    points: Mapping[str, Floats], closed: Codes | None, fleet: FleetView, *, lasting: bool
) -> CountRules:
    domain = fleet.topology.domain
    terms = [constant(domain(key), values) for key, values in points.items()]
    refusals = []
    if closed is not None and closed.any():
        refusals = [closed_domains(domain(CLUSTER_KEY), closed > 0, int(closed.max()))]
    return CountRules(refusals, score_terms=terms, lasting=lasting)


def _may_hold(pods: PodSet, pod: Pod) -> bool:
    """Whether any pod with the namespace and the app labels of `pod` may be one of the set."""
    lacks = (
        all(names.is_app_label(key) and pod.labels.get(key) != value for key, value in clue)
        for clue in pods.clues
    )
    return pod.namespace in (pods.namespaces or ()) and not any(lacks)
