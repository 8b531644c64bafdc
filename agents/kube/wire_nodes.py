"""Nodes as they come over the wire."""

from typing import Any

import msgspec

from agents.kube.wire import Condition, Int, Long, Meta, Wire


class Taint(Wire):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire):
    """core/v1 NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Address(Wire):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class Endpoint(Wire):
    """core/v1 DaemonEndpoint; its field is called Port in JSON."""

    port: Int = msgspec.field(name="Port", default=0)


class Endpoints(Wire):
    """core/v1 NodeDaemonEndpoints."""

    kubelet_endpoint: Endpoint | None = None


class Image(Wire):
    """core/v1 ContainerImage."""

    names: list[str] | None = None
    size_bytes: Long = 0


class NodeStatus(Wire):
    """core/v1 NodeStatus."""

    allocatable: dict[str, Any] | None = None
    capacity: dict[str, Any] | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    daemon_endpoints: Endpoints | None = None
    images: list[Image] | None = None
    declared_features: list[str] | None = None


class NodeObject(Wire):
    """core/v1 Node."""

    metadata: Meta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


read_node = msgspec.json.Decoder(NodeObject).decode
