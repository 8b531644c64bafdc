"""How important a pod is in each cluster: as it says at home, by the PriorityClass of that name
elsewhere.
"""

from collections.abc import Callable, Hashable

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.fleet_view import ClusterInfo
from shared.messages.pod_cache import PodCache
from shared.model.crossing import priority_abroad, rows_for

_MOST = 4096  # kinds of pods, in one cluster each, of which it is remembered


class Priorities:
    """Asked for each pod that is decided, so it is remembered while the cluster tells nothing new:
    rows of policies may be many. `info`: what is known of the cluster of a name.
    """

    def __init__(self, info: Callable[[str], ClusterInfo | None]) -> None:
        self._info = info
        self._known: PodCache[Hashable, tuple[ClusterInfo, int]] = PodCache(_MOST)

    def of(self, pod_info: PodInfo, cluster: str) -> int:
        """The priority that counts against pods in `cluster`."""
        pod = pod_info.pod
        info = self._info(cluster)
        if cluster == pod_info.home or info is None:
            return pod.priority
        key = (cluster, pod_info.home, pod.namespace, pod.priority, pod.needs)
        known = self._known.get(key)
        if known is None or known[0] is not info:
            rows = rows_for(pod_info.home, pod.namespace, info.opens)
            known = info, priority_abroad(pod, rows, info.priority_classes)
            self._known.put(key, known)
        return known[1]
