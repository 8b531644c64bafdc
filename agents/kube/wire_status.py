"""The status of a pod as it comes over the wire, reduced to the fields used."""

from typing import Any

import msgspec

from agents.kube.wire import Condition, Long, Text, Wire
from agents.kube.wire_pods import ResourceList


class ContainerStatus(Wire):
    """core/v1 ContainerStatus."""

    name: str = ""
    resources: ResourceList | None = None
    allocated_resources: dict[str, Any] | None = None


class PodStatus(Wire):
    """core/v1 PodStatus."""

    phase: str = ""
    reason: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: Text = None
    start_time: Text = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceList | None = None
    allocated_resources: dict[str, Any] | None = None
    observed_generation: Long | None = None


read_pod_status = msgspec.json.Decoder(PodStatus).decode
