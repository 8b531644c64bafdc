"""Pods as they come over the wire."""

from typing import Any

import msgspec

from agents.kube.wire import EMPTY, Int, Meta, Named, Text, Wire
from agents.kube.wire_terms import Affinity, Toleration, TopologySpread


class Port(Wire):
    """core/v1 ContainerPort."""

    container_port: Int = 0
    host_port: Int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class ResourceList(Wire):
    """core/v1 ResourceRequirements; quantities are read later, with bounds."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(Wire):
    """core/v1 Container."""

    name: str = ""
    image: str = ""
    restart_policy: Text = None
    resources: ResourceList | None = None
    ports: list[Port] | None = None


class ClaimVolume(Wire):
    """core/v1 PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""
    read_only: bool | None = None


class Disk(Wire):
    """The in-tree disks that name one device: gcePersistentDisk, awsElasticBlockStore, azureDisk,
    iscsi.
    """

    pd_name: str = ""
    volume_id: str = msgspec.field(name="volumeID", default="")
    disk_uri: str = msgspec.field(name="diskURI", default="")
    iqn: str = ""
    read_only: bool | None = None


class RbdVolume(Wire):
    """core/v1 RBDVolumeSource."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool | None = None


class ImageVolume(Wire):
    """core/v1 ImageVolumeSource."""

    reference: Text = None


class Volume(Wire):
    """core/v1 Volume: only the kinds that bind a pod to storage, and images."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Wire | None = None
    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    iscsi: Disk | None = None
    rbd: RbdVolume | None = None
    image: ImageVolume | None = None


class PodGroupRef(Wire):
    """core/v1 PodSchedulingGroup (1.36)."""

    pod_group_name: Text = None


class PodSpec(Wire):
    """core/v1 PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpread] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Any] | None = None
    resources: ResourceList | None = None
    scheduling_gates: list[Named] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Named] | None = None
    host_network: bool | None = None
    preemption_policy: Text = None
    scheduling_group: PodGroupRef | None = None
    workload_ref: Named | None = None
    termination_grace_period_seconds: int | None = None


class PodObject(Wire):
    """core/v1 Pod. The status stays raw: a delegate's is passed on as it is."""

    metadata: Meta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: msgspec.Raw = EMPTY


read_pod = msgspec.json.Decoder(PodObject).decode
