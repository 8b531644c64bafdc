"""The law of rules over counts: they are sound, and refuse for reasons that the plugin may have."""

from collections.abc import Callable, Iterator

import numpy as np

from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.scheduling.framework import (
    CountedPlugin,
    FleetView,
    Plugin,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
)
from dispatcher.scheduling.framework.sound_rules import flaw_of
from shared.model.topology import HOST_LEVEL


def rules_law(
    plugin: Plugin, fleet: FleetView, declared: Callable[[int], Iterator[str]]
) -> Iterator[str]:
    """What is wrong with the rules that a plugin tells; `declared`: with one of their codes."""
    if not isinstance(plugin, CountedPlugin):
        return
    for pod_info in odd_pods():
        state = plugin.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse | Skip):
            continue
        rules = plugin.checked_rules(state, fleet)
        if flaw := flaw_of(rules, fleet.topology.domain(HOST_LEVEL), fleet.reasons):
            yield flaw
            continue
        if not all(_hosts_present(one, fleet) for one in rules.refusals):
            yield "present of a count by host must be the rows whose pods count"
        for code in _codes(rules):
            yield from declared(code)


def _codes(rules: CountRules) -> set[int]:
    """All that they may refuse for, here or where other nodes and pods are."""
    elsewhere = {one.elsewhere for one in rules.refusals if isinstance(one, MaxCount)} - {0}
    return {one.code for one in rules.refusals} | elsewhere


def _hosts_present(rule: MaxCount | RequiredCount, fleet: FleetView) -> bool:
    count = rule.domain_count
    if not isinstance(rule, MaxCount) or rule.present is None or not count.by_host:
        return True
    counted = np.ones(fleet.n, dtype=np.bool_) if count.counted is None else count.counted != 0
    live = fleet.nodes.live
    return np.array_equal(rule.present[: fleet.n][live], counted[live])
