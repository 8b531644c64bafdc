"""Objects beside pods and nodes that have a say in placement: one small record a kind, read by agents, kept by cluster.

`key` is namespace/name, or the name alone for what has no namespace; it is unique within cluster and kind.
"""

from dispatcher.model.labels import LabelSelector, NodeSelectorTerm
from dispatcher.model.pod import Record


class Namespace(Record, frozen=True, tag=True):
    """core/v1 Namespace: its labels, for namespace selectors."""

    name: str
    labels: dict[str, str] = {}

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class PersistentVolume(Record, frozen=True, tag=True):
    """core/v1 PersistentVolume. `claim` is namespace/name of its claimRef. `node_affinity` None: any node.

    `driver` and `handle` name a CSI volume, or an in-tree one (`in_tree`) by what it migrates to, where it does.
    """

    name: str
    capacity: int = 0
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    block: bool = False
    phase: str = ""
    claim: str = ""
    claim_uid: str = ""
    labels: dict[str, str] = {}
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    in_tree: bool = False
    terminating: bool = False
    attributes_class: str = ""

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class PersistentVolumeClaim(Record, frozen=True, tag=True):
    """core/v1 PersistentVolumeClaim. `volume` is spec.volumeName; `bound`: the controller says the binding is complete.

    `storage_class` None: not named (the default class). `owner_uid`: the pod that controls an ephemeral claim.
    """

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    phase: str = ""
    storage_class: str | None = None
    access_modes: tuple[str, ...] = ()
    block: bool = False
    request: int = 0
    selector: LabelSelector | None = None
    selected_node: str = ""
    terminating: bool = False
    owner_uid: str = ""
    attributes_class: str = ""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class StorageClass(Record, frozen=True, tag=True):
    """storage/v1 StorageClass. `topologies`: allowedTopologies as alternatives; empty: anywhere."""

    name: str
    provisioner: str = ""
    waits: bool = False  # volumeBindingMode: WaitForFirstConsumer
    topologies: tuple[NodeSelectorTerm, ...] = ()
    default: bool = False

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class CSINode(Record, frozen=True, tag=True):
    """storage/v1 CSINode: how many volumes of each driver the node of this name can attach; no entry: no limit."""

    name: str
    limits: dict[str, int] = {}
    drivers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The node's name."""
        return self.name


class CSIDriver(Record, frozen=True, tag=True):
    """storage/v1 CSIDriver: whether its free capacity is to be looked at."""

    name: str
    storage_capacity: bool = False

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class CSIStorageCapacity(Record, frozen=True, tag=True):
    """storage/v1 CSIStorageCapacity: bytes free of a class where `topology` matches the node's labels."""

    namespace: str
    name: str
    storage_class: str = ""
    capacity: int | None = None
    maximum: int | None = None
    topology: LabelSelector | None = None

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class VolumeAttachment(Record, frozen=True, tag=True):
    """storage/v1 VolumeAttachment: a persistent volume that is, or is to be, attached to a node."""

    name: str
    node: str = ""
    volume: str = ""
    attacher: str = ""  # the CSI driver

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class PodDisruptionBudget(Record, frozen=True, tag=True):
    """policy/v1 PodDisruptionBudget. `allowed` is status.disruptionsAllowed; `disrupted`: pods counted there."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    allowed: int = 0
    disrupted: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class Service(Record, frozen=True, tag=True):
    """core/v1 Service; it means the pods with all of `selector`, none if that is empty."""

    namespace: str
    name: str
    selector: dict[str, str] = {}

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class ReplicaSet(Record, frozen=True, tag=True):
    """apps/v1 ReplicaSet: which pods it means."""

    namespace: str
    name: str
    selector: LabelSelector | None = None

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class StatefulSet(Record, frozen=True, tag=True):
    """apps/v1 StatefulSet: which pods it means."""

    namespace: str
    name: str
    selector: LabelSelector | None = None

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class ReplicationController(Record, frozen=True, tag=True):
    """core/v1 ReplicationController: which pods it means."""

    namespace: str
    name: str
    selector: LabelSelector | None = None

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


AnyObject = (
    Namespace
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | Service
    | ReplicaSet
    | StatefulSet
    | ReplicationController
)


class ObjectRef(Record, frozen=True):
    """An object that is gone: `kind` is the record's name above."""

    kind: str
    key: str
