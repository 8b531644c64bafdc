"""What a pod's volumes are: which claim, which persistent volume, and which volume of which CSI
driver.
"""

from collections.abc import Iterator

from dispatcher.scheduling.framework import FleetView, PodInfo, Refuse, refuse
from shared.model.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from shared.model.pod import AZURE_DISK, CLAIM, EBS_VOLUME, GCE_DISK, Pod, Volume
from shared.model.reasons import Reason
from shared.model.wake_events import STORAGE, WakeEvent

NOT_FOUND = Reason(
    "not_found",
    "{} not found",
    remedy="Create the object that the pod refers to.",
    helped_by=STORAGE,
    resolvable=False,
    nodes_help=False,
)
CLAIM_AWAITED = Reason(
    "claim_awaited",
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"',
    remedy="Kubernetes makes this claim; if it lasts, look at the controller manager.",
    helped_by=WakeEvent.CLAIM,
    resolvable=False,
    nodes_help=False,
)
CLAIM_LOST = Reason(
    "claim_lost",
    "persistentvolumeclaim {}",
    remedy="The claim has lost its volume: `kubectl describe pvc`.",
    helped_by=WakeEvent.CLAIM,
    resolvable=False,
    nodes_help=False,
)
CLAIM_DELETED = Reason(
    "claim_deleted",
    'persistentvolumeclaim "{}" is being deleted',
    remedy="The claim is going. Create another one, or do not delete it while pods use it.",
    helped_by=WakeEvent.CLAIM,
    resolvable=False,
    nodes_help=False,
)
CLAIM_NOT_OWNED = Reason(
    "claim_not_owned",
    "PVC {} (pod is not owner)",
    remedy="A claim of the ephemeral volume's name is there, and is not this pod's. Delete"
    " or rename it.",
    helped_by=WakeEvent.CLAIM,
    resolvable=False,
    nodes_help=False,
)

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
LOST = "Lost"

# In-tree provisioners and what they migrate to; '' where kube-scheduler does not count migrated
# volumes.
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "",
}

CsiVolume = tuple[str, str]  # driver and handle


def claims_of(pod: Pod) -> Iterator[Volume]:
    """The pod's claims, in order."""
    return (volume for volume in pod.volumes if volume.kind == CLAIM)


def claim_key(pod: Pod, volume: Volume) -> str:
    """namespace/name of a claim of the pod."""
    return f"{pod.namespace}/{volume.name}"


def not_found(kind: str, name: str) -> Refuse:
    """kube-scheduler's words for an object that does not exist."""
    return refuse(NOT_FOUND, f'{kind} "{name}"')


def named_claims(pod_info: PodInfo, fleet: FleetView) -> Iterator[PersistentVolumeClaim | Refuse]:
    """The claims that the pod names itself, in order, up to a Refuse for one that is not there."""
    pod = pod_info.pod
    for volume in claims_of(pod):
        if not volume.ephemeral:
            key = claim_key(pod, volume)
            claim = fleet.objects.named(pod_info.home, PersistentVolumeClaim, key)
            yield claim or not_found("persistentvolumeclaim", volume.name)


def owned_by(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether an ephemeral volume's claim was made for this pod; another pod's claim of that name
    is not.
    """
    return claim.owner_uid == pod.uid


def csi_volume_of_claim(
    claim: PersistentVolumeClaim, volume: PersistentVolume | None, made_by: StorageClass | None
) -> CsiVolume | None:
    """The CSI volume behind a claim that names this volume; for one without a volume yet (None),
    the one that the claim's class will provide. None: no CSI volume.

    Source: kube-scheduler's NodeVolumeLimits.
    """
    if volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else None
    if made_by is None:
        return None
    driver = _MIGRATED.get(made_by.provisioner, made_by.provisioner)
    return (driver, f"claim {claim.key}") if driver else None


def csi_volume_of_disk(volume: Volume) -> CsiVolume | None:
    """The CSI volume that an inline disk migrates to, None where it does not."""
    if volume.kind == GCE_DISK:
        return (
            "pd.csi.storage.gke.io",
            f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{volume.name}",
        )
    if volume.kind == EBS_VOLUME:
        return "ebs.csi.aws.com", volume.name.rpartition("/")[2]
    return ("disk.csi.azure.com", volume.name) if volume.kind == AZURE_DISK else None


def find_claims(pod_info: PodInfo, fleet: FleetView) -> list[PersistentVolumeClaim] | Refuse:
    """The claims of the pod that can be worked with, each once, in order; else a Refuse in
    kube-scheduler's words.
    """
    pod = pod_info.pod
    found: dict[str, PersistentVolumeClaim] = {}
    for volume in claims_of(pod):
        claim = fleet.objects.named(pod_info.home, PersistentVolumeClaim, claim_key(pod, volume))
        refused = _unusable(pod, volume, claim)
        if refused is not None or claim is None:
            return refused or not_found("persistentvolumeclaim", volume.name)
        found[claim.key] = claim
    return list(found.values())


def _unusable(pod: Pod, volume: Volume, claim: PersistentVolumeClaim | None) -> Refuse | None:
    if claim is None:
        awaited = volume.ephemeral
        return (
            refuse(CLAIM_AWAITED, volume.name)
            if awaited
            else not_found("persistentvolumeclaim", volume.name)
        )
    if claim.phase == LOST:
        return refuse(
            CLAIM_LOST,
            f'"{claim.name}" bound to non-existent persistentvolume "{claim.volume}"',
        )
    if claim.terminating:
        return refuse(CLAIM_DELETED, claim.name)
    if volume.ephemeral and not owned_by(pod, claim):
        return refuse(CLAIM_NOT_OWNED, f"{claim.key} was not created for pod {pod.key}")
    return None
