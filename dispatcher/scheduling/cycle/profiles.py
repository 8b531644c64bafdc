"""Several profiles over one fleet: which scheduler decides which pod, by its spec.schedulerName."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, cast

from dispatcher.scheduling.cycle.batches import Enough, Item, never
from dispatcher.scheduling.cycle.canaries import Canaries
from dispatcher.scheduling.cycle.cycle import Result, Scheduler
from dispatcher.scheduling.cycle.what_if import WhatIf
from dispatcher.scheduling.equivalence.cache import ClassCounts
from dispatcher.scheduling.framework import Plugin, PodInfo
from dispatcher.scheduling.framework.derived import joined
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import NO_TURN, QuotaTurn
from dispatcher.scheduling.framework.points import Plan, PluginError, guarded
from dispatcher.scheduling.framework.stopwatch import STOPWATCH
from dispatcher.scheduling.rules.entry import may_enter
from shared.model import names
from shared.model.pod import Pod, PodId
from shared.model.reasons import Reason, Reasons, Why
from shared.model.wake_events import NEVER, WakeEvent

# Annotations of users that must not be ignored in silence, and the plugin that follows each: a
# profile without it decides no pod that has one.
FOLLOWED_BY = {names.REQUIRE_DATA: "DataLocality"}
_Kind = tuple[str, frozenset[Reason], tuple[Hashable, ...]]


class Profiles:
    """Schedulers by schedulerName, over one fleet; ValueError for none, or for one name twice."""

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self._by_name = {one.plan.profile: one for one in schedulers}
        if not schedulers or len(self._by_name) < len(schedulers):
            raise ValueError("profiles need at least one, and each its own schedulerName")
        self._first = schedulers[0]
        self.canaries = Canaries(schedulers)
        self._schedulers = tuple(schedulers)
        self._canaried = any(one.canary for one in schedulers)
        self._not_followed = {one.plan.profile: _not_followed(one.plan) for one in schedulers}
        self._hinting: dict[
            tuple[str, frozenset[Reason], WakeEvent], tuple[Plugin | None, ...]
        ] = {}
        self.fleet = self._first.fleet
        self.of_groups: dict[str, Any] = {}  # what placing groups keeps from one to the next
        self.nominations = self._first.nominations
        for one in schedulers[1:]:
            one.share(self.nominations)

    def __iter__(self) -> Iterator[Scheduler]:
        return iter(self._by_name.values())

    @property
    def class_counts(self) -> Mapping[str, ClassCounts]:
        """What became of the classes of each, by schedulerName."""
        return {name: one.class_counts for name, one in self._by_name.items()}

    def unknown(self, pod: Pod) -> Why | None:
        """Why no profile is the pod's; None if one is."""
        return (
            None
            if pod.scheduler_name in self._by_name
            else Why(Reasons.NO_PROFILE, ", ".join(self._by_name))
        )

    def of(self, pod_info: PodInfo) -> Scheduler:
        """The scheduler of a pod; a delegate, or a pod found bound that names none, is the first
        one's.
        """
        named = self._by_name.get(pod_info.pod.scheduler_name)
        if named is None:
            return self._first
        return (
            self.canaries.instead_of(named, pod_info) if self._canaried else named
        )  # asked several times a pod

    def name_of(self, pod_info: PodInfo) -> str:
        """The schedulerName of the profile that decides a pod."""
        return self.of(pod_info).plan.profile

    def classify(self, pod_info: PodInfo) -> Hashable:
        """The name of the pod's class, for the queue; pods of two profiles are never of one class."""
        return self.of(pod_info).classify(pod_info)

    def schedule_class(
        self, items: Sequence[Item], *, alike: bool = False, enough: Enough = never
    ) -> list[Result]:
        """Decide pods that are all of one class by their profile: `Scheduler.schedule_class`."""
        if not items:
            return []
        scheduler = self.of(items[0][1])
        if (watch := STOPWATCH.get()) is not None:
            watch.begin(scheduler.plan.profile)
        return self.canaries.schedule_class(scheduler, items, alike=alike, enough=enough)

    def what_if(self) -> WhatIf:
        """A context: what is decided and taken away in it is undone at its end, unless kept."""
        return WhatIf(self._schedulers, self.of, self.nominations)

    # --- what the queue asks (queued.Gates)
    # ---------------------------------------------------------------------------

    def gate(self, pod_info: PodInfo) -> Why | None:
        """Why a pod may not enter the queue: its scheduling gates, what the first PreEnqueue plugin
        says, or an annotation that the profile does not follow.
        """
        plan = self.of(pod_info).plan
        pod = pod_info.pod
        for key, plugin_name in self._not_followed[plan.profile] if pod.annotations else ():
            if key in pod.annotations:
                text = (
                    f"annotation {key} is not followed by profile {plan.profile}, which has no "
                    f"plugin {plugin_name}"
                )
                return Why(Reasons.INVALID, text)
        for plugin in plan.pre_enqueues:
            try:
                refused = guarded(plugin, plugin.pre_enqueue, pod_info)
            except PluginError as error:
                return Why(Reasons.PLUGIN_ERROR, error.plugin)
            if refused is not None:
                return refused.why
        return Why(Reasons.GATED, ", ".join(pod.gates)) if pod.gated else None

    def refused_by(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> set[str]:
        """The plugins of its profile that alone refuse for one of these."""
        plugins = self.of(pod_info).plan.plugins
        return {one.name for one in plugins if not reasons.isdisjoint(one.REASONS)}

    def nodes_help(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        """Whether a pod that was refused for these reasons might go to a new node of its own
        cluster. A plugin that fails is no evidence that it might not.
        """
        scheduler = self.of(pod_info)
        try:
            return all(one.nodes_help for one in reasons) and may_enter(
                scheduler.plan.filters, pod_info, scheduler.view, pod_info.home
            )
        except PluginError:
            return True

    def kind_of(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> Hashable:
        """The profile, the reasons, and the `hint_key` of each plugin that looks closer at events."""
        plan = self.of(pod_info).plan
        asked = self._hints(plan, reasons, ~NEVER)
        return (
            plan.profile,
            reasons,
            tuple([None if one is None else _hint_key(one, pod_info) for one in asked]),
        )

    def worth_any(self, event: ClusterEvent, kind: Hashable) -> bool:
        """Whether for any reason that such an event may help with, no plugin says that it helps
        nobody of the kind.
        """
        profile, reasons, keys = cast(_Kind, kind)
        plan = self._by_name[profile].plan
        known = dict(
            zip(map(id, self._hints(plan, reasons, ~NEVER)), keys, strict=True)
        )  # need not be hashable
        asked = self._hints(plan, reasons, event.kind)
        return not reasons or any(
            one is None or _hints_any(one, event, known[id(one)]) for one in asked
        )

    def worth(self, event: ClusterEvent, pod_info: PodInfo, reasons: frozenset[Reason]) -> bool:
        """Whether for any reason that such an event may help with, no plugin's hint says that this
        one does not.
        """
        asked = self._hints(self.of(pod_info).plan, reasons, event.kind)
        return not reasons or any(
            plugin is None or _hinted(plugin, event, pod_info) for plugin in asked
        )

    def _hints(
        self, plan: Plan, reasons: frozenset[Reason], kind: WakeEvent
    ) -> tuple[Plugin | None, ...]:
        asked = self._hinting.get((plan.profile, reasons, kind))
        if asked is None:
            asked = self._hinting[plan.profile, reasons, kind] = _hinting(plan, reasons, kind)
        return asked

    def refused_alike(self, pod_info: PodInfo) -> bool:
        """Whether all that its profile asks of a pod is the same for pods with the very same class
        key.
        """
        pod_alone = pod_info.pod.volumes or pod_info.sizes
        return not pod_alone and self.of(pod_info).plan.refuses_alike

    def quota_alike(self, pod_info: PodInfo) -> bool:
        """Whether quota refuses by class: a gate that is asked of each pod may refuse for a quota
        of its own.
        """
        return self.of(pod_info).plan.pod_plugins_in_bulk

    def waits_for_quota(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """Tell the Reserve plugins; whether one says that others may have waited behind it. A pod
        that no node takes waits for more than quota: nobody waits behind it.
        """
        told = False
        scheduler = self.of(pod_info)
        waits = waits and scheduler.has_open_nodes(pod_info)
        for plugin in scheduler.plan.reserves:
            try:
                told = guarded(plugin, partial(plugin.waits, waits=waits), pod_info) or told
            except PluginError:
                told = True  # it is no evidence that nobody has
        return told

    def quota_turn(self, pod_info: PodInfo) -> QuotaTurn:
        """What the first Reserve plugin says that charges the pod."""
        for plugin in self.of(pod_info).plan.reserves:
            try:
                found = guarded(plugin, plugin.quota_turn, pod_info)
            except PluginError:
                continue
            if found is not NO_TURN:
                return found
        return NO_TURN

    # --- places
    # ----------------------------------------------------------------------------------------------

    def _holding(self, pod_id: PodId) -> Scheduler | None:
        if len(self._schedulers) == 1:
            return self._first
        for one in self._schedulers:
            if one.holds(pod_id):
                return one
        return None

    def forget(self, pod_id: PodId) -> None:
        """Give a place back, with the profile that booked it."""
        (self._holding(pod_id) or self._first).forget(pod_id)
        self.nominations.left(pod_id)

    def restore(self, pod_id: PodId, pod_info: PodInfo, cluster: str, node: str) -> None:
        """Enter a pod where its cluster shows it, with the profile that booked it or its own:
        Scheduler.restore.
        """
        (self._holding(pod_id) or self.of(pod_info)).restore(pod_id, pod_info, cluster, node)

    def confirm_all(self, pods: Iterable[tuple[PodId, PodInfo]]) -> None:
        """`restore` pods where their own cluster shows them."""
        for pod_id, pod_info in pods:
            (self._holding(pod_id) or self.of(pod_info)).confirm(pod_id, pod_info)

    def take_over(self, old: "Profiles") -> None:
        """Book all that other profiles have booked, in the order in which they did; keep what was
        promised.
        """
        self.canaries.go_on_from(old.canaries)
        self._first.fleet.derive(joined(one.plan.derives for one in self), only=True)
        self.nominations = old.nominations
        for one in self:
            one.share(self.nominations)
        books = [book for one in old for book in one.give_books().items()]
        for pod_id, book in books:
            self.of(book.pod_info).take_book(pod_id, book.pod_info, book.row)

    def take_troubles(self) -> list[str]:
        """What plugins failed with since the last call."""
        return [text for one in self for text in one.take_troubles()]


def _not_followed(plan: Plan) -> list[tuple[str, str]]:
    """Annotations that the profile has no plugin for, and which that would be."""
    there = {one.name for one in plan.plugins}
    return [(key, plugin) for key, plugin in FOLLOWED_BY.items() if plugin not in there]


def _hinting(plan: Plan, reasons: frozenset[Reason], kind: WakeEvent) -> tuple[Plugin | None, ...]:
    """Whom to ask whether such an event helps against any of these reasons. None: it does, nobody
    looks closer.
    """
    found = list[Plugin | None]()
    for reason in sorted(reasons, key=attrgetter("name")):
        if kind & reason.helped_by:
            found += [one for one in plan.plugins if reason in one.REASONS] or [None]
    return tuple({id(one): one for one in found}.values())  # plugins need not be hashable


def _hint_key(plugin: Plugin, pod_info: PodInfo) -> Hashable:
    try:
        key = plugin.hint_key(pod_info)
        hash(key)
    except Exception:
        return None  # of no use: `hint_any` is asked of a pod that it knows nothing of
    return key


def _hints_any(plugin: Plugin, event: ClusterEvent, key: Hashable) -> bool:
    try:
        return plugin.hint_any(event, key)
    except Exception:
        return True


def _hinted(plugin: Plugin, event: ClusterEvent, pod_info: PodInfo) -> bool:
    try:
        return plugin.hint(event, pod_info)
    except Exception:  # a hint that fails must not keep a pod waiting
        return True
