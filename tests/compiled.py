"""Compiled kernels, for tests that compare them with NumPy or depend on what only they do."""

from collections.abc import Iterator

import pytest

from dispatcher.scheduling.framework import kernels


@pytest.fixture
def compiled() -> Iterator[None]:
    """Answers by compiled kernels, until a test says otherwise."""
    pytest.importorskip("numba")
    assert kernels.compile_all()
    yield
    kernels.use_numpy()
