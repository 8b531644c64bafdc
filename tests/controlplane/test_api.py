"""The harness's client asks again where a server ended a kept connection, and only where that does no harm."""

from pathlib import Path

import certifi
import httpx
import pytest

from localfleet.controlplane.api import Api


def _api(answers: list[httpx.Response | None], asked: list[str]) -> Api:
    """A client of a server that gives these answers in turn; None: it ends the connection without one."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        found = answers.pop(0)
        if found is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return found

    api = Api("https://127.0.0.1:1", Path(certifi.where()))
    api.http.close()
    api.http = httpx.Client(base_url="https://127.0.0.1:1", transport=httpx.MockTransport(answer))
    return api


def test_a_read_whose_connection_ended_is_asked_again() -> None:
    asked: list[str] = []
    api = _api([None, httpx.Response(200, json={"kind": "Node"})], asked)
    assert api.get("/api/v1/nodes/a") == {"kind": "Node"}
    assert asked == ["GET", "GET"]


def test_a_delete_that_was_carried_out_before_the_connection_ended_has_succeeded() -> None:
    assert _api([None, httpx.Response(404, json={})], []).delete("/api/v1/nodes/a") == {"status": "Success"}


def test_a_delete_of_what_is_not_there_fails() -> None:
    with pytest.raises(httpx.HTTPStatusError, match="DELETE /api/v1/nodes/a: 404"):
        _api([httpx.Response(404, json={})], []).delete("/api/v1/nodes/a")


def test_a_create_whose_connection_ended_fails_since_it_may_have_been_carried_out() -> None:
    asked: list[str] = []
    with pytest.raises(httpx.RemoteProtocolError):
        _api([None], asked).create("/api/v1/nodes", {})
    assert asked == ["POST"]


def test_two_ended_connections_fail() -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        _api([None, None], []).get("/api/v1/nodes/a")
