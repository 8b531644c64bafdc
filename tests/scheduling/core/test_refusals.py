"""What clusters have refused: how long it holds, for whom, and what the core does about it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.refusals import Refusals
from dispatcher.scheduling.delegation.in_flight import InFlightIntent, IntentKind
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, SendIntents, Tick
from dispatcher.scheduling.framework import SKIP
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.views import explain
from shared.messages import (
    BOUND,
    CLAIMED,
    DONE,
    OF_CLUSTER,
    OF_NODE,
    OF_POD,
    REFUSED,
    STALE,
    UNKNOWN,
    Bind,
    Changes,
    Claim,
    ConfirmNoDelegate,
    ConfirmNoSource,
    CreateDelegate,
    Intent,
    Outcome,
    PodRef,
    ReportUnschedulable,
    Unclaim,
)
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.objects import Namespace
from shared.model.pod import Claim as Claimed
from shared.model.pod import Pod
from shared.model.refusal import ALL_OTHERS
from tests.laws.cores import make_core

NO_QUOTA = 'pods "web" is forbidden: exceeded quota'


def a_pod(name: str = "web", owner: str = "", **more: object) -> Pod:
    fields = {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod(f"uid-{name}", "default", name, owner=owner, **fields)  # type: ignore[arg-type]


def in_flight(kind: IntentKind, cluster: str) -> InFlightIntent:
    intent = Intent("1", PodRef("default", "web", "uid-web"), 1)
    return InFlightIntent(kind, intent, cluster, cluster, "n1", 1, 0.0)  # type: ignore[arg-type]


def says(scope: str, message: str = NO_QUOTA) -> Outcome:
    return Outcome("1", "uid-web", 1, REFUSED, message, scope=scope)


class Memory:
    """Refusals of pods that were submitted in "home"."""

    def __init__(self) -> None:
        self.kept = Refusals(30, 900)

    def refuse(
        self, one: Pod, cluster: str, now: float, scope: str = OF_CLUSTER, kind: IntentKind = IntentKind.CREATE
    ) -> None:
        self.kept.note(("home", one.uid), one, in_flight(kind, cluster), says(scope), now)

    def about(self, one: Pod, now: float) -> list[str]:
        return [refusal.cluster for refusal in self.kept.about(("home", one.uid), one, now) if not refusal.over]


@pytest.mark.parametrize(
    ("kind", "scope", "passed_over"),
    [
        (IntentKind.CREATE, OF_CLUSTER, ["west"]),
        (IntentKind.CREATE, OF_NODE, []),
        (IntentKind.CREATE, "", ["west"]),
        (IntentKind.CREATE, OF_POD, ["west"]),
        (IntentKind.BIND, "", []),
        (IntentKind.BIND, OF_CLUSTER, ["west"]),
        (IntentKind.CLAIM, OF_POD, [ALL_OTHERS]),
        (IntentKind.CLAIM, "", [ALL_OTHERS]),
        (IntentKind.CREATE, "something of next year", []),
    ],
)
def test_what_a_refusal_is_about_says_who_is_passed_over(kind: IntentKind, scope: str, passed_over: list[str]) -> None:
    memory = Memory()
    memory.refuse(a_pod(), "west", 0, scope, kind)
    assert memory.about(a_pod(), 1) == passed_over


def test_a_cluster_that_goes_on_refusing_is_passed_over_twice_as_long_each_time_up_to_a_bound() -> None:
    memory, now, pauses = Memory(), 0.0, []
    for _ in range(7):
        memory.refuse(a_pod(), "west", now)
        (held,) = memory.kept.about(("home", "uid-web"), a_pod(), now)
        pauses.append(held.until - held.at)
        now = held.until
        assert memory.about(a_pod(), now) == []
        assert memory.kept.ended(now) == [("home", "uid-web")]
    assert pauses == [30, 60, 120, 240, 480, 900, 900]


def test_a_cluster_whose_webhook_fails_is_tried_again_after_seconds_and_then_ever_later() -> None:
    memory, now, pauses = Memory(), 0.0, []
    failing = Outcome("1", "uid-web", 1, REFUSED, "failed calling webhook", scope=OF_CLUSTER, passing=True)
    for _ in range(11):
        memory.kept.note(("home", "uid-web"), a_pod(), in_flight(IntentKind.CREATE, "west"), failing, now)
        (held,) = memory.kept.about(("home", "uid-web"), a_pod(), now)
        pauses.append(held.until - held.at)
        now = held.until
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    memory.refuse(a_pod(), "west", now)
    (held,) = memory.kept.about(("home", "uid-web"), a_pod(), now)
    assert held.until - held.at == 30  # of a rule: that is another refusal


def test_refusals_of_orders_that_were_under_way_make_no_longer_pause() -> None:
    memory = Memory()
    for at in (0, 1, 2):
        memory.refuse(a_pod(), "west", at)
    (held,) = memory.kept.about(("home", "uid-web"), a_pod(), 3)
    assert (held.at, held.until) == (0, 30)


def test_pods_of_one_controller_share_what_was_refused_and_others_do_not() -> None:
    memory, owner = Memory(), "ReplicaSet/web-1/uid-of-web-1"
    memory.refuse(a_pod("one", owner), "west", 0)
    assert memory.about(a_pod("two", owner), 1) == ["west"]
    assert memory.about(a_pod("three"), 1) == []
    newer = a_pod("four", owner, labels={"controller-revision-hash": "2"})
    assert memory.about(newer, 1) == []


def test_who_names_the_controller_of_another_namespace_as_his_own_changes_nothing_there() -> None:
    memory, owner = Memory(), "ReplicaSet/web-1/uid-of-web-1"
    theirs, forged = a_pod("web", owner), msgspec.structs.replace(a_pod("forged", owner), namespace="evil")
    memory.refuse(forged, "west", 0)
    memory.kept.note_size(("home", forged.uid), forged, "north", {"cpu": 64_000}, 0)
    assert (memory.about(forged, 1), memory.about(theirs, 1)) == (["north", "west"], [])


def test_of_one_namespace_so_many_pods_are_kept_and_those_that_are_forgotten_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dispatcher.scheduling.core.refusals.MOST_TEMPLATES", 3)
    memory = Memory()
    other = msgspec.structs.replace(a_pod("other"), namespace="team")
    memory.refuse(other, "east", 0.0)
    pods = [a_pod(f"p{at}") for at in range(5)]
    for at, one in enumerate(pods):
        memory.refuse(one, "east", 0.0)
        assert memory.about(one, 1.0) == ["east"]
        if at == 2:
            memory.refuse(pods[0], "west", 1.0)  # of which something was kept last
    assert [memory.about(one, 2.0) for one in pods] == [["east", "west"], [], [], ["east"], ["east"]]
    assert memory.about(other, 2.0) == ["east"]
    assert memory.kept.ended(2.0) == [("home", "uid-p1"), ("home", "uid-p2")]
    assert memory.kept.ended(2.0) == []
    memory.kept.ended(10_000.0)
    memory.kept.ended(20_000.0)
    assert not memory.kept


def test_what_was_refused_long_ago_is_forgotten() -> None:
    memory = Memory()
    memory.refuse(a_pod(), "west", 0)
    memory.kept.ended(30)
    assert memory.kept
    memory.kept.ended(930)
    assert not memory.kept
    memory.refuse(a_pod(), "west", 931)
    assert memory.about(a_pod(), 960) == ["west"]
    assert memory.about(a_pod(), 961) == []


def test_a_namespace_that_changes_in_a_cluster_ends_its_refusals_there_alone() -> None:
    memory = Memory()
    for cluster in ("west", "east"):
        memory.refuse(a_pod(), cluster, 0)
    assert memory.about(a_pod(), 1) == ["east", "west"]
    assert memory.kept.namespace_changed("west", "other") == []
    assert memory.kept.namespace_changed("west", "default") == [("home", "uid-web")]
    assert memory.about(a_pod(), 1) == ["east"]


# --- the core --------------------------------------------------------------------------------------------------------

CLUSTERS = ("east", "home", "west")
FREE = {"east": 2000, "home": 1000, "west": 4000}  # the more is free, the better


class Told:
    """A core of three clusters with a node each; the pod is the home cluster's. West is best, then east, then home."""

    def __init__(self, *, ledger: QuotaLedger | None = None, **more: Any) -> None:
        self.core: SchedulerCore = make_core(CLUSTERS, ledger=ledger)
        self.pod, self.now, self.revision = a_pod(**more), 1.0, dict.fromkeys(CLUSTERS, 0)
        self.sent: list[tuple[str, Intent]] = []
        for name in CLUSTERS:
            node = Node(f"{name}-1", ready=True, allocatable={"cpu": FREE[name], "memory": 2**33, "pods": 20})
            pods = (self.pod,) if name == "home" else ()
            self.report(name, nodes=(node,), pods=pods, full=True)
        self.handle(Tick())

    def handle(self, event: Answered | ClusterChanged | Tick) -> None:
        effects: Sequence[Effect] = self.core.handle(event, self.now)
        self.sent += [
            (one.cluster, intent) for one in effects if isinstance(one, SendIntents) for intent in one.intents
        ]

    def report(self, name: str, **what: object) -> None:
        since, self.revision[name] = self.revision[name], self.revision[name] + 1
        changes = Changes(name, f"{name}-uid", "life-1", since, self.revision[name], **what)  # type: ignore[arg-type]
        self.handle(ClusterChanged(changes))

    def take(self, kind: type) -> tuple[str, Intent]:
        """The one order that waits, of that kind; others must not."""
        ((cluster, intent),) = [one for one in self.sent if not isinstance(one[1], ReportUnschedulable)]
        assert type(intent) is kind
        self.sent = []
        return cluster, intent

    def answer(self, kind: type, verdict: str, message: str = "", scope: str = "", *, passing: bool = False) -> None:
        cluster, intent = self.take(kind)
        outcome = Outcome(
            intent.id, intent.pod.uid, intent.epoch, verdict, message, b"{}", scope=scope, passing=passing
        )
        self.handle(Answered(cluster, (outcome,)))

    def refused_by(self, target: str, message: str, scope: str = OF_CLUSTER, *, passing: bool = False) -> None:
        """Claimed for `target`, refused there, unclaimed, as the watch shows it."""
        assert self.sent[-1][1].cluster == target  # type: ignore[attr-defined]
        self.answer(Claim, CLAIMED)
        self.answer(CreateDelegate, REFUSED, message, scope, passing=passing)
        self.answer(Unclaim, DONE)
        self.tick()

    def tick(self, later: float = 0.0) -> None:
        self.now += later
        self.handle(Tick())

    def explained(self) -> dict[str, object]:
        found = explain(self.core, "default", "web")
        assert found is not None
        return found


def test_the_next_best_cluster_is_tried_at_once_and_home_last() -> None:
    told = Told()
    told.refused_by("west", NO_QUOTA)
    told.refused_by("east", "denied by webhook")
    cluster, bind = told.take(Bind)
    assert (cluster, bind.node, told.now) == ("home", "home-1", 1.0)  # type: ignore[attr-defined]
    told.sent = [(cluster, bind)]
    told.answer(Bind, BOUND)
    text = told.core.log.summary(("home", "uid-web"))
    assert text.endswith(f"; cluster east refused it: denied by webhook; cluster west refused it: {NO_QUOTA}")


def test_a_field_that_cannot_travel_leaves_home_alone() -> None:
    told = Told()
    told.answer(Claim, REFUSED, "spec.hostNetwork reaches into the node", OF_POD)
    told.tick()
    cluster, _ = told.take(Bind)
    assert cluster == "home"


def test_what_one_node_refuses_excludes_no_cluster_and_waits_for_a_moment() -> None:
    told = Told()
    told.answer(Claim, CLAIMED)
    told.answer(CreateDelegate, REFUSED, 'node "west-1": Insufficient cpu', OF_NODE)
    told.answer(Unclaim, DONE)
    told.tick()
    assert [type(one) for _, one in told.sent] == [ReportUnschedulable]
    told.sent = []
    told.tick(5.0)
    assert told.take(Claim)[1].cluster == "west"  # type: ignore[attr-defined]


def test_a_pod_that_all_refuse_says_who_and_why_and_explain_says_until_when() -> None:
    told = Told(annotations={"global-dispatcher.io/clusters": "west"})
    told.refused_by("west", NO_QUOTA)
    ((_, report),) = told.sent
    message = report.message  # type: ignore[attr-defined]
    assert "1 node(s) were in a cluster that refused the pod a while ago" in message
    assert message.endswith(f"cluster west refused it: {NO_QUOTA}")
    told.sent, told.now = [], 11.0
    told.tick()
    explained = told.explained()
    assert explained["refusals"] == [{"cluster": "west", "message": NO_QUOTA, "ago_s": 10.0, "again_in_s": 20.0}]
    assert explained["decision"]["clusters"]["west"].endswith(NO_QUOTA)  # type: ignore[index]
    assert NO_QUOTA not in explained["decision"]["clusters"]["east"]  # type: ignore[index]


def test_a_refusal_ends_with_time_and_the_cluster_is_tried_again() -> None:
    told = Told(annotations={"global-dispatcher.io/clusters": "west"})
    told.refused_by("west", NO_QUOTA)
    told.sent = []
    told.tick(29.0)
    assert not told.sent
    told.tick(1.0)
    assert told.take(Claim)[1].cluster == "west"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("passing", "preempts"), [(False, []), (True, ["west"])])
def test_nobody_is_evicted_where_the_pod_may_be_refused_once_more(passing: bool, preempts: list[str]) -> None:
    """A webhook that failed is another thing: it has refused nobody."""
    told = Told(annotations={"global-dispatcher.io/clusters": "west"}, priority=10)
    told.refused_by("west", NO_QUOTA, passing=passing)
    low = a_pod("low", node="west-1", phase="Running", requests={"cpu": 4000})
    told.report("west", pods=(low,))
    told.sent = []
    told.tick(40.0)
    assert [one.preempts for _, one in told.sent if isinstance(one, ConfirmNoSource)] == preempts


def test_the_message_says_that_a_refusal_of_a_while_ago_keeps_pods_from_being_evicted() -> None:
    told = Told(annotations={"global-dispatcher.io/clusters": "west"}, priority=10)
    told.refused_by("west", NO_QUOTA)
    low = a_pod("low", node="west-1", phase="Running", requests={"cpu": 4000})
    told.report("west", pods=(low,))
    told.sent = []
    told.tick(40.0)
    (message,) = [one.message for _, one in told.sent if isinstance(one, ReportUnschedulable)]
    said = "1 node(s) in cluster west that refused the pod lately (no eviction there)"
    assert said in message
    assert "No preemption victims found" not in message
    assert said in told.explained()["decision"]["message"]  # type: ignore[index]


def test_a_namespace_that_is_changed_there_ends_it_before_its_time() -> None:
    told = Told(annotations={"global-dispatcher.io/clusters": "west"})
    told.refused_by("west", 'violates PodSecurity "restricted:latest"')
    told.sent = []
    told.report("west", objects=(Namespace("default", {"pod-security.kubernetes.io/enforce": "baseline"}),))
    told.tick(2.0)  # what is left of its back-off
    assert told.take(Claim)[1].cluster == "west"  # type: ignore[attr-defined]


def test_replicas_that_wait_for_a_decision_pass_over_what_refused_the_first() -> None:
    told = Told(owner="ReplicaSet/web/uid-rs")
    told.answer(Claim, CLAIMED)
    told.report("home", pods=(a_pod("two", "ReplicaSet/web/uid-rs"),))  # queued before the refusal, decided after it
    told.answer(CreateDelegate, REFUSED, NO_QUOTA, OF_CLUSTER)
    told.tick()
    claims = [one for _, one in told.sent if isinstance(one, Claim)]
    assert [(one.pod.name, one.cluster) for one in claims] == [("two", "east")]


def test_a_profile_that_does_not_heed_refusals_tries_again_after_a_pause() -> None:
    told = Told()
    for scheduler in told.core.profiles:
        plugin = next(one for one in scheduler.plan.plugins if one.name == "ClusterRefused")
        plugin.pre_filter = lambda *_: SKIP  # type: ignore[method-assign]
    told.refused_by("west", NO_QUOTA)
    told.refused_by("west", NO_QUOTA)
    assert [type(one) for _, one in told.sent] == [ReportUnschedulable]


def test_a_claim_seen_by_the_watch_is_waited_for_before_the_next_try() -> None:
    told = Told()
    told.answer(Claim, CLAIMED)
    shown = a_pod(claim=Claimed("west", "west-1", 1), has_finalizer=True)
    told.report("home", pods=(shown,))
    told.answer(CreateDelegate, REFUSED, NO_QUOTA, OF_CLUSTER)
    told.answer(Unclaim, DONE)
    told.tick()
    assert not [one for _, one in told.sent if isinstance(one, Claim)]
    told.report("home", pods=(a_pod(),))
    told.tick()
    assert told.take(Claim)[1].cluster == "east"  # type: ignore[attr-defined]


def test_an_order_of_which_nobody_knows_what_came_is_told_after_a_minute_and_explained_at_once() -> None:
    told = Told()
    told.answer(Claim, CLAIMED)
    told.answer(CreateDelegate, UNKNOWN, "too many requests, please try again later (HTTP 429)")
    assert "too many requests" in str(told.explained()["waiting"])
    reports = list[tuple[float, str]]()
    for _ in range(200):
        told.tick(1.0)
        sent, told.sent = told.sent, []
        reports += [(told.now, one.message) for _, one in sent if isinstance(one, ReportUnschedulable)]
        for _, one in sent:
            if isinstance(one, CreateDelegate):
                again = Outcome(one.id, one.pod.uid, one.epoch, UNKNOWN, "the server is still too busy")
                told.handle(Answered("west", (again,)))
    assert [at for at, _ in reports] == [61.0, 121.0]
    text = 'order "create" to cluster west is not known, and it is sent again: the server is still too busy'
    assert all(text in message for _, message in reports)


class Busy:
    """The pod is claimed for west, which says to each order to create it that it is too busy."""

    def __init__(self, *, shown: bool = True) -> None:
        self.told = told = Told()
        cluster, claim = told.take(Claim)
        told.sent = [(cluster, claim)]
        told.answer(Claim, CLAIMED)
        if shown:
            told.report("home", pods=(a_pod(claim=Claimed("west", "west-1", claim.epoch), has_finalizer=True),))
        self.tried = 0

    def seconds(self, count: int) -> None:
        """Let them pass; what west is ordered to create is postponed."""
        for _ in range(count):
            self.told.tick(1.0)
            for one in [one for one in self.told.sent if isinstance(one[1], CreateDelegate)]:
                self.told.sent.remove(one)
                self.tried += 1
                busy = Outcome(one[1].id, one[1].pod.uid, one[1].epoch, UNKNOWN, "too busy (HTTP 429)")
                self.told.handle(Answered("west", (busy,)))


def test_a_cluster_too_busy_for_a_minute_is_asked_whether_it_made_the_pod_and_if_not_another_one_is_tried() -> None:
    busy = Busy()
    told = busy.told
    busy.seconds(63)
    told.answer(ConfirmNoDelegate, DONE)
    told.answer(Unclaim, DONE)
    told.report("home", pods=(a_pod(),))
    told.tick()
    assert told.take(Claim)[1].cluster == "east"  # type: ignore[attr-defined]
    (refusal,) = told.core._state.refusals.known(("home", "uid-web"), a_pod(), told.now)
    assert (refusal.cluster, refusal.until - refusal.at) == ("west", 30.0)
    assert refusal.words == "it is not known for 60 s whether the pod was created there: too busy (HTTP 429)"
    assert busy.tried > 5


@pytest.mark.parametrize("verdict", [UNKNOWN, STALE])
def test_a_pod_that_may_have_been_made_goes_nowhere_else_and_is_told(verdict: str) -> None:
    busy = Busy()
    told = busy.told
    busy.seconds(63)
    told.answer(ConfirmNoDelegate, verdict, "too busy to be read")
    busy.seconds(200)
    kinds = {type(one) for _, one in told.sent}
    assert kinds <= {ConfirmNoDelegate, ReportUnschedulable}
    assert told.core.fleet.occupant(("home", "uid-web")).cluster == "west"  # type: ignore[union-attr]


def test_nothing_is_taken_back_while_the_claim_does_not_show_at_home() -> None:
    busy = Busy(shown=False)
    busy.seconds(200)
    assert {type(one) for _, one in busy.told.sent} <= {CreateDelegate, ReportUnschedulable}


def test_an_order_that_is_answered_in_time_is_not_told() -> None:
    told = Told()
    told.answer(Claim, CLAIMED)
    told.answer(CreateDelegate, UNKNOWN, "too busy")
    told.tick(20.0)
    told.answer(CreateDelegate, BOUND)
    told.sent = []
    told.tick(60.0)
    assert not [one for _, one in told.sent if isinstance(one, ReportUnschedulable)]
    assert told.explained()["waiting"] is None
