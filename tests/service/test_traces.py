"""The way of a sampled pod as spans."""

import builtins
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.events import Answered, ClusterChanged, Unanswered
from dispatcher.service.errors import CommandError
from dispatcher.service.traces import pod_traces as module
from dispatcher.service.traces.otel import exporter, teller
from dispatcher.service.traces.pod_traces import PodTraces, Span, Trace
from shared.messages import BOUND, Changes, Outcome
from tests.builders import fleet, node, pod
from tests.scheduling.tiny_plugins import Fit, profile
from tests.service.fakes import bind


class Told:
    """PodTraces, what they have told, and a fleet that decides pods at once."""

    def __init__(self, share: float = 1.0) -> None:
        self.traces: list[Trace] = []
        self.ways = PodTraces(share, self.traces.append)

    def decided(self, name: str = "p", *, created: float = 90.0, at: float = 100.0, now: float = 100.5) -> str:
        plugins = [Fit()]
        placed = pod(name).set(created=created).placed()
        state = fleet(now=at, a=[node("n1")])
        decision = Scheduler(profile(Fit=1), plugins, state).schedule(placed, ("a", placed.pod.uid))
        assert isinstance(decision, Decision)
        self.ways.decided(decision, now)
        return placed.pod.uid

    def shown(self, name: str, now: float, *, cluster: str = "a") -> None:
        there = Changes(cluster, "uid", "one", 0, 1, pods=(pod(name).on("n1").build(),))
        self.ways.event(ClusterChanged(there), now)


def names(trace: Trace) -> list[tuple[str, float, float]]:
    return [(part.name, part.start, part.end) for part in trace.parts]


def test_a_way_has_its_wait_its_decision_its_order_and_when_it_was_shown() -> None:
    told = Told()
    uid = told.decided()
    told.ways.sent("a", [bind(1, uid)], 100.6)
    told.ways.event(Answered("a", (Outcome("1", uid, 1, BOUND),)), 101.0)
    assert told.traces == []
    told.shown("p", 101.5)
    (trace,) = told.traces
    assert names(trace) == [
        ("queue", 90.0, 100.0),
        ("decide", 100.0, 100.5),
        ("intent", 100.6, 101.0),
        ("bound shown", 101.0, 101.5),
    ]
    assert trace.parts[2].attributes == {"intent": "Bind", "cluster": "a", "verdict": BOUND}
    assert (trace.whole.start, trace.whole.end) == (90.0, 101.5)
    wanted = {
        "pod": "default/p",
        "uid": uid,
        "home": "a",
        "cluster": "a",
        "node": "n1",
        "attempts": 1,
        "result": "shown",
    }
    assert {key: trace.whole.attributes[key] for key in wanted} == wanted


def test_a_second_attempt_is_on_the_same_way() -> None:
    told = Told()
    uid = told.decided()
    told.ways.sent("a", [bind(1, uid)], 100.6)
    told.ways.event(Unanswered("a", ("1",), "gone"), 105.0)
    told.decided(at=110.0, now=110.5)
    told.shown("p", 111.0)
    (trace,) = told.traces
    assert names(trace)[3:5] == [("queue", 105.0, 110.0), ("decide", 110.0, 110.5)]
    assert (trace.whole.attributes["attempts"], trace.parts[2].attributes["verdict"]) == (2, "unanswered")


def test_the_copy_in_another_cluster_does_not_end_the_way() -> None:
    told = Told()
    told.decided()
    told.shown("p", 101.0, cluster="b")
    assert told.traces == []


def test_an_answer_after_the_end_is_nothing() -> None:
    told = Told()
    uid = told.decided()
    told.ways.sent("a", [bind(1, uid)], 100.6)
    told.shown("p", 101.0)
    told.decided("other")
    told.ways.event(Answered("a", (Outcome("1", uid, 1, BOUND),)), 102.0)
    assert len(told.traces) == 1


def test_the_share_is_chosen_by_uid() -> None:
    told = Told(share=0.25)
    for round_ in (1.0, 2.0):
        for at in range(400):
            told.decided(f"p{at}")
        for at in range(400):
            told.shown(f"p{at}", 101.0 + round_)
    first, second = told.traces[: len(told.traces) // 2], told.traces[len(told.traces) // 2 :]
    assert 50 < len(first) < 150
    assert [one.whole.attributes["uid"] for one in first] == [one.whole.attributes["uid"] for one in second]


def test_a_pod_of_an_unknown_age_has_no_wait_before_its_decision() -> None:
    told = Told()
    told.decided(created=0.0)
    told.shown("p", 101.0)
    assert names(told.traces[0])[0] == ("queue", 100.0, 100.0)


def test_ways_that_nothing_comes_of_are_told_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRACES", 2)
    told = Told()
    for name in ("p1", "p2", "p3"):
        told.decided(name)
    assert [one.whole.attributes["pod"] for one in told.traces] == ["default/p1"]
    told.decided("p4", at=5000.0, now=5000.0)
    assert [one.whole.attributes["result"] for one in told.traces] == ["abandoned"] * 3


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    exporter.cache_clear()
    with pytest.raises(CommandError, match=r"pip install 'global-dispatcher\[otel\]'"):
        exporter("")


def test_the_sdk_is_told_a_trace_with_its_parts_below_the_whole() -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    teller(provider)(Trace(Span("pod", 90.0, 101.5, {"attempts": 1}), (Span("queue", 90.0, 100.0),)))
    part, whole = kept.get_finished_spans()
    assert (part.name, part.start_time, part.end_time) == ("queue", 90 * 10**9, 100 * 10**9)
    assert (whole.name, whole.end_time, whole.attributes) == ("pod", 1015 * 10**8, {"attempts": 1})
    assert part.parent is not None
    assert (part.parent.span_id, part.context.trace_id) == (whole.context.span_id, whole.context.trace_id)


class Collector(BaseHTTPRequestHandler):
    """Keeps what is exported to it by OTLP over HTTP."""

    got: Queue[tuple[str, ExportTraceServiceRequest]] = Queue()

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.put((self.path, request))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        server.shutdown()


def test_a_collector_gets_a_trace_by_otlp_with_our_name(collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    exporter.cache_clear()
    exporter(collector)(Trace(Span("pod", 90.0, 101.5, {"pod": "default/p"}), (Span("queue", 90.0, 100.0),)))
    path, request = Collector.got.get(timeout=30)
    assert path == "/v1/traces"
    (told,) = request.resource_spans
    assert [one.value.string_value for one in told.resource.attributes if one.key == "service.name"] == [
        "global-dispatcher"
    ]
    part, whole = told.scope_spans[0].spans
    assert (part.name, part.parent_span_id, part.trace_id) == ("queue", whole.span_id, whole.trace_id)
    assert (whole.start_time_unix_nano, whole.attributes[0].value.string_value) == (90 * 10**9, "default/p")
