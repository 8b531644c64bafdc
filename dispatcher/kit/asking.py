"""Ask one plugin about one pod, the way the scheduling cycle does."""

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Filter, Floats, Placed, Plugin, Refuse, Score, Skip

Node = tuple[str, str]  # cluster, node


def reasons(plugin: Plugin, placed: Placed, fleet: FleetState) -> dict[Node, str]:
    """(cluster, node) -> why not, for the nodes it refuses; under ("", "") if it refuses the pod itself."""
    state = plugin.pre_filter(placed, fleet)
    if isinstance(state, Refuse):
        return {("", ""): state.why.text}
    if isinstance(state, Skip) or not isinstance(plugin, Filter):
        return {}
    codes = plugin.filter(state, fleet, slice(0, fleet.n))
    rows = [row for row in np.flatnonzero(codes).tolist() if fleet.live[row]]
    return {fleet.name_of(row): fleet.reasons.why(int(codes[row])).text for row in rows}


def scores(plugin: Plugin, placed: Placed, fleet: FleetState) -> dict[Node, float]:
    """(cluster, node) -> score 0..100 of every node; empty if the plugin has nothing to say about the pod."""
    state = plugin.pre_filter(placed, fleet)
    if isinstance(state, Skip | Refuse) or not isinstance(plugin, Score):
        return {}
    rows = np.flatnonzero(fleet.live)
    found: Floats = plugin.score(state, fleet, rows)
    final = plugin.normalize(found) if plugin.normalizes else found
    return {fleet.name_of(row): float(value) for row, value in zip(rows.tolist(), final.tolist(), strict=True)}
