"""A pod under a delegate's one name that is not as ordered: ours is waited for, others' is left alone."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.crossing.manifest import sanitise
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    DELETING,
    DONE,
    OF_CLUSTER,
    REFUSED,
    STALE,
    UNKNOWN,
    ConfirmNoDelegate,
    CreateDelegate,
    Outcome,
    PodRef,
)
from shared.model import names
from shared.model.pod import SourceRef
from tests.agents.executor.world import NOW, World, delegate_of, order_for, pod_object, pod_path, run, source_of

Object = dict[str, Any]
Answering = Callable[[Request], Response]
SOURCE = PodRef("default", "web", "source-uid")
MANIFEST = sanitise(msgspec.json.encode(pod_object()))
OTHER = "yunikorn"


def order(epoch: int = 1) -> CreateDelegate:
    return order_for(SOURCE, epoch, "n1", MANIFEST)


def confirm(epoch: int = 2, *, collect: bool = True) -> ConfirmNoDelegate:
    return ConfirmNoDelegate("c", SOURCE, epoch, source_of(SOURCE, epoch), collect)


def placed(world: World, answer: Answering, epoch: int = 1) -> Outcome:
    return run(carry_out(order(epoch), 1, world.local, NOW), answer)


def another_scheduler(pod: Object) -> None:
    pod["spec"]["schedulerName"] = OTHER


def a_node(pod: Object) -> None:
    pod["spec"]["nodeName"] = "n1"


def both(pod: Object) -> None:
    """Another scheduler's pod, which that scheduler has bound at once."""
    another_scheduler(pod)
    a_node(pod)


def bare(pod: Object) -> None:
    """The same, and nothing on it says any more whose it is."""
    both(pod)
    del pod["metadata"]["annotations"], pod["metadata"]["labels"]


def webhook(world: World, changes: Callable[[Object], None], *, lost: bool = False) -> Answering:
    """The server, with a webhook that changes what is created; with `lost` the replies to that are lost."""

    def answer(request: Request) -> Response:
        if not (request.method == "POST" and request.path.endswith("/pods")):
            return world.api.answer(request)
        pod = msgspec.json.decode(request.body)
        changes(pod)
        said = world.api.answer(Request("POST", request.path, msgspec.json.encode(pod)))
        return Response(0, b"timeout") if lost else said

    return answer


SAID: dict[Callable[[Object], None], str] = {
    another_scheduler: f'the server gave it to scheduler "{OTHER}"',
    a_node: 'the server bound it to node "n1" by itself',
    both: 'the server bound it to node "n1" by itself',
    bare: f"the server took our mark off: labels {names.DELEGATE_LABEL}",
}


@pytest.mark.parametrize("changes", [a_node, both, bare])
def test_one_that_a_webhook_bound_is_waited_for_then_refused_with_words_and_not_made_again(
    changes: Callable[[Object], None],
) -> None:
    world = World(cluster="b")
    answer = webhook(world, changes)
    first = placed(world, answer)
    assert (first.verdict, first.message) == (UNKNOWN, f"{SAID[changes]}; it is being deleted")
    (pod,) = world.api.pods()
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert placed(world, answer).verdict == UNKNOWN
    world.api.kubelet_stops()
    last = placed(world, answer)
    assert (last.verdict, last.message, world.api.count("create")) == (REFUSED, SAID[changes], 1)


@pytest.mark.parametrize("changes", [a_node, both])
def test_one_that_a_webhook_changed_unseen_goes_nowhere_else_before_it_is_gone(
    changes: Callable[[Object], None],
) -> None:
    world = World(cluster="b")
    assert placed(world, webhook(world, changes, lost=True)).verdict == UNKNOWN
    (pod,) = world.api.pods()
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert world.do(confirm()).verdict == STALE
    world.restart()
    assert world.do(order()).verdict == UNKNOWN
    world.api.kubelet_stops()
    assert world.do(order()).verdict == BOUND


def test_one_that_another_scheduler_was_given_unseen_and_has_not_bound_is_deleted_at_once_and_refused() -> None:
    world = World(cluster="b")
    outcome = placed(world, webhook(world, another_scheduler, lost=True))
    assert (outcome.verdict, outcome.message) == (REFUSED, SAID[another_scheduler])
    assert world.api.pods() == []


def copy_of_another_scheduler(world: World) -> None:
    """The delegate is there with its claim, but another scheduler runs it."""
    pod = pod_object(delegate_of(SOURCE), schedulerName=OTHER, nodeName="n1")
    pod["metadata"]["annotations"] = {names.CLAIM: order().record}
    world.submit(pod)


def test_absence_is_not_confirmed_while_another_scheduler_runs_the_copy() -> None:
    world = World(cluster="b")
    copy_of_another_scheduler(world)
    assert world.do(confirm(collect=False)).verdict == STALE
    assert world.api.count("delete") == 0
    assert [world.do(confirm()).verdict for _ in range(2)] == [STALE, STALE]
    world.api.kubelet_stops()
    assert world.do(confirm()).verdict == DONE


def test_absence_is_not_confirmed_while_the_keys_that_would_tell_whose_it_is_are_not_known() -> None:
    world = World(cluster="b")
    copy_of_another_scheduler(world)
    world.local.trusted.forget("a")
    outcome = world.do(confirm())
    assert (outcome.verdict, world.api.count("delete")) == (UNKNOWN, 0)
    assert 'the keys of cluster "a" are not known here yet' in outcome.message


def test_an_order_that_comes_too_late_does_not_deny_a_copy_of_another_scheduler_and_ends_it_if_nobody_goes_on() -> None:
    world = World(cluster="b")
    copy_of_another_scheduler(world)
    world.local.epoch_guard.outdated(SOURCE.uid, 1, 7)
    assert (world.do(order()).verdict, world.api.count("delete")) == (UNKNOWN, 0)
    world.local.epoch_guard.invalidate(SOURCE.uid, 1, 7)
    assert (world.do(order()).verdict, world.api.count("delete")) == (UNKNOWN, 1)
    assert world.do(order()).verdict == UNKNOWN
    world.api.kubelet_stops()
    assert world.do(order()).verdict == STALE


FOREIGN_CLAIMS = {
    "none": "",
    "no claim at all": "nonsense",
    "one that another cluster has signed": order_for(SOURCE, 1, "n1", MANIFEST, cluster="c").record,
    "one of another pod": order_for(PodRef("default", "web", "another"), 1, "n1", MANIFEST).record,
    "one for another cluster": order_for(SOURCE, 1, "n1", MANIFEST, target="c").record,
}


@pytest.mark.parametrize("what", FOREIGN_CLAIMS)
@pytest.mark.parametrize("going", [False, True], ids=["there", "being deleted"])
def test_a_pod_of_somebody_else_under_the_name_is_refused_and_neither_deleted_nor_taken_for_ours(
    what: str, going: bool
) -> None:
    world = World(cluster="b")
    pod = pod_object(delegate_of(SOURCE), nodeName="n1")
    pod["metadata"]["annotations"] = {names.CLAIM: FOREIGN_CLAIMS[what]}
    if going:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.submit(pod)
    assert world.do(order()).verdict == REFUSED
    assert world.do(confirm()).verdict == DONE
    assert world.api.done == []


def test_pods_of_a_home_cluster_that_was_rebuilt_under_its_name_are_refused_with_the_way_out() -> None:
    world = World(cluster="b")
    source = SourceRef("a", "a-rebuilt-uid", "default", "web", SOURCE.uid, 1)
    outcome = world.do(msgspec.structs.replace(order(), source=source))
    assert (outcome.verdict, outcome.scope, world.api.done) == (REFUSED, OF_CLUSTER, [])
    assert "a-cluster-uid" in outcome.message
    assert "a-rebuilt-uid" in outcome.message
    assert "cluster forget-keys a" in outcome.message
    world.local.trusted.forget("a")
    assert world.do(msgspec.structs.replace(order(epoch=2), source=source)).verdict == UNKNOWN


# --- a binding that lands late ---------------------------------------------------------------------------------------


def unbound_delegate(world: World) -> Request:
    """A delegate whose binding is still on its way: that request."""
    under_way: list[Request] = []

    def slow(request: Request) -> Response:
        if not request.path.endswith("/binding"):
            return world.api.answer(request)
        under_way.append(request)
        return Response(0, b"timeout")

    assert placed(world, slow).verdict == UNKNOWN
    return under_way[-1]


def landing_before_the_delete(world: World, late: Request) -> Answering:
    """The late request reaches the server after a look at the pod and before its deletion."""
    waiting = [late]

    def answer(request: Request) -> Response:
        if request.method == "DELETE" and waiting:
            world.api.answer(waiting.pop())
        return world.api.answer(request)

    return answer


def test_a_delegate_whose_binding_lands_while_it_is_to_be_made_anew_is_taken_for_what_it_is() -> None:
    world = World(cluster="b")
    late = unbound_delegate(world)
    assert placed(world, landing_before_the_delete(world, late)).verdict == BOUND
    assert (world.api.count("delete"), len(world.api.pods())) == (0, 1)


def test_a_refused_delegate_whose_binding_lands_is_not_denied() -> None:
    world = World(cluster="b")
    late = unbound_delegate(world)
    world.restart(listed=False)
    assert placed(world, landing_before_the_delete(world, late)).verdict == BOUND


def test_absence_is_not_confirmed_of_a_delegate_whose_binding_lands() -> None:
    world = World(cluster="b")
    late = unbound_delegate(world)
    procedure = carry_out(confirm(collect=False), 1, world.local, NOW)
    assert run(procedure, landing_before_the_delete(world, late)).verdict == UNKNOWN
    assert (world.api.count("delete"), world.do(confirm(collect=False)).verdict) == (0, STALE)


# --- a creation that lands late --------------------------------------------------------------------------------------


def refused_with_a_post_under_way(world: World) -> Request:
    """An order whose first POST hangs, and whose second is answered with a refusal; the first."""
    under_way: list[Request] = []

    def slow(request: Request) -> Response:
        if not (request.method == "POST" and request.path.endswith("/pods")):
            return world.api.answer(request)
        under_way.append(request)
        return Response(0, b"timeout") if len(under_way) == 1 else Response(403, b'{"message":"no"}')

    assert placed(world, slow).verdict == REFUSED
    return under_way[0]


def test_what_a_late_creation_of_a_refused_order_made_is_deleted_when_the_order_is_sent_again() -> None:
    world = World(cluster="b")
    world.api.answer(refused_with_a_post_under_way(world))
    assert len(world.api.pods()) == 1
    again = world.do(order())  # whoever has not heard the refusal
    assert (again.verdict, again.message) == (STALE, "attempt 1 was given up: no (HTTP 403)")
    assert world.api.pods() == []


GOING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("shows", "verdict", "end"),
    [
        ({"status": {"phase": "Pending"}}, STALE, ""),
        ({"status": {"phase": "Running"}}, STALE, ""),
        ({"status": {"phase": "Succeeded"}}, DONE, "Succeeded"),
        ({"status": {"phase": "Failed"}}, DONE, "Failed"),
        (GOING, DONE, DELETING),
        ({**GOING, "status": {"phase": "Failed"}}, DONE, "Failed"),
    ],
)
def test_whether_a_delegate_goes_on_is_what_its_api_server_says_and_nothing_is_deleted_for_it(
    shows: Object, verdict: str, end: str
) -> None:
    world = World(cluster="b")
    assert placed(world, world.api.answer).verdict == BOUND
    for part, values in shows.items():
        world.api.objects[pod_path(delegate_of(SOURCE))][part].update(values)
    before = world.api.count("delete")
    uid = world.api.objects[pod_path(delegate_of(SOURCE))]["metadata"]["uid"]
    said = world.do(msgspec.structs.replace(confirm(collect=False), ended=True))
    assert (said.verdict, said.end, said.delegate_uid) == (verdict, end, uid if end else "")
    assert world.api.count("delete") == before
