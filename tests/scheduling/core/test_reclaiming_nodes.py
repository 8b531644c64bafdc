"""Quota and nodes come free together: for groups, and for pods that would borrow, of nodes that borrowers fill."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.core.reclaiming import Reclaiming
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.tenants.reclaim import Candidate, Claimant
from shared.model.labels import LabelSelector
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import Group, PodId
from shared.model.tenant import Share, Tenant
from tests.builders import node
from tests.laws.examples import examples
from tests.scheduling.core.test_reclaiming import World, team

LENDS_NOTHING = {"lending_limit": {"cpu": Share(absolute=0)}}
RACK = "topology.kubernetes.io/rack"


class Racks(World):
    """Two racks of two nodes with two CPUs each, `r0` and `r1`; blue fills them with pods of one CPU."""

    def __init__(self, *teams: Tenant, again: bool = False, goes_after: int = 0) -> None:
        super().__init__(*teams or (team("red", 4), team("blue", 4)), room=(), again=again, goes_after=goes_after)
        nodes = (node(f"n{at}").cpu(2).memory("90Gi").pods(90).label({RACK: f"r{at // 2}"}) for at in range(4))
        self.report(full=True, nodes=tuple(one.build() for one in nodes))
        self.come(*(f"blue-{at}" for at in range(8)))
        assert self.placed("blue") == 8

    def gang(self, members: int, cpu: int = 1, within: str = "cluster", name: str = "train") -> None:
        group = Group("annotation", name, "", members, within)
        self.submit(*(self.built(f"red-{name}-{at}", cpu).set(group=group).build() for at in range(members)))
        self.run(60)

    def racks_of(self, tenant: str) -> Counter[int]:
        placed = (one.node for name, one in self.pods.items() if one.node and name.startswith(tenant))
        return Counter(int(name[1:]) // 2 for name in placed)


@pytest.mark.parametrize("goes_after", [0, 7])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(("members", "cpu"), [(4, 1), (2, 2)])
def test_a_gang_of_a_lender_has_full_nodes_emptied_of_as_many_as_it_needs(
    members: int, cpu: int, again: bool, goes_after: int
) -> None:
    world = Racks(again=again, goes_after=goes_after)
    world.gang(members, cpu)
    assert (world.placed("red"), world.placed("blue"), len(world.evicted)) == (members, 4, 4)


def test_they_go_in_one_domain_that_the_gang_may_be_placed_in() -> None:
    world = Racks()
    world.gang(4, within="rack")
    assert (world.placed("red"), len(world.evicted)) == (4, 4)
    assert len(world.racks_of("red")) == 1


def test_where_quota_is_left_and_nodes_alone_are_full_borrowers_go_as_well() -> None:
    world = Racks(team("red", 4, **LENDS_NOTHING), team("green", 8), team("blue", 0))
    world.gang(2, 2)
    assert (world.placed("red"), world.placed("blue"), len(world.evicted)) == (2, 4, 4)


def test_nobody_goes_for_a_gang_that_its_domain_has_no_room_for() -> None:
    world = Racks()
    world.gang(4, 1, within="host")
    world.gang(2, 3, name="large")
    assert world.evicted == []


def test_who_uses_its_own_keeps_its_nodes_from_a_gang() -> None:
    world = Racks(team("red", 4, **LENDS_NOTHING), team("blue", 8))
    world.gang(2, 2)
    assert world.evicted == []


def test_a_group_that_goes_whole_goes_whole_and_a_budget_keeps_it() -> None:
    world = Racks()
    for allowed, gone in ((0, 4), (8, 6)):
        world = Racks()
        for name in ("blue-6", "blue-7"):
            world.leave(name)
        whole = Group("PodGroup", "pair", min_count=2, whole=True)
        world.submit(*(world.built(f"blue-pair-{at}").labels(app="pair").set(group=whole).build() for at in (0, 1)))
        world.run(3)
        assert world.placed("blue") == 8
        world.report(objects=(PodDisruptionBudget("blue", "b", LabelSelector({"app": "pair"}), allowed, ()),))
        world.gang(2, 2)
        pair = [name for name in world.names() if "pair" in name]
        assert len(pair) in (0, 2)
        assert len(world.evicted) <= gone
        assert world.placed("red") == 2
        assert allowed or not pair


def borrowing(again: bool = False, cpus: int = 12) -> World:
    """So many CPUs are anybody's, and nodes have six of them, which blue fills."""
    everybody = Tenant("all", (), {"cpu": Share(absolute=1000 * cpus)}, reclaim="any")
    world = World(room=(3, 3), again=again)
    world.ledger.take((everybody, team("red", 0), team("blue", 0)))
    world.come(*(f"blue-{at}" for at in range(6)))
    assert world.placed("blue") == 6
    return world


@pytest.mark.parametrize("again", [False, True])
def test_pods_that_would_borrow_empty_full_nodes_until_shares_are_equal(again: bool) -> None:
    world = borrowing(again)
    world.come(*(f"red-{at}" for at in range(6)))
    world.run(400)
    assert (world.placed("red"), world.placed("blue"), len(world.evicted)) == (3, 3, 3)


def test_a_gang_that_would_borrow_does_not_take_more_than_it_leaves() -> None:
    world = borrowing()
    world.come_together(4)
    world.run(100)
    assert (world.placed("red"), world.evicted) == (0, [])
    world = borrowing()
    world.come_together(3)
    world.run(100)
    assert (world.placed("red"), len(world.evicted)) == (3, 3)


@pytest.mark.parametrize(("own", "priority", "gone"), [(4, 5, 0), (4, 0, 4), (0, 5, 4)])
def test_for_nodes_alone_nobody_goes_who_would_preempt_the_gang_again(own: int, priority: int, gone: int) -> None:
    """For quota, of which none is left then, whoever has borrowed it."""
    green = (team("green", 4),) if own else ()
    world = World(team("red", 4, **(LENDS_NOTHING if own else {})), *green, team("blue", 4), room=(2,) * 4)
    world.come(*(f"blue-{at}" for at in range(8)), priority=priority)
    assert world.placed("blue") == 8
    world.come_together(2, cpu=2)
    world.run(60)
    assert len(world.evicted) == gone


def test_what_is_fair_is_asked_of_a_gang_as_a_whole() -> None:
    """Two of its four members would be within its own; with all it borrows as much as green has, who keeps it."""
    everybody = Tenant("all", (), {"cpu": Share(absolute=8000)}, reclaim="any")
    world = World(room=(2, 2))
    world.ledger.take((everybody, team("red", 2), team("green", 0)))
    world.come(*(f"green-{at}" for at in range(4)))
    world.come_together(4)
    world.run(100)
    assert (world.placed("green"), world.evicted) == (4, [])


def test_who_leaves_room_and_quota_at_once_lets_others_stay() -> None:
    """A CPU is missing, and a GPU, which nobody else has: of blue's pods on the node the one with both goes alone."""
    gpus = {"nvidia.com/gpu": Share(absolute=1)}
    world = World(Tenant("red", ("red",), gpus, parent="all"), Tenant("blue", ("blue",), {}, parent="all"), room=())
    world.report(nodes=(node("n0").cpu(4).memory("90Gi").pods(90).resource("nvidia.com/gpu", 2).build(),))
    world.submit(world.built("blue-both", 2).request("nvidia.com/gpu", 1).priority(3).build())
    world.run(1)
    world.come("blue-0", "blue-1")
    assert world.placed("blue") == 3
    world.submit(world.built("red-1", 2).request("nvidia.com/gpu", 1).priority(3).build())
    world.run(20)
    assert (world.placed("red"), world.names()) == (1, ["blue-both"])


def test_the_one_node_that_is_open_to_a_pod_is_found_among_many_that_are_not() -> None:
    world = borrowing(cpus=100)
    nodes = (node(f"m{at:03}").cpu(1).memory("9Gi").pods(9).label({"at": f"{at}"}) for at in range(70))
    world.report(nodes=tuple(one.build() for one in nodes))
    world.come(*(f"blue-m{at}" for at in range(70)))
    assert world.placed("blue") == 76
    world.submit(world.built("red-1").node_selector({"at": "69"}).build())
    world.run(5)
    assert [one.node for one in world.evicted] == ["m069"]


GANG = st.tuples(
    st.sampled_from(("red", "green", "blue")), st.integers(1, 3), st.integers(1, 4), st.sampled_from((0, 5))
)


def found_and_needed(
    reclaiming: Reclaiming,
    members: Sequence[QueuedPod],
    claimant: Claimant,
    candidates: Sequence[Candidate],
    going: Sequence[PodId],
) -> tuple[Sequence[Candidate], Mapping[PodId, Decision], bool]:
    """What was found: quota and places are there once these are gone, and without any pod or group of them are not."""
    found = _found(reclaiming, members, claimant, candidates, going)
    taken, places, _ = found
    for but in (None, *dict.fromkeys(one.unit for one in taken)) if places else ():
        fewer = [one for one in taken if one.unit != but]
        with reclaiming.aside([*going, *(one.pod_id for one in fewer)]):
            over = reclaiming._ledger.exceeded(claimant.tenant, claimant.asked, None)
        there = {} if over else reclaiming._places_without(members, going, fewer)
        assert (len(there) == len(members)) is (but is None)
    return found


_found = Reclaiming._found


@settings(max_examples=examples(100), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    nominal=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    room=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    first=st.lists(GANG, min_size=1, max_size=6),
    then=st.lists(GANG, min_size=1, max_size=4),
)
def test_it_ends_where_nodes_are_full_and_each_goes_once_for_one_pod_or_group(
    nominal: list[int], room: list[int], first: list[tuple[str, int, int, int]], then: list[tuple[str, int, int, int]]
) -> None:
    """Of pods, and then gangs, of three tenants, replaced at once when they are evicted; and victims are minimal."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Reclaiming, "_found", found_and_needed)
        play(nominal, room, first, then)


def play(nominal: list[int], room: list[int], *batches: list[tuple[str, int, int, int]]) -> None:
    names = ("red", "green", "blue")
    teams = [team(name, cpu) for name, cpu in zip(names, nominal, strict=True)]
    world = World(*teams, room=tuple(room), again=True)
    for number, batch in enumerate(batches):
        for at, (tenant, cpu, members, priority) in enumerate(batch):
            group = Group("annotation", f"g-{number}-{at}", "", members, "cluster") if number and members > 1 else None
            pods = (world.built(f"{tenant}-{number}-{at}-{one}", cpu).priority(priority) for one in range(members))
            world.submit(*(one.set(group=group).build() for one in pods))
        for _ in range(10):
            world.run(8)
            world.check(min(sum(nominal), sum(room)))
    ended = len(world.evicted)
    world.run(100)
    assert len(world.evicted) == ended
    assert {*Counter((one.pod.name, one.reclaimed) for one in world.evicted).values()} <= {1}
