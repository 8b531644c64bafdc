"""Batches of one class: as many pods as the merge places exactly, decided and booked in one go.

Nothing is done pod by pod but the choice of a row and its record. A batch is
1. as many of the first pods as nothing tells apart,
2. of a class that the merge can decide in advance (`count_merge`),
3. whose plugins check and book all of them at once, or do nothing for them.

All other pods are decided one by one (`Scheduler`).
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from dispatcher.scheduling.batch.count_merge import count_merge_of
from dispatcher.scheduling.batch.pod_variants import PodVariants, variants_of
from dispatcher.scheduling.cycle.assumed_pods import AssumedPods
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.framework import Depends, PodInfo, Skip
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import PluginError, guarded
from dispatcher.scheduling.framework.value_columns import taken
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import PodId
from shared.model.reasons import Reasons, Why

Result = Decision | Unschedulable
Item = tuple[PodId, PodInfo]
Enough = Callable[[], bool]
_WORTH_IT = 4  # pods; a merge costs about two decisions


class Batches:
    """The batches of one scheduler."""

    def __init__(self, books: AssumedPods, classes: EquivalenceCache) -> None:
        self._books = books
        self._plan = books.plan
        self._fleet = books.fleet
        self._classes = classes

    def ahead(
        self, key: ClassKey, items: Sequence[Item], *, alike: bool = False
    ) -> Sequence[Result]:
        """Decide and book as many of the first pods as the merge gives exactly; none where it does
        not pay or cannot be exact.

        `alike`: all are known to be of one template and home. Pods that bring the same have a class
        of their own that knows it.
        """
        if len(items) < _WORTH_IT:
            return ()
        if not key.brought:
            return self._ahead(key, items, alike=alike)
        try:
            keys = (self._plan.own_key(key, pod_info) for _, pod_info in items)
            first = next(keys)
            own = 1 + sum(1 for _ in takewhile(first.__eq__, keys))
        except PluginError:
            return ()  # decided alone, the pod meets the error again and says so
        found = self._ahead(key, items, alike=False) if own < len(items) else ()
        return found or self._ahead(first, items[:own], alike=False)

    def _ahead(self, key: ClassKey, items: Sequence[Item], *, alike: bool) -> Sequence[Result]:
        # later: the key as the fleet is now
        first = items[0][1]
        fleet_key = key
        try:
            items = items[: self._books.fitting(items)] if len(items) >= _WORTH_IT else ()
            if len(items) < _WORTH_IT:
                return ()
            items, variants = self._alike(key, items, alike=alike)
            if len(items) < _WORTH_IT:
                return ()
            fleet_key = self._plan.fleet_key(key, first, self._books.view)
            eq_class = self._classes.get(fleet_key)
            eq_class.refresh(first)
            if eq_class.refusal is not None or not eq_class.rows.feasible:
                return ()
            skipped = self._skipped_until_first(eq_class, first)
            if skipped and eq_class.brought:
                return ()
            if skipped:
                return self._first_and_rest(eq_class, items, variants, skipped)
            return self._decide_together(eq_class, items, variants)
        except PluginError:
            # decided alone, the pod meets the error again and says so
            self._classes.drop(fleet_key)
            return ()

    # --- 1. pods that nothing tells apart
    # ----------------------------------------------------------------------------------------------

    def _alike(
        self, class_key: ClassKey, items: Sequence[Item], *, alike: bool
    ) -> tuple[Sequence[Item], PodVariants]:
        """The first of these pods, as many as nothing is wrong with and have equal fleet keys, and
        their variants.

        A plugin whose fleet key rests on the template alone is asked for each kind, all others for
        each pod.
        """
        variants = variants_of(items, alike=alike)
        kinds = zip(variants.ats, variants.pods, strict=True)
        most = next((at for at, one in kinds if unfit(one, self._books) is not None), len(items))
        fleet = self._books.view
        asked = [plugin for _, plugin in class_key.asked.fleet_keyed]
        for plugin, by_template in self._plan.fleet_keys_alike:
            ats = variants.ats if by_template else range(len(items))
            others = [at for at in ats if 0 < at < most] if plugin in asked else []
            if not others:
                continue
            key = guarded(plugin, plugin.fleet_key, items[0][1], fleet)
            for at in others:
                if guarded(plugin, plugin.fleet_key, items[at][1], fleet) != key:
                    most = at
                    break
        return (items, variants) if most == len(items) else (items[:most], variants.first(most))

    # --- 2. of a class that the merge can decide
    # ----------------------------------------------------------------------------------------------

    def _skipped_until_first(
        self, eq_class: EquivalenceClass, pod_info: PodInfo
    ) -> list[PluginEvaluator]:
        """Plugins that skip the class now by counts which placing the pod changes: they may not
        skip the next pod.
        """
        return [
            one
            for one in eq_class.evaluators
            if one.skipped and any(self._fleet.moves(count, pod_info) for count, _ in one.versions)
        ]

    def _first_and_rest(
        self,
        eq_class: EquivalenceClass,
        items: Sequence[Item],
        variants: PodVariants,
        skipped: Sequence[PluginEvaluator],
    ) -> Sequence[Decision]:
        """Decide the first pod by the class as it is, and the others with the plugins that are
        `skipped` until it is placed; none where that is not exact.

        Example: four pods of a new app. App defaults skip the first: it goes to zone x. The merge
        scores all four by the spread that is active after the first; as it, too, puts the first pod
        on that row, its answers for the other three hold.
        """
        first = None if eq_class.explainers() else eq_class.select(*items[0])
        found: Sequence[Decision] = ()
        try:
            if isinstance(first, Decision) and eq_class.assume_first_placed(skipped, items[0][1]):
                found = self._decide_together(eq_class, items, variants, first)
        finally:
            if not found:
                eq_class.discard_assumed(skipped)
        return found

    def _decide_together(
        self,
        eq_class: EquivalenceClass,
        items: Sequence[Item],
        variants: PodVariants,
        first: Decision | None = None,
    ) -> Sequence[Decision]:
        """Decide and book what the merge decides. `first`: the first pod's decision, if that is
        known already; none if the merge puts it on another row.
        """
        if not self._books_together(eq_class, items, variants):
            return ()
        merge = count_merge_of(eq_class, variants, len(items))
        decisions = merge.decisions(items) if merge else []
        if first is not None and decisions:
            decisions = [first, *decisions[1:]] if decisions[0].row == first.row else []
        if merge and decisions:
            extras = self._books.explained(eq_class.explainers(), decisions, variants.ats)
            merge.explanation.extras = extras
            for name in [one.name for one in eq_class.asked.pod_explainers if one.name in extras]:
                if first is not None:
                    first.note(name, taken(extras[name], [0]).values(1)[0])
            alike = len(variants.ats) == 1
            self._books.book_all(decisions, eq_class.answer_of, eq_class.asked, alike=alike)
        return decisions

    # --- 3. whose plugins book them at once
    # ----------------------------------------------------------------------------------------------

    def _books_together(
        self, eq_class: EquivalenceClass, items: Sequence[Item], variants: PodVariants
    ) -> bool:
        """Whether the plugins that check, book or permit these pods can do so for all at once, or
        have nothing to do for them.

        What says SKIP of the first pod says so of its whole class.
        """
        books = self._books
        asked = eq_class.asked
        fleet = books.view
        bookers = [one for one in books.bulk_by_row if not books.skips(one, eq_class.answer_of)]
        if any(one.pod.volumes for one in variants.pods) and not bookers:
            return False
        moving = (
            one
            for one in (*asked.pod_plugins, *asked.reserves)
            if one.depends is not Depends.STATIC or one not in asked.pod_plugins
        )
        at_once = {one.name for one in bookers}
        others = (one for one in (*asked.late, *moving) if one.name not in at_once)
        if not all(books.skips(one, eq_class.answer_of) for one in others):
            return False
        alone = (one for one in asked.pod_plugins if one not in books.bulk)
        states = (guarded(one, one.pre_filter, variants.pods[0], fleet) for one in alone)
        if not all(isinstance(one, Skip) for one in states):
            return False
        pods = [one for _, one in items]
        if not all(
            guarded(one, one.fits, eq_class.answer_of(one.name), pods, fleet) == len(pods)
            for one in bookers
        ):
            return False
        ids = {pod_id for pod_id, _ in items}
        return len(ids) == len(items) and not self._fleet.placed_of(ids)


def unfit(pod_info: PodInfo, books: AssumedPods) -> Why | None:
    """What is wrong with the pod itself, or with those that it counts, before any node is looked
    at.
    """
    pod = pod_info.pod
    if pod.problems:
        return Why(Reasons.INVALID, "; ".join(pod.problems))
    if pod.gated:
        return Why(Reasons.GATED, ", ".join(pod.gates))
    uncertain = books.fleet.cut_labels.spread_by(pod_info, default=books.plan.spreads)
    return Why(Reasons.LABELS_CUT, uncertain) if uncertain else None


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
