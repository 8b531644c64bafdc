"""Objects beside pods and nodes that have a say in placement: one small record a kind, read by
agents, kept by cluster.

`key` is namespace/name, or the name alone for what has no namespace; it is unique within cluster
and kind.
"""

from shared.model.bounds import Amount, Int32
from shared.model.labels import LabelSelector, NodeSelectorTerm
from shared.model.names import ACCEPT, BUDGET, OPEN
from shared.model.pod import Record


class Named(Record, frozen=True):
    """Of the cluster; a record of the wire, so its name comes first."""

    name: str

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class Namespaced(Record, frozen=True):
    """Of a namespace."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class Namespace(Named, frozen=True, tag=True):
    """core/v1 Namespace: its labels, for namespace selectors, and for whether pods of other
    clusters may come.
    """

    labels: dict[str, str] = {}

    @property
    def system(self) -> bool:
        """Whether it is one of Kubernetes' own, which never takes pods of other clusters."""
        return self.name.startswith("kube-")

    @property
    def closed(self) -> bool:
        """Whether it takes no pods of other clusters: Kubernetes' own, or labelled so."""
        return self.system or self.labels.get(ACCEPT, OPEN) != OPEN


class PersistentVolume(Named, frozen=True, tag=True):
    """core/v1 PersistentVolume. `claim` is namespace/name of its claimRef. `node_affinity` None:
    any node.

    `driver` and `handle` name a CSI volume, or an in-tree one (`in_tree`) by what it migrates to,
    where it does.
    """

    capacity: Amount = 0
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


class PersistentVolumeClaim(Namespaced, frozen=True, tag=True):
    """core/v1 PersistentVolumeClaim. `volume` is spec.volumeName; `bound`: the controller says the
    binding is complete.

    `storage_class` None: not named (the default class). `owner_uid`: the pod that controls an
    ephemeral claim.
    """

    uid: str = ""
    volume: str = ""
    bound: bool = False
    phase: str = ""
    storage_class: str | None = None
    access_modes: tuple[str, ...] = ()
    block: bool = False
    request: Amount = 0
    selector: LabelSelector | None = None
    selected_node: str = ""
    terminating: bool = False
    owner_uid: str = ""
    attributes_class: str = ""


class StorageClass(Named, frozen=True, tag=True):
    """storage/v1 StorageClass. `topologies`: allowedTopologies as alternatives; empty: anywhere."""

    provisioner: str = ""
    waits: bool = False  # volumeBindingMode: WaitForFirstConsumer
    topologies: tuple[NodeSelectorTerm, ...] = ()
    default: bool = False


class CSINode(Named, frozen=True, tag=True):
    """storage/v1 CSINode: how many volumes of each driver the node of this name can attach; no
    entry: no limit.
    """

    limits: dict[str, Int32] = {}
    drivers: tuple[str, ...] = ()


class CSIDriver(Named, frozen=True, tag=True):
    """storage/v1 CSIDriver: whether its free capacity is to be looked at, and whether its volumes
    keep pods off nodes that lack it.
    """

    storage_capacity: bool = False
    required: bool = False  # preventPodSchedulingIfMissing


class CSIStorageCapacity(Namespaced, frozen=True, tag=True):
    """storage/v1 CSIStorageCapacity: bytes free of a class where `topology` matches the node's
    labels.
    """

    storage_class: str = ""
    capacity: Amount | None = None
    maximum: Amount | None = None
    topology: LabelSelector | None = None


class VolumeAttachment(Named, frozen=True, tag=True):
    """storage/v1 VolumeAttachment: a persistent volume that is, or is to be, attached to a node."""

    node: str = ""
    volume: str = ""
    attacher: str = ""  # the CSI driver


class PriorityClass(Named, frozen=True):
    """scheduling/v1 PriorityClass. `preempts`: False for preemptionPolicy Never. `default`: of pods
    that name none.

    It is no part of `AnyObject`: older peers know none but these.
    """

    value: Int32 = 0
    preempts: bool = True
    default: bool = False


class RuntimeClass(Named, frozen=True):
    """node.k8s.io/v1 RuntimeClass, of which peers are told the name alone."""


class DaemonSet(Namespaced, frozen=True):
    """apps/v1 DaemonSet: which pods it means. It is no part of `AnyObject` either: no agent tells
    of it.
    """

    selector: LabelSelector | None = None


class PodDisruptionBudget(Namespaced, frozen=True, tag=True):
    """policy/v1 PodDisruptionBudget. `allowed` is status.disruptionsAllowed; `disrupted`: pods
    counted there.

    `desired` is status.desiredHealthy, `keep` spec.minAvailable where that is a number. `always`:
    its unhealthyPodEvictionPolicy is AlwaysAllow. `shadow_of`: the cluster whose budgets an agent
    keeps with it; "" of everybody else's.
    """

    selector: LabelSelector | None = None
    allowed: Int32 = 0
    disrupted: tuple[str, ...] = ()
    desired: Int32 = 0
    keep: Int32 | None = None
    always: bool = False
    shadow_of: str = ""


def shadow_selector(name: str) -> LabelSelector:
    """What a shadow budget of this name selects: the delegates that an agent has put under it."""
    return LabelSelector({BUDGET: name})


class Service(Namespaced, frozen=True, tag=True):
    """core/v1 Service; it means the pods with all of `selector`, none if that is empty."""

    selector: dict[str, str] = {}
    copied: bool = False  # it is made here for pods of another cluster

    @property
    def is_own(self) -> bool:
        """Whether its cluster alone has it: every one has its API server's."""
        return self.key != "default/kubernetes" and not self.copied


class ReplicaSet(Namespaced, frozen=True, tag=True):
    """apps/v1 ReplicaSet: which pods it means."""

    selector: LabelSelector | None = None


class StatefulSet(Namespaced, frozen=True, tag=True):
    """apps/v1 StatefulSet: which pods it means."""

    selector: LabelSelector | None = None


class ReplicationController(Namespaced, frozen=True, tag=True):
    """core/v1 ReplicationController: which pods it means."""

    selector: LabelSelector | None = None


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
AnyWatched = AnyObject | PriorityClass | RuntimeClass | DaemonSet


class ObjectRef(Record, frozen=True):
    """An object that is gone: `kind` is the record's name above."""

    kind: str
    key: str
