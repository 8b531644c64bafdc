"""Which pods a pod's Services and its owner mean: kube-scheduler's DefaultSelector, for default
spread constraints.
"""

from collections.abc import Mapping

from dispatcher.scheduling.fleet.objects import ClusterObjects
from dispatcher.scheduling.framework import PodInfo
from shared.messages.pod_cache import PodCache, said
from shared.model.labels import IN, LabelSelector, Requirement
from shared.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from shared.model.pod import Pod

_OWNERS: Mapping[str, type[ReplicaSet | StatefulSet | ReplicationController]] = {
    one.__name__: one for one in (ReplicaSet, StatefulSet, ReplicationController)
}
_KINDS = (Service.__name__, *_OWNERS)
_MOST = 65_536  # pods of which it is kept
_Key = tuple[str, str, str, int]


class DefaultSelectors:
    """Worked out once for pods of one template, and forgotten when a Service or an owner changes."""

    def __init__(self, kept: ClusterObjects) -> None:
        self._kept = kept
        self._at: tuple[int, ...] = ()
        # With the labels, so that their id stays theirs.
        self._known: PodCache[_Key, tuple[dict[str, str], LabelSelector | None]] = PodCache(_MOST)

    def of(self, pod_info: PodInfo) -> LabelSelector | None:
        """All labels that Services of its cluster select the pod by, and the selector of its owner;
        None for neither.

        The owner is the ReplicaSet, StatefulSet or ReplicationController that controls it, if it is
        there.
        """
        now = tuple(self._kept.versions[kind] for kind in _KINDS)
        if now != self._at:
            self._at = now
            self._known.clear()
        pod = pod_info.pod
        key = (pod_info.home, pod.namespace, pod.owner, id(pod.labels))
        known = self._known.get(key)
        if known is None:
            known = pod.labels, self._made(pod_info.home, pod)
            self._known.put(key, known, said((key, pod.labels)))
        return known[1]

    def _made(self, cluster: str, pod: Pod) -> LabelSelector | None:
        labels: dict[str, str] = {}
        for service in self._kept.in_namespace(cluster, Service, pod.namespace).values():
            if service.selector and service.selector.items() <= pod.labels.items():
                labels |= service.selector
        owner = self._owner(cluster, pod)
        if owner is None:
            return LabelSelector(labels) if labels else None
        # Clauses, since an owner that does not mean the pod may ask for another value of a label.
        clauses = [
            Requirement(key, IN, (value,)) for key, value in sorted(owner.match_labels.items())
        ]
        return LabelSelector(labels, (*clauses, *owner.match_expressions))

    def _owner(self, cluster: str, pod: Pod) -> LabelSelector | None:
        kind, _, rest = pod.owner.partition("/")
        if kind not in _OWNERS:
            return None
        found = self._kept.of(cluster, _OWNERS[kind]).get(
            f"{pod.namespace}/{rest.partition('/')[0]}"
        )
        return found.selector if found is not None else None
