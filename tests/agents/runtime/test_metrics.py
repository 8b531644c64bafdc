"""What an agent tells Prometheus, and what it tells the dispatcher of its sources."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from agents.runtime import metrics
from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from shared.messages import Telemetry, decode, encode
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.runtime.whole_agent import IMPATIENT
from tests.agents.telemetry.servers import NOW, serving


async def prometheus(request: web.Request) -> web.Response:
    """It knows half of everything of n0, taken two seconds ago, and a stranger twice; and it fails on memory."""
    query = request.query["query"]
    if "MemAvailable" in query and "timestamp(" not in query:
        return web.json_response({"status": "error", "error": "too much memory"})
    text = repr(NOW - 2) if "timestamp(" in query else "0.5"
    result = [{"metric": {"node": node}, "value": [NOW, text]} for node in ("n0", "stranger")]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@asynccontextmanager
async def an_agent(server: FakeApi, folder: Path, **more: object) -> AsyncIterator[Agent]:
    told = {"cluster": "east", "kubeconfig": server.kubeconfig(folder), "kubelet": {"interval_s": 0.1}}
    agent = Agent(AgentSettings.model_validate({**told, **more}))
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()


async def scraped(agent: Agent) -> dict[str, float]:
    """All samples, by name and labels as they are written."""
    await until(lambda: agent.metrics.address)
    assert agent.metrics.address is not None
    host, port = agent.metrics.address
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"http://{host}:{port}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name.removeprefix("global_dispatcher_agent_")
        + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_age_error_and_lag_of_each_source_and_how_the_agent_does_are_told(tmp_path: Path) -> None:
    async with fake_api(nodes=2) as api, serving(prometheus) as url:
        sources = {"prometheus": [{"url": url, "interval_s": 0.1}]}
        async with an_agent(api, tmp_path, telemetry=sources, metrics={"enabled": True, "port": 0}) as agent:
            await until(lambda: agent.health.api_ok and agent.sources["kubelet"].failing.keys() == {"n0", "n1"})
            await until(lambda: agent.sources["prometheus"].asked > 1)
            await agent.changes("", 0, 0.0)
            told = await scraped(agent)
    assert (told["api_server_up"], told["synced"], told["nodes"]) == (1, 1, 2)
    assert min(told["process_resident_memory_bytes"], told["process_cpu_seconds_total"]) > 0
    assert 0 <= told["dispatcher_silence_seconds"] < 60
    assert told["watch_interruptions_total nodes"] == 0
    assert told["source_up prometheus"] == told["source_up kubelet"] == 0
    assert told["source_failing_nodes kubelet"] == 2
    assert told["source_errors_total kubelet"] > 0 == told["source_errors_total prometheus"]
    assert 0 <= told["source_age_seconds prometheus"] < 60
    assert 0 < told["source_lag_seconds prometheus"] < 60
    assert (told["source_nodes prometheus"], told["source_silent_nodes prometheus"]) == (1, 1)
    assert told["source_unmatched_series prometheus"] > 0
    assert 2 <= told["reading_age_seconds 1 cpu prometheus"] < 60
    assert told["reading_age_seconds 0.5 cpu prometheus"] <= told["reading_age_seconds 1 cpu prometheus"]
    assert (told["unread_nodes cpu"], told["unread_nodes memory"]) == (1, 2)
    assert "source_age_seconds kubelet" not in told  # it has never answered


async def test_the_dispatcher_is_told_what_each_source_lacks_when_it_asks(tmp_path: Path) -> None:
    async with fake_api(nodes=2) as api, serving(prometheus) as url:
        sources = {"prometheus": [{"name": "thanos", "url": url, "interval_s": 0.1}], "stale_s": 30.0}
        async with an_agent(api, tmp_path, telemetry=sources) as agent:
            await until(lambda: agent.sources["kubelet"].failing.keys() == {"n0", "n1"})
            await until(lambda: agent.sources["thanos"].asked)
            told = decode(Telemetry, encode(await agent.telemetry()))
    assert (told.cluster, told.nodes, told.stale_s) == ("east", 2, 30.0)
    by_name = {one.name: one for one in told.sources}
    thanos, kubelet = by_name["thanos"], by_name["kubelet"]
    assert (thanos.key, kubelet.key) == ("telemetry.prometheus[0]", "kubelet")
    assert thanos.problem.startswith("memory: the query failed: too much memory")
    assert (thanos.nodes, thanos.silent, thanos.silent_names) == (1, 1, ("n1",))
    assert thanos.unmatched_names == ("node=stranger",)
    assert thanos.ages["cpu"][0] == 1
    assert thanos.ages["cpu"][2] >= 2.0
    assert (kubelet.failing, set(kubelet.failing_names), kubelet.answered_s) == (2, {"n0", "n1"}, None)
    assert [(one.signal, one.nodes, one.names) for one in told.unread][:2] == [
        ("cpu", 1, ("n1",)),
        ("memory", 2, ("n0", "n1")),
    ]


async def test_without_a_word_about_it_nothing_is_served(tmp_path: Path) -> None:
    async with fake_api(nodes=1) as api, an_agent(api, tmp_path) as agent:
        await until(lambda: agent.health.api_ok)
        assert agent.metrics.address is None


async def test_an_address_that_is_taken_stops_nothing_and_is_had_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "AGAIN_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with fake_api(nodes=1) as api, an_agent(api, tmp_path, metrics={"enabled": True, "port": port}) as agent:
            await until(lambda: agent.health.api_ok)
            await asyncio.sleep(0.1)
            assert agent.metrics.address is None
            taken.close()
            assert (await scraped(agent))["api_server_up"] == 1
            assert agent.metrics.address == ("127.0.0.1", port)


async def test_a_lost_api_server_is_told_with_the_watches_that_broke(tmp_path: Path) -> None:
    own = {"api": IMPATIENT, "metrics": {"enabled": True, "port": 0}}
    async with fake_api(nodes=1) as api, an_agent(api, tmp_path, **own) as agent:
        await until(lambda: agent.health.api_ok)
        await api.stop()
        await until(lambda: not agent.health.api_ok)
        told = await scraped(agent)
    assert told["api_server_up"] == 0
    assert told["watch_interruptions_total nodes"] > 0
    assert told["watch_interrupted_seconds nodes"] > 0
