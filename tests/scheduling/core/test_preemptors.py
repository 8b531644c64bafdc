"""Evictions in another cluster than the preemptor's own: asked for first, and so many a second."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.core import CoreTiming
from dispatcher.scheduling.events import (
    Answered,
    ClusterChanged,
    Effect,
    OperatorWarning,
    PeersAcknowledged,
    SendIntents,
    Tick,
)
from dispatcher.scheduling.views import explain
from shared.messages import (
    BOUND,
    DONE,
    OF_CLUSTER,
    REFUSED,
    STALE,
    UNKNOWN,
    WAITING,
    AnyIntent,
    Changes,
    ConfirmNoSource,
    Evict,
    Outcome,
    ReportUnschedulable,
)
from shared.model.crossing import Opening
from shared.model.names import PROXY_LABEL, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs, Pod, SourceRef
from shared.security.signatures import Preemptor
from tests.agents.executor.world import keys_of
from tests.laws.cores import make_core

SIZE = {"cpu": 4000, "pods": 20}
PROXY = Node(proxy_node_name("west"), labels={PROXY_LABEL: "west"}, ready=True, proxy_for="west")
MANIFEST = b"what crosses"
Answer = Callable[[ConfirmNoSource, "World"], Outcome | None]


def a_pod(name: str, **more: Any) -> Pod:
    fields = {"requests": {"cpu": 4000}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod(f"uid-{name}", "default", name, **fields)


def outcome(intent: AnyIntent, verdict: str, **more: Any) -> Outcome:
    return Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, **more)


def signed(intent: ConfirmNoSource, *, signer: str = "east", **other: Any) -> Outcome:
    """What the executor of east answers; `other` than what is so."""
    uid, epoch = other.get("uid", intent.pod.uid), other.get("epoch", intent.epoch)
    source = SourceRef("east", other.get("cluster_uid", "east-uid"), "default", intent.pod.name, uid, epoch)
    said = Preemptor(
        source,
        other.get("target", intent.preempts),
        other.get("priority", 1000),
        other.get("priority_class", ""),
        other.get("requests", {"cpu": 4000}),
    )
    return outcome(intent, DONE, record=keys_of(signer).sign_preemptor(said), manifest=MANIFEST)


def unanswered(intent: ConfirmNoSource, world: "World") -> None:
    """The call is still under way."""


class World:
    """East and south have no node; each of west is full with one of its pods. East is asked and answers as told."""

    def __init__(self, nodes: int = 1, answer: Answer = lambda intent, world: signed(intent), per_s: float = 0.5):
        self.core = make_core(("east", "south", "west"), timing=CoreTiming(evictions_abroad_per_s=per_s))
        self.answer, self.now, self.revision = answer, 1.0, dict.fromkeys(("east", "south", "west"), 0)
        self.asked, self.evicted = list[ConfirmNoSource](), dict[str, float]()
        self.orders, self.no = list[Evict](), dict[str, Any]()  # `no`: what west answers to orders to evict
        self.told, self.warned, self.evicted_for = list[str](), list[str](), list[str]()
        self.asked_for_nodes = list[str]()
        self.report("east", nodes=(PROXY,))
        self.report("south")
        lows = tuple(a_pod(f"low{at}", node=f"w{at}", phase="Running") for at in range(nodes))
        self.report("west", nodes=tuple(Node(f"w{at}", ready=True, allocatable=SIZE) for at in range(nodes)), pods=lows)

    def report(self, cluster: str, **what: Any) -> None:
        self.revision[cluster] += 1
        since, keys = self.revision[cluster] - 1, keys_of(cluster).endorsed_keys()
        changes = Changes(cluster, f"{cluster}-uid", "life", since, since + 1, full=not since, keys=keys, **what)
        self.take(self.core.handle(ClusterChanged(changes), self.now))

    def submit(self, count: int = 1, home: str = "east") -> None:
        self.report(home, pods=tuple(a_pod(f"high{at}", priority=1000) for at in range(count)))

    def run(self, seconds: float = 3.0) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            self.take(self.core.handle(Tick(), self.now))

    def take(self, effects: Sequence[Effect]) -> None:
        for one in effects:
            if isinstance(one, OperatorWarning):
                self.warned.append(one.text)
            elif isinstance(one, SendIntents):
                for intent in one.intents:
                    self.obey(one.cluster, intent)

    def obey(self, cluster: str, intent: AnyIntent) -> None:
        if isinstance(intent, ReportUnschedulable):
            self.told += [intent.message] if intent.reason == WAITING else []
            self.asked_for_nodes += [intent.pod.name] if intent.nodes_help and intent.reason != WAITING else []
        elif isinstance(intent, ConfirmNoSource):
            assert cluster == "east"
            self.asked.append(intent)
            answer = self.answer(intent, self)
            if answer is not None:
                self.take(self.core.handle(Answered(cluster, (answer,)), self.now))
        elif isinstance(intent, Evict):
            self.orders.append(intent)
            if self.no:
                self.take(self.core.handle(Answered(cluster, (outcome(intent, REFUSED, **self.no),)), self.now))
                return
            self.evicted[intent.pod.name] = self.now
            self.evicted_for.append(intent.preemptor)
        else:
            self.take(self.core.handle(Answered(cluster, (outcome(intent, BOUND),)), self.now))

    def confirm(self) -> None:
        """The answer to the question that is under way."""
        self.take(self.core.handle(Answered("east", (signed(self.asked[-1]),)), self.now))

    def promised(self) -> int:
        return len(self.core.profiles.nominations)


def test_a_pod_is_evicted_elsewhere_once_the_preemptors_own_cluster_has_confirmed_it() -> None:
    world = World(answer=unanswered)
    world.submit()
    world.run(5.0)
    assert (len(world.asked), world.evicted, world.promised()) == (1, {}, 1)
    world.confirm()
    assert (list(world.evicted), world.promised()) == (["low0"], 1)


def test_no_node_is_asked_for_at_home_while_a_pod_is_promised_one_elsewhere() -> None:
    world = World(answer=unanswered)
    world.submit()
    world.run(5.0)
    assert (world.promised(), world.asked_for_nodes) == (1, [])
    world.report("east", pods=(a_pod("meek"),))
    world.run(5.0)
    assert world.asked_for_nodes == ["meek"]


def test_the_order_to_evict_tells_what_of_the_preemptor_would_cross() -> None:
    world = World()
    world.submit()
    world.run()
    (order,) = world.orders
    assert order.source == SourceRef("east", "east-uid", "default", "high0", "uid-high0", 0)
    assert order.manifest == MANIFEST
    assert not order.services


def test_the_order_to_evict_says_where_services_would_follow() -> None:
    world = World()
    for cluster in ("east", "west"):
        world.core.pin(cluster, "", network="flat")
        world.core.handle(PeersAcknowledged(cluster, follows=("Service",)), world.now)
    world.submit()
    world.run()
    assert [order.services for order in world.orders] == [True]


def test_a_cluster_that_would_refuse_the_preemptor_is_passed_over_for_all_pods_of_its_template() -> None:
    world = World(nodes=3)
    quota = "exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5"
    world.no = {"message": f"it would not take the pod: {quota}", "scope": OF_CLUSTER}
    world.submit(3)
    world.run(20.0)
    assert (world.evicted, world.promised()) == ({}, 0)
    assert len(world.orders) <= 3, "those that were under way at once"
    assert world.warned == []
    row = explain(world.core, "default", "high0")
    assert row is not None
    assert quota in str(row)
    world.no = {}
    world.run(1000.0)
    assert len(world.evicted) == 3, "it is asked again after a while"


def test_pods_that_wait_for_their_turn_hold_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.core.preemptors._MOST_HELD", 2 * len(MANIFEST))
    world = World(nodes=6, per_s=0.02)
    world.submit(6)
    world.run(2.0)
    assert len(world.evicted) == 3
    assert world.promised() == 3 + 2, "one more has lost its room, and asks again"


def test_who_matters_least_gives_way_where_those_that_wait_hold_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.core.preemptors._MOST_HELD", 2 * len(MANIFEST))
    world = World(nodes=6, per_s=0.02, answer=lambda intent, world: signed(intent, priority=2000))
    world.submit(5)
    world.run(2.0)
    world.report("east", pods=(a_pod("vital", priority=2000),))
    world.run(0.5)
    assert len(world.evicted) == 3
    assert world.core.profiles.nominations.of(("east", "uid-vital")) is not None


def gold(needs_class: str = "gold") -> Needs:
    need = Need("max_priority", needs_class, "spec.priorityClassName", f'is PriorityClass "{needs_class}"')
    return Needs(of_policy=(need,))


@pytest.mark.parametrize(("signed_class", "evicted"), [("gold", ["low0"]), ("", []), ("bronze", [])])
def test_nobody_is_evicted_for_a_class_that_the_pod_does_not_have_at_home(
    signed_class: str, evicted: list[str]
) -> None:
    world = World(answer=lambda intent, world: signed(intent, priority_class=signed_class))
    opens = (Opening(("*",), ("*",), (), closed=(), max_priority=10**6),)
    world.report("west", opens=opens, priority_classes=(PriorityClass("gold", 1000),))
    world.report("east", pods=(a_pod("high0", priority=1000, needs=gold()),))
    world.run(5.0)
    assert (len(world.asked), list(world.evicted)) == (1, evicted)


def test_a_pod_that_requests_more_than_its_observer_tells_is_confirmed() -> None:
    world = World(answer=lambda intent, world: signed(intent, requests={"cpu": 4001, "memory": 2**30}))
    world.submit()
    world.run(5.0)
    assert list(world.evicted) == ["low0"]


def test_who_is_not_confirmed_for_what_it_requests_is_told_how_much_that_is() -> None:
    world = World(answer=lambda intent, world: signed(intent, requests={"cpu": 100}))
    world.submit()
    world.run(5.0)
    assert "requests cpu 100m, not 4" in world.told[0]


def test_a_pod_that_is_not_confirmed_is_asked_about_once_a_minute_however_many_clusters_it_might_preempt_in() -> None:
    world = World(answer=lambda intent, world: outcome(intent, STALE))
    south = Node("s0", ready=True, allocatable=SIZE)
    world.report("south", nodes=(south,), pods=(a_pod("other", node="s0", phase="Running"),))
    proxy = Node(proxy_node_name("south"), labels={PROXY_LABEL: "south"}, ready=True, proxy_for="south")
    world.report("east", nodes=(proxy,))
    world.submit()
    world.run(59.0)
    assert len(world.asked) == 1
    world.run(10.0)
    assert (len(world.asked), world.evicted) == (2, {})


def test_a_pod_that_is_not_confirmed_evicts_at_home_instead() -> None:
    world = World(answer=lambda intent, world: outcome(intent, STALE))
    here = Node("e0", ready=True, allocatable=SIZE)
    world.report("east", nodes=(here,), pods=(a_pod("mine", node="e0", phase="Running", priority=500),))
    world.submit()
    world.run(10.0)
    assert (len(world.asked), list(world.evicted)) == (1, ["mine"])


def test_an_answer_about_an_earlier_nomination_says_nothing_of_the_newer_one() -> None:
    world = World(nodes=2, answer=unanswered)
    world.submit()
    world.run(2.0)
    (question,) = world.asked
    promised = world.core.profiles.nominations.of(("east", "uid-high0"))
    assert promised is not None
    world.report("west", nodes_gone=(promised.node,), pods_gone=(f"uid-low{promised.node[1:]}",))
    world.run(5.0)
    world.take(world.core.handle(Answered("east", (outcome(question, STALE),)), world.now))
    assert world.promised() == 1
    world.confirm()
    assert len(world.evicted) == 1


def test_the_most_important_of_those_that_wait_for_their_turn_is_first() -> None:
    world = World(nodes=10, answer=unanswered, per_s=0.02)
    world.report("east", pods=tuple(a_pod(f"high{at}", priority=1000 + at) for at in range(10)))
    world.run(2.0)
    for question in sorted(world.asked, key=lambda one: one.pod.name):
        world.take(world.core.handle(Answered("east", (signed(question, priority=2000),)), world.now))
    at_once = len(world.evicted)
    world.run(60.0)
    assert at_once < 5
    assert world.evicted_for[at_once] == "default/high9 of cluster east"


def of_team(name: str) -> Pod:
    return msgspec.structs.replace(a_pod(name, priority=1000), namespace="team")


def signed_of_team(intent: ConfirmNoSource, manifest: bytes = MANIFEST) -> Outcome:
    source = SourceRef("east", "east-uid", intent.pod.namespace, intent.pod.name, intent.pod.uid, intent.epoch)
    said = Preemptor(source, intent.preempts, 1000, "", {"cpu": 4000})
    return outcome(intent, DONE, record=keys_of("east").sign_preemptor(said), manifest=manifest)


def test_of_equally_important_ones_each_namespace_has_its_turn_however_many_wait_before_it() -> None:
    world = World(nodes=12, per_s=0.02, answer=lambda intent, world: signed_of_team(intent))
    world.submit(10)
    world.run(2.0)
    at_once = len(world.evicted)
    world.report("east", pods=(of_team("late"),))
    world.run(55.0)
    assert len(world.evicted) == at_once + 1
    assert world.evicted_for[at_once] == "team/late of cluster east"
    world.run(50.0)
    assert len(world.evicted) == at_once + 2


def test_a_namespace_that_holds_many_bytes_gives_way_to_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.core.preemptors._MOST_HELD", 2 * len(MANIFEST))
    world = World(nodes=8, per_s=0.02, answer=lambda intent, world: signed_of_team(intent))
    world.submit(5)
    world.run(2.0)
    world.report("east", pods=(of_team("late"),))
    world.run(0.5)
    assert len(world.evicted) == 3
    assert world.core.profiles.nominations.of(("east", "uid-late")) is not None


def test_a_pod_is_evicted_in_the_preemptors_own_cluster_without_a_question() -> None:
    world = World()
    world.submit(home="west")
    world.run(1.0)
    assert (world.asked, list(world.evicted)) == ([], ["low0"])


NOT_CONFIRMED: dict[str, Answer] = {
    "it is not there": lambda intent, world: outcome(intent, STALE, message="it is not there"),
    "an older executor signs nothing": lambda intent, world: outcome(intent, STALE, message="it is there"),
    "nothing is signed": lambda intent, world: outcome(intent, DONE),
    "another cluster has signed": lambda intent, world: signed(intent, signer="west"),
    "it is of lower priority": lambda intent, world: signed(intent, priority=999),
    "it requests less": lambda intent, world: signed(intent, requests={"cpu": 3999, "memory": 2**30}),
    "it requests nothing": lambda intent, world: signed(intent, requests={}),
    "an older executor does not sign what it requests": lambda intent, world: signed(intent, requests=None),
    "it is of another cluster": lambda intent, world: signed(intent, cluster_uid="west-uid"),
    "it is another pod": lambda intent, world: signed(intent, uid="uid-other"),
    "it goes elsewhere": lambda intent, world: signed(intent, target="north"),
    "it is what was signed earlier": lambda intent, world: signed(intent, epoch=intent.epoch - 1),
}


@pytest.mark.parametrize("why", NOT_CONFIRMED)
def test_nobody_is_evicted_elsewhere_for_a_pod_of_which(why: str) -> None:
    world = World(answer=NOT_CONFIRMED[why])
    world.submit()
    world.run(50.0)
    assert (world.evicted, world.promised()) == ({}, 0)
    assert len(world.asked) == 1, "it is not asked for at each try"
    assert [("no pod of cluster west is evicted" in text, "cluster east" in text) for text in world.warned] == [
        (True, True)
    ]
    assert len(world.told) == 1
    world.run(60.0)
    assert len(world.asked) == 2, "it is asked for again after a while"


def test_a_question_that_was_not_answered_is_asked_again() -> None:
    world = World(answer=lambda intent, world: signed(intent) if len(world.asked) > 1 else outcome(intent, UNKNOWN))
    world.submit()
    world.run(5.0)
    assert (len(world.asked), list(world.evicted)) == (2, ["low0"])


def test_nobody_is_evicted_for_a_pod_that_was_deleted_meanwhile() -> None:
    world = World(answer=unanswered)
    world.submit()
    world.run(1.0)
    world.report("east", pods_gone=("uid-high0",))
    world.confirm()
    world.run(5.0)
    assert world.evicted == {}


def test_evictions_elsewhere_for_pods_of_one_cluster_are_paced_and_those_who_wait_are_told() -> None:
    world = World(nodes=6, per_s=0.02)
    world.submit(6)
    world.run(2.0)
    assert len(world.evicted) == 3, "two at once, and one that is waited for"
    assert world.told
    assert "timing.evictions_abroad_per_s" in world.told[0]
    assert len([text for text in world.warned if "cluster east" in text]) == 1
    world.run(49.0)
    assert len(world.evicted) == 4
    world.run(100.0)
    assert len(world.evicted) == 6


def test_nobody_is_evicted_for_a_pod_that_was_deleted_before_its_turn() -> None:
    world = World(nodes=4, per_s=0.02)
    world.submit(4)
    world.run(2.0)
    assert len(world.evicted) == 3
    world.report("east", pods_gone=tuple(f"uid-high{at}" for at in range(4)))
    world.run(200.0)
    assert len(world.evicted) == 3
