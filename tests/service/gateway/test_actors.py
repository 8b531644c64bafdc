"""Gateway actors without Ray: real TLS from agents, the exchange in this process, and lives of actors that end."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents.runtime.outbound.calls import Call
from agents.runtime.outbound.settings import GatewaySettings
from dispatcher.config.sections import GatewaySection
from dispatcher.model.backoff import Backoff
from dispatcher.model.messages import Bind, IntentBatch, PodRef
from dispatcher.service.gateway import remote
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.batches import decode_batch, decode_collected
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.exchange import Exchange
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.remote import GatewaySite, RemoteLine
from dispatcher.service.link import AgentDied, AgentFault, AgentMismatch, AgentMissing
from dispatcher.version import version
from tests.model.wire.schema import RECORDED
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import WAIT_S, connected, dialling, eventually

CLUSTERS = tuple(f"c{number:02d}" for number in range(12))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], CLUSTERS)
    return folder


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.fixture
def other_port() -> Iterator[int]:
    with held_port() as port:
        yield port


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Bound, so that nobody else gets it, and shared with the actors."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class InProcess:
    """An actor without Ray: `begin` and `kill` are its lives. Counts the messages that cross."""

    def __init__(self, section: GatewaySection) -> None:
        self.section = section
        self._exchange: Exchange | None = None
        self._stack = contextlib.AsyncExitStack()
        self._asked: set[asyncio.Task[bytes]] = (
            set()
        )  # long polls under way: they end with the actor, as Ray's calls do
        self.clusters = CLUSTERS
        self.passed_over: tuple[str, ...] = ()
        self.batches: list[int] = []  # of each message in, how many calls it had
        self.collected: list[int] = []  # of each message out, how many answers

    async def begin(self) -> None:
        gateway = Gateway(self.section, self.clusters)
        self._exchange = Exchange(gateway, passed_over=self.passed_over)
        await self._stack.enter_async_context(gateway.serving())

    async def kill(self) -> None:
        self._exchange = None
        for asked in self._asked:
            asked.cancel()
        await self._stack.aclose()

    async def send(self, session: str, batch: bytes) -> None:
        self.batches.append(len(decode_batch(batch).calls))
        await self._alive().send(session, batch)

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        exchange = self._alive()
        asked = asyncio.create_task(exchange.collect(since, wait_s))
        self._asked.add(asked)
        try:
            await asyncio.wait((asked,))
        finally:
            asked.cancel()
            self._asked.discard(asked)
        if exchange is not self._exchange:
            raise AgentDied("it died")
        data = asked.result()
        self.collected.append(len(decode_collected(data).answers))
        return data

    def _alive(self) -> Exchange:
        if self._exchange is None:
            raise AgentDied("it is not there")
        return self._exchange


class Fleet:
    """Two actors at one port, a dispatcher's side, and agents that dial."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self.port = folder, port
        section = GatewaySection(
            port=port,
            actors=2,
            cert_file=str(folder / "gateway.crt"),
            key_file=str(folder / "gateway.key"),
            client_ca_file=str(folder / "ca.crt"),
        )
        self.actors = {f"gateway-{number}": InProcess(section) for number in range(2)}
        self.agents = {cluster: FakeAgent(cluster) for cluster in CLUSTERS}

    def settings(self, cluster: str) -> GatewaySettings:
        return GatewaySettings(
            urls=(f"wss://localhost:{self.port}",),
            ca_file=str(self._folder / "ca.crt"),
            cert_file=str(self._folder / f"cluster-{cluster}.crt"),
            key_file=str(self._folder / f"cluster-{cluster}.key"),
            longest_pause_s=1,
        )

    @contextlib.asynccontextmanager
    async def dialled(self, *clusters: str) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for cluster in clusters:
                await stack.enter_async_context(dialling(self.settings(cluster), cluster, self.agents[cluster]))
            yield

    @contextlib.asynccontextmanager
    async def dispatcher(self) -> AsyncIterator[GatewaySite]:
        site = GatewaySite(self.actors, CLUSTERS)
        async with site.serving():
            yield site


@pytest.fixture
async def fleet(folder: Path, port: int) -> AsyncIterator[Fleet]:
    fleet = Fleet(folder, port)
    for actor in fleet.actors.values():
        await actor.begin()
    yield fleet
    for actor in fleet.actors.values():
        await actor.kill()


def orders(cluster: str) -> IntentBatch:
    return IntentBatch(cluster, 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)


def _has_heard(agent: FakeAgent, batches: int) -> bool:
    return len(agent.batches) == batches


async def test_calls_of_all_clusters_cross_by_few_messages_whichever_actor_holds_them(fleet: Fleet) -> None:
    async with fleet.dialled(*CLUSTERS), fleet.dispatcher() as site:
        links = [site.link(cluster) for cluster in CLUSTERS]
        await asyncio.gather(*(connected(link) for link in links))
        for actor in fleet.actors.values():
            actor.batches.clear()
            actor.collected.clear()
        reports = await asyncio.gather(*(link.changes("", 0, 0.1, timeout_s=WAIT_S) for link in links))
        assert [one.cluster for one in reports] == list(CLUSTERS)
        assert sum(sum(actor.batches) for actor in fleet.actors.values()) == len(CLUSTERS)
        assert sum(len(actor.batches) for actor in fleet.actors.values()) <= len(fleet.actors)
        outcomes = await asyncio.gather(*(link.execute(orders(link.cluster), timeout_s=WAIT_S) for link in links))
        assert {one.outcomes[0].verdict for one in outcomes} == {"bound"}
    assert [len(agent.batches) for agent in fleet.agents.values()] == [1] * len(CLUSTERS)


async def test_an_actor_that_is_killed_costs_no_full_report_and_calls_under_way_are_unknown(fleet: Fleet) -> None:
    agent = fleet.agents["c00"]
    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        for lives, actor in enumerate(fleet.actors.values(), 1):
            agent.gate.clear()
            waiting = asyncio.create_task(link.execute(orders("c00"), timeout_s=WAIT_S))
            await eventually(partial(_has_heard, agent, lives))
            await actor.kill()  # the other one, or the one that holds it
            agent.gate.set()
            await asyncio.gather(waiting, return_exceptions=True)
            await connected(link)
            assert (await link.changes("one", agent.revision - 1, 0.1, timeout_s=WAIT_S)).full is False
            await actor.begin()


async def test_a_call_to_an_actor_that_begins_a_new_life_is_unknown(fleet: Fleet) -> None:
    agent, other = fleet.agents["c00"], fleet.actors["gateway-1"]
    await other.kill()
    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        agent.gate.clear()
        waiting = asyncio.create_task(link.execute(orders("c00"), timeout_s=WAIT_S))
        await eventually(lambda: bool(agent.batches))
        await fleet.actors["gateway-0"].kill()
        await fleet.actors["gateway-0"].begin()
        with pytest.raises(AgentDied):
            await waiting
        agent.gate.set()
        await connected(link)
        assert len(agent.batches) == 1


async def test_a_dispatcher_that_comes_back_finds_the_agents_still_connected(fleet: Fleet) -> None:
    async with fleet.dialled("c00"):
        async with fleet.dispatcher() as first:
            await connected(first.link("c00"))
            line = first.link("c00")._find("observer")
        async with fleet.dispatcher() as second:
            await connected(second.link("c00"))
            again = second.link("c00")._find("observer")
    assert isinstance(line, RemoteLine)
    assert isinstance(again, RemoteLine)
    assert (again.boot, again.number, again.since) == (line.boot, line.number, line.since)


async def test_two_dispatchers_share_one_connection_of_an_agent(fleet: Fleet) -> None:
    async with fleet.dialled("c00"), fleet.dispatcher() as leader, fleet.dispatcher() as standby:
        for site in (leader, standby):
            await connected(site.link("c00"))
        told = await asyncio.gather(
            *(site.link("c00").changes("", 0, 0.1, timeout_s=WAIT_S) for site in (leader, standby))
        )
    assert [one.full for one in told] == [True, True]


async def test_a_later_connection_to_another_actor_takes_over_and_the_earlier_one_ends(
    fleet: Fleet, other_port: int
) -> None:
    first, second = FakeAgent("c00"), FakeAgent("c00", incarnation="two")
    two = fleet.actors["gateway-1"]
    await two.kill()
    async with fleet.dispatcher() as site, dialling(fleet.settings("c00"), "c00", first) as earlier:
        await connected(site.link("c00"))
        two.section = two.section.model_copy(update={"port": other_port})  # so that it is known whom one meets
        await two.begin()
        elsewhere = fleet.settings("c00").model_copy(update={"urls": (f"wss://localhost:{other_port}",)})
        async with dialling(elsewhere, "c00", second):
            await eventually(lambda: any("another agent of this cluster" in text for text in earlier.problems.values()))
            assert (await site.link("c00").hello(timeout_s=WAIT_S)).incarnation == "two"


async def test_what_no_agent_may_answer_is_kept_from_the_dispatcher(fleet: Fleet) -> None:
    agent = fleet.agents["c00"]

    async def junk() -> object:
        return orders("c00")

    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        agent.telemetry = junk  # type: ignore[method-assign, assignment]
        with pytest.raises(AgentMismatch, match="not a Telemetry"):
            await link.telemetry(timeout_s=WAIT_S)


async def test_a_cluster_whose_agent_has_not_come_is_missing_with_that_reason(fleet: Fleet) -> None:
    async with fleet.dispatcher() as site:
        await eventually(lambda: "never connected" in str(site.link("c00")._find("observer")))
        with pytest.raises(AgentMissing, match="never connected"):
            await site.link("c00").hello(timeout_s=WAIT_S)


async def test_a_cluster_that_the_maker_of_an_actor_does_not_list_is_missing_with_that_reason_and_logged_once(
    fleet: Fleet,
) -> None:
    why = "gateway-0 was made by a dispatcher that does not list this cluster"
    one, two = fleet.actors.values()
    await two.kill()
    await one.kill()
    one.clusters = CLUSTERS[1:]
    with capture_logs() as lines:
        async with fleet.dispatcher() as site, fleet.dialled("c01"):
            for _ in range(2):
                await one.begin()
                await connected(site.link("c01"))
                assert [site.link("c00")._find(role) for role in ("observer", "executor")] == [why, why]
                await one.kill()
    told = [line for line in lines if "does not list all clusters" in line["event"]]
    assert [(line["actor"], line["clusters"]) for line in told] == [("gateway-0", ["c00"])]


async def test_why_an_actor_does_not_answer_is_logged_once_until_it_changes_though_another_serves_all(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_PAUSES", Backoff(0.01, 0.01))
    two = fleet.actors["gateway-1"]
    right, why, asked = two.collect, "it has not started", Counter[str]()

    async def fails(since: bytes, wait_s: float) -> bytes:
        asked[why] += 1
        raise AgentDied(why)

    async def answers(since: bytes, wait_s: float) -> bytes:
        return await right(since, 0.01)

    two.collect = fails  # type: ignore[method-assign]
    with capture_logs() as lines:
        async with fleet.dispatcher() as site, fleet.dialled("c00"):
            await eventually(lambda: asked[why] > 3)
            why = "cannot be used: gateway.actors"
            await eventually(lambda: asked[why] > 3)
            two.collect = answers  # type: ignore[method-assign]
            await eventually(lambda: bool(answering(lines, "gateway-1")))
            two.collect = fails  # type: ignore[method-assign]
            await eventually(lambda: asked[why] > 9)
            two.collect = answers  # type: ignore[method-assign]
            await eventually(lambda: any(line["event"] == "gateway actor answers again" for line in lines))
            await connected(site.link("c00"))
    told = [
        line["problem"].rpartition("answer: ")[2] for line in lines if line["event"] == "gateway actor does not answer"
    ]
    assert told == ["it has not started", why, why]


@pytest.mark.parametrize("known_to", ["gateway-0", "gateway-1"])
async def test_what_one_actor_knows_of_an_agent_is_told_whatever_the_others_do_not_know(
    fleet: Fleet, other_port: int, known_to: str
) -> None:
    knows = fleet.actors[known_to]
    await knows.kill()
    knows.section = knows.section.model_copy(update={"port": other_port})  # so that it is known whom the agent meets
    await knows.begin()
    wrong = fleet.settings("c01").model_copy(update={"urls": (f"wss://localhost:{other_port}",)})
    refused = "an agent was refused: its certificate is of 'c01'"
    async with fleet.dispatcher() as site, dialling(wrong, "c00", fleet.agents["c00"]):
        await eventually(lambda: site.link("c00")._find("observer") == refused)
        (other,) = (one for name, one in fleet.actors.items() if name != known_to)
        await other.kill()
        await asyncio.sleep(0.1)
        assert site.link("c00")._find("observer") == refused


async def test_an_actor_that_does_not_answer_is_told_of_before_one_that_an_agent_never_came_to(fleet: Fleet) -> None:
    await fleet.actors["gateway-1"].kill()
    async with fleet.dispatcher() as site:
        await eventually(
            lambda: "gateway-1 does not answer: it is not there" in str(site.link("c00")._find("observer"))
        )


async def test_a_call_that_is_given_up_ends_at_the_agent_too(fleet: Fleet) -> None:
    ended = asyncio.Event()

    async def hang(incarnation: str, since: int, wait_s: float) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    fleet.agents["c00"].changes = hang  # type: ignore[method-assign, assignment]
    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        with contextlib.suppress(Exception):
            await link.changes("", 0, 5.0, timeout_s=0.2)
        async with asyncio.timeout(WAIT_S):
            await ended.wait()


async def test_a_call_that_is_given_up_before_it_was_sent_is_never_made(fleet: Fleet) -> None:
    agent = fleet.agents["c00"]
    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        asked = len(agent.asked)
        call = asyncio.create_task(link.changes("", 0, 5.0, timeout_s=WAIT_S))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await link.hello(timeout_s=WAIT_S)  # crosses after it
        assert len(agent.asked) == asked


async def test_a_call_that_the_actor_does_not_know_is_answered_so(fleet: Fleet) -> None:
    async with fleet.dialled("c00"), fleet.dispatcher() as site:
        link = site.link("c00")
        await connected(link)
        line = link._find("executor")
        assert not isinstance(line, str)
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(AgentFault, match="knows no call 'sing'"):
                await line.call(Call("sing"))


async def test_settings_that_an_actor_passes_over_are_in_the_dispatchers_log_once_for_each_of_its_lives(
    fleet: Fleet,
) -> None:
    two = fleet.actors["gateway-1"]
    two.passed_over = ("gateway.next",)
    with capture_logs() as lines:
        async with fleet.dialled("c00"), fleet.dispatcher() as site:
            for lives in (1, 2):
                await two.kill()
                await two.begin()
                await eventually(lambda: len(passed_over(lines)) >= lives)  # noqa: B023
                await fleet.actors["gateway-0"].kill()
                await connected(site.link("c00"))  # by gateway-1, which tells more than once
                await fleet.actors["gateway-0"].begin()
    said = {"actor": "gateway-1", "settings": ["gateway.next"], "version": version(), "dispatcher": version()}
    assert passed_over(lines) == [said] * 2


def passed_over(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a dispatcher's log says of settings that actors pass over."""
    found = [line for line in lines if line["event"].startswith("a gateway actor passes over settings")]
    return [{key: line[key] for key in line if key not in ("event", "log_level")} for line in found]


async def test_an_older_actor_that_tells_no_version_is_taken(fleet: Fleet) -> None:
    async def of_0_1_0(since: bytes, wait_s: float) -> bytes:
        await asyncio.sleep(0.01)
        return (RECORDED / "0.1.0" / "Collected.msgpack").read_bytes()

    fleet.actors["gateway-1"].collect = of_0_1_0  # type: ignore[method-assign]
    with capture_logs() as lines:
        async with fleet.dispatcher():
            await eventually(lambda: bool(answering(lines, "gateway-1")))
    assert [line["version"] for line in answering(lines, "gateway-1")] == [""]


def answering(lines: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """What a dispatcher's log says of an actor that it has met."""
    return [line for line in lines if (line["event"], line.get("actor")) == ("gateway actor answers", name)]


@pytest.mark.parametrize("odd", [KeyError("x"), UnicodeDecodeError("utf-8", b"", 0, 1, "x"), OSError("x")])
async def test_whatever_an_actor_does_it_is_asked_again(fleet: Fleet, odd: Exception) -> None:
    two = fleet.actors["gateway-1"]
    right, raised = two.collect, asyncio.Event()

    async def fails(since: bytes, wait_s: float) -> bytes:
        raised.set()
        raise odd

    async with fleet.dispatcher() as site:
        two.collect = fails  # type: ignore[method-assign]
        await two.kill()
        async with asyncio.timeout(WAIT_S):
            await raised.wait()
        two.collect = right  # type: ignore[method-assign]
        await two.begin()
        await fleet.actors["gateway-0"].kill()
        async with fleet.dialled("c00"):
            await connected(site.link("c00"))


async def test_who_is_refused_again_and_again_is_told_of_once(fleet: Fleet) -> None:
    changes: list[None] = []
    gateway = Gateway(fleet.actors["gateway-0"].section, CLUSTERS)
    gateway.on_change = lambda: changes.append(None)
    for _ in range(5):
        assert gateway._refusal(Named("c00", "observer"), Named("c01")) is not None
    assert len(changes) == 1
