"""Ask one plugin about one pod, the way the scheduling cycle does."""

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    Filter,
    FleetView,
    Floats,
    Plugin,
    PodInfo,
    Refuse,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.lifecycle import PreScore

Node = tuple[str, str]  # cluster, node


def reasons(plugin: Plugin, pod_info: PodInfo, fleet: FleetState) -> dict[Node, str]:
    """(cluster, node) -> why not, for the nodes it refuses; under ("", "") if it refuses the pod
    itself.
    """
    view = view_of(fleet)
    state = plugin.pre_filter(pod_info, view)
    if isinstance(state, Refuse):
        return {("", ""): state.why.text}
    if isinstance(state, Skip) or not isinstance(plugin, Filter):
        return {}
    codes = plugin.filter(state, view, slice(0, fleet.n))
    rows = [row for row in np.flatnonzero(codes).tolist() if fleet.live[row]]
    return {fleet.name_of(row): fleet.reasons.why(int(codes[row])).text for row in rows}


def scores(plugin: Plugin, pod_info: PodInfo, fleet: FleetState) -> dict[Node, float]:
    """(cluster, node) -> score 0..100 of every node; empty if the plugin has nothing to say about
    the pod.
    """
    view = view_of(fleet)
    state = plugin.pre_filter(pod_info, view)
    if isinstance(state, Skip | Refuse) or not isinstance(plugin, Score):
        return {}
    rows = np.flatnonzero(fleet.live)
    state = prepared_for_score(plugin, state, pod_info, view)
    if isinstance(state, Skip):
        return {}
    found: Floats = plugin.score(state, view, rows)
    final = plugin.normalize(found) if plugin.normalizes else found
    return {
        fleet.name_of(row): float(value)
        for row, value in zip(rows.tolist(), final.tolist(), strict=True)
    }


def prepared_for_score(
    plugin: Plugin, state: object, pod_info: PodInfo, fleet: FleetView
) -> object:
    """What `score` is handed: PreFilter's `state`, or what PreScore makes of it as if all nodes
    were feasible.
    """
    if not isinstance(plugin, PreScore):
        return state
    return plugin.pre_score(state, pod_info, fleet, np.flatnonzero(fleet.nodes.live))


def answer_in_words(plugin: Plugin, pod_info: PodInfo, fleet: FleetView) -> str:
    """What it says, as text: no number is unequal to itself there."""
    state = plugin.pre_filter(pod_info, fleet)
    if isinstance(state, Refuse | Skip):
        return repr(state)
    rows = slice(0, fleet.n)
    codes = plugin.filter(state, fleet, rows).tolist() if isinstance(plugin, Filter) else []
    prepared = prepared_for_score(plugin, state, pod_info, fleet)
    if not isinstance(plugin, Score) or isinstance(prepared, Skip):
        return repr(codes)
    return repr([codes, plugin.score(prepared, fleet, rows).tolist()])
