"""How each kind of fault is done to a world, and undone: a table, filled by the modules beside."""

from tests.simulation.acts import clusters, disasters, hostile, network, nodes, people, processes, refusals
from tests.simulation.acts.table import ACTS, Act, Stage, plain_pod, spread_by_zone

__all__ = [
    "ACTS",
    "Act",
    "Stage",
    "clusters",
    "disasters",
    "hostile",
    "network",
    "nodes",
    "people",
    "plain_pod",
    "processes",
    "refusals",
    "spread_by_zone",
]
