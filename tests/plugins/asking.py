"""Ask one plugin about one pod, the way the cycle does."""

from typing import Any

import numpy as np

from dispatcher.plugins.registry import REGISTRY, PluginContext
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import SKIP, CountedPlugin, PodInfo, Refuse
from shared.model.reasons import Why
from tests.builders import PodBuilder


def make(name: str, **args: Any) -> Any:
    """A plugin from the registry with its arguments as a profile writes them."""
    return REGISTRY[name].make(args, PluginContext())


def as_placed(pod: PodBuilder | PodInfo) -> PodInfo:
    return pod.placed() if isinstance(pod, PodBuilder) else pod


def state_of(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> Any:
    return plugin.pre_filter(as_placed(pod), view_of(fleet))


def codes_of(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> Any:
    """[n] the reason codes of its filter."""
    return plugin.filter(state_of(plugin, pod, fleet), view_of(fleet), slice(0, fleet.n))


def refused(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> str:
    """The text of a refusal in PreFilter, empty for none."""
    state = state_of(plugin, pod, fleet)
    return state.why.text if isinstance(state, Refuse) else ""


def whys(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> dict[str, tuple[Why, ...]]:
    """node -> why not, for the nodes that the filter refuses; asked for all rows and row by row, with one answer."""
    state = state_of(plugin, pod, fleet)
    assert not isinstance(state, Refuse)
    if state is SKIP:
        return {}
    codes = plugin.filter(state, view_of(fleet), slice(0, fleet.n))
    one_by_one = [plugin.filter(state, view_of(fleet), np.asarray([row]))[0] for row in range(fleet.n)]
    assert codes.dtype == np.uint16
    assert codes.tolist() == one_by_one
    return {
        _node(fleet, row): fleet.reasons.whys(int(code)) for row, code in enumerate(codes) if code and fleet.live[row]
    }


def reasons(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> dict[str, str]:
    """The same in words, as the pod is told."""
    return {node: ", ".join(why.text for why in refused) for node, refused in whys(plugin, pod, fleet).items()}


def raw_scores(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> dict[str, float]:
    """node -> raw score; asked for all rows and row by row, with one answer."""
    state = state_of(plugin, pod, fleet)
    if state is SKIP:
        return {}
    if isinstance(plugin, CountedPlugin):
        state = plugin.pre_score_domains(state, view_of(fleet), np.flatnonzero(fleet.live))
    raw = plugin.score(state, view_of(fleet), slice(0, fleet.n))
    one_by_one = [plugin.score(state, view_of(fleet), np.asarray([row]))[0] for row in range(fleet.n)]
    assert np.isfinite(raw).all()
    assert raw.tolist() == one_by_one
    return {_node(fleet, row): float(value) for row, value in enumerate(raw) if fleet.live[row]}


def scores(plugin: Any, pod: PodBuilder | PodInfo, fleet: FleetState) -> dict[str, float]:
    """node -> score 0..100, rounded to a thousandth."""
    raw = raw_scores(plugin, pod, fleet)
    values = np.asarray(list(raw.values()))
    if plugin.normalizes and raw:
        values = plugin.normalize(values)
    assert ((values >= -1e-9) & (values <= 100 + 1e-9)).all()
    return dict(zip(raw, np.round(values, 3).tolist(), strict=True))


def _node(fleet: FleetState, row: int) -> str:
    cluster, node = fleet.name_of(row)
    return node if len(fleet.clusters) == 1 else f"{cluster}/{node}"
