"""Row bounds found by blocks: rows are looked at only in blocks of which one may reach what is
asked for.

Neighbours are nodes of one cluster: a block of 64 has few groups. What the highest of each of its
columns come to is no lower than any of its rows, bit for bit, as they are added up in the same
order, and rounding keeps the order.

Example, blocks of two rows, and a pod whose groups have 5 and 0 points:

    row            0     1     2     3
    base          90    70    80    60
    group          0     1     1     1      the block 0-1: 90 + 5 = 95, and 2-3: 80 + 0 = 80
    reach         95    70    80    60

Who asks for rows that reach 85 has the first block looked at, and never the second.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.equivalence.static_answers import StaticAnswers
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Ints, Readings, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.pruning.row_bounds import BLOCK, LOWEST, GroupPoints, RowBounds, highest


@kernel("shares ints int out_shares")
def _ends(column, blocks, sign, ends):  # type: ignore[no-untyped-def]
    """The highest (`sign` 1) or lowest (-1) number of the column in each of these blocks; NaN is
    neither.
    """
    for block in blocks:
        end = np.float32(-np.inf) if sign > 0 else np.float32(np.inf)
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, len(column))):
            if column[row] > end if sign > 0 else column[row] < end:
                end = column[row]
        ends[block] = end


@kernel("wholes out_ints out_ints")
def _list_groups(group, starts, found):  # type: ignore[no-untyped-def]
    """The groups of each block, each once: where they start in `found`, and how many there are in
    all.
    """
    count = 0
    for block in range(len(starts) - 1):
        starts[block] = count
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, len(group))):
            known = False
            for at in range(starts[block], count):
                known = known or found[at] == group[row]
            if not known:
                found[count] = group[row]
                count += 1
    starts[len(starts) - 1] = count
    return count


@kernel(
    "shares ints ints ints wholes shares shares shares shares shares shares float float out_shares"
)
def _bound(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    points,
    starts,
    groups,
    moved,
    group,
    static,
    base,
    cpu,
    most_cpu,
    memory,
    most_memory,
    milli,
    size,
    bound,
):
    """What no row of a block passes; `moved`: rows that are in another group than those of their
    block.
    """
    milli = np.float32(milli)
    size = np.float32(size)
    for block in range(len(bound)):
        top = np.float32(-np.inf)
        for at in range(starts[block], starts[block + 1]):
            top = max(top, points[groups[at]])
        bound[block] = top
    for row in moved:
        bound[row // BLOCK] = max(bound[row // BLOCK], points[group[row]])
    for block in range(len(bound)):
        less_cpu = cpu[block] * milli
        less_memory = memory[block] * size
        less_cpu = most_cpu[block] if less_cpu > most_cpu[block] else less_cpu
        less_memory = most_memory[block] if less_memory > most_memory[block] else less_memory
        bound[block] = bound[block] + static[block] + base[block] - less_cpu - less_memory


@kernel(
    "shares wholes shares shares shares shares shares shares float float float out_shares "
    "out_shares out_shares"
)
def _look(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    points,
    group,
    static,
    base,
    cpu,
    most_cpu,
    memory,
    most_memory,
    milli,
    size,
    low,
    bound,
    reach,
    best,
):
    """Find the reach of all rows, and the highest, of the blocks that may reach `low`: their bound
    is -inf then.
    """
    milli = np.float32(milli)
    size = np.float32(size)
    looked = 0
    for block in range(len(bound)):
        if not bound[block] >= low:
            continue
        top = np.float32(-np.inf)
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, len(reach))):
            less_cpu = cpu[row] * milli
            less_memory = memory[row] * size
            less_cpu = most_cpu[row] if less_cpu > most_cpu[row] else less_cpu
            less_memory = most_memory[row] if less_memory > most_memory[row] else less_memory
            reach[row] = points[group[row]] + static[row] + base[row] - less_cpu - less_memory
            top = max(top, reach[row])
        bound[block], best[block] = -np.inf, top
        looked += 1
    return looked


class BlockGroups(NamedTuple):
    """The groups of block b: `groups` from `starts[b]` to `starts[b + 1]`."""

    starts: Ints
    groups: Ints


def blocks_of(
    known: GroupPoints, static: StaticAnswers, partitions: Partitions
) -> tuple[BlockGroups, Readings] | None:
    """The groups and the highest static bound of each block; None where groups are not known, or
    without a compiler. Both are found once, until a node changes.
    """
    base = known.base
    if base is None or _look.fast is None:
        return None
    memo = partitions.memo()
    of_groups = ("groups of blocks", id(base))
    of_static = ("static of blocks", id(static))
    groups: tuple[Partition, BlockGroups] | None = memo.get(of_groups)
    if (
        groups is None
    ):  # what it was made of is kept with it, so that nothing else can come to have the same id
        groups = memo[of_groups] = base, _groups_of(base)
    tops: tuple[StaticAnswers, int, Readings] | None = memo.get(of_static)
    if tops is None or tops[1] != static.version:
        tops = memo[of_static] = static, static.version, _highest_of(static.upper_bounds())
    return groups[1], tops[2]


def _groups_of(partition: Partition) -> BlockGroups:
    starts = np.zeros(-(-len(partition.group) // BLOCK) + 1, dtype=np.int64)
    found = np.empty(len(partition.group), dtype=np.int64)
    count = _list_groups.fast(partition.group, starts, found)
    return BlockGroups(starts, found[:count].copy())


def _highest_of(column: Readings) -> Readings:
    found = np.empty(-(-len(column) // BLOCK), dtype=np.float32)
    _ends.fast(column, np.arange(len(found)), 1, found)
    return found


class BlockTable:
    """[5, blocks] the ends of the columns of upper bounds (base; cpu, most, memory, most by which
    it falls).

    The highest base, and the lowest of the others; of blocks that were written they are found when
    somebody asks.
    """

    def __init__(self) -> None:
        self._ends = np.zeros((5, 0), dtype=np.float32)
        self._due = np.zeros(0, dtype=np.bool_)

    def written(self, rows: RowList | slice) -> None:
        """These rows have other bounds."""
        last = rows.stop if isinstance(rows, slice) else int(rows.max(initial=-1)) + 1
        blocks = -(-last // BLOCK)
        if blocks > len(self._due):
            self._due = np.append(self._due, np.ones(blocks - len(self._due), dtype=np.bool_))
        if isinstance(rows, slice):
            self._due[rows.start // BLOCK : blocks] = True
        else:
            self._due[rows // BLOCK] = True

    def of(self, columns: Readings) -> Readings:
        """Up to date with `columns` [5, n]."""
        blocks = -(-columns.shape[1] // BLOCK)
        if self._ends.shape[1] != blocks:
            self._ends, self._due = (
                np.zeros((5, blocks), dtype=np.float32),
                np.ones(blocks, dtype=np.bool_),
            )
        due = np.flatnonzero(self._due[:blocks])
        for at in range(5 if len(due) else 0):
            _ends.fast(columns[at], due, -1 if at else 1, self._ends[at])
        self._due[:] = False
        return self._ends


class BlockBounds(RowBounds):
    """`RowBounds` of all rows. `columns`: points and group, static points, and the columns of upper
    bounds; `uses`: as there; `bound` [blocks]: what their rows do not pass.
    """

    def __init__(
        self,
        columns: Sequence[Readings | SmallInts],
        uses: tuple[float, float],
        bound: Readings,
        scratch: tuple[Readings, Readings],
        left_out: RowList,
    ) -> None:
        self._columns = columns
        self._uses = uses
        self._bound = bound
        self._left_out = left_out
        self._reach, self._best = scratch
        self._best[:] = -np.inf
        self._rows = None
        self._look(float(bound.max(initial=-np.inf)))
        self._look(float(self._best.max(initial=-np.inf)))
        self.top = float(self._best.max(initial=-np.inf))

    def _look(self, low: float) -> None:
        """At rows of blocks that may reach `low`."""
        if _look.fast(
            *self._columns, *self._uses, max(low, LOWEST), self._bound, self._reach, self._best
        ):
            self._reach[self._left_out] = -np.inf

    def enough(self, count: int) -> float:
        """As of all rows."""
        if len(self._best) <= count:
            return -np.inf
        self._look(highest(self._bound, 2 * count))
        self._look(highest(self._best, count))
        return highest(self._best, count)

    def between(self, low: float, high: float, most: int) -> RowList | None:
        """As of all rows."""
        self._look(low)
        return super().between(low, high, most)


def block_bounds(
    known: GroupPoints,
    columns: Sequence[Readings],
    by_block: tuple[BlockGroups, Readings, Readings],
    uses: tuple[int, int],
    scratch: tuple[Readings, Readings],
    left_out: RowList,
) -> BlockBounds:
    """For a pod that is expected to use so much. `columns`: static points, and those of upper
    bounds; `by_block`: the groups, the highest static points and the ends of the others.
    """
    groups, tops, ends = by_block
    wants = float(uses[0]), float(uses[1])
    bound = np.empty(len(tops), dtype=np.float32)
    _bound.fast(known.points, *groups, known.moved, known.group, tops, *ends, *wants, bound)
    return BlockBounds((known.points, known.group, *columns), wants, bound, scratch, left_out)
