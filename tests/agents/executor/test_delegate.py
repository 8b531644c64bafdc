"""Delegates: made once under a derived name, bound, and deleted only when they are delegates."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executor.crossing.manifest import sanitise
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.intents.delegate import delegate_name
from agents.executor.intents.procedures import carry_out
from agents.executor.objects.pods import delete_request
from agents.kube.convert import pod_seen
from agents.observer.seen import PODS
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    DONE,
    OF_CLUSTER,
    REFUSED,
    STALE,
    UNKNOWN,
    CreateDelegate,
    DeleteDelegate,
    PodRef,
)
from shared.model import names
from shared.model.pod import SourceRef
from tests.agents.executor.world import (
    NOW,
    World,
    delegate_of,
    lost_reply,
    node_object,
    order_for,
    pod_object,
    pod_path,
    run,
    scripted,
    source_of,
)

SOURCE = PodRef("default", "web", "source-uid")


def target(*nodes: dict[str, Any], policy: ExecutorPolicy | None = None) -> World:
    return World(*nodes, cluster="b", policy=policy)


def delegate(
    epoch: int = 1, node: str = "n1", ref: PodRef = SOURCE, pod: dict[str, Any] | None = None
) -> CreateDelegate:
    return order_for(ref, epoch, node, msgspec.json.encode(pod or pod_object()))


def the_delegate(world: World) -> dict[str, Any]:
    (pod,) = world.api.pods()
    return pod


def test_a_delegate_is_created_with_its_source_written_on_it_and_bound() -> None:
    world = target()
    outcome = world.do(delegate())
    pod = the_delegate(world)
    assert (outcome.verdict, outcome.message) == (BOUND, "")
    assert pod["metadata"]["name"] == delegate_of(SOURCE)
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["labels"] == {"app": "web", names.DELEGATE_LABEL: "true"}
    world.sync()
    seen = world.cache.pod(pod["metadata"]["uid"])
    assert seen is not None
    assert seen.source == source_of(SOURCE, 1)


@pytest.mark.parametrize("nth", [1, 2], ids=["create", "bind"])
def test_a_lost_reply_makes_no_second_delegate(nth: int) -> None:
    world = target()
    answer = lost_reply(world.api.answer, "POST", nth)
    assert run(carry_out(delegate(), 1, world.local, NOW), answer).verdict == BOUND
    # One whose creation is in doubt is made anew before anything runs in it: nobody else can have made it.
    assert (world.api.count("create") - world.api.count("gone"), world.api.count("bind")) == (1, 1)
    assert len(world.api.pods()) == 1


def test_the_same_order_again_finds_the_delegate_even_where_a_second_would_not_fit() -> None:
    world = target(node_object(cpu="100m"))
    world.do(delegate())
    world.sync()
    assert world.do(delegate()).verdict == BOUND
    assert world.api.count("create") == 1


def test_a_later_attempt_for_another_node_answers_where_the_delegate_really_is() -> None:
    world = target(node_object("n1"), node_object("n2"))
    world.do(delegate(epoch=1, node="n1"))
    outcome = world.do(delegate(epoch=2, node="n2"))
    assert outcome.verdict == BOUND
    assert '"n1"' in outcome.message


def test_an_attempt_older_than_the_delegate_is_stale() -> None:
    world = target()
    world.do(delegate(epoch=5))
    world.restart()
    assert world.do(delegate(epoch=4)).verdict == STALE


def test_a_delegate_that_is_being_deleted_is_waited_for_before_its_place_is_given_away_or_taken_again() -> None:
    world = target()
    world.do(delegate())
    first = the_delegate(world)["metadata"]["uid"]
    world.api.answer(delete_request(PodRef("default", delegate_of(SOURCE), first)))
    assert [world.do(delegate(epoch=2)).verdict for _ in range(2)] == [UNKNOWN, UNKNOWN]
    world.api.kubelet_stops()
    assert world.do(delegate(epoch=2)).verdict == BOUND
    assert the_delegate(world)["metadata"]["uid"] != first


def unbound(**more: Any) -> CreateDelegate:
    return msgspec.structs.replace(delegate(), unbound=True, **more)


def test_one_of_a_group_is_created_first_and_bound_by_a_second_order_that_names_it() -> None:
    world = target()
    made = world.do(unbound())
    uid = the_delegate(world)["metadata"]["uid"]
    assert (made.verdict, made.delegate_uid) == (DONE, uid)
    assert "nodeName" not in the_delegate(world)["spec"]
    for _ in range(2):
        assert world.do(msgspec.structs.replace(delegate(), made=uid)).verdict == BOUND
    assert the_delegate(world)["metadata"]["uid"] == uid
    assert (world.api.count("create"), world.api.count("bind")) == (1, 1)


def test_the_room_of_one_that_is_created_and_not_bound_is_kept_for_it() -> None:
    world = target(node_object(cpu="150m"))
    first, second = PodRef("default", "one", "u1"), PodRef("default", "two", "u2")
    orders = [msgspec.structs.replace(delegate(ref=ref), unbound=True) for ref in (first, second)]
    assert [world.do(order).verdict for order in orders] == [DONE, REFUSED]


@pytest.mark.parametrize("there", ["gone", "another"])
def test_a_delegate_that_was_created_for_a_group_and_is_not_there_any_more_is_not_made_anew(there: str) -> None:
    world = target()
    uid = world.do(unbound()).delegate_uid
    world.api.answer(delete_request(PodRef("default", delegate_of(SOURCE), uid)))
    world.api.kubelet_stops()
    if there == "another":
        world.do(unbound())
    outcome = world.do(msgspec.structs.replace(delegate(), made=uid))
    assert outcome.verdict == (STALE if there == "gone" else UNKNOWN)
    assert world.api.count("bind") == 0


def test_a_pod_of_somebody_else_under_the_name_is_refused_and_left_alone() -> None:
    world = target()
    world.submit(pod_object(delegate_of(SOURCE)))
    assert world.do(delegate()).verdict == REFUSED
    assert world.api.done == []


def test_a_missing_namespace_is_refused_by_name_and_cluster() -> None:
    world = target()
    ref = PodRef("team-x", "web", "u")
    outcome = world.do(delegate(ref=ref))
    assert outcome.verdict == REFUSED
    assert 'namespace "team-x" does not exist in cluster "b"' in outcome.message


def test_a_node_without_room_refuses_before_anything_is_created() -> None:
    world = target(node_object(cpu="50m"))
    outcome = world.do(delegate())
    assert (outcome.verdict, world.api.done) == (REFUSED, [])
    assert "Insufficient cpu" in outcome.message


def test_room_is_counted_for_delegates_that_the_view_does_not_show_yet() -> None:
    world = target(node_object(cpu="150m"))
    first, second = PodRef("default", "one", "u1"), PodRef("default", "two", "u2")
    assert [world.do(delegate(ref=ref)).verdict for ref in (first, second)] == [BOUND, REFUSED]


def test_a_bind_that_is_refused_takes_the_delegate_with_it() -> None:
    world = target()

    def no_binds(request: Any) -> Response:
        return Response(403, b'{"message":"no binds"}') if "binding" in request.path else world.api.answer(request)

    outcome = run(carry_out(delegate(), 1, world.local, NOW), no_binds)
    assert outcome.verdict == REFUSED
    assert world.api.pods() == []


def unseen(world: World) -> None:
    """A new life of the executor, whose lists have not come yet."""
    world.restart(listed=False)


def full(world: World) -> None:
    """Others took the node's room meanwhile, and the view does not show the delegate yet."""
    world.restart()
    world.api.put_pod(pod_object("other", cpu="1", nodeName="n1"))
    world.cache.begin(PODS)
    world.cache.page(PODS, [seen for raw in others(world) if (seen := pod_seen(raw)) is not None])
    world.cache.end(PODS)


def others(world: World) -> list[bytes]:
    return [msgspec.json.encode(pod) for pod in world.api.pods() if pod["metadata"]["name"] == "other"]


def closed(world: World) -> None:
    """The cluster accepts nobody's pods any more."""
    world.policy = ExecutorPolicy(accept=())
    world.restart()


SPEAKS_AGAINST: dict[str, Callable[[World], None]] = {
    "the nodes are not listed yet": unseen,
    "the node is full": full,
    "the policy has changed": closed,
}


@pytest.mark.parametrize("what", SPEAKS_AGAINST)
def test_an_order_whose_answer_was_lost_finds_what_it_bound_whatever_speaks_against_it_now(what: str) -> None:
    world = target()
    world.do(delegate())
    SPEAKS_AGAINST[what](world)
    assert world.do(delegate()).verdict == BOUND
    assert (world.api.count("create"), world.api.count("bind"), world.api.count("delete")) == (1, 1, 0)


@pytest.mark.parametrize("what", SPEAKS_AGAINST)
def test_an_order_that_made_an_unbound_delegate_takes_it_back_before_it_is_refused(what: str) -> None:
    world = target()

    def unbound(request: Request) -> Response:
        return Response(0) if "binding" in request.path else world.api.answer(request)

    assert run(carry_out(delegate(), 1, world.local, NOW), unbound).verdict == UNKNOWN
    SPEAKS_AGAINST[what](world)
    assert world.do(delegate()).verdict == REFUSED
    assert delegate_of(SOURCE) not in [pod["metadata"]["name"] for pod in world.api.pods()]


@pytest.mark.parametrize("what", SPEAKS_AGAINST)
def test_what_cannot_be_looked_up_is_never_refused(what: str) -> None:
    world = target()
    world.do(delegate())
    SPEAKS_AGAINST[what](world)
    forbidden = Response(403, b'{"message":"not yet authorised"}')
    assert run(carry_out(delegate(), 1, world.local, NOW), lambda _: forbidden).verdict == UNKNOWN


def test_a_server_that_forbids_it_now_is_asked_what_it_has() -> None:
    world = target()
    world.do(delegate())
    world.restart()
    answer = scripted(403, then=world.api.answer)
    assert run(carry_out(delegate(), 1, world.local, NOW), answer).verdict == BOUND


def test_a_refused_bind_is_unknown_until_its_delegate_is_gone() -> None:
    world = target()

    def stuck(request: Request) -> Response:
        return Response(403) if "binding" in request.path or request.method == "DELETE" else world.api.answer(request)

    assert run(carry_out(delegate(), 1, world.local, NOW), stuck).verdict == UNKNOWN
    assert world.do(delegate()).verdict == BOUND


def test_a_server_that_is_away_makes_it_unknown() -> None:
    world = target()
    assert run(carry_out(delegate(), 1, world.local, NOW), lambda _: Response(0)).verdict == UNKNOWN


def test_the_manifest_is_not_trusted_and_sanitised_again() -> None:
    world = target()
    outcome = world.do(delegate(pod=pod_object(hostPID=True)))
    assert outcome.verdict == REFUSED
    assert "spec.hostPID" in outcome.message


def test_an_unreadable_quantity_is_refused_with_the_field() -> None:
    world = target()
    outcome = world.do(delegate(pod=pod_object(cpu="1e999999")))
    assert outcome.verdict == REFUSED
    assert "requests" in outcome.message


def test_a_source_that_no_row_of_the_policy_covers_is_refused() -> None:
    policy = ExecutorPolicy(accept=(Accept(clusters=("a",), namespaces=("team-*",)),))
    world = target(policy=policy)
    outcome = world.do(delegate())
    assert outcome.verdict == REFUSED
    assert 'does not accept pods of namespace "default" of cluster "a"' in outcome.message


def test_an_order_about_one_pod_with_the_source_of_another_is_refused() -> None:
    world = target()
    order = msgspec.structs.replace(delegate(), source=source_of(PodRef("kube-system", "web", "source-uid"), 1))
    assert world.do(order).verdict == REFUSED


def test_a_cluster_makes_no_delegate_of_its_own_pod() -> None:
    world = target()
    order = msgspec.structs.replace(delegate(), source=source_of(SOURCE, 1, cluster="b"))
    assert world.do(order).verdict == REFUSED


def delete(world: World, epoch: int) -> None:
    """The delegate is deleted, its containers end, and the view shows it."""
    world.sync()
    ref = PodRef("default", delegate_of(SOURCE), the_delegate(world)["metadata"]["uid"])
    assert world.do(DeleteDelegate("d", ref, epoch)).verdict == DONE
    world.api.kubelet_stops()
    world.sync()


def test_a_delegate_is_deleted_gracefully_and_a_late_copy_of_its_order_makes_no_other() -> None:
    world = target()
    world.do(delegate())
    delete(world, epoch=1)
    assert world.do(delegate(epoch=1)).verdict == STALE
    assert world.api.pods() == []


def test_a_delegate_that_somebody_has_deleted_is_not_made_again_by_a_late_copy_of_its_order() -> None:
    world = target()
    assert world.do(delegate()).verdict == BOUND
    del world.api.objects[pod_path(delegate_name(source_of(SOURCE, 1)))]  # an eviction, and its kubelet has ended it
    world.sync()
    late = world.do(delegate())
    assert (late.verdict, late.message) == (STALE, "attempt 1 was given up")
    assert not world.api.pods()
    assert world.do(delegate(epoch=2)).verdict == BOUND


def test_a_late_copy_of_an_attempt_that_only_found_the_delegate_makes_no_other_either() -> None:
    world = target()
    world.do(delegate(epoch=1))
    world.do(delegate(epoch=7))
    delete(world, epoch=9)
    assert world.do(delegate(epoch=7)).verdict == STALE
    assert world.do(delegate(epoch=10)).verdict == BOUND


@pytest.mark.parametrize("closed", [False, True], ids=["a newer attempt was heard", "it was given up"])
def test_an_order_that_comes_too_late_denies_no_delegate_that_is_bound(closed: bool) -> None:
    world = target()
    world.do(delegate(epoch=1))
    if closed:
        world.local.epoch_guard.invalidate(SOURCE.uid, 1, 1)
    else:
        world.local.epoch_guard.outdated(SOURCE.uid, 1, 7)
    assert world.do(delegate(epoch=1)).verdict == BOUND
    assert world.api.count("bind") == 1


@pytest.mark.parametrize(("answer", "verdict"), [(0, UNKNOWN), (500, UNKNOWN), (403, UNKNOWN), (404, STALE)])
def test_an_order_that_comes_too_late_is_stale_only_where_the_server_has_no_delegate(answer: int, verdict: str) -> None:
    world = target()
    world.local.epoch_guard.outdated(SOURCE.uid, 1, 7)
    said = run(carry_out(delegate(epoch=1), 1, world.local, NOW), lambda _: Response(answer))
    assert said.verdict == verdict
    assert "superseded by attempt 7" in said.message


def test_an_order_that_comes_too_late_leaves_a_delegate_without_a_node_to_the_newer_attempt() -> None:
    world = target()
    run(carry_out(delegate(epoch=1), 1, world.local, NOW), lost_bind(world))
    world.local.epoch_guard.outdated(SOURCE.uid, 1, 7)
    assert world.do(delegate(epoch=1)).verdict == UNKNOWN
    assert len(world.api.pods()) == 1


def failing_webhook(world: World) -> Callable[[Request], Response]:
    """kube-apiserver's answer where a webhook with failurePolicy Fail is down: 500, and nothing was stored."""
    said = (
        b'{"kind":"Status","code":500,"message":"Internal error occurred: failed calling webhook \\"a.b.c\\": refused"}'
    )
    return lambda request: Response(500, said) if request.method == "POST" else world.api.answer(request)


def test_a_webhook_of_the_target_that_fails_refuses_the_delegate() -> None:
    world = target()
    outcome = run(carry_out(delegate(), 1, world.local, NOW), failing_webhook(world))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert 'failed calling webhook "a.b.c"' in outcome.message
    assert world.api.pods() == []


def lost_bind(world: World) -> Callable[[Request], Response]:
    """Binds get lost on the way there."""
    return lambda request: Response(0) if request.path.endswith("/binding") else world.api.answer(request)


def test_a_late_copy_of_a_refused_order_makes_nothing_and_repeats_why() -> None:
    world = target(node_object(cpu="50m"))
    assert world.do(delegate(epoch=1)).verdict == REFUSED
    world.api.put_node(node_object())
    world.sync()
    late = world.do(delegate(epoch=1))
    assert (late.verdict, late.message) == (STALE, 'attempt 1 was given up: node "n1": Insufficient cpu')
    assert world.api.pods() == []
    assert world.do(delegate(epoch=2)).verdict == BOUND


def test_a_refusal_gives_back_the_room_that_an_unknown_attempt_held() -> None:
    world = target(node_object(cpu="150m"))
    first, second = PodRef("default", "one", "u1"), PodRef("default", "two", "u2")
    assert run(carry_out(delegate(ref=first), 1, world.local, NOW), lambda _: Response(0)).verdict == UNKNOWN
    world.api.put_node(node_object(cpu="150m", unschedulable=True))
    world.sync()
    assert world.do(delegate(ref=first)).verdict == REFUSED
    world.api.put_node(node_object(cpu="150m"))
    world.sync()
    assert world.do(delegate(ref=second)).verdict == BOUND


def test_deleting_a_delegate_that_is_gone_or_was_made_again_is_done_without_a_delete() -> None:
    world = target()
    world.do(delegate())
    old = PodRef("default", delegate_of(SOURCE), "older-uid")
    assert world.do(DeleteDelegate("d", old, 1)).verdict == DONE
    assert world.api.count("delete") == 0


OTHERS = {
    "another pod": {"uid": "another-uid"},
    "a pod of another cluster with the same UID": {"cluster": "c", "cluster_uid": "c-cluster-uid"},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("shown", [True, False], ids=["the view shows it", "the view is late"])
def test_the_delegate_of_another_source_than_the_order_names_is_not_deleted(other: str, shown: bool) -> None:
    world = target()
    world.do(delegate())
    if shown:
        world.sync()
    ref = PodRef("default", delegate_of(SOURCE), the_delegate(world)["metadata"]["uid"])
    named = msgspec.structs.replace(source_of(SOURCE, 1), **OTHERS[other])
    told = world.do(DeleteDelegate("d", ref, 1, named))
    assert (told.verdict, world.api.count("delete")) == (REFUSED, 0)
    assert "is the delegate of a default/web" in told.message


@pytest.mark.parametrize("epoch", [1, 2], ids=["its attempt", "a later attempt that found it"])
@pytest.mark.parametrize("shown", [True, False], ids=["the view shows it", "the view is late"])
def test_the_delegate_of_the_source_that_the_order_names_is_deleted(epoch: int, shown: bool) -> None:
    world = target()
    world.do(delegate())
    if shown:
        world.sync()
    ref = PodRef("default", delegate_of(SOURCE), the_delegate(world)["metadata"]["uid"])
    assert world.do(DeleteDelegate("d", ref, epoch, source_of(SOURCE, epoch))).verdict == DONE
    assert world.api.count("delete") == 1


@pytest.mark.parametrize(("told", "has"), [(-1, 30), (0, 1), (5, 5), (600, 600)])
def test_a_delegate_has_as_long_to_end_as_its_source_was_given(told: int, has: int) -> None:
    world = target()
    world.do(delegate())
    ref = PodRef("default", delegate_of(SOURCE), the_delegate(world)["metadata"]["uid"])
    assert world.do(DeleteDelegate("d", ref, 1, grace_s=told)).verdict == DONE
    assert the_delegate(world)["metadata"]["deletionGracePeriodSeconds"] == has


@pytest.mark.parametrize(
    ("first", "second", "asked", "has"), [(300, 5, 2, 5), (300, 0, 2, 1), (5, 300, 1, 5), (5, -1, 1, 5), (5, 5, 1, 5)]
)
def test_a_delegate_that_ends_is_deleted_again_where_its_source_was_given_less_time(
    first: int, second: int, asked: int, has: int
) -> None:
    world = target()
    world.do(delegate())
    ref = PodRef("default", delegate_of(SOURCE), the_delegate(world)["metadata"]["uid"])
    for grace_s in (first, second):
        world.do(DeleteDelegate("d", ref, 1, grace_s=grace_s))
        world.sync()
    assert world.api.count("delete") == asked
    assert the_delegate(world)["metadata"]["deletionGracePeriodSeconds"] == has


def test_a_pod_that_is_no_delegate_is_never_deleted() -> None:
    world = target()
    ref = world.submit()
    assert world.do(DeleteDelegate("d", ref, 1)).verdict == REFUSED
    assert world.api.count("delete") == 0


@given(name=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True), uid=st.uuids())
def test_a_delegate_name_is_a_dns_label_and_a_function_of_the_source_alone(name: str, uid: object) -> None:
    source = SourceRef("a", "cluster-uid", "ns", name, str(uid), epoch=1)
    derived = delegate_name(source)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", derived)
    assert derived == delegate_name(msgspec.structs.replace(source, epoch=9, namespace="other"))
    assert derived != delegate_name(msgspec.structs.replace(source, cluster_uid="another"))


def test_a_claimed_manifest_is_what_a_delegate_is_made_of() -> None:
    manifest = sanitise(msgspec.json.encode(pod_object()))
    world = target()
    assert world.do(order_for(SOURCE, 1, "n1", manifest)).verdict == BOUND
