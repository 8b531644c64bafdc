"""What owners of pods are told once an hour for all pods of a kind."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
AGAIN_S = 3600.0  # API servers keep an event for as long
_MOST_KEPT = 4096  # kinds


class OnceAnHour(Generic[K]):
    """Remembers when what was told; beyond _MOST_KEPT what was told longest ago is told again."""

    def __init__(self) -> None:
        self._told: dict[K, float] = {}

    def is_due(self, kind: K, now: float) -> bool:
        """Whether it may be told at `now` (s)."""
        return now - self._told.get(kind, -AGAIN_S) >= AGAIN_S

    def note(self, kind: K, now: float) -> None:
        """It is told."""
        self._told.pop(kind, None)
        self._told[kind] = now
        if len(self._told) > _MOST_KEPT:
            del self._told[next(iter(self._told))]
