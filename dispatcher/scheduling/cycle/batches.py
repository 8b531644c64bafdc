"""Batches of one class: as many pods as batch lookahead places exactly, decided in one go.

Where no plugin reads the fleet or single pods meanwhile, all of them are written to the fleet at
the end. Where no plugin has to check or book them one by one, either, nothing is done pod by pod
but the choice of a row and its record.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Protocol

from dispatcher.scheduling.batch.count_merge import count_merge_of
from dispatcher.scheduling.batch.lookahead import lookahead_of
from dispatcher.scheduling.batch.pod_variants import PodVariants, variants_of
from dispatcher.scheduling.cycle.assumed_pods import AssumedPods
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.framework import Depends, PodInfo, Skip
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import PluginError, ReservesRows, guarded
from dispatcher.scheduling.place_finder import BatchPlaceFinder, PlaceFinder
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import PodId
from shared.model.reasons import Reason, Why

Result = Decision | Unschedulable
Item = tuple[PodId, PodInfo]
Enough = Callable[[], bool]
_WORTH_IT = 4  # pods; looking ahead costs about two decisions


class _SelectAndBook(Protocol):
    def __call__(
        self,
        key: ClassKey,
        pod_id: PodId,
        pod_info: PodInfo,
        finders: Iterable[PlaceFinder],
        deferred: list[int] | None = None,
    ) -> Result | None:
        """See `Scheduler._select_and_book`."""
        ...


class Batches:
    """The batches of one scheduler. `select_and_book` decides a single pod, with all plugins of all
    points.
    """

    def __init__(
        self, books: AssumedPods, classes: EquivalenceCache, select_and_book: _SelectAndBook
    ) -> None:
        self._books = books
        self._plan = books.plan
        self._fleet = books.fleet
        self._classes = classes
        self._select_and_book = select_and_book
        self._booking = (*self._plan.pod_plugins, *self._plan.reserves)

    def ahead(self, key: ClassKey, items: Sequence[Item], *, alike: bool = False) -> list[Result]:
        """As many of the first pods as looking ahead gives exactly; none where it does not pay or
        cannot be exact.

        `alike`: all are known to be of one template and home. Pods of one home alone have a class
        that knows what they bring.
        """
        if not key.brought:
            return self._ahead(key, items, alike=alike)
        homes = [pod_info.home for _, pod_info in items]
        own = sum(1 for _ in takewhile(homes[0].__eq__, homes))
        found = self._ahead(key, items, alike=False) if own < len(homes) else []
        if found:
            return found
        try:
            key = self._plan.own_key(key, items[0][1])
        except PluginError:
            return []  # decided alone, the pod meets the error again and says so
        return self._ahead(key, items[:own], alike=False)

    def _ahead(self, key: ClassKey, items: Sequence[Item], *, alike: bool) -> list[Result]:
        # later: the key as the fleet is now
        first = items[0][1]
        fleet_key = key
        try:
            items = items[: self._books.fitting(items)] if len(items) >= _WORTH_IT else ()
            if len(items) < _WORTH_IT:
                return []
            fleet_key = self._plan.fleet_key(key, first, self._books.view)
            eq_class = self._classes.get(fleet_key)
            eq_class.refresh(first)
        except PluginError:
            self._classes.drop(
                fleet_key
            )  # decided alone, the pod meets the error again and says so
            return []
        hopeless = bool(self._plan.post_filters) and not eq_class.rows.feasible
        if hopeless or eq_class.refusal is not None:
            return []
        items, variants = self._equal_prefix(items, variants_of(items, alike=alike))
        if len(items) < _WORTH_IT:
            return []
        if skipped := self._skipped_until_first(eq_class, first):
            if eq_class.brought:
                return []
            return self._first_and_rest(eq_class, fleet_key, items, variants, skipped)
        return self._with_active_plugins(eq_class, key, fleet_key, items, variants)

    def _with_active_plugins(
        self,
        eq_class: EquivalenceClass,
        key: ClassKey,
        fleet_key: ClassKey,
        items: Sequence[Item],
        variants: PodVariants,
    ) -> list[Result]:
        """Decide pods whose keys are `key` and, with what the fleet holds, `fleet_key`, by the
        plugins active now.
        """
        deferred, finder = self._finder(eq_class, items, variants)
        if finder is None:
            return []
        if deferred:
            return self._decide_together(eq_class, fleet_key, items, variants, finder)
        results: list[Result] = []
        for pod_id, pod_info in items:
            if finder.spent() or (results and not self._keeps_fleet_key(key, fleet_key, pod_info)):
                break
            result = self._select_and_book(fleet_key, pod_id, pod_info, (finder,))
            if result is None:
                break
            results.append(result)
        return results

    def _finder(
        self, eq_class: EquivalenceClass, items: Sequence[Item], variants: PodVariants
    ) -> tuple[bool, BatchPlaceFinder | None]:
        """Whether the pods may be written to the fleet at the end, and the finder that finds their
        places.
        """
        merge = count_merge_of(eq_class, variants, len(items))
        deferred = self._may_defer(eq_class, items, variants, counted=merge is not None)
        if merge or eq_class.brought:
            return deferred, merge
        finder = lookahead_of(eq_class, variants.pods, len(items), deferred=deferred)
        if (
            deferred
            and finder is not None
            and not finder.selects_all()
            and self._row_bookers(eq_class)
        ):
            return False, lookahead_of(eq_class, variants.pods, len(items), deferred=False)
        return deferred, finder

    # --- which pods
    # ----------------------------------------------------------------------------------------------

    def _keeps_fleet_key(self, key: ClassKey, fleet_key: ClassKey, pod_info: PodInfo) -> bool:
        """Whether a pod of class `key` still has this fleet key, after what was placed since it was
        found.
        """
        try:
            return (
                not self._plan.fleet_keyed
                or self._plan.fleet_key(key, pod_info, self._books.view) == fleet_key
            )
        except PluginError:
            return False  # decided alone, it meets the error again

    def _equal_prefix(
        self, items: Sequence[Item], variants: PodVariants
    ) -> tuple[Sequence[Item], PodVariants]:
        """The first of these pods, as many as have equal fleet keys, and their variants.

        A plugin whose fleet key rests on the template alone is asked for each kind, all others for
        each pod.
        """
        fleet = self._books.view
        try:
            for plugin, by_template in self._plan.fleet_keys_alike:
                key_of, first = plugin.fleet_key, plugin.fleet_key(items[0][1], fleet)
                pods = (
                    zip(variants.ats, variants.pods, strict=True)
                    if by_template
                    else enumerate(one for _, one in items)
                )
                other = next(
                    (at for at, pod_info in pods if key_of(pod_info, fleet) != first), len(items)
                )
                if other < len(items):
                    items, variants = items[:other], variants.first(other)
        except Exception:  # decided alone, the pod meets the error again
            return items[:1], variants.first(1)
        return items, variants

    def _skipped_until_first(
        self, eq_class: EquivalenceClass, pod_info: PodInfo
    ) -> list[PluginEvaluator]:
        """Plugins that skip the class now by counts which placing the pod changes: they may not
        skip the next pod.
        """
        skipped = [one for one in eq_class.evaluators if one.versions and one.skipped]
        return [
            one
            for one in skipped
            if any(self._fleet.moves(count, pod_info) for count, _ in one.versions)
        ]

    def _may_defer(
        self,
        eq_class: EquivalenceClass,
        items: Sequence[Item],
        variants: PodVariants,
        *,
        counted: bool,
    ) -> bool:
        """Whether no plugin reads the fleet before all of `items` are decided, so that it may be
        written once.

        `counted`: plugins that read counts of pods know what these pods add to them.
        """
        if not counted and (
            eq_class.fleet_explainers
            or eq_class.beyond_row
            or any(evaluator.versions for evaluator in eq_class.evaluators)
        ):
            return False
        looking = (one for one in self._booking if one.depends is not Depends.STATIC)
        bookers = self._row_bookers(eq_class)
        if any(one.pod.volumes for one in variants.pods) and not bookers:
            return False
        names = {one.name for one in bookers}
        others = (one for one in (*self._books.late, *looking) if one.name not in names)
        if not all(self._books.skips(one, eq_class.answer_of) for one in others):
            return False
        if bookers and not self._in_bulk(eq_class, variants):
            return False
        if bookers and not self._independent(eq_class, bookers, [one for _, one in items]):
            return False
        ids = {pod_id for pod_id, _ in items}
        return len(ids) == len(items) and self._fleet.are_nowhere(ids)

    def _row_bookers(self, eq_class: EquivalenceClass) -> list[ReservesRows]:
        """The Reserve plugins that book something for pods of the class, each on its row, and can
        for a whole batch.

        Where they do not book the whole batch at once, each pod is written to the fleet before the
        next is decided.
        """
        return [
            one for one in self._books.bulk_by_row if not self._books.skips(one, eq_class.answer_of)
        ]

    def _independent(
        self, eq_class: EquivalenceClass, bookers: Sequence[ReservesRows], pods: Sequence[PodInfo]
    ) -> bool:
        """Whether what these book for one of the pods changes no answer about another."""
        try:
            return all(
                guarded(one, one.are_independent, eq_class.answer_of(one.name), pods)
                for one in bookers
            )
        except PluginError:
            return False  # decided pod by pod, they meet it again

    def _in_bulk(self, eq_class: EquivalenceClass, variants: PodVariants) -> bool:
        """Whether nothing is wrong with any of these pods, and no pod plugin checks or books them
        one by one.

        It is asked of the first pod alone: SKIP holds for a whole class.
        """
        if any(unfit(pod_info, self._books) is not None for pod_info in variants.pods):
            return False
        first = variants.pods[0]
        fleet = self._books.view
        try:
            alone = (one for one in self._plan.pod_plugins if one not in self._books.bulk)
            states = [guarded(one, one.pre_filter, first, fleet) for one in alone]
        except PluginError:
            return False  # decided alone, the pods meet the error again
        skipped = all(isinstance(one, Skip) for one in states)
        by_class = (one for one in self._plan.reserves if one not in self._plan.pod_plugins)
        bookers = [one for one in by_class if not self._books.skips(one, eq_class.answer_of)]
        return skipped and all(one in self._books.bulk_by_row for one in bookers)

    # --- deciding
    # ----------------------------------------------------------------------------------------------

    def _first_and_rest(
        self,
        eq_class: EquivalenceClass,
        key: ClassKey,
        items: Sequence[Item],
        variants: PodVariants,
        skipped: Sequence[PluginEvaluator],
    ) -> list[Result]:
        """Decide the first pod by the class as it is, and the others with the plugins that are
        `skipped` until it is placed, all booked together; [] where that is not exact, where each
        pod has to be written to the fleet before the next one, or for too few pods.

        Example: four pods of a new app. App defaults skip the first: it goes to zone x. The merge
        scores all four by the spread that is active after the first; as it, too, puts the first pod
        on that row, its answers for the other three hold.
        """
        found = list[Result]()
        if len(items) <= _WORTH_IT:
            return found
        try:
            first = None if eq_class.fleet_explainers else eq_class.select(*items[0])
            if isinstance(first, Decision) and eq_class.assume_first_placed(skipped, items[0][1]):
                merge = count_merge_of(eq_class, variants, len(items))
                if (
                    merge
                    and self._may_defer(eq_class, items, variants, counted=True)
                    and self._in_bulk(eq_class, variants)
                ):
                    found = self._book_at_once(items, variants, merge, first)
        except PluginError:
            self._classes.drop(key)  # decided alone, the pod meets the error again and says so
        if not found:
            eq_class.discard_assumed(skipped)
        return found

    def _decide_together(
        self,
        eq_class: EquivalenceClass,
        key: ClassKey,
        items: Sequence[Item],
        variants: PodVariants,
        finder: BatchPlaceFinder,
    ) -> list[Result]:
        """Decide pods that may be written to the fleet at the end."""
        at_once = finder.selects_all() and self._in_bulk(eq_class, variants)
        found = self._book_at_once(items, variants, finder) if at_once else []
        return (
            found
            if found or self._row_bookers(eq_class)
            else self._decide_deferred(key, items, finder)
        )

    def _book_at_once(
        self,
        items: Sequence[Item],
        variants: PodVariants,
        finder: BatchPlaceFinder,
        first: Decision | None = None,
    ) -> list[Result]:
        """Book what `finder` decides for all. `first`: the first pod's decision, if that is known
        already; [] if `finder` puts it on another row.
        """
        decisions = finder.select_all(items)
        if first is not None and decisions:
            decisions = [first, *decisions[1:]] if decisions[0].row == first.row else []
        try:
            if decisions:
                self._books.book_all(decisions, finder.answer_of, alike=len(variants.ats) == 1)
        except PluginError:
            return []  # decided alone, the pods meet the error again
        return list(decisions)

    def _decide_deferred(
        self, key: ClassKey, items: Sequence[Item], finder: BatchPlaceFinder
    ) -> list[Result]:
        """Decide pod by pod; all are written to the fleet at the end."""
        results: list[Result] = []
        rows: list[int] = []
        for item in items:
            if finder.spent():
                break
            result = self._select_and_book(key, *item, (finder,), rows)
            if result is None:
                break
            results.append(result)
        newcomers = [items[at] for at, result in enumerate(results) if isinstance(result, Decision)]
        if newcomers:
            self._fleet.assume_all(newcomers, rows)
        return results


def unfit(pod_info: PodInfo, books: AssumedPods) -> Why | None:
    """What is wrong with the pod itself, or with those that it counts, before any node is looked
    at.
    """
    pod = pod_info.pod
    if pod.problems:
        return Why(Reason.INVALID, "; ".join(pod.problems))
    if pod.gated:
        return Why(Reason.GATED, ", ".join(pod.gates))
    uncertain = books.fleet.cut_labels.spread_by(pod_info, default=books.plan.spreads)
    return Why(Reason.LABELS_CUT, uncertain) if uncertain else None


def never() -> bool:
    """All are decided."""
    return False


def decide_each(
    decide: Callable[[PodId, PodInfo], Result], items: Sequence[Item], enough: Enough
) -> list[Result]:
    """Decide the first pod, and others until it is enough."""
    results = list[Result]()
    for item in items:
        if results and enough():
            break
        results.append(decide(*item))
    return results
