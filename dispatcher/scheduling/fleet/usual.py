"""What nodes use of what their pods request: learnt from nodes that tell, held against those that do not.

    usual = sum of means / sum of (requests - settling) / allocatable      over nodes with a reading, for each signal

of CPU for cpu, of memory for memory, of the larger of both for any other signal. Requests are guesses, often several
times what is used, so a node without readings would look far busier than its like beside it, or far idler. Means and
requests are of the same pods: what has just been placed is in neither. Source: the ratio estimator of survey sampling
(Cochran, Sampling Techniques, chapter 6).
"""

import numpy as np

from dispatcher.model.resources import CPU, MEMORY
from dispatcher.model.signals import CPU_SIGNAL, MEMORY_SIGNAL
from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.framework import Bools, Floats, Ints
from dispatcher.scheduling.framework.memory import blocks

EVERY_S = 60.0
FRESH_S = 120.0  # of readings that are learnt from
LOWEST, HIGHEST = 1 / 8, 4.0  # what is requested is never taken for nothing
_LEAST = 0.05  # of a node, that must be requested on average for the quotient to mean anything
_STEP = 0.05  # relative; less is not worth asking all rows anew
_ROW = {CPU_SIGNAL: 0, MEMORY_SIGNAL: 1}


def learnt(fleet: NodeTable, settling: Ints, now: float) -> Floats | None:
    """[signals] use by request as readings show it now; None where that is hardly another than before.

    `settling` [2, n]: requests of pods, as far as the means do not hold their load yet.
    """
    n = fleet.n
    if not n:
        return None
    shares = np.zeros((2, n))
    for at, resource in enumerate((CPU, MEMORY)):
        _write_requested(shares[at], fleet, settling[at, :n], at, resource)
    found = fleet.usual.max(axis=1, initial=LOWEST, where=fleet.live).astype(np.float64)
    before = found.copy()
    for column, name in enumerate(fleet.signal_axis.names[: len(found)]):
        row = _ROW.get(name)
        told = fleet.live & (now - fleet.used_at[column] <= FRESH_S)
        requested = shares[row] if row is not None else shares.max(axis=0)
        if told.any():
            found[column] = _quotient(fleet.used_mean[column], requested, told, before.item(column))
    moved = np.abs(found - before) > _STEP * before
    return np.where(moved, found, before) if moved.any() else None


def _write_requested(shares: Floats, fleet: NodeTable, settling: Ints, row: int, resource: str) -> None:
    """[n] the share of nodes that is requested by pods whose load the means hold."""
    column = fleet.axis.column(resource)
    for rows in blocks(slice(0, fleet.n)) if column is not None else ():
        room = fleet.allocatable[column, rows]
        share = np.maximum(fleet.nonzero[row, rows] - settling[rows], 0) / np.maximum(room, 1)
        shares[rows] = np.where(room > 0, np.minimum(share, 1.0), 0.0)


def _quotient(mean: np.ndarray, requested: Floats, told: Bools, before: float) -> float:
    asked = float(requested[told].sum())
    if asked < _LEAST * np.count_nonzero(told) * (1 - 1e-9):  # a sum of equal shares may come out a bit less
        return before
    used = float(mean[told].sum(dtype=np.float64))
    return min(max(used / asked, LOWEST), HIGHEST)
