"""Steps that are refused, or whose effect stays unknown, hold up neither the end of a pod nor what comes later."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from dispatcher.scheduling.delegation.orphans import CONFIRMED_S, Orphans
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import Answered, ClusterChanged, ClusterSilent, Effect, SendIntents, Tick
from shared.messages import (
    CLAIMED,
    DELETING,
    DONE,
    REFUSED,
    UNKNOWN,
    AnyIntent,
    Changes,
    ConfirmNoDelegate,
    ConfirmNoSource,
    CreateDelegate,
    DeleteDelegate,
    DeleteSource,
    Evict,
    FinishSource,
    MirrorStatus,
    Outcome,
    ReportUnschedulable,
    RestoreClaim,
)
from shared.messages import Claim as ClaimOrder
from shared.model.names import CLAIM, PROXY_LABEL, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim, Pod, SourceRef
from shared.security.signatures import SignedClaim, public_key, sign_claim
from tests.laws.cores import make_core

NODE = Node("w1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 50})
PROXY = Node(proxy_node_name("west"), labels={PROXY_LABEL: "west"}, ready=True, proxy_for="west")
SOURCE_REF = SourceRef("east", "east-uid", "default", "web", "uid-web", 5)
Reply = Callable[[AnyIntent], str]


def source(**more: Any) -> Pod:
    """Of cluster east, bound to the proxy node of west."""
    fields: dict[str, Any] = {"claim": Claim("west", "w1", 5), "has_finalizer": True, "node": proxy_node_name("west")}
    fields |= {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, **more}
    return Pod("uid-web", "default", "web", **fields)


def delegate(**more: Any) -> Pod:
    """Its copy, which runs in west."""
    fields: dict[str, Any] = {"requests": {"cpu": 100}, "phase": "Running", "status": b"{}", **more}
    return Pod("d-web", "default", "web-d", node="w1", source=SOURCE_REF, **fields)


class Fleet:
    """A core of two clusters; `reply` gives the verdict about every order, and all orders are counted.

    Whoever asks about an end is told `end`, of the delegate `ended_uid`.
    """

    end, ended_uid = DELETING, "d-web"

    def __init__(self, reply: Reply, keys: tuple[str, ...] = ()) -> None:
        self.core, self.now, self.reply, self.keys = make_core(("east", "west")), 1.0, reply, keys
        self.revision = {"east": 0, "west": 0}
        self.ordered: Counter[type] = Counter()

    def tell(self, cluster: str, *pods: Pod, full: bool = False, **more: Any) -> None:
        since, full = (0, True) if full or not self.revision[cluster] else (self.revision[cluster], False)
        self.revision[cluster] += 1
        keys = self.keys if cluster == "east" else ()
        nodes = (PROXY,) if cluster == "east" else (NODE,)
        more |= {"pods": pods, "nodes": nodes if full else (), "full": full, "keys": keys}
        changes = Changes(cluster, f"{cluster}-uid", "life", since, self.revision[cluster], **more)
        self.take(self.core.handle(ClusterChanged(changes), self.now))

    def take(self, effects: Sequence[Effect]) -> None:
        for one in effects:
            for intent in one.intents if isinstance(one, SendIntents) else ():
                if not isinstance(intent, ReportUnschedulable):
                    self.ordered[type(intent)] += 1
                    self.answer(one.cluster, intent)  # type: ignore[union-attr]

    def answer(self, cluster: str, intent: AnyIntent) -> None:
        verdict = self.reply(intent)
        if not verdict:  # it is still under way
            return
        outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, manifest=b"{}", record="x.y")
        if isinstance(intent, ConfirmNoDelegate) and intent.ended and verdict == DONE:
            outcome = replace(outcome, end=self.end, delegate_uid=self.ended_uid)
        self.take(self.core.handle(Answered(cluster, (outcome,)), self.now))

    def ticks(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            self.take(self.core.handle(Tick(), self.now))


class Deletions:
    """Says done to all, and keeps how long each deletion of a delegate gives it."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def __call__(self, intent: AnyIntent) -> str:
        if isinstance(intent, DeleteDelegate):
            self.told.append(intent.grace_s)
        return DONE


def all_done(_: AnyIntent) -> str:
    return DONE


def but(kind: type, verdict: str) -> Reply:
    return lambda intent: verdict if isinstance(intent, kind) else CLAIMED if isinstance(intent, ClaimOrder) else DONE


def test_a_status_that_is_refused_does_not_keep_a_deleted_pods_copy_running() -> None:
    fleet = Fleet(but(MirrorStatus, REFUSED))
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    assert fleet.ordered == {MirrorStatus: 1}
    fleet.tell("east", source(terminating=True))
    assert fleet.ordered == {MirrorStatus: 1, DeleteDelegate: 1}


@pytest.mark.parametrize("given", [-1, 0, 600])
def test_a_copy_has_as_long_to_end_as_its_source_was_given(given: int) -> None:
    deletions = Deletions()
    fleet = Fleet(deletions)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("east", source(terminating=True, ends_in_s=given))
    assert deletions.told == [given]


@pytest.mark.parametrize("sooner", [5, 0])
def test_a_source_that_is_deleted_again_with_less_time_hurries_its_copy_once(sooner: int) -> None:
    deletions = Deletions()
    fleet = Fleet(deletions)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("east", source(terminating=True, ends_in_s=300))
    fleet.tell("west", delegate(terminating=True, ends_in_s=300))
    fleet.tell("east", source(terminating=True, ends_in_s=sooner))
    assert deletions.told == [300, sooner]
    fleet.tell("west", delegate(terminating=True, ends_in_s=max(1, sooner)))
    fleet.ticks(100)
    assert deletions.told == [300, sooner]


def test_a_source_that_is_deleted_again_before_its_first_deletion_shows_elsewhere_hurries_its_copy_too() -> None:
    deletions = Deletions()
    fleet = Fleet(deletions)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("east", source(terminating=True, ends_in_s=300))
    fleet.tell("east", source(terminating=True, ends_in_s=5))
    fleet.tell("west", delegate(terminating=True, ends_in_s=300))
    assert deletions.told == [300, 5]


@pytest.mark.parametrize(
    ("source_s", "copy_s"),
    [(300, 30), (30, 30), (0, 1), (-1, 300), (5, -1)],
    ids=["sooner already", "the same", "as soon as can be", "an older agent at home", "an older agent there"],
)
def test_a_copy_that_ends_as_soon_as_its_source_may_is_not_deleted_again(source_s: int, copy_s: int) -> None:
    deletions = Deletions()
    fleet = Fleet(deletions)
    fleet.tell("east", source())
    fleet.tell("west", delegate(terminating=True, ends_in_s=copy_s))
    fleet.tell("east", source(terminating=True, ends_in_s=source_s))
    fleet.ticks(100)
    assert deletions.told == []


def test_a_source_that_was_finished_and_is_held_by_others_is_left_to_them() -> None:
    fleet = Fleet(all_done)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("east", source(terminating=True, ends_in_s=30))
    fleet.tell("west", pods_gone=("d-web",), pods_missing=("d-web",))
    fleet.tell("east", source(terminating=True, ends_in_s=0, has_finalizer=False, claim=None, phase="Failed"))
    fleet.ticks(60)
    assert fleet.ordered[FinishSource] == 0


@pytest.mark.parametrize("half_done", [{"ends_in_s": 30, "phase": "Failed"}, {"ends_in_s": 0}])
def test_a_source_that_was_let_go_and_not_finished_is_finished(half_done: dict[str, Any]) -> None:
    fleet = Fleet(all_done)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("east", source(terminating=True, has_finalizer=False, claim=None, **half_done))
    fleet.tell("west", pods_gone=("d-web",), pods_missing=("d-web",))
    fleet.ticks(10)
    assert fleet.ordered[FinishSource] >= 1


@pytest.mark.parametrize("copy_s", [-1, 0, 600])
def test_a_source_has_as_long_to_end_as_its_copy_was_given_elsewhere(copy_s: int) -> None:
    told: list[int] = []

    def reply(intent: AnyIntent) -> str:
        if isinstance(intent, DeleteSource):
            told.append(intent.grace_s)
        return DONE

    fleet = Fleet(reply)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("west", delegate(terminating=True, ends_in_s=copy_s))
    assert told == [copy_s]


def test_a_newer_status_is_shown_at_once_where_an_older_one_was_refused() -> None:
    fleet = Fleet(lambda intent: REFUSED if getattr(intent, "status", b"") == b"{}" else DONE)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("west", delegate(status=b'{"phase":"Running"}'))
    assert fleet.core.tracked["east", "uid-web"].mirrored == b'{"phase":"Running"}'


def test_a_newer_status_is_written_at_once_and_the_same_not_again_before_the_watch_may_show_it() -> None:
    fleet = Fleet(lambda intent: DONE)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    assert fleet.ordered[MirrorStatus] == 1
    fleet.tell("east", source(labels={"seen": "before the write"}))  # not Running yet: a report from before it
    fleet.tell("west", delegate(status=b'{"phase":"Running"}'))
    assert fleet.ordered[MirrorStatus] == 2
    fleet.tell("east", source(labels={"seen": "again"}))
    assert fleet.ordered[MirrorStatus] == 2
    fleet.ticks(1)
    assert fleet.ordered[MirrorStatus] == 3  # it does not show: something has written over it


def test_a_mirrored_status_does_not_hold_up_the_end_of_a_pod() -> None:
    fleet = Fleet(lambda intent: DONE)
    fleet.tell("east", source())
    fleet.tell("west", delegate())
    fleet.tell("west", delegate(terminating=True))
    assert fleet.ordered[DeleteSource] == 1


def test_a_deletion_that_is_refused_is_asked_for_by_name_once_the_delegate_shows_no_more() -> None:
    fleet = Fleet(but(DeleteDelegate, REFUSED))
    fleet.tell("east", source(terminating=True))
    fleet.tell("west", delegate())
    fleet.tell("west", pods_gone=("d-web",), pods_missing=("d-web",))
    assert fleet.ordered[ConfirmNoDelegate] == 1


def test_a_delegate_whose_making_stays_unknown_is_asked_for_when_its_source_is_deleted() -> None:
    fleet = Fleet(but(CreateDelegate, UNKNOWN))
    fleet.tell("east", source(node="", claim=None, has_finalizer=False))
    fleet.tell("west")
    fleet.ticks(20)
    tried = fleet.ordered[CreateDelegate]
    assert tried > 2
    claim = Claim("west", "w1", fleet.core.tracked["east", "uid-web"].decided)
    fleet.tell("east", source(node="", claim=claim, terminating=True))
    fleet.ticks(20)
    assert fleet.ordered[CreateDelegate] == tried
    assert fleet.ordered[ConfirmNoDelegate] == 1
    assert fleet.ordered[FinishSource] > 0


def test_no_delegate_is_made_for_a_source_that_was_deleted_while_it_was_claimed() -> None:
    fleet = Fleet(but(ClaimOrder, UNKNOWN))
    fleet.tell("east", source(node="", claim=None, has_finalizer=False))
    fleet.tell("west")
    fleet.ticks(1)
    fleet.tell("east", source(node="", claim=None, has_finalizer=False, terminating=True))
    fleet.reply = but(ClaimOrder, CLAIMED)
    fleet.ticks(20)
    assert fleet.ordered[ClaimOrder] > 1
    assert fleet.ordered[CreateDelegate] == 0


def test_a_delegate_that_goes_is_missed_also_when_its_claim_verifies_no_more() -> None:
    old, new = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    mark = sign_claim(old, SignedClaim(SOURCE_REF, "west", "west-uid", "w1", b"x" * 32))
    fleet = Fleet(all_done, keys=(public_key(old),))
    fleet.tell("east", source(annotations={CLAIM: mark}))
    fleet.tell("west", delegate(annotations={CLAIM: mark}))
    fleet.keys = (public_key(new),)
    fleet.tell("east", source(claim=None, terminating=True), full=True)
    fleet.tell("west", delegate(annotations={CLAIM: mark}, terminating=True))
    fleet.tell("west", pods_gone=("d-web",))
    fleet.ticks(5)
    assert fleet.ordered[FinishSource] == 1


def test_a_claim_that_may_not_be_restored_is_tried_ever_less_often() -> None:
    fleet = Fleet(but(RestoreClaim, REFUSED))
    fleet.tell("east", source(claim=None))
    fleet.tell("west", delegate())
    fleet.ticks(300)
    assert 5 <= fleet.ordered[RestoreClaim] <= 12


def test_whether_a_source_is_gone_is_asked_once_however_late_the_answer_comes() -> None:
    fleet = Fleet(but(ConfirmNoSource, ""))
    fleet.tell("east")
    fleet.tell("west", delegate())
    fleet.ticks(300)
    assert fleet.ordered == {ConfirmNoSource: 1}


def test_what_is_asked_of_a_source_is_dropped_once_the_source_is_seen() -> None:
    fleet = Fleet(but(ConfirmNoSource, ""))
    fleet.tell("east")
    fleet.tell("west", delegate())
    fleet.ticks(300)
    fleet.tell("east", source(terminating=True))
    assert fleet.ordered == {ConfirmNoSource: 1, DeleteDelegate: 1}


def test_what_is_asked_of_a_source_is_dropped_once_its_delegate_is_gone() -> None:
    fleet = Fleet(but(ConfirmNoSource, ""))
    fleet.tell("east")
    fleet.tell("west", delegate())
    fleet.ticks(300)
    fleet.tell("west", pods_gone=("d-web",))
    assert not fleet.core.tracked


@pytest.mark.parametrize(("home_is_heard", "evicted"), [(True, 1), (False, 0)])
def test_a_copy_gives_way_to_pods_of_higher_priority_only_where_its_own_is_known(
    home_is_heard: bool, evicted: int
) -> None:
    fleet = Fleet(all_done)
    if home_is_heard:
        fleet.tell("east", source(requests={"cpu": 4000}))
    else:
        fleet.take(fleet.core.handle(ClusterSilent("east", "down"), fleet.now))
    important = Pod("uid-p", "default", "p", requests={"cpu": 4000}, scheduler_name=SCHEDULER_NAME, priority=10)
    fleet.tell("west", delegate(requests={"cpu": 4000}), important)
    fleet.ticks(1)
    assert fleet.ordered[Evict] == evicted


def test_orphans_that_were_too_many_stay_also_when_the_cluster_has_more_pods_or_fewer_of_them() -> None:
    tracked = tracked_pods(40)
    orphans = Orphans(tracked, {})
    for number in range(9):
        tracked[pod_id(number)].orphaned_at = 1.0
        orphans.suspect(pod_id(number))
    assert not orphans.may_go(pod_id(0), now=2.0)
    for number in range(40, 60):
        tracked[pod_id(number)] = remote(number)
    for number in range(1, 5):
        tracked.drop(pod_id(number))
    assert not orphans.may_go(pod_id(0), now=3.0)
    assert list(orphans.excess(3.0)) == ["east"]
    tracked[pod_id(50)].orphaned_at = 3.0
    orphans.suspect(pod_id(50))
    assert orphans.may_go(pod_id(50), now=4.0)


def test_orphans_that_were_too_many_go_once_an_operator_confirms_what_their_cluster_shows() -> None:
    tracked = tracked_pods(40)
    orphans = Orphans(tracked, {})
    for number in range(9):
        tracked[pod_id(number)].orphaned_at = 1.0
        orphans.suspect(pod_id(number))
    assert not orphans.may_go(pod_id(0), now=2.0)
    orphans.release("west", now=3.0)
    assert not orphans.may_go(pod_id(0), now=3.0)
    orphans.release("east", now=4.0)
    assert orphans.may_go(pod_id(0), now=4.0)
    assert not orphans.excess(4.0)
    for number in range(9, 30):
        tracked[pod_id(number)].orphaned_at = 1000.0
        orphans.suspect(pod_id(number))
    assert orphans.may_go(pod_id(20), now=4.0 + CONFIRMED_S - 1)
    assert not orphans.may_go(pod_id(20), now=4.0 + CONFIRMED_S)


def pod_id(number: int) -> tuple[str, str]:
    return ("east", f"uid-{number}")


def tracked_pods(count: int) -> TrackedPods:
    found = TrackedPods()
    for number in range(count):
        found[pod_id(number)] = remote(number)
    return found


def remote(number: int) -> Tracked:
    return Tracked(pod_id(number), delegates={"west": delegate()})
