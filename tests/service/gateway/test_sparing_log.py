"""Log lines that a peer can cause: few of a kind, however often it causes them, and none of another kind less."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.sparing_log import EVERY_S, LastingLog, SparingLog
from tests.service.gateway.test_entrance import client_context
from tests.service.gateway.test_gateway import Site, section


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_kind_is_written_so_often_and_the_next_minute_says_how_many_were_left_out() -> None:
    clock = Clock()
    sparing = SparingLog(2, clock)
    with capture_logs() as lines:
        for _ in range(5):
            sparing.warning("refused", "east")
        sparing.warning("refused", "west")
        clock.now = EVERY_S
        sparing.warning("refused", "east", asked="x")
        sparing.warning("refused", "west")
    assert lines == [
        *[{"event": "refused", "log_level": "warning"}] * 3,
        {"event": "refused", "log_level": "warning", "asked": "x", "left_out": 3},
        {"event": "refused", "log_level": "warning"},
    ]


def told_of(states: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """When what was written of these states, at their times."""
    clock, written = Clock(), []
    lasting = LastingLog("wrong", "right", 1, clock)
    for clock.now, problem in states:
        with capture_logs() as lines:
            lasting.tell(problem)
        written += [(clock.now, str(line.get("problem", line["event"]))) for line in lines]
    return written


def test_what_lasts_is_written_once_and_once_when_it_is_over() -> None:
    assert told_of([(at, "full" if 1 <= at < 200 else "") for at in range(300)]) == [(1, "full"), (200, "right")]


def test_what_comes_and_goes_is_written_twice_a_minute() -> None:
    told = told_of([(at / 2, "full" if at % 2 else "") for at in range(1200)])
    assert told[:4] == [(0.5, "full"), (1.0, "right"), (60.5, "full"), (61.0, "right")]
    assert len(told) == 20


def test_what_stays_after_coming_and_going_is_written_once_it_may_be() -> None:
    states = [(0.0, "full"), (1.0, ""), *((float(at), "full") for at in range(2, 100))]
    assert told_of(states) == [(0.0, "full"), (1.0, "right"), (60.0, "full")]


def test_each_line_has_what_it_is_about_and_without_words_for_it_none_says_that_it_is_over() -> None:
    with capture_logs() as lines:
        for lasting in (LastingLog("wrong", "right", actor="gateway-1"), LastingLog("odd", actor="gateway-2")):
            for problem in ("full", "", "full"):
                lasting.tell(problem)
    said = [(line["event"], line["actor"], line.get("problem")) for line in lines]
    full = ("wrong", "gateway-1", "full")
    assert said == [full, ("right", "gateway-1", None), full, *[("odd", "gateway-2", "full")] * 2]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    ensure(tmp_path, ["localhost"], ["east", "west"])
    gateway = Gateway(section(tmp_path), ["east"])
    async with gateway.serving():
        yield Site(gateway, tmp_path)


async def answer_to(site: Site, cluster: str, target: str) -> bytes:
    """All that comes on one connection, after which the gateway has closed it."""
    context: ssl.SSLContext = client_context(site.folder, cluster)
    reader, writer = await asyncio.open_connection("localhost", site.gateway.port, ssl=context)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("cluster", "target", "status", "event"),
    [
        ("west", "/v1/clusters/east", b"403", "an agent is refused: its certificate is of another"),
        ("west", f"/v1/clusters/{'x' * 7000}", b"403", "an agent is refused: its certificate is of another"),
        ("west", "/v1/clusters/west", b"404", "an agent is refused: its cluster does not come through the gateway"),
        ("east", "http://[", b"400", "a request cannot be read"),
    ],
)
async def test_requests_without_end_of_one_certificate_leave_one_short_line(
    site: Site, cluster: str, target: str, status: bytes, event: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs() as lines:
        answers = [await answer_to(site, cluster, target) for _ in range(3)]
    assert [status in answer.partition(b"\r\n")[0] for answer in answers] == [True] * 3, answers
    assert [line["event"] for line in lines] == [event]
    assert longest(lines) < 400
    assert capfd.readouterr() == ("", "")


def longest(lines: list[Any]) -> int:
    return max(len(str(line)) for line in lines)
