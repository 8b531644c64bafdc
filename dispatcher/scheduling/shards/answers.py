"""A shard's answers as one number a row, and how the driver joins them with what it knows itself.

The number of a row that fits is its points in units of 1 / GRID, which are whole and never negative; the others have
-1 where there is no node, else -2, -3, ... for the reasons that are told beside. Four bytes a row, or eight where
points do not fit into four.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.reasons import Reason, ReasonTable, Why
from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.equivalence.static_answers import NO_NODE
from dispatcher.scheduling.framework import Codes, Floats
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.shards.frames import Body

Reasons = tuple[tuple[tuple[str, str, bool], ...], ...]
_MOST = float(np.iinfo(np.int32).max)
_MARKS = 1 << 16


@kernel("marks floats marks float wholes_out")
def _numbers(first, total, place, grid, numbers):  # type: ignore[no-untyped-def]
    """One number a row; 1 if there is one that four bytes cannot hold. Without a branch where nothing is refused."""
    refused, least, most = 0, 0.0, 0.0
    for row in range(len(numbers)):
        refused |= first[row]
    if refused == 0:
        for row in range(len(numbers)):
            points = total[row] * grid
            least, most = min(least, points), max(most, points)
            numbers[row] = np.int32(points)
    else:
        for row in range(len(numbers)):
            points = total[row] * grid if first[row] == 0 else -1.0 - place[first[row]]
            least, most = min(least, points if first[row] == 0 else 0.0), max(most, points)
            numbers[row] = np.int32(points)
    return 1 if least < 0.0 or most > 2147483647.0 else 0


def numbers_of(first: Codes, total: Floats, table: ReasonTable) -> tuple[Body, Reasons] | None:
    """One number a row, and the reasons behind the negative ones; None for points below 0.

    `first`, `total`: see RowTable. `table`: what the codes in `first` mean.
    """
    refused = np.bincount(first[(first != 0) & (first != NO_NODE)], minlength=1)
    codes = np.flatnonzero(refused).tolist()
    place = np.zeros(_MARKS, dtype=np.uint16)
    place[codes] = np.arange(1, len(codes) + 1)
    told = tuple(tuple((why.reason.name, why.argument, why.lasting) for why in table.whys(code)) for code in codes)
    if _numbers.fast is not None:
        small = np.empty(len(first), dtype=np.int32)
        if not _numbers.fast(first, total, place, GRID, small):
            return small, told
    numbers: Floats = np.where(first == 0, total * GRID, -1.0 - place[first])
    if (numbers[first == 0] < 0).any():
        return None
    return numbers.astype(np.int32) if numbers.max(initial=0.0) <= _MOST else numbers, told


def codes_of(told: Reasons, table: ReasonTable) -> Codes:
    """[marks] the driver's own codes for a shard's reasons; the first two are 0 and 'no node'."""
    codes = [table.joint([_code(one, table) for one in whys]) for whys in told]
    return np.asarray([0, NO_NODE, *codes], dtype=np.uint16)


def _code(told: tuple[str, str, bool], table: ReasonTable) -> int:
    why = Why(Reason[told[0]], told[1], told[2])
    return table.code(why.reason, why.argument, lasting=why.lasting)


def is_whole(numbers: Body, rows: int, codes: Codes) -> bool:
    """Whether these are numbers of so many rows, and none means a reason that was not told: kernels check nothing."""
    known = numbers.dtype in (np.dtype(np.int32), np.dtype(np.float64)) and numbers.shape == (rows,)
    return known and bool(numbers.min(initial=0) > -len(codes))


@kernel("wholes marks marks floats float marks_out out")
def _join(numbers, joint, codes, points, unit, first, total):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Write the first refusal and the total of each row; `points` of other plugins may be empty. `unit`: 1 / GRID."""
    least, some = 0, len(points) > 0
    for row in range(len(numbers)):
        least = min(least, numbers[row])
    for row in range(len(total)):
        number, mark = numbers[row], joint[row]
        if least < 0 and mark == 0 and number < 0:
            mark = codes[-number]
        first[row] = mark
        total[row] = number * unit if mark == 0 else -np.inf
    if some:
        for row in range(len(total)):
            total[row] += points[row] * unit


def join(
    numbers: Body,
    codes: Codes,
    joint: Codes,
    points: Sequence[Floats],
    first: Codes,
    total: Floats,
) -> None:
    """Write into `first` and `total` [rows] what a shard told of these rows, the `joint` filters' refusals before it
    and the `points` of others added (both [rows]); `codes` as `codes_of` has them.
    """
    if _join.fast is not None and numbers.dtype == np.int32 and len(points) < 2:
        one = points[0] if points else np.zeros(0)
        _join.fast(numbers, joint, codes, one, 1.0 / GRID, first, total)
        return
    refused: NDArray[np.bool_] = numbers < 0
    marks = codes[np.where(refused, -numbers, 0).astype(np.intp)]
    np.copyto(first, np.where(joint != 0, joint, marks))
    np.copyto(total, numbers)
    for more in points:
        total += more
    total /= GRID
    total[first != 0] = INFEASIBLE


def later_refusals(codes: Sequence[Codes], first: Codes, total: Floats) -> None:
    """What filters that stand after the shard's refuse: `codes` [rows] of each, in order."""
    for one in codes:
        if one.any():
            np.copyto(first, one, where=first == 0)
            total[first != 0] = INFEASIBLE
