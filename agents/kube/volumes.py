"""Volumes of the API that have a say in where a pod may run -> model volumes."""

from collections.abc import Callable

from agents.kube import wire_pods
from shared.model.pod import AZURE_DISK, CLAIM, EBS_VOLUME, GCE_DISK, ISCSI, RBD, Volume

MAX_MONITORS = 64
_DISKS: tuple[
    tuple[
        str, Callable[[wire_pods.Volume], wire_pods.Disk | None], Callable[[wire_pods.Disk], str]
    ],
    ...,
] = (
    (GCE_DISK, lambda volume: volume.gce_persistent_disk, lambda disk: disk.pd_name),
    (EBS_VOLUME, lambda volume: volume.aws_elastic_block_store, lambda disk: disk.volume_id),
    (AZURE_DISK, lambda volume: volume.azure_disk, lambda disk: disk.disk_uri),
    (ISCSI, lambda volume: volume.iscsi, lambda disk: disk.iqn),
)


def volumes_of(spec: wire_pods.PodSpec, pod_name: str) -> tuple[Volume, ...]:
    """Claims, those of generic ephemeral volumes (named POD-VOLUME), and inline disks, in order."""
    return tuple(
        found for volume in spec.volumes or () if (found := _volume(volume, pod_name)) is not None
    )


def _volume(volume: wire_pods.Volume, pod_name: str) -> Volume | None:
    claim = volume.persistent_volume_claim
    if claim is not None:
        return Volume(CLAIM, claim.claim_name, bool(claim.read_only))
    if volume.ephemeral is not None:
        return Volume(CLAIM, f"{pod_name}-{volume.name}", ephemeral=True)
    if volume.rbd is not None:
        rbd = volume.rbd
        monitors = tuple((rbd.monitors or ())[:MAX_MONITORS])
        return Volume(
            RBD, f"{rbd.pool or 'rbd'}/{rbd.image}", bool(rbd.read_only), monitors=monitors
        )
    return _disk(volume)


def _disk(volume: wire_pods.Volume) -> Volume | None:
    for kind, source, name in _DISKS:
        disk = source(volume)
        if disk is not None:
            return Volume(kind, name(disk), bool(disk.read_only))
    return None
