"""A pod's CSI volumes and those of nodes: which, and of which driver. Source: kube-scheduler's
NodeVolumeLimits (CSI).

A volume that is certainly nowhere yet is counted, not named: pods that bring as many new ones are
alike.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dispatcher.scheduling.framework import FleetView, PodInfo
from dispatcher.scheduling.rules.volumes import CsiVolume, csi_volume_of_claim, csi_volume_of_disk
from shared.model.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from shared.model.pod import CLAIM, Volume


class Wanted(NamedTuple):
    """The pod's CSI volumes. `new`: how many of each driver are nowhere yet, so that it is no
    matter which these are; `known`: those that may be on some node.
    """

    new: tuple[tuple[str, int], ...] = ()
    known: frozenset[CsiVolume] = frozenset()

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.known) + sum(count for _, count in self.new)


class Attached(NamedTuple):
    """`on`: node -> what attachments say is there; `anywhere`: all of these; `most`: on one node."""

    on: Mapping[str, frozenset[CsiVolume]]
    anywhere: frozenset[CsiVolume]
    most: int


class CsiVolumes:
    """The CSI volumes behind the volumes of a cluster's pods."""

    def __init__(self, cluster: str, fleet: FleetView) -> None:
        self._claims = fleet.objects.of(cluster, PersistentVolumeClaim, "volume", "storage_class")
        self._volumes = fleet.objects.of(cluster, PersistentVolume, "driver", "handle")
        self._classes = fleet.objects.of(cluster, StorageClass)

    def behind(self, used: Iterable[tuple[str, Volume]]) -> frozenset[CsiVolume]:
        """Of (namespace, volume); what is no CSI volume, or not known, is left out."""
        found = (self._one(namespace, volume) for namespace, volume in used)
        return frozenset(one for one in found if one is not None)

    def _one(self, namespace: str, volume: Volume) -> CsiVolume | None:
        if volume.kind != CLAIM:
            return csi_volume_of_disk(volume)
        claim = self._claims.get(f"{namespace}/{volume.name}")
        if claim is None:
            return None
        made_by = self._classes.get(claim.storage_class or "")
        return csi_volume_of_claim(
            claim, self._volumes.get(claim.volume) if claim.volume else None, made_by
        )


def wanted_of(pod_info: PodInfo, fleet: FleetView) -> Wanted:
    """The CSI volumes of a pod; claims that are not known have none."""
    home = pod_info.home
    namespace = pod_info.pod.namespace
    new: dict[CsiVolume, None] = {}
    known: set[CsiVolume] = set()
    for volume in pod_info.pod.volumes:
        if volume.kind != CLAIM:
            found = csi_volume_of_disk(volume)
            known |= {found} if found is not None else set()
            continue
        claim = fleet.objects.named(home, PersistentVolumeClaim, f"{namespace}/{volume.name}")
        if claim is None:
            continue
        pv = fleet.objects.named(home, PersistentVolume, claim.volume) if claim.volume else None
        made_by = fleet.objects.named(home, StorageClass, claim.storage_class or "")
        found = csi_volume_of_claim(claim, pv, made_by)
        if found is not None and _is_new(found, claim, pv, home, fleet):
            new[found] = None
        elif found is not None:
            known.add(found)
    counts = Counter(driver for driver, _ in new.keys() - known)
    return Wanted(tuple(sorted(counts.items())), frozenset(known))


def _is_new(
    found: CsiVolume,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume | None,
    home: str,
    fleet: FleetView,
) -> bool:
    """Whether a claim's CSI volume is certainly on no node: no pod uses the claim, and no inline
    disk, other claim, other PersistentVolume or attachment stands for the same volume.
    """
    if fleet.volumes.names(home, claim.namespace, claim.name) or fleet.volumes.has_disk(found):
        return False
    if volume is not None and fleet.objects.alike(home, PersistentVolumeClaim, volume.name) != 1:
        return False
    same = fleet.objects.alike(home, PersistentVolume, found)
    return same == (volume is not None) and found not in attachments_of(home, fleet).anywhere


def attachments_of(home: str, fleet: FleetView) -> Attached:
    """What is attached to the nodes of a cluster, or to be."""
    return fleet.objects.derived(
        home, _attached, VolumeAttachment, (PersistentVolume, "handle", "in_tree")
    )


def _attached(
    attachments: Mapping[str, VolumeAttachment], volumes: Mapping[str, PersistentVolume]
) -> Attached:
    """In-tree volumes are not counted here."""
    there: dict[str, set[CsiVolume]] = {}
    for one in attachments.values():
        volume = volumes.get(one.volume)
        if volume is not None and one.attacher and volume.handle and not volume.in_tree:
            there.setdefault(one.node, set()).add((one.attacher, volume.handle))
    most = max(map(len, there.values()), default=0)
    return Attached(
        {node: frozenset(found) for node, found in there.items()},
        frozenset().union(*there.values()),
        most,
    )
