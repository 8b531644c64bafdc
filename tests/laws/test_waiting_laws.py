"""No pod waits for long while there is room for it, though of those that are refused alike one is tried for all."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from shared.messages import DONE, OF_CLUSTER, OF_NODE, REFUSED, AnyIntent, Bind, Evict
from shared.model.names import HOSTNAME
from shared.model.node import Node
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, node, pod, selector
from tests.laws.examples import examples
from tests.laws.parts import SMALL, Sizes, parts
from tests.scheduling.one_cluster import OneCluster

ZONE = "topology.kubernetes.io/zone"
# Templates, none of which has volumes: so pods of each are refused alike.
TEMPLATES: Sequence[Callable[[PodBuilder], PodBuilder]] = (
    lambda one: one.cpu(1),
    lambda one: one.cpu(3),
    lambda one: one.cpu(1).node_selector({"zone": "z1"}),
    lambda one: one.cpu("100m").labels(app="alone").away(HOSTNAME, selector(app="alone")),
    lambda one: one.cpu("100m").labels(app="even").spread(ZONE, selector=selector(app="even")),
    lambda one: one.cpu("100m").labels(app="guest").near(ZONE, selector(app="host")),
    lambda one: one.cpu("500m").labels(app="host"),
    lambda one: one.cpu("100m").port(8080),
    lambda one: one.cpu(1).tolerates("kept", operator="Exists"),
    lambda one: one.cpu(3).priority(5),
    lambda one: one.cpu(1).priority(9),
    lambda one: one.cpu(1).namespace("red"),
    lambda one: one.cpu(1).namespace("red").labels(app="other"),
    lambda one: one.cpu(1).namespace("red").priority(9),
)
TENANT = Tenant("red", ("red",), {"cpu": Share(absolute=4000)})


def nodes(number: int, *, kept: bool = False, cordoned: bool = False, zone: int = 0) -> Node:
    one = node(f"n{number}").cpu(4).labels(zone=f"z{zone}").label({"zone": f"z{zone}"})
    one = one.taint("kept") if kept else one
    return (one.cordoned() if cordoned else one).build()


NUMBER = st.integers(0, 3)
RARELY = st.integers(0, 5).map(lambda number: number == 5)
NODE = st.builds(nodes, NUMBER, kept=RARELY, cordoned=RARELY, zone=st.integers(0, 2))
STEP = st.one_of(
    st.tuples(st.just("node"), NODE),
    st.tuples(st.just("node"), NODE),
    st.tuples(st.just("node gone"), NUMBER),
    st.tuples(st.just("come"), st.tuples(st.integers(0, len(TEMPLATES) - 1), st.integers(5, 9), st.booleans())),
    st.tuples(st.just("end"), st.integers(0, 99)),
    st.tuples(st.just("wait"), st.integers(0, 30)),
    st.tuples(st.just("refuse"), st.integers(0, 3)),
    st.tuples(st.sampled_from(("relabel", "shrink", "begin to end")), st.integers(0, 99)),
)


class World(OneCluster):
    """With a tenant; evicted pods go, and some binds are refused."""

    def __init__(self) -> None:
        self.ledger = QuotaLedger((TENANT,))
        super().__init__(self.ledger)
        self.refusals = 0
        self.nodes: dict[str, Node] = {}
        self.report(full=True)

    def obey(self, intent: AnyIntent) -> None:
        if isinstance(intent, Evict):
            self.answer(intent, DONE)
            if self.pods.pop(intent.pod.name, None) is not None:
                self.report(pods_gone=(intent.pod.uid,))
        super().obey(intent)

    def bind(self, intent: Bind) -> None:
        if not self.refusals:
            super().bind(intent)
            return
        self.refusals -= 1
        self.answer(intent, REFUSED, message="no", scope=OF_CLUSTER if self.refusals == 0 else OF_NODE)

    def refuse(self, count: int) -> None:
        """So many of the next binds are."""
        self.refusals = count

    def come(self, template: int, count: int, *, owned: bool) -> None:
        first = len(self.pods) + self.revision * 100
        owner = f"ReplicaSet/web-{template}/uid" if owned else ""
        some = [TEMPLATES[template](pod(f"p{first + at:07}")).set(owner=owner).build() for at in range(count)]
        self.submit(*some)

    def end(self, number: int) -> None:
        if there := sorted(self.pods):
            gone = self.pods.pop(there[number % len(there)])
            self.report(pods_gone=(gone.uid,))

    def change(self, number: int, **what: Any) -> None:
        """One of the pods that have a node."""
        if there := sorted(name for name, one in self.pods.items() if one.node):
            name = there[number % len(there)]
            self.pods[name] = msgspec.structs.replace(self.pods[name], **what)
            self.report(pods=(self.pods[name],))

    def lose(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            gone = tuple(one.uid for one in self.pods.values() if one.node == name)
            self.pods = {pod: one for pod, one in self.pods.items() if one.node != name}
            self.report(nodes_gone=(name,), pods_gone=gone)

    def do(self, what: str, which: object) -> None:
        """One step."""
        if isinstance(which, Node):
            self.nodes[which.name] = which
            self.report(nodes=(which,))
        elif isinstance(which, tuple):
            self.come(which[0], which[1], owned=which[2])
        elif isinstance(which, int):
            steps: dict[str, Callable[[int], None]] = {"end": self.end, "wait": self.tick, "refuse": self.refuse}
            steps["node gone"] = lambda at: self.lose(f"n{at}")
            steps["relabel"] = lambda at: self.change(at, labels={"app": ("host", "alone", "other")[at % 3]})
            steps["shrink"] = lambda at: self.change(at, requests={"cpu": 10})
            steps["begin to end"] = lambda at: self.change(at, terminating=True)
            steps[what](which)
        self.tick(0.1)

    def tried(self) -> int:
        """How many pods are to be tried soon."""
        counts = self.core.queue.counts()
        return counts["active"] + counts["backoff"] + self.core.waking

    def have_room(self) -> list[str]:
        """Pods that wait and would find a place if they were tried."""
        waiting = [self.core.queue.get(("a", one.uid)) for one in self.pods.values()]
        return [item.pod_info.pod.name for item in waiting if item is not None and self.fits(item)]

    def fits(self, item: QueuedPod) -> bool:
        profiles, pod, totals = self.core.profiles, item.pod_info.pod, self.core.fleet.allocatable_total()
        if pod.namespace == "red" and self.ledger.exceeded("red", charge_of(pod), totals):
            return False
        refused = self.core.refusals.known(item.pod_id, pod, self.now)
        placed = msgspec.structs.replace(item.pod_info, refused=tuple(refused))
        with profiles.nominations.aside_for(item.pod_id, placed):
            return profiles.of(placed).would_choose(item.pod_id, placed) is not None


TWO_NODES: Sequence[tuple[str, object]] = (("node", nodes(0, zone=0)), ("node", nodes(1, zone=1)))


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEP, min_size=10, max_size=30))
@example(steps=[*TWO_NODES, ("node", nodes(2, zone=2, cordoned=True)), ("come", (4, 3, True)), ("node gone", 2)])
@example(steps=[*TWO_NODES, ("come", (0, 1, True)), ("wait", 3), ("come", (5, 1, True)), ("wait", 3), ("relabel", 0)])
@example(steps=[*TWO_NODES, ("come", (3, 3, True)), ("wait", 3), ("relabel", 2)])
@example(steps=[*TWO_NODES, ("come", (1, 3, True)), ("wait", 3), ("shrink", 0)])
def test_no_pod_waits_while_there_is_room_for_it(steps: list[tuple[str, object]]) -> None:
    nobody_waits_after(steps)


@settings(max_examples=examples(100), deadline=None)
@given(steps=st.lists(STEP, min_size=10, max_size=30), sizes=SMALL)
def test_nor_where_those_whom_events_may_help_are_woken_part_by_part(
    steps: list[tuple[str, object]], sizes: Sizes
) -> None:
    with parts(sizes):
        nobody_waits_after(steps)


def nobody_waits_after(steps: list[tuple[str, object]]) -> None:
    """Once nothing more happens, and all whom that may help were tried."""
    world = World()
    for what, which in steps:
        world.do(what, which)
    for _ in range(60):
        world.tick(0.5)
    for _ in range(60):  # refusals that end just now
        if not world.tried():
            break
        world.tick(0.5)
    assert not world.tried()
    assert world.have_room() == []
