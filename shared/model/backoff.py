"""Exponential back-off between two attempts of the same intent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Seconds between attempts: `first_s`, doubling, at most `most_s`."""

    first_s: float = 1.0
    most_s: float = 10.0

    def after(self, attempts: int) -> float:
        """The pause after that many attempts, 1 or more."""
        # The exponent is bounded first: two to the power of a large count must never be computed.
        return float(min(self.first_s * 2.0 ** min(attempts - 1, 30), self.most_s))
