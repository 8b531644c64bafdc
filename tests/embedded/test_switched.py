"""Connections that became streams, within one process: nothing of them stays behind."""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from localfleet.embedded.api import Api as OwnApi
from localfleet.embedded.http import make_app
from localfleet.embedded.rest.upgrade import to_kubelet
from localfleet.embedded.storage import Storage
from shared.kube.pipe import Pipe
from tests.contract.client import Api
from tests.contract.foreign_nodes import NO_ADDRESSES, running_at
from tests.contract.stream_kubelet import SPDY, WEBSOCKET, ask, kubelet, switched
from tests.embedded.api_client import TOKEN

WAIT_S = 10.0


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Api, web.Server]]:
    """An API server over plain HTTP, and what holds its connections."""
    own = OwnApi(clock=time.time, storage=Storage(None), random=random.Random(7), name="test")
    own.kubelet_credentials = unverified
    runner = web.AppRunner(make_app(own, TOKEN), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    assert runner.server is not None
    connector = aiohttp.TCPConnector(force_close=True, ssl=False)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}, connector=connector) as session:
        yield Api(f"http://127.0.0.1:{runner.addresses[0][1]}", session, "default"), runner.server
    await runner.cleanup()


async def test_a_switched_connection_is_forgotten_whoever_ends_it() -> None:
    async with serving() as (api, server), kubelet() as (port, asked), running_at(api, "echo-1", port):
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


async def test_a_client_is_heard_to_its_end_though_the_kubelet_hears_no_more() -> None:
    """Its end would end the stream, and with it what the kubelet has said last."""
    reader, gone = asyncio.StreamReader(), Gone()
    reader.feed_data(b"more")
    hearing = asyncio.create_task(to_kubelet(reader, gone))
    await asyncio.sleep(0.01)
    reader.feed_data(b"and more")
    await asyncio.sleep(0.01)
    assert (gone.tried, hearing.done()) == (1, False)
    reader.feed_eof()
    await hearing


class Gone(Pipe):
    """To a kubelet that has ended."""

    def __init__(self) -> None:
        self.tried = 0

    async def write(self, data: bytes) -> None:
        self.tried += 1
        raise ConnectionResetError


async def test_a_kubelet_that_speaks_no_tls_and_an_address_that_is_none_are_told() -> None:
    async with serving() as (api, _):
        plain = await asyncio.start_server(_say_nothing_of_tls, "127.0.0.1", 0)
        async with plain, running_at(api, "web", plain.sockets[0].getsockname()[1]) as node:
            told = await ask(api, api.at("pods", "web", "exec"))
            assert (told.status, told.message) == (500, "error dialing backend: tls: WRONG_VERSION_NUMBER")
            nowhere = {"addresses": [{"type": "InternalIP", "address": "host.invalid"}]}
            await api.change("nodes", f"{node}/status", {"status": nowhere})
            told = await ask(api, api.at("pods", "web", "exec"))
            assert told.message == "error dialing backend: dial tcp: lookup host.invalid: no such host"


@pytest.mark.parametrize("address", NO_ADDRESSES)
async def test_what_is_no_address_is_looked_up_as_it_is(address: str) -> None:
    """kube-apiserver gives no answer to exec, where this is no host of a URL."""
    async with serving() as (api, _), running_at(api, "web", 1) as node:
        known = {"addresses": [{"type": "InternalIP", "address": address}]}
        await api.change("nodes", f"{node}/status", {"status": known})
        told = await ask(api, api.at("pods", "web", "exec"))
    assert (told.status, told.message) == (500, f"error dialing backend: dial tcp: lookup {address}: no such host")


async def _say_nothing_of_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


GOES = [
    ("log?follow=true", "follow-1", {}),
    ("log", "silent-1", {}),
    ("exec", "silent-1", SPDY),
    ("exec", "endless-1", SPDY),
]


@pytest.mark.parametrize(("verb", "name", "headers"), GOES, ids=[f"{verb} {name}" for verb, name, _ in GOES])
async def test_a_client_that_goes_leaves_no_connection_to_a_kubelet_that_keeps_it_waiting(
    verb: str, name: str, headers: dict[str, str]
) -> None:
    async with serving() as (api, server), kubelet() as (port, asked), running_at(api, name, port):
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(1),
                api.session.get(api.url + api.at("pods", name, verb), headers=headers) as told,
            ):
                await told.read()
        assert len(asked.asked) == 1
        assert not asked.ended.is_set()
        await asyncio.wait_for(asked.ended.wait(), WAIT_S)
        async with asyncio.timeout(WAIT_S):
            while server.connections:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)


async def test_a_refusal_without_end_is_passed_on_as_it_comes() -> None:
    async with (
        serving() as (api, _),
        kubelet() as (port, _),
        running_at(api, "endless-1", port),
        api.session.get(api.url + api.at("pods", "endless-1", "exec"), headers=SPDY) as told,
    ):
        assert (told.status, told.reason) == (500, "No")
        assert await asyncio.wait_for(told.content.readexactly(6), WAIT_S) == b"so far"


async def test_a_header_that_is_no_utf_8_goes_on_as_it_is() -> None:
    async with serving() as (api, _), kubelet() as (port, asked), running_at(api, "echo-1", port):
        given = SPDY | {"X-Forwarded-For": "\udcff"}
        async with switched(api, api.at("pods", "echo-1", "exec"), "GET", given) as (head, _, _):
            assert head.startswith("HTTP/1.1 101 ")
    assert asked.asked[0][2]["x-forwarded-for"] == "\udcff, 127.0.0.1"


async def test_a_client_that_speaks_before_the_switch_and_goes_is_missed() -> None:
    """aiohttp takes no more of a long body than it has room for, until somebody reads it."""
    long = SPDY | {"Content-Length": "9999999", "Authorization": f"Bearer {TOKEN}", "Host": "x"}
    async with serving() as (api, _), kubelet() as (port, asked), running_at(api, "echo-1", port):
        lines = [
            f"POST {api.at('pods', 'echo-1', 'exec')} HTTP/1.1",
            *(f"{name}: {long[name]}" for name in long),
            "",
            "",
        ]
        address = urlsplit(api.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write("\r\n".join(lines).encode() + bytes(5_000_000))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.transport.abort()
        await asyncio.wait_for(asked.ended.wait(), WAIT_S)
