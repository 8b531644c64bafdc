"""A group goes where the naive definition says, whole or not at all; and where it goes nowhere, no trace is left."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.fleet.nominations import is_seat
from dispatcher.scheduling.framework import Depends, PodInfo, Refuse, Skip
from dispatcher.scheduling.framework.group_domain import ANYWHERE
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import Domains, group_id
from dispatcher.scheduling.groups.place_group import GroupResult, place_group
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from dispatcher.scheduling.rules.victims import badness, by_importance
from shared.model.pod import FLEET, Group, PodId
from shared.model.reasons import Reasons
from tests.builders import PodBuilder, node, pod
from tests.laws.examples import examples
from tests.laws.test_what_if_laws import APP, NAMES, World

LEVELS = ("rack", "zone", "region", "provider", "cluster")
WITHIN = ("rack", "zone", "cluster", FLEET, "host", "disk")
KINDS: tuple[Callable[[PodBuilder], PodBuilder], ...] = (
    lambda one: one,
    lambda one: one,
    lambda one: one.labels(app="u").spread("zone", 1),
    lambda one: one.labels(app="u").spread("host", 1, hard=False),
    lambda one: one.labels(app="u").spread("host", 1),
    lambda one: one.labels(app="u").away("host", APP),
    lambda one: one.labels(app="u").near("rack", APP),
    lambda one: one.labels(app="v").near("zone", APP),
    lambda one: one.port(80),
    lambda one: one.priority(10),
    lambda one: one.node_selector({"disk": "x"}),
    lambda one: one.cpu(64),
)  # fmt: skip


class Racks(World):
    """The same world, with racks and disks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        dice = self.dice
        for cluster in "ab":
            for name in NAMES:
                labels = {"rack": dice.choice("pq"), "zone": dice.choice("xy"), "disk": dice.choice("xy")}
                one = node(name).cpu(dice.choice((2, 4))).memory("8Gi").pods(9).labels(zone=labels["zone"])
                one = one.labels(rack=labels["rack"]) if dice.random() < 0.9 else one
                one = one.label({"disk": labels["disk"]})
                self.fleet.put_node(cluster, (one.cordoned() if dice.random() < 0.1 else one).build())

    def item(self, kind: Callable[[PodBuilder], PodBuilder], cpu: str, home: str, *, claims: bool) -> Item:
        """Some have run for longer than others."""
        pod_id, info = super().item(kind, cpu, home, claims=claims)
        started = msgspec.structs.replace(info.pod, started=self.dice.choice((0.0, 10.0, 20.0, 30.0)))
        return pod_id, msgspec.structs.replace(info, pod=started)

    def gang(self, dice: Random, priority: int | None = None) -> "Gang":
        """Of one or two templates, in one namespace."""
        count = dice.choice((1, 2, 3, 5, 7))
        least = count if dice.random() < 0.6 else dice.randint(1, count)
        within = dice.choice(WITHIN)
        space = "team" if dice.random() < 0.3 else "default"
        home = dice.choice("ab")
        whole = dice.random() < 0.5
        found = Gang(Group("PodGroup", f"g{self.made}", "", least, within, whole))
        kinds = [(dice.choice(KINDS), dice.choice((100, 300, 900, 1500))) for _ in range(dice.choice((1, 1, 2)))]
        for at in range(count):
            kind, cpu = kinds[min(at, len(kinds) - 1)]
            built: PodBuilder = kind(pod(f"m{self.made}").cpu(f"{cpu}m").memory("100Mi")).namespace(space)
            self.made += 1
            built = built if priority is None else built.priority(priority)
            info = built.set(group=found.group, started=dice.choice((0.0, 15.0, 25.0))).placed(home)
            found.waiting.append(((home, info.pod.uid), info))
        if dice.random() < 0.25 and count > 1 and priority is None:
            some = self.profiles.schedule_class(found.waiting[:1])[0]
            if isinstance(some, Decision):
                found.placed.append((some.cluster, some.node))
                del found.waiting[0]
            else:
                self.profiles.nominations.drop(some.pod_id)
        return found


@dataclass
class Gang:
    group: Group
    waiting: list[Item] = field(default_factory=list)
    placed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def needed(self) -> int:
        return max(1, self.group.min_count - len(self.placed))


class Naive:
    """All domains, each tried pod by pod; how much room there is counted node by node."""

    def __init__(self, world: Racks, gang: Gang) -> None:
        self.world, self.gang, self.fleet = world, gang, world.fleet
        self.kinds = [
            [item for _, item in some]
            for _, some in groupby(
                sorted(((self.kind_of(item), item) for item in gang.waiting), key=lambda one: one[0]),
                key=lambda one: one[0],
            )
        ]

    def kind_of(self, item: Item) -> int:
        """The place of the first member that is alike."""
        classify = self.world.profiles.classify
        return [classify(one[1]) for one in self.gang.waiting].index(classify(item[1]))

    # --- domains

    def domains(self) -> list[tuple[int, str, str]]:
        """(number of the level, key, value)"""
        within = self.gang.group.within
        levels = [within] if within not in (*LEVELS, FLEET) else [*LEVELS, FLEET]
        levels = levels[: levels.index(within) + 1]
        found = []
        for at, level in enumerate(levels):
            if level == FLEET:
                found.append((at, ANYWHERE, ""))
                continue
            key = level if level in ("cluster", "host") else f"{level}@cluster"
            values = self.fleet.domain_values(key)
            codes = [code for code in self.fleet.domain(key).tolist() if code >= 0]
            found += [(at, key, values[code]) for code in sorted(set(codes))]
        rows = [self.fleet.row_of(*one) for one in self.gang.placed]
        return [one for one in found if all(row in self.rows(one) for row in rows)]

    def rows(self, domain: tuple[int, str, str]) -> list[int]:
        _, key, value = domain
        if key == ANYWHERE:
            return np.flatnonzero(self.fleet.live).tolist()
        values, codes = self.fleet.domain_values(key), self.fleet.domain(key).tolist()
        return [row for row, code in enumerate(codes) if code >= 0 and values[code] == value]

    # --- room

    def is_open(self, row: int, one: PodInfo) -> bool:
        scheduler = self.world.profiles.of(one)
        for plugin in scheduler.plan.filters:
            if plugin.depends is not Depends.STATIC:
                continue
            state = plugin.pre_filter(one, scheduler.view)
            if isinstance(state, Refuse) or (
                not isinstance(state, Skip) and plugin.filter(state, scheduler.view, np.asarray([row]))[0]
            ):
                return False
        return True

    def free_on(self, row: int, name: str) -> int:
        column = self.fleet.axis.column(name)
        return 0 if column is None else max(0, int((self.fleet.allocatable - self.fleet.requested)[column][row]))

    def room_on(self, row: int, one: PodInfo) -> int:
        asked = asked_by(one)
        return min(self.free_on(row, name) // asked[name] for name in asked) if self.is_open(row, one) else 0

    def by_sums(self, domain: tuple[int, str, str]) -> int:
        """Members that have room if the nodes were one: of each resource those that ask for least."""
        items = self.gang.waiting
        nominations = self.world.profiles.nominations
        if len(nominations) and len({(one.pod.priority, one.pod.needs, one.home) for _, one in items}) > 1:
            return len(items)
        least = len(items)
        with nominations.aside_for(*items[0]):
            rows = [row for row in self.rows(domain) if any(self.is_open(row, some[0][1]) for some in self.kinds)]
            for name in {name for _, one in items for name in asked_by(one)}:
                asked = itertools.accumulate(sorted(asked_by(one).get(name, 0) for _, one in items))
                free = sum(self.free_on(row, name) for row in rows)
                least = min(least, sum(one <= free for one in asked))
        return least

    def room_in(self, domain: tuple[int, str, str], items: list[Item]) -> int:
        """Whoever is less important and only promised a place there is in nobody's way."""
        first = max(items, key=lambda one: one[1].pod.priority)
        with self.world.profiles.nominations.aside_for(*first):
            return sum(self.room_on(row, items[0][1]) for row in self.rows(domain))

    def by_room(self, domain: tuple[int, str, str]) -> tuple[int, int, float]:
        """(members without room at least, level, how many such groups)"""
        rooms = [self.room_in(domain, items) for items in self.kinds]
        allowed = [self.world.profiles.of(some[0][1]).fitting(some) for some in self.kinds]
        held = sum(min(room, most) for room, most in zip(rooms, allowed, strict=True))
        held = min(held, self.by_sums(domain))
        left = min(room / len(items) for room, items in zip(rooms, self.kinds, strict=True))
        return len(self.gang.waiting) - held, domain[0], left

    # --- what fits

    def nodes(self, domain: tuple[int, str, str]) -> list[tuple[str, str] | None]:
        """Where each goes that is tried there, one by one."""
        only_in = Domains(domain[1], (domain[2],))
        found: list[tuple[str, str] | None] = []
        with self.world.profiles.what_if() as trial:
            for pod_id, one in self.gang.waiting:
                (result,) = trial.schedule([(pod_id, msgspec.structs.replace(one, only_in=only_in))])
                found.append((result.cluster, result.node) if isinstance(result, Decision) else None)
        return found

    def preferred(self, domains: Sequence[tuple[int, str, str]]) -> tuple[int, str, str]:
        """Of equal ones, where the first member of the most frequent kind goes by itself."""
        if len(domains) == 1:
            return domains[0]
        kind = max(self.kinds, key=len)
        pod_id, one = kind[0]
        only_in = Domains(domains[0][1], tuple(one[2] for one in domains))
        one = msgspec.structs.replace(one, only_in=only_in)
        decision = self.world.profiles.of(one).would_choose(pod_id, one)
        if decision is None:
            return min(domains)
        return next(domain for domain in domains if decision.row in self.rows(domain))

    def best(self) -> tuple[tuple[int, str, str], list[tuple[str, str] | None]] | None:
        """The domain, and the node of each member."""
        left = {one: self.by_room(one) for one in self.domains()}
        left = {one: rank for one, rank in left.items() if len(self.gang.waiting) - rank[0] >= self.gang.needed}
        order = []
        while left:
            rank = min(left.values())
            order.append((rank, self.preferred([one for one, other in left.items() if other == rank])))
            del left[order[-1][1]]
        found = []
        for rank, domain in order:
            nodes = self.nodes(domain)
            missing = sum(one is None for one in nodes)
            if len(nodes) - missing >= self.gang.needed:
                found.append(((missing, *rank[1:]), domain, nodes))
        return min(found, key=lambda one: one[0])[1:] if found else None


class NaiveVictims(Naive):
    """All domains emptied of pods of lower priority, who come back one by one as long as the group fits."""

    def units(self, rows: list[int]) -> list[list[Victim]]:
        least = min(one.pod.priority for _, one in self.gang.waiting)
        lower = {
            one.pod_id: one
            for one in self.fleet.occupants()
            if one.pod_info.pod.priority < least and not is_seat(one.pod_id)
        }
        everybody = {one.pod_id: one for one in self.fleet.occupants()}
        found: dict[object, list[Victim]] = {}
        for pod_id, one in lower.items():
            if one.row not in rows:
                continue
            group = one.pod_info.pod.group
            whole = group_id(one.pod_info) if group and group.whole else None
            pods = [one] if whole is None else [
                other for other in everybody.values()
                if other.pod_info.pod.group and group_id(other.pod_info) == whole and not is_seat(other.pod_id)
            ]  # fmt: skip
            if len({other.cluster for other in pods}) == 1 and all(other.pod_id in lower for other in pods):
                victims = [Victim(other.pod_id, other.pod_info, other.cluster, other.node) for other in pods]
                found[whole or pod_id] = by_importance(victims)
        return sorted(found.values(), key=unit_importance)

    def without(self, domain: tuple[int, str, str], units: list[list[Victim]]) -> list[tuple[str, str] | None] | None:
        """Where each goes once these are gone; None if they do not fit."""
        with self.world.profiles.what_if() as trial:
            for victim in itertools.chain.from_iterable(units):
                trial.take_away(victim.pod_id)
            nodes = self.nodes(domain)
        return nodes if sum(one is not None for one in nodes) >= self.gang.needed else None

    def emptied(self, domain: tuple[int, str, str]) -> tuple[Any, ...] | None:
        """(rank, victims, nodes)"""
        units = evicted = self.units(self.rows(domain))
        if not units or self.without(domain, evicted) is None:
            return None
        for unit in units:
            fewer = [one for one in evicted if one is not unit]
            if fewer and self.without(domain, fewer) is not None:
                evicted = fewer
        victims = by_importance(list(itertools.chain.from_iterable(evicted)))
        rank = (*badness(victims, 0), *domain)
        return rank, {one.pod_id for one in victims}, self.without(domain, evicted)

    def best_victims(self) -> tuple[set[PodId], list[tuple[str, str] | None]] | None:
        """Whom to evict, and where the members are nominated."""
        allowed = sum(self.world.profiles.of(some[0][1]).fitting(some) for some in self.kinds)
        if allowed < self.gang.needed:
            return None
        found = [one for domain in self.domains() if (one := self.emptied(domain)) is not None]
        return min(found, key=lambda one: one[0])[1:] if found else None


def asked_by(one: PodInfo) -> dict[str, int]:
    return {"pods": 1, **{name: amount for name, amount in one.pod.requests.items() if amount}}


def unit_importance(unit: list[Victim]) -> tuple[Any, ...]:
    first = unit[0].pod_info.pod
    alone = group_id(unit[0].pod_info) is None
    return -first.priority, alone, -len(unit), first.started or np.inf, first.key, unit[0].pod_id


def nodes_of(found: GroupResult) -> list[tuple[str, str] | None]:
    return [(one.cluster, one.node) if isinstance(one, Decision) else None for one in found.results]


def check(world: Racks, gang: Gang) -> GroupResult:
    """Where the naive definition says; else no trace is left but what victims are evicted for."""
    naive = Naive(world, gang).best()
    victims = NaiveVictims(world, gang).best_victims() if naive is None else None
    before = world.state()
    found = place_group(world.profiles, gang.group, gang.waiting, gang.placed)
    if naive is not None:
        assert found.place is not None
        assert tuple(found.place) == naive[0][1:]
        assert nodes_of(found) == naive[1]
        there = {one.pod_id: one for one in world.fleet.occupants()}
        booked = [one for one in found.results if isinstance(one, Decision)]
        assert len(booked) >= gang.needed
        assert all(there[one.pod_id].pod_info.only_in is None for one in booked)
        return found
    assert not found.is_booked
    refused = [one for one in found.results if isinstance(one, Unschedulable)]
    assert len(refused) == len(gang.waiting)
    assert all(Reasons.GROUP in one.reasons for one in refused)
    told = {victim.pod_id for one in refused for victim in one.victims}
    assert (told, [one.nominated for one in refused]) == (victims or (set(), [None] * len(refused)))
    if not any(one.displaced for one in refused):
        for one in refused:
            world.profiles.nominations.drop(one.pod_id)
        assert world.state() == before
    return found


@pytest.mark.parametrize("seed", range(examples(120)))
def test_a_group_goes_where_the_naive_definition_says_or_leaves_no_trace(seed: int) -> None:
    world = Racks(seed)
    dice = world.dice
    for _ in range(dice.choice((0, 2, 6))):
        world.live_on(1)
    for _ in range(4):
        check(world, world.gang(dice))


@pytest.mark.parametrize("seed", range(examples(120)))
def test_the_victims_of_a_group_are_those_of_the_naive_definition(seed: int) -> None:
    """Pods and groups, some of which go as a whole, fill the fleet before one comes that is more important."""
    world = Racks(1000 + seed)
    dice = world.dice
    for _ in range(4):
        world.live_on(1)
        gang = world.gang(dice)
        place_group(world.profiles, gang.group, gang.waiting, gang.placed)
    check(world, world.gang(dice, 300))
