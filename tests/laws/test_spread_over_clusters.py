"""Hard spread counts a remote pod where its delegate runs, whatever labels the delegate was left with."""

from collections import Counter
from collections.abc import Sequence

import pytest

from dispatcher.scheduling import events
from dispatcher.scheduling.core import SchedulerCore
from shared.model.labels import LabelSelector
from shared.model.names import DELEGATE_LABEL, ZONE
from shared.model.node import Node
from shared.model.pod import SpreadConstraint
from tests.laws.cores import make_core
from tests.laws.world import ModelCluster, World, replace

CLUSTERS = ("east", "north", "west")
LABELS = {"app": "web", "pod-template-hash": "abc"}
BY_APP = SpreadConstraint("zone")
BY_SELECTOR = SpreadConstraint("zone", selector=LabelSelector(LABELS))


class Fleet:
    """Three clusters of three zones, one node each, and a core that may be restarted."""

    def __init__(self) -> None:
        self.world = World({})
        for name in CLUSTERS:
            nodes = [
                Node(zone, labels={ZONE: zone}, ready=True, allocatable={"cpu": 9000, "pods": 99})
                for zone in (f"{name}-{letter}" for letter in "abc")
            ]
            self.world.clusters[name] = ModelCluster(name, nodes, [c for c in CLUSTERS if c != name], self.world)
        self.boots, self.now = 0, 0.0
        self.restart()

    def restart(self) -> None:
        self.boots += 1
        self.core: SchedulerCore = make_core(CLUSTERS, boot_epoch=self.boots * 10**6)

    def submit(self, count: int, constraint: SpreadConstraint) -> None:
        east = self.world.clusters["east"]
        for i in range(count):
            pod = east.submit(f"web-{len(east.pods)}-{i}", 100)
            east.pods[pod.uid] = replace(pod, labels=LABELS, spread=(constraint,))

    def settle(self) -> None:
        for _ in range(12):
            self.now += 1.0
            mail: Sequence[events.Effect] = ()
            for cluster in self.world.clusters.values():
                strip(cluster)
                cluster.watch()
                view = self.core.clusters[cluster.name]
                changed = events.ClusterChanged(cluster.changes(view.revision, view.incarnation))
                mail = [*mail, *self.core.handle(changed, self.now)]
            self.carry_out([*mail, *self.core.handle(events.Tick(), self.now)])

    def carry_out(self, effects: Sequence[events.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, events.SendIntents):
                cluster = self.world.clusters[effect.cluster]
                outcomes = tuple(cluster.execute(intent) for intent in effect.intents)
                self.carry_out(self.core.handle(events.Answered(effect.cluster, outcomes), self.now))

    def zones(self) -> Counter[str]:
        count = Counter({f"{name}-{zone}": 0 for name in CLUSTERS for zone in "abc"})
        for cluster in self.world.clusters.values():
            count.update(pod.node for pod in cluster.pods.values() if pod.node in count)
        return count


def strip(cluster: ModelCluster) -> None:
    """Delegates keep the labels that travel, and get ours."""
    for uid, pod in list(cluster.pods.items()):
        if pod.source is not None:
            cluster.pods[uid] = replace(pod, labels={"app": "web", DELEGATE_LABEL: "true"})


@pytest.mark.parametrize("constraint", [BY_APP, BY_SELECTOR], ids=["by app", "by a selector on the template hash"])
def test_zone_skew_stays_within_1_through_scale_ups_and_a_restart(
    constraint: SpreadConstraint,
) -> None:
    fleet = Fleet()
    total = 0
    for step, count in enumerate((7, 5, 8, 11)):
        if step == 2:
            fleet.restart()
        fleet.submit(count, constraint)
        fleet.settle()
        total += count
        zones = fleet.zones()
        assert zones.total() == total
        assert max(zones.values()) - min(zones.values()) <= 1, zones
