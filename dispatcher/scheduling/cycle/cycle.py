"""The scheduling cycle: from PreFilter to Permit; one pod's decision, or a batch of one class.

A decision is the feasible row of the highest total score, among equals the row of the lowest rank (see
`fleet.rank_of`). All feasible rows are scored. A batch gives exactly what its pods would get one after the other.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import takewhile

from dispatcher.model.reasons import Reason, Why
from dispatcher.scheduling.classes.forecast import Forecast, can_forecast
from dispatcher.scheduling.classes.pod_class import PodClass
from dispatcher.scheduling.classes.shelf import ClassShelf
from dispatcher.scheduling.cycle.post_filter import PostFilters
from dispatcher.scheduling.explain import Decision, Ground, Unschedulable, no_place, refusal_message
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.framework import Depends, Placed, Plugin, Profile, Refuse, Reserve, Skip
from dispatcher.scheduling.framework.lifecycle import CycleState
from dispatcher.scheduling.framework.points import ClassKey, Faults, Plan, PluginError, Restores, guarded

__all__ = ["Decision", "Result", "Scheduler", "Unschedulable"]

Result = Decision | Unschedulable
_Item = tuple[PodId, Placed]
_LONGEST_WAIT_S = 900.0  # kube-scheduler's bound on the wait of a Permit plugin
_MOST_ALONE = 64  # pods
_WORTH_IT = 4  # pods; looking ahead costs about two decisions


class Scheduler:
    """Decides pods under one profile, and books what it decides in the fleet and with the Reserve plugins.

    `class_bytes` bounds the memory of kept classes; the one unused for longest goes first. `faults` counts the errors
    of each plugin.
    """

    def __init__(
        self,
        profile: Profile,
        plugins: Sequence[Plugin],
        fleet: FleetState,
        *,
        nominations: Nominations | None = None,
        class_bytes: int = 512 * 2**20,
    ) -> None:
        self.plan = Plan.of(profile, plugins)
        self.fleet = fleet
        self.nominations = nominations or Nominations(fleet)
        self._faults = Faults()
        self.post_filters = PostFilters(self.plan, fleet, self.nominations, self._faults.note)
        self.on_wait: Callable[[Decision], None] | None = None  # told of every decision that Permit makes wait
        self.faults = self._faults.counts
        self._late, self._booking = self.plan.late, (*self.plan.gates, *self.plan.reserves)
        self._classes = ClassShelf(self.plan, fleet, class_bytes)
        self._reserved: dict[PodId, tuple[Placed, int]] = {}
        self._books = [(one, one.restore if isinstance(one, Restores) else one.reserve) for one in self.plan.reserves]
        self._told: Unschedulable | None = None

    def share(self, nominations: Nominations) -> None:
        """Use the nominations of another profile: one fleet has one set of them."""
        self.nominations = nominations
        self.post_filters = PostFilters(self.plan, self.fleet, nominations, self._faults.note)

    # --- deciding ----------------------------------------------------------------------------------------------------

    def classify(self, placed: Placed) -> Hashable:
        """The name of the pod's class, for the queue; a pod that a plugin fails on is a class of its own."""
        try:
            return self.plan.class_key(placed)
        except PluginError as error:
            return ("fault", error.plugin, placed.home, placed.pod.uid)

    def schedule(self, placed: Placed, pod_id: PodId) -> Result:
        """Decide one pod and assume it on its node, or say why there is none."""
        return self.schedule_class([(pod_id, placed)])[0]

    def schedule_class(self, items: Sequence[tuple[PodId, Placed]]) -> list[Result]:
        """Decide pods that are all of one class, in order."""
        if not items:
            return []
        try:
            key = self.plan.class_key(items[0][1])
        except PluginError as error:
            return [self._fault(pod_id, placed, error) for pod_id, placed in items]
        results: list[Result] = []
        alone = 1  # pods decided one by one before looking ahead is tried again
        while len(results) < len(items):
            rest = items[len(results) :]
            ahead = self._ahead(key, rest)
            results += ahead or [self._decide(key, *item) for item in rest[:alone]]
            alone = 1 if ahead else min(2 * alone, _MOST_ALONE)
        return results

    def _ahead(self, key: ClassKey, items: Sequence[tuple[PodId, Placed]]) -> list[Result]:
        """As many of the first pods as looking ahead gives exactly; none where it does not pay or cannot be exact."""
        if len(items) < _WORTH_IT or self._yielding(items):
            return []
        first, now = items[0][1], key
        try:
            now = self.plan.standing_key(key, first, self.fleet)
            pods = self._classes.get(now)
            pods.catch_up(first)
        except PluginError:
            self._classes.drop(now)  # decided alone, the pod meets the error again and says so
            return []
        hopeless = bool(self.plan.post_filters) and not pods.rows.feasible
        if hopeless or pods.refusal is not None or pods.groups is None or not can_forecast(pods, items):
            return []
        items, whole, key = self._alike(key, now, items), key, now
        if self._may_defer(pods, items):
            return self._deferred(key, items, pods, Forecast(pods, pods.groups, first, len(items), deferred=True))
        forecast = Forecast(pods, pods.groups, first, len(items))
        results: list[Result] = []
        for pod_id, placed in items:
            if forecast.void or (results and not self._is_of(whole, key, placed)):
                break
            result = self._guarded(key, pod_id, placed, pods, forecast)
            if result is None:
                break
            results.append(result)
        return results

    def _may_defer(self, pods: PodClass, items: Sequence[_Item]) -> bool:
        """Whether nobody looks at the fleet before all of `items` are decided, so that it may be written once."""
        if pods.at_once or pods.bonus is None or pods.bonus.judges:
            return False
        if any(judge.versions for judge in pods.judges):
            return False  # somebody counts pods
        looking = (one for one in self._booking if one.depends is not Depends.STATIC)
        if not all(self._quiet(one, pods.answer_of) for one in (*self._late, *looking)):
            return False
        ids = {pod_id for pod_id, _ in items}
        return len(ids) == len(items) and not any(self.fleet.occupant(pod_id) for pod_id in ids)

    def _quiet(self, plugin: Plugin, answer_of: Callable[[str], object]) -> bool:
        """Whether a plugin has said in PreFilter that it has nothing to do with pods of the class."""
        return plugin in self.plan.judges and isinstance(answer_of(plugin.name), Skip)

    def _deferred(self, key: ClassKey, items: Sequence[_Item], pods: PodClass, forecast: Forecast) -> list[Result]:
        """Decide out of a forecast; the fleet hears of all pods at the end."""
        results: list[Result] = []
        booked: list[int] = []
        for item in items:
            if forecast.void:
                break
            result = self._guarded(key, *item, pods, forecast, booked)
            if result is None:
                break
            results.append(result)
        newcomers = [items[at] for at, result in enumerate(results) if isinstance(result, Decision)]
        if newcomers:
            self.fleet.assume_all(newcomers, booked)
        return results

    def _yielding(self, items: Sequence[tuple[PodId, Placed]]) -> bool:
        """Whether nominated pods step aside for any of these: then each is decided on its own."""
        nominations = self.nominations
        return len(nominations) > 0 and any(nominations.matter_to(id_, one.pod.priority) for id_, one in items)

    def _decide(self, key: ClassKey, pod_id: PodId, placed: Placed) -> Result:
        try:
            key = self.plan.standing_key(key, placed, self.fleet)
        except PluginError as error:
            return self._fault(pod_id, placed, error)
        pods = self._classes.get(key)
        with self.nominations.aside_for(pod_id, placed.pod.priority):
            result = self._guarded(key, pod_id, placed, pods, pods)
        if result is None:
            raise LookupError("a class that has caught up left a pod undecided")
        return result

    def _is_of(self, key: ClassKey, now: ClassKey, placed: Placed) -> bool:
        """Whether a pod is still of that class, after what was placed since."""
        try:
            return not self.plan.standing or self.plan.standing_key(key, placed, self.fleet) == now
        except PluginError:
            return False  # decided alone, it meets the error again

    def _alike(self, key: ClassKey, now: ClassKey, items: Sequence[_Item]) -> list[_Item]:
        """The first of these pods: those that what the fleet holds does not tell apart."""
        if not self.plan.standing:
            return list(items)
        try:
            return list(takewhile(lambda item: self.plan.standing_key(key, item[1], self.fleet) == now, items))
        except PluginError:
            return [items[0]]

    def _guarded(
        self,
        key: ClassKey,
        pod_id: PodId,
        placed: Placed,
        pods: PodClass,
        rows: PodClass | Forecast,
        later: list[int] | None = None,
    ) -> Result | None:
        """Decide one pod out of `rows`; None: a forecast knows no place, so PostFilter has to look at the fleet."""
        refused = _unfit(placed)
        if refused is not None:
            return self._refused(pod_id, placed, refused)
        try:
            return self._attempt(pod_id, placed, pods, rows, later)
        except PluginError as error:
            # What the class holds may be half written: it is made anew for the next pod.
            self._classes.drop(key)
            return self._fault(pod_id, placed, error)

    def _attempt(
        self, pod_id: PodId, placed: Placed, pods: PodClass, rows: PodClass | Forecast, later: list[int] | None
    ) -> Result | None:
        states: dict[str, object] = {}
        refused = self._pre_filter(placed, states)
        if refused is not None:
            return self._refused(pod_id, placed, refused)
        if rows is pods:
            pods.catch_up(placed)
            if pods.refusal is not None:
                return self._refused(pod_id, placed, pods.refusal)
        self.fleet.cycle = CycleState(states, pods.answer_of)
        decision = self._promised(pod_id, placed, pods) or rows.decide(pod_id, placed)
        if decision is None:
            if self.plan.post_filters and rows is not pods:
                return None
            return self._helped(self._no_place(pod_id, placed, rows.ground()), pods)
        self._explain(decision, pods, states)
        result = self._book(decision, later)
        if result is decision:
            rows.booked(decision.row)
            self.nominations.drop(pod_id)
        return result

    def _promised(self, pod_id: PodId, placed: Placed, pods: PodClass) -> Decision | None:
        """A nominated pod goes where it was nominated, if it fits there now."""
        nominee = self.nominations.of(pod_id)
        row = self.fleet.row_of(nominee.cluster, nominee.node) if nominee else None
        return None if row is None else pods.decide_on(row, pod_id, placed)

    def _helped(self, refused: Unschedulable, pods: PodClass) -> Unschedulable:
        """PostFilter, where the profile has one, and there is any node to do something about."""
        asked = self.plan.post_filters and refused.ground.evaluated
        return self.post_filters.help(refused, pods) if asked else refused

    def _pre_filter(self, placed: Placed, states: dict[str, object]) -> Why | None:
        for plugin in self.plan.gates:
            states[plugin.name] = state = guarded(plugin, plugin.pre_filter, placed, self.fleet)
            if isinstance(state, Refuse):
                return state.why
        return None

    # --- booking -----------------------------------------------------------------------------------------------------

    def _book(self, decision: Decision, later: list[int] | None) -> Result:
        """Reserve, and place the pod; with a list for `later` only note its row there."""
        pod_id, placed, row = decision.pod_id, decision.placed, decision.row
        refused = self._reserve(placed, row)
        if refused is not None:
            return self._refused(pod_id, placed, refused.why)
        self._reserved[pod_id] = (placed, row)
        if later is not None:
            later.append(row)
            return decision
        self.fleet.place(pod_id, placed, decision.cluster, decision.node, assumed=True)
        try:
            refused = self._permit(decision)
        except PluginError:
            self.forget(pod_id)
            raise
        if refused is not None:
            self.forget(pod_id)
            return self._refused(pod_id, placed, refused.why)
        return decision

    def _reserve(self, placed: Placed, row: int) -> Refuse | None:
        done: list[Reserve] = []
        for plugin in self.plan.reserves:
            try:
                refused = guarded(plugin, plugin.reserve, placed, row, self.fleet)
            except PluginError:
                self._unreserve(done, placed, row)
                raise
            if refused is not None:
                self._unreserve(done, placed, row)
                return refused
            done.append(plugin)
        return None

    def _unreserve(self, plugins: Sequence[Reserve], placed: Placed, row: int) -> None:
        for plugin in reversed(plugins):
            try:
                guarded(plugin, plugin.unreserve, placed, row, self.fleet)
            except PluginError as error:
                self._faults.note(error)  # the others must still give back

    def _permit(self, decision: Decision) -> Refuse | None:
        for plugin in self.plan.permits:
            answer = guarded(plugin, plugin.permit, decision.placed, decision.row, self.fleet)
            if isinstance(answer, Refuse):
                return answer
            if answer:
                decision.waits[plugin.name] = min(answer, _LONGEST_WAIT_S)
        if not all(self._quiet(one, self.fleet.cycle.read) for one in self._late):
            decision.cycle = self.fleet.cycle.kept([one.name for one in self._late])
        if decision.waits and self.on_wait is not None:
            self.on_wait(decision)
        return None

    def _explain(self, decision: Decision, pods: PodClass, states: dict[str, object]) -> None:
        notes = [*pods.at_once, *((one, states[one.name]) for one in self.plan.noting_gates)]
        for plugin, state in notes:
            if isinstance(state, Skip):
                continue
            try:
                decision.extras[plugin.name] = guarded(
                    plugin, plugin.explain, state, decision.placed, self.fleet, decision.row
                )
            except PluginError as error:
                self._faults.note(error)  # a decision stands without its comments, too

    def forget(self, pod_id: PodId) -> None:
        """Give a place back, also of a pod that has ended: the inverse of deciding it. Unknown pods are ignored."""
        reserved = self._reserved.pop(pod_id, None)
        if reserved is not None:
            self._unreserve(self.plan.reserves, *reserved)
        self.fleet.remove(pod_id)

    def holds(self, pod_id: PodId) -> bool:
        """Whether this profile has booked the pod."""
        return pod_id in self._reserved

    def restore(self, pod_id: PodId, placed: Placed, cluster: str, node: str) -> None:
        """Enter a pod where its cluster shows it: confirms what was assumed, and charges without the right to refuse.

        Charges follow the pod: what was booked for an older version or another place is given back first.
        """
        known = self.fleet.occupant(pod_id)
        booked = self._reserved.get(pod_id)
        same = known is not None and (known.cluster, known.node) == (cluster, node)
        if booked is None or not same or booked[0].pod.requests != placed.pod.requests:
            if booked is not None:
                self._unreserve(self.plan.reserves, *booked)
            row = self.fleet.row_of(cluster, node)
            self._charge(placed, -1 if row is None else row)
            self._reserved[pod_id] = (placed, -1 if row is None else row)
        self.fleet.place(pod_id, placed, cluster, node, assumed=False)

    def _charge(self, placed: Placed, row: int) -> None:
        """Book with every Reserve plugin; `row` is -1 while the node is not known."""
        for plugin, book in self._books:
            try:
                guarded(plugin, book, placed, row, self.fleet)
            except PluginError as error:
                self._faults.note(error)

    def give_books(self) -> dict[PodId, tuple[Placed, int]]:
        """Give back what the plugins have booked, for another scheduler to book; the pods stay in their places."""
        books, self._reserved = self._reserved, {}
        for placed, row in books.values():
            self._unreserve(self.plan.reserves, placed, row)
        return books

    def take_book(self, pod_id: PodId, placed: Placed, row: int) -> None:
        """Book a pod that another scheduler has given back, without the right to refuse."""
        self._charge(placed, row)
        self._reserved[pod_id] = (placed, row)

    # --- refusing ----------------------------------------------------------------------------------------------------

    def _refused(self, pod_id: PodId, placed: Placed, why: Why) -> Unschedulable:
        ground = Ground(self.plan.profile, self.fleet.reasons, (), {}, 0, 0)
        message = refusal_message(sum(self.fleet.node_counts().values()), why)
        return Unschedulable(pod_id, placed, message, frozenset((why.reason,)), self.fleet.clock, ground)

    def take_troubles(self) -> list[str]:
        """What plugins failed with since the last call, each text once: for the operator's log."""
        return self._faults.take()

    def _fault(self, pod_id: PodId, placed: Placed, error: PluginError) -> Unschedulable:
        self._faults.note(error)
        return self._refused(pod_id, placed, Why(Reason.PLUGIN_ERROR, error.plugin))

    def _no_place(self, pod_id: PodId, placed: Placed, ground: Ground) -> Unschedulable:
        told = self._told
        if told is None or told.ground is not ground:
            told = self._told = no_place(pod_id, placed, self.fleet.clock, ground, self.fleet.node_counts())
        # Pods of one class that meet the same fleet are told the same: the words are made once.
        return replace(told, pod_id=pod_id, placed=placed, time=self.fleet.clock)


def _unfit(placed: Placed) -> Why | None:
    """What is wrong with the pod itself, before any node is looked at."""
    pod = placed.pod
    if pod.problems:
        return Why(Reason.INVALID, "; ".join(pod.problems))
    return Why(Reason.GATED, ", ".join(pod.gates)) if pod.gated else None
