"""Delegates that nobody goes on with: unbound, not signed for, and as old as no order needs to bind them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.crossing.manifest import sanitise
from agents.executor.duties import orphan_delegates
from agents.executor.duties.orphan_delegates import LEFT_S, NOT_OURS_S
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import BOUND, UNKNOWN, CreateDelegate, PodRef
from shared.model import names
from shared.security.signatures import read_claim
from tests.agents.executor.world import NOW, World, delegate_of, keys_of, order_for, pod_object, run

Object = dict[str, Any]
SOURCE = PodRef("default", "web", "source-uid")
MANIFEST = sanitise(msgspec.json.encode(pod_object()))


def order(epoch: int = 1, *, target: str = "b", cluster: str = "a") -> CreateDelegate:
    return order_for(SOURCE, epoch, "n1", MANIFEST, target=target, cluster=cluster)


def landed(changes: Callable[[Object], None] = lambda pod: None) -> World:
    """Cluster b, in which a POST has landed whose order nobody goes on with."""
    world = World(cluster="b")
    pod = pod_object(delegate_of(SOURCE))
    pod["metadata"]["labels"][names.DELEGATE_LABEL] = "true"
    pod["metadata"]["annotations"] = {names.CLAIM: order().record}
    pod["spec"]["schedulerName"] = names.DELEGATE_SCHEDULER
    changes(pod)
    world.submit(pod)
    return world


class Duty:
    """The executor of a cluster looks for leftovers."""

    def __init__(self, world: World) -> None:
        self.world = world

    def tend(self, seconds: float, answer: Callable[[Request], Response] | None = None) -> list[str]:
        """Look at what is due after so many seconds: what went wrong, one text a task."""
        now = NOW._replace(mono=NOW.mono + seconds)
        due = orphan_delegates.reconcile_tasks(self.world.local, now)
        return [run(task.procedure, answer or self.world.api.answer) for task in due]

    @property
    def left(self) -> int:
        return len(self.world.api.pods())


def test_what_is_left_unbound_for_long_is_deleted_and_forgotten_once_it_is_seen_to_be_gone() -> None:
    it = Duty(landed())
    assert it.tend(0) == it.tend(LEFT_S - 0.1) == []
    assert it.left == 1
    assert it.tend(LEFT_S) == [""]
    assert it.left == 0
    assert it.tend(LEFT_S + 1) == []  # the view has not caught up
    it.world.sync()
    assert it.tend(3 * LEFT_S) == []
    assert it.world.local.unfinished == {}


def test_one_that_is_bound_meanwhile_is_none_any_more() -> None:
    it = Duty(landed())
    it.tend(0)
    assert it.world.do(order()).verdict == BOUND  # made anew: what is not signed for is not gone on with
    assert it.tend(LEFT_S) == [""]  # of the one that the view still shows
    it.world.sync()
    assert it.tend(3 * LEFT_S) == []
    assert it.left == 1


def test_a_binding_that_lands_in_between_wins() -> None:
    it = Duty(landed())
    it.tend(0)
    (pod,) = it.world.api.pods()

    def landing(request: Request) -> Response:
        if request.method == "DELETE":
            pod["spec"]["nodeName"] = "n1"
            pod["metadata"]["resourceVersion"] = "999"
        return it.world.api.answer(request)

    assert it.tend(LEFT_S, landing) != [""]
    assert it.left == 1
    assert it.world.api.count("delete") == 0


def test_while_the_server_does_not_answer_nothing_is_concluded() -> None:
    it = Duty(landed())
    it.tend(0)
    assert it.tend(LEFT_S, lambda _: Response(0, b"timeout")) != [""]
    assert it.tend(LEFT_S + 1) == [""]
    assert it.left == 0


def _claim(record: str) -> Callable[[Object], None]:
    return lambda pod: pod["metadata"]["annotations"].update({names.CLAIM: record})


def _signed_by_another() -> str:
    signed = read_claim(order().record)
    assert signed is not None
    return keys_of("c").sign_claim(signed)


def _named(pod: Object) -> None:
    pod["metadata"]["name"] = "mine"


def _bound(pod: Object) -> None:
    pod["spec"]["nodeName"] = "n1"


def _another_scheduler(pod: Object) -> None:
    pod["spec"]["schedulerName"] = "mine"


@pytest.mark.parametrize(
    "changes",
    [
        _claim(""),
        _claim("nonsense"),
        _claim(order(target="c").record),
        _claim(order(cluster="c").record),
        _claim(_signed_by_another()),
        _named,
        _bound,
        _another_scheduler,
    ],
)
def test_what_only_looks_like_one_is_left_alone(changes: Callable[[Object], None]) -> None:
    it = Duty(landed(changes))
    it.tend(0)
    assert it.tend(LEFT_S) in ([], [""])
    assert it.world.api.done == []


def test_without_the_keys_of_its_home_cluster_it_waits_for_them() -> None:
    it = Duty(landed())
    it.world.local.trusted.forget("a")
    it.tend(0)
    assert (it.tend(LEFT_S), it.left) == ([""], 1)
    it.world.local.trusted.trust("a", "a-cluster-uid", keys_of("a").endorsed_keys())
    assert (it.tend(2 * LEFT_S), it.left) == ([""], 0)


def test_an_order_that_ended_between_creation_and_binding_leaves_one_that_is_collected() -> None:
    world = World(cluster="b")

    def dies(request: Request) -> Response:
        return Response(0, b"timeout") if request.path.endswith("/binding") else world.api.answer(request)

    assert run(carry_out(order(), 1, world.local, NOW), dies).verdict == UNKNOWN
    world.restart()
    it = Duty(world)
    it.tend(0)
    assert (it.tend(LEFT_S), it.left) == ([""], 0)


def test_a_strangers_pod_that_names_our_scheduler_is_looked_at_seldom() -> None:
    it = Duty(landed(lambda pod: pod["metadata"]["annotations"].clear()))
    it.tend(0)
    assert it.tend(LEFT_S) == [""]
    assert it.tend(2 * LEFT_S) == it.tend(NOT_OURS_S + LEFT_S - 1) == []
    assert it.tend(NOT_OURS_S + LEFT_S) == [""]
    assert it.left == 1
