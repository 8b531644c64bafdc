"""Parts of the fleet that quota is of, as rows."""

from functools import reduce

import numpy as np

from dispatcher.scheduling.framework import Bools, FleetView, Rows
from dispatcher.scheduling.rules.eligibility import LabelMasks
from shared.model.labels import IN, Requirement
from shared.model.tenant import FleetPart


def in_clusters(names: frozenset[str], fleet: FleetView, rows: Rows) -> Bools:
    """[rows] whether the node is in one of these clusters."""
    listed = np.fromiter((one.name in names for one in fleet.clusters), dtype=np.bool_)
    mask: Bools = listed[fleet.nodes.cluster[rows]]
    return mask


def with_labels(
    labels: tuple[tuple[str, str], ...], masks: LabelMasks, fleet: FleetView, rows: Rows
) -> Bools:
    """[rows] whether the node has all of these labels."""
    every = np.ones(len(fleet.nodes.live[rows]), dtype=np.bool_)
    found = (masks.clause(Requirement(key, IN, (value,)), fleet, rows) for key, value in labels)
    return reduce(np.logical_and, found, every)


def among(
    labels: tuple[tuple[str, str], ...],
    clusters: frozenset[str] | None,
    masks: LabelMasks,
    fleet: FleetView,
    rows: Rows,
) -> Bools:
    """[rows] whether the node has all of these labels, and is in one of these clusters; None: any."""
    mask = with_labels(labels, masks, fleet, rows)
    return mask if clusters is None else mask & in_clusters(clusters, fleet, rows)


def in_part(part: FleetPart, masks: LabelMasks, fleet: FleetView, rows: Rows) -> Bools:
    """[rows] whether the node is in a part of the fleet."""
    clusters = frozenset((part.cluster,)) if part.cluster else None
    return among(part.labels, clusters, masks, fleet, rows)


def is_in_part(part: FleetPart, fleet: FleetView, row: int) -> bool:
    """The same of one node."""
    nodes = fleet.nodes
    if part.cluster and nodes.name_of(row)[0] != part.cluster:
        return False
    for key, value in part.labels:
        code = int(nodes.label(key)[row])
        if code < 0 or nodes.label_values(key)[code] != value:
            return False
    return True
