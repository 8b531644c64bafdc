"""Logs and exec between two clusters' agents: through one gateway, and through two of one dispatcher."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agents.runtime.outbound.answering import answers_of
from agents.runtime.outbound.dialling import Dialler
from agents.runtime.outbound.settings import GatewaySettings
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.metrics import RelayCollector
from shared.messages.relay import RelayOpen, decode_open, encode_relay
from shared.model.token_buckets import TokenBuckets
from shared.streams.frames import STREAM_WINDOW
from shared.streams.relayed import MAX_BETWEEN, Stream, StreamReset
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import section

EAST, WEST, POD = "east", "west", "uid-web"
BEFORE = "this dispatcher knows of no delegate"
WAIT_S = 30.0
CHALLENGE = b"challenge"


class Site:
    """The agents of east and west, of which west answers what it hears, and the gateway of each."""

    def __init__(self, folder: Path, gateways: dict[str, Gateway]) -> None:
        self._folder = folder
        self.gateways = gateways
        known = {(EAST, WEST, POD)}
        for gateway in gateways.values():
            gateway.objection = lambda *of: "" if of in known else BEFORE
        self.asked: list[RelayOpen] = []  # of west
        self.diallers: dict[str, tuple[Dialler, asyncio.Task[None]]] = {}

    async def answer(self, stream: Stream, opening: bytes) -> None:
        """The agent of west: a challenge, then what it hears, until the end of it."""
        self.asked.append(decode_open(opening))
        await stream.write(CHALLENGE)
        while data := await stream.read():
            await stream.write(data)
        stream.finish()

    async def dial(self, cluster: str) -> None:
        """Connect."""
        settings = GatewaySettings(
            urls=(f"wss://localhost:{self.gateways[cluster].port}",),
            ca_file=str(self._folder / "ca.crt"),
            cert_file=str(self._folder / f"cluster-{cluster}.crt"),
            key_file=str(self._folder / f"cluster-{cluster}.key"),
            longest_pause_s=1,
        )
        dialler = Dialler(settings, cluster, answers_of(FakeAgent(cluster)), self.answer)
        self.diallers[cluster] = dialler, asyncio.create_task(dialler.run())
        await until(lambda: dialler.connected)

    def open(self, pod: str = POD) -> Stream:
        """What the agent of east opens to west."""
        return next(self.diallers[EAST][0].open_streams(encode_relay(RelayOpen(WEST, pod))))

    async def opened(self) -> Stream:
        """One to which west has answered."""
        stream = self.open()
        async with asyncio.timeout(WAIT_S):
            assert await stream.read() == CHALLENGE
        return stream

    async def echoed(self) -> Stream:
        """One over which west has said once what it heard."""
        stream = await self.opened()
        await stream.write(b"x")
        assert await stream.read() == b"x"
        return stream

    async def refused(self, pod: str = POD) -> str:
        """Why a stream is not relayed."""
        return await why_ended(self.open(pod))


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not what():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


async def why_ended(stream: Stream) -> str:
    with pytest.raises(StreamReset) as why:
        async with asyncio.timeout(WAIT_S):
            await stream.read()
    return str(why.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], (EAST, WEST))
    return folder


@pytest.fixture(params=[1, 2], ids=["one gateway", "two gateways"])
async def site(folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    if request.param == 1:
        gateways = dict.fromkeys((EAST, WEST), Gateway(section(folder), (EAST, WEST)))
    else:
        gateways = {cluster: Gateway(section(folder), [cluster]) for cluster in (EAST, WEST)}
        gateways[EAST].beside = gateways[WEST]
        gateways[WEST].beside = gateways[EAST]
    async with contextlib.AsyncExitStack() as stack:
        for gateway in set(gateways.values()):
            await stack.enter_async_context(gateway.serving())
        made = Site(folder, gateways)
        for cluster in (EAST, WEST):
            await made.dial(cluster)
        yield made
        tasks = [task for _, task in made.diallers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


async def test_a_stream_about_a_pod_that_the_dispatcher_does_not_know_is_not_relayed(site: Site) -> None:
    assert await site.refused("uid-other") == BEFORE
    assert not site.asked


async def test_one_cluster_cannot_take_all_streams_of_another(site: Site) -> None:
    held = [await site.echoed() for _ in range(MAX_BETWEEN)]
    assert await site.refused() == f"too many streams at once between {EAST} and {WEST}"
    held[0].reset("no more")
    await site.echoed()


async def test_what_an_agent_opens_too_fast_is_refused_before_anybody_is_asked_and_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted() -> float:
        _, refused = RelayCollector([site.gateways[EAST].link(EAST)]).collect()
        return refused.samples[0].value

    assert counted() == 0.0
    limit = site.gateways[EAST].stream_limit
    monkeypatch.setattr(limit, "_streams", TokenBuckets(0, 0))
    for _ in range(3):
        assert (await site.refused()).startswith(f"cluster {EAST} opens more than")
    assert not site.asked
    assert counted() == 3.0


async def test_a_target_that_is_gone_ends_its_streams(site: Site) -> None:
    stream = await site.echoed()
    site.diallers[WEST][1].cancel()
    assert "connection of cluster west to the dispatcher ended" in await why_ended(stream)


async def test_a_cluster_that_no_gateway_serves_is_refused(site: Site) -> None:
    stream = next(site.diallers[EAST][0].open_streams(encode_relay(RelayOpen("north", POD))))
    why = 'cluster "north" cannot be reached: it does not come through this gateway (`via: gateway`)'
    assert await why_ended(stream) == why
