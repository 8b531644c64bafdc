"""What is known of each node: room, live load, and by what it is hot."""

import math

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.derived import HotRule
from dispatcher.scheduling.views.pieces import Pieces, Row, in_order
from shared.model.resources import CPU, MEMORY, PODS, format_quantity


def nodes_view(core: SchedulerCore, only: str = "") -> Pieces:
    """One row a node, of all clusters or of `only` one: readiness, requests against allocatable,
    live load with age in seconds and source; and by what it is hot: `refuses` is false while too
    many of its cluster's nodes are.
    """
    fleet = core.fleet
    for cluster in [only] if only else sorted(info.name for info in fleet.clusters):
        for names in in_order(fleet.node_names(cluster)):
            rows = [fleet.row_of(cluster, name) for name in names]
            yield [_node_row(fleet, row) for row in rows if row is not None]


def _node_row(fleet: FleetState, row: int) -> Row:
    cluster, name = fleet.name_of(row)
    sources = fleet.sources_of(row)
    return {
        "cluster": cluster,
        "name": name,
        "ready": bool(fleet.ready[row]),
        "unschedulable": bool(fleet.unschedulable[row]),
        **{resource: _use(fleet, row, resource) for resource in (CPU, MEMORY, PODS)},
        "load": {
            name: _reading(fleet, used, at, sources.get(name, ""))
            for name, (used, at) in zip(
                fleet.signal_axis.names, fleet.readings_of(row), strict=False
            )
        },
        "hot": [_heat(fleet, rule, since, row) for rule, since in fleet.heat_of(row)],
    }


def _use(fleet: FleetState, row: int, resource: str) -> Row:
    column = fleet.axis.column(resource)
    if column is None:
        return {"requested": "0", "allocatable": "0"}
    requested = int(fleet.requested[column, row])
    allocatable = int(fleet.allocatable[column, row])
    return {
        "requested": format_quantity(resource, requested),
        "allocatable": format_quantity(resource, allocatable),
        "share": round(requested / allocatable, 4) if allocatable else None,
    }


def _reading(fleet: FleetState, used: float, at: float, source: str) -> Row:
    known = not math.isnan(used)
    return {
        "used": round(used, 4) if known else None,
        "age_s": round(fleet.now - at, 1) if known else None,
        "source": source if known else "",
    }


def _heat(fleet: FleetState, rule: HotRule, since: float, row: int) -> Row:
    return {
        "signal": rule.signal,
        "mean": round(float(fleet.signals.mean(rule.signal)[row]), 4),
        "since_s": round(fleet.now - since, 1),
        "enter": rule.enter,
        "leave": rule.leave,
        "refuses": bool(fleet.signals.hot(rule)[row]),
    }
