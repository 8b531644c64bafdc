"""Who holds room on which node: the pods bound to it, and the running total of what those not ended
request.
"""

from collections.abc import Mapping

from shared.model.pod import Pod
from shared.model.resources import PODS


class Occupancy:
    """Pods by node and requested totals, kept up to date by one addition a change."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._requested: dict[str, dict[str, int]] = {}

    def put(self, pod: Pod) -> None:
        """Count a pod that was not counted; one without a node holds no room."""
        if not pod.node:
            return
        self._pods.setdefault(pod.node, {})[pod.uid] = pod
        self._add(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Take back exactly what `put` of this very pod counted."""
        on_node = self._pods.get(pod.node)
        if on_node is None or on_node.pop(pod.uid, None) is None:
            return
        self._add(pod, -1)
        if not on_node:
            del self._pods[pod.node]
            self._requested.pop(pod.node, None)

    def pods(self, node: str) -> list[Pod]:
        """All pods bound to the node."""
        return list(self._pods.get(node, {}).values())

    def requested(self, node: str) -> Mapping[str, int]:
        """Sum of requests of the pods that have not ended; 'pods' counts them."""
        return self._requested.get(node, {})

    def _add(self, pod: Pod, sign: int) -> None:
        if pod.terminal:
            return
        total = self._requested.setdefault(pod.node, {})
        total[PODS] = total.get(PODS, 0) + sign
        for name, value in pod.requests.items():
            total[name] = total.get(name, 0) + sign * value
