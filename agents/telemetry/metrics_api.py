"""CPU and memory of all nodes from metrics.k8s.io, where a kubelet cannot be asked. It knows no network."""

from typing import Any

import msgspec

from agents.observer import signals
from agents.observer.loads import Measure, Sample
from agents.telemetry.kubelet import seconds
from agents.telemetry.source import SourceError
from dispatcher.model.resources import CPU, MEMORY, QuantityError, parse_quantity

SOURCE = "metrics.k8s.io"
PATH = "/apis/metrics.k8s.io/v1beta1/nodes"


class Meta(msgspec.Struct, gc=False):
    """The name."""

    name: str = ""


class NodeMetrics(msgspec.Struct, gc=False):
    """metrics.k8s.io/v1beta1 NodeMetrics."""

    metadata: Meta
    timestamp: str = ""
    usage: dict[str, Any] = {}


class NodeMetricsList(msgspec.Struct, gc=False):
    """metrics.k8s.io/v1beta1 NodeMetricsList."""

    items: list[NodeMetrics] | None = None


_LIST = msgspec.json.Decoder(NodeMetricsList)


def read_metrics(body: bytes) -> dict[str, Sample]:
    """Samples by node name; a node with an unreadable quantity has no value there. SourceError if it is no list."""
    try:
        items = _LIST.decode(body).items or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{PATH} cannot be read: {error}") from None
    return {item.metadata.name: _sample(item) for item in items}


def _sample(item: NodeMetrics) -> Sample:
    time = seconds(item.timestamp)
    measures = {
        # Nano-cores: finer than the internal unit, which would round small loads up to a milli-core.
        signals.CPU: Measure(_quantity(item.usage.get(CPU), 1e9), time),
        signals.MEMORY: Measure(_quantity(item.usage.get(MEMORY), 1.0), time),
    }
    return Sample(SOURCE, measures)


def _quantity(text: object, scale: float) -> float | None:
    try:
        return parse_quantity(text, scale=int(scale)) / scale
    except QuantityError:
        return None
