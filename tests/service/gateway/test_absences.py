"""Why a cluster's agent, or a gateway actor, is missing: what the dispatcher tells of it, and how often."""

import asyncio
from collections import Counter

import pytest
from structlog.testing import capture_logs

from dispatcher.service.gateway import remote
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.link import AgentDied, AgentMissing
from shared.model.backoff import Backoff
from tests.service.gateway.actors import CLUSTERS, Fleet, answering
from tests.service.gateway.test_gateway import WAIT_S, connected, dialling, eventually


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


async def test_who_is_refused_again_and_again_is_told_of_once(fleet: Fleet) -> None:
    changes: list[None] = []
    gateway = Gateway(fleet.actors["gateway-0"].section, CLUSTERS)
    gateway.on_change = lambda: changes.append(None)
    for _ in range(5):
        assert gateway._refusal(Named("c00", "observer"), Named("c01")) is not None
    assert len(changes) == 1
