"""The Lease by which one executor of a cluster acts: nobody writes it over what another has written."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents.runtime.executor_lease import PLACE, RETRY_S, ExecutorLease
from shared.kube.client import KubeClient
from shared.kube.http import Request
from shared.kube.leader_lease import Lease, LeaseStore, ReadFailure
from shared.kube.session import Access
from tests.contract.servers import Server

CALL_S = 10.0
TIMES = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z")
WAIT_S = 60.0


class Leader:
    """Nothing is known against this executor."""

    problem = not_ours = ""

    async def recall(self, *, anew: bool = False) -> None:
        """It is read."""


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[KubeClient]:
    """Without a Lease before and after."""
    client = KubeClient(Access(str(server.kubeconfig)))
    await client.send(Request("DELETE", PLACE.path))
    try:
        yield client
    finally:
        await client.send(Request("DELETE", PLACE.path))
        await client.close()


async def test_a_lease_that_another_has_made_or_written_meanwhile_is_not_written(server: Server) -> None:
    async with client_of(server) as client:
        store = LeaseStore(client, PLACE)
        assert await store.read(CALL_S) is None
        first = await store.write(Lease("one", 1, 18.0, TIMES), None, CALL_S)
        assert isinstance(first, Lease)
        assert await store.read(CALL_S) == first
        assert isinstance(await store.write(Lease("two", 1, 18.0, TIMES), None, CALL_S), ReadFailure)
        second = await store.write(Lease("two", 2, 18.0, TIMES), first, CALL_S)
        assert isinstance(second, Lease)
        late = await store.write(Lease("one", 3, 18.0, TIMES), first, CALL_S)
        assert isinstance(late, ReadFailure)
        assert "another has written it" in late.problem
        assert await store.read(CALL_S) == second


async def test_of_two_executors_one_acts_and_the_other_within_a_pause_after_it_has_left(server: Server) -> None:
    async with client_of(server) as client:
        leader: Any = Leader()
        first, second = (ExecutorLease(client, leader, CALL_S) for _ in range(2))
        tasks = [asyncio.create_task(first.run())]
        await _until_it_acts(first)
        tasks.append(asyncio.create_task(second.run()))
        while not second.another:  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.02)
        assert "this executor waits" in second.problem
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        began = time.monotonic()
        await first.release()
        await _until_it_acts(second)
        assert time.monotonic() - began < 2.2 * RETRY_S + 10.0  # of a slow machine
        assert first.problem
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        await second.release()


async def test_one_that_waits_says_so_on_the_lease_and_takes_nothing_from_its_holder(server: Server) -> None:
    async with client_of(server) as client:
        leader: Any = Leader()
        first, second = (ExecutorLease(client, leader, CALL_S) for _ in range(2))
        second._elector.asks_s = 0.1
        tasks = [asyncio.create_task(first.run())]
        await _until_it_acts(first)
        tasks.append(asyncio.create_task(second.run()))
        store = LeaseStore(client, PLACE)
        async with asyncio.timeout(WAIT_S):
            while not (isinstance(found := await store.read(CALL_S), Lease) and found.asked):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (found.asked, found.holder) == (f"{second._elector.identity} 1", first._elector.identity)
        async with asyncio.timeout(WAIT_S):
            while not first._elector.asked_within(WAIT_S):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (first.problem, second.another) == ("", True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await first.release()


async def _until_it_acts(lease: ExecutorLease) -> None:
    async with asyncio.timeout(WAIT_S):
        while lease.problem:  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.02)
