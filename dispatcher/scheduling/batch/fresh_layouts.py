"""Bucket layouts of classes that have no pods yet, computed once for all classes of one shape.

Most batches are of a new app: none of its pods counts anywhere. While no node changes and no policy
refuses by counts, the buckets of two such classes differ in nothing if their feasible nodes (all,
or the same few, as of groups in one rack), domains, score terms and weights are the same. Example:
Deployments `web` and `api` with App defaults, 20 pods each: the second takes a copy of the layout
that the first began with, at a small part of the time.
"""

from collections.abc import Hashable, Iterable

import numpy as np

from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules, bucket_layout_of
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.framework.domain_counts import RuleCount, ScoreTerm

_MOST_KEPT = 32  # shapes
_FEW = 1024  # feasible nodes, that are compared
_MADE_AHEAD = 16  # buckets whose next ones are made before the layout is kept


def layout_of(
    eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int
) -> BucketLayout | None:
    """As `bucket_layout_of`, from what is kept for the shape of the class if none of its pods
    counts yet.
    """
    terms = [term for _, rules in plugin_rules for term in rules.score_terms]
    if not _is_fresh(eq_class, plugin_rules, terms):
        return bucket_layout_of(eq_class, plugin_rules, count)
    kept = eq_class.partitions.memo()
    shape = _shape_of(eq_class, plugin_rules, count)
    if shape not in kept:
        layout = bucket_layout_of(eq_class, plugin_rules, count)
        if layout is None or layout.sorting.leading:  # `leading` goes by the scores of this class
            return layout
        for bucket in range(min(layout.begun, _MADE_AHEAD)):
            layout.after(bucket)
        if not any(len(one.values) > 1 for one in eq_class.normalizing):
            layout.normalize(eq_class.normalizing, open_alone=False)
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        # A shape names objects by their ids: they are kept with it, so that no other object can
        # come to have the same.
        values = [
            one.value for one in eq_class.normalizing
        ]  # a column may get another array while no node changes
        kept[shape] = layout, (list(plugin_rules), terms, list(eq_class.normalizing), values)
    found: BucketLayout = kept[shape][0]
    return found.copy()


def _is_fresh(
    eq_class: EquivalenceClass, plugin_rules: PluginRules, terms: Iterable[ScoreTerm]
) -> bool:
    """Whether all nodes are feasible or few are, no rule refuses by counts, and all counts are 0."""
    rows = eq_class.rows
    if _FEW < rows.feasible < rows.evaluated or any(rules.refusals for _, rules in plugin_rules):
        return False
    return not any(np.count_nonzero(term.domain_count.counts) for term in terms)


def _shape_of(eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int) -> Hashable:
    """All that buckets depend on, beside the nodes."""
    plugins = tuple([
        (
            id(evaluator.role),
            (rules.base, rules.void, rules.sized, rules.needs_all_domains, rules.scale),
            tuple([(*_domains_of(term.domain_count), term.factor, term.offset, term.elsewhere,
                    None if term.table is None else term.table.tobytes())
                   for term in rules.score_terms]),
        )
        for evaluator, rules in plugin_rules
    ])  # fmt: skip
    columns = tuple([(id(one), id(one.value), tuple(one.values)) for one in eq_class.normalizing])
    rows = eq_class.rows
    few = rows.feasible_rows().tobytes() if rows.feasible < rows.evaluated else b""
    return plugins, columns, count, bool(eq_class.brought), few


def _domains_of(count: RuleCount) -> tuple[Hashable, ...]:
    return id(count.domain), id(count.counted), len(count.counts), count.more, count.by_host
