"""What nodes use of what their pods request: learnt from nodes that tell, held against those that
do not.

    usual = sum of means / sum of (requests - settling) / allocatable      over nodes with a reading, for each signal

of CPU for cpu, of memory for memory, of the larger of both for any other signal. Requests are
guesses, often several times what is used, so a node without readings would look far busier than its
like beside it, or far idler. Means and requests are of the same pods: what has just been placed is
in neither. Source: the ratio estimator of survey sampling (Cochran, Sampling Techniques, chapter
6).
"""

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.framework.memory import blocks
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

EVERY_S = 60.0
FRESH_S = 120.0  # of readings that are learnt from
# what is requested is never taken for nothing
LOWEST = 1 / 8
HIGHEST = 4.0
_LEAST = 0.05  # of a node, that must be requested on average for the quotient to mean anything
_STEP = 0.05  # relative; less is not worth asking all rows anew
_RESOURCES = CPU, MEMORY
_ROW = {CPU_SIGNAL: 0, MEMORY_SIGNAL: 1}
_UNITS = 2.0**36  # that a share of 1 has


def learnt(fleet: NodeTable, more: tuple[RowList, Ints], now: float) -> Floats | None:
    """[signals] use by request as readings show it now; None where that is hardly another than
    before.

    `more`: on these rows pods request so much more [2, rows] than `settling` says, of what the
    means do not hold yet.
    """
    if not fleet.n:
        return None
    found = fleet.usual.max(axis=1, initial=LOWEST, where=fleet.live).astype(np.float64)
    before = found.copy()
    sums = np.zeros((3, len(found)), dtype=np.int64)
    for rows in blocks(slice(0, fleet.n)):
        _add_up(sums, fleet, rows, more, now)
    for column, (nodes, asked, used) in enumerate(sums.T.tolist()):
        if nodes and asked >= (_LEAST * _UNITS - 1) * nodes:  # each share was rounded down
            found[column] = min(max(used / asked, LOWEST), HIGHEST)
    moved = np.abs(found - before) > _STEP * before
    return np.where(moved, found, before) if moved.any() else None


def _add_up(
    sums: Ints, fleet: NodeTable, rows: slice, more: tuple[RowList, Ints], now: float
) -> None:
    """[3, signals] nodes that tell, shares that are requested there, and that are used, in units:
    whole numbers, so that the order of nodes does not matter.
    """
    settling, (first, last) = (
        fleet.settling[:, rows].copy(),
        np.searchsorted(more[0], (rows.start, rows.stop)),
    )
    settling[:, more[0][first:last] - rows.start] += more[1][:, first:last]
    shares = [_requested(fleet, rows, settling, at) for at in range(len(_RESOURCES))]
    for column, name in enumerate(fleet.signal_axis.names[: sums.shape[1]]):
        fresh = fleet.live[rows] & (now - fleet.used_at[column, rows] <= FRESH_S)
        asked = shares[_ROW[name]] if name in _ROW else np.maximum(*shares)
        used = fleet.used_mean[column, rows][fresh] * np.float32(_UNITS)
        sums[:, column] += np.count_nonzero(fresh), asked[fresh].sum(), used.astype(np.int64).sum()


def _requested(fleet: NodeTable, rows: slice, settling: Ints, row: int) -> Ints:
    """[rows] the share of nodes that is requested by pods whose load the means hold, in units."""
    column = fleet.axis.column(_RESOURCES[row])
    if column is None:
        return np.zeros(settling.shape[1], dtype=np.int64)
    room = fleet.allocatable[column, rows]
    share = np.maximum(fleet.nonzero[row, rows] - settling[row], 0) / np.maximum(room, 1)
    return (np.where(room > 0, np.minimum(share, 1.0), 0.0) * _UNITS).astype(np.int64)
