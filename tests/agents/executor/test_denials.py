"""A webhook, or an admission policy, chooses the HTTP status of its denial: whatever it is, the denial is a refusal."""

import msgspec
import pytest

from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    REFUSED,
    UNKNOWN,
    AnyIntent,
    Bind,
    Claim,
    DeleteDelegate,
    Evict,
    Outcome,
    PodRef,
)
from tests.agents.executor.world import NOW, World, order_for, pod_object, run

SOURCE = PodRef("default", "web", "source-uid")
DENIALS = {
    "a webhook": 'admission webhook "quota.example.com" denied the request: not today',
    "a webhook without words": 'admission webhook "quota.example.com" denied the request without explanation',
    "a policy": "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today",
}
PASSING = {401: False, 403: False, 404: False, 409: False, 422: False, 429: True, 500: True, 503: True}


def _target() -> tuple[World, AnyIntent, str]:
    return World(cluster="b"), order_for(SOURCE, 1, "n1", msgspec.json.encode(pod_object())), "/pods"


def _binding_there() -> tuple[World, AnyIntent, str]:
    world, order, _ = _target()
    return world, order, "/binding"


def _binding_at_home() -> tuple[World, AnyIntent, str]:
    world = World()
    return world, Bind("i", world.submit(), 1, "n1"), "/binding"


def _claim() -> tuple[World, AnyIntent, str]:
    world = World()
    return world, Claim("i", world.submit(), 1, "b", "b1"), "/pods"


PLACING = {"create": _target, "bind there": _binding_there, "bind at home": _binding_at_home, "claim": _claim}


def _denied(world: World, order: AnyIntent, path: str, code: int, words: str) -> Outcome:
    reply = Response(code, msgspec.json.encode({"kind": "Status", "code": code, "message": words}))

    def answer(request: Request) -> Response:
        return reply if request.method != "GET" and path in request.path else world.api.answer(request)

    return run(carry_out(order, 1, world.local, NOW), answer)


@pytest.mark.parametrize("denial", DENIALS)
@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize("step", PLACING)
def test_a_denial_of_any_status_is_a_refusal_with_its_words(step: str, code: int, denial: str) -> None:
    world, order, path = PLACING[step]()
    outcome = _denied(world, order, path, code, DENIALS[denial])
    assert (outcome.verdict, outcome.passing) == (REFUSED, PASSING[code])
    assert DENIALS[denial] in outcome.message
    assert f"HTTP {code}" in outcome.message
    assert "not ours" not in outcome.message
    assert all(not pod["metadata"]["name"].startswith("web-") for pod in world.api.pods())


@pytest.mark.parametrize("step", PLACING)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(429, "too many requests, please try again later", id="priority and fairness"),
        pytest.param(401, "Unauthorized", id="credentials to renew"),
        pytest.param(503, "the server is currently unable to handle the request", id="overloaded"),
        pytest.param(504, 'proxy said: admission webhook "x" denied the request', id="words of somebody else"),
    ],
)
def test_what_the_server_itself_postpones_stays_unknown(step: str, code: int, words: str) -> None:
    world, order, path = PLACING[step]()
    assert _denied(world, order, path, code, words).verdict == UNKNOWN


@pytest.mark.parametrize("code", [404, 409, 429])
def test_a_delete_that_is_denied_as_not_found_deletes_nothing_and_is_no_end(code: int) -> None:
    world, order, _ = _target()
    assert world.do(order).verdict == BOUND
    world.sync()
    meta = world.api.pods()[0]["metadata"]
    ref = PodRef(meta["namespace"], meta["name"], meta["uid"])
    outcome = _denied(world, DeleteDelegate("d", ref, 2), "/pods/", code, DENIALS["a webhook"])
    assert outcome.verdict == REFUSED


def test_an_eviction_that_is_denied_as_not_found_is_no_eviction() -> None:
    world, order, _ = _target()
    assert world.do(order).verdict == BOUND
    world.sync()
    meta = world.api.pods()[0]["metadata"]
    ref = PodRef(meta["namespace"], meta["name"], meta["uid"])
    move = Evict("e", ref, 2, "n1", 0, "", "hot", local_data=True)
    assert _denied(world, move, "/eviction", 404, DENIALS["a webhook"]).verdict == REFUSED
