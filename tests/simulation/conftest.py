"""What a simulated process sets for the whole process, put back."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """The simulation silences structlog; other tests read what is logged."""
    yield
    structlog.reset_defaults()
