"""No pod waits for long while there is room for it, though of those that are refused alike one is tried for all."""

from collections.abc import Callable, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.messages import BOUND, Bind, Changes, Outcome
from dispatcher.model.names import HOSTNAME
from dispatcher.model.node import Node
from dispatcher.model.pod import RUNNING, Pod
from dispatcher.scheduling import events
from tests.builders import PodBuilder, node, pod, selector
from tests.laws.cores import make_core
from tests.laws.examples import examples

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
)


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
)


class World:
    """One cluster, and an agent that binds what it is told to."""

    def __init__(self) -> None:
        self.core, self.now, self.revision = make_core(["a"]), 100.0, 0
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.report(full=True)

    def report(self, *, full: bool = False, **what: object) -> None:
        self.revision += 1
        changes = Changes("a", "uid-a", "life", self.revision - 1, self.revision, full, **what)  # type: ignore[arg-type]
        self.take(self.core.handle(events.ClusterChanged(changes), self.now))

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.core.handle(events.Tick(), self.now))

    def take(self, effects: Sequence[events.Effect]) -> None:
        for effect in effects:
            for intent in effect.intents if isinstance(effect, events.SendIntents) else ():
                if isinstance(intent, Bind):
                    answer = Outcome(intent.id, intent.pod.uid, intent.epoch, BOUND)
                    self.take(self.core.handle(events.Answered("a", (answer,)), self.now))
                    shown = msgspec.structs.replace(self.pods[intent.pod.uid], node=intent.node, phase=RUNNING)
                    self.pods[shown.uid] = shown
                    self.report(pods=(shown,))

    def come(self, template: int, count: int, *, owned: bool) -> None:
        first = len(self.pods) + self.revision * 100
        owner = f"ReplicaSet/web-{template}/uid" if owned else ""
        some = [TEMPLATES[template](pod(f"p{first + at:07}")).set(owner=owner).build() for at in range(count)]
        self.pods |= {one.uid: one for one in some}
        self.report(pods=tuple(some))

    def end(self, number: int) -> None:
        if there := sorted(self.pods):
            gone = self.pods.pop(there[number % len(there)])
            self.report(pods_gone=(gone.uid,))

    def lose(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            gone = tuple(one.uid for one in self.pods.values() if one.node == name)
            self.pods = {uid: one for uid, one in self.pods.items() if one.node != name}
            self.report(nodes_gone=(name,), pods_gone=gone)

    def do(self, what: str, which: object) -> None:
        """One step."""
        if isinstance(which, Node):
            self.nodes[which.name] = which
            self.report(nodes=(which,))
        elif isinstance(which, tuple):
            self.come(which[0], which[1], owned=which[2])
        elif isinstance(which, int):
            {"end": self.end, "node gone": lambda at: self.lose(f"n{at}"), "wait": self.tick}[what](which)
        self.tick(0.1)

    def have_room(self) -> list[str]:
        """Pods that wait and would find a place if they were tried."""
        queue, profiles, found = self.core.queue, self.core.profiles, []
        for uid in self.pods:
            item = queue.get(("a", uid))
            if item is not None and profiles.of(item.placed).would_choose(item.pod_id, item.placed) is not None:
                found.append(item.placed.pod.name)
        return found


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEP, min_size=10, max_size=30))
def test_no_pod_waits_while_there_is_room_for_it(steps: list[tuple[str, object]]) -> None:
    world = World()
    for what, which in steps:
        world.do(what, which)
    for _ in range(60):
        world.tick(0.5)
    assert world.have_room() == []
