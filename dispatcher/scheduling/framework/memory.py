"""Columns of very many rows of which few are written."""

from mmap import MAP_PRIVATE, mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_FEW_BYTES = 1 << 19  # below, to ask the system for memory costs more than to write it


def untouched(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """[length] zeros, fresh from the operating system: only the pages that are used cost anything. np.zeros writes all
    of them wherever the allocator has memory to use again.
    """
    size = length * np.dtype(dtype).itemsize
    if size < _FEW_BYTES:
        return np.zeros(length, dtype=dtype)
    return np.frombuffer(mmap(-1, size, MAP_PRIVATE), dtype=dtype)
