"""Disks that bear one writer, and claims that bear one pod.

- An inline disk (GCE PD, EBS, iSCSI, RBD) that a pod on a node uses refuses that node, unless both
  use it read-only; an EBS volume refuses it in any case. RBD images are the same if pool, image and
  any monitor are.
- A claim of access mode ReadWriteOncePod that any pod uses refuses every node.
Source: kube-scheduler's VolumeRestrictions.
"""

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.rules.volumes import READ_WRITE_ONCE_POD, claims_of, named_claims
from shared.model.pod import EBS_VOLUME, GCE_DISK, ISCSI, RBD, Pod, Volume
from shared.model.reasons import Reason
from shared.model.wake_events import NODES, WakeEvent

DISK_CONFLICT = Reason(
    "disk_conflict",
    "node(s) had no available disk",
    remedy="Another pod on the node uses the same disk, in a way that excludes this one.",
    helped_by=NODES | WakeEvent.POD_REMOVED,
)
CLAIM_IN_USE = Reason(
    "claim_in_use",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
    remedy="The claim is ReadWriteOncePod, and another pod uses it.",
    helped_by=WakeEvent.POD_REMOVED | WakeEvent.CLAIM,
    nodes_help=False,
)

_RESTRICTED = (EBS_VOLUME, GCE_DISK, ISCSI, RBD)


class _State(NamedTuple):
    disks: tuple[Volume, ...]
    in_use: bool  # a claim that bears one pod has one


class VolumeRestrictions(Filter[_State]):
    """Refuses nodes where a disk would get a second user it does not bear."""

    name: ClassVar[str] = "VolumeRestrictions"
    REASONS = (
        DISK_CONFLICT,
        CLAIM_IN_USE,
    )
    keyed_by_template = True
    reads = ("volumes",)
    depends: ClassVar[Depends] = Depends.NODE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The inline disks, and where claims are; what these are says the fleet."""
        pod = pod_info.pod
        return (pod_info.home if any(claims_of(pod)) else "", _disks(pod)) if pod.volumes else None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The claims that bear one pod, or the one that is not there."""
        found = _claims_of_one_pod(pod_info, fleet) if pod_info.pod.volumes else None
        return found.why if isinstance(found, Refuse) else found or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """The inline disks, and whether a claim is taken; SKIP without either; NOT_FOUND for a
        claim that is not.
        """
        pod = pod_info.pod
        if not pod.volumes:
            return SKIP
        alone = _claims_of_one_pod(pod_info, fleet)
        if isinstance(alone, Refuse):
            return alone
        users = [fleet.volumes.claim_users(pod_info.home, *claim) for claim in alone]
        disks = _disks(pod)
        in_use = any(users)
        return _State(disks, in_use) if disks or in_use else SKIP

    def filter(self, state: _State, fleet: FleetView, rows: Rows) -> Codes:
        """DISK_CONFLICT where a disk is in use, else CLAIM_IN_USE everywhere if a claim is."""
        wanted = state
        refused = fleet.reasons.code(CLAIM_IN_USE) if wanted.in_use else 0
        codes = np.full(fleet.n, refused, dtype=np.uint16)
        if wanted.disks:
            conflict = np.uint16(fleet.reasons.code(DISK_CONFLICT))
            for row in fleet.volumes.rows():
                used = [volume for _, volume in fleet.volumes.on(row)]
                if any(_clash(mine, theirs) for mine in wanted.disks for theirs in used):
                    codes[row] = conflict
        return codes[rows]


def _disks(pod: Pod) -> tuple[Volume, ...]:
    return tuple([volume for volume in pod.volumes if volume.kind in _RESTRICTED])


def _claims_of_one_pod(pod_info: PodInfo, fleet: FleetView) -> tuple[tuple[str, str], ...] | Refuse:
    """(namespace, name) of the pod's claims that bear one pod; a Refuse for a claim that is not
    there.
    """
    alone = list[tuple[str, str]]()
    for claim in named_claims(pod_info, fleet):
        if isinstance(claim, Refuse):
            return claim
        if READ_WRITE_ONCE_POD in claim.access_modes:
            alone.append((claim.namespace, claim.name))
    return tuple(alone)


def _clash(one: Volume, other: Volume) -> bool:
    if one.kind != other.kind or one.name != other.name:
        return False
    if one.kind == EBS_VOLUME:
        return True
    if one.kind == RBD and not set(one.monitors) & set(other.monitors):
        return False
    return not (one.read_only and other.read_only)
