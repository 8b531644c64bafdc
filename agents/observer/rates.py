"""Samples of counters and gauges -> smoothed values with an age. Distrusts every number and every
clock.

`time` is the clock of whoever took the sample and is only ever compared with that clock's earlier
times; `now` is our own monotonic clock. The age of a value is counted from when its sample was
first seen by us, plus the age that it had by then by its source's own clock, where the source tells
that.
"""

from math import exp, isfinite

MAX_VALUE = 1e18
MAX_AHEAD_S = 60.0


def believable(value: float | None, limit: float = MAX_VALUE) -> bool:
    """Whether a number may be used at all: finite, not negative, not above `limit`."""
    return value is not None and isfinite(value) and 0 <= value <= limit


class Track:
    """One quantity over time, smoothed by an exponentially weighted moving average.

    After a step of dt seconds a new value x moves the average m to m + (1 - exp(-dt / tau)) * (x -
    m): the influence of a value falls to 1/e after `tau_s` seconds, however irregular the samples
    are. `tau_s` 0 means no smoothing.
    """

    __slots__ = ("_counter", "_limit", "_tau", "_time", "_touched", "seen", "value")

    def __init__(self, *, tau_s: float = 0.0, limit: float = MAX_VALUE) -> None:
        self.value: float | None = None
        self.seen = 0.0  # when (our clock) the sample behind `value` was taken, or first seen
        self._tau = tau_s
        self._limit = limit
        self._time: float | None = None  # the sampler's clock
        self._touched = 0.0  # when (our clock) `_time` was set
        self._counter: float | None = None

    def gauge(self, value: float | None, time: float, now: float, age: float = 0.0) -> bool:
        """Take a momentary value, such as cores in use, `age` seconds old; True if it was new and
        believable.
        """
        if value is None or not believable(value, self._limit):
            return False
        first = self._time is None
        step = self._advance(time, now)
        if step is None and not first:
            return False
        self._smooth(value, step if step is not None else now - self.seen, now - age)
        return True

    def counter(self, value: float | None, time: float, now: float, age: float = 0.0) -> bool:
        """Take a growing total, such as bytes sent; True if it gave a rate per second.

        The first sample, one after the total fell (a reset) and one after the sampler's clock
        jumped only set the base.
        """
        same_again = self._time == time and self._counter is not None
        if value is None or same_again or not believable(value) or not isfinite(time):
            return False
        step = self._advance(time, now)
        before = self._counter
        self._counter = value
        if step is None or before is None or value < before:
            return False
        rate = (value - before) / step
        if not believable(rate, self._limit):
            return False
        self._smooth(rate, step, now - age)
        return True

    def rebase(self) -> None:
        """The next sample comes from another clock or counts other things: keep the value, compare
        nothing with it.
        """
        self._time = None
        self._counter = None

    def age(self, now: float) -> float:
        """Seconds since the sample behind the value was taken, as far as that is known, else first
        seen.
        """
        return max(0.0, now - self.seen)

    def _advance(self, time: float, now: float) -> float | None:
        """Seconds since the previous sample by the sampler's clock; None if that says nothing."""
        if not isfinite(time):
            return None
        before = self._time
        touched = self._touched
        if before == time:
            return None
        self._time = time
        self._touched = now
        if before is None:
            return None
        step = time - before
        return step if 0 < step <= now - touched + MAX_AHEAD_S else None

    def _smooth(self, value: float, step: float, taken: float) -> None:
        if self.value is None or self._tau <= 0:
            self.value = value
        else:
            self.value += (1 - exp(-max(0.0, step) / self._tau)) * (value - self.value)
        self.seen = taken
