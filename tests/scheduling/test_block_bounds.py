"""What rows reach, found by looking at few blocks of them, is what a look at all of them finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.equivalence.partitions import Partition, partition_of
from dispatcher.scheduling.framework import Floats, Readings
from dispatcher.scheduling.pruning import block_bounds as blocks
from dispatcher.scheduling.pruning.block_bounds import BlockBounds, BlockTable, block_bounds
from dispatcher.scheduling.pruning.row_bounds import BLOCK, GroupPoints, RowBounds
from dispatcher.scheduling.pruning.upper_bounds import _reach_of
from tests.compiled import compiled  # noqa: F401 - a fixture

ROWS, USES = 400 * BLOCK + 17, (500, 2**28)
seeds = st.integers(0, 2**32)
uses_compiled = pytest.mark.usefixtures("compiled")


class Case:
    """Random rows: their columns, some refused; groups of neighbours, of which some rows have moved to another one."""

    def __init__(self, number: int, *, coarse: bool) -> None:
        self.seed = seed = np.random.default_rng(number)

        def whole(found: Floats) -> Floats:
            return np.floor(found) if coarse else found

        base = whole(seed.random(ROWS) * 400)
        falls = np.repeat(seed.random((4, -(-ROWS // 700))), 700, axis=1)[:, :ROWS] + seed.random((4, ROWS)) / 100
        falls *= np.array([[0.01], [9], [1e-8], [9]])
        self.columns: Readings = np.concatenate([[base], whole(falls)]).astype(np.float32)
        self.static = np.where(seed.random(ROWS) < 0.1, -np.inf, whole(seed.random(ROWS) * 9)).astype(np.float32)
        rows = np.arange(ROWS)
        base_groups = partition_of([(rows // 700).astype(np.int32), (rows % 3).astype(np.int32)])
        assert isinstance(base_groups, Partition)
        self.partition = base_groups
        group = self.partition.group.copy()
        moved = np.flatnonzero(seed.random(ROWS) < 0.01)
        group[moved] += self.partition.size
        points: Readings = whole(seed.random(2 * self.partition.size) * 60).astype(np.float32)
        points[seed.random(len(points)) < 0.1] = -np.inf
        self.known = GroupPoints(points, group, self.partition, moved)
        self.left_out = np.flatnonzero(seed.random(ROWS) < 0.02)
        self.table = BlockTable()
        self.table.written(slice(0, ROWS))

    def by_blocks(self) -> BlockBounds:
        """As the search has them."""
        scratch = np.full(ROWS, np.nan, dtype=np.float32), np.full(-(-ROWS // BLOCK), np.nan, dtype=np.float32)
        told = blocks._groups_of(self.partition), blocks._highest_of(self.static), self.table.of(self.columns)
        return block_bounds(self.known, (self.static, *self.columns), told, USES, scratch, self.left_out)

    def by_rows(self) -> RowBounds:
        """With a look at all of them."""
        reach = _reach_of(self.known.points[self.known.group], self.static, self.columns, USES)
        best = np.maximum.reduceat(reach, np.arange(0, ROWS, BLOCK))
        return RowBounds(reach, best, self.left_out)


def asked(bounds: RowBounds, lows: list[float]) -> list[object]:
    """What a search asks: of the first rows, then of those below."""
    few = bounds.enough(48)
    told: list[object] = [bounds.top, few]
    above = np.inf
    for low in sorted([few, *lows], reverse=True):
        found = bounds.between(low, above, ROWS // 4)
        told.append(None if found is None else found.tolist())
        above = low
    return told


@uses_compiled
@settings(max_examples=25, deadline=None)
@given(number=seeds, coarse=st.booleans(), lows=st.lists(st.floats(300, 470), max_size=3))
def test_few_blocks_tell_which_rows_reach_how_high(number: int, coarse: bool, lows: list[float]) -> None:
    case = Case(number, coarse=coarse)
    assert asked(case.by_blocks(), lows) == asked(case.by_rows(), lows)


@uses_compiled
@settings(max_examples=25, deadline=None)
@given(number=seeds)
def test_rows_that_were_written_reach_as_high_as_they_do_now(number: int) -> None:
    case = Case(number, coarse=False)
    case.by_blocks()
    rows = np.flatnonzero(case.seed.random(ROWS) < 0.003)
    case.columns[:, rows] = case.columns[:, rows[::-1]] * np.float32(1.1)
    case.table.written(rows)
    assert asked(case.by_blocks(), []) == asked(case.by_rows(), [])


@uses_compiled
def test_blocks_that_do_not_reach_high_are_not_looked_at() -> None:
    case = Case(1, coarse=False)
    case.known.points[:] = 1
    bounds = case.by_blocks()
    bounds.between(bounds.enough(48), np.inf, ROWS)
    looked_at = np.count_nonzero(bounds._bound == -np.inf)
    assert 48 <= looked_at < len(bounds._bound) // 2


@uses_compiled
def test_where_no_row_is_open_none_is_found() -> None:
    case = Case(2, coarse=False)
    case.static[:] = -np.inf
    bounds = case.by_blocks()
    assert (bounds.top, bounds.enough(48)) == (-np.inf, -np.inf)
    assert bounds.between(-np.inf, np.inf, 10) is not None
    assert asked(bounds, []) == asked(case.by_rows(), [])


@uses_compiled
def test_a_row_whose_bound_is_no_number_is_not_found_and_hides_none_of_its_neighbours() -> None:
    case, firsts = Case(3, coarse=False), slice(0, ROWS, BLOCK)
    case.columns[0, firsts] = np.nan
    found = asked(case.by_blocks(), [400.0])
    case.columns[0, firsts] = -np.inf
    assert found == asked(case.by_rows(), [400.0])
