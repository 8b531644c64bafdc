"""The product and the naive oracle side by side, fed the same events."""

from collections.abc import Callable, Sequence
from typing import Any

from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Plugin, PodInfo, Profile, Reserve
from shared.messages import LinkReading
from shared.model.node import Node
from shared.model.objects import Namespace, Service
from tests.builders import reading
from tests.laws import oracle

CLUSTERS = ("a", "b", "c")


class Pair:
    """Both sides; every decision of the product is compared with the oracle's.

    `plugins()` begins one side's bookkeeping; what it answers makes plugins upon it: the oracle takes new ones for each
    decision, so that nothing a plugin remembers can help it.
    """

    def __init__(self, profile: Profile, plugins: Callable[[], Callable[[], list[Plugin]]], *, batched: bool) -> None:
        self.batched, self.profile = batched, profile
        self.world = oracle.World()
        self.fleet = FleetState(now=self.world.now)
        self.naive = plugins()
        self.scheduler = Scheduler(profile, plugins()(), self.fleet)
        self.results: list[Decision | Unschedulable] = []
        for name in CLUSTERS:
            self.cluster(name, True)

    def apply(self, event: tuple[Any, ...]) -> None:
        """("node", "a", node) calls `node("a", node)`."""
        getattr(self, event[0])(*event[1:])

    def cluster(self, name: str, ready: bool) -> None:
        self.world.clusters[name] = ready
        self.fleet.set_cluster(name, ready=ready, synced=True)

    def node(self, cluster: str, built: Node) -> None:
        self.world.nodes[cluster, built.name] = built
        self.fleet.put_node(cluster, built)

    def gone(self, cluster: str, name: str) -> None:
        self.world.nodes.pop((cluster, name), None)
        self.world.readings.pop((cluster, name), None)
        self.fleet.remove_node(cluster, name)

    def namespace(self, cluster: str, name: str, labels: dict[str, str]) -> None:
        self.world.namespaces[cluster, name] = labels
        self.fleet.kept.put(cluster, Namespace(name, labels))

    def reading(self, cluster: str, name: str, cpu: float, age: float) -> None:
        world, known = self.world, self.world.readings.get((cluster, name), [])
        older = bool(known) and world.now - age < known[-1][0] - known[-1][1].cpu_age_s
        if (cluster, name) not in world.nodes or older:
            return
        taken = reading(name, cpu=cpu, memory=cpu / 2, net=cpu / 3, age=age)
        world.readings.setdefault((cluster, name), []).append((world.now, taken, world.turn()))
        self.fleet.put_reading(cluster, taken)

    def link(self, source: str, target: str, rtt_ms: float, age: float) -> None:
        measured = LinkReading(target, rtt_ms, age_s=age)
        self.world.links.append((self.world.now, source, measured))
        self.fleet.links.take(source, [measured], self.world.now)

    def service(self, cluster: str, name: str, app: str) -> None:
        found = Service("default", name, selector={"app": app} if app else {})
        self.world.services[cluster, found.key] = found
        self.fleet.kept.put(cluster, found)

    def later(self, seconds: float) -> None:
        self.world.now += seconds
        self.fleet.now = self.world.now
        self.world.links.append((self.world.now, "", None))
        self.fleet.links.expire(self.world.now)

    def end(self, index: int) -> None:
        ids = list(self.world.seats)
        if index < len(ids):
            seat = self.world.seats.pop(ids[index])
            for plugin in self.naive():
                if isinstance(plugin, Reserve):
                    plugin.unreserve(seat.pod_info, 0, view_of(self.fleet))
            self.scheduler.forget(ids[index])

    def pods(self, pod_info: PodInfo, count: int) -> None:
        first = len(self.results)
        self.decide([oracle.numbered(pod_info, first + index) for index in range(count)])

    def decide(self, items: Sequence[tuple[tuple[str, str], PodInfo]]) -> None:
        """Pods of one class, in order, on both sides."""
        wanted = [self.expect(one, pod_id) for pod_id, one in items]
        if self.batched:
            results = self.scheduler.schedule_class(items)
        else:
            results = [self.scheduler.schedule(one, pod_id) for pod_id, one in items]
        self.results += results
        assert [(one.cluster, one.node) if isinstance(one, Decision) else None for one in results] == wanted

    def expect(self, pod_info: PodInfo, pod_id: tuple[str, str]) -> tuple[str, str] | None:
        return oracle.schedule(self.world, self.profile, self.naive(), pod_info, pod_id)
