"""Nominated pods: each waits for room on a node that it was promised, and holds that room
meanwhile.

A nominee takes room, ports and counts on its node like a pod that is there. Only for pods of higher
priority, and for the nominee itself, it steps aside while they are decided. (kube-scheduler's
RunFilterPluginsWithNominatedPods asks the filters with and without nominees, since affinity to a
nominee must not count: see `cycle/beside_nominees.py`.)
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from shared.model.bounds import NO_PRIORITY
from shared.model.pod import PodId


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pod and the node that it is promised; `victims` were evicted for it, and have not left
    their place yet. `reclaims`, if not empty, says whose quota these give back, wherever they are.
    """

    pod_id: PodId
    pod_info: PodInfo
    cluster: str
    node: str
    victims: frozenset[PodId] = frozenset()
    reclaims: str = ""

    @property
    def waits_for_quota(self) -> bool:
        """Whether others are still giving back quota for it: it keeps its promise until then."""
        return bool(self.reclaims) and bool(self.victims)


def nominee_id(pod_id: PodId) -> PodId:
    """Under which id the fleet holds a nominee's room; no cluster's name has a slash."""
    return f"nominated/{pod_id[0]}", pod_id[1]


def is_seat(pod_id: PodId) -> bool:
    """Whether an occupant of the fleet is a promise, not a pod."""
    return pod_id[0].startswith("nominated/")


class Nominations:
    """All nominees of one fleet, of all profiles."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._nominees: dict[PodId, Nominee] = {}
        self._awaited: dict[PodId, set[PodId]] = {}  # a victim -> for whom it was evicted
        self._at: dict[tuple[str, str], set[PodId]] = {}  # by node
        self._priority: dict[PodId, int] = {}  # of each nominee, in the cluster where it is to be
        self._priorities: dict[str, Counter[int]] = {}  # the same by cluster

    def __len__(self) -> int:
        return len(self._nominees)

    @property
    def any_placed(self) -> bool:
        """Whether any nominee is taken for a pod that is there now."""
        occupants = (self._fleet.occupant(nominee_id(pod_id)) for pod_id in self._nominees)
        return any(one is not None and one.row is not None for one in occupants)

    def of(self, pod_id: PodId) -> Nominee | None:
        """What the pod is promised."""
        return self._nominees.get(pod_id)

    def put(self, nominee: Nominee) -> None:
        """Promise, in place of an earlier promise to the same pod."""
        self.drop(nominee.pod_id)
        self._nominees[nominee.pod_id] = nominee
        for victim in nominee.victims:
            self._awaited.setdefault(victim, set()).add(nominee.pod_id)
        self._at.setdefault((nominee.cluster, nominee.node), set()).add(nominee.pod_id)
        priority = self._priority[nominee.pod_id] = self._fleet.priorities.of(
            nominee.pod_info, nominee.cluster
        )
        self._priorities.setdefault(nominee.cluster, Counter())[priority] += 1
        there = nominee.pod_info.at(nominee.cluster)
        self._fleet.place(
            nominee_id(nominee.pod_id), there, nominee.cluster, nominee.node, assumed=True
        )

    def drop(self, pod_id: PodId) -> Nominee | None:
        """Take the promise back; None if there was none."""
        nominee = self._nominees.pop(pod_id, None)
        if nominee is not None:
            self._fleet.remove(nominee_id(pod_id))
            for victim in nominee.victims:
                self._awaited[victim].discard(pod_id)
                if not self._awaited[victim]:
                    del self._awaited[victim]
            self._at[nominee.cluster, nominee.node].discard(pod_id)
            if not self._at[nominee.cluster, nominee.node]:
                del self._at[nominee.cluster, nominee.node]
            left = self._priorities[nominee.cluster]
            left -= Counter((self._priority.pop(pod_id),))  # what comes to none is dropped
            if not left:
                del self._priorities[nominee.cluster]
        return nominee

    def kept(self) -> Callable[[], None]:
        """What brings these promises back as they are now, but for the room that they hold in the
        fleet.
        """
        nominees = dict(self._nominees)
        priority = dict(self._priority)
        awaited = {victim: set(waiting) for victim, waiting in self._awaited.items()}
        at = {node: set(there) for node, there in self._at.items()}
        priorities = {cluster: Counter(there) for cluster, there in self._priorities.items()}

        def bring_back() -> None:
            self._nominees = nominees
            self._priority = priority
            self._awaited = awaited
            self._at = at
            self._priorities = priorities

        return bring_back

    def left(self, pod_id: PodId) -> None:
        """The pod has left its place: who waits for that does so no more, though the same pod may
        be placed there anew.

        One that is evicted between claim and bind keeps its id: its source was never bound, and is
        decided again.
        """
        for waiting in self._awaited.pop(pod_id, ()):
            nominee = self._nominees[waiting]
            self._nominees[waiting] = replace(nominee, victims=nominee.victims - {pod_id})

    def lower_on(self, cluster: str, node: str, pod_info: PodInfo) -> list[PodId]:
        """Nominees of a node that are less important there: what they were promised goes to this
        pod.
        """
        priority = self._fleet.priorities.of(pod_info, cluster)
        return sorted(
            one for one in self._at.get((cluster, node), ()) if self._priority[one] < priority
        )

    # --- stepping aside
    # ----------------------------------------------------------------------------------------------

    def matter_to(self, pod_id: PodId, pod_info: PodInfo) -> bool:
        """Whether any nominee steps aside for this pod."""
        return pod_id in self._nominees or bool(self._outranked(pod_info))

    def aside_for(self, pod_id: PodId, pod_info: PodInfo) -> AbstractContextManager[None]:
        """While the pod is decided: without its own nomination, and without those that are less
        important there.
        """
        if not self._nominees:
            return nullcontext()
        more = self._outranked(pod_info)
        own = self._nominees.get(pod_id)
        if not more:
            return self._without([own]) if own is not None else nullcontext()
        return self._without(
            [
                one
                for one in self._nominees.values()
                if one is own or self._priority[one.pod_id] < more.get(one.cluster, NO_PRIORITY)
            ]
        )

    def _outranked(self, pod_info: PodInfo) -> dict[str, int]:
        """Clusters with nominees that are less important there than the pod, and how important it
        is.
        """
        of = self._fleet.priorities.of
        found = (
            (cluster, of(pod_info, cluster), there) for cluster, there in self._priorities.items()
        )
        return {cluster: priority for cluster, priority, there in found if min(there) < priority}

    def without_all(self) -> AbstractContextManager[None]:
        """As if nobody were promised anything."""
        return self._without(self._nominees.values())

    def _without(self, nominees: Iterable[Nominee]) -> AbstractContextManager[None]:
        """A promise that is taken back meanwhile stays so."""
        found = (self._fleet.occupant(nominee_id(one.pod_id)) for one in nominees)
        return self._fleet.aside([one for one in found if one is not None])
