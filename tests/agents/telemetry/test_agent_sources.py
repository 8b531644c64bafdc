"""A whole agent with sources beside its kubelets, of which none answers here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from tests.agents.kube.fake_server import FakeApi, fake_api
from tests.agents.runtime.whole_agent import IMPATIENT, Dispatcher
from tests.agents.telemetry.servers import HOSTILE, NOW, serving

QUEUE = {"signal": "queue", "query": "depth", "sampled_at": "timestamp(depth)", "range": [0, 10]}


async def prometheus(request: web.Request) -> web.Response:
    """It knows a quarter of everything of n0, taken two seconds ago, and a stranger."""
    text = repr(NOW - 2) if "timestamp(" in request.query["query"] else "0.25"
    result = [{"metric": {"node": node}, "value": [NOW, text]} for node in ("n0", "stranger")]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@asynccontextmanager
async def an_agent(api: FakeApi, folder: Path, **telemetry: object) -> AsyncIterator[Dispatcher]:
    told = {"cluster": "east", "kubeconfig": api.kubeconfig(folder), "api": IMPATIENT, "telemetry": telemetry}
    agent = Agent(AgentSettings.model_validate({**told, "kubelet": {"interval_s": 0.1}}))
    await agent.start()
    try:
        yield Dispatcher(agent)
    finally:
        await agent.stop()


async def test_readings_of_a_configured_source_reach_the_dispatcher_with_their_age(tmp_path: Path) -> None:
    async with fake_api(nodes=2) as api, serving(prometheus) as url:
        source = {"url": url, "interval_s": 0.1, "queries": [QUEUE]}
        async with an_agent(api, tmp_path, prometheus=[source]) as dispatcher:
            await dispatcher.poll_until(lambda: dispatcher.last is not None and dispatcher.last.readings)
            assert dispatcher.last is not None
            (reading,) = dispatcher.last.readings
            assert (reading.node, reading.cpu, reading.memory, reading.source) == ("n0", 0.25, 0.25, "prometheus")
            assert reading.more["queue"][0] == pytest.approx(0.025)
            assert min(reading.cpu_age_s, reading.memory_age_s, reading.more["queue"][1]) >= 2.0


async def test_what_could_not_be_matched_is_at_hand(tmp_path: Path) -> None:
    async with (
        fake_api(nodes=1) as api,
        serving(prometheus) as url,
        an_agent(api, tmp_path, prometheus=[{"url": url, "interval_s": 0.1}]) as dispatcher,
    ):
        await dispatcher.poll_until(lambda: dispatcher.agent.sources["prometheus"].answered_at is not None)
        status = dispatcher.agent.sources
        assert status["prometheus"].matching.unmatched_names == ["node=stranger"]
        await dispatcher.poll_until(lambda: status["kubelet"].errors)
        assert "n0" in status["kubelet"].problem


@pytest.mark.parametrize("lie", ["silence", "a slow drip", "HTML"])
async def test_a_source_that_lies_delays_nothing_that_an_agent_tells(tmp_path: Path, lie: str) -> None:
    handler, _ = HOSTILE[lie]
    async with (
        fake_api(nodes=2) as api,
        serving(handler) as url,
        an_agent(api, tmp_path, prometheus=[{"url": url, "timeout_s": 3600}]) as dispatcher,
    ):
        await dispatcher.poll_until(dispatcher.well)
        assert dispatcher.nodes == {"n0", "n1"}
        assert dispatcher.last is not None
        assert dispatcher.last.readings == ()
