"""What a refusal is about: a node, the cluster, or the pod; so the dispatcher knows who to pass over."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import OF_CLUSTER, OF_NODE, OF_POD, REFUSED, Bind, Claim, CreateDelegate, Outcome, PodRef
from tests.agents.executor.world import NOW, World, node_object, order_for, pod_object, run

SOURCE = PodRef("default", "web", "source-uid")
NO = Response(403, b'{"message":"denied by a webhook"}')


def create(world: World, ref: PodRef = SOURCE, *, denied: str = "", **spec: Any) -> Outcome:
    manifest = msgspec.json.encode(pod_object(**spec))
    return _do(world, order_for(ref, 1, "n1", manifest), denied)


def _do(world: World, order: CreateDelegate | Claim | Bind, denied: str) -> Outcome:
    def answer(request: Request) -> Response:
        return NO if denied and request.method != "GET" and denied in request.path else world.api.answer(request)

    return run(carry_out(order, 1, world.local, NOW), answer)


def target(*nodes: dict[str, object], policy: ExecutorPolicy | None = None) -> World:
    return World(*nodes, cluster="b", policy=policy)


def bind(cpu: str = "100m", denied: str = "") -> Outcome:
    world = World(node_object(cpu="1"))
    return _do(world, Bind("i", world.submit(pod_object(cpu=cpu)), 1, "n1"), denied)


def claim(denied: str = "", **spec: Any) -> Outcome:
    world = World()
    return _do(world, Claim("i", world.submit(pod_object(**spec)), 1, "b", "b1"), denied)


CASES: dict[str, tuple[Callable[[], Outcome], str]] = {
    "no room": (lambda: create(target(node_object(cpu="50m"))), OF_NODE),
    "no namespace": (lambda: create(target(), PodRef("team-x", "web", "u")), OF_CLUSTER),
    "policy": (lambda: create(target(policy=ExecutorPolicy(accept=(Accept(clusters=("z",)),)))), OF_CLUSTER),
    "what the target does not take": (lambda: create(target(), hostPID=True), OF_CLUSTER),
    "a webhook at the target": (lambda: create(target(), denied="/pods"), OF_CLUSTER),
    "a binding denied at the target": (lambda: create(target(), denied="/binding"), OF_CLUSTER),
    "no room at home": (lambda: bind(cpu="2"), OF_NODE),
    "a binding denied at home": (lambda: bind(denied="/binding"), OF_CLUSTER),
    "a field that cannot travel": (lambda: claim(hostPID=True), OF_POD),
    "a claim denied at home": (lambda: claim(denied="/pods"), OF_POD),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_says_what_it_is_about(case: str) -> None:
    do, scope = CASES[case]
    outcome = do()
    assert (outcome.verdict, outcome.scope) == (REFUSED, scope)
