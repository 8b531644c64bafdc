"""A naive scheduler: one pod at a time, everything made anew from plain dicts for each, no caches, no increments.

It shares the plugin objects with the product, and the columns that plugins read, freshly filled; nothing else.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    CountedPlugin,
    CycleState,
    Filter,
    FleetView,
    Plugin,
    PodInfo,
    Profile,
    Refuse,
    Reserve,
    Score,
    Skip,
)
from shared.messages import LinkReading
from shared.model.node import Node, Reading
from shared.model.objects import Namespace, Service


@dataclass
class Seat:
    pod_info: PodInfo
    cluster: str
    node: str
    at: float
    turn: int


@dataclass
class World:
    """The truth as plain data."""

    clusters: dict[str, bool] = field(default_factory=dict)
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    readings: dict[tuple[str, str], list[tuple[float, Reading, int]]] = field(default_factory=dict)  # oldest first
    seats: dict[tuple[str, str], Seat] = field(default_factory=dict)
    namespaces: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # (cluster, name) -> labels
    links: list[tuple[float, str, LinkReading | None]] = field(default_factory=list)  # None: time passed
    services: dict[tuple[str, str], Service] = field(default_factory=dict)  # (cluster, key)
    now: float = 1000.0
    turns: int = 0

    def turn(self) -> int:
        self.turns += 1
        return self.turns

    def columns(self) -> FleetState:
        fleet = FleetState(now=self.now)
        for name, ready in self.clusters.items():
            fleet.set_cluster(name, ready=ready, synced=True)
        for (cluster, _), node in self.nodes.items():
            fleet.put_node(cluster, node)
        for (cluster, name), labels in self.namespaces.items():
            fleet.kept.put(cluster, Namespace(name, labels))
        for (cluster, _), service in self.services.items():
            fleet.kept.put(cluster, service)
        for at, cluster, measured in self.links:
            fleet.links.expire(at)
            fleet.links.take(cluster, [measured] if measured else (), at)
        turns: list[tuple[int, float, Callable[[], None]]] = []
        for pod_id, seat in self.seats.items():
            place = partial(fleet.place, pod_id, seat.pod_info, seat.cluster, seat.node, assumed=True)
            turns.append((seat.turn, seat.at, place))
        for (cluster, _), told in self.readings.items():
            turns += [(turn, at, partial(fleet.put_reading, cluster, reading)) for at, reading, turn in told]
        for _, at, happen in sorted(turns, key=lambda one: one[0]):
            fleet.now = at
            happen()
        fleet.now = self.now
        return fleet


def decide(world: World, profile: Profile, plugins: list[Plugin], pod_info: PodInfo) -> tuple[str, str] | None:
    """The (cluster, node) for one pod, or None; nothing is booked."""
    fleet = world.columns()
    view = view_of(fleet)
    weights = {use.name: use.weight for use in profile.plugins}
    states = {plugin.name: plugin.pre_filter(pod_info, view) for plugin in plugins}
    if any(isinstance(state, Refuse) for state in states.values()):
        return None
    heard = [plugin for plugin in plugins if not isinstance(states[plugin.name], Skip)]
    fits = fleet.live.copy()
    for plugin in heard:
        if isinstance(plugin, Filter):
            fits &= plugin.filter(states[plugin.name], view, slice(0, fleet.n)) == 0
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    totals = [0.0] * len(rows)
    for plugin in heard:
        if isinstance(plugin, Score):
            raw = plugin.score(score_state(plugin, states[plugin.name], view, rows), view, rows)
            value = plugin.normalize(raw) if plugin.normalizes else raw
            scaled = [round(one * weights[plugin.name] * 2**20) / 2**20 for one in value.tolist()]
            totals = [total + more for total, more in zip(totals, scaled, strict=True)]
    names = [fleet.name_of(int(row)) for row in rows]
    order = sorted(zip(totals, names, strict=True), key=lambda one: (-one[0], _rank(*one[1])))
    return order[0][1]


def score_state(plugin: Score, state: object, fleet: FleetView, rows: RowList) -> object:
    """PreFilter's state, as a policy by domains has it once the feasible rows are known."""
    return plugin.pre_score_domains(state, fleet, rows) if isinstance(plugin, CountedPlugin) else state


def schedule(
    world: World, profile: Profile, plugins: list[Plugin], pod_info: PodInfo, pod_id: tuple[str, str]
) -> tuple[str, str] | None:
    """Decide one pod and book it."""
    found = decide(world, profile, plugins, pod_info)
    if found is None:
        return None
    for plugin in plugins:
        if isinstance(plugin, Reserve):
            assert plugin.reserve(CycleState(), pod_info, 0, view_of(world.columns())) is None
    world.seats[pod_id] = Seat(pod_info, *found, at=world.now, turn=world.turn())
    return found


def _rank(cluster: str, node: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{cluster}/{node}".encode(), digest_size=8).digest(), "big") >> 1


def numbered(pod_info: PodInfo, number: int) -> tuple[tuple[str, str], PodInfo]:
    """The same pod under another uid and name."""
    uid = f"u{number}"
    one = msgspec.structs.replace(pod_info.pod, uid=uid, name=f"p{number}")
    return (pod_info.home, uid), msgspec.structs.replace(pod_info, pod=one)
