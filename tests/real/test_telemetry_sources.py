"""Sources of readings against a real Prometheus and real node_exporters."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from agents.observer.seen import NodeTarget
from agents.runtime.telemetry_settings import PrometheusSettings
from agents.telemetry import queries
from agents.telemetry.node_exporter import NodeExporters
from agents.telemetry.prometheus import Prometheus
from agents.telemetry.source import Answer, SourceError
from agents.telemetry.web import Limits, Pool, Web
from dispatcher.cli.main import app
from tests.agents.kube.fake_server import fake_api
from tests.agents.kube.objects import node_object
from tests.real.debian import needed
from tests.real.prometheus import PROGRAMS, Monitoring
from tests.system.cluster_api import eventually

WAIT_S = 60.0
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
CPUS = os.cpu_count() or 1
TARGETS = {name: NodeTarget(name, cpu=1000 * CPUS, memory=MEMORY) for name in ("n1", "n2", "n3")}
# Two nodes of our cluster and one of another, which has a node of the same name.
LABELS = {
    "n1": {"node": "n1", "cluster": "east"},
    "n2": {"nodename": "n2", "cluster": "east"},
    "other": {"node": "n1", "cluster": "west"},
}


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    started = Monitoring(tmp_path_factory.mktemp("monitoring"), needed(*PROGRAMS))
    try:
        started.start(LABELS)
        yield started
    finally:
        started.stop()


def url_of(monitoring: Monitoring) -> str:
    assert monitoring.prometheus is not None
    return monitoring.prometheus.url


async def asked(monitoring: Monitoring, **settings: object) -> Answer:
    told = PrometheusSettings.model_validate(
        {"url": url_of(monitoring), "window": "5s", "cluster_label": "cluster", **settings}
    )
    web = Web(told.url, told.limits(), Pool(), told.credentials())
    source = Prometheus("prometheus", web, told.all_queries("east"), told.node_labels)
    try:
        return await source.sample_all(TARGETS)
    except SourceError:
        return Answer()
    finally:
        await source.close()


async def until_told(monitoring: Monitoring, *wanted: str, **settings: object) -> Answer:
    """The first answer that tells all these measures of n1 and n2."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await asked(monitoring, **settings)
            told = [answer.samples[node].measures.keys() for node in ("n1", "n2") if node in answer.samples]
            if len(told) == 2 and all(set(wanted) <= names for names in told):
                return answer
            await asyncio.sleep(0.2)


async def test_nodes_are_read_by_the_sets_with_the_ages_of_their_samples(monitoring: Monitoring) -> None:
    answer = await until_told(monitoring, "cpu", "memory", "network_receive", "network_transmit", "disk_busy")
    assert set(answer.samples) == {"n1", "n2"}
    for sample in answer.samples.values():
        measures = sample.measures
        assert 0 < (measures["cpu"].value or 0) <= CPUS
        assert 0 < (measures["memory"].value or 0) < MEMORY
        assert 0 <= (measures["network_receive"].value or 0) < 1e12
        assert all(0 <= one.age < WAIT_S for one in measures.values())
    assert (answer.matching.unmatched, answer.matching.ambiguous) == (0, 0)


async def test_without_the_clusters_label_a_name_that_two_clusters_have_is_ambiguous(monitoring: Monitoring) -> None:
    await until_told(monitoring, "memory")
    answer = await asked(monitoring, cluster_label="", node_labels=["node", "nodename", "instance"])
    assert "n1" not in answer.samples
    assert "n1 twice" in answer.matching.ambiguous_names
    assert "n2" in answer.samples


@pytest.mark.parametrize("name", queries.names())
async def test_every_query_of_every_set_is_promql(monitoring: Monitoring, name: str) -> None:
    eventually(lambda: monitoring.prometheus is not None and monitoring.prometheus.answers("/-/ready"), WAIT_S)
    told = PrometheusSettings(url=url_of(monitoring), sets=(name,), cluster_label="cluster")
    async with httpx.AsyncClient(trust_env=False) as client:
        for query in told.all_queries("east"):
            for text in (query.query, query.sampled_at):
                answer = await client.get(f"{url_of(monitoring)}/api/v1/query", params={"query": text})
                assert answer.status_code == 200, (query.measure, answer.text)
                assert answer.json()["data"]["resultType"] == "vector"


async def test_signals_check_shows_what_a_real_prometheus_would_be_read_for(
    monitoring: Monitoring, tmp_path: Path
) -> None:
    """Beside an API that knows n1, n2 and n3, of which nobody exports the last; one query is no PromQL."""
    await until_told(monitoring, "cpu", "memory", "disk_busy")
    bad = {"signal": "queue", "query": "max by ($labels (up)", "sampled_at": "timestamp(up)"}
    async with fake_api(nodes=0) as api:
        for name in TARGETS:
            api.put("nodes", node_object(name, status={"capacity": {"cpu": str(CPUS), "memory": str(MEMORY)}}))
        source = {"url": url_of(monitoring), "window": "5s", "cluster_label": "cluster", "queries": [bad]}
        agent = {"telemetry": {"prometheus": [source], "order": {"default": ["prometheus"]}}}
        cluster = {"name": "east", "kubeconfig": api.kubeconfig(tmp_path), "agent": agent}
        file = tmp_path / "dispatcher.yaml"
        file.write_text(json.dumps({"clusters": [cluster]}))
        words = ["signals", "check", "-c", str(file), "-o", "json"]
        shown = await asyncio.to_thread(CliRunner().invoke, app, words)
    (east,) = json.loads(shown.stdout)["clusters"]
    used = {(row["node"], row["signal"]): row for row in east["readings"]}
    for node in ("n1", "n2"):
        assert 0 < used[node, "cpu"]["used"] <= 1
        assert 0 < used[node, "memory"]["used"] < 1
        assert used[node, "network"]["used"] is not None
        assert 0 <= used[node, "cpu"]["age_s"] < WAIT_S
        assert used[node, "cpu"]["source"] == "prometheus"
    assert used["n3", "cpu"]["used"] is None
    broken, silent = east["problems"][0], [one["problem"] for one in east["problems"][1:]]
    assert broken["key"] == "clusters[0].agent.telemetry.prometheus[0]"
    assert f"queue: {url_of(monitoring)} answers 400: " in broken["problem"]
    assert "parse error" in broken["problem"]
    assert "prometheus[0].queries" in broken["fix"]
    assert silent == []  # what a failing source leaves out is told once the query is mended
    assert {one["measure"]: one["nodes"] for one in east["sources"][0]["measures"]}["cpu"] == 2


async def test_a_node_exporter_is_read_without_prometheus(monitoring: Monitoring) -> None:
    exporter = monitoring.exporters["n1"]
    eventually(lambda: exporter.answers("/metrics"), WAIT_S)
    source = NodeExporters(("http", exporter.port), Limits(), Pool())
    sample = await source.sample(NodeTarget("n1", "127.0.0.1"))
    await source.close()
    assert {"cpu", "memory"} <= set(sample.measures)
    assert 0 < (sample.measures["memory"].value or 0) < MEMORY
    assert len(sample.measures["cpu"].parts) == CPUS


async def test_a_node_whose_exporter_died_is_unknown_although_its_rates_go_on(
    monitoring: Monitoring,
) -> None:
    """The last test of the file: one exporter does not come back."""
    await until_told(monitoring, "cpu", window="2m")
    monitoring.exporters["n2"].kill()
    rate = 'rate(node_cpu_seconds_total{nodename="n2"}[2m])'

    async with asyncio.timeout(WAIT_S):
        answer = await asked(monitoring, window="2m")
        while "n2" in answer.samples:
            await asyncio.sleep(0.2)
            answer = await asked(monitoring, window="2m")
    assert "n1" in answer.samples
    assert answer.rejected["without a time"] > 0
    async with httpx.AsyncClient(trust_env=False) as client:
        frozen = await client.get(f"{url_of(monitoring)}/api/v1/query", params={"query": rate})
    assert frozen.json()["data"]["result"], "Prometheus no longer tells the frozen value: nothing was proved"
