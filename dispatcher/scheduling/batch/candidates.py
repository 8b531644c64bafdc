"""The candidate queue of one group of rows: what its rows offer for the pods of a batch, best
first.
"""

import heapq

import numpy as np

from dispatcher.scheduling.framework import Floats

# What a row offers for the next pod without what its group adds: (minus points, rank, row, raw
# scores [scores, rows], column of these). The best comes first: highest points, then lowest rank,
# then row.
Candidate = tuple[float, int, int, Floats, int]

NO_CANDIDATE: Candidate = (np.inf, 0, -1, np.zeros((0, 0)), 0)  # comes after every candidate


class CandidateQueue:
    """Rows still untouched in order, and those that have taken a pod of this batch.

    `complete`: no row of the group is missing that this batch could come to.
    """

    __slots__ = ("_at", "_touched", "_untouched", "complete")

    def __init__(self, untouched: list[Candidate], *, complete: bool) -> None:
        self._untouched = [*untouched, NO_CANDIDATE, NO_CANDIDATE]
        self._at = 0
        self.complete = complete
        self._touched: list[Candidate] = []

    def two(self) -> tuple[Candidate, Candidate]:
        """The best candidate and the next best; NO_CANDIDATE where there is none."""
        untouched = self._untouched
        touched = self._touched
        at = self._at
        fresh = untouched[at]
        if not touched:
            return fresh, untouched[at + 1]
        top = touched[0]
        if top < fresh:
            return top, min(fresh, *touched[1:3]) if len(touched) > 1 else fresh
        after = untouched[at + 1]
        return fresh, top if top < after else after

    def go_on(self, candidate: Candidate | None) -> bool:
        """The best row has taken a pod and offers `candidate` now (None: it is full).

        False if a row that is missing here might be among the next.
        """
        untouched = self._untouched
        touched = self._touched
        if touched and touched[0] < untouched[self._at]:
            if candidate is None:
                heapq.heappop(touched)
            else:
                heapq.heapreplace(touched, candidate)
            return True
        self._at += 1
        if candidate is not None:
            heapq.heappush(touched, candidate)
        return self.complete or len(untouched) - self._at >= 4  # two of them no candidates

    def soon(self, count: int) -> list[int]:
        """Rows that may be chosen for the next `count` pods."""
        end = min(self._at + count, len(self._untouched) - 2)
        touched = (
            self._touched if len(self._touched) <= count else heapq.nsmallest(count, self._touched)
        )
        return [candidate[2] for candidate in (*self._untouched[self._at : end], *touched)]
