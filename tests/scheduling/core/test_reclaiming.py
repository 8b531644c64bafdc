"""Quota that was lent comes back: who is ordered away for whom, how often, and what becomes of what they leave."""

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.core import reclaiming
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.reclaim import Candidate, Claimant, victims
from dispatcher.scheduling.tenants.tree import TenantTree
from shared.messages import DONE, OF_CLUSTER, REFUSED, AnyIntent, Bind, Evict
from shared.model.labels import LabelSelector
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import Group
from shared.model.tenant import ANY_PRIORITY, LOWER_PRIORITY, NEVER, Share, Tenant
from tests.builders import PodBuilder, node, pod
from tests.laws.examples import examples
from tests.scheduling.one_cluster import OneCluster


def team(name: str, cpu: int, **said: object) -> Tenant:
    return msgspec.structs.replace(Tenant(name, (name,), {"cpu": Share(absolute=1000 * cpu)}, parent="all"), **said)


TEAMS = (team("red", 4), team("blue", 2))


class World(OneCluster):
    """Nodes with `room` CPUs each, and teams that lend. Whoever is evicted goes, after so many seconds; `again`: and
    comes back at once.
    """

    def __init__(
        self,
        *teams: Tenant,
        policy: str = ANY_PRIORITY,
        room: tuple[int, ...] = (16, 16),
        again: bool = False,
        goes_after: int = 0,
    ) -> None:
        self.ledger = QuotaLedger((Tenant("all", (), {}, reclaim=policy), *(teams or TEAMS)))
        super().__init__(self.ledger)
        self.again = again
        self.goes_after = goes_after
        self.leaving: dict[str, float] = {}
        self.verdict = DONE
        self.evicted: list[Evict] = []
        self.refused: set[str] = set()
        self.replaced = 0
        nodes = [node(f"n{at}").cpu(cpu).memory("90Gi").pods(90).build() for at, cpu in enumerate(room)]
        self.report(full=True, nodes=tuple(nodes))

    def come(self, *names: str, cpu: int = 1, priority: int = 0) -> None:
        self.submit(*(self.built(name, cpu).priority(priority).build() for name in names))
        self.run(1)

    def come_together(self, members: int, cpu: int = 1) -> None:
        """Red pods that start together."""
        group = Group("annotation", "train", "", members, "cluster")
        self.submit(*(self.built(f"red-{at}", cpu).set(group=group).build() for at in range(members)))
        self.run(1)

    def built(self, name: str, cpu: int = 1) -> PodBuilder:
        tenant = name.partition("-")[0]
        return pod(name).namespace(tenant).labels(app=tenant).cpu(cpu)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.tick(1.0)
            for name in [name for name, at in self.leaving.items() if at <= self.now]:
                del self.leaving[name]
                self.leave(name)

    def obey(self, intent: AnyIntent) -> None:
        if isinstance(intent, Evict):
            self.evicted.append(intent)
            self.answer(intent, self.verdict)
            if self.verdict == DONE and self.goes_after:
                self.terminate(intent.pod.name)
            elif self.verdict == DONE:
                self.leave(intent.pod.name)
            return
        if isinstance(intent, Bind) and intent.pod.name in self.refused:
            self.answer(intent, REFUSED, scope=OF_CLUSTER, message="denied by webhook")
            return
        super().obey(intent)

    def terminate(self, name: str) -> None:
        going = self.pods[name] = msgspec.structs.replace(self.pods[name], terminating=True)
        self.leaving[name] = self.now + self.goes_after
        self.report(pods=(going,))
        if self.again:  # as a ReplicaSet, which does not wait
            self.replaced += 1
            self.submit(self.built(f"{name.split('-', maxsplit=1)[0]}-again-{self.replaced}").build())

    def leave(self, name: str) -> None:
        gone = self.pods.pop(name)
        self.report(pods_gone=(gone.uid,))
        if self.again and not self.goes_after:
            self.replaced += 1
            self.submit(self.built(f"{name.split('-', maxsplit=1)[0]}-again-{self.replaced}").build())

    def check(self, cpus: int) -> None:
        """No limit is broken, but for what is kept for pods that wait."""
        assert sum(one.requests["cpu"] for one in self.pods.values() if one.node) <= 1000 * cpus

    def names(self) -> list[str]:
        return [one.pod.name for one in self.evicted]

    def placed(self, tenant: str) -> int:
        return sum(1 for name, one in self.pods.items() if one.node and name.startswith(tenant))


def lent(**said: object) -> World:
    """Blue uses all six CPUs."""
    world = World(**said)  # type: ignore[arg-type]
    world.come(*(f"blue-{at}" for at in range(6)))
    assert world.placed("blue") == 6
    return world


def test_a_lender_gets_back_its_own_and_no_more_than_that_goes() -> None:
    world = lent()
    world.come("red-1", "red-2", cpu=2)
    world.run(30)
    assert (world.placed("red"), world.placed("blue")) == (2, 2)
    assert len(world.evicted) == 4
    assert world.evicted[0].reclaimed == "of tenant blue, for pod red/red-1 of cluster a and tenant red"


def test_who_replaces_the_victims_gets_nothing_back_of_it_and_it_ends() -> None:
    world = lent(again=True)
    world.come("red-1", "red-2", "red-3", "red-4")
    world.run(300)
    assert (world.placed("red"), world.placed("blue")) == (4, 2)
    assert Counter(world.names()).most_common(1)[0][1] == 1, "each is asked once"
    assert len(world.evicted) == 4


@pytest.mark.parametrize(
    ("policy", "priority", "gone"),
    [(NEVER, 9, 0), (LOWER_PRIORITY, 0, 0), (LOWER_PRIORITY, 1, 1), (ANY_PRIORITY, 0, 1)],
)
def test_the_policy_of_the_lender_counts(policy: str, priority: int, gone: int) -> None:
    world = lent(policy=policy)
    world.come("red-1", priority=priority)
    world.run(20)
    assert len(world.evicted) == gone
    assert world.placed("red") == gone


def test_nothing_need_be_free_on_any_node() -> None:
    world = lent(room=(6,))
    world.come("red-1", cpu=3)
    world.run(20)
    assert (world.placed("red"), world.placed("blue")) == (1, 3)


def test_nobody_goes_for_a_pod_that_would_find_no_place_all_the_same() -> None:
    world = lent(room=(3, 3))
    world.come("red-1", cpu=4)
    world.run(60)
    assert world.evicted == []


def test_nobody_goes_for_a_pod_that_its_cluster_may_refuse_once_more() -> None:
    world = World()
    world.refused = {"red-1"}
    world.come("red-1")
    world.refused = set()
    world.come(*(f"blue-{at}" for at in range(6)))
    world.run(900)
    assert not world.evicted, "not before the refusal is forgotten"
    world.run(600)
    assert (world.placed("red"), len(world.evicted)) == (1, 1)


def test_pods_that_ask_in_vain_keep_no_other_tenant_from_being_looked_at() -> None:
    """They came before, are more important, and no two of them are alike."""
    world = World(team("red", 4), team("vain", 4), team("blue", 2), room=(5, 5))
    world.come(*(f"blue-{at}" for at in range(10)))
    assert world.placed("blue") == 10
    world.submit(*(world.built(f"vain-{at}").memory(f"{91 + at}Gi").priority(9).build() for at in range(60)))
    world.run(1)
    world.come("red-1")
    world.run(3)
    assert world.placed("red") == 1


def test_where_very_many_kinds_of_pods_wait_there_is_a_look_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.core.reclaiming._LINES_PER_S", 10)
    world = World(team("red", 4), team("vain", 4), team("blue", 2), room=(5, 5))
    world.come(*(f"blue-{at}" for at in range(10)))
    world.submit(*(world.built(f"vain-{at}").memory(f"{91 + at}Gi").build() for at in range(100)))
    world.run(2)
    world.come("red-1")
    world.run(5)
    assert world.placed("red") == 0
    world.run(10)
    assert world.placed("red") == 1


def test_a_tenant_whose_pods_ask_in_vain_is_looked_at_the_more_rarely_the_more_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time the pod is of another kind, of which none has asked yet."""
    monkeypatch.setattr(reclaiming, "_WORK_PER_S", 1)
    monkeypatch.setattr(reclaiming, "_MOST_WORK", 50)
    world = World(team("vain", 10), team("red", 4), team("blue", 2), room=(8, 8))
    world.come(*(f"blue-{at}" for at in range(16)))
    looked = list[str]()

    def spied(tree: TenantTree, claimant: Claimant, candidates: Iterable[Candidate]) -> list[Candidate] | None:
        looked.append(claimant.tenant)
        return victims(tree, claimant, candidates)

    monkeypatch.setattr(reclaiming, "victims", spied)
    for at in range(1, 31):
        world.submit(world.built("vain-1").memory(f"{91 + at}Gi").build())
        world.run(2)
    assert 0 < looked.count("vain") <= 6, "16 at first, and one a second"
    world.come("red-1")
    world.run(5)
    assert world.placed("red") == 1


def test_a_pod_that_runs_for_less_than_it_may_stays() -> None:
    world = World(team("red", 4), team("blue", 2, min_runtime_s=50.0))
    world.come(*(f"blue-{at}" for at in range(6)))
    for name, one in list(world.pods.items()):
        world.pods[name] = msgspec.structs.replace(one, started=world.now)
    world.report(pods=tuple(world.pods.values()))
    world.come("red-1")
    world.run(30)
    assert world.evicted == []
    world.run(60)
    assert world.placed("red") == 1


@pytest.mark.parametrize(("ran_s", "placed"), [(10, 0), (60, 1)])
def test_a_group_that_goes_as_a_whole_has_run_for_as_long_as_its_first_member(ran_s: int, placed: int) -> None:
    """Else one that is made anew again and again would keep all from being asked to go."""
    world = World(team("red", 4), team("blue", 2, min_runtime_s=50.0))
    gang = Group("PodGroup", "gang", whole=True)

    def start(*names: str) -> None:
        world.submit(*(world.built(name).set(group=gang, started=world.now).build() for name in names))
        world.run(1)

    start(*(f"blue-{at}" for at in range(6)))
    world.run(ran_s)
    world.leave("blue-0")
    start("blue-new")
    world.come("red-1", cpu=3)
    world.run(5)
    assert (world.placed("red"), world.placed("blue")) == (placed, 6 - 6 * placed)


def test_a_budget_keeps_its_pods_and_others_go() -> None:
    world = World(team("red", 4), team("green", 1), team("blue", 1))
    world.come(*(f"blue-{at}" for at in range(4)), *(f"green-{at}" for at in range(2)))
    budget = PodDisruptionBudget("blue", "b", LabelSelector({"app": "blue"}), 0, ())
    world.report(objects=(budget,))
    world.come("red-1")
    world.run(20)
    assert [name.partition("-")[0] for name in world.names()] == ["green"]


@pytest.mark.parametrize(("allowed", "gone"), [(1, 0), (2, 0), (3, 3)])
@pytest.mark.parametrize("room", [(16,), (6,)], ids=["for quota", "for room as well"])
def test_nobody_goes_if_a_budget_keeps_some_of_those_that_have_to(
    room: tuple[int, ...], allowed: int, gone: int
) -> None:
    world = lent(room=room)
    world.report(objects=(PodDisruptionBudget("blue", "b", LabelSelector({"app": "blue"}), allowed, ()),))
    world.come("red-1", cpu=3)
    world.run(8)
    assert len(world.evicted) == gone


def test_two_pods_do_not_take_what_a_budget_lets_one_have() -> None:
    world = lent(goes_after=30)
    world.report(objects=(PodDisruptionBudget("blue", "b", LabelSelector({"app": "blue"}), 1, ()),))
    world.come("red-1", "red-2")
    world.run(8)
    assert len(world.evicted) == 1


def test_whoever_is_not_let_go_is_not_asked_at_once_again_and_what_was_kept_is_free() -> None:
    world = lent()
    world.verdict = REFUSED
    world.come("red-1")
    world.run(8)
    assert len(world.evicted) == 1
    world.verdict = DONE
    world.run(40)
    assert len(set(world.names())) == 2
    assert world.placed("red") == 1


def test_a_pod_for_which_nobody_is_let_go_asks_ever_less_often() -> None:
    world = lent()
    world.verdict = REFUSED
    world.come("red-1")
    world.run(1300)
    assert 5 <= len(world.evicted) <= 8


def test_quota_that_is_kept_is_free_again_once_its_pod_is_gone() -> None:
    world = lent()
    world.verdict = "unknown"
    world.come("red-1")
    world.run(3)
    gone = world.pods.pop("red-1")
    world.report(pods_gone=(gone.uid,))
    world.run(3)
    assert not world.ledger.holds(("a", gone.uid))
    world.leave("blue-0")
    world.come("blue-new")
    world.run(15)
    assert world.pods["blue-new"].node


def test_who_has_others_evicted_for_pods_that_are_gone_then_asks_ever_more_rarely() -> None:
    world = lent(again=True)
    for at in range(30):
        had = len(world.evicted)
        world.come(f"red-{at}", cpu=4)
        world.run(1)
        if len(world.evicted) > had:
            gone = world.pods.pop(f"red-{at}")
            world.report(pods_gone=(gone.uid,))
    assert 4 <= len(world.evicted) <= 4 * 3, "pauses of 10, 20, 40 s"
    world.run(50)
    assert world.placed("red") > 0, "who stays gets what was lent"


def with_a_whole_group() -> World:
    """Three pods of blue that are evicted as a whole, and three more important ones."""
    world = World()
    gang = Group("PodGroup", "gang", whole=True)
    world.submit(*(world.built(f"blue-{at}").set(group=gang).build() for at in range(3)))
    world.run(2)
    world.come(*(f"blue-more-{at}" for at in range(3)), priority=5)
    return world


def test_a_group_that_is_evicted_whole_goes_whole() -> None:
    world = with_a_whole_group()
    world.come("red-1")
    world.run(20)
    assert sorted(world.names()) == ["blue-0", "blue-1", "blue-2"]


def test_a_pod_for_which_enough_comes_back_already_does_not_keep_its_like_from_asking() -> None:
    world = World(goes_after=60)
    world.come(*(f"blue-{at}" for at in range(3)), cpu=2)
    world.come("red-1", "red-2", "red-3")
    world.run(3)
    assert len(world.evicted) == 2, "the second has what the first one's victim leaves beside"
    world.run(70)
    assert (world.placed("red"), world.placed("blue")) == (3, 1)


def test_who_asked_in_vain_asks_at_once_when_its_tenant_uses_less_than_its_own() -> None:
    world = World()
    world.come(*(f"red-{at}" for at in range(4)), *(f"blue-{at}" for at in range(6)))
    world.come("red-large", cpu=2)
    world.run(200)
    assert world.evicted == []
    for name in ("red-0", "red-1"):
        world.leave(name)
        world.run(1)
    assert world.placed("blue") == 4
    world.run(3)
    assert (world.placed("red"), world.placed("blue")) == (3, 2)


@pytest.mark.parametrize(("covered", "allowed"), [(1, 0), (3, 2)])
def test_a_group_that_is_evicted_whole_stays_whole_if_one_of_it_has_to_stay(covered: int, allowed: int) -> None:
    world = World()
    gang = Group("PodGroup", "gang", whole=True)
    apps = ("kept" if at < covered else "other" for at in range(3))
    world.submit(*(world.built(f"blue-{at}").labels(app=app).set(group=gang).build() for at, app in enumerate(apps)))
    world.run(2)
    world.come(*(f"blue-more-{at}" for at in range(3)), priority=5)
    world.report(objects=(PodDisruptionBudget("blue", "b", LabelSelector({"app": "kept"}), allowed, ()),))
    world.come("red-1")
    world.run(20)
    assert len(world.evicted) == 1
    assert world.names()[0].startswith("blue-more-")


@pytest.mark.parametrize("goes_after", [0, 5])
def test_a_group_of_a_lender_gets_together_what_it_needs_to_start_and_no_more(goes_after: int) -> None:
    world = lent(again=True, goes_after=goes_after)
    world.come_together(3)
    world.run(120)
    assert (world.placed("red"), world.placed("blue")) == (3, 3)
    assert len(world.evicted) == 3
    assert not world.ledger.holds(("a", "uid-red-0"))


def test_what_is_missing_of_a_whole_group_goes_though_one_of_it_would_fit() -> None:
    world = lent()
    world.leave("blue-0")
    world.come_together(3)
    world.run(20)
    assert (world.placed("red"), world.placed("blue")) == (3, 3)
    assert len(world.evicted) == 2


@pytest.mark.parametrize(
    ("members", "cpu", "room"), [(5, 1, (16, 16)), (1, 4, (3, 3)), (2, 2, (1,) * 6)], ids=["quota", "one", "nodes"]
)
def test_nobody_goes_for_a_group_that_would_not_start_all_the_same(
    members: int, cpu: int, room: tuple[int, ...]
) -> None:
    world = lent(room=room)
    world.come_together(members, cpu)
    world.run(600)
    assert world.placed("red") == 0
    assert world.evicted == []


def test_nothing_is_kept_for_a_group_that_became_too_few_meanwhile() -> None:
    world = lent(goes_after=30)
    world.come_together(3)
    world.run(2)
    assert sum(world.ledger.holds(("a", f"uid-red-{at}")) for at in range(3)) == 3
    world.leave("red-1")
    world.run(3)
    assert not any(world.ledger.holds(("a", f"uid-red-{at}")) for at in range(3))
    world.run(60)
    assert (world.placed("red"), world.placed("blue"), len(world.evicted)) == (0, 3, 3)


def test_a_group_that_is_evicted_whole_goes_whole_for_room_on_one_node_too() -> None:
    world = World(team("red", 4), team("blue", 2), room=(3, 3))
    gang = Group("PodGroup", "gang", min_count=4, whole=True)
    world.submit(*(world.built(f"blue-{at}").set(group=gang).build() for at in range(4)))
    world.run(2)
    assert len({world.pods[f"blue-{at}"].node for at in range(4)}) == 2
    world.come("red-1", cpu=2)
    world.run(20)
    assert sorted(world.names()) == ["blue-0", "blue-1", "blue-2", "blue-3"]
    assert world.placed("red") == 1


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_a_group_of_which_one_may_not_go_stays_whole(allowed: int) -> None:
    world = World()
    gang = Group("PodGroup", "gang", whole=True)
    world.submit(*(world.built(f"blue-{at}").set(group=gang).build() for at in range(3)))
    world.run(2)
    world.come(*(f"blue-more-{at}" for at in range(3)), priority=5)
    labels = LabelSelector({"app": "blue"})
    world.report(objects=(PodDisruptionBudget("blue", "b", labels, allowed, ()),))
    world.come("red-1")
    world.run(8)
    assert sorted(world.names()) == {0: [], 1: ["blue-more-0"], 3: ["blue-0", "blue-1", "blue-2"]}[allowed]


def test_nobody_goes_for_what_others_leave_already() -> None:
    world = lent(goes_after=30)
    world.terminate("blue-0")
    world.come("red-1")
    world.come("red-2", cpu=2)
    world.run(60)
    assert (world.placed("red"), world.placed("blue"), len(world.evicted)) == (2, 3, 2)


def test_others_go_for_what_would_leave_too_late() -> None:
    """A borrower says himself how long his pod may take to go."""
    world = lent()
    going = world.pods["blue-0"] = msgspec.structs.replace(world.pods["blue-0"], terminating=True, ends_in_s=31_536_000)
    world.report(pods=(going,))
    world.come("red-1")
    world.run(5)
    assert (world.placed("red"), len(world.evicted)) == (1, 1)


def test_two_pods_do_not_reclaim_the_same() -> None:
    world = lent()
    world.verdict = "unknown"
    world.come("red-1")
    world.come("red-2", cpu=2)
    world.run(5)
    assert len(set(world.names())) == 3


@pytest.mark.parametrize("room", [(16,), (3, 3)], ids=["for quota", "for room as well"])
def test_who_takes_long_to_leave_is_waited_for_whatever_happens_meanwhile(room: tuple[int, ...]) -> None:
    red = team("red", 4, lending_limit={"cpu": Share(absolute=0)})
    world = World(
        *((red, team("green", 4), team("blue", 2)) if len(room) > 1 else TEAMS), room=room, again=True, goes_after=40
    )
    world.come(*(f"blue-{at}" for at in range(6)))
    world.come("red-1", cpu=2)
    for _ in range(30):
        world.run(1)
        world.report(nodes=(node("n9").cpu(0).memory("1Gi").pods(1).label({"now": f"{world.now:.0f}"}).build(),))
    world.run(200)
    assert world.placed("red") == 1
    assert len(world.evicted) == 2


def test_full_nodes_are_emptied_of_borrowers_for_a_pod_of_a_lender_with_quota_left() -> None:
    """Nobody lends more than it has: red's quota is its own, and blue's pods fill the nodes."""
    world = World(
        team("red", 4, lending_limit={"cpu": Share(absolute=0)}), team("green", 4), team("blue", 2), room=(3, 3)
    )
    world.come(*(f"blue-{at}" for at in range(6)))
    assert world.placed("blue") == 6
    world.come("red-1", cpu=2)
    world.run(20)
    assert (world.placed("red"), len(world.evicted)) == (1, 2)
    assert len({one.node for one in world.evicted}) == 1


def test_who_uses_its_own_keeps_its_nodes() -> None:
    world = World(team("red", 4), team("blue", 6), room=(3, 3))
    world.come(*(f"blue-{at}" for at in range(6)))
    world.come("red-1", cpu=2)
    world.run(30)
    assert world.evicted == []


def test_a_tenant_that_was_given_gpus_alone_gets_cpus_for_them_too() -> None:
    gpus = {"nvidia.com/gpu": Share(absolute=2)}
    world = World(Tenant("red", ("red",), gpus, parent="all"), Tenant("blue", ("blue",), {}, parent="all"), room=())
    world.report(nodes=(node("n0").cpu(8).memory("90Gi").pods(90).resource("nvidia.com/gpu", 2).build(),))
    world.submit(*(world.built(f"blue-{at}", 4).request("nvidia.com/gpu", 1).build() for at in range(2)))
    world.run(2)
    assert world.placed("blue") == 2
    world.submit(world.built("red-1", 4).request("nvidia.com/gpu", 1).build())
    world.run(20)
    assert (world.placed("red"), world.placed("blue")) == (1, 1)


def two_at_once(monkeypatch: pytest.MonkeyPatch, others_rest_s: float, *teams: Tenant) -> World:
    """Two pods may be evicted at once, and one more each second. Blue uses all twelve CPUs."""
    monkeypatch.setattr("dispatcher.scheduling.core.reclaiming._AT_ONCE_S", 2.0)
    monkeypatch.setattr("dispatcher.scheduling.core.reclaiming._OTHERS_REST_S", others_rest_s)
    world = World(*teams, room=(12,))
    world.come(*(f"blue-{at}" for at in range(12)))
    return world


def test_a_tenant_that_has_many_evicted_at_once_waits_for_them_longer_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight go at once."""
    world = two_at_once(monkeypatch, 3.0, team("red", 9), team("green", 1), team("blue", 2))
    world.come("red-big", cpu=8)
    world.come("red-late", "green-1")
    assert len(world.evicted) == 8
    world.run(4)
    assert (world.placed("green"), world.placed("red")) == (1, 1)
    world.run(5)
    assert world.placed("red") == 2


def test_no_second_pod_that_needs_many_at_once_goes_before_the_time_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six go at once, whosever the pods are."""
    world = two_at_once(monkeypatch, 1.0, team("red", 6), team("green", 6), team("blue", 0))
    world.come("red-big", "green-big", cpu=6)
    world.run(3)
    assert len(world.evicted) == 6
    world.run(5)
    assert len(world.evicted) == 12


def test_a_pod_whose_victims_have_left_waits_for_those_of_no_other() -> None:
    world = lent(goes_after=60)
    world.come("red-1", "red-2")
    world.run(2)
    assert len(world.evicted) == 2
    world.leave(world.names()[0])
    world.leaving.pop(world.names()[0])
    world.run(3)
    assert (world.placed("red"), world.placed("blue")) == (1, 5)


def test_what_comes_free_while_victims_leave_is_not_kept_twice() -> None:
    world = World(team("red", 4), team("green", 2), team("blue", 2))
    world.goes_after = 60
    world.come(*(f"blue-{at}" for at in range(8)))
    world.come("red-1", cpu=2)
    world.run(2)
    assert len(world.evicted) == 2
    world.leave("blue-7")
    world.come("green-1")
    world.run(3)
    assert (world.placed("red"), world.placed("green")) == (0, 1)
    world.check(8)


def test_all_pods_of_one_kind_get_back_what_is_theirs_within_the_grace_and_some_seconds() -> None:
    world = World(team("red", 40), team("blue", 0), room=(50,), again=True, goes_after=30)
    world.come(*(f"blue-{at}" for at in range(40)))
    world.come(*(f"red-{at}" for at in range(80)))
    world.run(36)
    assert (world.placed("red"), len(world.evicted)) == (40, 40)


def test_a_larger_group_that_asks_in_vain_does_not_keep_a_smaller_one_of_its_kind_from_asking() -> None:
    world = lent()
    for name, size in (("large", 5), ("small", 2)):
        group = Group("annotation", name, "", size, "cluster")
        world.submit(*(world.built(f"red-{name}-{at}").set(group=group).build() for at in range(size)))
        world.run(3)
    assert (world.placed("red"), len(world.evicted)) == (2, 2)


def test_evictions_are_paced() -> None:
    world = World(team("red", 100), team("blue", 0), room=(200,))
    world.come(*(f"blue-{at}" for at in range(80)))
    world.come(*(f"red-{at}" for at in range(40)), cpu=2)
    world.run(12)
    early = len(world.evicted)
    world.run(60)
    assert 40 <= early <= 70
    assert len(world.evicted) <= 50 + 75


PODS = st.lists(
    st.tuples(st.sampled_from(("red", "green", "blue")), st.integers(1, 3), st.sampled_from((0, 5))), max_size=14
)


@settings(max_examples=examples(40), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    nominal=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    weights=st.lists(st.sampled_from((0, 1000, 2000)), min_size=3, max_size=3),
    first=PODS,
    then=PODS,
    policy=st.sampled_from((LOWER_PRIORITY, ANY_PRIORITY)),
)
def test_reclaim_ends_and_keeps_limits_and_each_has_its_own(
    nominal: list[int],
    weights: list[int],
    first: list[tuple[str, int, int]],
    then: list[tuple[str, int, int]],
    policy: str,
) -> None:
    """With pods that are replaced at once. Nobody is above a limit at any time; no eviction comes at the end; and no
    pod waits then for what is its tenant's own while another tenant has borrowed (sharing incentive).
    """
    names = ("red", "green", "blue")
    teams = [team(name, cpu, weight=weight) for name, cpu, weight in zip(names, nominal, weights, strict=True)]
    world = World(*teams, policy=policy, room=(40,), again=True)
    for batch in (first, then):
        for at, (tenant, cpu, priority) in enumerate(batch):
            world.submit(world.built(f"{tenant}-{len(batch)}-{at}-{world.now:.0f}", cpu).priority(priority).build())
        for _ in range(10):
            world.run(8)
            world.check(sum(nominal))
    ended = len(world.evicted)
    world.run(100)
    assert len(world.evicted) == ended
    orders = Counter((one.pod.name, one.reclaimed) for one in world.evicted)
    assert set(orders.values()) <= {1}, "each is evicted once for one pod"
    for name, cpu in zip(names, nominal, strict=True) if policy == ANY_PRIORITY else ():
        waiting = [one for pod, one in world.pods.items() if pod.startswith(name) and not one.node]
        first_of = max((one.priority for one in waiting), default=0)
        least = min((one.requests["cpu"] for one in waiting if one.priority == first_of), default=10**9)
        lent = any(world.ledger.tree.nodes[one].borrowed("cpu") for one in names if one != name)
        used = world.ledger.usage(name).get("cpu", 0)
        assert not (lent and used + least <= 1000 * cpu), (name, waiting, used)
