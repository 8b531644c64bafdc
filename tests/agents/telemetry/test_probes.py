import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agents.observer.peer_links import Trip
from agents.telemetry.probes import ANSWERED, ASKED, Answering, answer, probe
from shared.model.probe_address import ProbeAddress, published, read_address
from tests.system.ray_fleet import free_ports

LOOPBACK = ipaddress.ip_address("127.0.0.1")


@asynccontextmanager
async def answering(uid: str, patience_s: float = 5.0) -> AsyncIterator[ProbeAddress]:
    address = ProbeAddress(LOOPBACK, free_ports(1)[0])
    server = Answering(lambda: uid, patience_s)
    await server.start(address)
    try:
        yield address
    finally:
        await server.close()


def test_a_probe_measures_the_cluster_that_it_means() -> None:
    async def story() -> Trip:
        async with answering("uid-b") as address:
            return await probe(address, "uid-b")

    trip = asyncio.run(story())
    assert trip.connect_s is not None
    assert trip.echo_s is not None
    assert 0 < trip.connect_s < 5
    assert 0 < trip.echo_s < 5


@pytest.mark.parametrize(("there", "meant"), [("uid-c", "uid-b"), ("", "uid-b")], ids=["another cluster", "no UID yet"])
def test_an_address_that_leads_elsewhere_measures_nothing(there: str, meant: str) -> None:
    async def story() -> Trip:
        async with answering(there) as address:
            return await probe(address, meant)

    assert asyncio.run(story()).echo_s is None


def test_nobody_there_and_somebody_who_says_nothing_measure_nothing() -> None:
    async def story() -> tuple[Trip, Trip]:
        nobody = await probe(ProbeAddress(LOOPBACK, free_ports(1)[0]), "uid-b", 0.3)
        silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        mute = await probe(ProbeAddress(LOOPBACK, port), "uid-b", 0.3)
        silent.close()
        return nobody, mute

    nobody, mute = asyncio.run(story())
    assert nobody == Trip()
    assert mute.connect_s is not None
    assert mute.echo_s is None


def test_who_asks_gets_as_many_bytes_and_no_more_however_much_it_sends() -> None:
    async def story() -> bytes:
        async with answering("uid-b") as address:
            reader, writer = await asyncio.open_connection(str(address.ip), address.port)
            writer.write(b"x" * ASKED * 100)
            found = await reader.read(-1)
            writer.close()
            return found

    assert asyncio.run(story()) == answer(b"x" * ASKED, "uid-b")
    assert len(answer(b"", "uid")) == ANSWERED


def test_who_asks_nothing_is_left_after_a_while() -> None:
    async def story() -> bytes:
        async with answering("uid-b", patience_s=0.2) as address:
            reader, writer = await asyncio.open_connection(str(address.ip), address.port)
            async with asyncio.timeout(5.0):
                found = await reader.read(-1)
            writer.close()
            return found

    assert asyncio.run(story()) == b""


@pytest.mark.parametrize("text", ["192.0.2.7:7490", "[2001:db8::7]:7490"])
def test_addresses_are_read_and_written_alike(text: str) -> None:
    assert str(read_address(text)) == published(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:7490",
        "192.0.2.7",
        "192.0.2.7:0",
        "192.0.2.7:65536",
        "192.0.2.7:x",
        "192.0.2.7:\u096d",
        "2001:db8::7:7490",
        "[192.0.2.7]:1",
        "[::ffff:192.0.2.7]:7490",
        "[fe80::1%eth0]:7490",
        "http://192.0.2.7:7490",
        "192.0.2.7:7490" * 9,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert published(text) == ""
    with pytest.raises(ValueError, match="must be an IP address and a port"):
        read_address(text)


async def test_an_agent_without_a_file_left_to_open_measures_nothing_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("agents.telemetry.probes.socket.socket", none_left)
    assert await probe(ProbeAddress(LOOPBACK, 1), "uid-b") == Trip(None, None, None)
