"""Queueing hints: what happens in the fleet, and which happenings may help a pod refused for which
reason.

A plugin says it for the reasons it refuses with (`Plugin.EVENTS`); for the others the table here
holds. A plugin may look closer with `Plugin.hint`. Both only say which pods are worth a new try,
never whether it will succeed.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_

from shared.model.node import Node
from shared.model.pod import Pod
from shared.model.reasons import Reason


class WakeEvent(enum.Flag):
    """What happened that may help a pod that found no place."""

    NODE_ADDED = enum.auto()
    NODE_CHANGED = enum.auto()
    POD_REMOVED = enum.auto()
    READINGS = enum.auto()
    QUOTA_FREED = enum.auto()
    CLUSTER_CHANGED = enum.auto()
    POD_PLACED = enum.auto()
    NAMESPACE = enum.auto()
    CLAIM = enum.auto()  # a PersistentVolumeClaim came, changed or went
    VOLUME = enum.auto()  # a PersistentVolume
    STORAGE_CLASS = enum.auto()
    CSI = enum.auto()  # a CSINode, CSIDriver, CSIStorageCapacity or VolumeAttachment
    BUDGET = enum.auto()  # a PodDisruptionBudget
    POD_ADDED = enum.auto()  # another pod came into the queue (for gangs)
    COOLED = enum.auto()  # a node is hot no more by some rule
    NODE_REMOVED = enum.auto()
    SERVICE = enum.auto()  # a Service came, changed or went


NODES = WakeEvent.NODE_ADDED | WakeEvent.NODE_CHANGED | WakeEvent.CLUSTER_CHANGED
NEVER = WakeEvent(0)
_STORAGE = WakeEvent.CLAIM | WakeEvent.VOLUME | WakeEvent.STORAGE_CLASS | WakeEvent.CSI

# The record of model.objects -> what its coming, changing or going is called.
OBJECT_EVENTS: dict[str, WakeEvent] = {
    "Namespace": WakeEvent.NAMESPACE,
    "PersistentVolumeClaim": WakeEvent.CLAIM,
    "PersistentVolume": WakeEvent.VOLUME,
    "StorageClass": WakeEvent.STORAGE_CLASS,
    "CSINode": WakeEvent.CSI,
    "CSIDriver": WakeEvent.CSI,
    "CSIStorageCapacity": WakeEvent.CSI,
    "VolumeAttachment": WakeEvent.CSI,
    "PodDisruptionBudget": WakeEvent.BUDGET,
    "Service": WakeEvent.SERVICE,
    # These have a say in soft constraints alone: no pod is refused for them.
    "ReplicaSet": NEVER,
    "StatefulSet": NEVER,
    "ReplicationController": NEVER,
}


# What of a pod that has a node others may wait for to change: whom affinity and spread mean, room,
# quota.
_CHANGED = (
    (attrgetter("labels", "labels_cut"), WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED),
    (attrgetter("terminating"), WakeEvent.POD_REMOVED),
    (attrgetter("requests"), WakeEvent.POD_REMOVED | WakeEvent.QUOTA_FREED),
)


def placed_pod_changed(before: Pod, after: Pod) -> WakeEvent:
    """What the change of a pod that has a node is called; NEVER for one that helps nobody."""
    if not before.node or not after.node:
        return NEVER
    return reduce(or_, (told for field, told in _CHANGED if field(before) != field(after)), NEVER)


@dataclass(frozen=True)
class ClusterEvent:
    """One event with what changed: nodes, pods or objects, `before` None for a new one, `after`
    None for one gone.

    Both None: many things at once, or nothing that could be named.
    """

    kind: WakeEvent
    cluster: str = ""
    before: object = None
    after: object = None


def node_change_helps(event: ClusterEvent, helps: Callable[[Node, Node], bool]) -> bool:
    """`helps` of a known node before and after its change; True for any other event. For
    `Plugin.hint_any`.
    """
    before = event.before
    after = event.after
    return not (isinstance(before, Node) and isinstance(after, Node)) or helps(before, after)


# Which events may help a pod refused for a reason, where no plugin says it; a pod wakes if any may.
HELPED_BY: dict[Reason, WakeEvent] = {
    Reason.INSUFFICIENT: NODES | WakeEvent.POD_REMOVED,
    Reason.TOO_MANY_PODS: NODES | WakeEvent.POD_REMOVED,
    Reason.NOT_NAMED: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    Reason.NAMED_APART: WakeEvent.VOLUME | WakeEvent.CLAIM,
    Reason.NODE_NAME: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    Reason.UNSCHEDULABLE: NODES,
    Reason.AFFINITY: NODES,
    Reason.PROXY_ASKED: NODES,
    Reason.ADDED_AFFINITY: NODES,
    Reason.AFFINITY_CONFLICT: NEVER,
    Reason.TAINT: NODES,
    Reason.TAINT_ABROAD: NODES | WakeEvent.CLUSTER_CHANGED,
    Reason.HOT: NODES | WakeEvent.COOLED,
    Reason.NODE_FEATURES: NODES,
    Reason.PORTS: NODES | WakeEvent.POD_REMOVED,
    # What lets pods into a cluster, or keeps them out, makes its domains eligible, or no more.
    Reason.SPREAD: (NODES | WakeEvent.NODE_REMOVED | WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED)
    | (WakeEvent.NAMESPACE | WakeEvent.SERVICE | WakeEvent.CLUSTER_CHANGED),
    Reason.SPREAD_LABEL: NODES,
    Reason.DISK_CONFLICT: NODES | WakeEvent.POD_REMOVED,
    Reason.CLAIM_IN_USE: WakeEvent.POD_REMOVED | WakeEvent.CLAIM,
    Reason.VOLUME_LIMIT: NODES | WakeEvent.POD_REMOVED | WakeEvent.CSI | WakeEvent.CLAIM,
    Reason.CSI_DRIVER: NODES | WakeEvent.CSI,
    Reason.VOLUME_AFFINITY: NODES | _STORAGE,
    Reason.VOLUME_BINDING: NODES | _STORAGE | WakeEvent.POD_REMOVED,
    Reason.STORAGE_SPACE: NODES | _STORAGE,
    Reason.VOLUME_MISSING: _STORAGE,
    Reason.VOLUME_ZONE: NODES | _STORAGE,
    Reason.NOT_FOUND: _STORAGE,
    Reason.CLAIM_AWAITED: WakeEvent.CLAIM,
    Reason.CLAIM_LOST: WakeEvent.CLAIM,
    Reason.CLAIM_DELETED: WakeEvent.CLAIM,
    Reason.CLAIM_NOT_OWNED: WakeEvent.CLAIM,
    Reason.CLAIM_UNBOUND: _STORAGE,
    Reason.CLAIM_WITHOUT_CLASS: WakeEvent.CLAIM,
    Reason.CLAIM_WITHOUT_VOLUME: _STORAGE,
    Reason.DEVICES: NEVER,
    Reason.POD_AFFINITY: NODES | WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
    Reason.POD_ANTI_AFFINITY: NODES | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
    Reason.EXISTING_ANTI_AFFINITY: NODES | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
    # One that comes may hold the very terms, which then are none more.
    Reason.TOO_MANY_TERMS: WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED,
    Reason.LABELS_CUT: WakeEvent.POD_REMOVED,
    Reason.NOT_READY: NODES,
    Reason.CLUSTER_NOT_READY: NODES,
    Reason.CLUSTER_NOT_ALLOWED: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    Reason.DATA_ELSEWHERE: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    Reason.PROXY_TAINT: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    Reason.CLUSTER_CORDONED: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    # else time alone, or a change of the namespace there: see the core
    Reason.CLUSTER_REFUSED: WakeEvent.NODE_ADDED,
    Reason.NAMESPACE_ABSENT: WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    Reason.NAMESPACE_CLOSED: WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    Reason.CANNOT_CROSS: WakeEvent.CLUSTER_CHANGED,
    Reason.SERVICES_ABSENT: WakeEvent.SERVICE | WakeEvent.NAMESPACE | WakeEvent.CLUSTER_CHANGED,
    Reason.VOLUMES_ELSEWHERE: WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
    # who waits for pods to come says so: else each would have all refused tried
    Reason.POLICY: ~WakeEvent.POD_ADDED,
    Reason.REFUSED: NODES | WakeEvent.POD_REMOVED,
    Reason.PLUGIN_ERROR: NODES,
    Reason.QUOTA: WakeEvent.QUOTA_FREED | NODES,
    Reason.QUOTA_UNKNOWN: WakeEvent.CLUSTER_CHANGED,
    Reason.GATED: NEVER,
    Reason.INVALID: NEVER,
    Reason.NO_PROFILE: NEVER,
    Reason.PERMIT: NODES | WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED,
    Reason.UNANSWERED: NEVER,  # such a pod is not queued
    Reason.STILL_ELSEWHERE: NEVER,  # such a pod is not queued
    Reason.TOO_SLOW: NEVER,  # time alone: see the core
    Reason.PREEMPTED: NODES | WakeEvent.POD_REMOVED,
    Reason.PRE_BIND: NODES | WakeEvent.CLAIM | WakeEvent.VOLUME | WakeEvent.POD_REMOVED,
}
