"""Controllers of this cluster that would take a delegate for a pod of their own.

A ReplicaSet, ReplicationController or DaemonSet adopts each pod that its selector means and that
has no controller. A delegate has none here: it would be counted, and what is too many deleted, of
either cluster's pods.
"""

from agents.executor.context.local import Local
from shared.model.names import STAY
from shared.model.objects import DaemonSet, ReplicaSet, ReplicationController
from shared.model.pod import Pod

MOST_CLAUSES = 2048  # of one namespace: some 2 ms for each pod


def adopter(pod: Pod, local: Local) -> str:
    """Which one would adopt this delegate, in words; '' if none would, as far as the view shows."""
    left = MOST_CLAUSES
    for one in local.view.adopters(pod.namespace):
        if one.selector is None:
            return (
                f"what {_named(one, local)} selects is not known: its spec.selector is too large "
                "or cannot be read, "
                "and it may take the pod for its own: delete it, or make it with fewer values"
            )
        left -= 1 + len(one.selector.match_labels) + len(one.selector.match_expressions)
        if left < 0:
            return (
                "the ReplicaSets, ReplicationControllers and DaemonSets of namespace "
                f'"{pod.namespace}" in cluster '
                f'"{local.cluster}" have more than {MOST_CLAUSES} clauses in spec.selector, so '
                "that who would take "
                "the pod for its own is not looked for: delete those that are not used"
            )
        if one.selector.matches(pod.labels):
            return (
                f"{_named(one, local)} selects the pod's labels (spec.selector) and would take it "
                "for its own: let a "
                "Deployment make its pods, whose hash label stays at home, or keep this pod at "
                "home with annotation "
                f'{STAY}: "true"'
            )
    return ""


def _named(one: ReplicaSet | ReplicationController | DaemonSet, local: Local) -> str:
    return f'{type(one).__name__} "{one.key}" of cluster "{local.cluster}"'
