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
from dispatcher.service.gateway.sparing_log import EVERY_S, SparingLog
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
