"""The binding cycle: what happens between a decision and its bind. Permit may make a pod wait,
PreBind may have things done first, Bind may leave the bind to somebody else; the pod holds its
place meanwhile. PostBind is called at the end.

Whatever goes wrong here gives the place back, and the pod is queued again with the reason.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import CycleState, Plugin, PodInfo, Refuse
from dispatcher.scheduling.framework.lifecycle import PRE_BIND_S, Handed, Order
from dispatcher.scheduling.framework.points import PluginError, guarded
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.records.decision import Decision
from shared.messages import BOUND, DONE, Outcome
from shared.model.pod import PodId
from shared.model.reasons import Reasons, Why

_REPORT_AFTER_S = 5.0  # a pod that waits for so long gets an event that says why
Launch = Callable[[QueuedPod, Decision, float], None]


@dataclass(eq=False)
class _Held:
    """A pod with a place that is not bound yet.

    `waits`: Permit plugin -> until when. `at`: the index of the PreBind plugin that runs; `sent`:
    its orders, in flight or done; `open`: the side intents of those in flight, by index. `until`:
    the deadline.
    """

    decision: Decision
    item: QueuedPod | None = None
    waits: dict[str, float] = field(default_factory=dict)
    at: int = 0
    sent: list[Order] = field(default_factory=list)
    open: dict[int, str] = field(default_factory=dict)
    until: float = float("inf")
    handed: str = ""
    reported: bool = False

    def text(self, plan_names: tuple[str, ...]) -> str:
        """Why it is held up, for people."""
        if self.waits:
            return f"waiting on Permit plugin {', '.join(sorted(self.waits))}"
        if self.handed:
            return f"bind handed to {self.handed}"
        about = ", ".join(dict.fromkeys(order.about for order in self.sent if order.about))
        return f"waiting on PreBind plugin {plan_names[self.at]}{f' for {about}' if about else ''}"


class BindingCycle:
    """Every pod between its decision and its bind. Satisfies `lifecycle.WaitingRoom`."""

    def __init__(self, state: CoreState, launch: Launch) -> None:
        self._state = state
        self._launch = launch
        self._view = view_of(state.fleet)
        self._held: dict[PodId, _Held] = {}
        self._verdicts: list[
            tuple[PodId, str, Why | None]
        ] = []  # of Permit plugins, to be followed
        self._post_bind_due: dict[
            PodId, Decision
        ] = {}  # pods whose PostBind plugins are to be called
        self.on_lost: Callable[[PodId, str, float], None] | None = None

    def follow_profiles(self) -> None:
        """Pods that wait for plugins which are gone go on; PreBind plugins are asked from the first
        one on again.
        """
        for scheduler in self._state.profiles:
            scheduler.on_wait = self._enter
            for plugin in scheduler.plan.permits:
                plugin.attach(self)
        for held in self._held.values():
            there = {plugin.name for plugin in self._scheduler(held.decision).plan.permits}
            held.waits = {plugin: until for plugin, until in held.waits.items() if plugin in there}
            if not held.handed:
                held.at = 0
                held.until = float("inf")

    def holds(self, pod_id: PodId) -> bool:
        """Whether the pod has a place, and waits at Permit, PreBind or Bind."""
        return pod_id in self._held

    def holds_any(self, pod_ids: Collection[PodId]) -> bool:
        """Whether it holds one of these."""
        return not self._held.keys().isdisjoint(pod_ids)

    # --- WaitingRoom
    # ----------------------------------------------------------------------------------------------

    def waiting(self) -> list[tuple[PodId, PodInfo]]:
        """All pods that wait for a Permit plugin, longest first."""
        return [(pod_id, one.decision.pod_info) for pod_id, one in self._held.items() if one.waits]

    def allow(self, pod_id: PodId, plugin: str) -> None:
        """`plugin` lets the pod go on."""
        self._verdicts.append((pod_id, plugin, None))

    def reject(self, pod_id: PodId, plugin: str, why: Why) -> None:
        """The place is given back."""
        self._verdicts.append((pod_id, plugin, why))

    def _enter(self, decision: Decision) -> None:
        """Permit plugins make a pod wait: it is known to be waiting before the next pod is decided."""
        until = {plugin: decision.time + seconds for plugin, seconds in decision.waits.items()}
        self._held[decision.pod_id] = _Held(decision, waits=until)

    # --- from Permit to Bind
    # -----------------------------------------------------------------------------------------

    def begin(self, item: QueuedPod, decision: Decision, now: float) -> None:
        """A decision was taken: bind the pod, or let it wait where a plugin says so."""
        held = self._held.get(decision.pod_id)
        if held is None and decision.cycle is None:  # no plugin of a later point has anything to do
            self._launch(item, decision, now)
            return
        held = self._held.setdefault(decision.pod_id, _Held(decision))
        held.item = item
        if held.waits:
            self._state.queue.hold(item, held.text(()))
        else:
            self._run_pre_binds(held, now)

    def follow(self, now: float) -> None:
        """Apply what Permit plugins have allowed and rejected."""
        while self._verdicts:
            verdicts = self._verdicts
            self._verdicts = []
            for pod_id, plugin, why in verdicts:
                self._follow(pod_id, plugin, why, now)

    def expire(self, now: float) -> None:
        """The same, and give back what has waited for too long. It visits every waiting pod: once a
        Tick is enough.
        """
        self.follow(now)
        for pod_id, held in list(self._held.items()):
            late = next(
                (plugin for plugin, until in sorted(held.waits.items()) if now >= until), None
            )
            if late is not None:
                self.give_back(pod_id, Why(Reasons.PERMIT, late), now)
            elif not held.waits and held.item is not None:
                self._continue_or_time_out(held, now)
            if now - held.decision.time >= _REPORT_AFTER_S:
                self._report(held)

    def _report(self, held: _Held) -> None:
        """Report once that a place is held: its user would not see it otherwise."""
        tracked = self._state.tracked.get(held.decision.pod_id)
        if (
            held.reported
            or held.item is None
            or tracked is None
            or held.decision.pod_id not in self._held
        ):
            return
        place = f"{held.decision.cluster}/{held.decision.node}"
        self._state.report_waiting(
            tracked, f"{held.text(self._names(held))}; its place on {place} is held"
        )
        held.reported = True

    def _follow(self, pod_id: PodId, plugin: str, why: Why | None, now: float) -> None:
        held = self._held.get(pod_id)
        if held is None or plugin not in held.waits:
            return
        if why is not None:
            self.give_back(pod_id, why, now)
            return
        del held.waits[plugin]
        if held.item is None:
            return
        if held.waits:
            held.item.note = held.text(())
        else:
            self._run_pre_binds(held, now)

    def _continue_or_time_out(self, held: _Held, now: float) -> None:
        if now >= held.until:
            why = Why(Reasons.PRE_BIND, f"{held.text(self._names(held))} for too long")
            self.give_back(held.decision.pod_id, why, now)
        elif not held.handed and not held.open:
            self._run_pre_binds(held, now)

    def _run_pre_binds(self, held: _Held, now: float) -> None:
        """PreBind plugins in turn, then Bind."""
        plan = self._scheduler(held.decision).plan
        try:
            while held.at < len(plan.pre_binds):
                plugin = plan.pre_binds[held.at]
                answer = self._call(held, plugin, plugin.pre_bind)
                if isinstance(answer, Refuse):
                    self.give_back(held.decision.pod_id, answer.why, now)
                    return
                if answer:
                    held.until = min(held.until, now + PRE_BIND_S)
                    self._send(held, cast(Sequence[Order], answer))
                    self._show_held(held)
                    return
                held.at = held.at + 1
                held.until = float("inf")
                held.sent = []
                held.open = {}
            self._bind(held, now)
        except PluginError as error:
            self._state.warn(str(error))
            self.give_back(held.decision.pod_id, Why(Reasons.PLUGIN_ERROR, error.plugin), now)

    def _call(self, held: _Held, plugin: Plugin, call: Callable[..., object]) -> object:
        decision = held.decision
        row = self._state.fleet.row_of(decision.cluster, decision.node)
        if row is None:
            return Refuse(Why(Reasons.PRE_BIND, f"{decision.cluster}/{decision.node} is gone"))
        return guarded(
            plugin, call, decision.cycle or CycleState(), decision.pod_info, row, self._view
        )

    def _send(self, held: _Held, orders: Iterable[Order]) -> None:
        for order in orders:
            if order not in held.sent:
                at = len(held.sent)
                held.sent.append(order)
                done = partial(self._done, held, at)
                held.open[at] = self._state.side_intents.send(
                    order.cluster, "prepare", order.intent, done
                )

    def _done(self, held: _Held, at: int, answer: Outcome, now: float) -> None:
        held.open.pop(at, None)
        if self._held.get(held.decision.pod_id) is held and answer.verdict not in (DONE, BOUND):
            self.give_back(
                held.decision.pod_id, Why(Reasons.PRE_BIND, answer.message or answer.verdict), now
            )

    def _bind(self, held: _Held, now: float) -> None:
        for plugin in self._scheduler(held.decision).plan.binds:
            answer = self._call(held, plugin, plugin.bind)
            if isinstance(answer, Refuse):
                self.give_back(held.decision.pod_id, answer.why, now)
                return
            if isinstance(answer, Handed):
                held.handed = answer.to
                held.until = now + answer.deadline_s
                self._await_post_bind(held.decision)
                self._show_held(held)
                return
        item = held.item
        del self._held[held.decision.pod_id]
        if item is not None:
            self._state.queue.remove(held.decision.pod_id)
            self._launch_bind(item, held.decision, now)

    def _launch_bind(self, item: QueuedPod, decision: Decision, now: float) -> None:
        self._await_post_bind(decision)
        self._launch(item, decision, now)

    def _show_held(self, held: _Held) -> None:
        if held.item is not None:
            self._state.queue.hold(held.item, held.text(self._names(held)))

    def _names(self, held: _Held) -> tuple[str, ...]:
        return tuple(one.name for one in self._scheduler(held.decision).plan.pre_binds)

    def _scheduler(self, decision: Decision) -> Scheduler:
        return self._state.profiles.of(decision.pod_info)

    # --- ends
    # ----------------------------------------------------------------------------------------------

    def give_back(self, pod_id: PodId, why: Why, now: float) -> None:
        """The place comes to nothing: the pod is queued again, for `why`."""
        held = self.cancel(pod_id, now)
        if held is None or held.item is None:
            return
        state = self._state
        state.queue.remove(pod_id)
        state.queue.unschedulable(held.item, frozenset((why.reason,)), now)
        tracked = state.tracked.get(pod_id)
        if tracked is not None:
            state.report(tracked, why.text, now)
        if self.on_lost is not None:
            self.on_lost(pod_id, why.text, now)

    def cancel(self, pod_id: PodId, now: float) -> _Held | None:
        """The pod is gone, going, or bound by another: its place is free again."""
        held = self._held.pop(pod_id, None)
        self._post_bind_due.pop(pod_id, None)
        if held is not None:
            self._state.free(pod_id, now)
            for name in held.open.values():
                self._state.side_intents.drop(name)
        return held

    def release(self, pod_id: PodId) -> None:
        """The pod was seen bound: it waits no more, and keeps its place."""
        self._held.pop(pod_id, None)
        self.bound(pod_id)

    def _await_post_bind(self, decision: Decision) -> None:
        if self._scheduler(decision).plan.post_binds:
            self._post_bind_due[decision.pod_id] = decision

    def bound(self, pod_id: PodId) -> None:
        """Call the PostBind plugins of the pod's profile, once."""
        decision = self._post_bind_due.pop(pod_id, None)
        if decision is None:
            return
        cycle = decision.cycle or CycleState()
        row = self._state.fleet.row_of(decision.cluster, decision.node)
        for plugin in self._scheduler(decision).plan.post_binds:
            try:
                guarded(
                    plugin,
                    plugin.post_bind,
                    cycle,
                    decision.pod_info,
                    -1 if row is None else row,
                    self._view,
                )
            except PluginError as error:
                self._state.warn(str(error))
