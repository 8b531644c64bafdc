"""Cells of some rows: the same of an array and of a window into a larger one."""

import numpy as np
import pytest

from dispatcher.scheduling.fleet.columns import cells_at, grown

WHOLE = np.arange(30, dtype=np.int64).reshape(3, 10)
OWN = WHOLE.copy()  # an array that is no view of another one, as columns of the fleet are


@pytest.mark.parametrize("whole", [WHOLE, OWN], ids=["a view", "an array"])
@pytest.mark.parametrize("rows", [[], [4], [1, 5], [6, 0, 6]])
@pytest.mark.parametrize("columns", [0, 3])
def test_cells_of_a_window_are_those_of_its_array(
    whole: np.ndarray[tuple[int, int], np.dtype[np.int64]], rows: list[int], columns: int
) -> None:
    window = whole[:columns, :7]
    found = cells_at(window, np.asarray(rows, dtype=np.intp))
    assert found.tolist() == window[:, rows].tolist()
    assert found.shape == (columns, len(rows))
    assert found.dtype == window.dtype
    assert found.flags.c_contiguous
    assert not np.shares_memory(found, whole)


def test_a_large_column_has_some_to_spare_and_a_cluster_more_needs_no_copy() -> None:
    column = grown(np.zeros(0), 500_000, 0.0)
    assert grown(column, 505_000, 0.0) is column
    assert len(grown(np.zeros(0), 100, 0.0)) == 100
