"""Whom an agent probes, and what it answers when the dispatcher tells it of peers."""

import asyncio
import ipaddress
from typing import Any

import pytest

from agents.runtime import probing
from agents.runtime.link_settings import LinkSettings
from agents.runtime.probing import PeerProbes
from shared.messages import Peer
from shared.model.probe_address import read_address
from tests.system.ray_fleet import free_ports


def peer(cluster: str, probe: str, uid: str = "") -> Peer:
    return Peer(cluster, ready=True, uid=uid or f"uid-{cluster}", probe=probe)


def test_two_agents_measure_each_other_on_an_address_that_each_publishes() -> None:
    async def story() -> Any:
        ports = free_ports(2)
        agents = []
        for name, port in zip("ab", ports, strict=True):
            settings = LinkSettings(
                listen=f"127.0.0.1:{port}",
                address=f"127.0.0.1:{port}",
                allow=tuple(f"127.0.0.1/32:{one}" for one in ports),
                interval_s=1.0,
            )
            agents.append(PeerProbes(settings, f"uid-{name}".lower))
        running = [asyncio.create_task(one.run()) for one in agents]
        one, other = agents
        one.follow([peer("b", other.address)])
        other.follow([peer("a", one.address)])
        async with asyncio.timeout(20.0):
            while not (one.readings() and other.readings()):  # noqa: ASYNC110 - probes tell nobody that they are done
                await asyncio.sleep(0.05)
        found = one.readings(), other.readings()
        one.follow([])
        gone = one.readings()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return found, gone, [task for task in asyncio.all_tasks() if task.get_name().startswith("probe ")]

    (one, other), gone, left = asyncio.run(story())
    assert [(link.cluster, link.loss) for link in (*one, *other)] == [("b", 0.0), ("a", 0.0)]
    assert 0 < one[0].rtt_ms < 1000
    assert gone == ()
    assert left == []


@pytest.mark.parametrize(
    ("allow", "address"),
    [
        ((), "192.0.2.7:7490"),
        (("192.0.2.0/24",), "198.51.100.7:7490"),
        (("192.0.2.0/24",), "192.0.2.7:22"),
        (("192.0.2.0/24:9000",), "192.0.2.7:7490"),
        (("0.0.0.0/0",), "127.0.0.1:7490"),
        (("0.0.0.0/0",), "169.254.169.254:7490"),
        (("0.0.0.0/0",), "100.100.100.200:7490"),
        (("100.100.100.200/32",), "100.100.100.200:7490"),
        (("0.0.0.0/0",), "0.0.0.0:7490"),
        (("::/0",), "[::1]:7490"),
        (("::/0",), "[fe80::1]:7490"),
        (("::/0",), "[fd00:ec2::254]:7490"),
        (("0.0.0.0/0", "::/0"), "[::ffff:192.0.2.7]:7490"),
        (("0.0.0.0/0",), "224.0.0.1:7490"),
        (("0.0.0.0/0",), "metadata.internal:7490"),
    ],
)
def test_nobody_can_make_it_connect_where_its_own_settings_do_not_allow(
    allow: tuple[str, ...], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def probe(where: Any, uid: str) -> Any:
        asked.append(str(where))
        raise AssertionError

    async def story() -> None:
        probes = PeerProbes(LinkSettings(allow=allow), lambda: "uid-a")
        probes.follow([peer("b", address)])
        assert len(asyncio.all_tasks()) == 1
        assert probes.readings() == ()

    monkeypatch.setattr(probing, "probe", probe)
    asyncio.run(story())
    assert asked == []


def test_networks_that_are_allowed_are_probed_on_their_port() -> None:
    settings = LinkSettings(allow=("192.0.2.0/24", "2001:db8::/32:9000", "127.0.0.1/32:7000"))
    for address in ("192.0.2.9:7490", "[2001:db8::1]:9000", "127.0.0.1:7000"):
        assert settings.may_probe(read_address(address))


@pytest.mark.parametrize("network", ["192.0.2.0/33", "example.com", "192.0.2.0/24:0", "192.0.2.0/24:x", "192.0.2.7/24"])
def test_networks_that_are_none_are_refused(network: str) -> None:
    with pytest.raises(ValueError, match="is no network such as"):
        LinkSettings(allow=(network,))


def test_an_agent_that_does_not_listen_publishes_nothing() -> None:
    assert PeerProbes(LinkSettings(address="192.0.2.7:7490"), lambda: "u").address == ""
    assert ipaddress.ip_address("192.0.2.7") == read_address("192.0.2.7:7490").ip
