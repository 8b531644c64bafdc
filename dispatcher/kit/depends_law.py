"""The law of `depends`: what one placement may change in a plugin's answers, checked by placing a
pod.
"""

from collections.abc import Iterator

import numpy as np

from dispatcher.kit.call_plugin import prepared_for_score
from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.kit.samples import a_pod, seat
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.framework import (
    Depends,
    Filter,
    FleetView,
    Plugin,
    PodInfo,
    Refuse,
    Score,
    Skip,
)

_CHANGED = {Depends.STATIC: "any row", Depends.NODE: "rows of other nodes"}


def stale_law(plugin: Plugin, fleet: FleetState) -> Iterator[str]:
    """Of a STATIC plugin no row may change, of a NODE plugin the touched one alone. Seats a pod on
    the first node.

    Counts, volumes and objects are excused: a plugin that reads these through its view is asked
    anew when they move.
    """
    if plugin.depends not in _CHANGED:
        return
    observed = Observed()
    view = ObservedView(fleet, observed)
    pods = odd_pods()
    states = [plugin.pre_filter(pod_info, view) for pod_info in pods]
    before = [_answers(plugin, *asked, view) for asked in zip(states, pods, strict=True)]
    if observed.counts or observed.kinds:
        return
    cluster, node = fleet.name_of(0)
    seat(
        fleet,
        a_pod("placed-now", wants={"cpu": "250m", "memory": "64Mi"}, home=cluster),
        cluster,
        node,
    )
    first = 0 if plugin.depends is Depends.STATIC else 1
    for asked, told in zip(zip(states, pods, strict=True), before, strict=True):
        if not np.array_equal(
            told[:, first:], _answers(plugin, *asked, view)[:, first:], equal_nan=True
        ):
            yield (
                f"depends is {plugin.depends.name}, but a placement changes its answers for "
                f"{_CHANGED[plugin.depends]}: they would be cached for too long"
            )
            return


def _answers(
    plugin: Plugin, state: object, pod_info: PodInfo, view: FleetView
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """[2, n] its code and its raw score of each row, 0 where it has none."""
    told = np.zeros((2, view.n))
    rows = slice(0, view.n)
    if isinstance(state, Refuse | Skip):
        return told
    if isinstance(plugin, Filter):
        told[0] = plugin.filter(state, view, rows)
    prepared = prepared_for_score(plugin, state, pod_info, view)
    if isinstance(plugin, Score) and not isinstance(prepared, Skip):
        told[1] = plugin.score(prepared, view, rows)
    return told
