"""exec, attach and port-forward: what is refused, what the kubelet of a node is asked, and bytes both ways."""

import asyncio
import socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.contract.client import Api, pod
from tests.contract.foreign_nodes import running_at
from tests.contract.stream_kubelet import SPDY, WEBSOCKET, ask, kubelet, switched

VERBS = ("exec", "attach", "portforward")
COMMAND = ("command=sh", "command=-c", "command=a%26b c")


@pytest.mark.parametrize("verb", VERBS)
async def test_a_pod_that_is_not_there_is_not_found(api: Api, verb: str) -> None:
    told = await ask(api, api.at("pods", "none", verb))
    assert (told.status, told.reason, told.message) == (404, "NotFound", 'pods "none" not found')


@pytest.mark.parametrize("verb", VERBS)
async def test_a_pod_without_a_node_is_refused(api: Api, verb: str) -> None:
    await api.add("pods", pod())
    told = await ask(api, api.at("pods", "web", verb))
    assert (told.status, told.reason, told.message) == (400, "BadRequest", "pod web does not have a host assigned")


@pytest.mark.parametrize("verb", VERBS)
async def test_a_node_that_is_gone_is_not_found_and_called_a_pod(api: Api, verb: str) -> None:
    await api.add("pods", pod(spec={"nodeName": "gone"}))
    told = await ask(api, api.at("pods", "web", verb))
    assert (told.status, told.message) == (404, 'pods "gone" not found')


@pytest.mark.parametrize("verb", [*VERBS, "log"])
async def test_a_node_without_an_internal_address_is_an_error(api: Api, verb: str) -> None:
    async with running_at(api, "web", 1) as node:
        addresses = [{"type": "Hostname", "address": "east"}]
        await api.change("nodes", f"{node}/status", {"status": {"addresses": addresses}})
        told = await ask(api, api.at("pods", "web", verb))
    assert (told.status, told.reason) == (500, "")
    assert told.message == "no preferred addresses found; known addresses: [{Hostname east}]"


@pytest.mark.parametrize("verb", ["exec", "attach", "log"])
async def test_the_container_is_one_of_the_pod_and_named_where_there_are_several(api: Api, verb: str) -> None:
    two = [{"name": name, "image": "i"} for name in ("one", "two")]
    first = [{"name": "first", "image": "i"}]
    await api.add("pods", pod(spec={"nodeName": "gone", "containers": two, "initContainers": first}))
    unclear = await ask(api, api.at("pods", "web", verb))
    assert (unclear.status, unclear.reason) == (400, "BadRequest")
    words = "a container name must be specified for pod web, choose one of: [first one two]"
    assert unclear.message == words
    wrong = await ask(api, api.at("pods", "web", f"{verb}?container=other"))
    assert (wrong.status, wrong.message) == (400, "container other is not valid for pod web")
    right = await ask(api, api.at("pods", "web", f"{verb}?container=first"))
    assert right.message == 'pods "gone" not found'


@pytest.mark.parametrize("verb", VERBS)
async def test_a_request_that_is_no_upgrade_and_a_method_that_is_none_are_refused(api: Api, verb: str) -> None:
    async with running_at(api, "web", 1):
        plain = await ask(api, api.at("pods", "web", verb), "POST", {})
        other = await ask(api, api.at("pods", "web", verb), "PUT", {})
    assert (plain.status, plain.reason, plain.message) == (400, "BadRequest", "Upgrade request required")
    assert (other.status, other.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize("port", ["http", "-1", "65536", "00000000000000000000000099999", ""])
async def test_a_port_is_a_number(api: Api, port: str) -> None:
    await api.add("pods", pod())
    told = await ask(api, api.at("pods", "web", f"portforward?ports={port}"))
    why = "value out of range" if port.isdigit() else "invalid syntax"
    message = f'cannot convert to []int32: strconv.ParseUint: parsing "{port}": {why}'
    assert (told.status, told.reason, told.message) == (400, "BadRequest", message)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_kubelet_that_is_away_is_an_error(api: Api, verb: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        async with running_at(api, "web", port):
            told = await ask(api, api.at("pods", "web", verb))
    assert (told.status, told.reason) == (500, "")
    assert told.message == f"error dialing backend: dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_a_kubelet_that_ends_without_an_answer_is_an_error(api: Api) -> None:
    async with kubelet() as (port, _), running_at(api, "nothing", port):
        told = await ask(api, api.at("pods", "nothing", "exec"))
    assert (told.status, told.message) == (500, "unexpected EOF")


@pytest.mark.parametrize("code", [400, 404, 500, 503])
async def test_what_a_kubelet_refuses_is_told_as_it_says_it(api: Api, code: int) -> None:
    async with kubelet() as (port, _), running_at(api, f"says-{code}", port):
        told = await ask(api, api.at("pods", f"says-{code}", "exec"))
    assert (told.status, told.body) == (code, "what it says")


async def test_an_answer_that_neither_switches_nor_refuses_is_an_error(api: Api) -> None:
    async with kubelet() as (port, _), running_at(api, "says-200", port):
        told = await ask(api, api.at("pods", "says-200", "exec"))
    assert (told.status, told.reason, told.message) == (500, "", "invalid upgrade response: status code 200")


CALLS = [
    ("exec?" + "&".join(COMMAND) + "&stdout=true&stdin=1&tty=false", "/exec/{}/main", [
        ("command", "sh"), ("command", "-c"), ("command", "a&b c"), ("input", "1"), ("output", "1"),
    ]),
    ("exec?command=id&stderr=True&container=main&stdout=0", "/exec/{}/main", [("command", "id"), ("error", "1")]),
    ("exec?command=id&stderr", "/exec/{}/main", [("command", "id"), ("error", "1")]),
    ("attach?stdin=true&stderr=false&tty=true&command=id", "/attach/{}/main", [("input", "1"), ("tty", "1")]),
    ("portforward", "/portForward/{}", []),
    ("portforward?ports=80,443&ports=0008080", "/portForward/{}", [("port", "80,443,8080")]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "path", "query"), CALLS, ids=[call[0][:20] for call in CALLS])
async def test_a_kubelet_is_asked_what_the_client_asks(api: Api, call: str, path: str, query: Any) -> None:
    async with kubelet() as (port, asked), running_at(api, "says-500", port):
        await ask(api, api.at("pods", "says-500", call))
    (method, target, headers) = asked.asked[0]
    assert method == "GET"
    assert urlsplit(target).path == path.format(f"{api.namespace}/says-500")
    assert parse_qsl(urlsplit(target).query) == query
    assert "authorization" not in headers
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert {name: headers[name.lower()] for name in SPDY} == SPDY


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        # Before, API servers speak SPDY to each kubelet.
        pytest.param("GET", WEBSOCKET, id="websocket", marks=pytest.mark.since("1.36")),
        pytest.param("POST", SPDY, id="spdy"),
    ],
)
async def test_bytes_go_both_ways_until_the_kubelet_ends(api: Api, method: str, headers: dict[str, str]) -> None:
    much = bytes(range(256)) * 4096
    async with kubelet() as (port, asked), running_at(api, "echo-1", port):
        path = api.at("pods", "echo-1", "exec?command=cat&stdin=true")
        async with switched(api, path, method, headers) as (head, reader, writer):
            assert head.startswith("HTTP/1.1 101 ")
            assert f"upgrade: {headers['Upgrade']}\r\n".lower() in head.lower()
            assert "X-Own: kept\r\n" in head
            assert await reader.readexactly(6) == b"first "
            writer.write(much + b"end")
            assert await reader.read() == much + b"end"
    (told_method, _, told_headers) = asked.asked[0]
    assert told_method == method
    assert {name: told_headers[name.lower()] for name in headers} == headers


async def test_a_client_that_goes_ends_the_connection_to_the_kubelet(api: Api) -> None:
    async with kubelet() as (port, asked), running_at(api, "echo-1", port):
        async with switched(api, api.at("pods", "echo-1", "attach?stdin=true"), "GET", SPDY) as (_, reader, _):
            assert await reader.readexactly(6) == b"first "
            assert not asked.ended.is_set()
        await asyncio.wait_for(asked.ended.wait(), 10)


async def test_a_long_command_comes_whole(api: Api) -> None:
    async with kubelet() as (port, asked), running_at(api, "says-500", port):
        await ask(api, api.at("pods", "says-500", f"exec?command={'x' * 20_000}"))
    assert parse_qsl(urlsplit(asked.asked[0][1]).query) == [("command", "x" * 20_000)]


async def test_exec_attach_and_port_forward_are_discovered(api: Api) -> None:
    named = {one["name"]: one for one in (await api.get("/api/v1")).ok()["resources"]}
    kinds = {"exec": "PodExecOptions", "attach": "PodAttachOptions", "portforward": "PodPortForwardOptions"}
    for verb, kind in kinds.items():
        one = named[f"pods/{verb}"]
        assert (one["kind"], one["verbs"], one["namespaced"]) == (kind, ["create", "get"], True)
