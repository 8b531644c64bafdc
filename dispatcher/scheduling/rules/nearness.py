"""How near each cluster is to others, as points: by the round-trip times that count.

    nearness(rtt) = 100 * half / (half + rtt)        100 at 0 ms, 50 at `half` ms, never 0

Unknown is neither near nor far: see `filled`.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import MAX_SCORE, Bools, FleetView, Floats, Ints

HALF_MS = 20.0
_NEUTRAL = MAX_SCORE / 2
HalfMs = Annotated[
    float, Meta(ge=0.01, le=10_000, description="ms of round-trip time at which nearness is half")
]


def _points(rtt_ms: Floats, half_ms: float) -> Floats:
    """Nearness of round-trip times; NaN stays NaN."""
    found: Floats = MAX_SCORE * half_ms / (half_ms + rtt_ms)
    return found


def to_nearest(rtt_ms: Floats, there: Bools, half_ms: float) -> Floats:
    """[clusters] nearness to the nearest of the clusters `there`, which is not empty; 100 in these.

    `rtt_ms`: [clusters, clusters], NaN unknown.
    """
    return filled(_points(least_known(rtt_ms[:, there]), half_ms), there)


def to_many(rtt_ms: Floats, weights: Floats, half_ms: float) -> Floats:
    """[clusters] mean nearness to clusters by weight, at least one above 0: what a caller of pods
    there sees.
    """
    there = np.flatnonzero(weights > 0)
    total = np.zeros(len(weights))
    for at in there.tolist():
        own = np.zeros(len(weights), dtype=np.bool_)
        own[at] = True
        total += weights[at] * filled(_points(rtt_ms[:, at], half_ms), own)
    mean: Floats = np.clip(total / weights[there].sum(), 0.0, MAX_SCORE)
    return mean


def filled(found: Floats, there: Bools) -> Floats:
    """[clusters] points; unknown ones (NaN) get the mean of what is known of clusters that are not
    `there`, and 50 where nothing is.
    """
    known = found[~np.isnan(found) & ~there]
    filled: Floats = np.where(np.isnan(found), known.mean() if len(known) else _NEUTRAL, found)
    return filled


def least_known(table: Floats) -> Floats:
    """[rows] the least number of each row of a table that has columns; NaN where all are unknown
    (NaN).
    """
    least: Floats = np.fmin.reduce(table, axis=1)
    return least


def way_from(row: int, there: Ints, fleet: FleetView) -> dict[str, object]:
    """For records: the nearest cluster of `there` from the row's, and the round-trip time to it
    with age and source.
    """
    here = int(fleet.nodes.cluster[row])
    name = fleet.clusters[here].name
    if there[here]:
        return {"cluster": name, "rtt_ms": 0.0, "source": "same cluster"}
    ways = np.where(there > 0, fleet.links.rtt_ms()[here], np.nan)
    if np.isnan(ways).all():
        return {"rtt": "unknown"}
    nearest = fleet.clusters[int(np.nanargmin(ways))].name
    link = fleet.links.between(name, nearest)
    if link is None:
        return {"cluster": nearest, "rtt": "unknown"}
    age = {} if link.age_s is None else {"age_s": round(link.age_s, 1)}
    return {"cluster": nearest, "rtt_ms": round(link.rtt_ms, 2), **age, "source": link.source}
