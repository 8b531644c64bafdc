"""Buckets of batches whose pods count nowhere yet, made once for all classes of one shape.

A new app has no pods, so its batch differs from that of any other new app in counts that are to come alone: while no
node changes, all nodes are feasible and its policies refuse nothing, classes with the same domains, terms of scores and
weights begin with the very same buckets, and take a copy.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from dispatcher.scheduling.batch.buckets import BucketLayout, PluginRules, bucket_layout_of
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass

_MOST_KEPT = 32  # shapes
_MADE_AHEAD = 16  # buckets whose next ones are made before they are kept


def layout_of(eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int) -> BucketLayout | None:
    """As `bucket_layout_of`: a copy of what is kept for the shape of the class, if its pods count nowhere yet."""
    rows = eq_class.rows
    if rows.feasible < rows.evaluated or any(said.refusals for _, said in plugin_rules):
        return bucket_layout_of(eq_class, plugin_rules, count)
    terms = [term for _, said in plugin_rules for term in said.score_terms]
    if any(np.count_nonzero(term.domain_count.counts) for term in terms):
        return bucket_layout_of(eq_class, plugin_rules, count)
    known, shape = eq_class.partitions.kept_beside(), _shape_of(eq_class, plugin_rules, count)
    found = known.get(shape)
    if found is None:
        layout = bucket_layout_of(eq_class, plugin_rules, count)
        if layout is None or layout.sorting.leading:
            return layout
        for bucket in range(min(layout.begun, _MADE_AHEAD)):
            layout.after(bucket)
        if len(known) >= _MOST_KEPT:
            known.clear()
        # What the shape knows by its id is kept, so that nothing else can come to have the same.
        found = known[shape] = layout, (list(plugin_rules), terms, list(eq_class.normalizing))
    kept: BucketLayout = found[0]
    return kept.copy()


def _shape_of(eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int) -> Hashable:
    """All that buckets rest on, beside the nodes."""
    plugins = [
        (
            id(one.role),
            (said.base, said.void, said.sized, said.needs_all_domains, said.scale),
            tuple([(*_domains_of(term.domain_count), term.factor, term.offset, term.elsewhere)
                   for term in said.score_terms]),
        )
        for one, said in plugin_rules
    ]  # fmt: skip
    columns = [(id(one), id(one.value), tuple(one.values)) for one in eq_class.normalizing]
    return tuple(plugins), tuple(columns), count


def _domains_of(found: Any) -> tuple[Hashable, ...]:
    return id(found.domain), id(found.counted), len(found.counts), found.more, found.by_host
