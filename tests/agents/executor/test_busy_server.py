"""Slow namespaces and busy servers: what hangs or is turned away waits alone, and for as long as it was asked to."""

import asyncio
import heapq
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.crossing import manifest
from agents.runtime.driver import LONGEST_S, SHORTEST_S, UNASKED_S, Pauses
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings, lane_of
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    STALE,
    UNKNOWN,
    AnyIntent,
    Bind,
    ConfirmNoDelegate,
    CreateDelegate,
    IntentBatch,
    Outcome,
    Peer,
    Peers,
    PodRef,
)
from shared.model import names
from tests.agents.executor.world import World, keys_of, node_object, order_for, pod_object, source_of

Answer = Callable[[Request], Response | float]  # a number: after so many seconds the server answers nothing
BUSY = b'{"message":"too many requests"}'


class Time:
    """Virtual seconds: sleepers wake in their order as soon as nobody has anything else to do."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def moment(self) -> Moment:
        return Moment(self.seconds, 1_700_000_000.0 + self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, len(self.slept), awake))
        await awake

    async def until(self, task: "asyncio.Task[Any]") -> Any:
        """Let time pass until a task has ended."""
        for _ in range(100_000):
            for _ in range(20):
                await asyncio.sleep(0)
            if task.done():
                return task.result()
            self._wake_next()
        raise AssertionError("it never ends")

    def _wake_next(self) -> None:
        while self._sleepers:
            at, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():
                self.seconds = max(self.seconds, at)
                awake.set_result(None)
                return
        raise AssertionError("nobody sleeps, and it has not ended")


class Server:
    """The model server; `says` may answer in its place, or take its time to answer nothing."""

    def __init__(self, world: World, time: Time) -> None:
        self.world, self.time = world, time
        self.asked: list[tuple[float, str, str]] = []
        self.under_way = self.most = 0
        self.says: Answer = world.api.answer

    async def send(self, request: Request) -> Response:
        if "/leases" in request.path:  # whom the executor obeys: of another story
            done = list(self.world.api.done)
            answer = self.world.api.answer(request)
            self.world.api.done = done
            return answer
        self.asked.append((self.time.seconds, request.method, request.path))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        said = self.says(request)
        if isinstance(said, float):
            await self.time.sleep(said)
            said = Response(0, b"timeout")
        self.under_way -= 1
        return said

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        return [self.world.api.answer(request) for request in requests]

    def times(self, part: str) -> list[float]:
        return [at for at, method, path in self.asked if part in f"{method} {path}"]


class Stage:
    """One executor on a model cluster under virtual time."""

    def __init__(self, **settings: Any) -> None:
        self.time = Time()
        self.world = World(node_object(cpu="100", pods="500"), cluster="b")
        self.world.api.namespaces |= {"slow", "other"}
        self.world.sync()
        self.server = Server(self.world, self.time)
        pauses = Pauses(self.time.sleep, random.Random(1))
        self.loop = ExecutorLoop(
            self.server,
            self.world.cache,
            "b",
            "b-cluster-uid",
            ExecutorSettings(**settings),
            clock=self.time.moment,
            pauses=pauses,
            keys=keys_of("b"),
        )
        self.loop._local.trusted.trust("a", "a-cluster-uid", keys_of("a").endorsed_keys())

    def home(self, name: str, namespace: str = "default") -> Bind:
        ref = self.world.submit(pod_object(name, namespace))
        return Bind(f"bind-{namespace}-{name}", ref, 1, "n1")

    def begin(self, *intents: AnyIntent, deadline_s: float = 30.0) -> "asyncio.Task[tuple[Outcome, ...]]":
        async def outcomes() -> tuple[Outcome, ...]:
            return (await self.loop.execute(IntentBatch("d", 1, intents, deadline_s))).outcomes

        return asyncio.create_task(outcomes())

    async def do(self, *intents: AnyIntent, deadline_s: float = 30.0) -> list[str]:
        outcomes = await self.time.until(self.begin(*intents, deadline_s=deadline_s))
        return [one.verdict for one in outcomes]


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Stage]:
    built = Stage(**settings)
    try:
        yield built
    finally:
        await built.loop.stop()


def delegate(number: int, namespace: str = "slow") -> CreateDelegate:
    ref = PodRef(namespace, f"s{number}", f"{namespace}-u{number}")
    body = manifest.sanitise(msgspec.json.encode(pod_object(ref.name, namespace)))
    return msgspec.structs.replace(order_for(ref, 1, "n1", body), id=f"create-{namespace}-{number}")


def hangs(server: Server, part: str, seconds: float = 10.0) -> None:
    """Requests that end so are never answered."""
    honest = server.world.api.answer

    def says(request: Request) -> Response | float:
        return seconds if f"{request.method} {request.path}".endswith(part) else honest(request)

    server.says = says


def busy(server: Server, times: int, **more: Any) -> None:
    """The first requests are turned away."""
    left = iter(range(times))
    honest = server.world.api.answer
    server.says = lambda request: Response(429, BUSY, **more) if next(left, None) is not None else honest(request)


# --- slow namespaces -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["other", "slow"])
async def test_binds_do_not_wait_behind_creates_that_hang(namespace: str) -> None:
    async with stage() as it:
        hangs(it.server, "POST /api/v1/namespaces/slow/pods")
        binds = [it.home(f"p{number}", namespace) for number in range(40)]
        creates = it.begin(*(delegate(number) for number in range(64)))
        await asyncio.sleep(0)
        began = it.time.seconds
        assert await it.do(*binds) == [BOUND] * 40
        assert it.time.seconds - began <= 1.1
        assert not any(one.verdict == BOUND for one in await it.time.until(creates))


async def test_a_batch_is_answered_though_some_of_it_hangs_and_what_hangs_is_joined_later() -> None:
    async with stage(answer_s=1.0) as it:
        hangs(it.server, "POST /api/v1/namespaces/slow/pods", seconds=4.0)
        began = it.time.seconds
        assert await it.do(delegate(1), it.home("p"), it.home("q", "other")) == [UNKNOWN, BOUND, BOUND]
        assert it.time.seconds - began <= 2.1
        it.server.says = it.world.api.answer
        assert await it.do(delegate(1)) in ([UNKNOWN], [BOUND])
        assert len(it.server.times("POST /api/v1/namespaces/slow/pods")) <= 3


def slowly(server: Server, seconds: float) -> None:
    """Every request is answered, after so long."""
    honest = server.send

    async def send(request: Request) -> Response:
        if "/leases" not in request.path:
            await server.time.sleep(seconds)
        return await honest(request)

    server.send = send  # type: ignore[method-assign]


async def test_neither_what_hangs_nor_what_waits_behind_it_keeps_the_answers_to_others() -> None:
    async with stage() as it:
        hangs(it.server, "POST /api/v1/namespaces/slow/pods")
        creates = [delegate(number) for number in range(64)]
        began = it.time.seconds
        assert await it.do(*creates, it.home("p"), it.home("q", "other")) == [UNKNOWN] * 64 + [BOUND] * 2
        assert it.time.seconds - began <= 2.3


async def test_an_order_for_a_pod_whose_delegate_hangs_keeps_no_others() -> None:
    async with stage() as it:
        hangs(it.server, "POST /api/v1/namespaces/slow/pods")
        create = delegate(1)
        behind = ConfirmNoDelegate("confirm", create.pod, 2, create.source)
        began = it.time.seconds
        assert await it.do(create, behind, it.home("p")) == [UNKNOWN, UNKNOWN, BOUND]
        assert it.time.seconds - began <= 2.1


async def test_what_waits_for_its_turn_behind_others_that_get_on_is_waited_for() -> None:
    async with stage(concurrency=1) as it:
        slowly(it.server, 0.4)
        first = it.begin(*(it.home(f"p{number}") for number in range(10)))
        await asyncio.sleep(0)
        began = it.time.seconds
        assert await it.do(it.home("late")) == [BOUND]
        assert it.time.seconds - began > 3.0
        assert [one.verdict for one in await it.time.until(first)] == [BOUND] * 10


async def test_a_batch_of_which_nothing_ends_is_answered_in_the_end_whatever_it_waits_for() -> None:
    async with stage(concurrency=1) as it:
        slowly(it.server, 0.9)
        first = it.begin(*(it.home(f"p{number}") for number in range(25)), deadline_s=100.0)
        await asyncio.sleep(0)
        began = it.time.seconds
        assert await it.do(it.home("late"), deadline_s=100.0) == [UNKNOWN]
        assert 10.0 <= it.time.seconds - began <= 11.1
        assert [one.verdict for one in await it.time.until(first)] == [BOUND] * 25


async def test_one_namespace_alone_has_all_slots_and_a_hanging_one_keeps_to_its_share() -> None:
    async with stage(concurrency=8) as it:
        hangs(it.server, "slow/pods", seconds=5.0)
        task = it.begin(*(delegate(number) for number in range(30)), deadline_s=60.0)
        await asyncio.sleep(0.0)
        await it.time.until(task)
        assert it.server.most == 8
        for _ in range(3):
            it.server.most = it.server.under_way
            await it.time.until(asyncio.create_task(it.time.sleep(6.0)))
        assert it.server.most <= 8
        assert it.server.under_way <= 2


async def test_a_proxy_node_is_kept_fresh_though_every_slot_hangs() -> None:
    async with stage(concurrency=2) as it:
        hangs(it.server, "/pods")
        await it.loop.set_peers(Peers("d", 1, (Peer("c", ready=True),)))
        creates = it.begin(*(delegate(number) for number in range(20)))
        await asyncio.sleep(0)
        await it.loop.tend()
        for _ in range(200):
            await asyncio.sleep(0)
        assert f"/api/v1/nodes/{names.proxy_node_name('c')}" in it.world.api.objects
        await it.time.until(creates)


async def test_questions_about_ends_keep_no_bind_of_their_namespace_waiting() -> None:
    async with stage(concurrency=1) as it:
        slowly(it.server, 0.4)
        refs = [PodRef("default", f"p{number}", f"u{number}") for number in range(20)]
        it.begin(*(ConfirmNoDelegate(ref.uid, ref, 1, source_of(ref, 1), ended=True) for ref in refs))
        await asyncio.sleep(0)
        began = it.time.seconds
        assert await it.do(it.home("late")) == [BOUND]
        assert it.time.seconds - began < 2.0


def test_creates_of_a_namespace_have_a_lane_of_their_own() -> None:
    assert lane_of(delegate(1)) != lane_of(Bind("b", PodRef("slow", "p", "u"), 1, "n1"))
    assert lane_of(delegate(1)) == lane_of(delegate(2))
    assert lane_of(delegate(1)) != lane_of(delegate(1, "other"))


# --- 429 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(5.0, 5.0, 6.5), (0.0, UNASKED_S, 1.3), (0.01, SHORTEST_S, 0.26), (3600.0, LONGEST_S, 13.0)],
    ids=["as asked", "not said", "too short", "too long"],
)
async def test_a_busy_server_is_asked_again_after_the_time_that_it_wants(
    asked: float, least: float, most: float
) -> None:
    async with stage() as it:
        busy(it.server, 2, retry_after_s=asked)
        assert await it.do(it.home("p")) in ([BOUND], [UNKNOWN])
        await it.time.until(asyncio.create_task(it.time.sleep(30.0)))
        first, second, third = it.server.times("POST")
        for pause in (second - first, third - second):
            assert least <= pause <= most
        assert second - first != third - second
        assert it.world.api.count("bind") == 1


async def test_the_slot_is_free_while_one_waits_for_a_busy_server() -> None:
    async with stage(concurrency=1, answer_s=100.0) as it:
        busy(it.server, 1, retry_after_s=8.0)
        first = it.begin(it.home("p"))
        for _ in range(20):
            await asyncio.sleep(0)
        began = it.time.seconds
        assert await it.do(it.home("q")) == [BOUND]
        assert it.time.seconds == began
        assert [one.verdict for one in await it.time.until(first)] == [BOUND]


@pytest.mark.parametrize(("order", "verdict"), [("bind", STALE), ("create", UNKNOWN)])
async def test_past_its_deadline_an_order_that_was_always_turned_away_is_given_up(order: str, verdict: str) -> None:
    async with stage(answer_s=100.0) as it:
        busy(it.server, 1000, retry_after_s=2.0)
        began = it.time.seconds
        assert await it.do(it.home("p") if order == "bind" else delegate(1), deadline_s=7.0) == [verdict]
        assert it.time.seconds - began == pytest.approx(7.0)
        assert len(it.server.asked) <= 4
        assert it.world.api.done == []


async def test_what_was_written_before_the_server_was_busy_is_unknown() -> None:
    async with stage(answer_s=100.0) as it:
        honest = it.world.api.answer
        it.server.says = lambda one: Response(429, BUSY) if one.path.endswith("/binding") else honest(one)
        assert await it.do(delegate(1), deadline_s=5.0) == [UNKNOWN]
        assert it.world.api.count("create") == 1


async def test_an_order_of_a_superseded_dispatcher_is_not_sent_again() -> None:
    async with stage(answer_s=100.0) as it:
        busy(it.server, 1, retry_after_s=5.0)
        first = it.begin(it.home("p"))
        for _ in range(20):
            await asyncio.sleep(0)
        await it.loop.execute(IntentBatch("newer", 2, ()))
        assert [one.verdict for one in await it.time.until(first)] == [STALE]
        assert it.world.api.count("bind") == 0


@pytest.mark.parametrize(("newer", "sent"), [(1, 3), (2, 1)], ids=["still obeyed", "superseded"])
async def test_an_order_that_hangs_is_not_sent_again_once_its_dispatcher_is_superseded(newer: int, sent: int) -> None:
    async with stage(answer_s=100.0) as it:
        hangs(it.server, "/slow/pods")
        first = it.begin(delegate(1))
        for _ in range(20):
            await asyncio.sleep(0)
        await it.loop.execute(IntentBatch("d" if newer == 1 else "newer", newer, ()))
        assert [one.verdict for one in await it.time.until(first)] == [UNKNOWN]
        assert len(it.server.times("POST")) == sent


async def test_many_refusals_make_fewer_requests_at_once_and_answers_more_again() -> None:
    async with stage(concurrency=16, answer_s=100.0) as it:
        limit = [16]

        def says(request: Request) -> Response:
            limit.append(it.loop._slot_queue._slots.limit)
            return Response(429, BUSY, retry_after_s=1.0) if it.time.seconds < 104.0 else it.world.api.answer(request)

        it.server.says = says
        assert await it.do(*(it.home(f"p{number}") for number in range(64))) == [BOUND] * 64
        assert min(limit) <= 4
        assert it.loop._slot_queue._slots.limit > min(limit)
        assert it.world.api.count("bind") == 64


# --- doubt -----------------------------------------------------------------------------------------------------------


async def test_after_an_answer_that_leaves_doubt_the_next_request_waits_and_each_time_longer() -> None:
    async with stage(answer_s=100.0) as it:
        it.server.says = lambda _: Response(503)
        assert await it.do(it.home("p")) == [UNKNOWN]
        pauses = [round(pause, 3) for pause in it.time.slept if pause < 20.0]
        assert len(pauses) >= len(it.server.asked) - 1 > 1
        assert all(0.05 <= pause <= 2.0 for pause in pauses)
        assert pauses[-1] > pauses[0]
