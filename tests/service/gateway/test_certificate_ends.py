"""When an agent's own certificate ends: told by metric, and shown anew in time."""

import asyncio
from pathlib import Path

import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from dispatcher.config.certificates import SOON
from dispatcher.service.gateway.agent_connection import AgentConnection
from dispatcher.service.gateway.certificates import Named, connection_s
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.gateway.metrics import RelayCollector
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import connected, dialling, folder
from tests.service.gateway.test_problems import listening

__all__ = ["folder"]
DAY_S = 86_400.0


def told(link: GatewayLink, role: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(RelayCollector([link]))
    name = "global_dispatcher_agent_certificate_expiry_timestamp_seconds"
    return registry.get_sample_value(name, {"cluster": "east", "role": role})


def end_of(folder: Path) -> float:
    return x509.load_pem_x509_certificate((folder / "cluster-east.crt").read_bytes()).not_valid_after_utc.timestamp()


async def test_the_end_of_the_certificate_that_an_agent_shows_is_told_while_it_is_connected(folder: Path) -> None:
    async with listening(folder) as site:
        link = site.gateway.link("east")
        assert told(link, "observer") is None
        async with dialling(site.settings("east"), "east", FakeAgent("east")):
            await connected(link)
            assert [told(link, role) for role in ("observer", "executor")] == [pytest.approx(end_of(folder), abs=2)] * 2


@pytest.mark.parametrize(("left", "lasts"), [(90, 69), (22.5, 1.5), (21.5, 1), (10, 1), (1, 1), (0.1, 0.1)], ids=str)
def test_a_connection_lasts_until_the_certificate_is_to_be_shown_anew(left: float, lasts: float) -> None:
    assert connection_s(left * DAY_S) == lasts * DAY_S


def test_a_renewed_certificate_is_shown_before_anybody_is_warned_of_the_old_one() -> None:
    soon = SOON.total_seconds()
    assert all(left * DAY_S - connection_s(left * DAY_S) > soon for left in range(17, 400))
    assert 90 * DAY_S - connection_s(90 * DAY_S) < 30 * DAY_S, "from then on `join` renews"


async def test_an_agent_whose_certificate_ends_soon_connects_again_and_shows_what_it_has_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.service.gateway.gateway.connection_s", lambda _: 0.3)
    east, reasons, lines = Named("east", "observer"), set[str](), dict[int, AgentConnection]()
    async with listening(folder) as site, dialling(site.settings("east"), "east", FakeAgent("east")):
        async with asyncio.timeout(20):
            while len(lines) < 2:
                found = site.gateway._line(east)
                lines |= {id(found): found} if isinstance(found, AgentConnection) else {}
                reasons |= {found} if isinstance(found, str) else set()
                await asyncio.sleep(0.01)
    assert any("it connects again with the one that it has now" in one for one in reasons)
