"""Groups: members wait for each other, are placed as one, and go through the protocol as one."""

from typing import Any

import pytest
from msgspec.structs import replace

from dispatcher.scheduling import events
from dispatcher.scheduling.core import CoreTiming
from dispatcher.scheduling.core.booked_groups import GIVEN_BACK
from dispatcher.scheduling.views import explain
from shared import messages as m
from shared.model.group_kinds import POD_GROUPS
from shared.model.names import CLUSTERS as MAY_GO_TO
from shared.model.names import RACK, STAY
from shared.model.node import Node
from shared.model.pod import FLEET, Group, Pod
from tests.laws.cores import make_core
from tests.laws.world import ModelCluster, World

GROUP_S = 60.0


class Fleet:
    """Clusters `home` and `west` with two nodes of 4 CPUs each; orders are carried out when a test says so."""

    def __init__(self) -> None:
        self.world = World({})
        names = ("home", "west")
        for name in names:
            nodes = [Node(f"{name}-{at}", ready=True, allocatable={"cpu": 4000, "pods": 20}) for at in (1, 2)]
            self.world.clusters[name] = ModelCluster(name, nodes, [one for one in names if one != name], self.world)
        self.home, self.west = self.world.clusters["home"], self.world.clusters["west"]
        self.core = make_core(names, timing=CoreTiming(group_s=GROUP_S, absence_grace_s=5.0))
        self.now, self.mail, self.log = 1000.0, list[tuple[str, Any]](), list[tuple[str, Any]]()
        self.report()

    def _feed(self, event: events.Event) -> None:
        for effect in self.core.handle(event, self.now):
            if isinstance(effect, events.SendIntents):
                self.mail += [(effect.cluster, one) for one in effect.intents]

    def report(self) -> None:
        for cluster in self.world.clusters.values():
            cluster.kubelets()
            cluster.watch()
            view = self.core.clusters[cluster.name]
            self._feed(events.ClusterChanged(cluster.changes(view.revision, view.incarnation)))

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self._feed(events.Tick())

    def carry_out(self, *kinds: type) -> list[tuple[str, str, str]]:
        """Orders of these kinds (all, if none is named) are done; what they were: kind, cluster, source."""
        due = [one for one in self.mail if not kinds or type(one[1]) in kinds]
        self.mail = [one for one in self.mail if one not in due]
        for cluster, intent in due:
            outcome = self.world.clusters[cluster].execute(intent)
            self._feed(events.Answered(cluster, (outcome,)))
        self.log += due
        shown = [one for one in due if not isinstance(one[1], (m.ReportUnschedulable, m.ReportGroup))]
        return [(type(one).__name__, cluster, one.pod.name) for cluster, one in shown]

    def run(self, seconds: int) -> None:
        """All orders are carried out, and seen, for so long."""
        for _ in range(seconds):
            self.report()
            self.tick()
            self.carry_out()
            self.report()

    def submit(self, *names: str, cpu: int = 1000, least: int = 3, within: str = "cluster", **more: Any) -> list[Pod]:
        group = Group(POD_GROUPS, "train", "u1", least, within)
        return [self.home.submit(name, cpu, group=group, **more) for name in names]

    def told(self, name: str) -> str:
        row = explain(self.core, "default", name)
        return str(row["message"]) if row else ""

    def orders(self) -> list[tuple[str, str]]:
        kept = [one for one in self.mail if not isinstance(one[1], (m.ReportUnschedulable, m.ReportGroup))]
        return sorted((type(one).__name__, one.pod.name) for _, one in kept)

    def places(self) -> dict[str, str]:
        """Of each pod that runs: the cluster where it does."""
        found = dict[str, str]()
        for name, cluster in self.world.clusters.items():
            for pod in cluster.pods.values():
                if pod.namespace == "default" and pod.node and not cluster.nodes[pod.node].proxy_for:
                    found[pod.name] = name
        return found

    def fill(self, cluster: str, cpu: int = 4000) -> None:
        """Pods of others take that much of each node."""
        there = self.world.clusters[cluster]
        for name in [one for one in there.nodes if not there.nodes[one].proxy_for]:
            there._put(
                Pod(f"rival-{name}", "other", f"rival-{name}", requests={"cpu": cpu}, node=name, phase="Running")
            )

    def relabel(self, node: str, key: str, value: str) -> None:
        """Somebody labels a node of `west`."""
        labelled = replace(self.west.nodes[node], labels={key: value})
        self.west.nodes[node] = labelled
        view = self.core.clusters["west"]
        changes = self.west.changes(view.revision, view.incarnation)
        self._feed(events.ClusterChanged(replace(changes, nodes=(labelled,))))

    def free(self, cluster: str) -> None:
        there = self.world.clusters[cluster]
        for pod in [one for one in there.pods.values() if one.name.startswith("rival")]:
            there.pods.pop(pod.uid)


AWAY: dict[str, Any] = {"annotations": {MAY_GO_TO: "west"}}


def test_members_wait_until_enough_are_here_and_are_then_bound_in_one_batch() -> None:
    fleet = Fleet()
    fleet.submit("a", "b")
    fleet.report()
    fleet.tick()
    assert fleet.told("a") == "incomplete pod group train: 2 of min 3 pods are here"
    assert fleet.orders() == []
    fleet.submit("c")
    fleet.report()
    fleet.tick()
    assert fleet.orders() == [("Bind", "a"), ("Bind", "b"), ("Bind", "c")]
    fleet.run(2)
    assert fleet.places() == {"a": "home", "b": "home", "c": "home"}
    assert fleet.core.booked.times.groups == 1


def test_all_are_claimed_before_any_is_created_and_all_created_before_any_is_bound() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", **AWAY)
    fleet.report()
    fleet.tick()
    a, b, _ = [one for one in fleet.mail if isinstance(one[1], m.Claim)]
    for one in (a, b):
        fleet.mail.remove(one)
        fleet._feed(events.Answered("home", (fleet.home.execute(one[1]),)))
    assert fleet.orders() == [("Claim", "c")]
    assert fleet.carry_out(m.Claim) == [("Claim", "home", "c")]
    assert fleet.orders() == [("CreateDelegate", name) for name in "abc"]
    fleet.carry_out(m.CreateDelegate)
    assert fleet.places() == {}
    assert [one.made for _, one in fleet.mail] == [f"delegate-of-home-{at}" for at in (1, 2, 3)]
    fleet.carry_out(m.CreateDelegate)
    assert fleet.places() == dict.fromkeys("abc", "west")
    fleet.run(3)
    assert {pod.node for pod in fleet.home.sources()} == {"global-dispatcher-west"}


def test_a_webhook_that_refuses_two_of_four_once_leaves_nobody_behind_and_all_are_tried_again() -> None:
    fleet, refused = Fleet(), {"b", "d"}

    def webhook(intent: m.CreateDelegate) -> str:
        if intent.pod.name not in refused:
            return ""
        refused.remove(intent.pod.name)
        return "denied by webhook"

    fleet.west.webhook = webhook  # type: ignore[method-assign]
    fleet.submit("a", "b", "c", "d", least=4, **AWAY)
    halves = set[int]()
    for _ in range(60):
        fleet.run(1)
        halves.add(len(fleet.places()))
    assert halves == {0, 4}
    assert fleet.core.counters[GIVEN_BACK, "create"] == 1


def test_what_waits_too_long_in_the_protocol_is_given_back_as_a_whole() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", **AWAY)
    fleet.report()
    fleet.tick()
    late = [one for one in fleet.mail if isinstance(one[1], m.Claim) and one[1].pod.name == "c"]
    fleet.mail = [one for one in fleet.mail if one not in late]  # its answer does not come
    fleet.carry_out()
    for _ in range(int(GROUP_S) - 1):
        fleet.report()
        fleet.tick()
    assert fleet.core.fleet.occupant(("home", "home-1")) is not None
    fleet.tick(2.0)
    fleet.carry_out(m.Unclaim)
    fleet.report()
    fleet.tick()
    words = "pod group train was given back as a whole: 1 of 3 pods, default/c first, did not get through step claim"
    assert fleet.told("a").startswith(words)
    assert fleet.core.fleet.occupant(("home", "home-1")) is None
    assert all(pod.claim is None for pod in fleet.home.sources())
    # the answer comes after all: the claim is taken back, and the group decided again
    ((cluster, intent),) = late
    fleet._feed(events.Answered(cluster, (fleet.home.execute(intent),)))
    fleet.run(8)
    assert fleet.places() == dict.fromkeys("abc", "west")


def test_members_that_are_made_and_not_bound_are_deleted_where_the_others_are_not_made_in_time() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", **AWAY)
    fleet.report()
    fleet.tick()
    fleet.carry_out(m.Claim)
    late = [one for one in fleet.mail if isinstance(one[1], m.CreateDelegate) and one[1].pod.name == "c"]
    fleet.mail = [one for one in fleet.mail if one not in late]
    fleet.carry_out(m.CreateDelegate)
    for _ in range(int(GROUP_S) + 1):
        fleet.report()
        fleet.tick()
    fleet.mail = [one for one in fleet.mail if not isinstance(one[1], m.CreateDelegate)]
    fleet.run(30)
    assert fleet.places() == dict.fromkeys("abc", "west")
    kinds = [type(one).__name__ for _, one in fleet.log]
    assert kinds.count("Unclaim") == 3


def test_a_group_that_does_not_fit_waits_as_one_and_is_woken_once_by_what_helps_it() -> None:
    fleet = Fleet()
    fleet.fill("home")
    fleet.fill("west", 3000)
    fleet.submit("a", "b", "c", cpu=2000)
    fleet.report()
    fleet.tick()
    states = [fleet.core.queue.state_of(("home", f"home-{at}")) for at in (1, 2, 3)]
    assert states == ["unschedulable"] * 3
    assert len({fleet.told(name) for name in "abc"}) == 1
    assert fleet.told("a").startswith("pod group train: 0 of 3 members fit in ")
    assert sum(count for _, count in fleet.core.queue.parked()) == 1
    fleet.free("west")
    fleet.run(12)
    assert fleet.places() == dict.fromkeys("abc", "west")


def test_a_group_that_is_too_large_for_its_rack_is_woken_by_a_node_that_comes_into_it() -> None:
    fleet = Fleet()
    fleet.relabel("west-1", RACK, "r1")
    fleet.submit("a", "b", "c", cpu=2000, within="rack")
    fleet.run(3)
    assert fleet.told("a").startswith("pod group train: 2 of 3 members fit in rack r1 of cluster west")
    fleet.relabel("west-2", RACK, "r1")
    fleet.run(12)
    assert fleet.places() == dict.fromkeys("abc", "west")


def test_a_member_that_goes_before_the_group_is_placed_leaves_it_short() -> None:
    fleet = Fleet()
    fleet.fill("home")
    fleet.fill("west")
    a, *_ = fleet.submit("a", "b", "c", cpu=2000)
    fleet.report()
    fleet.tick()
    fleet.home.delete(a.uid)
    fleet.report()
    assert fleet.core.queue.state_of(("home", "home-2")) == "gated"
    fleet.free("home")
    fleet.run(12)
    assert fleet.places() == {}
    fleet.submit("d", cpu=2000)
    fleet.run(12)
    assert set(fleet.places()) == {"b", "c", "d"}


def test_later_members_go_where_the_group_is_one_by_one() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c")
    fleet.run(3)
    assert set(fleet.places().values()) == {"home"}
    fleet.fill("home", 1500)
    fleet.submit("d", cpu=2500)
    fleet.run(3)
    assert "d" not in fleet.places()
    fleet.free("home")
    fleet.run(12)
    assert fleet.places() == dict.fromkeys("abcd", "home")


@pytest.mark.parametrize("step", ["claim", "create", "bind"])
def test_a_dispatcher_that_dies_on_the_way_leaves_a_group_that_ends_whole(step: str) -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", **AWAY)
    fleet.report()
    fleet.tick()
    fleet.carry_out(m.Claim)
    if step != "claim":
        fleet.carry_out(m.CreateDelegate)
    if step == "bind":
        one = fleet.mail[0]
        fleet.west.execute(one[1])
        assert len(fleet.places()) == 1
    fleet.core = make_core(("home", "west"), boot_epoch=1_000_000, timing=CoreTiming(absence_grace_s=5.0))
    fleet.mail = []
    fleet.run(60)
    assert fleet.places() == dict.fromkeys("abc", "west")


def test_a_bind_that_fails_after_others_were_bound_is_made_up_for_in_the_same_domain() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", within="cluster", **AWAY)
    fleet.report()
    fleet.tick()
    fleet.carry_out(m.Claim)
    fleet.carry_out(m.CreateDelegate)
    once = ["c"]
    fleet.west.webhook = lambda intent: once.pop() if intent.pod.name in once else ""  # type: ignore[method-assign]
    fleet.carry_out(m.CreateDelegate)
    assert set(fleet.places()) == {"a", "b"}
    fleet.run(10)
    assert fleet.places() == dict.fromkeys("abc", "west")


def test_a_group_over_the_fleet_binds_members_at_home_only_when_those_abroad_are_made() -> None:
    fleet = Fleet()
    fleet.fill("home", 2000)
    fleet.fill("west", 2000)
    fleet.submit("a", "b", "c", "d", cpu=2000, least=4, within=FLEET)
    fleet.report()
    fleet.tick()
    assert {kind for kind, _ in fleet.orders()} == {"Claim"}
    fleet.carry_out(m.Claim)
    assert {kind for kind, _ in fleet.orders()} == {"CreateDelegate"}
    fleet.carry_out(m.CreateDelegate)
    assert sorted(kind for kind, _ in fleet.orders()) == ["Bind", "Bind", "CreateDelegate", "CreateDelegate"]
    fleet.run(3)
    assert sorted(fleet.places().values()) == ["home", "home", "west", "west"]


def test_who_comes_while_the_others_are_on_their_way_waits_for_what_becomes_of_them() -> None:
    fleet = Fleet()
    fleet.submit("a", "b", "c", **AWAY)
    fleet.report()
    fleet.tick()
    fleet.submit("d", **AWAY)
    fleet.report()
    fleet.tick()
    assert fleet.told("d") == "incomplete pod group train: others of it are about to start"
    assert [name for _, name in fleet.orders()] == ["a", "b", "c"]
    fleet.run(8)
    assert fleet.places() == dict.fromkeys("abcd", "west")


def test_explain_says_of_a_member_that_waits_for_something_else_that_it_does_not_count() -> None:
    fleet = Fleet()
    fleet.submit("a", least=1, gated=True)
    fleet.report()
    row = explain(fleet.core, "default", "a")
    assert row is not None
    assert row["group"]["state"] == "apart"


def test_explain_says_how_many_of_how_many_have_a_place_where_and_in_which_step_they_are() -> None:
    fleet = Fleet()

    def seen() -> tuple[Any, ...]:
        row = explain(fleet.core, "default", "a")
        assert row is not None
        told = row["group"]
        return tuple(told[key] for key in ("state", "step", "left", "waiting", "placed", "domains"))

    fleet.submit("a", "b", **AWAY)
    fleet.report()
    assert seen() == ("incomplete", None, None, 2, 0, [])
    fleet.submit("c", **AWAY)
    fleet.report()
    fleet.tick()
    assert seen() == ("starting", "claim", 3, 0, 3, ["west"])
    claims = [one for one in fleet.mail if isinstance(one[1], m.Claim)]
    fleet.mail = claims[1:]
    fleet._feed(events.Answered("home", (fleet.home.execute(claims[0][1]),)))
    row = explain(fleet.core, "default", "a")
    assert row is not None
    assert row["waiting"] == "pod group train: 2 of 3 pods are not through step claim yet; its place is held"
    fleet.run(5)
    assert seen() == ("started", None, None, 0, 3, ["west"])
    assert fleet.core.queue.groups.counts() == {"incomplete": 0, "waiting": 0, "placed": 1}


def test_the_pod_group_says_on_change_only_that_it_found_no_place_and_once_that_it_was_scheduled() -> None:
    fleet = Fleet()
    fleet.fill("home")
    fleet.fill("west")
    fleet.submit("a", "b", "c", cpu=2000)
    fleet.run(60)
    told = [one for _, one in fleet.log if isinstance(one, m.ReportGroup)]
    assert [(one.group, one.group_uid, one.scheduled, one.reason) for one in told] == [
        ("train", "u1", False, m.UNSCHEDULABLE)
    ]
    assert told[0].message == fleet.told("a")
    fleet.free("west")
    fleet.run(20)
    fleet.submit("d", cpu=8000)
    fleet.run(20)
    told = [one for _, one in fleet.log if isinstance(one, m.ReportGroup)]
    assert [one.scheduled for one in told] == [False, True]


def test_room_that_is_freed_for_a_group_is_kept_for_it_until_it_cannot_start_any_more() -> None:
    fleet = Fleet()
    mine: dict[str, Any] = {"annotations": {MAY_GO_TO: "home"}}
    low = [fleet.home.submit(f"low{at}", 2000, **mine) for at in range(4)]
    fleet.run(3)
    assert len(fleet.places()) == len(low)
    fleet.submit("a", "b", "c", cpu=2000, priority=10, **mine)
    fleet.report()
    fleet.tick()
    evicted = [one for _, one in fleet.mail if isinstance(one, m.Evict)]
    assert len(evicted) == 3
    nominations = fleet.core.profiles.nominations
    assert len(nominations) == 3
    fleet.carry_out(m.Evict)
    fleet.home.submit("new", 2000, **mine)  # a newcomer does not get what was freed
    fleet.run(8)
    assert {"a", "b", "c"} <= set(fleet.places())
    assert "new" not in fleet.places()
    assert len(nominations) == 0
    # others of the group's kind, of which one goes while it waits for its victims
    group = Group(POD_GROUPS, "more", "u2", 2)
    pods = [fleet.home.submit(name, 2000, 20, group=group, **mine) for name in ("x", "y")]
    fleet.report()
    fleet.tick()
    assert len(nominations) == 2
    fleet.home.delete(pods[0].uid)
    fleet.report()
    fleet.tick()
    assert len(nominations) == 0


def test_those_that_came_first_are_told_of_the_others_too() -> None:
    fleet = Fleet()
    fleet.submit("a", least=4)
    fleet.run(2)
    fleet.submit("b", "c", least=4)
    fleet.run(12)
    assert {fleet.told(name) for name in "abc"} == {"incomplete pod group train: 3 of min 4 pods are here"}


def test_a_target_that_is_lost_on_the_way_costs_the_group_its_places_there_and_none_starts_elsewhere_alone() -> None:
    fleet = Fleet()
    fleet.fill("home")
    fleet.submit("a", "b", "c")
    fleet.report()
    fleet.tick()
    fleet.carry_out(m.Claim)
    lost = [one for one in fleet.mail if isinstance(one[1], m.CreateDelegate)]
    assert len(lost) == 3
    fleet.mail = []
    fleet._feed(events.Unanswered("west", tuple(one.id for _, one in lost), "away"))
    fleet.free("home")
    changes = fleet.west.changes
    fleet.west.changes = lambda since, incarnation: changes(0, incarnation)  # type: ignore[method-assign]
    halves = set[int]()
    for second in range(150):
        fleet.home.watch()
        view = fleet.core.clusters["home"]
        fleet._feed(events.ClusterChanged(fleet.home.changes(view.revision, view.incarnation)))
        fleet._feed(events.ClusterSilent("west", "away"))
        fleet.tick()
        fleet.mail = [one for one in fleet.mail if one[0] == "home"]
        fleet.carry_out()
        halves.add(len(fleet.places()))
        if second == 70:
            assert fleet.core.counters[GIVEN_BACK, "create"] == 1
    assert halves == {0}, "they may run in the cluster that does not answer"
    assert "cluster west was lost before it said whether it runs the pod" in fleet.told("a")
    fleet.west.changes = changes  # type: ignore[method-assign]
    for _ in range(60):
        fleet.run(1)
        halves.add(len(fleet.places()))
    assert halves == {0, 3}


@pytest.mark.parametrize("step", ["claim", "create"])
def test_a_standby_that_takes_over_on_the_way_ends_the_group_whole(step: str) -> None:
    fleet = Fleet()
    standby = make_core(("home", "west"), boot_epoch=1, timing=CoreTiming(absence_grace_s=5.0))
    standby.follow()
    leader = fleet.core

    def both_hear() -> None:
        for cluster in (fleet.home, fleet.west):
            cluster.watch()
            for core in (leader, standby):
                fleet.core = core
                view = core.clusters[cluster.name]
                fleet._feed(events.ClusterChanged(cluster.changes(view.revision, view.incarnation)))
        fleet.core = leader

    fleet.submit("a", "b", "c", **AWAY)
    both_hear()
    fleet.tick()
    fleet.carry_out(m.Claim)
    both_hear()
    if step == "create":
        fleet.carry_out(m.CreateDelegate)
        both_hear()
    fleet.core, fleet.mail = standby, []
    standby.take_over(1_000_000)
    halves = set[int]()
    for _ in range(60):
        fleet.run(1)
        halves.add(len(fleet.places()))
    assert halves == {0, 3}


@pytest.mark.parametrize("whole", [True, False])
def test_who_evicts_one_member_of_a_group_that_goes_as_a_whole_evicts_all(whole: bool) -> None:
    fleet = Fleet()
    gang = Group(POD_GROUPS, "train", "u1", 4, "cluster", whole)
    for name in ("a", "b", "c", "d"):
        fleet.home.submit(name, 2000, group=gang, annotations={STAY: "true"})
    fleet.run(3)
    fleet.home.submit("important", 2000, priority=1000, annotations={STAY: "true"})
    fleet.report()
    fleet.tick()
    victims = [one.pod.name for _, one in fleet.mail if isinstance(one, m.Evict)]
    assert len(victims) == (4 if whole else 1), victims
    told = [one for _, one in fleet.mail if isinstance(one, m.ReportGroup)]
    why = "evicted for pod default/important of cluster home"
    assert [(one.group, one.scheduled, one.reason, one.message) for one in told] == (
        [("train", False, m.PREEMPTED, why)] if whole else []
    )
