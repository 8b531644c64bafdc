"""Nobody is evicted for a pod of another cluster that this one would refuse."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.intents.delegate import delegate_name
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import BOUND, DONE, OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate, Evict, Outcome, PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, order_for, pod_object, run, source_of

REF = PodRef("default", "urgent", "u-urgent")
Answers = Callable[[Request], Response | None]


def made(**spec: Any) -> bytes:
    return msgspec.json.encode(pod_object(**spec))


def error(status: int, message: str, **details: Any) -> Response:
    return Response(status, msgspec.json.encode({"kind": "Status", "message": message, "code": status, **details}))


def nothing_else(request: Request) -> None:
    """Everything is answered as the server would."""


class Target:
    """Cluster b, whose pod `web` is on n1, and who asked what of it."""

    def __init__(self, answers: Answers = nothing_else, policy: ExecutorPolicy | None = None) -> None:
        self.world = World(cluster="b", policy=policy or ExecutorPolicy())
        pod = pod_object(nodeName="n1", priority=5)
        pod["status"]["phase"] = "Running"
        self.victim, self._answers, self.tried = self.world.submit(pod), answers, 0

    def evict(self, manifest: bytes) -> Outcome:
        order = Evict("i", self.victim, 1, "n1", 100, "default/urgent", source=source_of(REF, 7), manifest=manifest)
        return run(carry_out(order, 1, self.world.local, NOW), self._said)

    def create(self, order: CreateDelegate) -> Outcome:
        return run(carry_out(order, 1, self.world.local, NOW), self._said)

    def _said(self, request: Request) -> Response:
        self.tried += request.path.endswith("?dryRun=All")
        return self._answers(request) or self.world.api.answer(request)


def posting(answer: Response) -> Answers:
    return lambda request: answer if request.method == "POST" and request.path.endswith("?dryRun=All") else None


def test_a_pod_is_evicted_for_one_that_the_server_would_take_which_is_not_made_by_that() -> None:
    target = Target()
    assert target.evict(made()).verdict == DONE
    assert target.tried == 1
    assert [done[0] for done in target.world.api.done] == ["patch", "delete"]


def test_where_an_older_build_says_nothing_of_what_crosses_it_is_evicted_without_that_question() -> None:
    target = Target()
    assert target.evict(b"").verdict == DONE
    assert target.tried == 0


CONFIG_MAP = {"containers": [{"name": "c", "image": "x", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}
ODD_CONFIG_MAP = {"containers": [{"name": "c", "image": "x", "envFrom": [{"configMapRef": {"name": ["settings"]}}]}]}
QUOTA = 'pods "urgent" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5'
# id -> (target, manifest, words of the refusal)
REFUSALS: dict[str, tuple[Callable[[], Target], bytes, str]] = {
    "its policy lets nobody in": (
        lambda: Target(policy=ExecutorPolicy(closed=("default",))),
        made(),
        "namespace",
    ),
    "it lacks the PriorityClass": (Target, made(priorityClassName="gold"), "gold"),
    "it lacks a ConfigMap": (Target, made(**CONFIG_MAP), "settings"),
    "a ConfigMap has no name that is one": (Target, made(**ODD_CONFIG_MAP), "is not readable as a pod"),
    "it lacks the namespace": (lambda: Target(posting(error(404, "namespaces not found"))), made(), "namespace"),
    "a quota is full": (lambda: Target(posting(error(403, QUOTA))), made(), QUOTA),
    "a webhook denies it": (
        lambda: Target(posting(error(400, 'admission webhook "w" denied the request: no'))),
        made(),
        "denied the request",
    ),
    "what crosses is no pod": (Target, b"{", ""),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_nobody_is_evicted_for_a_pod_that_would_be_refused_as(case: str) -> None:
    make, manifest, words = REFUSALS[case]
    target = make()
    found = target.evict(manifest)
    assert (found.verdict, found.scope) == (REFUSED, OF_CLUSTER)
    assert found.message.startswith("it would not take pod default/urgent of cluster a: ")
    assert words in found.message
    assert target.world.api.done == []


def test_what_is_refused_here_is_refused_when_it_comes() -> None:
    for make, manifest, _ in (REFUSALS["it lacks the PriorityClass"], REFUSALS["it lacks a ConfigMap"]):
        asked = make().evict(manifest).message.removeprefix("it would not take pod default/urgent of cluster a: ")
        assert make().create(order_for(REF, 7, "n1", manifest)).message == asked


def test_nobody_is_evicted_where_another_pod_has_the_name_that_it_would_have() -> None:
    target = Target()
    target.world.submit(pod_object(delegate_name(source_of(REF, 7))))
    found = target.evict(made())
    assert (found.verdict, found.scope) == (REFUSED, OF_CLUSTER)
    assert "exists and is not the delegate of a default/urgent" in found.message
    assert target.world.api.done == []


def test_it_is_evicted_for_a_pod_that_is_here_already() -> None:
    target = Target()
    assert target.create(order_for(REF, 7, "n1", made())).verdict == BOUND
    target.world.sync()
    assert target.evict(made()).verdict == DONE
    assert target.tried == 0


def test_it_is_evicted_for_a_pod_that_lacks_nothing_but_the_room_it_has() -> None:
    target = Target()
    size = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "999"}}}]}
    assert target.create(order_for(REF, 7, "n1", made(**size))).verdict == REFUSED
    assert target.evict(made(**size)).verdict == DONE


def test_while_the_server_does_not_say_nobody_is_evicted() -> None:
    target = Target(posting(Response(0, b"reset")))
    found = target.evict(made())
    assert found.verdict == UNKNOWN
    assert target.world.api.done == []


def test_a_webhook_that_takes_away_whose_it_is_refuses_it() -> None:
    stripped = pod_object()
    stripped["metadata"]["labels"] = {}
    answer = Response(201, msgspec.json.encode({**stripped, "metadata": {**stripped["metadata"], "uid": "x"}}))
    target = Target(posting(answer))
    assert target.evict(made()).verdict == REFUSED
    assert target.world.api.done == []


def test_it_is_asked_of_pods_that_go_at_all() -> None:
    target = Target()
    order = Evict("i", target.victim, 1, "n1", 5, source=source_of(REF, 7), manifest=made())
    assert run(carry_out(order, 1, target.world.local, NOW), target._said).verdict == REFUSED
    assert target.tried == 0
    assert names.FINALIZER not in msgspec.json.encode(target.world.api.pod("web")).decode()
