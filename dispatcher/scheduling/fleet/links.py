"""How far clusters are from each other: what agents measured, what is configured, and which of it
counts.

A pair of clusters has one round-trip time that counts, for both directions: the configured one;
else the larger of what the two ends measured, so that no cluster makes itself near by what it says
alone. What was measured counts until it is `stale_s` old, then the pair is unknown. A number that
counts moves only when the measured one is off by more than a tenth and half a millisecond:
decisions do not follow every probe.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.framework import ClusterInfo, Floats, Link
from dispatcher.scheduling.framework.fleet_view import CONFIGURED, MEASURED
from shared.messages import LinkReading

LINKS = "Link"  # the name of these among the kinds of things whose versions are kept
STALE_S = 120.0
MAX_RTT_MS = 60_000.0
_FUTURE_S = 1.0
_MOVES_SHARE = 0.1
_MOVES_MS = 0.5
Pair = tuple[str, str]  # in the order of their names


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """One direction, as its agent measured it; `at` is on the core's clock."""

    rtt_ms: float
    jitter_ms: float
    loss: float
    at: float


class LinkTable:
    """Satisfies `framework.Links`, but for the notes of views. `versions` moves with what counts,
    not with ages.
    """

    def __init__(self, versions: dict[str, int], clusters: Sequence[ClusterInfo]) -> None:
        self._versions = versions
        self._clusters = clusters
        self._measured: dict[tuple[str, str], MeasuredLink] = {}
        self._configured: dict[Pair, float] = {}
        self._counts: dict[Pair, float] = {}
        self._stale_s = STALE_S
        self._next_stale = math.inf
        self._matrix: tuple[int, int, Floats] | None = None

    # --- what comes in
    # ----------------------------------------------------------------------------------------------

    def configure(self, rtt_ms: Mapping[tuple[str, str], float], stale_s: float = STALE_S) -> None:
        """Round-trip times that are given instead of measured, by two clusters; and how long
        measured ones count.
        """
        counts = {pair: rtt for pair, rtt in self._counts.items() if pair not in self._configured}
        self._configured = {_pair(*ends): rtt for ends, rtt in rtt_ms.items()}
        self._stale_s = stale_s
        self._counts = {**counts, **self._configured}
        self._versions[LINKS] += 1

    def take(self, cluster: str, readings: Iterable[LinkReading], now: float) -> None:
        """Take over what the agent of `cluster` measured, unless a newer sample is known; nonsense
        is ignored.
        """
        known = {info.name for info in self._clusters}
        for one in readings:
            if one.cluster == cluster or one.cluster not in known or not _possible(one):
                continue
            at = now - max(one.age_s, 0.0)
            before = self._measured.get((cluster, one.cluster))
            if before is None or at >= before.at:
                self._measured[cluster, one.cluster] = MeasuredLink(
                    one.rtt_ms, one.jitter_ms, one.loss, at
                )
                self._update_pair(_pair(cluster, one.cluster), now)

    def expire(self, now: float) -> None:
        """Time has passed: what is too old counts no more."""
        if now < self._next_stale:
            return
        self._next_stale = math.inf
        for pair in {_pair(*ends) for ends in self._measured}:
            self._update_pair(pair, now)

    def _update_pair(self, pair: Pair, now: float) -> None:
        """Bring up to date what counts for a pair."""
        if pair in self._configured:
            return
        fresh = [one for one in self._both(pair) if now - one.at < self._stale_s]
        before = self._counts.get(pair)
        if not fresh:
            if before is not None:
                del self._counts[pair]
                self._versions[LINKS] += 1
            return
        self._next_stale = min(self._next_stale, *(one.at + self._stale_s for one in fresh))
        rtt = max(one.rtt_ms for one in fresh)
        if before is None or abs(rtt - before) > max(_MOVES_SHARE * before, _MOVES_MS):
            self._counts[pair] = rtt
            self._versions[LINKS] += 1

    def _both(self, pair: Pair) -> list[MeasuredLink]:
        ends = (pair, (pair[1], pair[0]))
        return [self._measured[one] for one in ends if one in self._measured]

    # --- what is asked
    # ----------------------------------------------------------------------------------------------

    def rtt_ms(self) -> Floats:
        """[clusters, clusters] what counts, ms; 0 within a cluster, NaN unknown. Read-only,
        symmetric.
        """
        state = self._versions[LINKS], len(self._clusters)
        if self._matrix is None or self._matrix[:2] != state:
            index = {info.name: at for at, info in enumerate(self._clusters)}
            found = np.full((len(index), len(index)), np.nan)
            np.fill_diagonal(found, 0.0)
            for (one, other), rtt in self._counts.items():
                if one in index and other in index:
                    found[index[one], index[other]] = found[index[other], index[one]] = rtt
            found.setflags(write=False)
            self._matrix = (*state, found)
        return self._matrix[2]

    def between(self, one: str, other: str, now: float) -> Link | None:
        """What counts between two clusters, with its age and source; None unknown."""
        pair = _pair(one, other)
        counted = self._counts.get(pair)
        if counted is None:
            return None
        if pair in self._configured:
            return Link(counted, CONFIGURED, None)
        fresh = [now - link.at for link in self._both(pair) if now - link.at < self._stale_s]
        return Link(counted, MEASURED, max(0.0, min(fresh))) if fresh else None

    def measured(self, source: str, target: str) -> MeasuredLink | None:
        """One direction as it was measured last, however old; None never."""
        return self._measured.get((source, target))


def _pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)


def _possible(one: LinkReading) -> bool:
    numbers = (one.rtt_ms, one.jitter_ms, one.loss, one.age_s)
    if not all(map(math.isfinite, numbers)) or one.age_s < -_FUTURE_S:
        return False
    return 0.0 < one.rtt_ms <= MAX_RTT_MS and one.jitter_ms >= 0.0 and 0.0 <= one.loss <= 1.0
