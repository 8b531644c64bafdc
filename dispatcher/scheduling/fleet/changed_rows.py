"""Which rows changed since when: what a pod class must look at again, and nothing else."""

from array import array
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, distinct

_NONE: RowList = np.zeros(0, dtype=np.intp)


class ChangedRows:
    """Rows in the order in which they were touched. A reader keeps a position and catches up when
    it likes.

    The oldest half is dropped when it grows beyond `limit`; a reader that fell behind learns that
    all rows are due.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._rows = array("q")
        self._dropped = 0
        self.position = 0  # where the next entry will stand

    def append(self, row: int) -> None:
        """Note that a row was touched."""
        self._rows.append(row)
        self.position += 1
        if len(self._rows) > self._limit:
            drop = self._limit // 2
            del self._rows[:drop]
            self._dropped += drop

    def rewind(self, position: int) -> None:
        """Forget what was noted from `position` on: it was undone, bit for bit."""
        del self._rows[max(position - self._dropped, 0) :]
        self.position = self._dropped + len(self._rows)

    def extend(self, rows: Sequence[int] | RowList) -> None:
        """Note that several rows were touched, in order."""
        self.position += len(rows)
        if len(rows) > self._limit:  # more than anybody is told one by one
            self._dropped = self.position
            del self._rows[:]
            return
        self._rows.frombytes(np.asarray(rows, dtype=np.intp).tobytes())
        if len(self._rows) > self._limit:
            drop = len(self._rows) - self._limit // 2
            del self._rows[:drop]
            self._dropped += drop

    def since(self, position: int) -> RowList | None:
        """The rows touched from `position` on, each once, ascending; None: fell behind, look at all
        of them.
        """
        if position < self._dropped:
            return None
        count = self.position - position
        if count <= 1:
            return np.asarray(self._rows[-1:]) if count == 1 else _NONE
        return distinct(np.asarray(self._rows[position - self._dropped :]))
