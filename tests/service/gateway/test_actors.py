"""Calls over gateway actors, without Ray: real TLS from agents, and lives of actors that end."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from dispatcher.service.gateway.remote import RemoteLine
from dispatcher.service.link import AgentDied, AgentFault, AgentMismatch
from shared.streams.calls import Call
from shared.version import version
from tests.service.fakes import FakeAgent
from tests.service.gateway.actors import CLUSTERS, Fleet, answering, orders
from tests.service.gateway.test_gateway import WAIT_S, connected, dialling, eventually
from tests.shared.messages.wire.schema import RECORDED


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
        with pytest.raises(AgentMismatch, match=r"not a Telemetry.*through gateway actor gateway-"):
            await link.telemetry(timeout_s=WAIT_S)


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
