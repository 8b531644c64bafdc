"""Where a group goes as a whole, and what is told when it goes nowhere."""

from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.cycle import Decision, Unschedulable
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.groups.place_group import GroupResult, place_group
from shared.model.pod import FLEET, Group
from shared.model.reasons import Reasons
from tests.builders import NodeBuilder, fleet, node, pod
from tests.scheduling.cycle.test_what_if import default


def gang(count: int, cpu: int = 1, within: str = "rack") -> tuple[Group, list[Item]]:
    group = Group("PodGroup", "train", min_count=count, within=within)
    pods = [pod(f"w{at}").cpu(cpu).set(group=group) for at in range(count)]
    return group, [(("a", f"uid-w{at}"), one.placed()) for at, one in enumerate(pods)]


def rack(name: str, *cpus: int) -> list[NodeBuilder]:
    return [node(f"{name}-{at}").cpu(cpu).labels(rack=name) for at, cpu in enumerate(cpus)]


def nodes_of(found: GroupResult) -> list[str]:
    return sorted(one.node for one in found.results if isinstance(one, Decision))


def place(state: FleetState, profiles: Profiles, group: Group, items: list[Item]) -> GroupResult:
    before = state.requested.tobytes()
    found = place_group(profiles, group, items)
    assert found.is_booked or state.requested.tobytes() == before
    return found


def test_all_members_go_to_one_rack() -> None:
    state = fleet(a=[*rack("r1", 2), *rack("r2", 2, 2)])
    found = place(state, default(state), *gang(4))
    assert nodes_of(found) == ["r2-0", "r2-0", "r2-1", "r2-1"]


def test_where_one_member_too_many_waits_none_is_booked_and_all_are_told_why() -> None:
    state = fleet(a=[*rack("r1", 2), *rack("r2", 2, 2)])
    found = place(state, default(state), *gang(5))
    assert {type(one) for one in found.results} == {Unschedulable}
    assert {one.reasons for one in found.results if isinstance(one, Unschedulable)} == {
        frozenset((Reasons.GROUP, Reasons.INSUFFICIENT, Reasons.TOO_MANY_PODS))
    }
    assert {one.message for one in found.results if isinstance(one, Unschedulable)} == {
        "pod group train: 4 of 5 members fit in rack r2 of cluster a, the best of 2; there 0/2 nodes are available: 2 Insufficient cpu"
    }


def test_the_same_rack_name_in_two_clusters_is_two_racks() -> None:
    state = fleet(a=rack("r1", 2), b=rack("r1", 2))
    assert not place(state, default(state), *gang(4)).is_booked
    assert place(state, default(state), *gang(4, within=FLEET)).is_booked


def test_a_group_that_asks_for_a_cluster_goes_to_a_rack_if_one_holds_it() -> None:
    state = fleet(a=[*rack("r1", 2), *rack("r2", 2, 2)])
    group, items = gang(4, within="cluster")
    assert nodes_of(place(state, default(state), group, items)) == ["r2-0", "r2-0", "r2-1", "r2-1"]
    group, items = gang(5, within="cluster")
    state = fleet(a=[*rack("r1", 2), *rack("r2", 2, 2)])
    assert len(nodes_of(place(state, default(state), group, items))) == 5
