"""The Lease is renewed while the service's loop stands still, but not for ever."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dispatcher.service.leading import lease_thread as subject
from dispatcher.service.leading.lease_thread import LeaseThread, loop_thread
from shared.kube.elector import Elector, LeaderTiming
from shared.kube.leader_lease import LeaseStore
from tests.service.leases import PLACE, Server

QUICK = LeaderTiming(lease_s=0.6, renew_deadline_s=0.4, retry_s=0.05)


@asynccontextmanager
async def leading(server: Server) -> AsyncIterator[LeaseThread]:
    async with loop_thread("lease") as thread:
        one = LeaseThread(Elector(LeaseStore(server, PLACE), "me", QUICK), thread)
        await one.acquire()
        yield one


async def held(one: LeaseThread, still_s: float) -> asyncio.Task[str]:
    """Hold the Lease in a task, and let this loop stand still for a while."""
    holding = asyncio.create_task(one.hold())
    await asyncio.sleep(QUICK.retry_s)
    time.sleep(still_s)  # noqa: ASYNC251 - the loop stands still
    return holding


async def test_a_loop_that_stands_still_keeps_its_lease() -> None:
    async with leading(Server()) as one:
        holding = await held(one, 2 * QUICK.lease_s)
        assert one.valid()
        assert not holding.done()
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await one.release()
        assert not one.valid()


async def test_a_loop_that_stands_still_for_too_long_leads_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_STILL_S", QUICK.retry_s * 4)
    server = Server()
    async with leading(server) as one:
        holding = await held(one, 2 * QUICK.lease_s)
        assert not one.valid()
        renewed = len(server.writes)
        assert "this process was held up" in await holding
        await asyncio.sleep(2 * QUICK.retry_s)
        assert len(server.writes) == renewed


async def test_who_waits_no_more_stops_the_work_of_the_thread() -> None:
    async with loop_thread("work") as thread:
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                here.call_soon_threadsafe(ended.set)

        here = asyncio.get_running_loop()
        waiting = asyncio.create_task(thread.run(work()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait_for(ended.wait(), 5)
