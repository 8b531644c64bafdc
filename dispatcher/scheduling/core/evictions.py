"""Evictions for pods of higher priority: who may be evicted, where, and what comes of it.

A pod of ours is evicted where it runs: its delegate, or itself in its home cluster; the delegate
protocol does the rest. A pod of another scheduler only for a pod of its own cluster, as
kube-scheduler would, and where that cluster lets it. In another cluster than the preemptor's own
nobody is before that one has confirmed it: see `preemptors`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from dispatcher.scheduling.core import called_services
from dispatcher.scheduling.core.binding_cycle import BindingCycle
from dispatcher.scheduling.core.group_status import GroupStatus
from dispatcher.scheduling.core.preemptors import Preemptors
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_info import GroupId, PodInfo, whole_group_id
from shared.messages import DONE, NO_PRIORITY, OF_CLUSTER, REFUSED, Evict, Outcome, PodRef
from shared.model.pod import Pod, PodId, SourceRef
from shared.model.reasons import Reasons, Why
from shared.model.wake_events import WakeEvent


class Evictions:
    """Evictions under way, by victim."""

    def __init__(self, state: CoreState, binding: BindingCycle, status: GroupStatus) -> None:
        self._state = state
        self._status = status
        self._binding = binding
        self._under_way: dict[PodId, str] = {}
        # told which pods were not evicted, and when
        self.on_refused: Callable[[PodId, float], None] | None = None
        self.preemptors = Preemptors(state, self._evict)

    def may_evict(self, occupant: Occupant, home: str) -> bool:
        """Whether a pod may be evicted for one submitted in `home`."""
        view = self._state.clusters.get(occupant.cluster)
        if view is None or not view.ready or self.target_of(occupant) is None:
            return False
        ours = occupant.pod_id in self._state.tracked
        return ours or (occupant.cluster == home and view.evicts_foreign)

    def target_of(self, occupant: Occupant) -> Pod | None:
        """The pod object to delete in the cluster where it runs; None while there is none that we
        know of.
        """
        tracked = self._state.tracked.peek(occupant.pod_id)
        if tracked is None:
            return occupant.pod_info.pod
        if occupant.cluster in tracked.delegates:
            return tracked.delegates[occupant.cluster]
        here = (
            occupant.cluster == tracked.home
            and tracked.source is not None
            and tracked.source.claim is None
        )
        return tracked.source if here else None

    def order(self, victims: tuple[Victim, ...], preemptor: PodId, now: float) -> None:
        """Have them evicted for a pod that is nominated to their node: at once in its own cluster."""
        if victims[0].cluster == preemptor[0]:  # all are on one node
            self._evict(victims, preemptor, now)
        else:
            self.preemptors.ask(preemptor, victims, now)

    def _evict(
        self, victims: Iterable[Victim], preemptor: PodId, now: float, manifest: bytes = b""
    ) -> None:
        """Evict those that are not on their way out already. `manifest`: of the delegate that their
        cluster must be ready to take, for a pod of another one.
        """
        some = tuple(victims)
        groups: dict[GroupId, Victim] = {}
        for victim in (*some, *self._going_along(some, preemptor)):
            if self._binding.holds(
                victim.pod_id
            ):  # it has a place in memory alone: nothing is to be deleted
                self._binding.give_back(victim.pod_id, Why(Reasons.PREEMPTED), now)
                continue
            occupant = self._state.fleet.occupant(victim.pod_id)
            target = self.target_of(occupant) if occupant is not None else None
            if (
                target is not None
                and not target.terminating
                and victim.pod_id not in self._under_way
            ):
                self._send(victim, intents.ref(target), preemptor, manifest)
                whole = whole_group_id(victim.pod_info)
                if whole is not None:
                    groups.setdefault(whole, victim)
        for victim in groups.values():
            self._tell_group(victim, preemptor)

    def _tell_group(self, victim: Victim, preemptor: PodId) -> None:
        member = self._state.tracked.get(victim.pod_id)
        by = self._state.tracked.get(preemptor)
        if member is not None and member.source is not None and by is not None and by.source:
            why = f"evicted for pod {by.source.key} of cluster {preemptor[0]}"
            self._status.evicted(member.home, member.source, why)

    def _going_along(self, victims: Sequence[Victim], preemptor: PodId) -> Iterator[Victim]:
        """Of groups that go as a whole the others in the same cluster, if they may go for this pod."""
        state = self._state
        tracked = state.tracked.get(preemptor)
        if tracked is None or tracked.source is None:
            return
        pod_info = PodInfo(tracked.source, tracked.home)
        seen = {one.pod_id for one in victims}
        for victim in victims:
            group = state.queue.groups.get(whole_group_id(victim.pod_info))
            priority = state.fleet.priorities.of(pod_info, victim.cluster)
            for pod_id in sorted(group.placed - seen) if group is not None else ():
                seen.add(pod_id)
                one = state.fleet.occupant(pod_id)
                here = one is not None and one.cluster == victim.cluster
                if one is not None and here and one.pod_info.pod.priority < priority:
                    yield Victim(pod_id, one.pod_info, one.cluster, one.node)

    def _send(self, victim: Victim, pod: PodRef, preemptor: PodId, manifest: bytes) -> None:
        state = self._state
        tracked = state.tracked.get(preemptor)
        source = tracked.source if tracked is not None else None
        if source is None:
            return

        def done(answer: Outcome, now: float) -> None:
            self._answered(victim, preemptor, answer, now)

        state.counters["preemption_victims", victim.cluster] += 1
        name = f"{source.key} of cluster {preemptor[0]}"
        priority = state.fleet.priorities.of(PodInfo(source, preemptor[0]), victim.cluster)
        intent = Evict("", pod, 0, victim.node, priority, name)
        nominee = state.profiles.nominations.of(preemptor)
        reclaims = nominee.reclaims if nominee is not None else ""
        if reclaims:
            intent = msgspec.structs.replace(intent, priority=NO_PRIORITY, reclaimed=reclaims)
        elif tracked is not None and manifest:
            home = state.clusters[preemptor[0]]
            there = SourceRef(home.name, home.uid, source.namespace, source.name, source.uid, 0)
            services = called_services.follow(state, tracked, victim.cluster)
            intent = msgspec.structs.replace(
                intent, source=there, manifest=manifest, services=services
            )
        self._under_way[victim.pod_id] = state.side_intents.send(
            victim.cluster, "evict", intent, done
        )

    def _answered(self, victim: Victim, preemptor: PodId, answer: Outcome, now: float) -> None:
        self._under_way.pop(victim.pod_id, None)
        if answer.verdict == DONE:
            return
        state = self._state
        if self.on_refused is not None:
            self.on_refused(victim.pod_id, now)
        if answer.verdict == REFUSED and answer.scope == OF_CLUSTER:
            tracked = state.tracked.get(preemptor)
            if (
                tracked is not None and tracked.source is not None
            ):  # its next place is another, or at home
                state.refusals.note_untaken(preemptor, tracked.source, victim.cluster, answer, now)
        elif answer.verdict == REFUSED:
            where = f"{victim.cluster}/{victim.node}"
            state.warn(
                f"pod {victim.pod_info.pod.key} was not evicted from {where}: {answer.message}"
            )
        # Whatever was promised on the strength of this eviction is judged anew.
        state.profiles.nominations.drop(preemptor)
        state.queue.activate(preemptor, now)
        state.queue.wake(WakeEvent.POD_REMOVED, now)

    def gone(self, pod_id: PodId) -> None:
        """The pod has left its node: nobody need ask for that any more."""
        name = self._under_way.pop(pod_id, None)
        if name is not None:
            self._state.side_intents.drop(name)
