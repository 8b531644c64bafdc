"""What the driver knows of its shards: which rows are whose, and which of them each has to be told about.

Shards have about equal ranges of rows. New rows belong to the last one, until it has half as many again as the others
have: then all are dealt anew. A row is due when any journal of the fleet names it, and until an order tells it.
"""

from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools
from dispatcher.scheduling.shards.frames import ENCODER, NOTHING, Frame, Question, ShardRequest, pack

_GROWTH = 1.5


@dataclass(eq=False)
class Book:
    """One shard's page: rows from `start` to `stop`; `number`: of the last order; `blank`: the next begins anew;
    `life`: which of the shard's lives it was sent to.
    """

    start: int = 0
    stop: int = 0
    number: int = 0
    blank: bool = True
    life: int = 0

    @property
    def rows(self) -> slice:
        """Its rows."""
        return slice(self.start, self.stop)


class Books:
    """One page a shard."""

    def __init__(self, fleet: FleetState, shards: int) -> None:
        self._fleet = fleet
        self.pages = [Book() for _ in range(shards)]
        self._due: Bools = np.zeros(0, dtype=np.bool_)  # [n]
        self._changes_at = self._loads_at = -1

    def look(self) -> None:
        """Take in what has changed in the fleet."""
        fleet = self._fleet
        self._due = grown(self._due, fleet.n, False)
        changed, touched = fleet.changes.since(self._changes_at), fleet.loads.since(self._loads_at)
        if self._changes_at < 0 or changed is None or touched is None:
            self._due[: fleet.n] = True
        else:
            self._due[changed] = True
            self._due[touched] = True
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position
        self._deal()

    def _deal(self) -> None:
        n, last = self._fleet.n, self.pages[-1]
        if last.stop and n - last.start <= _GROWTH * max(n / len(self.pages), 1):
            last.stop = n
            return
        for at, page in enumerate(self.pages):
            page.start, page.stop = at * n // len(self.pages), (at + 1) * n // len(self.pages)
            self.begin(page)

    def begin(self, page: Book) -> None:
        """The shard holds nothing, or nothing that is known: tell it all."""
        page.blank = True
        self._due[page.rows] = True

    @property
    def all_due(self) -> int:
        """How many rows any shard has still to be told of, as of the last look."""
        return int(np.count_nonzero(self._due[: self._fleet.n]))

    def due(self, page: Book, most: int) -> RowList:
        """The rows of which the shard is to be told, `most` at most."""
        return np.flatnonzero(self._due[page.rows])[:most] + page.start

    def order(self, page: Book, rows: RowList, question: Question | None = None) -> Frame:
        """Tell it of `rows`, and perhaps ask."""
        fleet, before = self._fleet, page.number
        resources = fleet.allocatable.shape[0]
        page.number += 1
        order = ShardRequest(
            page.number,
            before,
            page.blank,
            page.stop - page.start,
            tuple(fleet.axis.names[:resources]),
            tuple(fleet.signal_axis.names[: len(fleet.used)]),
            len(rows),
            question,
            fleet.signals.derived,
        )
        page.blank = False
        self._due[rows] = False
        body = pack(fleet, rows, page.start) if len(rows) else NOTHING
        return Frame(ENCODER.encode(order), body)
