"""What traces of pods' ways cost: the dispatcher's bookkeeping, the SDK's spans, and their export
over HTTP.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from time import process_time

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from benchmarks.fleets import fleet_of, same_pods, scheduler_of
from benchmarks.report.rows import Row
from dispatcher.scheduling.cycle.cycle import Decision
from dispatcher.scheduling.events import Answered, ClusterChanged
from dispatcher.service.traces.otel import teller
from dispatcher.service.traces.pod_traces import PodTraces
from shared.messages import BOUND, Bind, Changes, Outcome, PodRef

BATCH = 1000
_COUNTS = (
    "CPU of the process, a decision: bookkeeping, spans, and OTLP/HTTP to another process, which "
    "throws them away"
)


def traces(share: int) -> list[Row]:
    """50,000 pods decided, bound, answered and shown, 1 % of them traced, and all of them."""
    decisions = list(_decisions(50_000 // share))
    rows = []
    for name, sampled, target in (("trace_one_percent", 0.01, 20.0), ("trace_all", 1.0, None)):
        with _collector() as endpoint:
            spent = _spent(decisions, sampled, endpoint)
        rows.append(
            Row(
                name,
                5000,
                len(decisions),
                1e6 * spent / len(decisions),
                "us",
                target,
                None,
                _COUNTS,
            )
        )
    return rows


def _decisions(count: int) -> Iterator[Decision]:
    scheduler = scheduler_of(fleet_of(1, 5000))
    pods = [(("c000", one.pod.uid), one) for one in same_pods(count)]
    for at in range(0, count, BATCH):
        found = scheduler.schedule_class(pods[at : at + BATCH])
        yield from (one for one in found if isinstance(one, Decision))


def _spent(decisions: Sequence[Decision], sampled: float, endpoint: str) -> float:
    """Seconds of CPU of all threads of this process, the last export included."""
    provider = TracerProvider()
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint), max_queue_size=2**20)
    )
    ways, now = PodTraces(sampled, teller(provider)), 1e6
    batches = [_batch(decisions[at : at + BATCH]) for at in range(0, len(decisions), BATCH)]
    started = process_time()
    for some, binds, answered, shown in batches:
        for one in some:
            ways.decided(one, now)
        ways.sent("c000", binds, now)
        ways.event(answered, now)
        ways.event(shown, now)
    provider.shutdown()
    return process_time() - started


def _batch(
    some: Sequence[Decision],
) -> tuple[Sequence[Decision], list[Bind], Answered, ClusterChanged]:
    pods = [one.pod_info.pod for one in some]
    refs = [PodRef(pod.namespace, pod.name, pod.uid) for pod in pods]
    binds = [Bind(f"i-{ref.uid}", ref, 1, one.node) for ref, one in zip(refs, some, strict=True)]
    answered = Answered("c000", tuple(Outcome(one.id, one.pod.uid, 1, BOUND) for one in binds))
    bound = tuple(
        msgspec.structs.replace(pod, node=one.node) for pod, one in zip(pods, some, strict=True)
    )
    return some, binds, answered, ClusterChanged(Changes("c000", "uid", "life", 0, 1, pods=bound))


@contextmanager
def _collector() -> Iterator[str]:
    """The endpoint of a process that takes traces and forgets them."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_collect, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1/traces"
    finally:
        process.terminate()
        process.join()


class _Forgetful(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _collect(told: Connection) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forgetful) as server:
        told.send(server.server_port)
        server.serve_forever()


CASES = (traces,)
