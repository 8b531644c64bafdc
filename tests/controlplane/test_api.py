"""The harness's client asks again where a server ended a kept connection, and only where that does no harm."""

from collections.abc import Callable
from pathlib import Path

import certifi
import httpx
import pytest

from localfleet.controlplane.api import Api

UNANSWERED = httpx.RemoteProtocolError("Server disconnected without sending a response.")
CLOSED = httpx.ReadError("[Errno 9] Bad file descriptor")


def _api(answers: list[httpx.Response | httpx.TransportError], asked: list[str]) -> Api:
    """A client of a server that gives these answers in turn, or ends the connection without one."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        found = answers.pop(0)
        if isinstance(found, httpx.TransportError):
            raise found
        return found

    api = Api("https://127.0.0.1:1", Path(certifi.where()))
    api.http.close()
    api.http = httpx.Client(base_url="https://127.0.0.1:1", transport=httpx.MockTransport(answer))
    return api


@pytest.mark.parametrize("end", [UNANSWERED, CLOSED], ids=["by the server", "by another thread"])
def test_a_read_whose_connection_ended_is_asked_again(end: httpx.TransportError) -> None:
    asked: list[str] = []
    api = _api([end, httpx.Response(200, json={"kind": "Node"})], asked)
    assert api.get("/api/v1/nodes/a") == {"kind": "Node"}
    assert asked == ["GET", "GET"]


def test_a_delete_that_was_carried_out_before_the_connection_ended_has_succeeded() -> None:
    assert _api([UNANSWERED, httpx.Response(404, json={})], []).delete("/api/v1/nodes/a") == {"status": "Success"}


def test_a_delete_of_what_is_not_there_fails() -> None:
    with pytest.raises(httpx.HTTPStatusError, match="DELETE /api/v1/nodes/a: 404"):
        _api([httpx.Response(404, json={})], []).delete("/api/v1/nodes/a")


def test_a_merge_patch_whose_connection_ended_is_asked_again() -> None:
    asked: list[str] = []
    api = _api([UNANSWERED, httpx.Response(200, json={"kind": "Pod"})], asked)
    assert api.patch("/api/v1/namespaces/a/pods/b/status", {"status": {"phase": "Running"}}) == {"kind": "Pod"}
    assert asked == ["PATCH", "PATCH"]


def test_a_create_that_was_carried_out_before_the_connection_ended_answers_with_the_object() -> None:
    asked: list[str] = []
    there = {"kind": "Node", "metadata": {"name": "a", "uid": "1"}}
    api = _api([UNANSWERED, httpx.Response(409, json={}), httpx.Response(200, json=there)], asked)
    assert api.create("/api/v1/nodes", {"metadata": {"name": "a"}}) == there
    assert asked == ["POST", "POST", "GET"]


def test_a_create_of_what_is_there_fails() -> None:
    with pytest.raises(httpx.HTTPStatusError, match="POST /api/v1/nodes: 409"):
        _api([httpx.Response(409, json={})], []).create("/api/v1/nodes", {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("asked_for", "method"),
    [
        (lambda api: api.create("/api/v1/nodes", {"metadata": {"generateName": "a-"}}), "POST"),
        (lambda api: api.create("/api/v1/nodes", {}), "POST"),
        (lambda api: api.patch("/api/v1/nodes/a", {}, "application/json-patch+json"), "PATCH"),
    ],
    ids=["a name that the server makes up", "no name", "a JSON patch"],
)
def test_what_would_change_more_the_second_time_is_not_asked_again(
    asked_for: Callable[[Api], object], method: str
) -> None:
    asked: list[str] = []
    with pytest.raises(httpx.RemoteProtocolError):
        asked_for(_api([UNANSWERED], asked))
    assert asked == [method]


def test_two_ended_connections_fail() -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        _api([UNANSWERED, UNANSWERED], []).get("/api/v1/nodes/a")
