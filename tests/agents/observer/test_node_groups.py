"""What an agent tells of node groups, as their objects come, change and go."""

from agents.observer.changes import ChangeLog
from agents.observer.node_groups import NODE_GROUPS, NodeGroupWatch
from agents.observer.seen import AutoscalerSeen, NodeGroupSeen
from shared.model.node_group import MAX_GROUPS, NodeGroup

SETS = "MachineSet"
POOLS = "MachinePool"
STATUS = "ConfigMap"


class World:
    """A watch of groups with a clock."""

    def __init__(self, *, only_these: bool = False) -> None:
        self.now = 0.0
        self.log = ChangeLog()
        self.watch = NodeGroupWatch(self.log, (SETS, POOLS), lambda: self.now, only_these=only_these)

    def listed(self, kind: str, *names: str) -> None:
        self.watch.begin(kind)
        self.watch.page(kind, tuple(NodeGroupSeen(kind, name, 1, NodeGroup(name, 0, 9)) for name in names))
        self.watch.end(kind)

    def sized(self, name: str, size: int, ready: int) -> None:
        self.watch.apply(NodeGroupSeen(SETS, name, 2, NodeGroup(name, size, 9), ready))

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.watch.told().groups]

    @property
    def news(self) -> int:
        return self.log.revision


def test_groups_of_all_kinds_are_told_by_name_until_a_list_lacks_them() -> None:
    world = World()
    world.listed(SETS, "b", "c")
    world.listed(POOLS, "a")
    assert world.names == ["a", "b", "c"]
    world.listed(SETS, "c")
    world.watch.forget(POOLS, "a")
    assert world.names == ["c"]


def test_only_what_is_told_otherwise_is_news() -> None:
    world = World()
    world.listed(SETS, "a")
    at = world.news
    assert next(world.log.changed(0)) == (NODE_GROUPS, "")
    world.listed(SETS, "a")
    world.watch.apply(AutoscalerSeen("status", 1, frozenset(("another",))))
    world.watch.apply(NodeGroupSeen(SETS, "none of ours", 1, None))
    assert world.news == at
    world.sized("a", 1, 0)
    assert world.news > at


def test_they_are_all_by_the_operators_word_once_each_kind_was_listed_or_is_not_served() -> None:
    world = World(only_these=True)
    world.listed(SETS, "a")
    assert not world.watch.told().all
    world.watch.absent(POOLS)
    assert not world.watch.told().all  # they are there, and may not be seen
    world.watch.is_unserved = lambda kind: kind == POOLS
    assert world.watch.told().all
    assert not World().watch.told().all


def test_groups_that_may_be_seen_no_more_are_not_told() -> None:
    world = World(only_these=True)
    world.listed(SETS, "a")
    world.listed(POOLS)
    world.watch.absent(SETS)
    assert (world.names, world.watch.told().all) == ([], False)


def test_more_groups_than_a_report_holds_are_not_told_as_all() -> None:
    world = World(only_these=True)
    world.listed(POOLS)
    world.listed(SETS, *(f"g{at:03}" for at in range(MAX_GROUPS + 1)))
    assert (len(world.names), world.watch.told().all) == (MAX_GROUPS, False)


def test_a_group_backs_off_as_long_as_its_autoscaler_says_so() -> None:
    world = World()
    world.listed(SETS, "a")
    world.watch.apply(AutoscalerSeen("status", 1, frozenset("a")))
    assert not world.watch.told().groups[0].grows
    world.watch.forget(STATUS, "status")
    assert world.watch.told().groups[0].grows


def test_how_long_a_group_takes_to_grow_is_from_when_it_is_to_until_all_its_nodes_are_ready() -> None:
    world = World()
    world.listed(SETS, "a")
    world.sized("a", 2, 0)
    world.now = 60.0
    world.sized("a", 3, 1)
    world.now = 90.0
    world.sized("a", 3, 2)
    assert world.watch.told().groups[0].seconds == 90.0


def test_a_growth_that_was_given_up_is_no_measure() -> None:
    world = World()
    world.listed(SETS, "a")
    world.sized("a", 2, 0)
    world.sized("a", 0, 0)
    world.now = 50.0
    world.sized("a", 0, 0)
    assert world.watch.told().groups[0].seconds == 0.0
