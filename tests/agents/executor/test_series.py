"""Many binds of one namespace at once: over few connections, and each with the care that a bind alone gets."""

import asyncio
from collections.abc import Callable, Sequence

from agents.executor.http import Request, Response
from agents.runtime.carrying_out import BULK, SERIES
from dispatcher.model.messages import BOUND, REFUSED, STALE, UNKNOWN, Outcome, PodRef
from tests.agents.executor.test_loop import Stage, batch, bind, stage
from tests.agents.executor.world import pod_object

Says = Callable[[Request], Response | None]


class Series:
    """Notes the series that reach the server; `says` may answer a request of one in its place, after it was done."""

    def __init__(self, it: Stage) -> None:
        self.sent: list[list[str]] = []
        self.says: Says = lambda request: None
        self._send = it.api.send
        it.api.send_all = self.send_all  # type: ignore[method-assign]

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        self.sent.append([request.path for request in requests])
        return [self.says(request) or await self._send(request) for request in requests]


def submitted(it: Stage, count: int = BULK) -> list[PodRef]:
    return [it.world.submit(pod_object(f"p{i}")) for i in range(count)]


async def bound(it: Stage, refs: Sequence[PodRef]) -> list[Outcome]:
    orders = batch(*(bind(ref, f"i{i}") for i, ref in enumerate(refs)))
    async with asyncio.timeout(60):
        return list((await it.loop.execute(orders)).outcomes)


def only(name: str, answer: Response) -> Says:
    """Answers the first request about this pod."""
    left = [answer]
    return lambda request: left.pop() if left and f"/{name}/" in request.path else None


async def test_a_bulk_goes_in_series_and_is_answered_in_the_order_of_its_intents() -> None:
    async with stage(concurrency=3) as it:
        series = Series(it)
        outcomes = await bound(it, submitted(it, BULK + 1))
        assert [one.id for one in outcomes] == [f"i{i}" for i in range(BULK + 1)]
        assert {one.verdict for one in outcomes} == {BOUND}
        assert [len(one) for one in series.sent] == [SERIES] * (BULK // SERIES) + [1]
        assert it.api.most <= 3, "a series holds one slot, and its requests are carried out one by one"


async def test_a_few_binds_go_alone() -> None:
    async with stage() as it:
        series = Series(it)
        assert {one.verdict for one in await bound(it, submitted(it, BULK - 1))} == {BOUND}
        assert series.sent == []


async def test_a_pod_whose_bind_is_not_answered_is_looked_at_and_the_others_are_bound() -> None:
    async with stage() as it:
        series, refs = Series(it), submitted(it)
        series.says = only("p1", Response(0, b"reset"))
        assert {one.verdict for one in await bound(it, refs)} == {BOUND}
        about = [one.method for one in it.api.requests if f"{one.path}/".partition("/pods/")[2].startswith("p1/")]
        assert about == ["GET", "POST"], "the truth is read before the bind is sent again"


async def test_a_conflict_in_a_series_is_the_one_pods_affair() -> None:
    async with stage() as it:
        series, refs = Series(it), submitted(it)
        pod = it.world.api.pod("p2")
        assert pod is not None
        pod["spec"]["nodeName"] = "elsewhere"
        outcomes = await bound(it, refs)
        assert [one.verdict for one in outcomes] == [BOUND, BOUND, STALE, *[BOUND] * (BULK - 3)]
        assert len(series.sent) == BULK // SERIES


async def test_a_server_that_is_too_busy_for_one_of_a_series_is_asked_again_for_that_one() -> None:
    async with stage() as it:
        series, refs = Series(it), submitted(it)
        series.says = only("p3", Response(429, retry_after_s=0.01))
        assert {one.verdict for one in await bound(it, refs)} == {BOUND}
        assert [request.path for request in it.api.requests].count("/api/v1/namespaces/default/pods/p3/binding") == 1


async def test_what_the_server_forbids_is_refused_and_not_sent_again() -> None:
    async with stage() as it:
        series, refs = Series(it), submitted(it)
        series.says = only("p0", Response(403))
        assert [one.verdict for one in await bound(it, refs)] == [REFUSED, *[BOUND] * (BULK - 1)]


async def test_after_a_slow_series_all_go_alone() -> None:
    async with stage(concurrency=1) as it:
        series, refs = Series(it), submitted(it)

        def slowly(request: Request) -> None:
            it.clock.forward(0.2)

        series.says = slowly
        assert {one.verdict for one in await bound(it, refs)} == {BOUND}
        assert [len(one) for one in series.sent] == [SERIES]


async def test_a_series_that_hangs_does_not_keep_the_answers_to_others() -> None:
    async with stage(concurrency=1) as it:
        series, refs = Series(it), submitted(it)
        it.api.gate.clear()
        running = asyncio.create_task(bound(it, refs))
        await it.api.asked.wait()
        it.clock.forward(30.0)
        assert {one.verdict for one in await running} == {UNKNOWN}
        assert len(series.sent[0]) == SERIES


async def test_a_client_that_fails_is_told_for_each_pod_of_the_series() -> None:
    async with stage() as it:
        series, refs = Series(it), submitted(it)

        def fails(request: Request) -> None:
            if "/p0/" in request.path:
                raise ValueError("boom")

        series.says = fails
        outcomes = await bound(it, refs)
        assert [one.verdict for one in outcomes] == [UNKNOWN] * SERIES + [BOUND] * (BULK - SERIES)
        assert [f"default/p{i}" in outcomes[i].message for i in range(SERIES)] == [True] * SERIES


async def test_stopping_ends_the_series_under_way() -> None:
    async with stage() as it:
        Series(it)
        it.api.gate.clear()
        waiting = asyncio.create_task(bound(it, submitted(it)))
        await it.api.asked.wait()
        await it.loop.stop()
        assert {one.verdict for one in await waiting} == {UNKNOWN}
