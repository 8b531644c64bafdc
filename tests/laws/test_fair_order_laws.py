"""Laws of the order by shares, for any tenants, pods, charges and pops; the naive picker looks at all that waits."""

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.queue import IN_A_ROW, QueuedPod
from dispatcher.scheduling.quota import charge_of
from shared.model.pod import PodId
from tests.builders import pod
from tests.laws.examples import examples
from tests.scheduling.sharing import FakeShares, SharedQueue, tenant_of

TENANTS = ("a/1", "a/2", "b/1", "b/2", "c", "spare", "")
WEIGHTS = {"a": 2, "b/1": 3, "spare": 0}
LATER = 1000.0
TENANT = st.sampled_from(TENANTS)
STEP = st.one_of(
    st.tuples(
        st.just("come"), TENANT, st.integers(1, 5), st.sampled_from((0, 0, 7)), st.sampled_from(("100m", "1900m"))
    ),
    st.tuples(st.just("pop"), st.integers(1, 6)),
    st.tuples(st.just("pop"), st.integers(1, 2)),
    st.tuples(st.just("give back"), st.sampled_from([one for one in TENANTS if one]), st.integers(1, 3)),
    st.tuples(st.just("remove"), st.integers(0, 60)),
    st.tuples(st.just("all change")),
)


class World:
    """A queue, and all that waits in it."""

    def __init__(self) -> None:
        self.shares = FakeShares(WEIGHTS)
        self.queue = SharedQueue(self.shares)
        self.ids: list[PodId] = []

    def waiting(self) -> list[QueuedPod]:
        found = [self.queue.get(pod_id) for pod_id in self.ids]
        return [one for one in found if one is not None]

    def come(self, tenant: str, count: int, priority: int, cpu: str = "100m") -> None:
        labels = {"app": tenant[:1] + cpu} | ({"tenant": tenant} if tenant else {})
        names = [f"p{len(self.ids) + number}" for number in range(count)]
        self.ids += self.queue.come(*(pod(name).labels(**labels).priority(priority).cpu(cpu) for name in names))

    def step(self, step: tuple[object, ...]) -> None:
        match step:
            case "come", str() as tenant, int() as count, int() as priority, str() as cpu:
                self.come(tenant, count, priority, cpu)
            case "pop", int() as limit:
                before = self.waiting()
                batch = self.queue.pop_class(LATER, limit)
                assert bool(batch) == bool(before)
                self.check(batch, before)
                self.queue.place(batch)
            case "give back", str() as tenant, int() as pods:
                self.shares.charge(
                    tenant, charge_of(pod().cpu("100m").build()), -min(pods, self.shares.pods_of(tenant))
                )
            case "remove", int() as number:
                self.queue.remove(("a", f"uid-p{number}"))
            case _:
                self.shares.changed = None

    def check(self, batch: list[QueuedPod], before: list[QueuedPod]) -> None:
        """Each pod of the batch is one of who may be next, as if those before it had been placed."""
        left = list(before)
        row = 0
        for at, item in enumerate(batch):
            row = row + 1 if at and tenant_of(batch[at - 1].pod_info) == tenant_of(item.pod_info) else 1
            if row == 1 or tenant_of(item.pod_info) is None:
                assert tenant_of(item.pod_info) in self.next_ones(left), (item, left)
            left.remove(item)
            if (tenant := tenant_of(item.pod_info)) is not None:
                self.shares.suppose(tenant, item.pod_info, 1)
        for item in batch:
            if (tenant := tenant_of(item.pod_info)) is not None:
                self.shares.suppose(tenant, item.pod_info, -1)

    def next_ones(self, left: list[QueuedPod]) -> set[str | None]:
        """Of tenants that may be next: of the first rank, with the lowest shares from the root down."""
        first = min(self.rank(one) for one in left)
        tenants = {tenant_of(one.pod_info) for one in left if self.rank(one) == first}
        named = {one for one in tenants if one is not None}
        return self.lowest(named) | (tenants - named)

    def rank(self, item: QueuedPod) -> tuple[bool, int]:
        tenant = tenant_of(item.pod_info)
        return tenant == "spare", -item.pod_info.pod.priority

    def lowest(self, tenants: set[str], depth: int = 0) -> set[str | None]:
        if not tenants:
            return set()
        nodes = {one: "/".join(one.split("/")[: depth + 1]) for one in tenants}
        least = min(self.share(one) for one in nodes.values())
        found: set[str | None] = set()
        for node in {one for one in nodes.values() if self.share(one) == least}:
            below = {tenant for tenant in tenants if nodes[tenant] == node}
            found |= below if below == {node} else self.lowest(below, depth + 1)
        return found

    def share(self, node: str) -> Fraction:
        return self.shares.share_of(node)


@settings(max_examples=examples(200), deadline=None)
@given(steps=st.lists(STEP, max_size=40))
def test_the_next_pod_is_of_the_first_rank_and_of_the_tenant_with_the_lowest_share(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for step in steps:
        world.step(step)
    waiting = world.waiting()
    foreseen = [one.pod_id for one in world.queue.in_order(60)]
    for most in (1, 4):
        assert [one.pod_id for one in world.queue.in_order(most)] == foreseen[:most], "however few are asked for"
    popped: list[QueuedPod] = []
    while batch := world.queue.pop_class(LATER, IN_A_ROW):
        popped += batch
        world.queue.place(batch)
    assert foreseen == [one.pod_id for one in popped[:60]], "as `in_order` said"
    assert Counter(one.pod_id for one in popped) == Counter(one.pod_id for one in waiting), "each once"
    assert set(world.queue.counts().values()) == {0}
    assert not world.queue._active._nodes, "nothing is left of what waited"  # type: ignore[union-attr]


@settings(max_examples=examples(100), deadline=None)
@given(
    burst=st.integers(1, 300),
    placed=st.integers(0, 100),
    limits=st.lists(st.integers(1, 50), min_size=1, max_size=5),
)
def test_a_first_pod_waits_for_none_of_a_burst_of_another_tenant(burst: int, placed: int, limits: list[int]) -> None:
    """In decisions, whatever was decided of the burst before it came."""
    world = World()
    world.come("a/1", burst, 0)
    for limit in limits:
        world.queue.place(world.queue.pop_class(LATER, limit))
    world.shares.charge("c", charge_of(pod().cpu("100m").build()), min(placed, world.shares.pods_of("a/1")) // 2)
    world.come("c", 1, 0)
    batch = world.queue.pop_class(LATER, 1000)
    assert tenant_of(batch[0].pod_info) == "c"


@settings(max_examples=examples(50), deadline=None)
@given(weights=st.lists(st.integers(1, 9), min_size=2, max_size=5), room=st.integers(200, 600))
def test_with_endless_demand_shares_go_by_weight_and_nobody_envies_another(weights: list[int], room: int) -> None:
    """Sharing incentive: each has its part of the room by weight, but for a row; so nobody would rather have another
    one's, weighed.
    """
    names = [f"t{number}" for number in range(len(weights))]
    shares = FakeShares(dict(zip(names, weights, strict=True)))
    queue = SharedQueue(shares)
    for name in names:
        queue.come(*(pod(f"{name}-{one}").labels(app="x", tenant=name).cpu("100m") for one in range(room)))
    found = Counter(queue.place(queue.pop_class(LATER, room)))
    row = room // 32 + 1
    for name, weight in zip(names, weights, strict=True):
        assert abs(found[name] - room * weight / sum(weights)) <= row + 1
