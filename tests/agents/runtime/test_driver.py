"""Carrying a procedure's requests: who is asked besides the API server costs none of its slots."""

import asyncio
import time
from collections.abc import Sequence

from agents.executor.objects.copies import PeerAsk
from agents.runtime.driver import Driver, Execution, Pauses
from agents.runtime.slot_queue import SlotQueue
from shared.kube.http import Procedure, Request, Response

LIMIT = 4
WAIT_S = 10.0


class Client:
    """Another cluster that does not answer before it is let, and an API server that does."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.let = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if isinstance(request, PeerAsk):
            self.asked.release()
            await self.let.wait()
        return Response(200, b"{}")

    async def send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        raise AssertionError(requests)


def asking() -> Procedure[str]:
    yield PeerAsk("GET", "objects", cluster="a", cluster_uid="a-uid")
    yield Request("GET", "/api")
    return "asked"


def binding() -> Procedure[str]:
    yield Request("GET", "/api")
    return "bound"


async def test_a_cluster_that_does_not_answer_holds_no_slots_of_this_one_s_api_server() -> None:
    client, queue = Client(), SlotQueue(LIMIT, time.monotonic, asyncio.sleep)
    driver = Driver(client, queue, time.monotonic, Pauses())

    async def carry_out(lane: str, procedure: Procedure[str]) -> str:
        execution = Execution(time.monotonic() + WAIT_S, lane)
        await driver.begin(execution)
        try:
            return await driver.drive(procedure, execution)
        finally:
            driver.end(execution)

    async with asyncio.timeout(WAIT_S):
        waiting = [asyncio.create_task(carry_out(f"n-{at}", asking())) for at in range(4 * LIMIT)]
        for _ in waiting:
            await client.asked.acquire()
        assert await carry_out("other", binding()) == "bound"
        client.let.set()
        assert await asyncio.gather(*waiting) == ["asked"] * len(waiting)
    assert not queue.full
