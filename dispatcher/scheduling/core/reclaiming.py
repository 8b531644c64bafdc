"""Has quota that was lent given back for pods of the lender that wait for it.

Once a second it looks at pods that quota alone refuses, or full nodes; tenants take turns, the most
important pod of each is first: who of those that have borrowed has to go so that the pod fits
(`tenants.reclaim`), and whether it has a place then, asked of the whole fleet in a what-if. If not,
or if quota is left, who on which nodes (`full_nodes`). Nothing need be free on any node before.
Then the quota is kept for the pod (`QuotaLedger.hold`) and its place promised, so that nobody takes
what comes free, not who replaces the victims either; and these are evicted, within budgets. Pods
that are evicted for another one count as gone, and what is kept for that as used: no two pods
reclaim the same. For a pod within its tenant's own that fits once all those have left the same is
done, and nobody goes.

It ends: each victim is ordered away once for one claimant, what is kept is given up if an eviction
is refused, if the pod finds no place all the same or is gone, or after `LONGEST_S`, `_LEFT_S` once
all victims have left; pods like it ask again after a pause that doubles, or once their tenant has
clearly less, and its tenant after such a pause where it is gone. Evictions are paced:
`timing.reclaims_per_s`, and 50 times as many at once, for all and for each tenant. However many go
at once for one pod: its tenant waits for them all, as does who needs so many as well, others for
`_OTHERS_REST_S` at most. Those in other clusters are paced as all evictions abroad (`preemptors`),
which the pod's own cluster has to confirm first.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from dispatcher.scheduling.core.borrowers import LONGEST_S, Borrowers
from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.full_nodes import FullNodes
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import as_one
from dispatcher.scheduling.groups.place_group import place_group
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.queued import QUOTA, RefusedTogether, State
from dispatcher.scheduling.quota import QuotaLedger, charge_of
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.tenants.reclaim import (
    Candidate,
    Claimant,
    policy_of,
    victims,
)
from dispatcher.scheduling.tenants.shares import NO_SHARE, FairShare
from shared.messages.pod_cache import PodCache
from shared.model.backoff import Backoff
from shared.model.pod import PodId
from shared.model.reasons import Reason
from shared.model.tenant import NEVER
from shared.model.token_buckets import Allowance

COUNTER = "reclaims"
_LOOK_S = 1.0
_LINES_PER_S = 5000  # kinds of pods that wait, about 20 us each; of more a look more rarely
_AT_ONCE_S = 50.0
_LONGEST_REST_S = 600.0
_OTHERS_REST_S = 60.0
_LEFT_S = 60.0  # once they have left
_PAUSE = Backoff(10.0, 600.0)
_MOST_LOOKED_AT = 16  # pods that wait, in one look
_MOST_UNDER_WAY = 512  # of a tenant
_MOST_BACK = 16  # pods, or groups, that are tried without
_MOST_WORK = 50_000  # pods that may go, each looked at for each that waits, in one look
_WORK_PER_S = 5000  # by a tenant, in vain, in the long run: 25 us each, 1 ms a member of a group
_MOST_KEPT = 1024  # kinds of pods that ask again later
_importance_of = attrgetter("pod_info.pod.priority")


def _kind_of(item: QueuedPod) -> Hashable:
    """What pods have in common that ask for the same, and groups that start with as many."""
    pod = item.pod_info.pod
    return item.class_key, pod.priority, pod.group.min_count if pod.group else 0


@dataclass(slots=True)
class _Reclaim:
    """Under way for a pod, or for members of a group that start with it, which ask for so much
    together; `until` it is given up.
    """

    until: float
    asked: Mapping[str, int]
    victims: tuple[PodId, ...]
    members: tuple[PodId, ...]
    tenant: str
    kind: Hashable


class _Rest(NamedTuple):
    """Until when pods of a kind do not ask again, after so many tries in vain; or once the share of
    their tenant with one of them is well below what it was.
    """

    until: float
    tries: int
    share: FairShare

    def holds(self, now: float, share: FairShare) -> bool:
        """Whether they do not ask yet."""
        well_below = FairShare(self.share.endless, self.share.billionths * 9 // 10)
        return now < self.until and not share < well_below


@dataclass(slots=True)
class _Turns:
    """Of a tenant: when a pod of it was looked at last, its evictions, looks in vain (`work`), and
    since when it may have others evicted again; the same where its pods were gone (`tries` in a
    row) before they had what was taken back for them.
    """

    pace: Allowance
    work: Allowance
    looked_at: float = float("-inf")
    open_at: float = float("-inf")
    asks_at: float = float("-inf")
    tries: int = 0


class Reclaiming:
    """Looks and orders; `ledger`: whose tenants lend and borrow."""

    def __init__(self, state: CoreState, evictions: Evictions, ledger: QuotaLedger) -> None:
        self._state = state
        self._evictions = evictions
        self._ledger = ledger
        self.borrowers = Borrowers(state, evictions, ledger)
        self._under_way: dict[PodId, _Reclaim] = {}
        self._rests: PodCache[Hashable, _Rest] = PodCache(_MOST_KEPT)  # of kinds of pods
        self._tenants: dict[str, _Turns] = {}
        self._looked_at = float("-inf")
        self._look_s = _LOOK_S
        per_s = state.timing.reclaims_per_s
        self._at_once = _AT_ONCE_S * per_s
        self._pace = Allowance(self._at_once, per_s, _OTHERS_REST_S)
        self._open_at = float("-inf")
        self._large = Allowance(self._at_once, per_s, _LONGEST_REST_S)  # of more than that at once
        self._large_at = float("-inf")
        self._per_s = per_s
        self._wanted: tuple[int, bool] = (-1, False)
        evictions.on_refused = self.borrowers.spare

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._end(now)
        if not self._is_wanted() or now - self._looked_at < self._look_s:
            return
        self._looked_at = now
        for name in self._tenants.keys() - self._ledger.tree.nodes.keys():
            del self._tenants[name]
        if now < self._open_at or not (claimants := self._claimants(now)):
            return
        candidates = self.borrowers.look(now)
        for item in claimants[: max(1, _MOST_WORK // max(1, len(candidates)))]:
            if now < self._open_at:
                break
            # another one of its class may have asked in vain just now
            if not self._is_resting(item, now) and self._asks(item, now):
                self._reclaim(item, candidates, now)

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
        """Pods that quota alone refuses, or full nodes; of each line the first few. Tenants take
        turns, so that pods of one that ask in vain, however many, do not keep those of others from
        being looked at; the most important of each are first.
        """
        refused = list(self._state.queue.refused())
        self._look_s = max(_LOOK_S, len(refused) / _LINES_PER_S)
        under_way = Counter(known.tenant for known in self._under_way.values())
        found = list[QueuedPod]()
        for line, reasons in refused:
            first = next(iter(line.values()))
            theirs = under_way[self._ledger.tenant_of_pod(first.pod_info) or ""]
            if (
                (reasons == QUOTA or self._may_be_lent(line, reasons))
                and theirs < _MOST_UNDER_WAY
                and not self._is_resting(first, now)
            ):
                found += [
                    item
                    for item in islice(line.values(), _MOST_LOOKED_AT + theirs)
                    if item.state is State.UNSCHEDULABLE and self._asks(item, now)
                ]
        found.sort(key=lambda one: (-_importance_of(one), one.queued_at, one.pod_id))
        taken = Counter[str]()
        turns: list[tuple[int, float]] = []
        for item in found:
            tenant = self._ledger.tenant_of_pod(item.pod_info) or ""
            turns.append((taken[tenant], self._turns_of(tenant).looked_at))
            taken[tenant] += 1
        order = sorted(range(len(found)), key=turns.__getitem__)
        return [found[at] for at in order[:_MOST_LOOKED_AT]]

    def _turns_of(self, tenant: str) -> _Turns:
        found = self._tenants.get(tenant)
        if found is None:
            pace = Allowance(self._at_once, self._per_s, _LONGEST_REST_S)
            work = Allowance(_MOST_WORK, _WORK_PER_S, _LONGEST_REST_S)
            found = self._tenants[tenant] = _Turns(pace, work)
        return found

    def _may_be_lent(self, line: RefusedTogether, reasons: frozenset[Reason]) -> bool:
        """Whether nodes are full, some of whose pods use what their tenants have borrowed."""
        first = next(iter(line.values())).pod_info
        tenant = self._ledger.tenant_of_pod(first)
        if tenant is None or not any(one.resolvable for one in reasons):
            return False
        root = self._ledger.tree.nodes[tenant].root
        return any(one.share() > NO_SHARE for one in root.subtree())

    def _is_resting(self, item: QueuedPod, now: float) -> bool:
        """Whether pods of its kind have asked in vain, and nothing is better for them since."""
        rest = self._rests.get(_kind_of(item))
        return rest is not None and rest.holds(now, self._share_with(item))

    def _share_with(self, item: QueuedPod) -> FairShare:
        """Of the pod's tenant, if it had its place."""
        first = item.pod_info
        tenant = self._ledger.tenant_of_pod(first)
        if tenant is None:
            return NO_SHARE
        return self._ledger.tree.nodes[tenant].share(charge_of(first.pod))

    def _asks(self, item: QueuedPod, now: float) -> bool:
        pod_info = item.pod_info
        tenant = self._ledger.tenant_of_pod(pod_info)
        if (
            tenant is None
            or now < max(self._turns_of(tenant).asks_at, self._turns_of(tenant).open_at)
            or item.pod_id in self._under_way
            or policy_of(self._ledger.tree.nodes[tenant])[0] == NEVER
        ):
            return False
        nominations = self._state.profiles.nominations
        return all(
            one.pod_info.pod.preempts
            and not one.pod_info.sizes
            and nominations.of(one.pod_id) is None
            for one in self._state.queue.groups.starting_with(item)
        )

    # --- from whom
    # ----------------------------------------------------------------------------------------------

    def _reclaim(self, item: QueuedPod, candidates: Sequence[Candidate], now: float) -> None:
        state = self._state
        ledger = self._ledger
        pod_id = item.pod_id
        tenant = ledger.tenant_of_pod(item.pod_info)
        if tenant is None:
            return
        turns = self._turns_of(tenant)
        turns.looked_at = now
        members = state.queue.groups.starting_with(item)
        whole = as_one([one.pod_info for one in members]).pod
        totals = state.fleet.allocatable_total(ledger.tree.of_parts)
        ledger.node(tenant, totals)  # limits as they are now
        going = self.going(now)
        asked = charge_of(whole)
        claimant = Claimant(tenant, whole.priority, asked)
        taken, places, within_own = self._found(members, claimant, candidates, going)
        in_vain = not places or not (taken or within_own)
        if in_vain:
            self._wait(item, now)  # what comes free is for whoever is next in fair order
        if in_vain or (len(taken) > self._at_once and now < self._large_at):
            work = len(candidates) + 40 * len(members)
            turns.open_at = max(turns.open_at, now + turns.work.take(now, work))
            return
        why = self._why(tenant, taken, item.pod_info)
        gone = frozenset(one.pod_id for one in taken)
        awaited = set(gone)
        for one in members:
            asked_each = charge_of(one.pod_info.pod)
            awaited.update(ledger.hold(one.pod_id, tenant, asked_each, [*gone, *going]))
        for one in members:
            place = places[one.pod_id]
            state.profiles.nominations.put(
                Nominee(
                    one.pod_id, one.pod_info, place.cluster, place.node, frozenset(awaited), why
                )
            )
        self._under_way[pod_id] = _Reclaim(
            now + LONGEST_S, asked, tuple(awaited), tuple(places), tenant, _kind_of(item)
        )
        self._charge(tenant, len(taken), now)
        state.counters[COUNTER, tenant] += len(taken)
        self._order(taken, pod_id, now)

    def going(self, now: float) -> list[PodId]:
        """Who counts as gone, and goes for nobody else."""
        ordered = [one for known in self._under_way.values() for one in known.victims]
        leaving = [one for one, since in self.borrowers.leaving.items() if now - since < LONGEST_S]
        return [*dict.fromkeys((*ordered, *leaving))]

    def _charge(self, tenant: str, count: int, now: float) -> None:
        turns = self._turns_of(tenant)
        self._open_at = now + self._pace.take(now, count)
        self._large_at = now + self._large.take(now, count)
        turns.open_at = now + turns.pace.take(now, count)

    def _found(
        self,
        members: Sequence[QueuedPod],
        claimant: Claimant,
        candidates: Sequence[Candidate],
        going: Sequence[PodId],
    ) -> tuple[Sequence[Candidate], Mapping[PodId, Decision], bool]:
        """Who has to go beside those that are going already, where the pods go then, and whether
        their tenant borrows nothing with them.
        """
        ledger = self._ledger
        gone = set(going)
        left = self.borrowers.in_reach(
            members, [one for one in candidates if one.pod_id not in gone]
        )
        with self.aside(going):
            within_own = not ledger.tree.nodes[claimant.tenant].shares(claimant.asked)
            by_quota = self._by_quota(claimant, left, going)
            if by_quota == []:  # of nodes alone who is more important would take them back
                above = {one.unit for one in left if one.priority > claimant.priority}
                left = [one for one in left if one.unit not in above]
            on_nodes = () if by_quota is None else self._on_nodes(members, claimant, left, going)
            sets = [(by_quota or [], False), *on_nodes]
        for taken, may_be_fewer in sets:
            if not taken and len(members) > 1:
                continue
            places = self._places_without(members, going, taken)
            if len(places) == len(members):
                if may_be_fewer:
                    return *self._needed(members, claimant, taken, going, places), within_own
                return taken, places, within_own
        return (), {}, within_own

    def _needed(
        self,
        members: Sequence[QueuedPod],
        claimant: Claimant,
        taken: Sequence[Candidate],
        going: Sequence[PodId],
        places: Mapping[PodId, Decision],
    ) -> tuple[Sequence[Candidate], Mapping[PodId, Decision]]:
        """Without those that can stay after all: who goes for quota may leave room as well."""
        units = list(dict.fromkeys(one.unit for one in taken))
        for unit in units[-_MOST_BACK:][::-1]:
            fewer = [one for one in taken if one.unit != unit]
            gone = [*going, *(one.pod_id for one in fewer)]
            with self.aside(gone):
                over = self._ledger.exceeded(claimant.tenant, claimant.asked, None)
            found = {} if over else self._places_without(members, going, fewer)
            if len(found) == len(members):
                taken = fewer
                places = found
        return taken, places

    def _by_quota(
        self, claimant: Claimant, candidates: Sequence[Candidate], going: Sequence[PodId]
    ) -> list[Candidate] | None:
        """Who has to go for quota alone."""
        if self._ledger.exceeded(claimant.tenant, claimant.asked, None) is None:
            return []
        left = self.borrowers.left_by_budgets(going)
        some = self.borrowers.within_budgets(candidates, left)
        return victims(self._ledger.tree, claimant, some)

    def _on_nodes(
        self,
        members: Sequence[QueuedPod],
        claimant: Claimant,
        candidates: Sequence[Candidate],
        going: Sequence[PodId],
    ) -> Iterator[tuple[list[Candidate], bool]]:
        """Who has to go so that nodes have room as well, the fewest first, with whoever goes for quota
        beside; and whether some of them may not have to after all.
        """
        full = FullNodes(self._state, self._ledger, self.borrowers, candidates, going)
        for some in full.sets(members, claimant):
            gone = dict.fromkeys((*going, *(one.pod_id for one in some)))
            with self.aside([one.pod_id for one in some]):
                rest = [one for one in candidates if one.pod_id not in gone]
                more = self._by_quota(claimant, rest, [*gone])
            if more is not None:
                yield [*some, *more], bool(more) or len(members) > 1

    @contextmanager
    def aside(self, going: Iterable[PodId]) -> Iterator[None]:
        """As if nothing were charged for these any more."""
        out = [(one, self._ledger.release(one)) for one in going]
        try:
            yield
        finally:
            for one, charge in reversed(out):
                self._ledger.put_back(one, charge)

    def _places_without(
        self, members: Sequence[QueuedPod], going: Sequence[PodId], taken: Sequence[Candidate]
    ) -> dict[PodId, Decision]:
        """Where the pods go once these are gone: if any is taken for them, not to a cluster that
        may refuse them once more.
        """
        state = self._state
        waiting = [
            (one.pod_id, one.pod_info.unforgiving if taken else one.pod_info) for one in members
        ]
        group = state.queue.groups.waits_in(members[0])
        with state.profiles.what_if() as world:
            for one in (*going, *(one.pod_id for one in taken)):
                if state.fleet.occupant(one) is not None:
                    world.take_away(one)
            if group is None or len(members) == 1:
                results = world.schedule(waiting)
            else:
                placed = [state.fleet.occupant(one) for one in group.placed]
                places = [(one.cluster, one.node) for one in placed if one is not None]
                results = place_group(state.profiles, group.group, waiting, places).results
        return {one.pod_id: one for one in results if isinstance(one, Decision)}

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
        # at home they go at once: not before it is known that the pod may ask elsewhere
        found.sort(key=lambda one: (one.cluster == pod_id[0], one.cluster, one.pod_id))
        for _, some in groupby(found, key=attrgetter("cluster")):
            if self._state.profiles.nominations.of(pod_id) is not None:
                self._evictions.order(tuple(some), pod_id, now)

    # --- what becomes of it
    # ----------------------------------------------------------------------------------------------

    def _end(self, now: float) -> None:
        state = self._state
        for pod_id, known in list(self._under_way.items()):
            if any(self._ledger.charged(one) is not None for one in known.members):
                self._keep_no_more(pod_id, now)  # it has its place
                self._rests.pop(known.kind)
                continue
            stands = now < known.until and all(
                self._ledger.holds(one)
                and state.profiles.nominations.of(one) is not None
                and state.queue.get(one) is not None
                for one in known.members
            )
            if not stands:
                self._keep_no_more(pod_id, now)
                if (item := state.queue.get(pod_id)) is not None:
                    self._wait(item, now)
                elif state.tracked.get(pod_id) is None:
                    self._rest(known.tenant, now)
            elif all(state.fleet.occupant(one) is None for one in known.victims):
                known.until = min(known.until, now + _LEFT_S)
                if self._fits(known):
                    state.queue.activate(pod_id, now, at_once=True)

    def _fits(self, known: _Reclaim) -> bool:
        """Whether its quota is free by now: others may be given back theirs as well."""
        with self._ledger.holds_aside(known.members):
            return self._ledger.exceeded(known.tenant, known.asked, None) is None

    def _keep_no_more(self, pod_id: PodId, now: float) -> None:
        """Nothing is kept any more for those that have no place: others may have it."""
        state = self._state
        given_up = False
        for one in self._under_way.pop(pod_id).members:
            if self._ledger.charged(one) is None:
                state.profiles.nominations.drop(one)
                given_up = self._ledger.drop_hold(one) or given_up
        if given_up:
            state.wake_all_for_quota(now)

    def _rest(self, tenant: str, now: float) -> None:
        """Pods of others were evicted for one that is gone: whoever does so again and again asks
        ever more rarely.
        """
        turns = self._turns_of(tenant)
        if now < turns.asks_at:
            return  # of several that went together
        if now - turns.asks_at > _LONGEST_REST_S:
            turns.tries = 0
        turns.tries += 1
        turns.asks_at = now + _PAUSE.after(turns.tries)

    def _wait(self, item: QueuedPod, now: float) -> None:
        known = self._rests.get(_kind_of(item))
        tries = 1 if known is None else known.tries + 1
        rest = _Rest(now + _PAUSE.after(tries), tries, self._share_with(item))
        self._rests.put(_kind_of(item), rest)
