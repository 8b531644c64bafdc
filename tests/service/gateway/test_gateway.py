"""Agents that dial in, over real TLS on loopback: who is let in, what crosses, and what a cut does."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientConnectionResetError
from aiohttp.http import WebSocketWriter
from structlog.testing import capture_logs

from agents.executor.trust.orders import Refused
from agents.runtime.outbound import dialling as subject
from agents.runtime.outbound.answering import answers_of
from agents.runtime.outbound.dialling import Dialler, Lease
from agents.runtime.outbound.settings import GatewaySettings
from dispatcher.config.sections import GatewaySection
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.links.link import AgentDied, AgentFault, AgentMissing, AgentTimeout
from shared.kube.elector import awake
from shared.messages import Bind, IntentBatch, PodRef, WireError
from shared.streams.calls import REPLACED
from tests.service.fakes import FakeAgent
from tests.service.gateway.relay import Relay

WAIT_S = 10.0


@dataclass(frozen=True)
class Site:
    """A gateway that listens, and the folder of the fleet's certificates."""

    gateway: Gateway
    folder: Path

    def settings(self, cluster: str, **given: object) -> GatewaySettings:
        told = {
            "urls": [f"wss://localhost:{self.gateway.port}"],
            "ca_file": str(self.folder / "ca.crt"),
            "cert_file": str(self.folder / f"cluster-{cluster}.crt"),
            "key_file": str(self.folder / f"cluster-{cluster}.key"),
            "longest_pause_s": 1,
        }
        return GatewaySettings.model_validate(told | given)


def section(folder: Path, port: int = 0) -> GatewaySection:
    return GatewaySection(
        port=port,
        cert_file=str(folder / "gateway.crt"),
        key_file=str(folder / "gateway.key"),
        client_ca_file=str(folder / "ca.crt"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], ["east", "west"])
    return folder


@pytest.fixture
async def site(folder: Path) -> AsyncIterator[Site]:
    gateway = Gateway(section(folder), ["east"])
    async with gateway.serving():
        yield Site(gateway, folder)


@contextlib.asynccontextmanager
async def dialling(
    settings: GatewaySettings, cluster: str, agent: FakeAgent, role: str = "both", lease: Lease | None = None
) -> AsyncIterator[Dialler]:
    dialler = Dialler(settings, cluster, answers_of(agent, role), role=role, lease=lease)
    task = asyncio.create_task(dialler.run())
    try:
        yield dialler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def connected(link: GatewayLink) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await link.hello(timeout_s=WAIT_S)
                return
            except (AgentMissing, AgentDied):
                await asyncio.sleep(0.02)


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.02)


async def problem_of(dialler: Dialler, word: str) -> str:
    await eventually(lambda: any(word in line for line in dialler.problems.values()))
    return next(iter(dialler.problems.values()))


async def test_all_calls_cross(site: Site) -> None:
    agent, link = FakeAgent("east"), site.gateway.link("east")
    async with dialling(site.settings("east"), "east", agent):
        await connected(link)
        changes = await link.changes("", 0, 0.1, timeout_s=WAIT_S)
        batch = IntentBatch("east", 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)
        outcomes = await link.execute(batch, timeout_s=WAIT_S)
    assert (changes.cluster, changes.full, [one.verdict for one in outcomes.outcomes]) == ("east", True, ["bound"])
    assert agent.batches == [batch]


async def test_an_agent_that_never_came_is_missing_with_that_reason(site: Site) -> None:
    with pytest.raises(AgentMissing, match="never connected"):
        await site.gateway.link("east").hello(timeout_s=WAIT_S)


async def test_an_agent_names_the_host_that_it_dials_for_those_who_pass_tls_through_by_name(site: Site) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(4096)
        if not heard.done():
            heard.set_result(first)
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with dialling(site.settings("east", urls=[f"wss://localhost:{port}"]), "east", FakeAgent("east")):
            hello = await asyncio.wait_for(heard, WAIT_S)
    assert b"localhost" in hello  # server_name of TLS's ClientHello


async def test_a_call_under_way_at_a_cut_is_unknown_and_the_agent_comes_back(site: Site) -> None:
    agent, link, relay = FakeAgent("east"), site.gateway.link("east"), Relay(site.gateway.port)
    async with (
        relay.listening() as port,
        dialling(site.settings("east", urls=[f"wss://localhost:{port}"]), "east", agent),
    ):
        await connected(link)
        agent.gate.clear()
        poll = asyncio.create_task(link.changes("", 0, 5.0, timeout_s=WAIT_S))
        await eventually(lambda: bool(agent.asked))
        relay.cut()
        with pytest.raises(AgentDied, match="before it answered"):
            await poll
        agent.gate.set()
        await connected(link)
        assert (await link.changes("one", agent.revision - 1, 0.1, timeout_s=WAIT_S)).full is False


@pytest.mark.parametrize(("lasting_s", "lets_in"), [(0.0, True), (10.0, False)])
async def test_a_gateway_whose_connections_are_always_cut_soon_lets_no_executor_in(
    site: Site, monkeypatch: pytest.MonkeyPatch, lasting_s: float, lets_in: bool
) -> None:
    monkeypatch.setattr(subject, "LASTING_S", lasting_s)
    link, relay = site.gateway.link("east"), Relay(site.gateway.port)
    async with (
        relay.listening() as port,
        dialling(site.settings("east", urls=[f"wss://localhost:{port}"]), "east", FakeAgent("east")) as dialler,
    ):
        await connected(link)
        came = awake()
        assert dialler.unreached_s() == 0.0
        relay.cut()
        await eventually(lambda: not dialler.connected)
        assert (dialler.unreached_s() < awake() - came) == lets_in


async def test_a_call_that_is_given_up_ends_at_the_agent_too(site: Site) -> None:
    agent, link = FakeAgent("east"), site.gateway.link("east")
    ended = asyncio.Event()

    async def hang(incarnation: str, since: int, wait_s: float) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent.changes = hang  # type: ignore[method-assign, assignment]
    async with dialling(site.settings("east"), "east", agent):
        await connected(link)
        with pytest.raises(AgentTimeout, match="changes"):
            await link.changes("", 0, 60.0, timeout_s=0.2)
        await asyncio.wait_for(ended.wait(), WAIT_S)
        await link.hello(timeout_s=WAIT_S)


@pytest.mark.parametrize("error", [ValueError("no such thing"), KeyError("no such thing"), WireError("no such thing")])
async def test_a_call_that_fails_says_so_and_ends_nothing_else(site: Site, error: Exception) -> None:
    agent, link = FakeAgent("east"), site.gateway.link("east")

    async def fail() -> None:
        raise error

    agent.telemetry = fail  # type: ignore[method-assign, assignment]
    async with dialling(site.settings("east"), "east", agent):
        await connected(link)
        with pytest.raises(AgentFault, match=rf"{type(error).__name__}\('no such thing'\)"):
            await link.telemetry(timeout_s=WAIT_S)
        await link.hello(timeout_s=WAIT_S)


async def test_a_refusal_is_told_in_its_own_words(site: Site) -> None:
    agent, link = FakeAgent("east"), site.gateway.link("east")

    async def refuse() -> None:
        raise Refused("expired", "compare the clocks")

    agent.telemetry = refuse  # type: ignore[method-assign, assignment]
    with capture_logs() as lines:
        async with dialling(site.settings("east"), "east", agent):
            await connected(link)
            with pytest.raises(
                AgentFault, match=r"^agent of cluster east failed: refused \(expired\): compare the clocks$"
            ):
                await link.telemetry(timeout_s=WAIT_S)
    assert not [line for line in lines if line["event"] == "a call failed"]  # the order gate has logged it


async def test_a_later_connection_of_a_cluster_takes_the_place_of_the_earlier(site: Site) -> None:
    old, new, link = FakeAgent("east", "old"), FakeAgent("east", "new"), site.gateway.link("east")
    async with dialling(site.settings("east", longest_pause_s=600), "east", old) as first:
        await connected(link)
        async with dialling(site.settings("east"), "east", new):
            assert "another agent" in await problem_of(first, "another agent")
            assert (await link.hello(timeout_s=WAIT_S)).incarnation == "new"


class _Waits:
    """The Lease of an executor that another one holds, for a while."""

    def __init__(self) -> None:
        self.held, self.asked_after_being_replaced = False, False
        self.unreached_s: Callable[[], float] = lambda: 0.0

    def keeps_away(self, *, replaced: bool) -> str:
        self.asked_after_being_replaced |= replaced
        return "" if self.held else "this executor waits"


async def test_an_executor_that_waits_for_its_lease_does_not_take_the_place_of_the_one_that_acts(site: Site) -> None:
    old, new, link = FakeAgent("east", "old"), FakeAgent("east", "new"), site.gateway.link("east")
    lease, first = _Waits(), _Waits()
    first.held = True
    quick = site.settings("east", longest_pause_s=1)
    async with dialling(quick, "east", old, lease=first):
        await connected(link)
        async with dialling(quick, "east", new, lease=lease) as second:
            await problem_of(second, "this executor waits")
            assert first.unreached_s() == 0.0 < lease.unreached_s()
            await asyncio.sleep(0.5)
            assert (await link.hello(timeout_s=WAIT_S)).incarnation == "old"
            first.held, lease.held = False, True
            await eventually(lambda: first.asked_after_being_replaced)
            await connected(link)
            assert (await link.hello(timeout_s=WAIT_S)).incarnation == "new"
            await asyncio.sleep(1.5)
            assert (await link.hello(timeout_s=WAIT_S)).incarnation == "new"


async def test_an_agent_knows_that_another_has_come_where_the_gateway_is_gone_before_it_answers_the_close(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = WebSocketWriter.close

    async def too_late(self: WebSocketWriter, code: int = 1000, message: bytes = b"") -> None:
        if code == REPLACED:  # the gateway's own
            return await real(self, code, message)
        raise ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(WebSocketWriter, "close", too_late)
    old, new, link = FakeAgent("east", "old"), FakeAgent("east", "new"), site.gateway.link("east")
    async with dialling(site.settings("east", longest_pause_s=600), "east", old) as first:
        await connected(link)
        async with dialling(site.settings("east"), "east", new):
            await problem_of(first, "another agent of this cluster has connected")


OTHERS = {"cert_file": "cluster-west.crt", "key_file": "cluster-west.key"}
REFUSED: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "another cluster's certificate": ("east", OTHERS, "of another cluster"),
    "a cluster that is not configured": ("west", {}, "does not know this cluster"),
    "a gateway of another name": ("east", {"server_name": "elsewhere.example"}, "has another name"),
    "a file that is not there": ("east", {"cert_file": "none.crt"}, "none.crt: No such file"),
    "a key of another certificate": ("east", {"key_file": "cluster-west.key"}, "TLS failed"),
    "a name without an address": ("east", {"urls": ["wss://gateway.invalid:1"]}, "no address"),
    "a port where nobody listens": ("east", {"urls": ["wss://localhost:1"]}, "localhost"),
    "a proxy that is not there": ("east", {"proxy": "http://127.0.0.1:1"}, "the proxy 127.0.0.1:1 cannot be reached"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_who_cannot_connect_is_told_why(site: Site, name: str) -> None:
    cluster, given, words = REFUSED[name]
    files = {key: str(site.folder / str(value)) for key, value in given.items() if key.endswith("_file")}
    async with dialling(site.settings(cluster, **{**given, **files}), cluster, FakeAgent(cluster)) as dialler:
        assert words in await problem_of(dialler, words)
        assert not dialler.connected


async def test_a_certificate_of_another_authority_is_refused(site: Site, tmp_path: Path) -> None:
    ensure(tmp_path, [], ["east"])
    given = {"cert_file": str(tmp_path / "cluster-east.crt"), "key_file": str(tmp_path / "cluster-east.key")}
    async with dialling(site.settings("east", **given), "east", FakeAgent("east")) as dialler:
        await problem_of(dialler, "cert_file")
    with pytest.raises(AgentMissing):
        await site.gateway.link("east").hello(timeout_s=WAIT_S)


async def test_a_gateway_of_another_authority_is_not_trusted(site: Site, tmp_path: Path) -> None:
    ensure(tmp_path, [], [])
    async with dialling(site.settings("east", ca_file=str(tmp_path / "ca.crt")), "east", FakeAgent("east")) as dialler:
        assert "gateway.ca_file" in await problem_of(dialler, "not trusted")


async def test_an_agent_keeps_a_connection_to_each_gateway(folder: Path) -> None:
    one, two = Gateway(section(folder), ["east"]), Gateway(section(folder), ["east"])
    async with one.serving(), two.serving():
        urls = [f"wss://localhost:{gateway.port}" for gateway in (one, two)]
        async with dialling(Site(one, folder).settings("east", urls=urls), "east", FakeAgent("east")):
            await connected(one.link("east"))
            await connected(two.link("east"))


async def test_an_agent_that_came_before_its_gateway_connects_once_that_listens(folder: Path) -> None:
    async with Gateway(section(folder), ["east"]).serving() as _:
        pass
    gateway = Gateway(section(folder), ["east"])
    async with gateway.serving():
        port = gateway.port
    settings = Site(gateway, folder).settings("east", urls=[f"wss://localhost:{port}"])
    async with dialling(settings, "east", FakeAgent("east")) as dialler:
        await problem_of(dialler, "localhost")
        again = Gateway(section(folder, port), ["east"])
        async with again.serving():
            await connected(again.link("east"))
            assert dialler.connected


def test_files_that_are_there_and_good_are_left_alone(tmp_path: Path) -> None:
    first = ensure(tmp_path, ["gateway.example", "192.0.2.7"], ["east"])
    again = ensure(tmp_path, ["gateway.example", "192.0.2.7"], ["east", "west"])
    assert [one.made for one in first] == [True] * 6
    assert [one.made for one in again] == [False] * 6 + [True] * 3


def test_a_gateway_of_other_names_gets_another_certificate(tmp_path: Path) -> None:
    ensure(tmp_path, ["one.example"], [])
    assert [one.made for one in ensure(tmp_path, ["two.example"], [])] == [False, True, False]


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    ensure(tmp_path, ["gateway.example"], ["east"])
    assert {oct(os.stat(file).st_mode & 0o777) for file in tmp_path.glob("*.key")} == {"0o600"}


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    ensure(tmp_path, [], [])
    (tmp_path / "ca.key").write_text(json.dumps({}))
    with pytest.raises(CommandError, match=str(tmp_path)):
        ensure(tmp_path, [], ["east"])


def test_an_authority_without_its_key_is_never_replaced(tmp_path: Path) -> None:
    ensure(tmp_path, ["gateway.example"], [])
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CommandError, match="belong together"):
        ensure(tmp_path, ["gateway.example"], [])


def test_a_key_of_another_certificate_is_no_good_pair(tmp_path: Path) -> None:
    ensure(tmp_path, [], ["east", "west"])
    (tmp_path / "cluster-east.key").write_bytes((tmp_path / "cluster-west.key").read_bytes())
    again = ensure(tmp_path, [], ["east", "west"])
    assert [one.file.name for one in again if one.made] == ["cluster-east.crt"]


async def test_an_address_that_is_none_is_a_problem_and_no_end(site: Site) -> None:
    async with dialling(site.settings("east", urls=["wss://[::1:7443"]), "east", FakeAgent("east")) as dialler:
        await problem_of(dialler, "[::1:7443")
