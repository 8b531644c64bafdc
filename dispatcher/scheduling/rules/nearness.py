"""How near each cluster is to others, as points: by the round-trip times that count.

    nearness(rtt) = 100 * half / (half + rtt)        100 at 0 ms, 50 at `half` ms, never 0

Unknown is neither near nor far: a cluster whose way to the place is unknown gets the mean of those
other clusters of which it is known, and 50 where it is known of none.
"""

import numpy as np

from dispatcher.scheduling.framework import MAX_SCORE, Bools, FleetView, Floats

HALF_MS = 20.0
NEUTRAL = MAX_SCORE / 2


def points(rtt_ms: Floats, half_ms: float) -> Floats:
    """Nearness of round-trip times; NaN stays NaN."""
    found: Floats = MAX_SCORE * half_ms / (half_ms + rtt_ms)
    return found


def to_nearest(rtt_ms: Floats, there: Bools, half_ms: float) -> Floats:
    """[clusters] nearness to the nearest of the clusters `there`, which is not empty; 100 in these.

    `rtt_ms`: [clusters, clusters], NaN unknown.
    """
    return filled(points(least_known(rtt_ms[:, there]), half_ms), there)


def least_known(table: Floats) -> Floats:
    """[rows] the least number of each row of a table that has columns; NaN where all are unknown
    (NaN).
    """
    least: Floats = np.fmin.reduce(table, axis=1)
    return least


def to_many(rtt_ms: Floats, weights: Floats, half_ms: float) -> Floats:
    """[clusters] mean nearness to clusters by weight, at least one above 0: what a caller of pods
    there sees.
    """
    there = np.flatnonzero(weights > 0)
    total = np.zeros(len(weights))
    for at in there.tolist():
        own = np.zeros(len(weights), dtype=np.bool_)
        own[at] = True
        total += weights[at] * filled(points(rtt_ms[:, at], half_ms), own)
    mean: Floats = np.clip(total / weights[there].sum(), 0.0, MAX_SCORE)
    return mean


def filled(found: Floats, there: Bools) -> Floats:
    """[clusters] points; unknown ones (NaN) get the mean of what is known of clusters that are not
    `there`.
    """
    known = found[~np.isnan(found) & ~there]
    filled: Floats = np.where(np.isnan(found), known.mean() if len(known) else NEUTRAL, found)
    return filled


def nearest_of(fleet: FleetView, cluster: int, there: Bools) -> int | None:
    """The nearest cluster of `there` from `cluster` by what counts; itself if it is one; None where
    no way is known.
    """
    if there[cluster]:
        return cluster
    ways = np.where(there, fleet.links.rtt_ms()[cluster], np.nan)
    return None if np.isnan(ways).all() else int(np.nanargmin(ways))


def way_between(fleet: FleetView, one: int, other: int | None) -> dict[str, object]:
    """For records: round-trip time, age and source of the way from one cluster to another."""
    if other is None:
        return {"rtt": "unknown"}
    there = fleet.clusters[other].name
    if one == other:
        return {"cluster": there, "rtt_ms": 0.0, "source": "same cluster"}
    link = fleet.links.between(fleet.clusters[one].name, there)
    if link is None:
        return {"cluster": there, "rtt": "unknown"}
    age = {} if link.age_s is None else {"age_s": round(link.age_s, 1)}
    return {"cluster": there, "rtt_ms": round(link.rtt_ms, 2), **age, "source": link.source}
