"""However many ask, dispatcher and agents work for one of them; what cannot be read costs a log line a minute."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from dispatcher.api import shared
from dispatcher.api.http_api import OnlyOne, make_app, serve
from dispatcher.api.login import Login
from dispatcher.api.shared import Shared
from dispatcher.config.sections import LoginSection
from dispatcher.service.links.link import LocalLink
from dispatcher.service.metrics.counters import Metrics
from shared.messages import Telemetry
from tests.service.fakes import FakeAgent, FakeCore, FakeViews, service


class Counted(FakeAgent):
    calls = 0

    async def telemetry(self) -> Telemetry:
        self.calls += 1
        await asyncio.sleep(0.05)
        return Telemetry("east")


@pytest.fixture
async def agent_and_client() -> AsyncIterator[tuple[Counted, TestClient[Any, Any]]]:
    agent = Counted("east")
    subject = service(FakeCore(), LocalLink("east", agent))
    async with TestClient(TestServer(make_app(OnlyOne(subject, FakeViews())))) as client:
        yield agent, client


async def test_an_agent_is_asked_once_for_all_who_want_its_telemetry(
    agent_and_client: tuple[Counted, TestClient[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, client = agent_and_client
    answers = await asyncio.gather(*(client.get("/v1/telemetry") for _ in range(20)))
    rows = [(await answer.json())["telemetry"][0] for answer in answers]
    assert {(row["cluster"], row["problem"]) for row in rows} == {("east", "")}
    assert agent.calls == 1
    monkeypatch.setattr(shared, "FRESH_S", 0.0)
    await client.get("/v1/telemetry")
    assert agent.calls == 2


async def test_metrics_are_rendered_once_for_all_who_scrape_within_a_second(
    agent_and_client: tuple[Counted, TestClient[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = agent_and_client
    rendered, pieces = list[Metrics](), Metrics.pieces

    def counted(metrics: Metrics) -> Iterator[bytes]:
        rendered.append(metrics)
        return pieces(metrics)

    monkeypatch.setattr(Metrics, "pieces", counted)
    answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
    assert len({await answer.read() for answer in answers}) == 1
    assert len(rendered) == 1


async def test_who_goes_away_does_not_end_the_answer_for_others_and_another_term_has_its_own() -> None:
    one, made = Shared[int](), list[str]()

    async def make(name: str = "first") -> int:
        made.append(name)
        await asyncio.sleep(0.02)
        return len(made)

    term, later = object(), object()
    gone, stays = asyncio.create_task(one.get(term, make)), asyncio.create_task(one.get(term, make))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 1
    assert await one.get(later, make) == 2


async def test_requests_that_cannot_be_read_are_one_line(unused_tcp_port: int) -> None:
    runner = await serve(OnlyOne(service(FakeCore()), FakeViews()), "127.0.0.1", unused_tcp_port, Login(LoginSection()))
    try:
        with capture_logs() as lines:
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
                writer.write(b"GET / HTTP/9.9\r\n\r\n")
                assert b"400" in await reader.readline()
                writer.close()
        assert [line["event"] for line in lines] == ["a request cannot be read"]
    finally:
        await runner.cleanup()
