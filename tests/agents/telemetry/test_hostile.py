"""Every lie of every source: the pod goes where requests alone would send it, and the reason says so."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest
from aiohttp import web

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Sample
from agents.observer.seen import NodeTarget
from agents.runtime.telemetry_settings import PrometheusSettings
from agents.telemetry.kubelet import read_summary
from agents.telemetry.load_watcher import LoadWatcher, read_watcher
from agents.telemetry.node_exporter import NodeExporters, read_page
from agents.telemetry.polls import Polls
from agents.telemetry.prometheus import Prometheus
from agents.telemetry.source import FleetSource, SourceError
from agents.telemetry.static_file import read_file
from agents.telemetry.web import Pool
from dispatcher.kit import a_fleet, a_node, a_pod, scores, view_of
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PluginUse, Profile
from dispatcher.scheduling.rules.load import LoadScore
from tests.agents.kube.fake_server import until
from tests.agents.telemetry.servers import HOSTILE, LIMITS, NOW, Handler, answering, serving, web_at

TARGETS = {name: NodeTarget(name, f"10.0.0.{at}", cpu=8000, memory=1000) for at, name in enumerate(("liar", "honest"))}
POD = a_pod("p", wants={"cpu": "1", "memory": "1Gi"})


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


# --- what each source answers when it says of `liar` that the share `value` (as text) of its memory is used at `at` ---


def vector(**numbers: str) -> bytes:
    """An instant vector by node, evaluated NOW."""
    found = [{"metric": {"instance": f"{node}:9100"}, "value": [NOW, text]} for node, text in numbers.items()]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()


def prometheus_of(value: str, at: float) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        number = repr(at) if "timestamp(" in request.query["query"] else value
        return web.Response(body=vector(liar=number))

    return handle


def exporter(value: str, at: float) -> bytes:
    used = "NaN" if value == "NaN" else value.replace("Inf", "inf")
    free = 1000 * (1 - float(used))
    return (
        f"# TYPE node_memory_MemTotal_bytes gauge\nnode_memory_MemTotal_bytes 1000\n"
        f"node_memory_MemAvailable_bytes {free!r}\nnode_time_seconds {at!r}\n"
    ).encode()


def watcher(value: str, at: float) -> bytes:
    metrics = f'[{{"type": "Memory", "operator": "Average", "value": {json_number(value, 100)}}}]'
    nodes = f'{{"liar": {{"metrics": {metrics}}}}}'
    return f'{{"timestamp": {at}, "window": {{"end": {at}}}, "data": {{"NodeMetricsMap": {nodes}}}}}'.encode()


def summary(value: str, at: float) -> bytes:
    memory = f'{{"time": "{rfc3339(at)}", "workingSetBytes": {json_number(value, 1000)}}}'
    return f'{{"node": {{"memory": {memory}}}}}'.encode()


def file_of(value: str, at: float) -> bytes:
    number = value.lower().replace("nan", ".nan").replace("inf", ".inf")
    return f"sampled_at: {at}\nnodes: {{liar: {{memory: {number}}}}}".encode()


def json_number(value: str, times: float) -> str:
    """JSON has no NaN and no infinity; some write them all the same."""
    try:
        number = float(value) * times
    except ValueError:
        return value
    return str(number).replace("nan", "NaN").replace("inf", "1e999")


def asked(read: Callable[[], Mapping[str, Sample]]) -> dict[str, Sample]:
    try:
        return dict(read())
    except SourceError:
        return {}


READS: dict[str, Callable[[str, float], Mapping[str, Sample]]] = {
    "kubelet": lambda value, at: {"liar": read_summary(summary(value, at), NOW)},
    "node_exporter": lambda value, at: {"liar": read_page(exporter(value, at), NOW)},
    "load-watcher": lambda value, at: read_watcher(watcher(value, at), NOW, TARGETS).samples,
    "file": lambda value, at: read_file(file_of(value, at), NOW, NOW, TARGETS).samples,
}


async def samples_of(source: str, value: str, at: float) -> dict[str, Sample]:
    if source != "prometheus":
        return asked(lambda: READS[source](value, at))
    async with serving(prometheus_of(value, at)) as base:
        client = prometheus(base)
        try:
            return (await client.sample_all(TARGETS)).samples
        except SourceError:
            return {}
        finally:
            await client.close()


def prometheus(base: str, measure: str = "memory") -> Prometheus:
    settings = PrometheusSettings(url=base)
    return Prometheus("p", web_at(base), settings.all_queries("east", frozenset({measure})), settings.node_labels)


# --- what is made of it ---


def loads_of(samples: Mapping[str, Sample]) -> Loads:
    loads = Loads(ChangeLog(), tau_s=0)
    for node, sample in samples.items():
        loads.add(TARGETS[node], sample, now=100.0)
    return loads


def decided(loads: Loads) -> tuple[dict[tuple[str, str], float], str]:
    """The scores of all nodes for a pod, by the memory that is read, and how the node `liar` was judged."""
    fleet = a_fleet({"east": [a_node(name, room={"cpu": "8", "memory": "8Gi"}) for name in TARGETS]})
    for node in TARGETS:
        if (reading := loads.reading(node, 100.0)) is not None:
            fleet.put_reading("east", reading)
    (plugin,) = build(Profile("global-dispatcher", (PluginUse("LiveMemory"),)), PluginContext())
    assert isinstance(plugin, LoadScore)
    state = plugin.pre_filter(POD, view_of(fleet))
    assert isinstance(state, tuple)
    told = plugin.explain(state, POD, view_of(fleet), row_of(fleet, "liar"))
    return {(str(node[0]), str(node[1])): score for node, score in scores(plugin, POD, fleet).items()}, told["judged"]


def row_of(fleet: FleetState, node: str) -> int:
    return next(row for row in range(len(TARGETS)) if fleet.name_of(row)[1] == node)


UNKNOWN, STALE = "unknown, by requests", "stale, by requests"
# value as text, seconds since the sample -> how placement judges the node.
LIES = {
    "NaN": ("NaN", 1.0, UNKNOWN),
    "+Inf": ("Inf", 1.0, UNKNOWN),
    "-Inf": ("-Inf", 1.0, UNKNOWN),
    "negative": ("-0.2", 1.0, UNKNOWN),
    "far too much": ("9e9", 1.0, UNKNOWN),
    "frozen for an hour": ("0.0", 3600.0, STALE),
    "from the future": ("0.0", -3600.0, UNKNOWN),
}
SOURCES = ("prometheus", *READS)


@pytest.mark.parametrize("source", SOURCES)
async def test_an_honest_answer_decides(source: str) -> None:
    busy = decided(loads_of(await samples_of(source, "0.9", NOW - 1.0)))
    idle = decided(loads_of(await samples_of(source, "0.0", NOW - 1.0)))
    nothing = decided(loads_of({}))
    assert (busy[1], idle[1], nothing[1]) == ("fresh", "fresh", UNKNOWN)
    assert busy[0]["east", "liar"] < nothing[0]["east", "liar"]
    assert idle[0]["east", "liar"] >= nothing[0]["east", "liar"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_places_as_requests_alone_do_and_says_so(source: str, lie: str) -> None:
    value, ago, judged = LIES[lie]
    told = decided(loads_of(await samples_of(source, value, NOW - ago)))
    assert told == (decided(loads_of({}))[0], judged)


# --- servers that do not answer as servers should --------------------------------------------------------------------


FLEET_SOURCES: dict[str, Callable[[str], FleetSource]] = {
    "prometheus": prometheus,
    "load-watcher": lambda base: LoadWatcher("load-watcher", web_at(base)),
}


@pytest.mark.parametrize("source", FLEET_SOURCES)
@pytest.mark.parametrize("lie", HOSTILE)
async def test_a_server_that_does_not_answer_as_one_tells_nothing_of_any_node(source: str, lie: str) -> None:
    handler, problem = HOSTILE[lie]
    async with serving(handler) as base:
        client = FLEET_SOURCES[source](base)
        with pytest.raises(SourceError, match=problem):
            await client.sample_all(TARGETS)
        await client.close()


@pytest.mark.parametrize("lie", HOSTILE)
async def test_a_node_exporter_that_does_not_answer_as_one_tells_nothing(lie: str) -> None:
    handler, problem = HOSTILE[lie]
    async with serving(handler) as base:
        client = NodeExporters(("http", int(base.rpartition(":")[2])), LIMITS, Pool())
        with pytest.raises(SourceError, match=problem):
            await client.sample(NodeTarget("liar", "127.0.0.1"))
        await client.close()


async def test_a_node_that_is_told_twice_is_unknown_and_named() -> None:
    async def handle(_: web.Request) -> web.Response:
        twice = [{"metric": {"node": "liar", "instance": f"10.9.9.{at}:9100"}, "value": [NOW, "0.1"]} for at in (1, 2)]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": twice}})

    async with serving(handle) as base:
        client = prometheus(base)
        answer = await client.sample_all(TARGETS)
        await client.close()
    assert answer.samples == {}
    assert (answer.matching.ambiguous, answer.matching.ambiguous_names) == (2, ["liar twice"])


async def test_an_empty_answer_tells_nothing_and_is_no_error() -> None:
    async with serving(answering(vector())) as base:
        client = prometheus(base)
        answer = await client.sample_all(TARGETS)
        await client.close()
    assert (answer.samples, answer.problem) == ({}, "")


async def test_a_value_whose_time_nobody_tells_is_unknown() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=vector() if "timestamp(" in request.query["query"] else vector(liar="0.0"))

    async with serving(handle) as base:
        client = prometheus(base)
        answer = await client.sample_all(TARGETS)
        await client.close()
    assert (answer.samples, dict(answer.rejected)) == ({}, {"without a time": 1})


@pytest.mark.parametrize("lie", ["a slow drip", "silence", "50 MB", "a gzip bomb"])
async def test_other_clusters_are_read_while_the_server_of_one_lies(lie: str) -> None:
    handler, _ = HOSTILE[lie]
    async with serving(handler) as bad, serving(prometheus_of("0.5", NOW - 1.0)) as good:
        loads = {name: Loads(ChangeLog(), tau_s=0) for name in ("bad", "good")}
        sources = {"bad": prometheus(bad), "good": prometheus(good)}
        polls = {name: Polls("p", sources[name], TARGETS, loads[name], 0.02) for name in sources}
        tasks = [asyncio.create_task(one.run()) for one in polls.values()]
        try:
            await until(lambda: polls["good"].status.asked >= 5 and polls["bad"].status.errors >= 1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for source in sources.values():
                await source.close()
    assert [list(loads[name].names()) for name in ("bad", "good")] == [[], ["liar"]]
    assert polls["good"].status.errors == 0
    assert polls["bad"].status.problem


def test_the_file_of_a_lying_writer_is_refused_as_a_whole() -> None:
    for body in (b"<html>", b"nodes: 7", b"[" * 100_000, b"sampled_at: never\nnodes: {liar: {cpu: 0}}"):
        with pytest.raises(SourceError):
            read_file(body, NOW, NOW, TARGETS)
