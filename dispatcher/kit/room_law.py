"""The law of a filter by room: it refuses just where some lacks."""

from collections.abc import Iterator

import numpy as np

from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.scheduling.framework import FleetView, Plugin, Refuse, RoomFilter, Skip


def room_law(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    """What is wrong with what a plugin that filters by room says of it."""
    for pod_info in odd_pods():
        state = plugin.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse | Skip):
            continue
        if isinstance(plugin, RoomFilter):
            yield from _not_by_room(plugin, state, fleet)


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
