"""Logs of pods on a node whose kubelet is somebody else's: asked at the node's address, and told as it answers."""

import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from tests.contract.client import Api
from tests.contract.foreign_nodes import running_at

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

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


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
