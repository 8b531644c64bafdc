"""Which pods of tenants may be evicted now to give back what these have borrowed."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np

from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import GroupId, whole_group_id
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.quota import Charge, QuotaLedger
from dispatcher.scheduling.rules.budgets import Budgets, Left
from dispatcher.scheduling.rules.eligibility import (
    ClusterChoiceError,
    allowed_clusters,
    clusters_key,
)
from dispatcher.scheduling.tenants.reclaim import (
    MOST_COMPARED,
    Candidate,
    goes_first,
    min_runtime_of,
)
from shared.messages.pod_cache import PodCache
from shared.model.pod import PodId

LONGEST_S = 900.0  # that quota is kept for a pod whose victims do not leave
_SPARED_S = 60.0  # so long who was not evicted is not asked again
_MOST_KEPT = 1024  # pods that were not evicted, or that leave
_AT_ONCE = 2000  # charges in a piece


@dataclass(slots=True)
class _Look:
    """What a look has found: pods that may go by themselves, of groups that go as a whole, groups
    some of whose pods have to stay, or until when each has to run, and pods that will have left soon.
    """

    now: float
    alone: list[Candidate] = field(default_factory=list)
    grouped: list[Candidate] = field(default_factory=list)
    staying: set[GroupId | None] = field(default_factory=set)
    young_until: dict[GroupId, float] = field(default_factory=dict)
    leaving: list[PodId] = field(default_factory=list)

    @property
    def whole(self) -> list[Candidate]:
        """Of the groups that may go, which are all there. A group has run for as long as its first
        member.
        """
        staying = self.staying | {
            group for group, until in self.young_until.items() if self.now < until
        }
        return [one for one in self.grouped if one.group not in staying]


class Borrowers:
    """Looks at pods that are charged in `ledger`."""

    def __init__(self, state: CoreState, evictions: Evictions, ledger: QuotaLedger) -> None:
        self._state = state
        self._evictions = evictions
        self._ledger = ledger
        self._view = view_of(state.fleet)
        self._budgets = Budgets(self._view.objects)  # as they are in this look
        self._spared: PodCache[PodId, float] = PodCache(_MOST_KEPT)  # until when
        # charged pods that are on their way out, whoever deleted them, and since when
        self.leaving: Mapping[PodId, float] = {}

    def look(self, now: float) -> list[Candidate]:
        """All that may go now: of a group that goes as a whole all, or none."""
        self._budgets = Budgets(self._view.objects)
        look = _Look(now)
        for pod_id, charge in self._ledger.charges():
            self._look_at(pod_id, charge, look)
        self.leaving = {one: self.leaving.get(one, now) for one in look.leaving[:_MOST_KEPT]}
        return look.alone + look.whole

    def soonest(
        self, tenant: str, resources: Sequence[str], now: float
    ) -> Iterator[dict[str, list[Candidate]]]:
        """Of one tenant, for each resource those with some of it: of pods that go by themselves the
        least important, as many as are compared, that budgets let go now. In pieces: the last one
        has all. While the tenants stay as they are.
        """
        look = _Look(now)
        first: dict[str, list[Candidate]] = {name: [] for name in resources}
        for some in self._ledger.charges_of(tenant, _AT_ONCE):
            self._budgets = Budgets(self._view.objects)
            for pod_id, charge in some:
                self._look_at(pod_id, charge, look)
            alone = [one for one in look.alone if self._take(one.pod_id, {})]
            look.alone.clear()
            for name, known in first.items():
                more = (one for one in alone if one.amounts.get(name, 0) > 0)
                first[name] = nsmallest(MOST_COMPARED, (*known, *more), goes_first)
            yield {}
        yield {name: self.within_budgets(known + look.whole, {}) for name, known in first.items()}

    def _look_at(self, pod_id: PodId, charge: Charge, look: _Look) -> None:
        occupant = self._state.fleet.occupant(pod_id)
        if occupant is None or occupant.row is None:
            return
        pod = occupant.pod_info.pod
        group = whole_group_id(occupant.pod_info)
        target = self._evictions.target_of(occupant)
        if target is not None and target.terminating:
            if target.ends_in_s <= LONGEST_S:
                look.leaving.append(pod_id)
            return
        if target is None or not self._may_go(occupant, look.now):
            look.staying.add(group)
            return
        until = 0.0
        if pod.started:
            until = pod.started + min_runtime_of(self._ledger.tree.nodes[charge.tenant])
        if group is None and look.now < until:
            return
        if group is not None and until:
            look.young_until[group] = min(until, look.young_until.get(group, until))
        found = look.alone if group is None else look.grouped
        found.append(
            Candidate(
                pod_id,
                charge.tenant,
                pod.priority,
                pod.started,
                charge.amounts,
                group,
                occupant.row,
            )
        )

    def spare(self, pod_id: PodId, now: float) -> None:
        """It was not evicted: others are asked meanwhile."""
        self._spared.put(pod_id, now + _SPARED_S)

    def _may_go(self, occupant: Occupant, now: float) -> bool:
        spared = self._spared.get(occupant.pod_id)
        return (
            not occupant.assumed
            and (spared is None or spared <= now)
            and self._evictions.may_evict(occupant, "")
        )

    def in_reach(
        self, members: Sequence[QueuedPod], candidates: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """Those at home and in clusters that the pods allow: for others their own cluster lets
        nobody be evicted. Of a group that goes as a whole all, or none.
        """
        view = self._view
        kinds = {clusters_key(one.pod_info): one.pod_info for one in members}
        try:
            allowed = [allowed_clusters(one, view) for one in kinds.values()]
        except ClusterChoiceError:  # the clusters of the fleet have changed meanwhile
            return ()
        bounds = [one for one in allowed if one is not None]
        if not bounds:
            return candidates
        home = members[0].pod_id[0]
        at_home = [info.name == home for info in view.clusters]
        reach = np.logical_and.reduce(bounds) | at_home
        beyond = {one.unit for one in candidates if not reach[view.nodes.cluster[one.row]]}
        return [one for one in candidates if one.unit not in beyond]

    def left_by_budgets(self, going: Iterable[PodId]) -> Left:
        """What budgets let go beside these."""
        left: Left = {}
        for pod_id in going:
            self._take(pod_id, left)
        return left

    def within_budgets(self, candidates: Sequence[Candidate], left: Left) -> list[Candidate]:
        """So many of these that budgets let go together, of what is left by them, the least important
        first; of a group that goes as a whole all, or none.
        """
        left = dict(left)
        units: dict[Hashable, list[Candidate]] = {}
        for one in sorted(candidates, key=goes_first):
            units.setdefault(one.unit, []).append(one)
        found = []
        for unit in units.values():
            taken = left if len(unit) == 1 else dict(left)
            if all(self._take(one.pod_id, taken) for one in unit):
                left = taken
                found += unit
        return found

    def _take(self, pod_id: PodId, left: Left) -> bool:
        """Whether no budget speaks against one more."""
        one = self._state.fleet.occupant(pod_id)
        if one is None:
            return True
        victim = Victim(pod_id, one.pod_info, one.cluster, one.node)
        return not self._budgets.take(victim, left)
