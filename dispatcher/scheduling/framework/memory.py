"""Columns of very many rows: of which few are written, windows on them, and piece by piece."""

from collections.abc import Iterator
from mmap import MAP_PRIVATE, mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# rows: what is computed on the way stays in a core's cache, and takes no new memory of the system
BLOCK = 1 << 15
_FEW_BYTES = 1 << 18  # below, to ask the system for memory costs more than to write it


def untouched(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """[length] zeros, fresh from the operating system: only the pages that are used cost anything.
    np.zeros writes all of them wherever the allocator has memory to use again.
    """
    size = length * np.dtype(dtype).itemsize
    if size < _FEW_BYTES:
        return np.zeros(length, dtype=dtype)
    return np.frombuffer(mmap(-1, size, MAP_PRIVATE), dtype=dtype)


def window_of(rows: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """These rows, as a window where they lie side by side, as the nodes of a cluster do: no column
    is copied for it.
    """
    if len(rows) and rows.item(-1) - rows.item(0) + 1 == len(rows):
        return slice(rows.item(0), rows.item(-1) + 1)
    return rows


def blocks(rows: slice) -> Iterator[slice]:
    """The rows in pieces."""
    return (
        slice(start, min(start + BLOCK, rows.stop)) for start in range(rows.start, rows.stop, BLOCK)
    )
