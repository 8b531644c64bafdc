"""What benchmarks compile for the whole process is taken back after each test."""

from collections.abc import Iterator

import pytest

from dispatcher.scheduling.framework import kernels


@pytest.fixture(autouse=True)
def numpy_afterwards() -> Iterator[None]:
    yield
    kernels.use_numpy()
