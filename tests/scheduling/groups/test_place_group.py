"""Where a group goes as a whole, whom it evicts, and what is told when it goes nowhere."""

from typing import Any

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.cycle.what_if import WhatIf
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.groups import GroupId, group_id
from dispatcher.scheduling.groups.place_group import GroupResult, place_group
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import FLEET, Group
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put, selector
from tests.scheduling.cycle.test_what_if import default

World = tuple[FleetState, Profiles]


def world(*tenants: Tenant, **clusters: Any) -> World:
    state = fleet(**clusters)
    return state, default(state, *tenants)


def rack(name: str, *cpus: int, **labels: str) -> list[NodeBuilder]:
    return [node(f"{name}-{at}").cpu(cpu).labels(rack=name, **labels) for at, cpu in enumerate(cpus)]


def members(*pods: PodBuilder, least: int | None = None, within: str = "rack", whole: bool = False) -> list[Item]:
    group = Group("PodGroup", "train", "", len(pods) if least is None else least, within, whole)
    infos = [one.set(group=group).placed() for one in pods]
    return [((one.home, one.pod.uid), one) for one in infos]


def gang(count: int, cpu: int = 1, *, least: int | None = None, within: str = "rack", priority: int = 0) -> list[Item]:
    pods = [pod(f"w{at}").cpu(cpu).priority(priority) for at in range(count)]
    return members(*pods, least=least, within=within)


def place(where: World, items: list[Item], *placed: tuple[str, str]) -> GroupResult:
    """Nothing is taken unless it is booked."""
    state, profiles = where
    before = state.requested.tobytes()
    group = items[0][1].pod.group
    assert group is not None
    found = place_group(profiles, group, items, placed)
    nominated = any(isinstance(one, Unschedulable) and one.nominated for one in found.results)
    assert found.is_booked or nominated or state.requested.tobytes() == before
    return found


def nodes_of(found: GroupResult) -> list[str]:
    return sorted(one.node for one in found.results if isinstance(one, Decision))


def refused(found: GroupResult) -> list[Unschedulable]:
    return [one for one in found.results if isinstance(one, Unschedulable)]


def told(found: GroupResult) -> str:
    """The same for all members."""
    assert not found.is_booked
    assert len(refused(found)) == len(found.results)
    (message,) = {one.message for one in refused(found)}
    return message


# --- where


def test_all_members_go_to_one_rack() -> None:
    where = world(a=[*rack("r1", 2), *rack("r2", 2, 2)])
    assert nodes_of(place(where, gang(4))) == ["r2-0", "r2-0", "r2-1", "r2-1"]


def test_the_same_rack_name_in_two_clusters_is_two_racks() -> None:
    where = world(a=rack("r1", 2), b=rack("r1", 2))
    assert not place(where, gang(4)).is_booked
    assert place(where, gang(4, within=FLEET)).is_booked


def test_a_group_that_asks_for_a_cluster_goes_to_a_rack_if_one_holds_it() -> None:
    assert nodes_of(place(world(a=[*rack("r1", 2), *rack("r2", 2, 2)]), gang(4, within="cluster"))) == [
        "r2-0", "r2-0", "r2-1", "r2-1",
    ]  # fmt: skip
    assert len(nodes_of(place(world(a=[*rack("r1", 2), *rack("r2", 2, 2)]), gang(5, within="cluster")))) == 5


def test_the_example_of_the_documents() -> None:
    """docs/algorithms/groups.md"""
    clusters = {"east": [*rack("r1", 4, 4), *rack("r2", 4, 4)], "west": rack("r1", 4, 4)}

    def fresh() -> World:
        where = world(**clusters)
        for cluster, name, cpu in (("east", "r1-1", 3), ("west", "r1-0", 2), ("west", "r1-1", 2)):
            put(where[0], pod(f"there-{cluster}-{name}").cpu(cpu), cluster, name)
        return where

    found = place(fresh(), gang(5, within="cluster"))
    assert found.place is not None
    assert found.place.words == "rack r1 of cluster east"
    apart = [pod(f"w{at}").cpu(1).labels(app="u").away("host", selector(app="u")) for at in range(5)]
    assert told(place(fresh(), members(*apart, within="cluster"))) == (
        "pod group train: 4 of 5 members fit in cluster east, the best of 2; there 0/4 nodes are available: "
        "1 Insufficient cpu, 3 node(s) didn't match pod anti-affinity rules"
    )


def test_more_members_count_before_a_narrower_domain() -> None:
    """Three of eight have to start together: the zone holds all of them, a rack five."""
    where = world(a=[*rack("r1", 5, zone="z"), *rack("r2", 3, zone="z")])
    found = place(where, gang(8, least=3, within="zone"))
    assert found.place == ("zone@cluster", "a/z")
    assert len(nodes_of(found)) == 8


def test_for_whom_there_is_no_more_room_is_told_where_he_has_to_go() -> None:
    found = place(world(a=[*rack("r1", 5), *rack("r2", 3)]), gang(8, least=3))
    assert found.place == ("rack@cluster", "a/r1")
    assert len(nodes_of(found)) == 5
    assert {one.message for one in refused(found)} == {
        "pod group train: no more room in rack r1 of cluster a; there 0/1 nodes are available: 1 Insufficient cpu"
    }


def test_members_that_have_a_place_say_where_the_others_go() -> None:
    where = world(a=[*rack("r1", 8), *rack("r2", 4)])
    assert nodes_of(place(where, gang(2, least=3), ("a", "r1-0"))) == ["r1-0", "r1-0"]
    assert told(place(where, gang(2, least=3), ("a", "r1-0"), ("a", "r2-0"))) == (
        "pod group train: no domain of rack: the members that have a place are in no common one"
    )


def test_a_later_member_waits_for_room_beside_the_others() -> None:
    where = world(a=[*rack("r1", 1), *rack("r2", 4)])
    assert "there 0/1 nodes are available: 1 Insufficient cpu" in told(place(where, gang(1, 2, least=1), ("a", "r1-0")))


def test_a_leader_and_its_workers_go_together() -> None:
    items = members(pod("leader").cpu(3), *(pod(f"w{at}").cpu(1) for at in range(3)))
    where = world(a=[*rack("r1", 2, 2, 2), *rack("r2", 3, 3)])
    assert nodes_of(place(where, items)) == ["r2-0", "r2-1", "r2-1", "r2-1"]


def test_pods_that_only_their_labels_tell_apart_are_of_one_template() -> None:
    """As those of an indexed Job: else the bound would let pass racks that hold one of each."""
    pods = [pod(f"w{at}").cpu(1).set(labels={"batch.kubernetes.io/job-completion-index": str(at)}) for at in range(4)]
    assert "3 of 4 members fit in rack r1" in told(place(world(a=[*rack("r1", 3), *rack("r2", 2)]), members(*pods)))


def test_hard_spread_over_hosts_is_over_those_of_the_rack() -> None:
    where = world(a=[*rack("r1", 4, 4), *rack("r2", 3), *rack("r3", 3)])
    pods = [pod(f"w{at}").cpu(1).labels(app="u").spread("host", 1) for at in range(4)]
    assert nodes_of(place(where, members(*pods))) == ["r1-0", "r1-0", "r1-1", "r1-1"]


def test_the_record_of_a_member_tells_of_its_group() -> None:
    found = place(world(a=[*rack("r1", 2), *rack("r2", 2, 2)]), gang(4))
    notes = [one.record()["extras"]["PodGroup"] for one in found.results if isinstance(one, Decision)]
    assert notes == [{"group": "train", "domain": "rack r2 of cluster a", "domains": 2, "members": 4}] * 4


def test_no_more_domains_are_tried_than_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.groups.place_group.MOST_TRIED", 2)
    apart = [pod(f"w{at}").cpu(1).labels(app="u").away("host", selector(app="u")) for at in range(2)]
    racks = [*rack("r1", 2), *rack("r2", 3), *rack("r3", 2, 2)]
    assert not place(world(a=racks), members(*apart)).is_booked
    assert place(world(a=racks[2:]), members(*apart)).is_booked


def test_members_that_share_no_host_are_not_tried_in_every_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Racks of two nodes have room for eight of three members, but for two on hosts of their own."""
    where = world(a=[one for at in range(9) for one in rack(f"r{at}", 4, 4)])
    tried = count_what_ifs(monkeypatch)
    apart = [pod(f"w{at}").cpu(1).labels(app="u").away("host", selector(app="u")) for at in range(3)]
    assert "2 of 3 members fit" in told(place(where, members(*apart)))
    assert tried == [4]


def count_what_ifs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    tried, what_if = [0], Profiles.what_if

    def counted(profiles: Profiles) -> WhatIf:
        tried[0] += 1
        return what_if(profiles)

    monkeypatch.setattr(Profiles, "what_if", counted)
    return tried


def test_a_rack_with_room_for_each_member_but_not_for_all_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_what_ifs(monkeypatch)
    unlike = [pod(f"w{cpu}").cpu(cpu) for cpu in (1, 2, 3)]
    racks = [one for at in range(9) for one in rack(f"r{at}", 5)]
    assert "2 of 3 members fit in rack" in told(place(world(a=racks), members(*unlike)))
    assert tried == [0]
    assert nodes_of(place(world(a=[*racks, *rack("last", 6)]), members(*unlike))) == ["last-0"] * 3
    assert tried == [1]


def test_requests_whose_sum_is_no_int64_are_summed() -> None:
    racks = [one.resource("example.com/x", 2**62) for one in rack("r1", 8, 8, 8, 8)]
    huge = [pod(f"w{at}").request("example.com/x", 2**62 - at) for at in range(4)]
    assert len(set(nodes_of(place(world(a=racks), members(*huge))))) == 4


@pytest.mark.parametrize("level", ["rack", "zone"])
def test_a_group_that_takes_long_to_try_is_tried_in_few_domains_and_the_widest(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """The last of its members speaks against every rack, or every zone."""
    monkeypatch.setattr("dispatcher.scheduling.groups.place_group.MOST_DECISIONS", 5)
    tried = count_what_ifs(monkeypatch)
    apart = [pod(f"w{at}").cpu(1).labels(app="u", at=str(at)).away(level, selector(app="u")) for at in range(2)]
    racks = [one for at in range(9) for one in rack(f"r{at}", 4, zone="z")]
    found = place(world(a=racks), members(*apart, within="zone"))
    assert tried == [3]
    if level == "zone":
        assert "1 of 2 members fit in rack" in told(found)
        assert "; 7 more may hold them, and would take too long to try: " in told(found)
    else:
        assert len(set(nodes_of(found))) == 2


# --- nowhere


def test_where_one_member_too_many_waits_none_is_booked_and_all_are_told_why() -> None:
    found = place(world(a=[*rack("r1", 2), *rack("r2", 2, 2)]), gang(5))
    assert told(found) == (
        "pod group train: 4 of 5 members fit in rack r2 of cluster a, the best of 2; there 0/2 nodes are available: "
        "2 Insufficient cpu"
    )
    assert {one.reasons for one in refused(found)} == {
        frozenset((Reasons.GROUP, Reasons.INSUFFICIENT, Reasons.TOO_MANY_PODS))
    }


def test_a_group_is_charged_whole_or_not_at_all() -> None:
    where = world(Tenant("team", ("default",), {"cpu": Share(absolute=3000)}), a=rack("r1", 8))
    found = place(where, gang(4))
    assert told(found) == "pod group train: tenant quota exceeded: tenant team: cpu asked 4, used 0, limit 3"
    assert {one.reasons for one in refused(found)} == {frozenset((Reasons.GROUP, Reasons.QUOTA))}
    assert len(nodes_of(place(where, gang(4, least=3)))) == 3


def test_members_of_several_profiles_are_refused() -> None:
    state = fleet(a=rack("r1", 8))
    both = [Profile(name, DEFAULT_PROFILE.plugins) for name in ("one", "other")]
    ledger = QuotaLedger()
    profiles = Profiles([Scheduler(one, build(one, PluginContext(quota=ledger)), state) for one in both])
    items = members(pod("a").set(scheduler_name="one"), pod("b").set(scheduler_name="other"))
    assert "train: its pods name several profiles: one, other" in told(place((state, profiles), items))


def test_members_of_too_many_kinds_are_refused_and_those_whom_labels_tell_apart_are_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [node(f"n{at}").cpu(64).labels(rack="r1") for at in range(1000)]
    monkeypatch.setattr("dispatcher.scheduling.groups.templates.MOST_ROOM_BYTES", 4 * 8 * 1000 + 3000)
    unlike = [pod(f"w{at}").cpu(f"{1 + at}m") for at in range(5)]
    assert place(world(a=nodes), members(*unlike[:4])).is_booked
    assert told(place(world(a=nodes), members(*unlike))) == (
        "pod group train: its members are of more than 4 kinds by what they request and where they may run, too many "
        "to compare with 1000 nodes: let more of them request the same, or make smaller groups"
    )
    labelled = [pod(f"l{at}").labels(app="u", at=str(at)).spread("host", 9) for at in range(9)]
    assert place(world(a=nodes), members(*labelled)).is_booked


def test_members_of_whom_each_is_unlike_the_one_before_it_are_refused_when_they_are_very_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dispatcher.scheduling.groups.templates.MOST_RUNS", 4)
    pods = [pod(f"w{at}").cpu(1 + at % 2) for at in range(5)]
    assert place(world(a=rack("r1", 64)), members(*pods[:4])).is_booked
    assert told(place(world(a=rack("r1", 64)), members(*pods))) == (
        "pod group train: one member is unlike the one before it more than 4 times, which would take too long to "
        "decide: let more of them be of one template, or make smaller groups"
    )
    assert place(world(a=rack("r1", 64)), members(*pods[::2], *pods[1::2])).is_booked
    indexed = [pod(f"i{at}").labels(**{"apps.kubernetes.io/pod-index": str(at)}) for at in range(9)]
    assert place(world(a=rack("r1", 64)), members(*indexed)).is_booked


@pytest.mark.parametrize(
    ("within", "lacking"),
    [("rack", "topology.kubernetes.io/rack"), ("racks", "racks; did you mean rack?"), ("pdu", "pdu")],
)
def test_the_label_of_a_level_that_no_node_has_is_named(within: str, lacking: str) -> None:
    assert told(place(world(a=[node("n1")]), gang(1, within=within))) == (
        f"pod group train: no domain of {within}: no node has label {lacking}"
    )


def test_a_group_without_members_is_an_error() -> None:
    with pytest.raises(ValueError, match="without members"):
        place_group(world(a=["n1"])[1], Group("PodGroup", "g"), [])


# --- whom it evicts


def low(state: FleetState, name: str, cpu: int, node_name: str, **more: object) -> None:
    put(state, pod(name).cpu(cpu).set(started=float(len(name)), **more), "a", node_name)


def victims_of(found: GroupResult) -> list[str]:
    return sorted(victim.pod_info.pod.name for one in refused(found) for victim in one.victims)


def test_a_group_evicts_where_fewest_have_to_go_and_gets_their_room() -> None:
    where = world(a=[*rack("r1", 4, 4), *rack("r2", 4, 4)])
    state, profiles = where
    for at in range(4):
        low(state, f"r1-{at}", 1, "r1-0")
        low(state, f"r2-{at}", 1, "r2-0")
    low(state, "r1-big", 2, "r1-1")
    low(state, "r2-big", 4, "r2-1")
    items = gang(4, priority=10)
    found = place(where, items)
    assert victims_of(found) == ["r1-big"]
    assert {one.nominated for one in refused(found)} == {("a", "r1-1")}

    again = place(where, items)
    assert "it waits for pods to leave that were evicted for it" in told(again)
    assert victims_of(again) == []
    assert {one.nominated for one in refused(again)} == {("a", "r1-1")}

    profiles.forget(("a", "uid-r1-big"))
    assert nodes_of(place(where, items)) == ["r1-1"] * 4
    assert not len(profiles.nominations)


def test_a_group_that_goes_as_a_whole_is_evicted_as_one() -> None:
    where = world(a=[*rack("r1", 2, 2), *rack("r2", 2, 2)])
    state, _ = where
    for at, node_name in enumerate(("r1-0", "r1-1", "r2-0")):
        low(state, f"whole-{at}", 2, node_name, group=Group("PodGroup", "other", "", 3, "cluster", True))
    low(state, "single", 2, "r2-1")
    assert victims_of(place(where, gang(4, priority=10))) == ["whole-0", "whole-1", "whole-2"]


@pytest.mark.parametrize(
    ("count", "victims"),
    [(1, ["alone"]), (2, ["alone", "member"]), (3, ["alone", "pair-young-1", "pair-young-2"])],
)
def test_groups_stay_before_other_pods_that_are_as_important_the_largest_first(count: int, victims: list[str]) -> None:
    """However young they are: kube-scheduler's MoreImportantVictim."""
    where = world(a=rack("r1", 4))
    low(where[0], "alone", 1, "r1-0")
    low(where[0], "member", 1, "r1-0", group=Group("PodGroup", "one", "", 1, "cluster"))
    for at in (1, 2):
        low(where[0], f"pair-young-{at}", 1, "r1-0", group=Group("PodGroup", "two", "", 2, "cluster", True))
    assert victims_of(place(where, gang(count, priority=10))) == victims


def test_none_of_a_whole_group_is_evicted_where_one_of_it_is_as_important() -> None:
    where = world(a=[*rack("r1", 2, 2)])
    for at in range(2):
        group = Group("PodGroup", "other", "", 2, "cluster", True)
        low(where[0], f"whole-{at}", 2, f"r1-{at}", group=group, priority=10 * at)
    assert victims_of(place(where, gang(2, priority=10))) == []


def test_who_is_guarded_by_a_budget_stays_if_others_can_go() -> None:
    where = world(a=rack("r1", 2, 2))
    state, _ = where
    state.kept.put("a", PodDisruptionBudget("default", "guard", selector(app="guarded"), allowed=0))
    low(state, "guarded", 2, "r1-0", labels={"app": "guarded"})
    low(state, "other", 2, "r1-1")
    assert victims_of(place(where, gang(2, priority=10))) == ["other"]


@pytest.mark.parametrize("preempts", [True, False])
def test_nobody_is_evicted_for_a_group_with_a_member_that_does_not_preempt(preempts: bool) -> None:
    where = world(a=rack("r1", 2))
    low(where[0], "there", 2, "r1-0")
    items = members(pod("w0").cpu(1).priority(10), pod("w1").cpu(1).priority(10).set(preempts=preempts))
    assert victims_of(place(where, items)) == (["there"] if preempts else [])


def test_that_nobodys_leaving_helps_is_known_until_the_fleet_moves() -> None:
    where = world(a=rack("r1", 2))
    low(where[0], "there", 1, "r1-0")
    assert victims_of(place(where, gang(3, priority=10))) == []
    assert where[1].of_groups["hopeless"]
    where[0].put_node("a", node("r1-1").cpu(1).labels(rack="r1").build())
    assert victims_of(place(where, gang(3, priority=10))) == ["there"]


@pytest.mark.parametrize(("most", "victims"), [(4, ["big"]), (1, [])])
def test_nobody_is_evicted_for_a_group_whose_victims_take_too_long_to_find(
    monkeypatch: pytest.MonkeyPatch, most: int, victims: list[str]
) -> None:
    """A rack where they seem to matter less, and where a pod stays that keeps the member off, comes first."""
    monkeypatch.setattr("dispatcher.scheduling.groups.preemption.MOST_DECISIONS", most)
    where = world(a=[*rack("r1", 2), *rack("r2", 2)])
    low(where[0], "small", 1, "r1-0")
    low(where[0], "stays", 1, "r1-0", priority=10, labels={"app": "u"})
    low(where[0], "big", 2, "r2-0", priority=1)
    found = place(where, members(pod("w0").cpu(1).priority(10).away("rack", selector(app="u"))))
    assert victims_of(found) == victims
    assert ("whom to evict for it would take too long to find" in told(found)) == (not victims)


# --- which group


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (None, None),
        (Group("PodGroup", "g"), GroupId("a", "default", "PodGroup", "g")),
        (Group("PodGroup", "g", min_count=1, within=FLEET), None),
        (Group("mark", "g", min_count=2, within=FLEET), GroupId("a", "default", "mark", "g")),
    ],
)
def test_a_pod_is_of_a_group_unless_that_means_pod_by_pod(group: Group | None, found: GroupId | None) -> None:
    assert group_id(pod().set(group=group).placed()) == found
