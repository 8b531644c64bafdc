"""Objects beside pods and nodes as they come over the wire, reduced to the fields used."""

from typing import Any

import msgspec

from agents.kube.wire import Int, Meta, Named, Text, Wire
from agents.kube.wire_pods import ResourceList
from agents.kube.wire_terms import NodeTerms, Selector


class Described(Wire):
    """An object with metadata; of a Namespace nothing else matters."""

    metadata: Meta


class ObjectRef(Wire):
    """core/v1 ObjectReference."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(Wire):
    """core/v1 VolumeNodeAffinity."""

    required: NodeTerms | None = None


class CsiSource(Wire):
    """core/v1 CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""


class InTreeSource(Wire):
    """The in-tree volume sources that migrate to a CSI driver, by what identifies the volume."""

    pd_name: str = ""
    volume_id: str = msgspec.field(name="volumeID", default="")
    disk_uri: str = msgspec.field(name="diskURI", default="")


class VolumeSpec(Wire):
    """core/v1 PersistentVolumeSpec."""

    capacity: dict[str, Any] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: Text = None
    claim_ref: ObjectRef | None = None
    node_affinity: VolumeAffinity | None = None
    volume_attributes_class_name: Text = None
    csi: CsiSource | None = None
    gce_persistent_disk: InTreeSource | None = None
    aws_elastic_block_store: InTreeSource | None = None
    azure_disk: InTreeSource | None = None
    cinder: InTreeSource | None = None
    portworx_volume: InTreeSource | None = None


class Phase(Wire):
    """The status of a volume or claim."""

    phase: str = ""


class VolumeObject(Described):
    """core/v1 PersistentVolume."""

    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class ClaimSpec(Wire):
    """core/v1 PersistentVolumeClaimSpec."""

    access_modes: list[str] | None = None
    selector: Selector | None = None
    resources: ResourceList | None = None
    volume_name: str = ""
    storage_class_name: Text = None
    volume_mode: Text = None
    volume_attributes_class_name: Text = None


class ClaimObject(Described):
    """core/v1 PersistentVolumeClaim."""

    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class TopologyLabel(Wire):
    """core/v1 TopologySelectorLabelRequirement."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Wire):
    """core/v1 TopologySelectorTerm."""

    match_label_expressions: list[TopologyLabel] | None = None


class ClassObject(Described):
    """storage/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: Text = None
    allowed_topologies: list[TopologyTerm] | None = None


class Allocatable(Wire):
    """storage/v1 VolumeNodeResources."""

    count: Int | None = None


class DriverOnNode(Named):
    """storage/v1 CSINodeDriver."""

    allocatable: Allocatable | None = None


class CsiNodeSpec(Wire):
    """storage/v1 CSINodeSpec."""

    drivers: list[DriverOnNode] | None = None


class CsiNodeObject(Described):
    """storage/v1 CSINode."""

    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Wire):
    """storage/v1 CSIDriverSpec."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None  # 1.35


class CsiDriverObject(Described):
    """storage/v1 CSIDriver."""

    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CapacityObject(Described):
    """storage/v1 CSIStorageCapacity."""

    node_topology: Selector | None = None
    storage_class_name: str = ""
    capacity: Any = None
    maximum_volume_size: Any = None


class AttachedVolume(Wire):
    """storage/v1 VolumeAttachmentSource."""

    persistent_volume_name: Text = None


class AttachmentSpec(Wire):
    """storage/v1 VolumeAttachmentSpec."""

    attacher: str = ""
    node_name: str = ""
    source: AttachedVolume = msgspec.field(default_factory=AttachedVolume)


class AttachmentObject(Described):
    """storage/v1 VolumeAttachment."""

    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)


class PriorityClassObject(Described):
    """scheduling/v1 PriorityClass."""

    value: Int = 0
    global_default: bool | None = None
    preemption_policy: Text = None


class BudgetSpec(Wire):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: Selector | None = None
    min_available: Int | str | None = None
    unhealthy_pod_eviction_policy: Text = None


class BudgetStatus(Wire):
    """policy/v1 PodDisruptionBudgetStatus."""

    disruptions_allowed: Int = 0
    desired_healthy: Int = 0
    disrupted_pods: dict[str, Any] | None = None


class BudgetObject(Described):
    """policy/v1 PodDisruptionBudget."""

    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class ServiceSpec(Wire):
    """core/v1 ServiceSpec, and ReplicationControllerSpec."""

    selector: dict[str, str] | None = None


class ServiceObject(Wire):
    """core/v1 Service, and ReplicationController."""

    metadata: Meta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class WorkloadSpec(Wire):
    """apps/v1 ReplicaSetSpec, StatefulSetSpec and DaemonSetSpec."""

    selector: Selector | None = None


class WorkloadObject(Wire):
    """apps/v1 ReplicaSet, StatefulSet and DaemonSet."""

    metadata: Meta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
