"""What the laws share."""

from collections.abc import Iterator

import pytest

from dispatcher.scheduling.fleet import interned
from tests.compiled import compiled

__all__ = ["compiled", "forgetful"]


@pytest.fixture(autouse=True, scope="package")
def forgetful() -> Iterator[None]:
    """A code that no node has any more is taken back at the next change of a node, and soon given to another value."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interned, "LEAST", 0)
        patch.setattr(interned, "GROWTH", 1)
        yield
