"""Logs of pods on a node whose kubelet is somebody else's: asked at the node's address, and told as it answers."""

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.contract import stream_kubelet
from tests.contract.client import Api
from tests.contract.foreign_nodes import NO_ADDRESSES, running_at
from tests.embedded.tls_server import serving

SAID = 'what it "says"'
_ON_SERVER = f"an error on the server ({json.dumps(SAID)}) has prevented the request from succeeding"
REFUSALS = [
    (400, "BadRequest", SAID),
    (401, "Unauthorized", "the server has asked for the client to provide credentials ( pods/log web-401)"),
    (403, "Forbidden", f"{SAID} ( pods/log web-403)"),
    (404, "NotFound", "the server could not find the requested resource ( pods/log web-404)"),
    (405, "MethodNotAllowed", "the server does not allow this method on the requested resource ( pods/log web-405)"),
    (
        418,
        "",
        "the server responded with the status code 418 but did not return more information ( pods/log web-418)",
    ),
    (500, "InternalError", f"Internal error occurred: {SAID}"),
    (501, "InternalError", f"{_ON_SERVER} ( pods/log web-501)"),
    (502, "InternalError", f"{_ON_SERVER} ( pods/log web-502)"),
    (503, "ServiceUnavailable", "the server is currently unable to handle the request ( pods/log web-503)"),
]


@asynccontextmanager
async def kubelet() -> AsyncIterator[tuple[int, list[str]]]:
    """Its port, and what it is asked. A pod's name says how it answers."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(str(request.rel_url))
        code = int(request.match_info["pod"].rpartition("-")[2])
        return web.Response(status=code, text="a line\n" if code == 200 else SAID)

    async with answering(answer) as port:
        yield port, asked


@asynccontextmanager
async def answering(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[int]:
    """The port of a kubelet whose logs are so answered."""
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    async with serving(app) as port:
        yield port


@asynccontextmanager
async def running(api: Api, name: str) -> AsyncIterator[tuple[int, list[str]]]:
    """A pod that runs on a node of its own, with a kubelet: its port, and what it is asked."""
    async with kubelet() as (port, asked), running_at(api, name, port):
        yield port, asked


async def test_the_log_is_that_which_the_kubelet_tells(api: Api) -> None:
    async with running(api, "web-200") as (_, asked):
        told = await api.get(api.at("pods", "web-200", "log"), tailLines="5", timestamps="true")
    assert (told.status, told.body) == (200, "a line\n")
    (one,) = asked
    assert one == f"/containerLogs/{api.namespace}/web-200/main?tailLines=5&timestamps=true"


@pytest.mark.parametrize(("code", "reason", "message"), REFUSALS)
async def test_what_a_kubelet_refuses_is_refused(api: Api, code: int, reason: str, message: str) -> None:
    name = f"web-{code}"
    async with running(api, name):
        told = await api.get(api.at("pods", name, "log"))
    assert (told.status, told.body.get("reason", ""), told.message) == (code, reason, message)
    named = {"name": name, "kind": "pods/log"}
    details = {400: None, 500: {"causes": [{"message": SAID}]}}.get(code, named)
    assert told.body.get("details") == details


async def test_a_kubelet_that_is_away_is_an_error_without_a_reason(api: Api) -> None:
    async with running(api, "web-200"):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
            await api.change("nodes", f"{api.namespace}-web-200/status", {"status": endpoints})
            told = await api.get(api.at("pods", "web-200", "log"))
    url = f"https://127.0.0.1:{port}/containerLogs/{api.namespace}/web-200/main"
    assert (told.status, told.body.get("reason", "")) == (500, "")
    assert told.message.startswith(f'Get "{url}": ')


async def test_a_log_that_breaks_off_is_told_as_far_as_it_came(api: Api) -> None:
    async with stream_kubelet.kubelet() as (port, _), running_at(api, "cut-1", port):
        told = await api.get(api.at("pods", "cut-1", "log"))
    assert (told.status, told.body) == (200, "so far")


async def test_a_kubelet_sends_nobody_elsewhere(api: Api) -> None:
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("https://127.0.0.1:1/other")

    async with answering(elsewhere) as port, running_at(api, "web", port):
        told = await api.get(api.at("pods", "web", "log"))
    assert (told.status, told.message) == (500, 'Get "https://127.0.0.1:1/other": redirects forbidden')


@pytest.mark.parametrize("address", NO_ADDRESSES)
async def test_an_address_is_no_part_of_a_url(api: Api, address: str) -> None:
    async with stream_kubelet.kubelet() as (port, kubelet), running_at(api, "says-500", port) as node:
        known = {"addresses": [{"type": "InternalIP", "address": address}]}
        await api.change("nodes", f"{node}/status", {"status": known})
        told = await stream_kubelet.ask(api, api.at("pods", "says-500", "log"))
    assert (told.status, told.reason, kubelet.asked) == (500, "", [])


@pytest.mark.parametrize("verb", ["log", "exec"])
async def test_a_port_that_is_none_is_an_error(api: Api, verb: str) -> None:
    async with running_at(api, "web", 70_000):
        told = await stream_kubelet.ask(api, api.at("pods", "web", verb))
    assert (told.status, told.reason) == (500, "")
    assert told.message.endswith("dial tcp: address 70000: invalid port")
