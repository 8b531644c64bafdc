"""What the laws share."""

from tests.compiled import compiled

__all__ = ["compiled"]
