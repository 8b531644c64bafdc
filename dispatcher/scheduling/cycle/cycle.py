"""The scheduling cycle: from PreFilter to Permit; one pod's decision, or a batch of one class.

A decision is the feasible row of the highest total score, among equals the row of the lowest rank
(see `fleet.rank_of`). All feasible rows are scored. A batch gives exactly what its pods would get
one after the other.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec

from dispatcher.scheduling.cycle.assumed_pods import AssumedPods
from dispatcher.scheduling.cycle.batches import (
    Batches,
    Enough,
    Item,
    Result,
    decide_each,
    never,
    unfit,
)
from dispatcher.scheduling.cycle.beside_nominees import BesideNominees, leans_on_pods
from dispatcher.scheduling.cycle.future_nodes import Anew, FutureNodes
from dispatcher.scheduling.cycle.post_filter import PostFilters
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.framework import (
    CycleState,
    Plugin,
    PodInfo,
    Profile,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.asked import Asked
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import (
    ExplainsRefusals,
    Faults,
    Plan,
    PluginError,
    guarded,
)
from dispatcher.scheduling.place_finder import NoPlace, PlaceFinder
from dispatcher.scheduling.placing.passes import OnePasses
from dispatcher.scheduling.records.decision import Decision, Unschedulable, no_place
from dispatcher.scheduling.records.decision_record import DecisionContext, Explainers
from dispatcher.scheduling.records.messages import refusal_message
from shared.messages.pod_cache import PodCache
from shared.model.pod import PENDING, PodId, template_of
from shared.model.reasons import Reasons, Why
from shared.model.refusal import ClusterRefusal

__all__ = ["Decision", "Result", "Scheduler", "Unschedulable"]

_MOST_ALONE = 64  # pods
_FIRST_BATCH = 1024  # pods
_LEAST_BATCH = 128
_MOST_NO_PLACE = 512  # classes whose last refusal is kept with its message


def _ranks(pod_info: PodInfo) -> Hashable:
    """What makes a pod of a class more important than another one, in any cluster."""
    pod = pod_info.pod
    return pod.priority, pod.preempts, pod.needs, pod_info.home


class Scheduler(AssumedPods):
    """Decides pods under one profile, and books what it decides in the fleet and with the Reserve
    plugins.

    `class_bytes` bounds the memory of kept classes; the one unused for longest goes first. `faults`
    counts the errors of each plugin. `anew` makes the plugins once more, for nodes that autoscalers
    could make (`FutureNodes`); None: these are not looked at.
    """

    def __init__(
        self,
        profile: Profile,
        plugins: Sequence[Plugin],
        fleet: FleetState,
        *,
        nominations: Nominations | None = None,
        class_bytes: int = 256 * 2**20,
        anew: Anew | None = None,
    ) -> None:
        self._faults = Faults()
        super().__init__(Plan.of(profile, plugins), fleet, self._faults)
        fleet.derive(self.plan.derives)
        self.nominations = nominations or Nominations(fleet)
        self.post_filters = PostFilters(self.plan, fleet, self.nominations, self._faults.note)
        self.future = FutureNodes(profile, anew, fleet, self._faults.note)
        self.canary = profile.canary
        self.faults = self._faults.counts
        self._classes = EquivalenceCache(self.plan, fleet, class_bytes)
        self.class_counts = self._classes.counts
        self._passes = OnePasses(self.plan, fleet, self._classes)
        self._batches = Batches(self, self._classes)
        self._no_place_by_class: PodCache[ClassKey, Unschedulable] = PodCache(_MOST_NO_PLACE)
        # the last refusal of a pod that no node takes
        self._last_no_place: Unschedulable | None = None

    def share(self, nominations: Nominations) -> None:
        """Use the nominations of another profile: one fleet has one set of them."""
        self.nominations = nominations
        self.post_filters = PostFilters(self.plan, self.fleet, nominations, self._faults.note)

    # --- deciding
    # ----------------------------------------------------------------------------------------------

    def classify(self, pod_info: PodInfo) -> Hashable:
        """The name of the pod's class, for the queue; a pod that a plugin fails on is a class of
        its own.
        """
        try:
            key = self.plan.class_key(pod_info)
            return self.plan.key_without_home(key, pod_info, self.view)
        except PluginError as error:
            return ("fault", error.plugin, pod_info.home, pod_info.pod.uid)

    def _batch_key_of(self, pod_info: PodInfo, *, alone: bool = False) -> ClassKey:
        """The key by which pods are decided together: classes that only Reserve plugins' books tell
        apart share it, and homes that only scores of clusters do.
        """
        key = self.plan.class_key(pod_info)
        key = self.plan.key_without_home(key, pod_info, self.view, alone=alone)
        return key if key.batch is None else key.batch

    def schedule(self, pod_info: PodInfo, pod_id: PodId) -> Result:
        """Decide one pod and assume it on its node, or say why there is none."""
        return self.schedule_class([(pod_id, pod_info)])[0]

    def schedule_class(
        self, items: Sequence[Item], *, alike: bool = False, enough: Enough = never
    ) -> list[Result]:
        """Decide pods that are all of one class, in order; `alike`: of one template and home, too.
        `enough` is asked after each pod that is decided alone: once it says so, the others get no
        result.
        """
        if not items:
            return []
        if items[0][1].sizes:
            return decide_each(self._decide_sized, items, enough)
        if alike or len(items) == 1:
            key = self._key_or_error(items[0][1], alone=True)
            return self._schedule_run(key, items, alike=True, enough=enough)
        # They were of one class when they were queued; a node that came since may tell their homes
        # apart.
        results = list[Result]()
        at = 0
        # those of the last pod; its shared key holds until one is placed
        own: tuple[ClassKey | None, str] = None, ""
        shared: ClassKey | PluginError | None = None

        def shared_key(item: Item) -> ClassKey | PluginError | None:
            nonlocal own, shared
            before = own
            own = self._own_key(item[1]), item[1].home
            if own[0] is None or own != before:
                shared = self._key_or_error(item[1])
            return shared

        for run_key, run in groupby(items, shared_key):
            some = list(run)
            if run_key is not None:
                results += self._schedule_run(run_key, some, alike=False, enough=enough)
            at += len(some)
            if len(results) < at:
                break
        return results

    def _own_key(self, pod_info: PodInfo) -> ClassKey | None:
        """None if a plugin fails."""
        try:
            return self.plan.class_key(pod_info)
        except PluginError:
            return None

    def _key_or_error(self, pod_info: PodInfo, *, alone: bool = False) -> ClassKey | PluginError:
        try:
            return self._batch_key_of(pod_info, alone=alone)
        except PluginError as error:
            return error

    def _schedule_run(
        self, key: ClassKey | PluginError, items: Sequence[Item], *, alike: bool, enough: Enough
    ) -> list[Result]:
        """Decide pods of one key, in order."""
        if isinstance(key, PluginError):
            return [self._fault(pod_id, pod_info, key) for pod_id, pod_info in items]
        results: list[Result] = []
        ahead: Sequence[Result]
        refused = dict[str, Unschedulable]()  # home -> since a pod was placed
        alone = 1  # pods decided one by one before a batch is tried again
        # pods that are tried as a batch: where each is asked what it is, about twice as many as the
        # last batch had
        most = len(items) if alike else _FIRST_BATCH
        while len(results) < len(items):
            rest = items[len(results) :]
            ahead = (
                ()
                if self._nominations_matter(rest)
                else self._batches.ahead(key, rest[:most], alike=alike)
            )
            if ahead and not alike:
                most = max(_LEAST_BATCH, 2 * len(ahead))
            decided = ahead or decide_each(partial(self._decide, key), rest[:alone], enough)
            results += decided
            last = results[-1]
            if not ahead and isinstance(last, Unschedulable) and last is self._last_no_place:
                refused = refused if len(decided) == 1 else {}
                refused[last.pod_info.home] = last
                results += self._refuse_alike(key, refused, items[len(results) :])
            elif ahead or not isinstance(last, Unschedulable):
                refused = {}
            if not ahead and len(decided) < len(rest[:alone]):
                break
            alone = 1 if ahead or refused else min(2 * alone, _MOST_ALONE)
        return results

    def _refuse_alike(
        self,
        key: ClassKey,
        refused: Mapping[str, Unschedulable],
        items: Sequence[tuple[PodId, PodInfo]],
    ) -> list[Result]:
        """Refusals of the first pods that find no place for the reasons of an earlier pod of their
        class and home (`refused`).

        Nothing has changed since. Only what may tell these pods apart is asked: priority,
        what is wrong with a pod itself, and the plugins that do not answer for a whole class.
        """
        found = list[Result]()
        if len(self.nominations) or any(one.victims for one in refused.values()):
            return found
        try:
            let_pass = self.fitting(items) if len(self.bulk) == len(self.plan.pod_plugins) else 0
            for at, (pod_id, pod_info) in enumerate(items):
                earlier = refused.get(pod_info.home)
                if earlier is None:
                    break
                first = earlier.pod_info
                if (
                    _ranks(pod_info) != _ranks(first)
                    or unfit(pod_info, self) is not None
                    or pod_info.refused != first.refused
                ):
                    break
                if at >= let_pass and self._pre_filter(key, pod_info, {}) is not None:
                    break
                if not self._stand_alike(key, first, pod_info):
                    break
                found.append(earlier.again(pod_id, pod_info, self.fleet.now))
        except PluginError:
            pass  # decided alone, the pod meets the error again
        return found

    def _stand_alike(self, key: ClassKey, one: PodInfo, other: PodInfo) -> bool:
        """Whether the fleet tells two pods of a key apart no more than the key does."""
        by_template = self.plan.stands_by_template and not one.pod.volumes
        if by_template and template_of(one.pod) == template_of(other.pod):
            return True
        standing = self.plan.fleet_key(key, one, self.view)
        return self.plan.fleet_key(key, other, self.view) == standing

    def _nominations_matter(self, items: Sequence[tuple[PodId, PodInfo]]) -> bool:
        """Whether nominated pods step aside for any of these, or affinity may count them: each is
        decided alone.
        """
        nominations = self.nominations
        return len(nominations) > 0 and any(
            nominations.matter_to(id_, one) or leans_on_pods(one.pod) for id_, one in items
        )

    def _decide_sized(self, pod_id: PodId, pod_info: PodInfo) -> Result:
        """A pod that some clusters make larger: where its size there cannot be booked it is not
        tried, nor preempts.
        """
        try:
            found = [guarded(one, one.too_large, pod_info, self.view) for one in self.plan.reserves]
            now = self.fleet.now
            barred = [
                ClusterRefusal(cluster, why, now, now)
                for one in found
                for cluster, why in (one or {}).items()
            ]
            pod_info = msgspec.structs.replace(pod_info, refused=(*pod_info.refused, *barred))
            result = self._decide(self._batch_key_of(pod_info, alone=True), pod_id, pod_info)
        except PluginError as error:
            return self._fault(pod_id, pod_info, error)
        if barred and isinstance(result, Unschedulable):
            return msgspec.structs.replace(result, reasons=result.reasons | {Reasons.QUOTA})
        return result

    def _decide(self, key: ClassKey, pod_id: PodId, pod_info: PodInfo) -> Result:
        with self.nominations.aside_for(pod_id, pod_info):
            try:  # the pod's own nomination is no part of its key
                key = self.plan.own_key(key, pod_info)
                key = self.plan.fleet_key(key, pod_info, self.view)
            except PluginError as error:
                return self._fault(pod_id, pod_info, error)
            result = self._select_and_book(
                key, pod_id, pod_info, self._finders(key, pod_id, pod_info)
            )
        if result is None:
            raise LookupError("a class left a pod undecided")
        return result

    def _finders(self, key: ClassKey, pod_id: PodId, pod_info: PodInfo) -> Iterator[PlaceFinder]:
        """Ways to find a place for one pod, the cheapest first; the last one always has an answer."""
        nominated = len(self.nominations) > 0
        if not (
            nominated and (leans_on_pods(pod_info.pod) or self.nominations.of(pod_id) is not None)
        ):
            one_pass = self._passes.pass_for(key, pod_info)
            if one_pass is not None:
                yield one_pass
        eq_class = self._classes.get(key)
        yield BesideNominees(eq_class, self.nominations) if nominated else eq_class

    def _select_and_book(
        self,
        key: ClassKey,
        pod_id: PodId,
        pod_info: PodInfo,
        finders: Iterable[PlaceFinder],
    ) -> Result | None:
        """Decide one pod by the first finder that has an answer, and book it."""
        refused = unfit(pod_info, self)
        if refused is not None:
            return self._refuse_and_clear_nomination(pod_id, pod_info, refused)
        states: dict[str, object] = {}
        try:
            refused = self._pre_filter(key, pod_info, states)
            if refused is not None:
                return self._refuse_and_clear_nomination(pod_id, pod_info, refused)
            for finder in finders:
                result = self._try_finder(key, pod_id, pod_info, finder, states)
                if result is not None:
                    return result
        except PluginError as error:
            # What the class holds may be half written: it is made anew for the next pod.
            self._classes.drop(key)
            return self._fault(pod_id, pod_info, error)
        return None

    def _try_finder(
        self,
        key: ClassKey,
        pod_id: PodId,
        pod_info: PodInfo,
        finder: PlaceFinder,
        states: dict[str, object],
    ) -> Result | None:
        why = finder.prepare(pod_info)
        cycle = CycleState(states, finder.answer_of)
        if why is not None:
            return self._refused_class(cycle, key, pod_id, pod_info, why)
        found = finder.select(pod_id, pod_info)
        if isinstance(found, Decision):
            result = self._explain_and_book(cycle, key.asked, found, finder.explainers())
            if result is found:
                finder.booked(found.row)
            return result
        return None if found is None else self._no_place(cycle, key, pod_id, pod_info, found)

    def _explain_and_book(
        self, cycle: CycleState, asked: Asked, decision: Decision, fleet_explainers: Explainers
    ) -> Result:
        """Record what plugins explain, and book the place."""
        self._explain(cycle, asked, decision, fleet_explainers)
        refusal = self.book(cycle, asked, decision)
        if refusal is not None:
            return self._refuse_and_clear_nomination(
                decision.pod_id, decision.pod_info, refusal.why
            )
        self.nominations.drop(decision.pod_id)
        return decision

    def _refused_class(
        self, cycle: CycleState, key: ClassKey, pod_id: PodId, pod_info: PodInfo, why: Why
    ) -> Unschedulable:
        """PreFilter refused; PostFilter is asked all the same, as in kube-scheduler."""
        if why.reason.verbatim or pod_info.only_in is not None:
            return self._refuse_and_clear_nomination(pod_id, pod_info, why)
        return self.post_filters.hopeless(cycle, self.refused(pod_id, pod_info, why), key, why)

    def _pre_filter(
        self, key: ClassKey, pod_info: PodInfo, states: dict[str, object]
    ) -> Why | None:
        for plugin in key.asked.pod_plugins:
            states[plugin.name] = state = guarded(plugin, plugin.pre_filter, pod_info, self.view)
            if isinstance(state, Refuse):
                return state.why
        return None

    def _explain(
        self, cycle: CycleState, asked: Asked, decision: Decision, fleet_explainers: Explainers
    ) -> None:
        notes = [
            *fleet_explainers,
            *[(one, cycle.read(one.name)) for one in asked.pod_explainers],
        ]
        for plugin, state in notes:
            if isinstance(state, Skip):
                continue
            try:
                pod_info = decision.pod_info
                told = guarded(plugin, plugin.explain, state, pod_info, self.view, decision.row)
                decision.note(plugin.name, told)
            except PluginError as error:
                self._faults.note(error)  # a decision stands without its comments, too

    def would_go(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        """Where a pod of a node would go if it was gone and its controller made it anew; None if
        nowhere.

        Books nothing. Quota is not asked: what the pod uses of it is free for the new one.
        """
        occupant = self.fleet.occupant(pod_id)
        if occupant is None or occupant.row is None:
            return None
        pod = msgspec.structs.replace(pod_info.pod, node="", phase=PENDING)
        with self.fleet.aside([occupant]), self.nominations.aside_for(pod_id, pod_info):
            return self.would_choose(pod_id, msgspec.structs.replace(pod_info, pod=pod))

    def would_choose(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        """Where a pod that is nowhere yet would go now; None if nowhere. Books nothing, and quota
        is not asked.
        """
        try:
            return self._dry_run(pod_id, pod_info)
        except PluginError as error:
            self._faults.note(error)
            return None

    def _dry_run(self, pod_id: PodId, pod_info: PodInfo) -> Decision | None:
        key = self._batch_key_of(pod_info, alone=True)
        key = self.plan.fleet_key(key, pod_info, self.view)
        try:
            for finder in self._finders(key, pod_id, pod_info):
                found = (
                    finder.select(pod_id, pod_info) if finder.prepare(pod_info) is None else None
                )
                if isinstance(found, Decision):
                    finder.booked(
                        found.row
                    )  # it is not, but what is kept until then need be kept no longer
                if found is not None:
                    return found if isinstance(found, Decision) else None
        except PluginError:
            self._classes.drop(key)  # what it holds may be half written
            raise
        return None

    # --- for groups
    # ----------------------------------------------------------------------------------------------

    def closed_nodes(self, pod_info: PodInfo) -> StaticFilters | Why:
        """Which nodes are closed to the pod by what rests on nodes alone, up to date; the reason if
        all are. Other filters may close more of them. PluginError.
        """
        key = self.plan.fleet_key(self._batch_key_of(pod_info, alone=True), pod_info, self.view)
        part = self._classes.static_answers.part(key)
        refused = None if part.current else part.refresh(pod_info)
        return part.static_filters if refused is None else refused

    def has_open_nodes(self, pod_info: PodInfo) -> bool:
        """Whether a node is open to the pod by what rests on nodes alone; a plugin that fails is no
        evidence that none is.
        """
        try:
            closed = self.closed_nodes(pod_info)
        except PluginError:
            return True
        return not isinstance(closed, Why) and closed.refused < self.fleet.n

    def refuses_alone(self, pod_info: PodInfo) -> Why | None:
        """Why no node would be looked at for the pod: for itself, or by a plugin that is asked for
        every pod, as for quota. PluginError.
        """
        return unfit(pod_info, self) or self._pre_filter(
            self._batch_key_of(pod_info, alone=True), pod_info, {}
        )

    # --- refusing
    # ----------------------------------------------------------------------------------------------

    def refused(self, pod_id: PodId, pod_info: PodInfo, why: Why) -> Unschedulable:
        """The refusal of a pod as a whole, without a look at nodes."""
        context = DecisionContext(self.plan.profile, self.fleet.reasons, (), {}, 0, 0)
        message = refusal_message(sum(self.fleet.node_counts().values()), why)
        return Unschedulable(
            pod_id, pod_info, message, frozenset((why.reason,)), self.fleet.now, context
        )

    def _refuse_and_clear_nomination(
        self, pod_id: PodId, pod_info: PodInfo, why: Why
    ) -> Unschedulable:
        """A refusal that no room helps against (quota, Reserve): the pod's nomination ends, its
        room is for others.

        kube-scheduler's clearNominatedNode. Not of one for which quota is given back: who has that
        done sees to it.
        """
        nominee = self.nominations.of(pod_id)
        if why.reason is not Reasons.QUOTA or nominee is None or not nominee.reclaims:
            self.nominations.drop(pod_id)
        return self.refused(pod_id, pod_info, why)

    def take_troubles(self) -> list[str]:
        """What plugins failed with since the last call, each text once: for the operator's log."""
        return self._faults.take()

    def _fault(self, pod_id: PodId, pod_info: PodInfo, error: PluginError) -> Unschedulable:
        self._faults.note(error)
        return self._refuse_and_clear_nomination(
            pod_id, pod_info, Why(Reasons.PLUGIN_ERROR, error.plugin)
        )

    def _no_place(
        self, cycle: CycleState, key: ClassKey, pod_id: PodId, pod_info: PodInfo, found: NoPlace
    ) -> Unschedulable | None:
        """The refusal, after PostFilter where the profile has one; None if that has to start from
        each row's reason.
        """
        alone = pod_info.only_in is None  # else its group is tried: no member evicts by itself
        if found.codes is None and self.plan.post_filters and alone:
            return None
        # Pods of one class that meet the same fleet get the same message: it is written once.
        earlier = self._no_place_by_class.get(key)
        context = found.context
        if earlier is None or earlier.context is not context:
            absent = self._absent(cycle) if self.fleet.reasons.is_scarce else ()
            nodes = self.fleet.node_counts()
            earlier = no_place(pod_id, pod_info, self.fleet.now, context, nodes, absent)
            earlier.hints = self._hints(cycle, pod_info)
            self._no_place_by_class.put(key, earlier, key.said)
        refused = earlier.again(pod_id, pod_info, self.fleet.now)
        if self.future.known and alone:
            self._look_ahead(key, refused)
        may_help = alone and self.plan.post_filters and refused.waits_until is None
        if found.codes is not None and may_help:
            refused = self.post_filters.help(cycle, refused, key, found.codes)
        self._last_no_place = refused
        return refused

    def _look_ahead(self, key: ClassKey, refused: Unschedulable) -> None:
        """Add what autoscalers could do for the pod, unless no node whatever would help it. One
        that is promised room already does not wait for them.
        """
        if not all(one.nodes_help for one in refused.reasons):
            return
        pod_info = refused.pod_info
        outlook = self.future.outlook(key, pod_info)
        refused.hints = (*refused.hints, *self.future.hints(pod_info, outlook))
        refused.beyond_home = outlook.beyond_home
        if pod_info.pod.preempts and self.nominations.of(refused.pod_id) is None:
            refused.waits_until = self.future.waits_until(key, pod_info, outlook)

    def _hints(self, cycle: CycleState, pod_info: PodInfo) -> tuple[str, ...]:
        hints: list[str] = []
        for plugin in self.plan.filters:
            if not isinstance(plugin, ExplainsRefusals) or isinstance(
                state := cycle.read(plugin.name), Skip
            ):
                continue
            try:
                hints += guarded(plugin, plugin.explain_refusal, state, pod_info, self.view)
            except PluginError as error:
                self._faults.note(error)  # a refusal stands without them, too
        return tuple(hints)

    def _absent(self, cycle: CycleState) -> tuple[str, ...]:
        """Resources that the pod wants and no node has."""
        states = [(one, cycle.read(one.name)) for one in self.plan.room_filters]
        wanted = [one.wants(state) or () for one, state in states if not isinstance(state, Skip)]
        names = dict.fromkeys(name for some in wanted for name, _ in some)
        return tuple([name for name in names if self.fleet.axis.column(name) is None])
