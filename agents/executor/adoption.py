"""Controllers of this cluster that would take a delegate for a pod of their own.

A ReplicaSet or ReplicationController adopts each pod that its selector means and that has no controller. A delegate has
none here: it would be counted, and what is too many deleted, of either cluster's pods.
"""

from agents.executor.local import Local
from shared.model.names import STAY
from shared.model.pod import Pod


def adopter(pod: Pod, local: Local) -> str:
    """Which one would adopt this delegate, in words; '' if none would, as far as the view shows."""
    for one in local.view.adopters(pod.namespace):
        if one.selector is not None and one.selector.matches(pod.labels):
            return (
                f'{type(one).__name__} "{one.key}" of cluster "{local.cluster}" selects the pod\'s labels '
                "(spec.selector) and would take it for its own: let a Deployment make its pods, whose hash label stays "
                f'at home, or keep this pod at home with annotation {STAY}: "true"'
            )
    return ""
