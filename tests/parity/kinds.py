"""The kinds of objects that have a say in placement: where the API serves them, in the order to create them."""

from dataclasses import dataclass

from tests.parity.case import Object


@dataclass(frozen=True)
class Kind:
    """The path of a collection; {} stands for the namespace."""

    path: str

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in a namespace."""
        return "{}" in self.path

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return "" if self.path.startswith("/api/") else self.path.split("/")[2]

    def of(self, obj: Object) -> str:
        """The path of the collection that an object belongs to."""
        return self.path.format(obj["metadata"].get("namespace") or "default")


KINDS = {
    "Namespace": Kind("/api/v1/namespaces"),
    "PriorityClass": Kind("/apis/scheduling.k8s.io/v1/priorityclasses"),
    "RuntimeClass": Kind("/apis/node.k8s.io/v1/runtimeclasses"),
    "LimitRange": Kind("/api/v1/namespaces/{}/limitranges"),
    "Service": Kind("/api/v1/namespaces/{}/services"),
    "ReplicationController": Kind("/api/v1/namespaces/{}/replicationcontrollers"),
    "ReplicaSet": Kind("/apis/apps/v1/namespaces/{}/replicasets"),
    "StatefulSet": Kind("/apis/apps/v1/namespaces/{}/statefulsets"),
    "StorageClass": Kind("/apis/storage.k8s.io/v1/storageclasses"),
    "CSIDriver": Kind("/apis/storage.k8s.io/v1/csidrivers"),
    "PersistentVolumeClaim": Kind("/api/v1/namespaces/{}/persistentvolumeclaims"),
    "PersistentVolume": Kind("/api/v1/persistentvolumes"),
    "CSINode": Kind("/apis/storage.k8s.io/v1/csinodes"),
    "CSIStorageCapacity": Kind("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities"),
    "VolumeAttachment": Kind("/apis/storage.k8s.io/v1/volumeattachments"),
    "DeviceClass": Kind("/apis/resource.k8s.io/v1/deviceclasses"),
    "ResourceClaim": Kind("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"),
    "ResourceClaimTemplate": Kind("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"),
    "ResourceSlice": Kind("/apis/resource.k8s.io/v1/resourceslices"),
    "PodDisruptionBudget": Kind("/apis/policy/v1/namespaces/{}/poddisruptionbudgets"),
    "Node": Kind("/api/v1/nodes"),
    "Pod": Kind("/api/v1/namespaces/{}/pods"),
}


def is_known(obj: Object) -> bool:
    """Whether an object is of one of these kinds; other groups have kinds of the same name."""
    kind = KINDS.get(obj["kind"])
    group, slash, _ = str(obj.get("apiVersion") or "").rpartition("/")
    return kind is not None and kind.group == (group if slash else "")
