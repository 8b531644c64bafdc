"""How many bytes may be written to this cluster's API server for a pod, a namespace or another cluster."""

from typing import NamedTuple

from agents.executor.recent import Recent
from dispatcher.model.token_buckets import Allowance

_LONGEST_S = 600.0  # of a debt that is remembered


class ByteRate(NamedTuple):
    """`at_once` bytes, and so many a second after that."""

    at_once: float
    per_s: float


class ByteBudget:
    """One rate for each key. What is written is spent, whatever it is; until a debt is over nothing more is written."""

    def __init__(self, rate: ByteRate) -> None:
        self._rate = rate
        self._keys: Recent[str, Allowance] = Recent()

    def wait_s(self, key: str, now: float) -> float:
        """Seconds until more may be written for this key, 0.0 if it may be now."""
        known = self._keys.get(key)
        return known.take(now, 0) if known is not None else 0.0

    def spend(self, key: str, now: float, amount: int) -> None:
        """So many bytes were written."""
        known = self._keys.get(key) or Allowance(*self._rate, _LONGEST_S)
        known.take(now, amount)
        self._keys.put(key, known)
