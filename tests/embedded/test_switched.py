"""Connections that became streams, within one process: nothing of them stays behind."""

import asyncio
import random
import ssl
import time

import aiohttp
from aiohttp import web

from localfleet.embedded.api import Api as OwnApi
from localfleet.embedded.http import make_app
from localfleet.embedded.storage import Storage
from tests.contract.client import Api
from tests.contract.foreign_nodes import running_at
from tests.contract.stream_kubelet import SPDY, WEBSOCKET, kubelet, switched
from tests.embedded.api_client import TOKEN

WAIT_S = 10.0


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_a_switched_connection_is_forgotten_whoever_ends_it() -> None:
    own = OwnApi(clock=time.time, storage=Storage(None), random=random.Random(7), name="test")
    own.kubelet_credentials = unverified
    runner = web.AppRunner(make_app(own, TOKEN), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = runner.server
    assert server is not None
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(force_close=True, ssl=False)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session, kubelet() as (port, asked):
        api = Api(f"http://127.0.0.1:{runner.addresses[0][1]}", session, "default")
        async with running_at(api, "echo-1", port):
            path = api.at("pods", "echo-1", "exec")
            for said, given in ((b"", WEBSOCKET), (b"end", WEBSOCKET), (b"", SPDY), (b"end", SPDY)):
                asked.ended.clear()
                async with switched(api, path, "GET", given) as (_, reader, writer):
                    assert await reader.readexactly(6) == b"first "
                    writer.write(said)
                    if said:
                        assert await reader.read() == said
                await asyncio.wait_for(asked.ended.wait(), WAIT_S)
            async with asyncio.timeout(WAIT_S):
                while server.connections:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.01)
    await runner.cleanup()
