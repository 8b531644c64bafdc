"""The loop that drives procedures: many pods at once, one pod one at a time, and no fault spreads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.runtime.accepted_leader import BELIEVED_S
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from agents.runtime.reconciler import Reconciler
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    CLAIMED,
    DONE,
    STALE,
    UNKNOWN,
    AnyIntent,
    Bind,
    Claim,
    CreateDelegate,
    IntentBatch,
    Peer,
    Peers,
    PodRef,
    ReportUnschedulable,
)
from shared.model import names
from shared.model.leases import RESTART_S
from tests.agents.executor.world import World, node_object, pod_object, pod_path, proxy_object, source_of


class SlowApi:
    """The model server behind an await; `gate` holds answers back, `most` is how many were under way at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = self.most = 0
        self.asked, self.answered = asyncio.Event(), asyncio.Event()
        self.requests: list[Request] = []
        self.fails = ""  # paths that hold this are forbidden
        self.busy = 0  # events that are still to be answered with 429

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.asked.set()
        await self.gate.wait()
        self.under_way -= 1
        if self.fails and self.fails in request.path:
            response = Response(403)
        elif self.busy and "/events" in request.path:
            self.busy -= 1
            response = Response(429)
        else:
            response = self.world.api.answer(request)
        self.answered.set()
        return response

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        return [await self.send(request) for request in requests]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for an answer after which the condition holds."""
        async with asyncio.timeout(60):
            while not condition():
                self.answered.clear()
                await self.answered.wait()


class Clock:
    """Time that moves by hand."""

    def __init__(self) -> None:
        self.now = Moment(100.0, 1_700_000_000.0)
        self._asked = asyncio.Event()

    def __call__(self) -> Moment:
        self._asked.set()
        return self.now

    async def asked_again(self, times: int) -> None:
        """Wait until the time was asked for so often."""
        for _ in range(times):
            self._asked.clear()
            async with asyncio.timeout(60):
                await self._asked.wait()

    def forward(self, seconds: float) -> None:
        self.now = Moment(self.now.mono + seconds, self.now.wall + seconds)


class Stage:
    """One executor loop on a model cluster."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(node_object(cpu="100", pods="100"))
        self.api, self.clock = SlowApi(self.world), Clock()
        self.loop = ExecutorLoop(
            self.api,
            self.world.cache,
            "a",
            "a-cluster-uid",
            ExecutorSettings(tick_s=0.01, **settings),
            clock=self.clock,
        )


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Stage]:
    built = Stage(**settings)
    await built.loop.execute(batch())  # whom it obeys is stored, and read
    built.api.requests.clear()
    built.api.asked.clear()
    built.api.answered.clear()
    try:
        yield built
    finally:
        await built.loop.stop()


def batch(*intents: AnyIntent, epoch: int = 1, **more: Any) -> IntentBatch:
    return IntentBatch("dispatcher", epoch, intents, **more)


def bind(ref: PodRef, id_: str = "i") -> Bind:
    return Bind(id_, ref, 1, "n1")


async def test_outcomes_come_in_the_order_of_the_intents_and_never_more_are_under_way_than_allowed() -> None:
    async with stage(concurrency=3) as it:
        refs = [it.world.submit(pod_object(f"p{i}")) for i in range(12)]
        answer = await it.loop.execute(batch(*(bind(ref, f"i{i}") for i, ref in enumerate(refs))))
        assert [one.id for one in answer.outcomes] == [f"i{i}" for i in range(12)]
        assert {one.verdict for one in answer.outcomes} == {BOUND}
        assert it.api.most <= 3


async def test_a_duplicate_joins_the_one_under_way_and_answers_under_its_own_id() -> None:
    async with stage() as it:
        ref = it.world.submit()
        it.api.gate.clear()
        first = asyncio.create_task(it.loop.execute(batch(bind(ref, "first"))))
        await it.api.asked.wait()
        second = asyncio.create_task(it.loop.execute(batch(bind(ref, "second"))))
        await asyncio.sleep(0)
        it.api.gate.set()
        answers = [(await task).outcomes[0] for task in (first, second)]
        assert [(one.id, one.verdict) for one in answers] == [("first", BOUND), ("second", BOUND)]
        assert it.world.api.count("bind") == 1
        assert len(it.api.requests) == 1


async def test_two_different_orders_for_one_pod_are_carried_out_one_after_the_other() -> None:
    async with stage() as it:
        ref = it.world.submit()
        reports = [ReportUnschedulable(f"r{i}", ref, 1, f"reason {i}") for i in range(4)]
        answer = await it.loop.execute(batch(*reports))
        assert [one.verdict for one in answer.outcomes] == [DONE] * 4
        assert it.api.most == 1
        pod = it.world.api.pod("web")
        assert pod is not None
        assert pod["status"]["conditions"][0]["message"] == "reason 3"


def claims(it: Stage, *sizes: int) -> list[Claim]:
    """Of pods p0, p1 ... with environments of these sizes."""
    made = []
    for at, size in enumerate(sizes):
        pod = pod_object(f"p{at}")
        pod["metadata"]["labels"] = {"app": "web"}
        pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * size}]
        made.append(Claim(f"i{at}", it.world.submit(pod), 1, "b", "b1"))
    return made


async def test_an_answer_holds_manifests_up_to_its_bytes_small_ones_first_and_says_what_it_leaves_out() -> None:
    async with stage() as it:
        orders = claims(it, 50_000, 60_000, 10, 20)
        answer = await it.loop.execute(batch(*orders, answer_bytes=70_000))
        assert [one.verdict for one in answer.outcomes] == [CLAIMED, UNKNOWN, CLAIMED, CLAIMED]
        assert 60_000 < answer.outcomes[1].left_out < 61_000
        assert [bool(one.manifest) for one in answer.outcomes] == [True, False, True, True]


async def test_an_answer_holds_one_manifest_however_large_so_that_what_is_asked_again_comes() -> None:
    async with stage() as it:
        orders = claims(it, 50_000, 60_000)
        answer = await it.loop.execute(batch(*orders, answer_bytes=1))
        assert [one.verdict for one in answer.outcomes] == [CLAIMED, UNKNOWN]
        answer = await it.loop.execute(batch(orders[1], answer_bytes=1))
        assert [one.verdict for one in answer.outcomes] == [CLAIMED]


async def test_equal_manifests_are_in_an_answer_once() -> None:
    async with stage() as it:
        answer = await it.loop.execute(batch(*claims(it, 500, 500, 7), answer_bytes=70_000))
        assert [one.verdict for one in answer.outcomes] == [CLAIMED] * 3
        assert [bool(one.manifest) for one in answer.outcomes] == [True, False, True]
        assert [one.manifest_of for one in answer.outcomes] == ["", "i0", ""]


async def test_a_dispatcher_that_names_no_limit_is_answered_in_full() -> None:
    async with stage() as it:
        answer = await it.loop.execute(batch(*claims(it, 500, 500)))
        assert all(one.manifest for one in answer.outcomes)


async def test_what_is_not_begun_in_time_is_stale() -> None:
    async with stage(concurrency=1) as it:
        first, second = it.world.submit(pod_object("one")), it.world.submit(pod_object("two"))
        it.api.gate.clear()
        running = asyncio.create_task(it.loop.execute(batch(bind(first), bind(second), deadline_s=5.0)))
        await it.api.asked.wait()
        it.clock.forward(6.0)
        it.api.gate.set()
        assert [one.verdict for one in (await running).outcomes] == [BOUND, STALE]


async def test_a_newer_dispatcher_supersedes_an_older_one_even_for_what_waits() -> None:
    async with stage(concurrency=1) as it:
        first, second = it.world.submit(pod_object("one")), it.world.submit(pod_object("two"))
        it.api.gate.clear()
        old = asyncio.create_task(it.loop.execute(batch(bind(first), bind(second), epoch=1)))
        await it.api.asked.wait()
        new = asyncio.create_task(it.loop.execute(batch(epoch=2)))
        await asyncio.sleep(0)
        it.api.gate.set()
        assert [one.verdict for one in (await old).outcomes] == [BOUND, UNKNOWN]
        assert (await new).outcomes == ()
        answer = await it.loop.execute(batch(bind(second), epoch=1))
        assert answer.outcomes[0].verdict == UNKNOWN
        assert "superseded" in answer.outcomes[0].message
        assert (answer.obeys, answer.leader) == (2, "dispatcher")


async def test_a_twin_of_the_same_epoch_is_told_whom_the_executor_obeys() -> None:
    async with stage() as it:
        ref = it.world.submit()
        await it.loop.execute(IntentBatch("one", 3, ()))
        answer = await it.loop.execute(IntentBatch("twin", 3, (bind(ref),)))
        assert (answer.obeys, answer.leader, answer.outcomes[0].verdict) == (3, "one", UNKNOWN)
        assert it.world.api.count("bind") == 0


async def test_a_delegate_that_an_order_made_is_not_denied_to_its_dispatcher_after_that_was_superseded() -> None:
    async with stage() as it:
        ref = PodRef("default", "web", "source-uid")
        create = CreateDelegate("c", ref, 1, source_of(ref, 1), "n1", msgspec.json.encode(pod_object()))
        await it.loop.execute(batch(create, epoch=1))
        await it.loop.execute(batch(epoch=2))
        assert (await it.loop.execute(batch(create, epoch=1))).outcomes[0].verdict == UNKNOWN


async def test_a_fault_inside_one_procedure_is_unknown_and_names_the_pod() -> None:
    async with stage() as it:
        bad, good = it.world.submit(pod_object("bad")), it.world.submit(pod_object("good"))
        honest = it.api.send

        async def sometimes(request: Request) -> Response:
            if "/bad/" in request.path:
                raise ValueError("boom")
            return await honest(request)

        it.api.send = sometimes  # type: ignore[method-assign]
        broken, fine = (await it.loop.execute(batch(bind(bad), bind(good)))).outcomes
        assert (broken.verdict, fine.verdict) == (UNKNOWN, BOUND)
        assert "default/bad" in broken.message


async def test_stopping_answers_unknown_to_those_who_wait() -> None:
    async with stage() as it:
        ref = it.world.submit()
        it.api.gate.clear()
        waiting = asyncio.create_task(it.loop.execute(batch(bind(ref))))
        await it.api.asked.wait()
        await it.loop.stop()
        assert (await waiting).outcomes[0].verdict == UNKNOWN
        assert (await it.loop.execute(batch(bind(ref)))).outcomes[0].verdict == UNKNOWN


async def test_a_caller_that_gives_up_does_not_stop_the_bind() -> None:
    async with stage() as it:
        ref = it.world.submit()
        it.api.gate.clear()
        caller = asyncio.create_task(it.loop.execute(batch(bind(ref))))
        await it.api.asked.wait()
        caller.cancel()
        it.api.gate.set()
        await it.api.until(lambda: it.world.api.count("bind") == 1)


async def test_what_an_owner_wrote_wrongly_is_a_warning_event_on_the_pod() -> None:
    async with stage() as it:
        text = "metadata.annotations[global-dispatcher.io/scheduel]: is not known"
        it.loop.warn_invalid_annotation(PodRef("default", "web", "u"), "AnnotationNotUnderstood", text)
        running = asyncio.create_task(it.loop.run())
        objects = it.world.api.objects
        await it.api.until(lambda: any("/events/" in path for path in objects))
        await it.loop.stop()
        await running
        event = next(value for path, value in objects.items() if "/events/" in path)
        assert (event["type"], event["reason"], event["note"]) == ("Warning", "AnnotationNotUnderstood", text)
        assert event["regarding"]["uid"] == "u"


async def test_local_duties_write_proxy_nodes_and_events_without_a_dispatcher_call() -> None:
    async with stage() as it:
        it.loop.warn_foreign(PodRef("default", "web", "u"), "default-scheduler")
        await it.loop.set_peers(Peers("dispatcher", 2, (Peer("b", ready=True, allocatable={"cpu": 1000}),)))
        running = asyncio.create_task(it.loop.run())
        objects = it.world.api.objects
        await it.api.until(lambda: f"/api/v1/nodes/{names.proxy_node_name('b')}" in objects)
        await it.api.until(lambda: any("/events/" in path for path in objects))
        await it.loop.stop()
        await running


async def test_while_binds_wait_for_their_turn_events_wait_too_and_then_go_one_at_a_time() -> None:
    async with stage(concurrency=1, event_patience_s=5.0, event_series=2) as it:
        it.api.gate.clear()
        binding = asyncio.create_task(it.loop.execute(batch(bind(it.world.submit()))))
        await it.api.asked.wait()
        for number in range(4):
            it.loop.warn_foreign(PodRef("default", f"web-{number}", "u"), "default-scheduler")
        it.api.asked.clear()
        running = asyncio.create_task(it.loop.run())
        await it.clock.asked_again(10)
        assert it.api.under_way == 1
        it.clock.forward(5.0)
        await it.api.asked.wait()
        assert it.api.under_way == 2
        it.api.gate.set()
        await it.api.until(lambda: sum("/events" in request.path for request in it.api.requests) >= 4)
        await binding
        await it.loop.stop()
        await running


async def test_events_that_a_busy_server_turns_away_are_written_later() -> None:
    async with stage() as it:
        it.api.busy = 3
        for number in range(4):
            it.loop.warn_foreign(PodRef("default", f"web-{number}", "u"), "default-scheduler")
        running = asyncio.create_task(it.loop.run())
        objects = it.world.api.objects
        await it.api.until(lambda: sum("/events/" in path for path in objects) == 4)
        await it.loop.stop()
        await running


async def test_peers_of_a_superseded_dispatcher_are_ignored() -> None:
    async with stage() as it:
        await it.loop.execute(batch(epoch=5))
        await it.loop.set_peers(Peers("old", 4, (Peer("b", ready=True),)))
        ref = it.world.submit()
        proxy = msgspec.structs.replace(bind(ref), node=names.proxy_node_name("b"), proxy=True)
        (outcome,) = (await it.loop.execute(batch(proxy, epoch=5))).outcomes
        assert outcome.verdict != BOUND


async def test_while_the_server_is_slow_to_say_who_is_obeyed_only_the_newest_peers_wait() -> None:
    async with stage() as it:
        it.clock.forward(2 * BELIEVED_S)
        it.api.gate.clear()
        for name in ("b", "c", "d", "e"):
            await it.loop.set_peers(Peers("dispatcher", 1, (Peer(name, ready=True),)))
            await it.api.asked.wait()  # the first one asks
        await it.loop.set_peers(Peers("old", 0, (Peer("f", ready=True),)))
        it.api.gate.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert sorted(it.loop._local.peers.known) == [names.proxy_node_name(name) for name in ("b", "e")]


def duties(it: Stage) -> Reconciler:
    return it.loop._reconciler


async def tended(it: Stage) -> None:
    """Whatever is due is begun, and ends."""
    await it.loop.tend()
    await asyncio.gather(*duties(it).tasks)


async def test_a_proxy_node_that_cannot_be_written_is_tried_again_at_growing_distances() -> None:
    async with stage() as it:
        it.api.fails = "/api/v1/nodes"
        it.loop._local.peers.update((Peer("b", ready=True),), it.clock.now.mono)
        tries = []
        for second in range(40):
            before = len(it.api.requests)
            await tended(it)
            tries += [second] * (len(it.api.requests) > before)
            it.clock.forward(1.0)
        assert tries == [0, 1, 3, 7, 15, 25, 35]
        it.api.fails = ""
        it.clock.forward(10.0)
        await tended(it)
        assert f"/api/v1/nodes/{names.proxy_node_name('b')}" in it.world.api.objects


async def test_problems_with_pods_that_are_gone_are_forgotten() -> None:
    async with stage() as it:
        it.world.api.put_node(proxy_object("b"))
        pod = pod_object("web", nodeName=names.proxy_node_name("b"))
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        ref = it.world.submit(pod)
        it.api.fails = "/pods/web"
        await tended(it)
        assert ref.uid in duties(it)._problems
        del it.world.api.objects[pod_path("web")]
        it.world.sync()
        it.clock.forward(20.0)
        await tended(it)
        assert duties(it)._problems == {}
        assert duties(it)._again == {}


async def test_a_local_duty_that_fails_does_not_end_the_others() -> None:
    async with stage() as it:
        honest, failed = it.api.send, asyncio.Event()

        async def sometimes(request: Request) -> Response:
            if not failed.is_set():
                failed.set()
                raise ValueError("boom")
            return await honest(request)

        it.api.send = sometimes  # type: ignore[method-assign]
        await it.loop.set_peers(Peers("dispatcher", 1, (Peer("b", ready=True),)))
        running = asyncio.create_task(it.loop.run())
        await it.api.until(lambda: f"/api/v1/nodes/{names.proxy_node_name('b')}" in it.world.api.objects)
        await it.loop.stop()
        await running


async def test_each_answer_to_peers_is_a_new_word_and_its_echo_renews_the_lease() -> None:
    async with stage() as it:
        lease = it.loop._local.renewals
        first = await it.loop.set_peers(Peers("dispatcher", 1, lease_s=120.0))
        second = await it.loop.set_peers(Peers("dispatcher", 1, echo=first.word, lease_s=120.0))
        assert (first.cluster, first.word != second.word) == ("a", True)
        it.clock.forward(119.0)
        assert not lease.lapsed(it.clock().mono)
        it.clock.forward(1.0)
        assert lease.lapsed(it.clock().mono)


async def test_a_superseded_dispatcher_renews_nothing() -> None:
    async with stage() as it:
        await it.loop.execute(batch(epoch=5))
        word = (await it.loop.set_peers(Peers("dispatcher", 5))).word
        await it.loop.set_peers(Peers("old", 4, echo=word, lease_s=120.0))
        it.loop._local.renewals.lapsed(it.clock().mono)
        it.clock.forward(RESTART_S)
        assert it.loop._local.renewals.lapsed(it.clock().mono)


@pytest.mark.parametrize(("overtaken", "believed"), [(False, 400.0), (True, 0.0)])
async def test_what_a_late_copy_of_a_call_says_of_leases_is_not_believed(overtaken: bool, believed: float) -> None:
    async with stage() as it:
        lost = (Peer("b", ready=False, uid="b-uid", api_ok=True, unrenewed_s=400.0),)
        words = []
        for _ in range(2):
            words.append((await it.loop.set_peers(Peers("dispatcher", 1))).word)
            it.clock.forward(5.0)
        if overtaken:
            await it.loop.set_peers(Peers("dispatcher", 1, echo=words[1], lease_s=120.0))
        await it.loop.set_peers(Peers("dispatcher", 1, lost, echo=words[0], lease_s=120.0))
        assert it.loop._taking_over is not None
        await it.loop._taking_over
        (peer,) = it.loop._local.peers.known.values()
        assert peer.unrenewed_s == believed
