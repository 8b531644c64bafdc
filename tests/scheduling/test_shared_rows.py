"""Classes that look alike to a plugin of rows share what it said; it is asked anew when what it read has moved."""

import numpy as np

from dispatcher.kit.samples import a_fleet, a_node, a_pod, seat
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import (
    ClusterScore,
    Codes,
    Depends,
    Filter,
    FleetView,
    Floats,
    Plugin,
    PluginUse,
    PodInfo,
    Profile,
    Score,
)
from shared.model.labels import LabelSelector

ZONE = "topology.kubernetes.io/zone"
BESIDE = {"n0": "n1", "n1": "n0", "n2": "n3", "n3": "n2"}  # the other node of the same zone


class Everywhere(Filter[None]):
    """Refuses nothing."""

    name, depends = "Everywhere", Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def filter(self, state: None, fleet: FleetView, rows: RowList | slice) -> Codes:
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)


class ByLabel(ClusterScore):
    """Tells classes apart, and nothing else."""

    name = "ByLabel"

    def class_key(self, pod_info: PodInfo) -> str:
        return pod_info.pod.labels.get("who", "")

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Floats:
        return np.zeros(len(fleet.clusters))


class FarFromWeb(Score[None]):
    """Prefers zones with few pods of the app `web`, which it counts only when rows are scored."""

    name, depends = "FarFromWeb", Depends.NODE

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def score(self, state: None, fleet: FleetView, rows: RowList | slice) -> Floats:
        selector = LabelSelector(match_labels={"app": "web"})
        counts = fleet.topology.count_matching(a_pod("any").pod, selector, ZONE)
        points: Floats = 100.0 - 10.0 * counts[fleet.topology.domain(ZONE)[rows]].astype(np.float64)
        return points


def scheduler(fleet: FleetState) -> Scheduler:
    plugins: list[Plugin] = [Everywhere(), ByLabel(), FarFromWeb()]
    return Scheduler(Profile("any", tuple(PluginUse(one.name) for one in plugins)), plugins, fleet)


def test_a_count_that_only_the_first_of_two_classes_made_it_read_is_followed_for_both() -> None:
    zones = {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}
    fleet = a_fleet({"east": [a_node(name, labels={ZONE: zone}) for name, zone in zones.items()]})
    pods = {who: a_pod(who, labels={"who": who}) for who in ("a", "b")}
    shared = scheduler(fleet)

    def chosen(by: Scheduler, who: str) -> tuple[str, float]:
        found = by.would_choose(("east", f"uid-{who}"), pods[who])
        assert found is not None
        return found.node, found.score

    first, _ = chosen(shared, "a")
    assert chosen(shared, "b")[0] == first
    for at in range(3):
        seat(fleet, a_pod(f"w{at}", labels={"app": "web"}), "east", BESIDE[first])
    for who in pods:
        assert chosen(shared, who) == chosen(scheduler(fleet), who)
