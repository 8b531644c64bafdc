"""The tree against its formulas computed anew, in any history of charges, of the fleet and of the file."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.quota import QuotaLedger
from shared.model.pod import PodId
from shared.model.tenant import Tenant
from tests.scheduling.tenants.naive import RESOURCES, TOTALS, Naive, trees

asked = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 12))
pods = st.integers(0, 9).map(lambda number: ("home", str(number)))
fleets = st.fixed_dictionaries({name: st.integers(0, 2 * most) for name, most in TOTALS.items()})
steps = st.lists(st.one_of(st.tuples(pods, st.integers(0, 6), asked), pods, fleets), max_size=25)


class History:
    """`admits`: what does not fit is not charged."""

    def __init__(self, tenants: list[Tenant], *, admits: bool) -> None:
        self.ledger = QuotaLedger(tenants)
        self.tenants = tenants
        self.totals: dict[str, int] = dict(TOTALS)
        self.held: dict[PodId, tuple[str, dict[str, int]]] = {}
        self.admits = admits

    def naive(self) -> Naive:
        own: dict[str, dict[str, int]] = {one.name: {} for one in self.tenants}
        for name, amounts in self.held.values():
            for resource, amount in amounts.items():
                own[name][resource] = own[name].get(resource, 0) + amount
        return Naive(self.tenants, own, self.totals)

    def step(self, step: Any) -> None:
        if isinstance(step, dict):
            self.totals = step
        elif len(step) == 2:
            self.ledger.release(step)
            self.held.pop(step, None)
        else:
            pod_id, at, amounts = step
            name = self.tenants[at % len(self.tenants)].name
            self.ledger.release(pod_id)
            self.held.pop(pod_id, None)
            if self.admits and self.ledger.exceeded(name, amounts, self.totals):
                return
            self.ledger.charge(pod_id, name, amounts)
            self.held[pod_id] = (name, amounts)


@given(trees(), steps)
def test_sums_over_the_tree_are_those_of_the_formulas(tenants: list[Tenant], history: list[Any]) -> None:
    world = History(tenants, admits=False)
    for step in history:
        world.step(step)
        naive = world.naive()
        for one in tenants:
            node = world.ledger.node(one.name, world.totals)
            for name in RESOURCES:
                assert node.usage.get(name, 0) == naive.usage(one.name, name)
                assert (name in node.quota) is naive.limited(one.name, name)
                if name in node.quota:
                    assert node.quota[name] == naive.quota(one.name, name)
                    assert node.potential[name] == naive.potential(one.name, name)
            assert (world.ledger.share(one.name, world.totals).billionths > 0) is (naive.share(one.name) > 0)


@given(trees(), steps, st.integers(0, 6), st.sampled_from(RESOURCES))
def test_what_is_available_is_the_most_that_breaks_no_limit(
    tenants: list[Tenant], history: list[Any], at: int, resource: str
) -> None:
    """As found by trying; above a limit that is broken already nothing is."""
    world = History(tenants, admits=True)
    for step in history:
        world.step(step)
    name = tenants[at % len(tenants)].name
    free = world.ledger.node(name, world.totals).available(resource)
    if not world.naive().limited(name, resource):
        assert free is None
        return
    fits = 0
    while fits < 300 and _fits(world, name, resource, fits + 1):
        fits += 1
    assert max(0, free or 0) == fits
    assert world.ledger.times(name, {resource: 3}, world.totals, 1000) == fits // 3


def _fits(world: History, name: str, resource: str, amount: int) -> bool:
    """Whether each limit on the way of what is added still holds."""
    before = world.naive()
    world.held["home", "tried"] = (name, {resource: amount})
    after = world.naive()
    del world.held["home", "tried"]
    node = name
    while node and after.usage(node, resource) > before.usage(node, resource):
        if after.usage(node, resource) > after.ceiling(node, resource):
            return False
        node = after.named(node).parent
    return True


@given(trees(), st.lists(st.one_of(st.tuples(pods, st.integers(0, 6), asked), pods), max_size=25))
def test_no_limit_is_broken_in_any_history_of_what_was_admitted(tenants: list[Tenant], history: list[Any]) -> None:
    world = History(tenants, admits=True)
    for step in history:
        world.step(step)
        naive = world.naive()
        for one in tenants:
            assert all(naive.within(one.name, name) for name in RESOURCES if naive.limited(one.name, name))


@given(trees(), steps, st.lists(st.tuples(pods, st.integers(0, 6), asked), max_size=6))
def test_what_is_tried_and_undone_leaves_no_trace(
    tenants: list[Tenant], history: list[Any], tried: list[tuple[PodId, int, dict[str, int]]]
) -> None:
    world = History(tenants, admits=False)
    for step in history:
        world.step(step)
    before = _all(world)
    undo = []
    for pod_id, at, amounts in tried:
        undo.append((pod_id, world.ledger.release(pod_id)))
        world.ledger.charge(pod_id, tenants[at % len(tenants)].name, amounts)
    for pod_id, charge in reversed(undo):
        world.ledger.release(pod_id)
        world.ledger.put_back(pod_id, charge)
    assert _all(world) == before


def _all(world: History) -> list[object]:
    nodes = [world.ledger.node(one.name, world.totals) for one in world.tenants]
    return [(one.own.copy(), one.usage.copy(), one.shares()) for one in nodes]


@given(trees(), steps, st.integers(0, 6), st.dictionaries(st.sampled_from(RESOURCES), st.integers(-12, 12)))
def test_the_share_with_more_or_less_is_the_share_once_it_is_charged(
    tenants: list[Tenant], history: list[Any], at: int, more: dict[str, int]
) -> None:
    world = History(tenants, admits=False)
    for step in history:
        world.step(step)
    node = world.ledger.node(tenants[at % len(tenants)].name, world.totals)
    said = node.share(more), node.shares(more)
    node.charge(more)
    assert (node.share(), node.shares()) == said


@given(trees(), steps, st.lists(st.integers(-1, 6), max_size=12), asked)
def test_many_of_several_tenants_fit_as_one_after_the_other(
    tenants: list[Tenant], history: list[Any], of: list[int], amounts: dict[str, int]
) -> None:
    world = History(tenants, admits=True)
    for step in history:
        world.step(step)
    names = ["" if at < 0 else tenants[at % len(tenants)].name for at in of]
    before = _all(world)
    together = world.ledger.fits(names, amounts, world.totals)
    assert _all(world) == before
    alone = 0
    for name in names:
        if name and world.ledger.exceeded(name, amounts, world.totals):
            break
        if name:
            world.ledger.charge(("many", str(alone)), name, amounts)
        alone += 1
    assert together == alone


@given(trees(), trees(), steps)
def test_other_tenants_are_as_if_they_had_been_there_from_the_start(
    first: list[Tenant], then: list[Tenant], history: list[Any]
) -> None:
    world = History(first, admits=False)
    for step in history:
        world.step(step)
    world.ledger.take(then)
    world.tenants = then
    names = {one.name for one in then}
    world.held = {pod_id: charge for pod_id, charge in world.held.items() if charge[0] in names}
    naive = world.naive()
    for one in then:
        node = world.ledger.node(one.name, world.totals)
        assert [node.usage.get(name, 0) for name in RESOURCES] == [naive.usage(one.name, name) for name in RESOURCES]
