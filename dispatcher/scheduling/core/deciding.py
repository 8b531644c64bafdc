"""Decides queued pods: batches of one class out of the queue, decisions on their way, refusals back
with reasons.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from dispatcher.scheduling import events
from dispatcher.scheduling.core.binding_cycle import BindingCycle
from dispatcher.scheduling.core.booked_groups import BookedGroups
from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.group_status import GroupStatus
from dispatcher.scheduling.core.lower_priority import LowerPriority
from dispatcher.scheduling.core.once_an_hour import OnceAnHour
from dispatcher.scheduling.core.retries import Retries
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.cycle.batches import Result
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import GroupId, group_id
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.groups.place_group import place_group
from dispatcher.scheduling.queue import QueuedPod, WakeEvent
from dispatcher.scheduling.queued import QUOTA, State
from dispatcher.scheduling.quota import without_figures
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.messages import HOME_ONLY
from shared.model import names
from shared.model.crossing import makes
from shared.model.objects import Namespace
from shared.model.reasons import Reason, Reasons, Why
from shared.model.token_buckets import Allowance

# CPU of one decision; pods of one class that are decided together have `_EACH_S` more, `_TOGETHER_S`
# at most: a group may have 100,000 members
LONGEST_S = 0.05
_EACH_S = 0.0005
_TOGETHER_S = 1.0
_BURST_S = 2.0
_SHARE = 0.05
_LONGEST_REST_S = 60.0
MOST_KEPT = 4096  # namespaces
_Namespace = tuple[str, str]  # cluster of submission, name


class SlowDecisions:
    """Namespaces whose pods take long to decide have a bounded part of the time, so that others are
    decided. Decisions that take longer than `LONGEST_S` are charged to the namespace: 2 s, and a
    twentieth of the time.

    Example: a pod that takes 1 s to decide each time is decided twice; from then on its namespace
    rests for 20 s after each decision of that kind. A restart begins with 2 s again: what one
    decision takes is bounded by what a pod may ask for.
    """

    def __init__(self) -> None:
        self._charged: dict[_Namespace, tuple[Allowance, float]] = {}  # and until when it rests

    def __bool__(self) -> bool:
        return bool(self._charged)

    def note(self, decided: Sequence[QueuedPod], took_s: float, now: float) -> None:
        """So many pods of one class were decided within that time."""
        if not decided or took_s <= min(LONGEST_S + _EACH_S * len(decided), _TOGETHER_S):
            return
        name = _namespace_of(decided[0])
        allowance, _ = self._charged.pop(name, (Allowance(_BURST_S, _SHARE, _LONGEST_REST_S), now))
        if len(self._charged) >= MOST_KEPT:
            del self._charged[next(iter(self._charged))]
        self._charged[name] = allowance, now + allowance.take(now, took_s)

    def rests(self, item: QueuedPod, now: float) -> bool:
        """Whether the pod is to be decided later."""
        charged = self._charged.get(_namespace_of(item))
        return charged is not None and now < charged[1]


def _namespace_of(item: QueuedPod) -> _Namespace:
    return item.pod_id[0], item.pod_info.pod.namespace


class HomeOnly:
    """Namespaces that no other cluster has: their pods stay at home, and the first that is placed
    says so in an event. Remembers of which namespaces it was told.
    """

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._told = OnceAnHour[_Namespace]()

    def placed(self, decisions: Iterable[Decision], now: float) -> None:
        """Pods got their places."""
        if len(self._state.clusters) < 2:
            return
        at_home = [one for one in decisions if one.cluster == one.pod_id[0]]
        leaving = [one for one in at_home if one.pod_info.pod.annotations.get(names.STAY) != "true"]
        for (home, namespace), one in {
            (one.cluster, one.pod_info.pod.namespace): one for one in leaving
        }.items():
            if self._told.is_due((home, namespace), now) and self._is_alone(home, namespace):
                self._told.note((home, namespace), now)
                text = (
                    f'namespace "{namespace}" is in no other cluster, so its pods stay in cluster '
                    f"{home}: create it where they may run, or list it there in "
                    "`executor.namespaces.create`, or say that they stay with annotation "
                    f'{names.STAY}: "true"'
                )
                self._state.report_waiting(self._state.tracked.active[one.pod_id], text, HOME_ONLY)

    def _is_alone(self, home: str, namespace: str) -> bool:
        """Whether none of the clusters that show their namespaces has it or makes it, and some do."""
        known = False
        for name, other in self._state.clusters.items():
            shown = self._state.fleet.kept.of(name, Namespace) if name != home else {}
            if namespace in shown or (shown and makes(namespace, other.opens)):
                return False
            known = known or bool(shown)
        return known and not Namespace(namespace).system


# of pods placed together: of so many templates plugins are asked which waiting pods it helps
_MOST_TEMPLATES = 32


class Deciding:
    """Runs scheduling cycles over the state of the core, and starts what follows from them."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.binding = BindingCycle(state, self._launch)
        self.booked = BookedGroups(state, self.binding)
        self.binding.on_lost = self.booked.lost
        self._group_status = GroupStatus(state)
        self.booked.on_started = self._group_status.started
        self.evictions = Evictions(state, self.binding, self._group_status)
        self.retries = Retries(state)
        self._slow = SlowDecisions()
        self._home_only = HomeOnly(state)
        self._lower_priority = LowerPriority(state)
        self.follow_profiles()

    def follow_profiles(self) -> None:
        """The profiles were replaced: connect the new ones to the core."""
        self.binding.follow_profiles()
        for scheduler in self._state.profiles:
            scheduler.post_filters.may_evict = self.evictions.may_evict
            scheduler.future.wait_s = self._state.timing.node_wait_s

    def decide(self, event: events.Decide, now: float) -> None:
        """Decide at most `budget` pods, the first class of them at least: see `events.Decide`."""
        state = self._state
        budget = event.budget
        state.queue.wake_rest(now)
        while budget > 0:
            batch = state.queue.pop_class(now, budget)
            if not batch:
                break
            if state.queue.groups:
                if state.queue.is_lead(batch[0]):
                    budget -= self._decide_group(batch[0], now, event.clock)
                    if self._ends_round(event):
                        break
                    continue
                batch = self._before_lead(batch)
            budget -= len(batch)
            awake = self._awake(batch, now) if self._slow else batch
            current = (
                self.retries.requeue_changed(awake, now)
                if state.refusals or state.fleet.uses
                else awake
            )
            homes = {item.pod_id[0] for item in current}
            all_ready = all(state.clusters[home].ready for home in homes)
            ready = (
                current if all_ready else [item for item in current if self._home_ready(item, now)]
            )
            nominees = self._nominees_of(ready)
            began = event.clock()
            results = self._results(ready, now, event.enough)
            self._slow.note(ready[: len(results)], event.clock() - began, now)
            state.queue.put_back(ready[len(results) :])
            ready = ready[: len(results)]
            self._follow_up(ready, results, now)
            self.binding.follow(now)
            self._placed(ready, results, now)
            self._wake_for_lapsed(nominees, now)
            if self._ends_round(event):
                break
        self.binding.expire(now)

    def _ends_round(self, event: events.Decide) -> bool:
        """Whether others wait for what was decided last, as that of a tenant that had none."""
        has_newcomer = self._state.queue.take_newcomer() and event.in_rounds
        return event.enough() or has_newcomer

    def _placed(self, items: Sequence[QueuedPod], results: Sequence[Result], now: float) -> None:
        """What follows where pods, all of one profile, got places."""
        state = self._state
        pairs = list(zip(items, results, strict=True))
        decided = [item for item, result in pairs if isinstance(result, Decision)]
        if not decided:
            return
        decisions = [result for result in results if isinstance(result, Decision)]
        state.counters["scheduled", state.profiles.name_of(decided[0].pod_info)] += len(decided)
        self._home_only.placed(decisions, now)
        self._lower_priority.placed(decisions, now)
        state.queue.go_on(decided, now)
        self._wake_for_placed(decided, now)

    # --- groups that are decided as a whole
    # ----------------------------------------------------------------------------------------------

    def _before_lead(self, batch: Sequence[QueuedPod]) -> list[QueuedPod]:
        """Those that are decided by themselves, up to the first that stands for a group: it is the
        next.
        """
        singles = list(takewhile(lambda item: not self._state.queue.is_lead(item), batch))
        self._state.queue.put_back(batch[len(singles) :])
        return singles

    def _decide_group(self, lead: QueuedPod, now: float, clock: Callable[[], float]) -> int:
        """Decide the group for which it stands; how many pods these are."""
        state = self._state
        queue = state.queue
        group = lead.pod_info.pod.group
        name = group_id(lead.pod_info)
        asleep = self._slow and not self._awake([lead], now)
        if group is None or name is None or asleep or not self._home_ready(lead, now):
            return 1
        items = queue.take_group(lead)
        known = queue.groups.get(name)
        placed = [] if known is None else [state.fleet.occupant(one) for one in known.placed]
        places = [(one.cluster, one.node) for one in placed if one is not None]
        nominees = self._nominees_of(items)
        began = clock()
        try:
            self.retries.refresh(items, now)
            waiting = [(item.pod_id, item.pod_info) for item in items]
            found = place_group(state.profiles, group, waiting, places)
        except Exception:
            self._put_back(items, now)
            raise
        self._slow.note(items, clock() - began, now)
        try:
            self._follow_group(name, items, found.results, len(places), now)
        except Exception as error:
            self._put_back(items, now)
            if not isinstance(error, PluginError):
                raise
            state.warn(str(error))
        self.binding.follow(now)
        self._placed(items, found.results, now)
        self._wake_for_lapsed(nominees, now)
        return len(items)

    def _follow_group(
        self,
        name: GroupId,
        items: Sequence[QueuedPod],
        results: Sequence[Result],
        placed: int,
        now: float,
    ) -> None:
        """Members that got places go on together; the others wait together."""
        pairs = list(zip(items, results, strict=True))
        going = [(item, one) for item, one in pairs if isinstance(one, Decision)]
        for item, _ in going:
            self._state.queue.member_placed(item.pod_id, item.pod_info)
        told = items[0].pod_info.pod.group
        is_met = told is None or placed >= told.min_count
        if len(going) > 1 or (going and not is_met):
            self.booked.begin(name, [item for item, _ in going], placed, now)
        refused = [(item, one) for item, one in pairs if isinstance(one, Unschedulable)]
        if refused:
            self._park_group(refused, now)
            if not (going or is_met):
                member, result = refused[0]
                self._group_status.refused(name, member, result.full_message, now)
        for item, decision in going:
            self._decided(item, decision, now)

    def _park_group(self, refused: Sequence[tuple[QueuedPod, Unschedulable]], now: float) -> None:
        """Members found no place: one of them waits for all, and each is told."""
        state = self._state
        lead, first = refused[0]
        state.counters["unschedulable", state.profiles.name_of(lead.pod_info)] += len(refused)
        # that it is a group is helped by what helps its pods, and by a node that comes into a domain
        reasons = first.reasons - {Reasons.GROUP, Reasons.OUTSIDE_DOMAIN} or first.reasons
        if reasons != QUOTA:
            reasons |= {Reasons.OUTSIDE_DOMAIN}
        items = [item for item, _ in refused]
        promised = any(one.nominated for _, one in refused)
        state.queue.group_refused(items, lead, reasons, now, alone=promised)
        helps = state.profiles.nodes_help(lead.pod_info, first.reasons)
        for item, result in refused:
            state.log.add(result)
            tracked = state.tracked.active[item.pod_id]
            tracked.queued = True
            self._report(tracked, result, now, nodes_help=helps and not result.beyond_home)
            if result.waits_until is not None:
                state.waiting_for_nodes.put(item.pod_id, result.waits_until)
            self._preempt(item, result, now)

    def _awake(self, batch: Sequence[QueuedPod], now: float) -> list[QueuedPod]:
        """Those whose namespace does not rest; the others are told, and tried again after their
        back-off.
        """
        awake = list[QueuedPod]()
        for item in batch:
            if not self._slow.rests(item, now):
                awake.append(item)
                continue
            self._state.queue.retry(item, now)
            tracked = self._state.tracked.active[item.pod_id]
            self._state.report(tracked, Why(Reasons.TOO_SLOW).text, now, nodes_help=False)
        return awake

    def _wake_for_placed(self, items: Sequence[QueuedPod], now: float) -> None:
        """Affinity may draw others to these, or a fuller domain make room for spread in another:
        one pod of each template is named, none where these are many.
        """
        queue = self._state.queue
        if not queue.listens(WakeEvent.POD_PLACED):
            return
        of_template = {
            id(item.class_key): item for item in items
        }  # the very same key: see `ClassKey`
        if len(of_template) > _MOST_TEMPLATES:
            queue.wake(WakeEvent.POD_PLACED, now)
            return
        for item in of_template.values():
            queue.wake(
                ClusterEvent(WakeEvent.POD_PLACED, item.pod_id[0], after=item.pod_info.pod), now
            )

    def _results(
        self, items: Sequence[QueuedPod], now: float, enough: Callable[[], bool]
    ) -> list[Result]:
        """Of the first, in order. Should that fail, these are tried again later: no pod is lost by
        a fault of ours.
        """
        try:
            alike = bool(items) and all(item.class_key is items[0].class_key for item in items)
            pods = [(item.pod_id, item.pod_info) for item in items]
            return self._state.profiles.schedule_class(pods, alike=alike, enough=enough)
        except Exception:
            self._put_back(items, now)
            raise

    def _put_back(self, items: Iterable[QueuedPod], now: float) -> None:
        """Retry those of these popped pods that are neither queued again nor on their way, after
        something failed.
        """
        state = self._state
        for item in items:
            tracked = state.tracked.active[item.pod_id]
            if (
                item.state is not State.POPPED
                or tracked.in_flight is not None
                or self.binding.holds(item.pod_id)
            ):
                continue
            if any(
                one.holds(item.pod_id) for one in state.profiles
            ):  # decided before it failed for another
                state.profiles.forget(item.pod_id)
            tracked.queued = True
            state.queue.retry(item, now)

    def _follow_up(self, items: Sequence[QueuedPod], results: Sequence[Result], now: float) -> None:
        try:
            self._follow_each(items, results, now)
        except Exception as error:
            self._put_back(items, now)
            if not isinstance(error, PluginError):
                raise
            self._state.warn(str(error))

    def _follow_each(
        self, items: Sequence[QueuedPod], results: Sequence[Result], now: float
    ) -> None:
        decisions = [result for result in results if isinstance(result, Decision)]
        if len(decisions) == len(results) and self._only_bound(decisions):
            self._bind_all(items, decisions, now)
            return
        # for the same ones
        refused = list[tuple[QueuedPod, Unschedulable]]()
        reasons = frozenset[Reason]()
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Decision):
                if refused:
                    self._park(refused, now)
                    refused = []
                self._decided(item, result, now)
                continue
            if refused and result.reasons is not reasons and result.reasons != reasons:
                self._park(refused, now)
                refused = []
            reasons = result.reasons
            refused.append((item, result))
        if refused:
            self._park(refused, now)

    def _nominees_of(self, items: Sequence[QueuedPod]) -> list[Nominee]:
        nominations = self._state.profiles.nominations
        if not len(nominations):
            return []
        found = map(nominations.of, (item.pod_id for item in items))
        return [nominee for nominee in found if nominee is not None]

    def _wake_for_lapsed(self, nominees: Sequence[Nominee], now: float) -> None:
        """A nomination that ended although its pod did not take the room leaves room that may help
        another pod.
        """
        fleet = self._state.fleet
        nominations = self._state.profiles.nominations
        for nominee in nominees:
            occupant = fleet.occupant(nominee.pod_id)
            kept = nominations.of(nominee.pod_id)
            place = (nominee.cluster, nominee.node)
            places = [(one.cluster, one.node) for one in (occupant, kept) if one is not None]
            if place not in places:
                self._state.queue.wake(WakeEvent.POD_REMOVED, now)
                return

    def _home_ready(self, item: QueuedPod, now: float) -> bool:
        ready = self._state.clusters[item.pod_id[0]].ready
        if not ready:
            self._state.queue.unschedulable(item, frozenset((Reasons.CLUSTER_NOT_READY,)), now)
        return ready

    def _only_bound(self, decisions: Sequence[Decision]) -> bool:
        """Whether all that follows from these is our own bind in the cluster of submission, one and
        the same.
        """
        if not decisions or any(one.cycle is not None for one in decisions):
            return False
        pod_ids = [one.pod_id for one in decisions]
        alike = len({*[one.cluster for one in decisions], *[home for home, _ in pod_ids]}) == 1
        return alike and not self.binding.holds_any(pod_ids)

    def _bind_all(
        self, items: Sequence[QueuedPod], decisions: Sequence[Decision], now: float
    ) -> None:
        """`_decided` each, where `_only_bound` holds."""
        state = self._state
        pods = [state.tracked.active[one.pod_id] for one in decisions]
        for tracked, item in zip(pods, items, strict=True):
            tracked.item = item
            tracked.queued = False
            tracked.reported = ""
            tracked.refused = ""
        state.log.add_all(decisions)
        attempts = [item.attempts + 1 for item in items]
        queued_at = [item.queued_at for item in items]
        state.effects += map(events.Decided, decisions, attempts, queued_at)
        state.outbox.send_all(
            pods, intents.bind_all(decisions, state.outbox.next_epochs(len(pods)), now)
        )

    def _decided(self, item: QueuedPod, decision: Decision, now: float) -> None:
        state = self._state
        tracked = state.tracked.active[decision.pod_id]
        tracked.item = item
        tracked.queued = False
        tracked.reported = ""
        tracked.refused = ""
        tracked.given_back = ""
        state.log.add(decision)
        state.effects.append(events.Decided(decision, item.attempts + 1, item.queued_at))
        self.binding.begin(item, decision, now)

    def _launch(self, item: QueuedPod, decision: Decision, now: float) -> None:
        """The default Bind: our own intent to the agents."""
        state = self._state
        tracked = state.tracked.active[decision.pod_id]
        source = decision.pod_info.pod
        home = decision.pod_id[0]
        epoch = state.outbox.next_epoch()
        if decision.cluster == home:
            in_flight = intents.bind(home, source, decision.node, epoch, decision.summary(), now)
        else:
            place = (decision.cluster, state.clusters[decision.cluster].uid, decision.node)
            in_flight = intents.claim(home, source, place, epoch, now)
            in_flight.fresh = True
        if not self.booked.holds_back(tracked, in_flight, now):
            state.outbox.send(tracked, in_flight)

    def _report(
        self, tracked: Tracked, result: Unschedulable, now: float, *, nodes_help: bool
    ) -> None:
        """Say why a pod waits. How much its tenant uses right now is no news; the record of the
        refusal has it.
        """
        message = result.full_message
        known = tracked.reported
        if (
            known
            and Reasons.QUOTA in result.reasons
            and without_figures(known) == without_figures(message)
        ):
            message = known
        self._state.report(tracked, message, now, nodes_help=nodes_help)

    def _park(self, run: Sequence[tuple[QueuedPod, Unschedulable]], now: float) -> None:
        """Pods of one class found no place for the same reasons. With nominations they are parked
        one by one: one that is nominated may displace another nominee, which is activated if it is
        parked already. A nominee is refused alike with no other pod: it has room of its own.
        """
        state = self._state
        nominations = self._state.profiles.nominations
        state.counters["unschedulable", state.profiles.name_of(run[0][1].pod_info)] += len(run)
        singly = len(nominations) > 0 or any(
            result.displaced or result.victims for _, result in run
        )
        helps = {
            item.pod_info.home: state.profiles.nodes_help(item.pod_info, result.reasons)
            for item, result in {
                item.pod_info.home: (item, result) for item, result in run
            }.values()
        }
        for some in [[one] for one in run] if singly else [run]:
            items = [item for item, _ in some]
            first = some[0][1]
            alone = singly and (bool(first.victims) or nominations.of(first.pod_id) is not None)
            state.queue.unschedulable_all(items, first.reasons, now, alone=alone)
            for item, result in some:
                state.log.add(result)
                self._report(
                    state.tracked.active[item.pod_id],
                    result,
                    now,
                    nodes_help=helps[item.pod_info.home] and not result.beyond_home,
                )
                if result.waits_until is not None:
                    state.waiting_for_nodes.put(item.pod_id, result.waits_until)
                if singly:
                    self._preempt(item, result, now)

    def _preempt(self, item: QueuedPod, result: Unschedulable, now: float) -> None:
        state = self._state
        for pod_id in result.displaced:
            state.queue.activate(pod_id, now)
            if (other := state.tracked.get(pod_id)) is not None:
                state.report(other, other.reported, now, nodes_help=other.nodes_help)
        if result.victims:
            state.counters["preemption_attempts", "nominated"] += 1
            self.evictions.order(result.victims, item.pod_id, now)
