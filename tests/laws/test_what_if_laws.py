"""What is done in a what-if leaves no trace once it is undone, and is what it would be without one if it is kept."""

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy
from itertools import groupby
from random import Random
from typing import Any, cast

import msgspec
import pytest

from dispatcher.plugins.gpu_fragmentation import GPUFragmentation, Task
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.plugins.volume_binding import VolumeBinding
from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.cycle.what_if import WhatIf
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework import (
    CycleState,
    Depends,
    FleetView,
    Permit,
    Plugin,
    PluginUse,
    PodInfo,
    Profile,
    Refuse,
)
from dispatcher.scheduling.framework.fleet_view import Codes, Rows
from dispatcher.scheduling.framework.plugin import Filter, refuse
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.labels import LabelSelector
from shared.model.names import GPU_MILLI
from shared.model.objects import PersistentVolume, PersistentVolumeClaim
from shared.model.pod import CLAIM, PodId, Volume
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import PodBuilder, fleet, node, pod, reading
from tests.laws.examples import examples
from tests.laws.fleet_events import snapshot
from tests.laws.grain import as_in_batches, recorded
from tests.plugins.storage import CLASSES, STATIC, claim, volume

OTHER = "packing"
POISON = "poison"
APP = LabelSelector({"app": "u"})
CLAIMS = 40
MIX = (Task(0, 400, 0.5), Task(0, 1000, 0.5))
NAMES = ("n0", "n1", "n2")


class Poisoned(Filter[bool]):
    """Fails for pods of the app that is named for it."""

    name = "Poisoned"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.labels.get("app") == POISON

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> bool:
        return pod_info.pod.labels.get("app") == POISON

    def filter(self, state: bool, fleet: FleetView, rows: Rows) -> Codes:
        if state:
            raise ArithmeticError("poison")
        return cast(Codes, fleet.nodes.cluster[rows].astype("uint16") * 0)


class Waits(Permit[None]):
    """Lets pods of one app wait, and refuses those of another."""

    name = "Waits"
    depends = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.labels.get("app") in ("waits", "refused")

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        app = pod_info.pod.labels.get("app")
        return refuse(Reasons.PERMIT, "no") if app == "refused" else 60.0 if app == "waits" else None


KINDS: tuple[Callable[[PodBuilder], PodBuilder], ...] = (
    lambda one: one,
    lambda one: one.labels(app="u").spread("zone", 1),
    lambda one: one.labels(app="u").spread("host", 1, hard=False),
    lambda one: one.labels(app="u").away("host", APP),
    lambda one: one.labels(app="v").near("zone", APP),
    lambda one: one.labels(app="v").away("zone", APP, weight=5),
    lambda one: one.port(80),
    lambda one: one.priority(10),
    lambda one: one.priority(100).cpu(3).labels(app="u").spread("zone", 1),
    lambda one: one.namespace("team"),
    lambda one: one.namespace("team").cpu("700m"),
    lambda one: one.set(scheduler_name=OTHER).request(GPU_MILLI, 400),
    lambda one: one.set(scheduler_name=OTHER).request(GPU_MILLI, 1000).labels(app="u"),
    lambda one: one.set(scheduler_name=OTHER).labels(app="waits"),
    lambda one: one.set(scheduler_name=OTHER).labels(app="refused"),
    lambda one: one.labels(app=POISON),
    lambda one: one.cpu(64),
)


class World:
    """Two clusters, two profiles, a tenant with quota, volumes, and pods that come and go by the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        dice = self.dice
        built: dict[str, Any] = {
            name: [
                node(one).cpu(dice.choice((2, 4))).memory("8Gi").pods(9).resource(GPU_MILLI, dice.choice((0, 2000)))
                .labels(zone=dice.choice("xy"))
                for one in NAMES
            ]
            for name in "ab"
        }  # fmt: skip
        self.fleet = fleet(**built)
        claims = (claim(f"c{at}", storage_class=STATIC) for at in range(CLAIMS))
        for one in (*CLASSES, *(volume(f"pv{at}", 1 + at % 3, STATIC) for at in range(4)), *claims):
            self.fleet.kept.put("a", one)
        self.ledger = QuotaLedger((Tenant("team", ("team",), {"cpu": Share(absolute=3000)}),))
        self.plugins = list[Plugin]()
        self.profiles = Profiles([self.scheduler(), self.scheduler(OTHER, GPUFragmentation(MIX), Waits())])
        self.waiting = list[PodId]()
        for scheduler in self.profiles:
            scheduler.on_wait = lambda decision: self.waiting.append(decision.pod_id)
        self.made = 0

    def scheduler(self, name: str = DEFAULT_PROFILE.scheduler_name, *more: Plugin) -> Scheduler:
        made = [*build(DEFAULT_PROFILE, PluginContext(quota=self.ledger)), Poisoned(), *more]
        self.plugins += made
        uses = [PluginUse(one.name) for one in (Poisoned(), *more)]
        return Scheduler(Profile(name, (*DEFAULT_PROFILE.plugins, *uses)), made, self.fleet)

    # --- what is done

    def batch(self, dice: Random) -> list[Item]:
        """Pods of one kind, sometimes with a claim each."""
        kind = dice.choice(KINDS)
        cpu = f"{dice.choice((100, 300, 900, 1500))}m"
        count = dice.choice((1, 2, 3, 6))
        claims = kind in KINDS[:5] and dice.random() < 0.4
        home = "a" if claims else dice.choice("ab")
        return [self.item(kind, cpu, home, claims=claims) for _ in range(count)]

    def item(self, kind: Callable[[PodBuilder], PodBuilder], cpu: str, home: str, *, claims: bool) -> Item:
        name = f"p{self.made}"
        built = kind(pod(name).cpu(cpu).memory("100Mi"))
        if claims:
            built = built.set(volumes=(Volume(CLAIM, f"c{self.made % CLAIMS}"),))
        self.made += 1
        return (home, f"uid-{name}"), built.placed(home)

    def somebody(self, dice: Random) -> PodId | None:
        there = sorted(one.pod_id for one in self.fleet.occupants() if "/" not in one.pod_id[0])
        return dice.choice(there) if there else None

    def decide(self, items: Sequence[Item]) -> list[Result]:
        found = list[Result]()
        for _, run in groupby(items, lambda item: self.profiles.classify(item[1])):
            found += self.profiles.schedule_class(list(run))
        return found

    def live_on(self, rounds: int) -> list[Result]:
        """Pods come, go, and are shown where they were bound; nodes are read."""
        found = list[Result]()
        dice = self.dice
        for _ in range(rounds):
            found += self.decide(self.batch(dice))
            gone = self.somebody(dice)
            if gone is not None and dice.random() < 0.4:
                self.profiles.forget(gone)
            shown = self.somebody(dice)
            there = self.fleet.occupant(shown) if shown else None
            if there is not None and dice.random() < 0.5:
                bound = msgspec.structs.replace(there.pod_info.pod, node=there.node, phase="Running")
                pod_info = msgspec.structs.replace(there.pod_info, pod=bound)
                self.profiles.restore(there.pod_id, pod_info, there.cluster, there.node)
            if dice.random() < 0.3:
                self.fleet.now += 15.0
                self.fleet.put_reading(dice.choice("ab"), reading(dice.choice(NAMES), cpu=0.5, memory=0.3))
        return found

    def look(self, trial: "WhatIf | Directly", dice: Random, rounds: int) -> list[Result]:
        """Take away and decide by the dice; pods that went may come back."""
        found = list[Result]()
        went = list[Item]()
        for _ in range(rounds):
            gone = self.somebody(dice)
            if gone is not None and dice.random() < 0.6:
                there = self.fleet.occupant(gone)
                assert there is not None
                went.append((gone, there.pod_info))
                trial.take_away(gone)
            items = self.batch(dice) + (self.batch(dice) if dice.random() < 0.5 else [])
            if went and dice.random() < 0.5:
                items.append(went.pop())
            found += trial.schedule(items)
        return found

    # --- what there is

    def state(self, name_of: Callable[[Any], Any] = id) -> dict[str, Any]:
        """All that a decision may rest on, but for what is kept of answers; `name_of` tells objects apart."""
        state, seats, volumes = self.fleet, self.profiles.nominations, self.fleet.volumes
        gpus = self.of(GPUFragmentation)
        held = {
            uid: [(name_of(one), one.told) for one in some]
            for plugin in self.of(VolumeBinding)
            for uid, some in plugin._held.items()
        }
        return {
            **snapshot(state),
            "terms": {name: dict(one.by_domain) for name, one in state.terms._held.items() if one.holders},
            "occupants": {one.pod_id: (name_of(one), *map(repr, facts_of(one))) for one in state.occupants()},
            "on nodes": [[one.pod_id for one in state.occupants_on(a, n)] for a in "ab" for n in NAMES],
            "awaited": {row: {one.pod_id for one in some} for row, some in state._awaited.by_row.items() if some},
            "apps": {name: set(pods) for name, pods in state._apps._pods.items()},
            "volumes": [deepcopy(one) for one in (volumes._on, volumes._users, volumes._disks)],
            "objects": [dict(state.kept.of("a", kind)) for kind in (PersistentVolume, PersistentVolumeClaim)],
            "assumed": {key: (dict(one.fields), set(one.holders)) for key, one in state.kept._assumed.items()},
            "held": held,
            "gpus": [{at: (one, free_on(plugin, one)) for at, one in plugin._booked.items()} for plugin in gpus],
            "usage": self.ledger.usage("team"),
            "charges": {home: dict(some) for home, some in self.ledger._charges.items() if some},
            "nominees": {pod_id: name_of(one) for pod_id, one in seats._nominees.items()},
            "promises": deepcopy([seats._awaited, seats._at, seats._priority, seats._priorities]),
            "reserved": [{pod_id: name_of(book) for pod_id, book in one._reserved.items()} for one in self.profiles],
            "waiting": list(self.waiting),
        }  # fmt: skip

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.plugins if isinstance(one, kind)]


def free_on(plugin: GPUFragmentation, booked: tuple[int, object, object]) -> list[int]:
    free: list[int] = plugin._free[:, booked[0]].tolist()
    return free


def facts_of(occupant: Occupant) -> list[Any]:
    return [getattr(occupant, name) for name in Occupant.__struct_fields__ if name != "pod_info"]


def nobody(of: object) -> None:
    """Objects of two worlds are not told apart."""


def assert_alike(some: Sequence[Result], others: Sequence[Result]) -> None:
    """All is decided and told alike. Only the grain may differ: a class that one of them has kept since it looked is
    decided in batches, where the other decides pod by pod.
    """
    ours, theirs = recorded(some), recorded(others)
    assert as_in_batches(ours, theirs) == as_in_batches(theirs, ours)


SEEDS = range(examples(80))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_undone_leaves_no_trace(seed: int) -> None:
    """Of two worlds one looked, and both decide alike from there on."""
    one, other = World(seed), World(seed)
    assert_alike(one.live_on(8), other.live_on(8))
    before, made = one.state(), one.made
    other.state()
    with one.profiles.what_if() as trial:
        one.look(trial, Random(seed), 4)
    assert differing(one.state(), before) == []
    one.made = made
    assert_alike(one.live_on(6), other.live_on(6))
    assert differing(one.state(nobody), other.state(nobody)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_is_as_if_it_had_been_done_without_a_what_if(seed: int) -> None:
    one, other = World(seed), World(seed)
    one.live_on(8)
    other.live_on(8)
    with one.profiles.what_if() as trial:
        found = one.look(trial, Random(seed), 4)
        trial.commit()
    assert_alike(found, other.look(Directly(other), Random(seed), 4))
    assert differing(one.state(nobody), other.state(nobody)) == []
    assert_alike(one.live_on(4), other.live_on(4))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_within_another_ends_by_itself_and_with_it(seed: int) -> None:
    world, dice = World(seed), Random(seed)
    world.live_on(6)
    before = world.state()
    with world.profiles.what_if() as trial:
        world.look(trial, dice, 2)
        between = world.state()
        with world.profiles.what_if() as undone:
            world.look(undone, dice, 2)
        assert differing(world.state(), between) == []
        with world.profiles.what_if() as kept:
            world.look(kept, dice, 2)
            kept.commit()
    assert differing(world.state(), before) == []


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_an_error_undoes_all_even_what_was_to_be_kept(seed: int) -> None:
    world = World(seed)
    world.live_on(6)
    before = world.state()

    def fail() -> None:
        with world.profiles.what_if() as trial:
            world.look(trial, Random(seed), 2)
            trial.commit()
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert differing(world.state(), before) == []


class Directly:
    """Does at once what a what-if would."""

    def __init__(self, world: World) -> None:
        self.world = world

    def take_away(self, pod_id: PodId) -> None:
        self.world.profiles.forget(pod_id)

    def schedule(self, items: Sequence[Item]) -> list[Result]:
        return self.world.decide(items)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]]
