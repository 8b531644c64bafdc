"""The laws of plugins with bounds: no score passes its upper bound, a filter by room refuses just
where some lacks.
"""

from collections.abc import Iterator

import numpy as np

from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.scheduling.framework import FleetView, Plugin, Refuse, Skip
from dispatcher.scheduling.framework.bounds import BoundedScore, RoomFilter
from dispatcher.scheduling.rules.requests import least_expected

_SLACK = 1e-6


def bound_laws(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    """What is wrong with the bounds of a plugin that has any."""
    for pod_info in odd_pods():
        state = plugin.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse | Skip):
            continue
        if isinstance(plugin, BoundedScore):
            yield from _passed(plugin, state, least_expected(pod_info), fleet)
        if isinstance(plugin, RoomFilter):
            yield from _not_by_room(plugin, state, fleet)


def _passed(
    plugin: BoundedScore, state: object, asked: tuple[int, int], fleet: FleetView
) -> Iterator[str]:
    rows = slice(0, fleet.n)
    one = plugin.upper_bound(fleet, rows, fleet.now + 10.0)
    if one is None:
        return
    milli, size = asked
    falls = np.minimum(one.cpu * milli, one.most_cpu) + np.minimum(
        one.memory * size, one.most_memory
    )
    if (plugin.score(state, fleet, rows) > one.base - falls + _SLACK).any():
        yield "a score is higher than its upper bound"


def _not_by_room(plugin: RoomFilter, state: object, fleet: FleetView) -> Iterator[str]:
    wanted = plugin.wants(state)
    if wanted is None:
        return
    room = np.ones(fleet.n, dtype=np.bool_)
    for name, amount in wanted:
        column = fleet.axis.column(name)
        room &= (
            False
            if column is None
            else fleet.nodes.allocatable[column] - fleet.nodes.requested[column] >= amount
        )
    refused = plugin.filter(state, fleet, slice(0, fleet.n)) != 0
    if refused[room].any():
        yield "filter refuses a node on which all that wants() tells of is free"
    if not refused[~room & fleet.nodes.live].all():
        yield "filter lets a node pass on which not all that wants() tells of is free"
