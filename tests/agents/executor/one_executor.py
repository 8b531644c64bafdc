"""One executor on a model cluster, what it has stored in its Lease, and an operator's words there."""

import asyncio
from collections.abc import Sequence

import msgspec

from agents.executor.context.local import Moment
from agents.executor.trust import state
from agents.runtime.accepted_leader import BELIEVED_S
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from shared.kube.http import MERGE_PATCH, Request, Response
from shared.messages import Bind, IntentBatch, OutcomeBatch, Peer, Peers, PodRef
from shared.security.keys import OwnKeys
from tests.agents.executor.world import ApiModel, World, keys_of, node_object


def stored(api: ApiModel) -> tuple[int, str, dict[str, str]]:
    lease = api.objects[state.PATH]
    values = msgspec.json.decode(lease["metadata"]["annotations"][state.VALUES])
    return lease["spec"]["leaseTransitions"], lease["spec"].get("holderIdentity", ""), values


class Executor:
    """One executor on a model cluster; `down` loses every request, `loses_replies` every answer."""

    def __init__(self, world: World, name: str = "a", rename_from: str = "", keys: OwnKeys | None = None) -> None:
        self.world, self.now, self.down = world, 100.0, False
        self.loses_replies = False
        self.asked: list[Request] = []
        settings = ExecutorSettings(rename_from=rename_from)
        clock = lambda: Moment(self.now, self.now)  # noqa: E731
        self.loop = ExecutorLoop(
            self, world.cache, name, "a-cluster-uid", settings, keys=keys or keys_of("a"), clock=clock
        )

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        await asyncio.sleep(0)
        if self.down:
            return Response(0)
        answer = self.world.api.answer(request)
        return Response(0) if self.loses_replies and request.method != "GET" else answer

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        return [await self.send(request) for request in requests]

    async def bind(self, ref: PodRef, epoch: int, dispatcher: str = "") -> OutcomeBatch:
        intent = Bind("i", ref, epoch, "n1")
        return await self.loop.execute(IntentBatch(dispatcher or f"life-{epoch}", epoch, (intent,)))


def world() -> World:
    return World(node_object(cpu="100", pods="100"))


def say(api: ApiModel, *words: str, said: str = "true") -> None:
    """As `kubectl annotate` does."""
    patch = msgspec.json.encode({"metadata": {"annotations": dict.fromkeys(words, said)}})
    assert api.answer(Request("PATCH", state.PATH, patch, MERGE_PATCH)).ok


async def insist(it: Executor, word: str, key: str = "old") -> None:
    """As `global-dispatcher cluster` does: say it, and answer what the executor asks."""
    say(it.world.api, word)
    await hear(it, key)
    answer(it.world.api, word)


def answer(api: ApiModel, word: str) -> None:
    asked = api.objects[state.PATH]["metadata"]["annotations"][word]
    assert asked.startswith(state.ASKS)
    say(api, word, said=asked.removeprefix(state.ASKS))


def words_of(api: ApiModel) -> set[str]:
    return set(api.objects[state.PATH]["metadata"]["annotations"]) - {state.VALUES}


async def hear(it: Executor, key: str) -> None:
    """The dispatcher tells of cluster b with this key, and some seconds pass."""
    peer = Peer("b", ready=True, uid="ub", keys=keys_of(key).endorsed_keys())
    await it.loop.set_peers(Peers("one", 5, (peer,)))
    for _ in range(100):
        await asyncio.sleep(0)
    it.now += BELIEVED_S + 1
