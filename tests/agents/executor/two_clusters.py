"""Two clusters whose pods run in each other: what a pod of a names is at home, and comes to b."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from agents.executor.context.local import Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.duties.copy_upkeep import reconcile_tasks
from agents.executor.intents.procedures import carry_out
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.events import STALE_COPY
from agents.executor.objects.kinds import KINDS
from agents.executor.relayed import giving
from shared.kube.http import Request, Response
from shared.messages import CLAIMED, Claim, CreateDelegate, Outcome, Peer
from shared.messages.relay import (
    CONTENT,
    OBJECTS,
    GivenObjects,
    PodWants,
    RelayAsk,
    decode_given,
    decode_signed_given,
    encode_relay,
)
from shared.model.copy_names import copy_name
from tests.agents.executor.world import NOW, World, node_object, pod_object, run, source_of

HOME, THERE = "a", "b"
MAPS = "/api/v1/namespaces/default/configmaps"
COPY = copy_name("a-cluster-uid", "default", "ConfigMap", "settings")
RED, BLUE = {"colour": "red"}, {"colour": "blue"}


def moment(after_s: float) -> Moment:
    return Moment(NOW.mono + after_s, NOW.wall + after_s)


def status(code: int, message: str) -> Response:
    return Response(code, msgspec.json.encode({"kind": "Status", "message": message}))


class TwoClusters(ABC):
    """Pods of cluster a go to b. `asks`: of what b has asked a, with what it had; `cut`: why it cannot; `before`: sees
    each request of b. `crossed`: contents that a has given.
    """

    def __init__(self, policy: ExecutorPolicy | None = None) -> None:
        self.home = World(cluster=HOME, peers=(THERE,))
        self.there = World(node_object(cpu="100", pods="100"), cluster=THERE, policy=policy)
        self.asks: list[tuple[PodWants, ...]] = []
        self.crossed = 0
        self.cut = ""
        self.seal = b"k" * 32  # an agent of an older version gives none
        self.before: Callable[[Request], None] = lambda request: None
        self.gives: Callable[[GivenObjects], GivenObjects] = lambda given: given

    def claims(self, pod: dict[str, Any]) -> Outcome:
        """A new pod at home, and its claim."""
        self.ref = self.home.submit(pod)
        return self.home.do(Claim("c", self.ref, 1, THERE, "n1", "b-cluster-uid"))

    def orders(self, claimed: Outcome) -> CreateDelegate:
        """What b is told to do next."""
        assert claimed.verdict == CLAIMED, claimed.message
        source = source_of(self.ref, 1, HOME)
        return CreateDelegate("i", self.ref, 1, source, "n1", claimed.manifest, record=claimed.record)

    def carries_out(self, order: CreateDelegate, now: Moment = NOW) -> Outcome:
        outcome = run(carry_out(order, 1, self.there.local, now), self.answer)
        self.there.sync()
        return outcome

    def answer(self, request: Request) -> Response:
        """Of b's API server, or of the agent of a."""
        self.before(request)
        return self._given(request) if isinstance(request, PeerAsk) else self.at_target(request)

    def at_target(self, request: Request) -> Response:
        """Of b's API server."""
        return self.there.api.answer(request)

    def at_home(self, request: Request) -> Response:
        """Of a's."""
        return self.home.api.answer(request)

    def _given(self, ask: PeerAsk) -> Response:
        self.asks.append(ask.wants)
        if self.cut:
            return Response(0, self.cut.encode())
        about = (source_of(self.ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET")
        asked = RelayAsk(*about, wants=ask.wants, seal=self.seal)
        answer = run(giving.answer(asked, b"", self.home.local), self.at_home)
        given = self.gives(decode_given(decode_signed_given(answer).given))
        self.crossed += sum(one.state == CONTENT for one in given.given)
        return Response(200, encode_relay(given))

    @abstractmethod
    def due(self, now: Moment) -> Iterable[ReconcileTask]:
        """What b has to do by itself."""

    def tend(self, after_s: float) -> list[str]:
        """What is due so long afterwards, done; what went wrong."""
        self.there.sync()
        tasks = list(self.due(moment(after_s)))
        return [problem for task in tasks if (problem := run(task.procedure, self.answer))]

    def ends(self) -> None:
        """The last delegate goes."""
        for path in [path for path in self.there.api.objects if "/pods/" in path]:
            del self.there.api.objects[path]


class Fleet(TwoClusters):
    """Pods that name ConfigMap `settings`. `forbidden`: verbs that b's agent may not do to `barred_kind`."""

    barred_kind = "configmaps"

    def __init__(
        self,
        *,
        data: dict[str, str] | None = RED,
        follows: tuple[str, ...] | None = tuple(KINDS),
        policy: ExecutorPolicy | None = None,
    ) -> None:
        super().__init__(policy)
        self.home.peers = (Peer(THERE, ready=True, follows=follows),)
        self.home.restart()
        self.there.local.follows = tuple(KINDS)
        self.forbidden: frozenset[str] = frozenset()
        if data is not None:
            self.put(data)

    def put(self, data: dict[str, str], name: str = "settings", **more: Any) -> None:
        """What the owner writes at home."""
        self.home.api.put(f"{MAPS}/{name}", {"metadata": {"name": name}, "data": data, **more})
        self.home.local.at_home.clear()

    def claim(self, spec: dict[str, Any], name: str = "web", **metadata: dict[str, str]) -> Outcome:
        pod = pod_object(name, **spec)
        pod["metadata"] |= metadata
        return self.claims(pod)

    def order(self, spec: dict[str, Any], name: str = "web", **metadata: Any) -> CreateDelegate:
        return self.orders(self.claim(spec, name, **metadata))

    def create(self, spec: dict[str, Any], name: str = "web", now: Moment = NOW) -> Outcome:
        return self.carries_out(self.order(spec, name), now)

    def at_target(self, request: Request) -> Response:
        plural = self.barred_kind
        if f"/{plural}" in request.path and request.method in self.forbidden:
            text = f'{plural} is forbidden: User "agent" cannot {request.method} resource "{plural}" in API group ""'
            return status(403, text)
        return super().at_target(request)

    def due(self, now: Moment) -> Iterable[ReconcileTask]:
        return reconcile_tasks(self.there.local, now)

    def copy(self) -> dict[str, Any] | None:
        return self.there.api.objects.get(f"{MAPS}/{COPY}")

    def delegate(self) -> dict[str, Any]:
        (pod,) = self.there.api.pods()
        return pod

    def tend_until(self, after_s: float) -> None:
        """All that is due until then, each ten seconds."""
        for at in range(0, int(after_s) + 1, 10):
            assert self.tend(at) == []


def stale(fleet: Fleet) -> list[str]:
    """What delegates are told of copies that are not as at home."""
    told = [msgspec.json.decode(one.body) for one in fleet.there.local.events]
    assert {one["regarding"]["uid"] for one in told} <= {one["metadata"]["uid"] for one in fleet.there.api.pods()}
    return [one["note"] for one in told if one["reason"] == STALE_COPY]
