"""CPU and memory of all nodes, and of all pods, from metrics.k8s.io, where a kubelet cannot be
asked. It knows no network.
"""

from typing import Any

import msgspec

from agents.observer import signals
from agents.observer.loads import Measure, Sample
from agents.observer.owner_uses import PodUse
from agents.telemetry.kubelet import seconds
from agents.telemetry.source import SourceError
from shared.model.resources import CPU, MEMORY, QuantityError, parse_quantity

SOURCE = "metrics.k8s.io"
NODES = "nodes"
PODS = "pods"
VERSIONS = (
    "v1",
    "v1beta1",
)  # the first is asked first; metrics-server up to 0.9 serves the second alone


def path_of(version: str, plural: str) -> str:
    """Where metrics of all nodes or pods are."""
    return f"/apis/{SOURCE}/{version}/{plural}"


class Meta(msgspec.Struct, gc=False):
    """The name, and of pods the namespace."""

    name: str = ""
    namespace: str = ""


class NodeMetrics(msgspec.Struct, gc=False):
    """metrics.k8s.io NodeMetrics."""

    metadata: Meta
    timestamp: str = ""
    usage: dict[str, Any] = {}


class NodeMetricsList(msgspec.Struct, gc=False):
    """metrics.k8s.io NodeMetricsList."""

    items: list[NodeMetrics] | None = None


class ContainerMetrics(msgspec.Struct, gc=False):
    """metrics.k8s.io ContainerMetrics."""

    usage: dict[str, Any] = {}


class PodMetrics(msgspec.Struct, gc=False):
    """metrics.k8s.io PodMetrics."""

    metadata: Meta
    timestamp: str = ""
    containers: list[ContainerMetrics] | None = None


class PodMetricsList(msgspec.Struct, gc=False):
    """metrics.k8s.io PodMetricsList."""

    items: list[PodMetrics] | None = None


_PODS = msgspec.json.Decoder(PodMetricsList)
_LIST = msgspec.json.Decoder(NodeMetricsList)
# Nano-cores: finer than the internal unit, which would round small loads up to a milli-core.
_SCALES = (CPU, 1e9), (MEMORY, 1.0)


def read_metrics(body: bytes) -> dict[str, Sample]:
    """Samples by node name; a node with an unreadable quantity has no value there. SourceError if
    it is no list.
    """
    try:
        items = _LIST.decode(body).items or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{SOURCE} {NODES} cannot be read: {error}") from None
    return {item.metadata.name: _sample(item) for item in items}


def _sample(item: NodeMetrics) -> Sample:
    time = seconds(item.timestamp)
    cpu, memory = (Measure(_quantity(item.usage.get(name), scale), time) for name, scale in _SCALES)
    return Sample(SOURCE, {signals.CPU: cpu, signals.MEMORY: memory})


def read_pod_metrics(body: bytes) -> list[PodUse]:
    """What pods use, all containers together; unknown where one of them is. SourceError if it is no
    list.
    """
    try:
        items = _PODS.decode(body).items or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{SOURCE} {PODS} cannot be read: {error}") from None
    return [_pod_use(item) for item in items]


def _pod_use(item: PodMetrics) -> PodUse:
    usages = [container.usage for container in item.containers or ()]
    cores, memory = (
        [_quantity(usage.get(name), scale) for usage in usages] for name, scale in _SCALES
    )
    return PodUse(
        item.metadata.namespace,
        item.metadata.name,
        _sum(cores),
        _sum(memory),
        seconds(item.timestamp),
    )


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _quantity(text: object, scale: float) -> float | None:
    try:
        return parse_quantity(text, scale=int(scale)) / scale
    except QuantityError:
        return None
