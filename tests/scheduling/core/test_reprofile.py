"""Other profiles take over a running core: places and charges stay exactly, what waits is tried anew."""

from collections.abc import Hashable

import msgspec
import numpy as np

from dispatcher.plugins.default_preemption import DefaultPreemption
from dispatcher.plugins.registry import PluginContext, build, shared_queue_sort
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reload import take_profiles
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import (
    Codes,
    CycleState,
    Depends,
    Filter,
    FleetView,
    Permit,
    PluginUse,
    PodInfo,
    Profile,
    QueueSort,
    Rows,
)
from dispatcher.scheduling.framework.plugin import WaitingRoom
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import BOUND, Bind, Evict
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import fleet, node, pod
from tests.scheduling.points_world import Keyed, World, of

NAMES = ("PrioritySort", "TenantQuota", "NodeResourcesFit")


def policies(state: FleetState, ledger: QuotaLedger, *names: str, **fit: str) -> tuple[Profiles, QueueSort]:
    uses = tuple(PluginUse(name, 1.0, fit if name == "NodeResourcesFit" else {}) for name in names)
    profile = Profile("global-dispatcher", uses)
    plugins = build(profile, PluginContext(quota=ledger))
    return Profiles([Scheduler(profile, plugins, state)]), shared_queue_sort([(profile, plugins)])


class Stage:
    """A core with two nodes, a tenant of two CPUs, and one pod of a CPU placed."""

    def __init__(self) -> None:
        self.fleet = fleet(a=[node("n1"), node("n2")])
        self.ledger = QuotaLedger((Tenant("team", ("default",), {"cpu": Share(absolute=2000)}),))
        profiles, sort = policies(self.fleet, self.ledger, *NAMES)
        self.queue = SchedulingQueue(sort, profiles.classify)
        self.core = SchedulerCore(["a"], self.fleet, self.queue, profiles, boot_epoch=1)
        self.fleet.set_cluster("a", ready=True, synced=True)  # as its report would
        first = self.decide("u1")
        assert isinstance(first, Decision)
        self.node = first.node

    def decide(self, uid: str) -> object:
        placed = pod(uid).uid(uid).cpu(1).placed("a")
        return self.core.profiles.schedule_class([(("a", uid), placed)])[0]

    def take(self, *names: str, **fit: str) -> None:
        take_profiles(self.core, *policies(self.fleet, self.ledger, *names, **fit), 2000.0)


def test_places_and_charges_move_over_exactly() -> None:
    stage = Stage()
    stage.take(*NAMES, strategy="MostAllocated")
    assert stage.ledger.usage("team") == {"cpu": 1000, "pods": 1}
    second = stage.decide("u2")
    assert isinstance(second, Decision)
    assert second.node == stage.node, "the new strategy packs"
    assert not isinstance(stage.decide("u3"), Decision), "the quota is full"


def test_what_was_placed_before_is_given_back_to_the_new_profiles() -> None:
    stage = Stage()
    stage.take(*NAMES)
    stage.core.profiles.forget(("a", "u1"))
    assert stage.ledger.usage("team").get("cpu", 0) == 0
    assert stage.fleet.occupant(("a", "u1")) is None


def test_without_the_quota_plugin_nobody_is_charged_any_more_and_with_it_all_are_again() -> None:
    stage = Stage()
    stage.take("PrioritySort", "NodeResourcesFit")
    assert stage.ledger.usage("team").get("cpu", 0) == 0
    assert isinstance(stage.decide("u2"), Decision)
    assert isinstance(stage.decide("u3"), Decision)
    stage.take(*NAMES)
    assert stage.ledger.usage("team") == {"cpu": 3000, "pods": 3}


def test_what_waits_is_tried_anew_under_its_new_class() -> None:
    stage = Stage()
    placed = pod("u9").uid("u9").cpu(1).placed("a")
    stage.queue.add(("a", "u9"), placed, 1000.0)
    item = stage.queue.pop(1000.0)
    assert item is not None
    stage.queue.unschedulable(item, frozenset(), 1000.0)
    stage.take("PrioritySort", "NodeResourcesFit")
    assert stage.queue.state_of(("a", "u9")) == "active"
    again = stage.queue.pop(2000.0)
    assert again is not None
    assert again.class_key == stage.core.profiles.classify(placed)


class Closed(Filter):
    """No node is good enough, as long as it says so."""

    name = "Closed"
    depends = Depends.STATIC

    def __init__(self, closed: bool) -> None:
        self._closed = closed

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        code = fleet.reasons.code(Reasons.POLICY, self.name) if self._closed else 0
        return np.full(len(fleet.nodes.live[rows]), code, dtype=np.uint16)


def test_the_core_itself_decides_by_the_new_profiles() -> None:
    world = World(Closed(True))
    world.submit("p")
    assert of(Bind, world.tick()) == []
    world.take(Closed(False))
    assert len(of(Bind, world.tick(60.0))) == 1
    world.take(Closed(True))
    world.submit("q")
    world.tick()
    assert world.message("q").endswith("1 node(s) didn't satisfy plugin Closed.")


class Pair(Keyed, Permit):
    """Pods go in pairs."""

    name = "Pair"

    def attach(self, room: WaitingRoom) -> None:
        self.room = room

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> float | None:
        waiting = self.room.waiting()
        for pod_id, _ in waiting:
            self.room.allow(pod_id, self.name)
        return None if waiting else 30.0


def test_a_permit_plugin_made_anew_finds_the_pods_that_wait_for_it() -> None:
    world = World(Pair())
    world.submit("first")
    world.tick()
    world.take(Pair())
    world.submit("second")
    assert sorted(bind.pod.name for bind in of(Bind, world.tick())) == ["first", "second"]


def test_pods_that_wait_for_a_plugin_that_is_gone_go_on() -> None:
    world = World(Pair())
    world.submit("first")
    world.tick()
    world.take()
    assert [bind.pod.name for bind in of(Bind, world.tick())] == ["first"]


def test_what_is_promised_stays_promised_and_nobody_more_is_evicted() -> None:
    def preemption() -> DefaultPreemption:
        return DefaultPreemption(10, 100)

    world = World(preemption())
    low = world.submit("low", cpu=4000)
    (bind,) = of(Bind, world.tick())
    world.answer(bind, BOUND)
    world.report(msgspec.structs.replace(low, node="n1", phase="Running"))
    world.submit("high", cpu=3000, priority=10)
    assert len(of(Evict, world.tick())) == 1
    world.take(preemption())
    assert world.core.profiles.nominations.of(("east", "uid-high")) is not None
    assert of(Evict, world.tick(60.0)) == []
    world.submit("middle", cpu=3000, priority=5)
    world.report(gone=(low.uid,))
    assert [bind.pod.name for bind in of(Bind, world.tick(60.0))] == ["high"]


def test_who_comes_back_after_the_change_is_classified_anew() -> None:
    world = World(Pair())
    world.submit("first")
    world.tick()
    world.take(Pair(), Closed(True))
    world.tick(60.0)  # the wait is over
    world.tick(301.0)  # tried again without a cause
    assert world.message("first").endswith("1 node(s) didn't satisfy plugin Closed.")
