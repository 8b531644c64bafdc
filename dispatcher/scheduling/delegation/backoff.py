"""Exponential back-off between two attempts of the same intent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Seconds between attempts: `first_s`, doubling, at most `most_s`."""

    first_s: float = 1.0
    most_s: float = 10.0

    def after(self, attempts: int) -> float:
        """The pause after that many attempts."""
        return float(min(self.first_s * 2 ** min(attempts - 1, 16), self.most_s))
