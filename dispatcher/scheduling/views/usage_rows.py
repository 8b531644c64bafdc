"""What each cluster has, what pods request of it and what is measured there, as plain JSON-ready
rows.
"""

import numpy as np

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.fleet.columns import RowList, exact_sums
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.views.pieces import Pieces, Row
from shared.model.resources import CPU, MEMORY, PODS, format_quantity
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

_SIZE_OF = {
    CPU_SIGNAL: CPU,
    MEMORY_SIGNAL: MEMORY,
}  # signal -> the resource by which a large node counts for more


def usage_view(core: SchedulerCore) -> Pieces:
    """One row, and piece, a cluster: requests against what its nodes can allocate, and its live
    load by signal.

    `used` is the mean over nodes whose reading is known (`known` of `nodes`), weighted by their
    size for cpu and memory; `age_s` the age of the oldest of these readings, `hottest` the node
    with the highest.
    """
    for name in sorted(core.clusters):
        yield [_cluster_row(core, name)]


def _cluster_row(core: SchedulerCore, name: str) -> Row:
    fleet = core.fleet
    found = (fleet.row_of(name, node) for node in fleet.node_names(name))
    rows = np.fromiter((row for row in found if row is not None), dtype=np.intp)
    return {
        "cluster": name,
        "ready": core.clusters[name].ready,
        "nodes": len(rows),
        **{resource: _use(fleet, rows, resource) for resource in (CPU, MEMORY, PODS)},
        "load": {signal: _load(fleet, rows, signal) for signal in fleet.signal_axis.names},
    }


def _use(fleet: FleetState, rows: RowList, resource: str) -> Row:
    column = fleet.axis.column(resource)
    if column is None or column >= len(fleet.requested):
        return {"requested": "0", "allocatable": "0", "share": None}
    (requested,) = exact_sums(fleet.requested[column : column + 1, rows])
    (allocatable,) = exact_sums(fleet.allocatable[column : column + 1, rows])
    return {
        "requested": format_quantity(resource, requested),
        "allocatable": format_quantity(resource, allocatable),
        "share": round(requested / allocatable, 4) if allocatable else None,
    }


def _load(fleet: FleetState, rows: RowList, signal: str) -> Row:
    used = fleet.signals.used(signal)[rows].astype(np.float64)
    known = rows[~np.isnan(used)]
    if not len(known):
        return {"used": None, "age_s": None, "known": 0, "hottest": None, "sources": []}
    used = used[~np.isnan(used)]
    hottest = int(used.argmax())
    return {
        "used": round(float(np.average(used, weights=_sizes(fleet, known, signal))), 4),
        "age_s": round(float((fleet.now - fleet.signals.sampled_at(signal)[known]).max()), 1),
        "known": len(known),
        "hottest": {
            "node": fleet.name_of(int(known[hottest]))[1],
            "used": round(float(used[hottest]), 4),
        },
        "sources": _sources(fleet, known, signal),
    }


def _sizes(fleet: FleetState, rows: RowList, signal: str) -> Floats:
    """Weights of the mean, none of them 0 together."""
    column = fleet.axis.column(_SIZE_OF.get(signal, ""))
    if column is None:
        return np.ones(len(rows))
    sizes: Floats = fleet.allocatable[column, rows].astype(np.float64)
    return sizes if sizes.any() else np.ones(len(rows))


def _sources(fleet: FleetState, rows: RowList, signal: str) -> list[str]:
    codes = np.unique(fleet.source_set[rows]).tolist()
    return sorted({fleet.source_sets[code].get(signal, "") for code in codes} - {""})
