"""Long lists over HTTP: others have their turn while they are made, and one that fails is not taken for whole."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from dispatcher.api import rows
from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.api.page import MOST_PODS
from dispatcher.scheduling.views import Pieces, whole
from tests.service.fakes import FakeCore, FakeViews, service

Client = TestClient[Any, Any]
PIECES, ROW = 50, {**whole(FakeViews().pods())[0]}


class LongViews(FakeViews):
    """So many pods, 100 a piece; `turns`: how often others had their turn, at each piece. Piece `broken` fails."""

    pieces = PIECES
    turns = 0
    broken = -1
    noted: list[int]

    def __init__(self) -> None:
        self.noted, self.left = [], asyncio.Event()

    def pods(self, namespace: str = "") -> Pieces:
        try:
            for piece in range(self.pieces):
                if piece == self.broken:
                    raise RuntimeError("the world is not as it was thought")
                self.noted.append(self.turns)
                yield [{**ROW, "name": f"web-{100 * piece + at}"} for at in range(100)]
        finally:
            self.left.set()

    def count_pods(self, namespace: str = "") -> int:
        return PIECES * 100


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> LongViews:
    monkeypatch.setattr(rows, "TURN_S", -1.0)  # a piece a turn
    return LongViews()


@pytest.fixture
async def client(views: LongViews) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_app(OnlyOne(service(FakeCore(clusters={})), views)))) as found:
        yield found


async def take_turns(views: LongViews) -> None:
    while True:
        views.turns += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "pieces"), [("/v1/pods", PIECES), ("/v1/pods?phase=Failed", PIECES), ("/", MOST_PODS // 100)]
)
async def test_others_have_their_turn_between_two_pieces(
    client: Client, views: LongViews, path: str, pieces: int
) -> None:
    others = asyncio.create_task(take_turns(views))
    answer = await client.get(path)
    await answer.read()
    others.cancel()
    assert answer.status == 200
    assert len(views.noted) == pieces
    assert len(set(views.noted)) == pieces


async def test_short_pieces_share_a_turn(client: Client, views: LongViews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TURN_S", 3600.0)
    others = asyncio.create_task(take_turns(views))
    await (await client.get("/v1/pods")).read()
    others.cancel()
    assert len(set(views.noted)) == 1


async def test_a_scrape_does_not_wait_for_lists(client: Client) -> None:
    async with client.app[rows.ONE_AT_A_TIME]:
        assert "process_cpu_seconds_total" in await (await client.get("/metrics")).text()


async def test_several_lists_at_once_make_one_piece_a_turn(client: Client, views: LongViews) -> None:
    others = asyncio.create_task(take_turns(views))
    for answer in await asyncio.gather(*(client.get("/v1/pods") for _ in range(4))):
        assert len((await answer.json())["pods"]) == PIECES * 100
    others.cancel()
    assert len(views.noted) == 4 * PIECES
    assert len(set(views.noted)) == 4 * PIECES


async def test_all_pieces_are_one_list(client: Client) -> None:
    found = (await (await client.get("/v1/pods")).json())["pods"]
    assert [row["name"] for row in found] == [f"web-{number}" for number in range(PIECES * 100)]


async def test_a_list_that_fails_in_the_middle_is_cut_off(client: Client, views: LongViews) -> None:
    views.broken = 20
    with pytest.raises(aiohttp.ClientError):
        await (await client.get("/v1/pods")).read()


async def test_a_list_that_fails_at_once_is_an_error(client: Client, views: LongViews) -> None:
    views.broken = 0
    answer = await client.get("/v1/pods")
    assert (answer.status, (await answer.json())["error"]) == (500, "internal error: see the dispatcher's log")


async def test_a_head_request_has_no_body(client: Client) -> None:
    answer = await client.head("/v1/pods")
    assert (answer.status, await answer.read()) == (200, b"")
    assert (await client.get("/healthz")).status == 200  # on the same connection


async def test_an_older_client_sees_where_the_list_ends(client: Client) -> None:
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(b"GET /v1/pods HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
    async with asyncio.timeout(30):
        answer = await reader.read()  # the connection ends
    writer.close()
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["pods"]) == PIECES * 100


async def test_a_reader_that_takes_nothing_is_let_go(
    client: Client, views: LongViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "READER_S", 0.05)
    monkeypatch.setattr(LongViews, "pieces", 2_000)  # more than sockets hold
    _, writer = await asyncio.open_connection(client.host, client.port, limit=2**10)
    writer.write(b"GET /v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(30):
        await views.left.wait()
    assert len(views.noted) < LongViews.pieces
    writer.close()


async def test_the_page_shows_the_first_pods_and_how_many_more_there_are(client: Client) -> None:
    text = await (await client.get("/")).text()
    assert f">web-{MOST_PODS - 1}</td>" in text
    assert f">web-{MOST_PODS}</td>" not in text
    assert f"{PIECES * 100 - MOST_PODS} more pods" in text
