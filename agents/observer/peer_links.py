"""What probes of another cluster's agent say of the way there: round-trip time, jitter, loss, and
how old that is.

A probe makes two round trips: it connects, and it has a few bytes echoed. What counts is the median
of the last connects, since kernels answer them, and where the kernel tells how long that took, no
busy process is in between at either end. But if even the fastest echo took longer, then something
nearer than the agent accepts its connections, and the echo is believed. A connect that took a
second longer than others is one whose first packet was lost (the kernel sends it again after 1 s),
an echo likewise after 0.2 s.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from shared.messages import LinkReading

KEPT = 18  # probes
CONNECT_AGAIN_S = 0.9
ECHO_AGAIN_S = 0.19
# an echo that took longer than a connect by both of them was answered further away
_NEARER = 1.5
_NEARER_S = 0.005


@dataclass(frozen=True, slots=True)
class Trip:
    """One probe: seconds of each round trip, None where nothing came back. `kernel_s`: the connect,
    by the kernel.
    """

    connect_s: float | None = None
    echo_s: float | None = None
    kernel_s: float | None = None


class PeerLink:
    """The last probes of one cluster. Times are of a clock that only grows."""

    def __init__(self) -> None:
        self._trips: deque[Trip] = deque(maxlen=KEPT)
        self._came_back = float("-inf")

    def took(self, trip: Trip, now: float) -> None:
        """A probe has ended."""
        self._trips.append(trip)
        if trip.echo_s is not None:
            self._came_back = now

    def reading(self, cluster: str, now: float) -> LinkReading | None:
        """What they say; None while none of them has come back."""
        connects, lost_connects = self._connects()
        echoes, lost_echoes = self._echoes()
        if not connects or not echoes:
            return None
        rtt = median(connects)
        fastest_echo = min(echoes)
        if fastest_echo > max(_NEARER * rtt, rtt + _NEARER_S):
            rtt = fastest_echo
        jitter = (
            fmean(abs(one - other) for one, other in pairwise(connects)) if connects[1:] else 0.0
        )
        lost = lost_connects + lost_echoes
        loss = lost / (lost + len(connects) + len(echoes))
        return LinkReading(cluster, rtt * 1e3, jitter * 1e3, loss, max(0.0, now - self._came_back))

    def _connects(self) -> tuple[list[float], int]:
        """Seconds of those in which no packet was lost, in order; and how many others there were."""
        limit = (
            min((one.connect_s for one in self._trips if one.connect_s is not None), default=0.0)
            + CONNECT_AGAIN_S
        )
        whole = [one for one in self._trips if one.connect_s is not None and one.connect_s < limit]
        return [one.kernel_s or one.connect_s or 0.0 for one in whole], len(self._trips) - len(
            whole
        )

    def _echoes(self) -> tuple[list[float], int]:
        """The same of echoes; where nothing was connected, nothing was asked."""
        told = [one.echo_s for one in self._trips if one.echo_s is not None]
        limit = min(told, default=0.0) + ECHO_AGAIN_S
        whole = [one for one in told if one < limit]
        return whole, sum(one.connect_s is not None for one in self._trips) - len(whole)
