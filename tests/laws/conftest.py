"""What the laws share."""

from collections.abc import Iterator

import pytest

from dispatcher.scheduling.fleet import interned, labels
from tests.compiled import compiled

__all__ = ["compiled", "forgetful"]


@pytest.fixture(autouse=True, scope="package")
def forgetful() -> Iterator[None]:
    """A code that no node has any more is free from the next change of a node on, and soon given to another value;
    columns of labels that no node has are dropped.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interned, "LEAST", 0)
        patch.setattr(interned, "GROWTH", 1)
        patch.setattr(labels, "_MANY", 1)
        yield
