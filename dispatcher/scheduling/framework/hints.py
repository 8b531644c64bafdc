"""Queueing hints: what happens in the fleet, and which happenings may help a pod refused for which
reason.

A reason says it (`Reason.helped_by`). A plugin may look closer with `Plugin.hint`. Both only say
which pods are worth a new try, never whether it will succeed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_

from shared.model.node import Node
from shared.model.pod import Pod
from shared.model.wake_events import NEVER, WakeEvent

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
