"""Prometheus: queries as data, one a measure for all nodes, which node a series is about, and how old its sample is."""

import json
from collections.abc import Iterable
from itertools import product

import pytest
from aiohttp import web

from agents.observer.loads import Measure
from agents.observer.seen import NodeTarget
from agents.runtime.telemetry_settings import PrometheusSettings
from agents.telemetry import queries
from agents.telemetry.matching import LABELS, Nodes
from agents.telemetry.prometheus import Prometheus, read_vector
from agents.telemetry.queries import Filling, Query, QueryError
from agents.telemetry.source import Matching, Range, SourceError
from tests.agents.telemetry.servers import NOW, serving, web_at

TARGETS = {
    "n1": NodeTarget("n1", "10.0.0.1", cpu=8000, memory=1000, addresses=("10.0.0.1", "n1.example.com", "fd00::1")),
    "n2": NodeTarget("n2", "10.0.0.2", cpu=4000, memory=1000, addresses=("10.0.0.2",)),
}
Rows = list[tuple[dict[str, str], str]]
MEASURES = {
    *("cpu", "memory", "network_receive", "network_transmit", "link_speed", "disk_busy"),
    *("pressure_cpu", "pressure_memory", "pressure_io", "gpu", "gpu_memory"),
}


class Server:
    """A Prometheus that knows some answers by a word of the query; it counts what it is asked."""

    def __init__(self, **answers: Rows) -> None:
        self.answers, self.asked, self.failing = answers, list[str](), ""

    async def handle(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        self.asked.append(query)
        if self.failing and self.failing in query:
            return web.json_response({"status": "error", "errorType": "bad_data", "error": "no such thing"}, status=200)
        found = next((rows for word, rows in self.answers.items() if word in query), [])
        result = [{"metric": labels, "value": [NOW, text]} for labels, text in found]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def a_prometheus(base: str, wanted: Iterable[str], **settings: object) -> Prometheus:
    told = PrometheusSettings.model_validate({"url": base, **settings})
    queries_of = told.all_queries("east", frozenset(wanted))
    return Prometheus("prometheus", web_at(base), queries_of, told.node_labels, lambda: 0.0)


async def test_all_nodes_are_asked_for_at_once_and_the_time_only_once_a_set() -> None:
    nodes = [({"instance": f"10.0.0.{at}:9100"}, text) for at, text in ((1, "0.5"), (2, "0.25"))]
    times = [(labels, repr(NOW - 7)) for labels, _ in nodes]
    server = Server(timestamp=times, cpu=nodes, memory=nodes)
    async with serving(server.handle) as base:
        source = a_prometheus(base, ["cpu", "memory"])
        answer = await source.sample_all(TARGETS)
        await source.close()
    assert len(server.asked) == 3
    assert answer.samples["n1"].measures == {
        "cpu": Measure(4.0, NOW - 7, age=7.0),
        "memory": Measure(500.0, NOW - 7, age=7.0),
    }
    assert answer.samples["n2"].measures["cpu"] == Measure(1.0, NOW - 7, age=7.0)


async def test_answers_grow_older_while_a_slow_server_gives_the_next_ones() -> None:
    rows: Rows = [({"node": "n1"}, "0.5")]
    server = Server(timestamp=[({"node": "n1"}, repr(NOW - 1))], cpu=rows, memory=rows)
    told = PrometheusSettings(url="http://p").all_queries("east", frozenset({"cpu", "memory"}))
    ticks = iter((100.0, 104.0, 109.0))  # cpu asked for, memory asked for, the end
    async with serving(server.handle) as base:
        source = Prometheus("prometheus", web_at(base), told, LABELS, lambda: next(ticks))
        answer = await source.sample_all(TARGETS)
        await source.close()
    assert {name: one.age for name, one in answer.samples["n1"].measures.items()} == {"cpu": 10.0, "memory": 6.0}


async def test_a_query_that_fails_costs_its_own_measure_and_is_told() -> None:
    rows: Rows = [({"node": "n1"}, "0.5")]
    server = Server(timestamp=[({"node": "n1"}, repr(NOW))], cpu=rows, memory=rows)
    server.failing = "node_cpu"
    async with serving(server.handle) as base:
        source = a_prometheus(base, ["cpu", "memory"])
        answer = await source.sample_all(TARGETS)
        await source.close()
    assert set(answer.samples["n1"].measures) == {"memory"}
    assert answer.problem == "cpu: the query failed: no such thing"


async def test_if_all_queries_fail_there_is_no_answer_and_the_time_is_asked_for_once() -> None:
    server = Server()
    server.failing = "("
    async with serving(server.handle) as base:
        source = a_prometheus(base, ["cpu", "memory"])
        with pytest.raises(SourceError, match="no such thing"):
            await source.sample_all(TARGETS)
        await source.close()
    assert len(server.asked) == 1


async def test_a_query_of_ones_own_has_a_range_and_a_direction() -> None:
    rows: Rows = [({"node": "n1"}, "400"), ({"node": "n2"}, "900")]
    server = Server(timestamp=[(labels, repr(NOW - 1)) for labels, _ in rows], depth=rows)
    own = {"query": "depth{$cluster}", "sampled_at": "timestamp(x)", "range": [0, 500]}
    wanted = [{**own, "signal": "queue"}, {**own, "signal": "free", "direction": "headroom"}]
    async with serving(server.handle) as base:
        source = a_prometheus(base, [], sets=[], queries=wanted, cluster_label="k8s")
        answer = await source.sample_all(TARGETS)
        await source.close()
    assert 'depth{k8s="east"}' in server.asked
    measures = answer.samples["n1"].measures
    assert [measures[name].value for name in ("queue", "free")] == pytest.approx([0.8, 0.2])
    assert (list(answer.samples), answer.rejected["out of range"]) == (["n1"], 2)


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"node": "n1"}, "n1"),
        ({"kubernetes_node": "n1", "instance": "10.9.9.9:8080"}, "n1"),
        ({"nodename": "N1.example.com"}, "n1"),
        ({"instance": "n1"}, "n1"),
        ({"instance": "10.0.0.2:9100"}, "n2"),
        ({"instance": "[fd00:0:0::1]:9100"}, "n1"),
        ({"Hostname": "dcgm-exporter-x7k2p", "instance": "10.244.0.9:9400", "node": "n2"}, "n2"),
        ({"node": "n1", "instance": "10.0.0.1:9100"}, "n1"),
    ],
)
def test_a_series_is_about_the_node_that_its_labels_agree_on(labels: dict[str, str], node: str) -> None:
    matching = Matching()
    assert Nodes(TARGETS).find(labels, matching) == node
    assert (matching.unmatched, matching.ambiguous) == (0, 0)


@pytest.mark.parametrize(
    ("labels", "unmatched", "ambiguous"),
    [
        ({"instance": "10.9.9.9:9100"}, ["instance=10.9.9.9:9100"], []),
        ({"pod": "p"}, ["no label that names a node"], []),
        ({"node": "n"}, ["node=n"], []),
        ({"node": "n1", "instance": "10.0.0.2:9100"}, [], ["node=n1, instance=10.0.0.2:9100"]),
    ],
)
def test_a_series_about_none_or_several_is_counted_and_named(
    labels: dict[str, str], unmatched: list[str], ambiguous: list[str]
) -> None:
    matching = Matching()
    assert Nodes(TARGETS).find(labels, matching) is None
    assert (matching.unmatched_names, matching.ambiguous_names) == (unmatched, ambiguous)
    assert (matching.unmatched, matching.ambiguous) == (len(unmatched), len(ambiguous))


def test_an_address_that_two_nodes_have_is_ambiguous() -> None:
    twins = {name: NodeTarget(name, "10.0.0.1") for name in ("a", "b")}
    matching = Matching()
    assert Nodes(twins).find({"instance": "10.0.0.1:9100"}, matching) is None
    assert Nodes(twins).find({"instance": "10.0.0.1:9100", "node": "a"}, matching) == "a"
    assert matching.ambiguous == 1


def test_names_of_what_was_not_matched_are_few_and_short() -> None:
    matching = Matching()
    for at in range(1000):
        Nodes(TARGETS).find({"instance": f"{at}" * 500}, matching)
    assert (matching.unmatched, len(matching.unmatched_names)) == (1000, 20)
    assert max(map(len, matching.unmatched_names)) == 200


def test_every_set_can_be_read_and_filled_and_tells_known_measures() -> None:
    assert queries.names() == ["cadvisor", "dcgm", "kube_prometheus", "node_exporter", "psi"]
    filling = Filling(LABELS, "90s", 'eth".*', ("cluster", "we\\st"))
    for name in queries.names():
        for query in filling.fill(queries.load(name)):
            assert query.measure in MEASURES
            assert "$" not in query.query + query.sampled_at
            assert 'cluster="we\\\\st"' in query.query
            assert "timestamp(" in query.sampled_at


def test_interfaces_are_quoted_for_promql() -> None:
    (receive,) = (one for one in queries.load("node_exporter") if one.measure == "network_receive")
    assert r'device=~"eth\\d+\""' in Filling(("node",), interfaces=r'eth\d+"').of(receive.query)


BROKEN: dict[str, tuple[bytes, str]] = {
    "no yaml": (b"{", "is no YAML"),
    "a list": (b"[1]", "needs a list `queries`"),
    "without a time": (b"queries: [{measure: cpu, query: x, unit: cores}]", r"queries\.0\.sampled_at: is missing"),
    "wrong unit": (b"{sampled_at: t, queries: [{measure: cpu, query: x, unit: miles}]}", "unit: must be one of"),
    "unknown key": (b"{sampled_at: t, queries: [{measure: cpu, query: x, unit: cores, colour: red}]}", "colour"),
    "wrong name": (b"{sampled_at: t, queries: [{measure: CPU, query: x, unit: cores}]}", "measure: lower case"),
    "too large": (b"#" * 300_000, "larger than"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_set_that_cannot_be_is_refused_by_its_entry(fault: str) -> None:
    raw, problem = BROKEN[fault]
    with pytest.raises(QueryError, match=problem):
        queries.read(raw, "mine")


@pytest.mark.parametrize(
    ("unit", "number", "value"),
    [("cores", 3.5, 3.5), ("bytes", 7.0, 7.0), ("share", 0.5, 0.5), ("share", 1.05, 1.0), ("share_of_cpu", 0.5, 4.0)],
)
def test_numbers_become_measures_by_their_unit(unit: str, number: float, value: float) -> None:
    assert Query("m", "q", "t", unit).value(number, TARGETS["n1"]) == value


@pytest.mark.parametrize(
    ("unit", "number", "problem"),
    [
        *product(("cores", "share", "share_of_memory"), (float("nan"), float("inf")), ("not a finite number",)),
        *product(("cores", "share", "range"), (-0.1,), ("negative",)),
        *product(("share", "share_of_cpu", "range"), (1.2,), ("out of range",)),
        ("range", float("nan"), "not a finite number"),
    ],
)
def test_numbers_that_cannot_be_are_refused_with_a_reason(unit: str, number: float, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Query("m", "q", "t", unit).value(number, TARGETS["n1"])


def test_a_share_of_a_node_of_unknown_capacity_is_unknown() -> None:
    with pytest.raises(ValueError, match="capacity"):
        Query("m", "q", "t", "share_of_cpu").value(0.5, NodeTarget("n"))


def test_headroom_is_load_from_the_other_end() -> None:
    assert [Range(10, 20, headroom=True).share(value) for value in (10, 15, 20)] == [1.0, 0.5, 0.0]


NOT_VECTORS: dict[str, object] = {
    "an error": {"status": "error", "error": "bad"},
    "a matrix": {"status": "success", "data": {"resultType": "matrix", "result": []}},
    "a scalar": {"status": "success", "data": {"resultType": "scalar", "result": [NOW, "1"]}},
    "a number for a value": {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [NOW, 1]}]},
    },
    "a list": [],
}


@pytest.mark.parametrize("fault", NOT_VECTORS)
def test_an_answer_that_is_no_vector_is_a_source_error(fault: str) -> None:
    with pytest.raises(SourceError):
        read_vector(json.dumps(NOT_VECTORS[fault]).encode())


def test_answers_of_relatives_of_prometheus_are_read() -> None:
    """As Thanos, Mimir and VictoriaMetrics add to them."""
    extra = {"isPartial": False, "stats": {"seriesFetched": "2"}, "warnings": ["store gone"], "infos": []}
    result = [{"metric": {"node": "n"}, "value": [1.5, "+Inf"]}]
    body = {"status": "success", **extra, "data": {"resultType": "vector", "result": result, "analysis": {}}}
    series, warnings = read_vector(json.dumps(body).encode())
    assert (series[0].value, warnings) == ((1.5, "+Inf"), ["store gone"])
