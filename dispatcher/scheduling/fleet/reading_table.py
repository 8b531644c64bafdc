"""How readings enter the fleet: found by the names of their nodes, and written one by one or a
column at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from dispatcher.scheduling.fleet.awaited_pods import AwaitedPods
from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.fleet.columns import RowList, as_slice
from dispatcher.scheduling.fleet.derived_readings import DerivedReadings
from dispatcher.scheduling.fleet.readings import SourceSets, groups_alike, take_sample, take_samples
from dispatcher.scheduling.framework import Floats
from shared.model.node import Reading

_FEW = 8  # readings, of which one by one is as fast
_SHARES = attrgetter("cpu", "memory", "net")
_AGES = attrgetter("cpu_age_s", "memory_age_s", "net_age_s")


class ReadingTable(DerivedReadings):
    """The rows, and what readings say of them."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now  # seconds on the core's clock
        self.loads = ChangedRows()  # rows whose pods or readings changed
        self._awaited = AwaitedPods(self._store)
        self._sources = SourceSets()

    def put_reading(self, cluster: str, reading: Reading) -> None:
        """Take over what a reading knows, newest sample first come; unknown nodes are ignored.

        A reading sampled at or after the time a pod was placed includes that pod, so `recent` stops
        counting it; `settling` counts what the mean does not hold yet.
        """
        row = self._cluster(cluster).rows.get(reading.node)
        if row is None:
            return
        signals: list[str] = []
        for name, share, age in reading.signals():
            column = self._signal(name)
            if column is not None:
                take_sample(self._store, column, row, share, age, self.now)
                signals.append(name)
        self._sources.note(self._store, row, reading, signals)
        self._awaited.read(row)
        self.loads.append(row)

    def put_readings(self, cluster: str, readings: Sequence[Reading]) -> None:
        """`put_reading` for each of them, with one write a signal; the second and later ones of a
        node in turn.
        """
        row_of = self._cluster(cluster).rows.get
        if len(readings) >= _FEW and self._put_all_alike(row_of, readings):
            return
        known = [(row, one) for one in readings if (row := row_of(one.node)) is not None]
        if len(known) < _FEW:
            for _, one in known:
                self.put_reading(cluster, one)
        else:
            self._put_by_group(cluster, known)

    def _put_all_alike(
        self, row_of: Callable[[str], int | None], readings: Sequence[Reading]
    ) -> bool:
        """Readings of different known nodes that all know cpu, memory and network, and no other
        signal, from one source, as nearly all do; False, and nothing is written, if there is
        another one among them.

        In one pass, while a reading is in the processor's cache: thousands are not.
        """
        source = readings[0].source
        rows = list[int]()
        values = list[float | None]()
        for one in readings:
            row = row_of(one.node)
            if row is None or one.source != source or one.sources or one.more:
                return False
            rows.append(row)
            values += (one.cpu, one.memory, one.net, one.cpu_age_s, one.memory_age_s, one.net_age_s)
        columns = np.asarray(values, dtype=np.float64).reshape(-1, 6).T
        if np.isnan(columns[:3]).any() or len(set(rows)) < len(rows):  # not known, perhaps
            return False
        self._take(np.asarray(rows, dtype=np.intp), columns[:3], columns[3:], readings[0])
        return True

    def _put_by_group(self, cluster: str, known: Sequence[tuple[int, Reading]]) -> None:
        for alike in groups_alike(known):
            if len(alike) < _FEW or alike[0][1].more:
                for _, one in alike:
                    self.put_reading(cluster, one)
                continue
            at, found = zip(*alike, strict=True)
            self._take(
                np.asarray(at, dtype=np.intp),
                _columns(found, _SHARES),
                _columns(found, _AGES),
                found[0],
            )

    def _take(self, rows: RowList, shares: Floats, ages: Floats, like: Reading) -> None:
        """Write readings of different nodes that all have the signals and sources of `like`: [3,
        rows] cpu, memory and network.
        """
        where = as_slice(rows)
        take_samples(self._store, where, shares, ages, self.now)
        self._sources.note_all(self._store, where, like)
        for row in self._awaited.by_row.keys() & rows.tolist() if self._awaited.by_row else ():
            self._awaited.read(row)
        self.loads.extend(rows)

    def readings_of(self, row: int) -> tuple[tuple[float, float], ...]:
        """(share, sampled at) of each signal of a row, as `signal_axis` orders them; NaN and -inf:
        never.
        """
        return tuple(zip(self.used[:, row].tolist(), self.used_at[:, row].tolist(), strict=True))

    @property
    def source_sets(self) -> Sequence[Mapping[str, str]]:
        """By code of the column `source_set`: signal -> its last source. Sets never change, they
        only come.
        """
        return self._sources.sets

    def sources_of(self, row: int) -> Mapping[str, str]:
        """The last source of each signal of a row."""
        return self._sources.sets[self.source_set.item(row)]


def _columns(
    readings: Sequence[Reading], fields: Callable[[Reading], tuple[float | None, ...]]
) -> Floats:
    """[fields, readings] what each says, NaN for None."""
    return np.asarray(list(map(fields, readings)), dtype=np.float64).T
