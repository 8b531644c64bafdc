"""What clusters have refused, and until when each is passed over for it: 30 s, doubling to 15 min while it goes on.

Kept per template (the pods of one controller), since what one replica is refused for holds for the others; of a pod
without a controller for itself. Time ends a refusal, and so does a change of the pod's namespace in that cluster. A
refusal is forgotten when the cluster has not refused again for as long as the longest pause. Nothing outlives the
process: a restarted dispatcher asks each cluster once more.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from dispatcher.model.messages import OF_CLUSTER, OF_NODE, OF_POD, Outcome
from dispatcher.model.pod import Pod
from dispatcher.model.refusal import ALL_OTHERS, Refusal
from dispatcher.scheduling.delegation.flights import Flight, Stage
from dispatcher.scheduling.fleet.occupants import PodId

# What a refusal is about where its agent does not say it.
_UNSAID: dict[Stage, str] = {Stage.BIND: OF_NODE, Stage.CLAIM: OF_POD, Stage.CREATE: OF_CLUSTER}
_REVISION = "controller-revision-hash"  # a StatefulSet or DaemonSet keeps its UID when its template changes

_Template = tuple[str, ...]


@dataclass(slots=True)
class _Kept:
    refusal: Refusal
    namespace: str
    rounds: int = 1
    pods: set[PodId] = field(default_factory=set)  # that were queued with it


class Refusals:
    """Pauses in seconds: `first_s`, doubling to `longest_s`. Whatever is about a node alone is not kept."""

    def __init__(self, first_s: float = 30.0, longest_s: float = 900.0) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._kept: dict[_Template, dict[str, _Kept]] = {}
        self._ends: list[tuple[float, _Template, str]] = []  # when to look at what is kept

    def __bool__(self) -> bool:
        return bool(self._kept)

    def note(self, pod_id: PodId, pod: Pod, flight: Flight, outcome: Outcome, now: float) -> None:
        """A cluster has answered REFUSED. What comes in while it is passed over already makes no longer pause."""
        scope = outcome.scope or _UNSAID.get(flight.stage, OF_NODE)
        if scope not in (OF_CLUSTER, OF_POD):
            return
        cluster = ALL_OTHERS if scope == OF_POD else flight.cluster
        template = _template(pod_id, pod)
        known = self._kept.setdefault(template, {}).get(cluster)
        if known is not None and now < known.refusal.until:
            return
        rounds = known.rounds + 1 if known is not None else 1
        pause = min(self._first_s * 2.0 ** min(rounds - 1, 30), self._longest_s)
        refusal = Refusal(cluster, outcome.message or outcome.verdict, now, now + pause)
        self._kept[template][cluster] = _Kept(refusal, pod.namespace, rounds)
        heapq.heappush(self._ends, (refusal.until, template, cluster))

    def about(self, pod_id: PodId, pod: Pod, now: float) -> tuple[Refusal, ...]:
        """The refusals that hold for a pod now, by cluster; it is told by `ended` when one of them ends."""
        if not self._kept:
            return ()
        found = list(self._holding(pod_id, pod, now))
        for kept in found:
            kept.pods.add(pod_id)
        return tuple([kept.refusal for kept in found])

    def known(self, pod_id: PodId, pod: Pod, now: float) -> list[Refusal]:
        """The same for somebody who only looks."""
        return [kept.refusal for kept in self._holding(pod_id, pod, now)]

    def _holding(self, pod_id: PodId, pod: Pod, now: float) -> Iterator[_Kept]:
        kept = self._kept.get(_template(pod_id, pod), {})
        return (kept[cluster] for cluster in sorted(kept) if now < kept[cluster].refusal.until)

    def ended(self, now: float) -> list[PodId]:
        """Pods for which a refusal has ended since the last call."""
        pods: set[PodId] = set()
        while self._ends and self._ends[0][0] <= now:
            _, template, cluster = heapq.heappop(self._ends)
            kept = self._kept.get(template, {}).get(cluster)
            if kept is None or kept.refusal.until > now:
                continue  # forgotten meanwhile, or refused anew
            pods |= kept.pods
            kept.pods = set()
            last = kept.refusal.until + self._longest_s
            if last > now:
                heapq.heappush(self._ends, (last, template, cluster))
            else:
                self._forget(template, cluster)
        return sorted(pods)

    def namespace_changed(self, cluster: str, namespace: str) -> list[PodId]:
        """Forget what a cluster has refused of pods of a namespace that changed there; the pods it held for."""
        pods: set[PodId] = set()
        for template, kept in list(self._kept.items()):
            found = kept.get(cluster)
            if found is not None and found.namespace == namespace:
                pods |= found.pods
                self._forget(template, cluster)
        return sorted(pods)

    def _forget(self, template: _Template, cluster: str) -> None:
        del self._kept[template][cluster]
        if not self._kept[template]:
            del self._kept[template]


def _template(pod_id: PodId, pod: Pod) -> _Template:
    return (pod_id[0], pod.owner, pod.labels.get(_REVISION, "")) if pod.owner else pod_id
