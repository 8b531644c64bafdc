"""How each kind of fault is done to a world, and undone: a table, filled by the modules beside."""

from tests.simulation.acts import (
    clusters,
    disasters,
    hostile,
    network,
    nodes,
    objects,
    people,
    processes,
    refusals,
    secrets,
)
from tests.simulation.acts.table import ACTS, Act, Stage, config_map, naming, plain_pod, spread_by_zone

__all__ = [
    "ACTS",
    "Act",
    "Stage",
    "clusters",
    "config_map",
    "disasters",
    "hostile",
    "naming",
    "network",
    "nodes",
    "objects",
    "people",
    "plain_pod",
    "processes",
    "refusals",
    "secrets",
    "spread_by_zone",
]
