"""Pods whose claims ask for the same share answers and batches, and go where each would go all by itself.

Beside the scheduler that remembers there is one that is made anew for every pod, and the naive oracle of all laws.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch.count_merge import CountMerge, count_merge_of
from dispatcher.scheduling.cycle import batches as batching
from dispatcher.scheduling.cycle.assumed_pods import AssumedPods
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.rules.volume_plan import VolumePlan
from shared.model.names import HOSTNAME, ZONE
from shared.model.objects import (
    AnyObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from shared.model.pod import CLAIM, EBS_VOLUME, GCE_DISK, Pod, PodId, Volume
from tests.builders import node, pod
from tests.laws import oracle
from tests.laws.examples import examples
from tests.laws.grain import as_in_batches, recorded
from tests.plugins.storage import CLASSES, NOW, STATIC, bound, claim, in_zone, on, volume

NODES = ("n0", "n1", "n2", "n3")
EBS, OTHER = "ebs.csi.aws.com", "csi.example.com"
ZONAL, SPACED = "zonal", "spaced"
KINDS = (
    *CLASSES,
    StorageClass(ZONAL, EBS, True, in_zone("z1")),
    StorageClass(SPACED, "csi.spaced", True),
    CSIDriver("csi.spaced", True),
    CSIStorageCapacity("default", "s", SPACED, 2**40, None, None),
)


def fleet_of(limits: Sequence[int | None]) -> FleetState:
    """Two zones, a node without, and another cluster; what drivers attach where."""
    state = FleetState(now=1000.0)
    for name in "ab":
        state.set_cluster(name, ready=True, synced=True)
    zones: tuple[dict[str, str], ...] = ({"zone": "z0"}, {"zone": "z1"}, {"zone": "z1"}, {})
    for at, (name, zone, limit) in enumerate(zip(NODES, zones, limits, strict=True)):
        state.put_node("a", node(name).cpu(4 + at).memory("64Gi").labels(**zone).build())
        if limit is not None:
            state.kept.put("a", CSINode(name, {EBS: limit, OTHER: limit + 1}, (EBS, OTHER)))
    state.put_node("b", node("far").cpu(64).memory("64Gi").build())
    for one in KINDS:
        state.kept.put("a", one)
    return state


@dataclass
class Side:
    """A fleet and who decides for it: one scheduler for all pods, or one `anew` for each."""

    state: FleetState
    anew: bool
    results: list[Decision | Unschedulable] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plugins = build(DEFAULT_PROFILE, PluginContext())
        self.scheduler = Scheduler(DEFAULT_PROFILE, self.plugins, self.state)

    def put(self, *objects: AnyObject) -> None:
        for one in objects:
            self.state.kept.put("a", one)

    def drop(self, name: str) -> None:
        self.state.kept.remove("a", "PersistentVolumeClaim", f"default/{name}")

    def decide(self, pods: list[Pod]) -> None:
        items: list[tuple[PodId, PodInfo]] = [(("a", one.uid), PodInfo(one, "a")) for one in pods]
        if not self.anew:
            for _, group in groupby(items, key=lambda item: self.scheduler.classify(item[1])):
                self.results += self.scheduler.schedule_class(list(group))
            return
        for pod_id, placed in items:
            world = cast(oracle.World, SimpleNamespace(columns=lambda: self.state))
            naive = oracle.decide(world, DEFAULT_PROFILE, self.plugins, placed)
            books = self.scheduler._reserved
            self.scheduler = Scheduler(DEFAULT_PROFILE, self.plugins, self.state)
            self.scheduler._reserved = books
            found = self.scheduler.schedule(placed, pod_id)
            assert naive == ((found.cluster, found.node) if isinstance(found, Decision) else None)
            self.results.append(found)

    def end(self, at: int) -> None:
        """A pod that was placed is gone."""
        if self.results:
            self.scheduler.forget(self.results[at % len(self.results)].pod_id)

    def objects(self) -> dict[str, Any]:
        kinds: tuple[type[Any], ...] = (PersistentVolume, PersistentVolumeClaim)
        return {kind.__name__: dict(self.state.kept.of("a", kind)) for kind in kinds}


WISHES: tuple[dict[str, Any] | None, ...] = (
    None,  # a claim that has its volume
    {},
    {"gib": 4},
    {"storage_class": STATIC},
    {"storage_class": STATIC, "gib": 4},
    {"storage_class": ZONAL},
    {"storage_class": SPACED},
    {"storage_class": NOW},
    {"access_modes": ("ReadWriteOncePod",)},
    {"access_modes": ("ReadWriteOncePod",), "bound": True},
    {"selected_node": "n2"},
    {"terminating": True},
)
VOLUMES: tuple[dict[str, Any] | None, ...] = (
    {},
    {"node_affinity": in_zone("z1")},
    {"node_affinity": on(HOSTNAME, "n0")},
    {"labels": {ZONE: "z0"}},
    {"driver": EBS, "handle": "own"},
    {"driver": EBS, "handle": "same"},
    {"driver": OTHER, "handle": "own"},
    None,  # it is not there
)
LIMITS = (None, 0, 1, 2, 4, 9)


WHAT = ("burst", "burst", "burst", "shared", "disk", "free", "attach", "bind", "drop", "renew", "end", "zone")


def events(dice: random.Random) -> Iterator[tuple[Any, ...]]:
    """Mostly pods; two kinds of claims and volumes at a time, so that many are alike and some are not."""
    wishes, likes = dice.choices(WISHES, k=2), dice.choices(VOLUMES, k=2)
    while True:
        what = dice.choice(WHAT)
        at, count, where = dice.randrange(12), dice.randint(1, 7), dice.choice(NODES)
        yield {
            "burst": (what, dice.choice(wishes), dice.choice(likes), count, dice.random() < 0.2),
            "shared": (what, at, count),
            "disk": (what, dice.choice((GCE_DISK, EBS_VOLUME)), count),
            "free": (what, dice.choice(likes), count),
            "attach": (what, at, where),
            "bind": (what, at, dice.choice((EBS, OTHER))),
            "drop": (what, at),
            "renew": (what, at),
            "end": (what, at),
            "zone": (what, where, dice.choice(("z0", "z1"))),
        }[what]


class Script:
    """Does to a side what was drawn; objects and pods are numbered in the order in which they come."""

    def __init__(self, side: Side, owner: str) -> None:
        self.side, self.owner = side, owner
        self.claims, self.pods, self.volumes = list[str](), 0, 0

    def run(self, event: tuple[Any, ...]) -> None:
        getattr(self, event[0])(*event[1:4], **({"shared": event[4]} if len(event) > 4 else {}))

    def burst(self, wish: dict[str, Any] | None, like: dict[str, Any] | None, count: int, *, shared: bool) -> None:
        """Pods with a claim each that waits, or is bound (as without a wish); `shared`: and all with an older one."""
        pods = []
        for _ in range(count):
            name = f"c{len(self.claims)}"
            if wish is not None and "bound" not in wish:
                self.side.put(claim(name, **wish))
            else:
                self.side.put(bound(name, f"pv{self.volumes}", **(wish or {})))
                self.free(like, 1, claim=f"default/{name}", phase="Bound")
            older = self.claims[:1] if shared else []
            self.claims.append(name)
            pods.append(self._pod(*(Volume(CLAIM, one) for one in (name, *older))))
        self.side.decide(pods)

    def free(self, like: dict[str, Any] | None, count: int, **more: Any) -> None:
        for _ in range(count):
            name = f"pv{self.volumes}"
            self.volumes += 1
            if like is not None:
                fields = {**like, **more}
                fields["handle"] = f"h-{name}" if like.get("handle") == "own" else like.get("handle", "")
                self.side.put(volume(name, 2, **{"storage_class": STATIC, **fields}))

    def shared(self, at: int, count: int) -> None:
        if self.claims:
            one = Volume(CLAIM, self.claims[at % len(self.claims)])
            self.side.decide([self._pod(one) for _ in range(count)])

    def disk(self, kind: str, count: int) -> None:
        self.side.decide([self._pod(Volume(kind, "same")) for _ in range(count)])

    def attach(self, at: int, where: str) -> None:
        self.side.put(VolumeAttachment(f"va{at}-{where}", where, f"pv{at}", EBS))

    def bind(self, at: int, driver: str) -> None:
        """The controller provides what a claim waits for."""
        if not self.claims:
            return
        known = self.side.objects()["PersistentVolumeClaim"].get(f"default/{self.claims[at % len(self.claims)]}")
        if known is not None and not known.volume:
            name = f"made-{known.name}"
            self.side.put(volume(name, driver=driver, handle=f"h-{name}", claim=known.key, phase="Bound"))
            self.side.put(msgspec.structs.replace(known, volume=name, bound=True, phase="Bound"))

    def drop(self, at: int) -> None:
        if self.claims:
            self.side.drop(self.claims[at % len(self.claims)])

    def renew(self, at: int) -> None:
        """Another claim of the same name, in place of one that waits."""
        if not self.claims:
            return
        known = self.side.objects()["PersistentVolumeClaim"].get(f"default/{self.claims[at % len(self.claims)]}")
        if known is not None and not known.volume:
            self.side.put(msgspec.structs.replace(known, uid=f"{known.uid}+"))

    def end(self, at: int) -> None:
        self.side.end(at)

    def zone(self, name: str, zone: str) -> None:
        self.side.state.put_node("a", node(name).cpu(5).memory("64Gi").labels(zone=zone).build())

    def _pod(self, *volumes: Volume) -> Pod:
        self.pods += 1
        one = pod(f"p{self.pods}").cpu("500m").set(volumes=volumes, owner=self.owner)
        return (one.labels(app=self.owner) if self.owner else one).build()


def same(limits: Sequence[int | None], script: Iterable[tuple[Any, ...]], owner: str) -> list[Any]:
    """What both sides answer. Pods of an owner are spread softly."""
    together, alone = Side(fleet_of(limits), anew=False), Side(fleet_of(limits), anew=True)
    scripts = [Script(side, owner) for side in (together, alone)]
    for event in script:
        for one in scripts:
            one.run(event)
        told = recorded(together.results)
        assert as_in_batches(recorded(alone.results), told) == told, event
        assert together.objects() == alone.objects(), event
    return together.results


OWNERS = pytest.mark.parametrize("owner", ["", "web"], ids=["alone", "spread"])


@OWNERS
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_pods_with_claims_go_where_each_would_go_all_by_itself(seed: int, owner: str) -> None:
    dice = random.Random(seed)
    same(dice.choices(LIMITS, k=len(NODES)), islice(events(dice), 12), owner)


OWN, ONE = {"driver": EBS, "handle": "own"}, (1, 1, 1, 1)
STATICALLY = {"storage_class": STATIC}
ALONE = {"bound": True, "access_modes": ("ReadWriteOncePod",)}


@pytest.mark.parametrize(
    ("limits", "script", "placed"),
    [
        pytest.param(
            ONE,
            [("burst", None, OWN, 4, False), ("shared", 0, 5), ("burst", None, OWN, 4, False)],
            9,
            id="a volume that is there costs nothing, a new one does",
        ),
        pytest.param(
            ONE,
            [("burst", None, {"driver": EBS, "handle": "same"}, 5, False), ("burst", None, OWN, 4, False)],
            5,
            id="claims with one and the same volume behind them",
        ),
        pytest.param((2, 2, 2, 2), [("burst", {"storage_class": ZONAL}, None, 7, False)], 4, id="room for so many"),
        pytest.param(
            (3, 3, 0, 0),
            [
                *(("attach", 0, where) for where in ("n0", "n1")),
                ("burst", None, OWN, 1, False),
                ("end", 0),
                ("burst", None, OWN, 6, True),
            ],
            5,
            id="a known volume beside a new one",
        ),
        pytest.param(
            (3, 0, 0, 0),
            [("attach", 1, "n0"), ("attach", 2, "n0"), ("burst", None, OWN, 5, False)],
            1,
            id="attached already where its pod is to come",
        ),
        pytest.param(
            ONE,
            [("free", {}, 2), ("burst", STATICALLY, None, 6, False)],
            2,
            id="two volumes for six pods",
        ),
        pytest.param(
            ONE,
            [("free", {}, 4), *(("burst", {**STATICALLY, "gib": gib}, None, 4, False) for gib in (4, 1))],
            4,
            id="volumes that are large enough for some",
        ),
        pytest.param(
            ONE,
            [
                ("free", {"claim": "default/c4"}, 1),
                ("burst", STATICALLY, None, 4, False),
                ("burst", STATICALLY, None, 1, False),
            ],
            1,
            id="a volume that is kept for one of them",
        ),
        pytest.param(
            ONE,
            [
                ("free", {"claim": "default/c0", "claim_uid": "uid-c0"}, 1),
                ("burst", STATICALLY, None, 1, False),
                ("end", 0),
                ("renew", 0),
                ("shared", 0, 1),
            ],
            1,
            id="a volume that is kept for another claim of that name",
        ),
        pytest.param(
            ONE,
            [("burst", ALONE, {}, 4, False), ("shared", 0, 1), ("burst", ALONE, {}, 1, False), ("shared", 0, 1)],
            5,
            id="claims that bear one pod",
        ),
        pytest.param(
            (None,) * 4,
            [("burst", None, VOLUMES[at], 4, False) for at in (0, 3, 1)],
            12,
            id="volumes in zones",
        ),
        pytest.param(
            (None, 0, 0, 0),
            [("burst", {"storage_class": ZONAL}, None, 4, False), ("bind", 1, OTHER), ("bind", 2, EBS), ("drop", 3)],
            0,
            id="nowhere",
        ),
    ],
)
@OWNERS
@pytest.mark.usefixtures("compiled")
def test_what_volumes_have_in_common_and_what_not(
    limits: tuple[int | None, ...], script: list[tuple[Any, ...]], placed: int, owner: str
) -> None:
    assert sum(isinstance(one, Decision) for one in same(limits, script, owner)) == placed


@OWNERS
@pytest.mark.usefixtures("compiled")
def test_pods_whose_claims_ask_for_the_same_are_one_class_and_are_decided_together(
    owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = list[CountMerge]()

    def noting(*args: Any) -> CountMerge | None:
        found = count_merge_of(*args)
        batches.extend([found] if found is not None else [])
        return found

    monkeypatch.setattr(batching, "count_merge_of", noting)
    side = Side(fleet_of((None,) * 4), anew=False)
    script = Script(side, owner)
    for wish in WISHES[:2]:
        script.burst(wish, OWN, 6, shared=False)
    assert 1 <= len(batches) <= 4


@OWNERS
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("wish", "shared", "together"),
    [({}, False, True), (None, False, True), ({}, True, False), (STATICALLY, False, False)],
    ids=["to be provided", "bound", "one of them shared", "to be chosen"],
)
def test_pods_with_claims_of_their_own_are_booked_together_with_what_later_points_read(
    wish: dict[str, Any] | None, owner: str, monkeypatch: pytest.MonkeyPatch, *, shared: bool, together: bool
) -> None:
    booked: list[int] = []
    book_all = AssumedPods.book_all

    def noted(self: AssumedPods, decisions: Sequence[Decision], *how: Any, **more: Any) -> None:
        booked.append(len(decisions))
        book_all(self, decisions, *how, **more)

    monkeypatch.setattr(AssumedPods, "book_all", noted)
    sides = [Side(fleet_of((None,) * 4), anew=anew) for anew in (False, True)]
    for side in sides:
        script = Script(side, owner)
        script.free({}, 8)
        script.burst(wish, OWN, 1, shared=False)
        script.burst(wish, OWN, 6, shared=shared)
    assert (6 in booked) is together
    plans = [[cast(Decision, one).cycle for one in side.results] for side in sides]
    for cycle, alone in zip(*plans, strict=True):
        assert cycle is not None
        assert alone is not None
        assert type(cycle.read("VolumeBinding")) is type(alone.read("VolumeBinding")) is VolumePlan
    assert len({id(cycle) for cycle in plans[0]}) == len(plans[0])
    assert columns(sides[0]) == columns(sides[1])


def columns(side: Side) -> list[Any]:
    """All that the fleet counts of pods and their volumes."""
    state, kept = side.state, side.state.volumes
    used = {row: dict(kept._on[row]) for row in kept.rows()}
    counted = [state.requested, state.nonzero, state.recent, state.settling]
    return [[one.tolist() for one in counted], used, dict(kept._users), state.kept.versions["PodVolumes"]]
