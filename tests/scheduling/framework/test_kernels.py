"""Compiled kernels on machines that are not as expected."""

import pytest

from dispatcher.scheduling.framework.kernels import kept


def add(one: int, other: int) -> int:
    return one + other


def test_a_kernel_is_compiled_where_no_folder_can_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(add)
    fast = kept(numba, add, ["int64(int64, int64)"])
    assert (fast(2, 3), len(fast.signatures)) == (5, 1)
