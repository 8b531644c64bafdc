"""Spread constraints for pods that have none of their own, as a profile writes them or as Kubernetes has them."""

from collections.abc import Mapping

from dispatcher.model import names
from dispatcher.model.labels import LabelSelector
from dispatcher.model.pod import Pod, SpreadConstraint
from dispatcher.scheduling.framework.plugin_args import shown

SYSTEM, LIST = "System", "List"
# kube-scheduler's own defaults, in its order.
SYSTEM_DEFAULTS = (SpreadConstraint(names.HOSTNAME, 3, hard=False), SpreadConstraint(names.ZONE, 5, hard=False))
# Kinds of owners whose pods kube-scheduler tells by their selector.
_OWNERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
# Labels that differ from replica to replica.
_REPLICA = frozenset(("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"))


def constraints(raw: object) -> tuple[SpreadConstraint, ...]:
    """[{key: zone, max_skew: 1, hard: false}, ...]."""
    if not isinstance(raw, list | tuple):
        raise ValueError(f"must be a list of {{key, max_skew, hard}}, not {shown(raw)}")
    return tuple(_constraint(item) for item in raw)


def _constraint(raw: object) -> SpreadConstraint:
    if not isinstance(raw, Mapping) or not set(raw) <= {"key", "max_skew", "hard"}:
        raise ValueError(f"each must hold key, max_skew, hard, not {shown(raw)}")
    key, skew, hard = raw.get("key"), raw.get("max_skew", 1), raw.get("hard", False)
    if not isinstance(key, str) or not key:
        raise ValueError(f"key must be a level (zone, cluster, ...) or a node label, not {shown(key)}")
    if isinstance(skew, bool) or not isinstance(skew, int) or not 1 <= skew <= 1_000_000:
        raise ValueError(f"max_skew of {key} must be a whole number from 1, not {shown(skew)}")
    if not isinstance(hard, bool):
        raise ValueError(f"hard of {key} must be true or false, not {shown(hard)}")
    return SpreadConstraint(key, skew, hard)


def system_defaults(pod: Pod) -> tuple[SpreadConstraint, ...]:
    """kube-scheduler's defaults for a pod of a ReplicaSet, ReplicationController or StatefulSet; none for others.

    It counts the pods that the owner's selector matches. Owners are not read, so those are counted that have all labels
    of the pod, but the ones that tell replicas apart.
    """
    labels = {key: value for key, value in pod.labels.items() if key not in _REPLICA}
    if not labels or pod.owner.partition("/")[0] not in _OWNERS:
        return ()
    selector = LabelSelector(labels)
    return tuple(SpreadConstraint(one.key, one.max_skew, one.hard, selector) for one in SYSTEM_DEFAULTS)
