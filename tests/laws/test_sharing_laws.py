"""What dominant resource fairness promises of who gets quota (Ghodsi et al., NSDI 2011), for the whole core at rest.

Pods of a tenant are alike and small. "But for one pod" is what a pod cannot be divided by: so much is set aside for one
pod of each tenant. Where a promise ends is a test of its own.
"""

from collections.abc import Mapping, Sequence
from math import floor

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.quota import QuotaLedger
from shared.model.tenant import Share, Tenant
from tests.builders import node, pod
from tests.laws.examples import examples
from tests.scheduling.one_cluster import OneCluster
from tests.scheduling.tenants.naive import RESOURCES, Naive, trees

UNITS = 60  # of each resource
Size = Mapping[str, int]  # of a pod: resource -> units


class World(OneCluster):
    """Nodes with so many units of each resource, and tenants, each with a namespace of its name."""

    def __init__(self, tenants: Sequence[Tenant], *rooms: int) -> None:
        self.tenants = [msgspec.structs.replace(one, namespaces=(one.name,)) for one in tenants]
        super().__init__(QuotaLedger(self.tenants))
        self.rooms, self.came = {f"n{at}": room for at, room in enumerate(rooms)}, 0
        self.report(full=True, nodes=tuple(_node(name, room) for name, room in self.rooms.items()))

    def come(self, demand: Mapping[str, tuple[Size, int]]) -> None:
        """So many pods of each tenant, together."""
        made = []
        for tenant, (size, count) in demand.items():
            for _ in range(count):
                self.came += 1
                one = pod(f"{tenant}-{self.came}").namespace(tenant).labels(app=tenant).build()
                asked = {name: amount for name, amount in size.items() if amount}
                made.append(msgspec.structs.replace(one, requests=asked))
        self.submit(*made)

    def rest(self) -> None:
        """All that backs off has been tried again."""
        for _ in range(3):
            self.tick(11.0)

    def end(self, *names: str) -> None:
        """These pods are gone."""
        self.report(pods_gone=tuple(self.pods.pop(name).uid for name in names))

    def running(self, tenant: str) -> list[str]:
        """Of its pods those that have a place, the oldest first."""
        return [name for name, one in self.pods.items() if one.namespace == tenant and one.node]

    def used(self) -> dict[str, dict[str, int]]:
        """Tenant -> what its pods hold."""
        found: dict[str, dict[str, int]] = {one.name: {} for one in self.tenants}
        for one in self.pods.values():
            for name, amount in one.requests.items() if one.node else ():
                found[one.namespace][name] = found[one.namespace].get(name, 0) + amount
        return found

    def totals(self) -> dict[str, int]:
        return dict.fromkeys(RESOURCES, sum(self.rooms.values()))

    def would_fit(self, waiting: str) -> bool:
        """Whether no limit from its tenant up would break, and a node has room for it."""
        one, used = self.pods[waiting], self.used()
        before = Naive(self.tenants, used, self.totals())
        with_it = dict(used[one.namespace])
        for name, amount in one.requests.items():
            with_it[name] = with_it.get(name, 0) + amount
        after = Naive(self.tenants, {**used, one.namespace: with_it}, self.totals())
        return _within(before, after, one.namespace) and any(self._holds(name, one.requests) for name in self.rooms)

    def _holds(self, node_name: str, asked: Size) -> bool:
        there = [one.requests for one in self.pods.values() if one.node == node_name]
        return all(
            sum(one.get(name, 0) for one in there) + amount <= self.rooms[node_name] for name, amount in asked.items()
        )


def _within(before: Naive, after: Naive, tenant: str) -> bool:
    """Whether all that uses more than before, from a tenant up, still is within its limits."""
    for name in RESOURCES:
        at = tenant
        while at and after.usage(at, name) > before.usage(at, name):
            if after.limited(at, name) and after.usage(at, name) > after.ceiling(at, name):
                return False
            at = after.named(at).parent
    return True


def _node(name: str, room: int) -> object:
    made = node(name).pods(1000)
    return msgspec.structs.replace(made.build(), allocatable={**dict.fromkeys(RESOURCES, room), "pods": 1000})


SIZE = st.fixed_dictionaries({name: st.integers(0, 4) for name in RESOURCES}).filter(lambda size: any(size.values()))
DEMAND = st.tuples(SIZE, st.integers(0, 40))


def share(amount: int) -> dict[str, Share]:
    return dict.fromkeys(RESOURCES, Share(absolute=amount))


@st.composite
def organizations(draw: st.DrawFn) -> list[Tenant]:
    """Teams in organizations that borrow all that they use, each with a weight and perhaps a limit."""
    tenants = [Tenant("all", (), share(UNITS))]
    for at in range(draw(st.integers(1, 3))):
        tenants.append(_borrower(draw, f"o{at}", "all"))
        tenants += [_borrower(draw, f"o{at}t{team}", f"o{at}") for team in range(draw(st.integers(1, 3)))]
    return tenants


def _borrower(draw: st.DrawFn, name: str, parent: str) -> Tenant:
    limit = share(draw(st.integers(10, 50))) if draw(st.sampled_from((False, False, True))) else {}
    weight = 1000 * draw(st.integers(1, 4))
    return Tenant(name, (), {}, parent=parent, weight=weight, borrowing_limit=limit)


def shared(data: st.DataObject, tenants: list[Tenant]) -> tuple[World, dict[str, tuple[Size, int]]]:
    """All teams have come at once, and what they get was given."""
    demand: dict[str, tuple[Size, int]] = {one.name: data.draw(DEMAND, one.name) for one in tenants if "t" in one.name}
    world = World(tenants, 10 * UNITS)
    world.come(demand)
    world.rest()
    return world, demand


@settings(max_examples=examples(150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(tenants=organizations(), data=st.data())
def test_each_gets_its_part_by_weight_if_it_asks_for_it(tenants: list[Tenant], data: st.DataObject) -> None:
    """Sharing incentive: no less than if all had been divided by weight, from the top down, but for one pod of each."""
    world, demand = shared(data, tenants)
    aside = sum(max(size.values()) for size, _ in demand.values())
    for name, (size, asked) in demand.items():
        part = part_of(name, tenants, {one for one, (_, count) in demand.items() if count}, UNITS - aside)
        due = floor(part / max(size.values())) - 1
        assert len(world.running(name)) >= min(asked, due), (name, part)


def part_of(name: str, tenants: Sequence[Tenant], asking: set[str], whole: float) -> float:
    """What is a tenant's of a whole that those who ask divide by weight; no more than it may borrow."""
    by_name = {one.name: one for one in tenants}
    one = by_name[name]
    if not one.parent:
        return whole
    active = [
        other for other in tenants if other.parent == one.parent and any(at.startswith(other.name) for at in asking)
    ]
    weights = sum(other.weight for other in active)
    limit = one.borrowing_limit.get("cpu")
    most = float("inf") if limit is None or limit.absolute is None else limit.absolute
    return min(most, part_of(one.parent, tenants, asking, whole) * one.weight / max(weights, one.weight))


@settings(max_examples=examples(150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(tenants=organizations(), data=st.data())
def test_nobody_would_rather_have_what_a_sibling_has(tenants: list[Tenant], data: st.DataObject) -> None:
    """No envy: by weight, with what a sibling's pods hold but for one, nobody could run more pods than it does, but for
    one. Who may not borrow more envies whom it likes. Nor does anybody envy what was left, if it was too little for a
    pod of its own.
    """
    world, demand = shared(data, tenants)
    by_name = {one.name: one for one in tenants}
    for name, (size, asked) in demand.items():
        mine, me = len(world.running(name)), by_name[name]
        if mine == asked or me.borrowing_limit:
            continue
        for other, (theirs, _) in demand.items():
            if other != name and by_name[other].parent == me.parent:
                pods, weights = len(world.running(other)) - 1, me.weight / by_name[other].weight
                could = min(
                    (pods * theirs[one] - (amount - 1)) * weights / amount for one, amount in size.items() if amount
                )
                assert could <= mine + 1, (name, other)


def test_what_is_too_little_for_one_goes_to_whoever_it_is_enough_for() -> None:
    """Where that promise ends: 12 units, weights 3 and 1, pods of 8 and of 2. Nobody else could use the last 4."""
    whole, large, small = (
        Tenant("all", (), share(12)),
        Tenant("large", (), {}, parent="all", weight=3000),
        Tenant("small", (), {}, parent="all", weight=1000),
    )
    world = World([whole, large, small], UNITS)
    world.come({"large": ({"cpu": 8}, 5), "small": ({"cpu": 2}, 9)})
    world.rest()
    assert (len(world.running("large")), len(world.running("small"))) == (1, 2)


@settings(max_examples=examples(150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    tenants=trees(),
    rooms=st.lists(st.integers(4, 40), min_size=1, max_size=3),
    steps=st.lists(st.tuples(st.integers(0, 6), SIZE, st.integers(1, 8), st.integers(0, 4)), min_size=1, max_size=6),
)
def test_at_rest_no_pod_waits_that_fits(
    tenants: list[Tenant], rooms: list[int], steps: list[tuple[int, Size, int, int]]
) -> None:
    """Pareto efficiency: by quota, which may be lent and kept at any depth, and by the room of some node. Whatever
    came, and ended, in whichever order.
    """
    world = World(tenants, *rooms)
    for at, size, count, gone in steps:
        world.come({tenants[at % len(tenants)].name: (size, count)})
        running = [name for name, one in world.pods.items() if one.node]
        world.end(*running[:gone])
        world.rest()
        waiting = [name for name, one in world.pods.items() if not one.node]
        assert not [name for name in waiting if world.would_fit(name)]


@settings(max_examples=examples(150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(tenants=trees(), data=st.data())
def test_each_gets_what_it_was_given_before_others_borrow_it(tenants: list[Tenant], data: st.DataObject) -> None:
    """Of a tenant with weight, for pods that ask for nothing else, if all come at once, but for one pod of each."""
    tenants = [msgspec.structs.replace(one, nominal=_amounts(one.nominal)) for one in tenants]
    world = World(tenants, 1000)
    demand = {one.name: data.draw(DEMAND, one.name) for one in tenants}
    world.come(demand)
    world.rest()
    for one in tenants:
        size, asked = demand[one.name]
        given_of = {name: one.nominal[name].absolute or 0 for name in one.nominal}
        if not one.weight or any(amount and name not in given_of for name, amount in size.items()):
            continue
        aside = {name: sum(other[name] for other, _ in demand.values()) - size[name] for name in RESOURCES}
        due = min((given_of[name] - aside[name]) // amount for name, amount in size.items() if amount)
        assert len(world.running(one.name)) >= min(asked, due)


def _amounts(said: Mapping[str, Share]) -> dict[str, Share]:
    return {
        name: one if one.absolute is not None else Share(absolute=round(20 * (one.ratio or 0.0)))
        for name, one in said.items()
    }


ENDLESS = 24  # units, and pods of one unit each that a tenant always has at least


@settings(max_examples=examples(40), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(tenants=organizations(), first=st.integers(0, 8), at_once=st.integers(1, 4))
def test_who_came_first_has_its_part_alone_once_its_pods_have_ended(
    tenants: list[Tenant], first: int, at_once: int
) -> None:
    """With pods of one size and one resource, which are replaced as they end."""
    tenants = [tenants[0], *(msgspec.structs.replace(one, borrowing_limit={}) for one in tenants[1:])]
    tenants[0] = msgspec.structs.replace(tenants[0], nominal={"cpu": Share(absolute=ENDLESS)})
    teams = [one.name for one in tenants if "t" in one.name]
    world = World(tenants, 2 * ENDLESS)
    endless: tuple[Size, int] = {"cpu": 1}, ENDLESS + at_once
    world.come({teams[first % len(teams)]: endless})
    world.rest()
    old = [name for name, one in world.pods.items() if one.node]
    assert len(old) == ENDLESS
    world.come(dict.fromkeys(teams, endless))
    replace_all(world, old, at_once)
    for name in teams:
        due = part_of(name, tenants, {*teams}, ENDLESS)
        assert abs(len(world.running(name)) - due) <= 2, (name, due)


def replace_all(world: World, old: list[str], at_once: int) -> None:
    """These pods end, so many at a time, and for each comes another of its tenant."""
    for at in range(0, len(old), at_once):
        for name in old[at : at + at_once]:
            world.come({world.pods[name].namespace: (world.pods[name].requests, 1)})
        world.end(*old[at : at + at_once])
        world.tick(11.0)


def test_a_part_of_one_resource_is_lost_to_what_a_sibling_has_of_another() -> None:
    """Where the promise ends, as in Kueue (and why: Bhattacharya et al., SoCC 2013, "naive H-DRF"). An organization's
    share is of the resource of which it has most. So its team that needs CPUs goes behind while its other team uses all
    GPUs, though nobody else wants these.
    """
    o1 = [Tenant(name, (), {}, parent="o1") for name in ("cpus", "gpus")]
    world = World(
        [
            Tenant("all", (), share(ENDLESS)),
            Tenant("o1", (), {}, parent="all"),
            *o1,
            Tenant("o2", (), {}, parent="all"),
        ],
        2 * ENDLESS,
    )
    endless = {name: ({of: 1}, 2 * ENDLESS) for name, of in (("cpus", "cpu"), ("gpus", "gpu"), ("o2", "cpu"))}
    world.come(endless)
    world.rest()
    names = ("cpus", "gpus", "o2")
    assert [len(world.running(name)) for name in names] == [ENDLESS // 2, ENDLESS, ENDLESS // 2]
    replace_all(world, world.running("cpus") + world.running("o2"), 1)
    assert [len(world.running(name)) for name in names] == [0, ENDLESS, ENDLESS]
