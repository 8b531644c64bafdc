"""Logs and exec through gateway actors: relayed within one, and from one to another, as through one gateway."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agents.runtime.outbound.answering import answers_of
from agents.runtime.outbound.dialling import Dialler
from agents.runtime.outbound.settings import GatewaySettings
from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway import peers
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.batches import Passed, encode_any
from dispatcher.service.gateway.exchange import Exchange
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.metrics import RelayCollector
from dispatcher.service.gateway.peers import MAX_LINKS
from dispatcher.service.gateway.remote import GatewaySite
from dispatcher.service.gateway.stream_limit import StreamLimit
from shared.messages.relay import RelayOpen, decode_open, encode_relay
from shared.model.bounds import MAX_ROWS
from shared.model.token_buckets import TokenBuckets
from shared.streams import Kind, Message, Priority
from shared.streams.frames import CHUNK, OPENED_BY_AGENT, RELAYED, STREAM_WINDOW
from shared.streams.relayed import MAX_BETWEEN, Stream, StreamReset
from tests.service.fakes import FakeAgent
from tests.service.gateway.actors import InProcess

EAST, WEST, POD = "east", "west", "uid-web"
BEFORE = "this dispatcher knows of no delegate"
WAIT_S = 30.0
CHALLENGE = b"challenge"


class Actor(InProcess):
    """An actor that knows the others, at a port of its own, so that a test says who is connected to which."""

    def __init__(self, section: GatewaySection, name: str, others: dict[str, "Actor"]) -> None:
        super().__init__(section)
        self.name, self.others = name, others
        self.passed = 0  # batches that it was given by others
        self.port = 0
        self.stream_limit = StreamLimit()

    async def begin(self) -> None:
        gateway = Gateway(self.section, (EAST, WEST))
        self.stream_limit = gateway.stream_limit

        async def pass_on(name: str, passed: bytes) -> bool:
            other = self.others[name]
            other.passed += 1
            return await other._alive().peers.take(passed)

        self._exchange = Exchange(gateway, self.name, pass_on)
        await self._stack.enter_async_context(gateway.serving())
        self.port = gateway.port
        self._stack.callback(self._exchange.peers.close)


class Site:
    """Two actors, a dispatcher's side, and the agents of east and west, of which west answers what it hears."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        files: dict[str, Any] = {
            "cert_file": str(folder / "gateway.crt"),
            "key_file": str(folder / "gateway.key"),
            "client_ca_file": str(folder / "ca.crt"),
        }
        self.actors: dict[str, Actor] = {}
        section = GatewaySection(port=0, **files)
        for name in ("gateway-0", "gateway-1"):
            self.actors[name] = Actor(section, name, self.actors)
        self.site = GatewaySite(self.actors, (EAST, WEST))
        self.known = {(EAST, WEST, POD)}
        self.site.objection = lambda *of: "" if of in self.known else BEFORE
        self.asked: list[RelayOpen] = []  # of west
        self.diallers: dict[str, tuple[Dialler, asyncio.Task[None]]] = {}

    async def answer(self, stream: Stream, opening: bytes) -> None:
        """The agent of west: a challenge, then what it hears, until the end of it."""
        self.asked.append(decode_open(opening))
        await stream.write(CHALLENGE)
        while data := await stream.read():
            await stream.write(data)
        stream.finish()

    async def dial(self, cluster: str, actor: str) -> None:
        """Connect."""
        settings = GatewaySettings(
            urls=(f"wss://localhost:{self.actors[actor].port}",),
            ca_file=str(self._folder / "ca.crt"),
            cert_file=str(self._folder / f"cluster-{cluster}.crt"),
            key_file=str(self._folder / f"cluster-{cluster}.key"),
            longest_pause_s=1,
        )
        dialler = Dialler(settings, cluster, answers_of(FakeAgent(cluster)), self.answer)
        self.diallers[cluster] = dialler, asyncio.create_task(dialler.run())
        await self.until(lambda: dialler.connected)

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not what():  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)

    def open(self, pod: str = POD) -> Stream:
        """What the agent of east opens to west."""
        return next(self.diallers[EAST][0].open_streams(encode_relay(RelayOpen(WEST, pod))))

    async def opened(self) -> Stream:
        """One to which west has answered."""
        stream = self.open()
        async with asyncio.timeout(WAIT_S):
            assert await stream.read() == CHALLENGE
        return stream

    async def refused(self, pod: str = POD) -> str:
        """Why a stream is not relayed."""
        with pytest.raises(StreamReset) as why:
            async with asyncio.timeout(WAIT_S):
                await self.open(pod).read()
        return str(why.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], (EAST, WEST))
    return folder


@pytest.fixture(params=["gateway-0", "gateway-1"], ids=["one actor", "two actors"])
async def site(folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """East is connected to gateway-0."""
    async with running(folder, request.param) as made:
        yield made


@contextlib.asynccontextmanager
async def running(folder: Path, of_west: str, *, dispatched: bool = True) -> AsyncIterator[Site]:
    made = Site(folder)
    async with contextlib.AsyncExitStack() as stack:
        for actor in made.actors.values():
            await actor.begin()
            stack.push_async_callback(actor.kill)
        await made.dial(EAST, "gateway-0")
        await made.dial(WEST, of_west)
        if dispatched:
            await stack.enter_async_context(made.site.serving())
            await made.until(lambda: made.site._route(EAST, WEST, POD)[0] == "")
        yield made
        for _, task in made.diallers.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in made.diallers.values()), return_exceptions=True)


async def test_bytes_go_both_ways_to_their_end_however_many(site: Site) -> None:
    said = bytes(range(256)) * (4 * STREAM_WINDOW // 256)
    stream = await site.opened()

    async def write() -> None:
        await stream.write(said)
        stream.finish()

    writing = asyncio.create_task(write())
    heard = b""
    async with asyncio.timeout(WAIT_S):
        while data := await stream.read():
            heard += data
    await writing
    assert heard == said
    assert site.asked == [RelayOpen(EAST, POD)]


async def test_a_stream_is_not_used_before_the_other_end_has_answered(site: Site) -> None:
    stream = site.open()
    await stream.write(b"early")
    with pytest.raises(StreamReset, match="used before"):
        async with asyncio.timeout(WAIT_S):
            await stream.read()
    assert await (await echoed(site)).read() == b"x"


async def echoed(site: Site) -> Stream:
    """One over which west says x next."""
    stream = await site.opened()
    await stream.write(b"x")
    return stream


async def test_a_stream_about_a_pod_that_the_dispatcher_does_not_know_is_not_relayed(site: Site) -> None:
    assert await site.refused("uid-other") == BEFORE
    assert not site.asked


async def test_one_cluster_cannot_take_all_streams_of_another(site: Site) -> None:
    held = [await site.opened() for _ in range(MAX_BETWEEN)]
    for stream in held:
        await stream.write(b"x")
        assert await stream.read() == b"x"
    assert await site.refused() == f"too many streams at once between {EAST} and {WEST}"
    held[0].reset("no more")
    again = await site.opened()
    await again.write(b"y")
    assert await again.read() == b"y"


async def test_what_an_agent_opens_too_fast_is_refused_before_anybody_is_asked_and_counted_over_all_lives_of_an_actor(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted() -> float:
        _, refused = RelayCollector([site.site.link(EAST)]).collect()
        return refused.samples[0].value

    assert counted() == 0.0
    limit = site.actors["gateway-0"].stream_limit
    monkeypatch.setattr(limit, "_streams", TokenBuckets(0, 0))
    for _ in range(3):
        assert (await site.refused()).startswith(f"cluster {EAST} opens more than")
    assert not site.asked
    monkeypatch.setattr(limit, "_streams", TokenBuckets(1, 0))
    assert await site.refused("uid-other") == BEFORE  # and the dispatcher hears of both
    await site.until(lambda: counted() == 3.0)
    await site.actors["gateway-0"].kill()
    await site.actors["gateway-0"].begin()
    await site.until(lambda: site.site._gateways[0]._refused_before[EAST] == 3)
    assert counted() == 3.0


async def test_a_target_that_is_gone_ends_its_streams(site: Site) -> None:
    stream = await site.opened()
    await stream.write(b"x")
    assert await stream.read() == b"x"
    site.diallers[WEST][1].cancel()
    with pytest.raises(StreamReset, match="connection of cluster west to the dispatcher ended"):
        async with asyncio.timeout(WAIT_S):
            await stream.read()


async def test_an_actor_that_is_killed_ends_the_streams_of_the_other_even_silent_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "KEEP_S", 0.2)
    async with running(folder, "gateway-1") as site:
        stream = await site.opened()
        await stream.write(b"x")
        assert await stream.read() == b"x"
        await site.actors["gateway-1"].kill()
        with pytest.raises(StreamReset, match=r"has ended, or is cut off|connection of cluster west"):
            async with asyncio.timeout(WAIT_S):
                await stream.read()


async def test_an_actor_asks_the_dispatcher_itself_about_what_another_opens(folder: Path) -> None:
    async with running(folder, "gateway-1") as site:
        there = site.actors["gateway-0"]._alive()
        line = there.peers.to("gateway-1", site.actors["gateway-1"]._alive().boot)

        async def unasked(wanted: RelayOpen, home: str) -> object:
            return line

        for held in there._gateway._lines.values():
            held[0].relayed._route = unasked  # type: ignore[assignment]  # as of one that was captured
        assert await site.refused("uid-other") == BEFORE
        assert not site.asked


async def test_a_batch_that_is_missing_ends_the_link_and_no_other(folder: Path) -> None:
    async with running(folder, "gateway-1") as site:
        stream = await site.opened()
        await stream.write(b"x")
        assert await stream.read() == b"x"
        there = site.actors["gateway-1"]._alive()

        def batch(number: int, link: str = "a" * 16) -> bytes:
            return encode_any(Passed("gateway-0", "another life", there.boot, link, True, number))

        assert not await there.peers.take(batch(1))
        assert await there.peers.take(batch(0))
        assert not await there.peers.take(batch(2))
        assert not await there.peers.take(batch(3))
        assert not await there.peers.take(encode_any(Passed("gateway-0", "", "a life before", "b" * 16, True, 0)))
        await stream.write(b"y")
        assert await stream.read() == b"y"


@pytest.mark.parametrize("kind", [Kind.CALL, Kind.CREDIT, 99, Kind.DATA], ids=["call", "credit", "unknown", "long"])
async def test_nothing_but_messages_of_relayed_streams_crosses_between_actors(folder: Path, kind: int) -> None:
    async with running(folder, "gateway-1") as site:
        await site.opened()
        there = site.actors["gateway-1"]._alive()
        ((token, opens),) = there.peers._links
        body = bytes(CHUNK + 1) if kind == Kind.DATA else b"x"
        number = there.peers._links[token, opens].taken
        message = (int(kind), RELAYED | OPENED_BY_AGENT, body)
        passed = Passed("gateway-0", "", there.boot, token, True, number, (message,))
        assert not await there.peers.take(encode_any(passed))
        assert not there.peers._links


LONG: dict[str, dict[str, Any]] = {
    "messages": {"messages": ((int(Kind.GRANT), 1, b""),) * (MAX_ROWS + 1)},
    "bytes": {"messages": ((int(Kind.DATA), 1, bytes(CHUNK)),) * 200},
    "a name": {"sender": "x" * 513},
    "a link": {"link": "x" * 513},
}


@pytest.mark.parametrize("what", LONG)
async def test_what_another_actor_passes_on_beyond_a_limit_is_refused_unread_and_told_of_once(
    folder: Path, what: str
) -> None:
    async with running(folder, "gateway-1") as site:
        there = site.actors["gateway-1"]._alive()
        plain = Passed("gateway-0", "", there.boot, "a" * 16, True, 0)
        told = encode_any(msgspec.structs.replace(plain, **LONG[what]))
        with capture_logs() as lines:
            assert [await there.peers.take(told) for _ in range(3)] == [False] * 3
            assert not await there.peers.take(b"no message at all")
        assert not there.peers._links
        assert [line["event"] for line in lines] == ["what another gateway actor passes on is refused"]
        assert max(len(str(line)) for line in lines) < 500


def test_an_actor_passes_on_no_more_at_once_than_others_take() -> None:
    queue = peers._Queue()
    for number in range(10_000):
        queue.send(Message(Kind.GRANT, number, b""), Priority.RELAY)
    batches = [queue.take() for _ in range(4)]
    assert [len(batch) for batch in batches] == [4096, 4096, 1808, 0]
    assert [stream for batch in batches for _, stream, _ in batch] == list(range(10_000))


async def test_links_that_others_begin_are_bounded_and_those_in_use_stay(folder: Path) -> None:
    async with running(folder, "gateway-1") as site:
        stream = await site.opened()
        there = site.actors["gateway-1"]._alive()
        for number in range(2 * MAX_LINKS):
            assert await there.peers.take(encode_any(Passed("gateway-0", "", there.boot, f"{number:016}", True, 0)))
        assert len(there.peers._links) == MAX_LINKS
        await stream.write(b"y")
        async with asyncio.timeout(WAIT_S):
            assert await stream.read() == b"y"


async def test_streams_that_others_open_are_bounded_by_their_cluster_before_anybody_is_asked(folder: Path) -> None:
    async with running(folder, "gateway-1") as site:
        there = site.actors["gateway-1"]._alive()
        asked = there._numbers
        there.from_others._streams = TokenBuckets(1, 0)
        before = next(asked)
        for cluster in (EAST, "made-up-1", "made-up-2"):
            said = [await there._way_here(RelayOpen(WEST, "uid-other"), cluster) for _ in range(3)]
            assert said[0] == BEFORE or cluster == "made-up-2"
            assert all("opens more than 100 streams a second" in str(one) for one in said[1:])
        assert next(asked) == before + 3, "two questions"
        assert set(there.from_others.refused) == {EAST, "(not known here)"}


async def test_without_a_dispatcher_nothing_is_relayed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.service.gateway.exchange.WAY_S", 0.2)
    async with running(folder, "gateway-0", dispatched=False) as site:
        assert await site.refused() == "no dispatcher has said whether it is relayed"
