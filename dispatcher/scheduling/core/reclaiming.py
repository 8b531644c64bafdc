"""Has quota that was lent given back for pods of the lender that wait for it.

Once a second it looks at pods that quota alone refuses, or full nodes, the most important first: who
of those that have borrowed has to go so that the pod fits (`tenants.reclaim`), and whether it has a
place then, asked of the whole fleet in a what-if. If not, or if quota is left, who on one node.
Nothing need be free on any node before. Then the quota is
kept for the pod (`QuotaLedger.hold`) and its place promised, so that nobody takes what comes free,
not who replaces the victims either; and these are evicted, within budgets. Pods that are evicted
for another one count as gone, and what is kept for that as used: no two pods reclaim the same.

It ends: each victim is ordered away once for one claimant, what is kept is given up if an eviction
is refused, if the pod finds no place all the same or is gone, or after `_LONGEST_S`; pods like it
ask again after a pause that doubles, or once their tenant has clearly less. Evictions are paced:
`timing.reclaims_per_s`, and 50 times as many at once; those in other clusters as all evictions
abroad (`preemptors`), which the pod's own cluster has to confirm first.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.queued import QUOTA, RefusedTogether, State
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.rules.budgets import Budgets, Left
from dispatcher.scheduling.tenants.reclaim import (
    Candidate,
    Claimant,
    min_runtime_of,
    policy_of,
    victims,
)
from dispatcher.scheduling.tenants.shares import NO_SHARE, FairShare
from dispatcher.scheduling.tenants.tree import TenantNode
from shared.messages.pod_cache import PodCache
from shared.model.backoff import Backoff
from shared.model.pod import PodId
from shared.model.reasons import Reason
from shared.model.tenant import NEVER
from shared.model.token_buckets import Allowance

COUNTER = "reclaims"
_LOOK_S = 1.0
_AT_ONCE_S = 50.0
_LONGEST_REST_S = 600.0
_LONGEST_S = 900.0  # that quota is kept for a pod whose victims do not leave
_PAUSE = Backoff(10.0, 600.0)
_MOST_LOOKED_AT = 16  # pods that wait, in one look
_MOST_NODES = 64  # on which there is room without some pods, and of these so many are tried
_TRIED = 4
_MOST_WORK = 50_000  # pods that may go, each looked at for each that waits, in one look
_MOST_KEPT = 1024  # kinds of pods that ask again later, and pods that were not evicted
_SPARED_S = 60.0  # so long who was not evicted is not asked again
_importance_of = attrgetter("pod_info.pod.priority")


def _kind_of(item: QueuedPod) -> Hashable:
    """What pods have in common that ask for the same."""
    return item.class_key, item.pod_info.pod.priority


class _Reclaim(NamedTuple):
    """Under way for a pod."""

    since: float
    victims: tuple[PodId, ...]


class _Rest(NamedTuple):
    """Pods of a kind ask again then, after so many tries in vain; or once the share of their
    tenant with one of them is well below what it was.
    """

    until: float
    tries: int
    share: FairShare

    def holds(self, now: float, share: FairShare) -> bool:
        """Whether they do not ask yet."""
        well_below = FairShare(self.share.endless, self.share.billionths * 9 // 10)
        return now < self.until and not share < well_below


class Reclaiming:
    """Looks and orders; `ledger`: whose tenants lend and borrow."""

    def __init__(self, state: CoreState, evictions: Evictions, ledger: QuotaLedger) -> None:
        self._state = state
        self._evictions = evictions
        self._ledger = ledger
        self._view = view_of(state.fleet)
        self._under_way: dict[PodId, _Reclaim] = {}
        self._again: PodCache[Hashable, _Rest] = PodCache(_MOST_KEPT)  # kinds of pods
        self._spared: PodCache[PodId, float] = PodCache(_MOST_KEPT)  # since when
        # in this look: who needs nobody to go, and so has the quota that others may not count on
        self._served: list[tuple[TenantNode, Mapping[str, int]]] = []
        self._looked_at = float("-inf")
        per_s = state.timing.reclaims_per_s
        self._pace = Allowance(_AT_ONCE_S * per_s, per_s, _LONGEST_REST_S)
        self._open_at = float("-inf")
        self._wanted: tuple[int, bool] = (-1, False)
        evictions.on_refused = self._refused

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._end(now)
        if not self._is_wanted() or now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        if now < self._open_at or not (claimants := self._claimants(now)):
            return
        candidates = list(self._candidates(now))
        try:
            for item in claimants[: max(1, _MOST_WORK // max(1, len(candidates)))]:
                if now < self._open_at:
                    break
                # another one of its class may have asked in vain just now
                if not self._rests(item, now):
                    self._reclaim(item, candidates, now)
        finally:
            for node, asked in self._served:
                node.charge(asked, -1)
            self._served.clear()

    def _is_wanted(self) -> bool:
        """Whether any tenant reclaims at all."""
        generation, wanted = self._wanted
        if generation != self._ledger.generation:
            wanted = any(policy_of(one)[0] != NEVER for one in self._ledger.tree.nodes.values())
            self._wanted = (self._ledger.generation, wanted)
        return wanted

    # --- for whom
    # ----------------------------------------------------------------------------------------------

    def _claimants(self, now: float) -> list[QueuedPod]:
        """Pods that quota alone refuses, or full nodes, the most important first; of each line the
        first few.
        """
        found = [
            item
            for line, reasons in self._state.queue.refused()
            if reasons == QUOTA or self._may_be_lent(line, reasons)
            if not self._rests(next(iter(line.values())), now)
            for item in islice(line.values(), _MOST_LOOKED_AT)
            if item.state is State.UNSCHEDULABLE and self._asks(item)
        ]
        found.sort(key=lambda one: (-_importance_of(one), one.queued_at, one.pod_id))
        return found[:_MOST_LOOKED_AT]

    def _may_be_lent(self, line: RefusedTogether, reasons: frozenset[Reason]) -> bool:
        """Whether nodes are full, some of whose pods use what their tenants have borrowed."""
        first = next(iter(line.values())).pod_info
        tenant = self._ledger.tenant_of(first.home, first.pod.namespace)
        if tenant is None or not any(one.resolvable for one in reasons):
            return False
        root = self._ledger.tree.nodes[tenant].root
        return any(one.share() > NO_SHARE for one in root.subtree())

    def _rests(self, item: QueuedPod, now: float) -> bool:
        """Whether pods of its kind have asked in vain, and nothing is better for them since."""
        rest = self._again.get(_kind_of(item))
        return rest is not None and rest.holds(now, self._share_with(item))

    def _share_with(self, item: QueuedPod) -> FairShare:
        """Of the pod's tenant, if it had its place."""
        first = item.pod_info
        tenant = self._ledger.tenant_of(first.home, first.pod.namespace)
        if tenant is None:
            return NO_SHARE
        return self._ledger.tree.nodes[tenant].share(charge_of(first.pod))

    def _asks(self, item: QueuedPod) -> bool:
        pod_info = item.pod_info
        tenant = self._ledger.tenant_of(pod_info.home, pod_info.pod.namespace)
        return (
            tenant is not None
            and item.pod_id not in self._under_way
            and pod_info.pod.preempts
            and not pod_info.sizes
            and policy_of(self._ledger.tree.nodes[tenant])[0] != NEVER
            and self._state.profiles.nominations.of(item.pod_id) is None
        )

    # --- from whom
    # ----------------------------------------------------------------------------------------------

    def _reclaim(self, item: QueuedPod, candidates: Sequence[Candidate], now: float) -> None:
        state = self._state
        ledger = self._ledger
        pod_id = item.pod_id
        pod_info = item.pod_info
        tenant = ledger.tenant_of(pod_info.home, pod_info.pod.namespace)
        if tenant is None:
            return
        asked = charge_of(pod_info.pod)
        ledger.node(tenant, state.fleet.allocatable_total())  # limits as they are now
        going = [one for known in self._under_way.values() for one in known.victims]
        claimant = Claimant(tenant, pod_info.pod.priority, asked)
        taken, place = self._found(pod_id, pod_info, claimant, candidates, going)
        if place is None:
            self._wait(item, now)
            return
        if not taken:  # quota has come free since it was refused, or does once all have left
            node = ledger.tree.nodes[tenant]
            node.charge(asked)
            self._served.append((node, asked))
            if not going:
                state.queue.activate(pod_id, now)
            return
        why = self._why(tenant, taken, pod_info)
        gone = frozenset(one.pod_id for one in taken)
        ledger.hold(pod_id, tenant, asked)
        nominee = Nominee(pod_id, pod_info, place.cluster, place.node, gone, why)
        state.profiles.nominations.put(nominee)
        self._under_way[pod_id] = _Reclaim(now, tuple(gone))
        self._open_at = now + self._pace.take(now, len(taken))
        self._again.pop(_kind_of(item))
        state.counters[COUNTER, tenant] += len(taken)
        self._order(taken, pod_id, now)

    def _found(
        self,
        pod_id: PodId,
        pod_info: PodInfo,
        claimant: Claimant,
        candidates: Sequence[Candidate],
        going: Sequence[PodId],
    ) -> tuple[Sequence[Candidate], Decision | None]:
        """Who has to go beside those that are going already, and where the pod goes then."""
        ledger = self._ledger
        out = [(one, ledger.release(one)) for one in going]
        gone = set(going)
        left = [one for one in candidates if one.pod_id not in gone]
        try:
            by_quota = victims(ledger.tree, claimant, left)
            on_nodes = [] if by_quota is None else self._on_nodes(claimant, left, by_quota)
        finally:
            for one, charge in reversed(out):
                ledger.put_back(one, charge)
        for taken in (by_quota or [], *on_nodes):
            place = self._place_without(pod_id, pod_info, [*going, *(one.pod_id for one in taken)])
            if place is not None:
                return taken, place
        return (), None

    def _on_nodes(
        self, claimant: Claimant, candidates: Sequence[Candidate], others: Sequence[Candidate]
    ) -> list[list[Candidate]]:
        """Who has to go on some nodes so that these have room as well, the fewest first; `others`
        have to go for quota, if these do not do.
        """
        by_row: dict[int, list[Candidate]] = {}
        for one in candidates:
            by_row.setdefault(one.row, []).append(one)
        found = []
        for row, some in by_row.items():
            room = self._missing_on(row, claimant.asked)
            total = {name: sum(one.amounts.get(name, 0) for one in some) for name in room}
            if not room or any(total[name] < amount for name, amount in room.items()):
                continue
            taken = victims(self._ledger.tree, claimant, some, room)
            if taken:
                found.append(taken)
            if len(found) >= _MOST_NODES:
                break
        return sorted(found, key=lambda some: (len(some), max(one.priority for one in some)))[
            :_TRIED
        ]

    def _missing_on(self, row: int, asked: Mapping[str, int]) -> dict[str, int]:
        """How much is missing on a node, of each resource of which any is."""
        fleet = self._state.fleet
        columns = {name: fleet.axis.column(name) for name in asked}
        missing = {
            name: asked[name] - int(fleet.allocatable[at, row] - fleet.requested[at, row])
            for name, at in columns.items()
            if at is not None
        }
        return {name: amount for name, amount in missing.items() if amount > 0}

    def _candidates(self, now: float) -> Iterator[Candidate]:
        """Pods of tenants that may be evicted now."""
        ledger = self._ledger
        budgets = Budgets(self._view.objects)
        for pod_id, charge in ledger.charges():
            occupant = self._state.fleet.occupant(pod_id)
            if occupant is None or occupant.row is None or occupant.assumed:
                continue
            pod = occupant.pod_info.pod
            target = self._evictions.target_of(occupant)
            left_s = pod.started + min_runtime_of(ledger.tree.nodes[charge.tenant]) - now
            since = self._spared.get(pod_id)
            spared = since is not None and now - since < _SPARED_S
            victim = Victim(pod_id, occupant.pod_info, occupant.cluster, occupant.node)
            if (
                spared
                or target is None
                or target.terminating
                or (pod.started and left_s > 0)
                or not self._evictions.may_evict(occupant, "")
                or budgets.take(victim, Left())
            ):
                continue
            group = pod.group
            whole = group is not None and group.whole
            key = (pod_id[0], pod.namespace, group.kind, group.name) if whole and group else None
            yield Candidate(
                pod_id, charge.tenant, pod.priority, pod.started, charge.amounts, key, occupant.row
            )

    def _place_without(
        self, pod_id: PodId, pod_info: PodInfo, gone: Sequence[PodId]
    ) -> Decision | None:
        """Where the pod goes once these are gone."""
        with self._state.profiles.what_if() as world:
            for one in gone:
                if self._state.fleet.occupant(one) is not None:
                    world.take_away(one)
            result = world.schedule([(pod_id, pod_info)])[0]
        return result if isinstance(result, Decision) else None

    def _why(self, tenant: str, taken: Sequence[Candidate], pod_info: PodInfo) -> str:
        whose = ", ".join(sorted({one.tenant for one in taken}))
        return (
            f"of tenant {whose}, for pod {pod_info.pod.key} of cluster {pod_info.home} and tenant "
            f"{tenant}"
        )

    def _order(self, taken: Sequence[Candidate], pod_id: PodId, now: float) -> None:
        found = []
        for one in taken:
            occupant = self._state.fleet.occupant(one.pod_id)
            if occupant is not None:
                found.append(Victim(one.pod_id, occupant.pod_info, occupant.cluster, occupant.node))
        found.sort(key=attrgetter("cluster", "pod_id"))
        for _, some in groupby(found, key=attrgetter("cluster")):
            self._evictions.order(tuple(some), pod_id, now)

    # --- what becomes of it
    # ----------------------------------------------------------------------------------------------

    def _end(self, now: float) -> None:
        state = self._state
        for pod_id, known in list(self._under_way.items()):
            if self._ledger.charged(pod_id) is not None:  # it has its place
                del self._under_way[pod_id]
                continue
            stands = (
                self._ledger.holds(pod_id)
                and state.profiles.nominations.of(pod_id) is not None
                and state.queue.get(pod_id) is not None
                and now - known.since < _LONGEST_S
            )
            if not stands:
                self._give_up(pod_id, now)
            elif all(state.fleet.occupant(one) is None for one in known.victims):
                state.queue.activate(pod_id, now)

    def _give_up(self, pod_id: PodId, now: float) -> None:
        """Nothing is kept for the pod any more: others may have it."""
        state = self._state
        del self._under_way[pod_id]
        state.profiles.nominations.drop(pod_id)
        if self._ledger.drop_hold(pod_id):
            state.wake_all_for_quota(now)
        item = state.queue.get(pod_id)
        if item is not None:
            self._wait(item, now)

    def _wait(self, item: QueuedPod, now: float) -> None:
        known = self._again.get(_kind_of(item))
        tries = 1 if known is None else known.tries + 1
        rest = _Rest(now + _PAUSE.after(tries), tries, self._share_with(item))
        self._again.put(_kind_of(item), rest)

    def _refused(self, pod_id: PodId, now: float) -> None:
        """The pod was not evicted: others are asked meanwhile."""
        self._spared.put(pod_id, now)
