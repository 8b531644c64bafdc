"""What happens in the fleet that may help a pod which found no place (kube-scheduler: ClusterEvent)."""

import enum


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
STORAGE = WakeEvent.CLAIM | WakeEvent.VOLUME | WakeEvent.STORAGE_CLASS | WakeEvent.CSI
