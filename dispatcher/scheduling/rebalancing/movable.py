"""Which pods may be moved at all: what descheduler calls evictable, and what a pod's owner may say
about it.
"""

from shared.model import names
from shared.model.pod import RUNNING, Pod

CONTROLLERS = frozenset(
    ("ReplicaSet", "StatefulSet", "ReplicationController")
)  # each makes a new pod at once
_NEVER = frozenset(
    ("DaemonSet", "Node")
)  # a pod of the first belongs to its node, one of the second is its mirror
_CRITICAL = 2_000_000_000  # priority of system-cluster-critical


def stays(pod: Pod) -> str:
    """Why a pod is not to be moved wherever it might go; "" if it may be."""
    why = keeps_place(pod)
    return why or ("" if pod.phase == RUNNING and not pod.terminating else "it does not run")


def keeps_place(pod: Pod) -> str:
    """Why a pod is not to be moved, whether it runs or not; "" if it may be.

    The annotation `global-dispatcher.io/rebalance` "false" keeps it where it is; "true" lets a pod
    of any other controller go, a Job's or a custom one's.
    """
    said = pod.annotations.get(names.REBALANCE, "")
    kind = pod.owner.partition("/")[0]
    if said not in ("", "true"):
        return f"its annotation {names.REBALANCE} is {said[:40]!r}"
    if not kind:
        return "no controller would replace it"
    if kind in _NEVER or (kind not in CONTROLLERS and said != "true"):
        return f"it is of a {kind}"
    if pod.group is not None:
        return f"it is of group {pod.group.name}, whose other pods would wait for it"
    if pod.priority >= _CRITICAL:
        return "it is critical to the system"
    return ""
