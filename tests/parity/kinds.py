"""The kinds of objects that have a say in placement: where the API serves them, in the order to create them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """The path of a collection; {} stands for the namespace."""

    path: str

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in a namespace."""
        return "{}" in self.path


KINDS = {
    "Namespace": Kind("/api/v1/namespaces"),
    "PriorityClass": Kind("/apis/scheduling.k8s.io/v1/priorityclasses"),
    "StorageClass": Kind("/apis/storage.k8s.io/v1/storageclasses"),
    "CSIDriver": Kind("/apis/storage.k8s.io/v1/csidrivers"),
    "PersistentVolumeClaim": Kind("/api/v1/namespaces/{}/persistentvolumeclaims"),
    "PersistentVolume": Kind("/api/v1/persistentvolumes"),
    "CSINode": Kind("/apis/storage.k8s.io/v1/csinodes"),
    "CSIStorageCapacity": Kind("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities"),
    "VolumeAttachment": Kind("/apis/storage.k8s.io/v1/volumeattachments"),
    "PodDisruptionBudget": Kind("/apis/policy/v1/namespaces/{}/poddisruptionbudgets"),
    "Node": Kind("/api/v1/nodes"),
    "Pod": Kind("/api/v1/namespaces/{}/pods"),
}
