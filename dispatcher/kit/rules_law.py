"""The law of rules over counts: they say what the plugin's own methods say of single pods, and refuse
for reasons that it may have.
"""

from collections.abc import Callable, Iterator

import numpy as np

from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.scheduling.framework import (
    CountedPlugin,
    DomainPlugin,
    FleetView,
    Floats,
    Plugin,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.counted import normalized
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
)
from dispatcher.scheduling.framework.domains import tells_rules
from dispatcher.scheduling.framework.sound_rules import flaw_of
from shared.model.topology import HOST_LEVEL


class _Rules(CountedPlugin[CountRules]):
    """Says what rules say, before a scale."""

    name = "Rules"

    def class_key(self, pod_info: PodInfo) -> None:
        """Nobody asks."""

    def normalize(self, raw: Floats) -> Floats:
        """As they are."""
        return raw


_RULES = _Rules()


def rules_law(
    plugin: Plugin, fleet: FleetView, declared: Callable[[int], Iterator[str]]
) -> Iterator[str]:
    """What is wrong with the rules that a plugin tells; `declared`: with one of their codes."""
    if not (isinstance(plugin, DomainPlugin) and tells_rules(type(plugin))):
        return
    for pod_info in odd_pods():
        state = plugin.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse | Skip):
            continue
        rules = plugin.count_rules(state, pod_info, fleet)
        if rules is None:
            continue
        if flaw := flaw_of(rules, fleet.topology.domain(HOST_LEVEL), fleet.reasons):
            yield flaw
            continue
        if not all(_hosts_present(one, fleet) for one in rules.refusals):
            yield "present of a count by host must be the rows whose pods count"
        for code in _codes(rules):
            yield from declared(code)
        yield from _differs(plugin, state, rules, fleet)


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


def _differs(
    plugin: DomainPlugin, state: object, rules: CountRules, fleet: FleetView
) -> Iterator[str]:
    codes = plugin.filter(state, fleet, slice(0, fleet.n))
    if codes.tolist() != _RULES.filter(rules, fleet, slice(0, fleet.n)).tolist():
        yield "count_rules refuses other nodes than filter_parts, or for other reasons"
    rows = np.flatnonzero(fleet.nodes.live & (codes == 0))
    if not len(rows):
        return
    raw = plugin.score(plugin.pre_score_domains(state, fleet, rows), fleet, rows)
    told = _RULES.score(_RULES.pre_score_domains(rules, fleet, rows), fleet, rows)
    if raw.tolist() != told.tolist():
        yield "count_rules has other raw scores than score_parts"
    elif (
        plugin.normalize(raw).tolist()
        != normalized(told, rules.scale, rules.base, rules.void).tolist()
    ):
        yield "count_rules has another scale than normalize"
