"""Traces to an OpenTelemetry collector, by the SDK's own batches: the optional extra `otel`."""

from collections.abc import Callable
from functools import cache
from typing import Any

from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.traces.pod_traces import Span, Trace

_MISSING = (
    "tracing.enabled is true, and OpenTelemetry is not installed: pip install "
    "'global-dispatcher[otel]'"
)


@cache
def exporter(endpoint: str) -> Callable[[Trace], None]:
    """Sends traces to an OTLP/HTTP endpoint; empty: where OTEL_EXPORTER_OTLP_ENDPOINT says, else
    port 4318 here.

    One a process. CommandError if the extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise CommandError(_MISSING, ExitCode.USAGE) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "global-dispatcher"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint or None)))
    return teller(provider)


def teller(provider: Any) -> Callable[[Trace], None]:
    """Makes the SDK's spans of a trace, all of them below the whole."""
    from opentelemetry.trace import set_span_in_context

    tracer = provider.get_tracer("global-dispatcher")

    def make(span: Span, within: Any = None) -> Any:
        attributes = dict(span.attributes)
        return tracer.start_span(
            span.name, context=within, start_time=_ns(span.start), attributes=attributes
        )

    def tell(trace: Trace) -> None:
        whole = make(trace.whole)
        within = set_span_in_context(whole)
        for part in trace.parts:
            make(part, within).end(end_time=_ns(part.end))
        whole.end(end_time=_ns(trace.whole.end))

    return tell


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
