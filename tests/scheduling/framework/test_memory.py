import numpy as np
import pytest

from dispatcher.scheduling.framework.memory import untouched


@pytest.mark.parametrize("length", [0, 3, 1 << 17], ids=["none", "few", "many"])
def test_untouched_memory_is_zeros_that_can_be_written(length: int) -> None:
    found = untouched(length, np.int64)
    found[-1:] = 7
    assert (found.dtype, found.shape, int(found.sum())) == (np.dtype(np.int64), (length,), 7 if length else 0)
