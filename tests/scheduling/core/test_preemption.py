"""Preemption in the core, where quota, too, has a word in it."""

import msgspec
import pytest

from dispatcher.scheduling.events import Tick
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import Bind
from shared.model.node import Node
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, node
from tests.builders import pod as built
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import FULL, NODE, bound, change, intents, pod, report
from tests.scheduling.one_cluster import OneCluster


@pytest.mark.parametrize("came", [1.2, 2.0], ids=["while the others back off", "beside the others"])
def test_room_that_was_promised_to_a_pod_which_quota_stops_goes_to_the_next_pod(came: float) -> None:
    core = make_core(("east",), ledger=QuotaLedger((Tenant("team", ("default",), {"cpu": Share(absolute=3000)}),)))
    more = Node("n2", ready=True, allocatable=NODE.allocatable)
    low, other, meek = (
        msgspec.structs.replace(one, namespace="other")
        for one in (bound("low1"), pod("low2", node="n2", phase="Running", **FULL), pod("meek", **FULL))
    )
    report(core, low, other, pod("a", priority=10, **FULL), pod("b", priority=10, **FULL), nodes=(NODE, more))
    core.handle(Tick(), 1.0)
    assert len(core.profiles.nominations) == 2
    change(core, meek, gone=("uid-low1", "uid-low2"), now=came)
    effects = [one for second in range(19) for one in core.handle(Tick(), came + second)]
    placed = [bind.pod.name for bind in intents(effects, Bind)]  # type: ignore[attr-defined]
    assert sorted(placed) in (["a", "meek"], ["b", "meek"])


def test_room_that_was_promised_to_a_pod_which_is_deleted_goes_to_who_waits() -> None:
    core = make_core(("east",))
    large, small = ({"requests": {"cpu": cpu}} for cpu in (3000, 1500))
    low = pod("low", node="n1", phase="Running", requests={"cpu": 2000})
    report(core, low, pod("a", priority=10, **large))
    core.handle(Tick(), 1.0)
    change(core, pod("meek", **small), now=1.5)
    assert not intents(core.handle(Tick(), 1.6), Bind)
    change(core, gone=("uid-a",), now=3.0)
    effects = [one for second in range(4, 20) for one in core.handle(Tick(), float(second))]
    assert [bind.pod.name for bind in intents(effects, Bind)] == ["meek"]  # type: ignore[attr-defined]


# --- replicas beside a nominee ---------------------------------------------------------------------------------------


def replica(number: int) -> PodBuilder:
    return built(f"web-{number:02}").cpu(4).priority(9).set(owner="ReplicaSet/web/uid")


class World(OneCluster):
    """Nodes of 4 CPU. Evictions are ordered; a pod goes when the test says so."""

    def node(self, number: int, *pods: PodBuilder, cpu: int = 4) -> None:
        """One more node, with pods that run there."""
        running = tuple(one.on(f"n{number}").build() for one in pods)
        self.pods |= {one.name: one for one in running}
        self.report(full=not self.revision, nodes=(node(f"n{number}").cpu(cpu).build(),), pods=running)

    def end(self, name: str) -> None:
        self.report(pods_gone=(self.pods.pop(name).uid,))

    def refusals(self) -> int:
        return sum(count for (what, _), count in self.core.counters.items() if what == "unschedulable")


def test_a_pod_takes_the_room_that_is_cleared_for_it_though_replicas_that_were_refused_waited_before_it() -> None:
    world = World()
    world.node(1, built("peer").cpu(4).priority(9))
    world.submit(*(replica(number).build() for number in range(3)))
    world.tick()
    world.tick(60.0)
    world.node(2, built("low").cpu(4))
    for _ in range(5):
        world.tick()
    nominations = world.core.profiles.nominations
    assert [number for number in range(3) if nominations.of(("a", f"uid-web-{number:02}"))] == [0]
    world.tick(60.0)
    world.end("low")
    world.tick()
    assert world.pods["web-00"].node == "n2"


def test_of_the_replicas_that_wait_beside_a_nominee_one_is_tried_for_all() -> None:
    world = World()
    world.node(1, built("low").cpu(4))
    world.node(2, built("small").cpu(1), cpu=1)
    world.submit(*(replica(number).build() for number in range(20)))
    world.tick()
    assert world.refusals() == 20
    world.tick(60.0)
    world.end("small")
    world.tick()
    assert world.refusals() == 20 + 2, "the nominee, and the first of the others"
