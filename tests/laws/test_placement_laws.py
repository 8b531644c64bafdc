"""Whatever happens to a fleet, the fast path decides what a naive scheduler would, and never over-commits a node."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.framework import Placed
from tests.builders import node, pod, reading
from tests.laws import oracle
from tests.scheduling.tiny_plugins import all_plugins, profile

WEIGHTS = profile(Ready=1, Selector=2, Fit=1, Live=1.5, Spread=3, Crowd=0.7, Quota=1)
CLUSTERS = ("a", "b", "c")
NODES = ("n1", "n2", "n3")
QUOTA = 6000

clusters = st.sampled_from(CLUSTERS)
node_names = st.sampled_from(NODES)


@st.composite
def node_events(draw: st.DrawFn) -> tuple[Any, ...]:
    built = (
        node(draw(node_names))
        .cpu(draw(st.sampled_from(("500m", "1", "2"))))
        .memory(draw(st.sampled_from(("1Gi", "2Gi"))))
        .pods(draw(st.sampled_from((1, 3, 110))))
        .ready(draw(st.sampled_from((True, True, True, False))))
    )
    zone, soft = draw(st.sampled_from(("", "x", "y"))), draw(st.sampled_from(("", "1", "5")))
    built = built.labels(zone=zone) if zone else built
    built = built.labels(soft=soft) if soft else built
    return ("node", draw(clusters), built.build())


@st.composite
def pods(draw: st.DrawFn) -> Placed:
    one = pod("p").namespace(draw(st.sampled_from(("default", "other")))).labels(app=draw(st.sampled_from("uv")))
    one = one.cpu(draw(st.sampled_from(("100m", "250m", "400m"))))
    kind = draw(st.sampled_from(("plain", "plain", "zone", "cluster", "soft", "selector", "crowd", "memory", "gpu")))
    made = {
        "plain": lambda: one,
        "zone": lambda: one.spread("zone"),
        "cluster": lambda: one.spread("cluster", 2),
        "soft": lambda: one.spread("host", hard=False),
        "selector": lambda: one.node_selector({"zone": "x"}),
        "crowd": lambda: one.annotation("crowd", "yes"),
        "memory": lambda: one.memory("300Mi"),
        "gpu": lambda: one.request("example.com/gpu", 1),
    }[kind]()
    return made.placed(draw(clusters))


events = st.one_of(
    node_events(),
    st.tuples(st.just("gone"), clusters, node_names),
    st.tuples(st.just("cluster"), clusters, st.booleans()),
    st.tuples(st.just("reading"), clusters, node_names, st.floats(0, 1), st.floats(0, 90)),
    st.tuples(st.just("later"), st.floats(0, 30)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 12)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 12)),
    st.tuples(st.just("end"), st.integers(0, 30)),
)


class Both:
    """The product and the oracle, fed the same events."""

    def __init__(self, batched: bool) -> None:
        self.batched = batched
        self.world = oracle.World()
        self.fleet = FleetState(now=self.world.now)
        self.plugins, self.naive = all_plugins(QUOTA), all_plugins(QUOTA)
        self.scheduler = Scheduler(WEIGHTS, self.plugins, self.fleet)
        self.count = 0
        for name in CLUSTERS:
            self.cluster(name, True)

    def cluster(self, name: str, ready: bool) -> None:
        self.world.clusters[name] = ready
        self.fleet.set_cluster(name, ready=ready, synced=True)

    def node(self, cluster: str, built: Any) -> None:
        self.world.nodes[cluster, built.name] = built
        self.fleet.put_node(cluster, built)

    def gone(self, cluster: str, name: str) -> None:
        self.world.nodes.pop((cluster, name), None)
        self.world.readings.pop((cluster, name), None)
        self.fleet.remove_node(cluster, name)

    def reading(self, cluster: str, name: str, cpu: float, age: float) -> None:
        if (cluster, name) not in self.world.nodes:
            return
        known = self.world.readings.get((cluster, name))
        if known is not None and self.world.now - age < known[0] - known[1].cpu_age_s:
            return
        self.world.readings[cluster, name] = (self.world.now, reading(name, cpu=cpu, age=age), self.world.turn())
        self.fleet.put_reading(cluster, reading(name, cpu=cpu, age=age))

    def later(self, seconds: float) -> None:
        self.world.now += seconds
        self.fleet.now = self.world.now

    def end(self, index: int) -> None:
        ids = list(self.world.seats)
        if index < len(ids):
            seat = self.world.seats.pop(ids[index])
            for plugin in self.naive:
                if plugin.name == "Quota":
                    plugin.unreserve(seat.placed, 0, self.fleet)  # type: ignore[attr-defined]
            self.scheduler.ended(ids[index])

    def pods(self, placed: Placed, count: int) -> None:
        items = [((placed.home, f"u{self.count + index}"), placed) for index in range(count)]
        self.count += count
        wanted = [oracle.schedule(self.world, WEIGHTS, self.naive, placed, pod_id) for pod_id, _ in items]
        if self.batched:
            results = self.scheduler.schedule_class(items)
        else:
            results = [self.scheduler.schedule(one, pod_id) for pod_id, one in items]
        got = [(one.cluster, one.node) if isinstance(one, Decision) else None for one in results]
        assert got == wanted

    def apply(self, event: tuple[Any, ...]) -> None:
        getattr(self, event[0])(*event[1:])

    def nothing_is_over_committed(self) -> None:
        left = self.fleet.allocatable - self.fleet.requested
        shrunk = self.fleet.requested > self.fleet.allocatable  # a node may shrink under the pods it has
        assert not (shrunk.any() and (left[:, ~shrunk.any(axis=0)] < 0).any())


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=60, deadline=None)
@given(script=st.lists(events, max_size=25))
def test_the_fast_path_decides_what_the_oracle_decides(batched: bool, script: list[tuple[Any, ...]]) -> None:
    both = Both(batched)
    for name in CLUSTERS:
        both.node(name, node("n1").cpu("2").labels(zone="x" if name == "a" else "y").build())
    for event in script:
        both.apply(event)
