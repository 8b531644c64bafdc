"""How readings enter the fleet: found by the names of their nodes, and written one by one or a column at a time."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from dispatcher.model.node import Reading
from dispatcher.scheduling.fleet.awaited_pods import AwaitedPods
from dispatcher.scheduling.fleet.columns import RowList, as_slice
from dispatcher.scheduling.fleet.derived_readings import DerivedReadings
from dispatcher.scheduling.fleet.journal import Journal
from dispatcher.scheduling.fleet.readings import SourceSets, groups_alike, take_sample, take_samples
from dispatcher.scheduling.framework import Floats

_FEW = 8  # readings, of which one by one is as fast
_node_of: Callable[[Reading], str] = attrgetter("node")


class ReadingTable(DerivedReadings):
    """The rows, and what readings say of them."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now  # seconds on the core's clock
        self.loads = Journal()  # rows whose pods or readings changed
        self._awaited = AwaitedPods(self._store)
        self._sources = SourceSets()

    def put_reading(self, cluster: str, reading: Reading) -> None:
        """Take over what a reading knows, newest sample first come; unknown nodes are ignored.

        A reading sampled at or after the time a pod was placed includes that pod, so `recent` stops counting it;
        `settling` counts what the mean does not hold yet.
        """
        row = self._cluster(cluster).rows.get(reading.node)
        if row is None:
            return
        told: list[str] = []
        for name, share, age in reading.signals():
            column = self._signal(name)
            if column is not None:
                take_sample(self._store, column, row, share, age, self.now)
                told.append(name)
        self._sources.note(self._store, row, reading, told)
        self._awaited.read(row)
        self.loads.append(row)

    def put_readings(self, cluster: str, readings: Sequence[Reading]) -> None:
        """`put_reading` for each of them, with one write a signal; the second and later ones of a node in turn."""
        rows = list(map(self._cluster(cluster).rows.get, map(_node_of, readings)))
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            readings = [one for row, one in zip(rows, readings, strict=True) if row is not None]
        if len(known) < _FEW:
            for one in readings:
                self.put_reading(cluster, one)
            return
        apart = len(set(known)) == len(known)
        if not (apart and self._put_like_first(np.asarray(known, dtype=np.intp), readings)):
            self._put_by_group(cluster, known, readings)

    def _put_like_first(self, rows: RowList, readings: Sequence[Reading]) -> bool:
        """Readings of different nodes that all know cpu, memory and network, and no other signal, from one source, as
        nearly all do; False, and nothing is written, if there is another one among them.
        """
        source = readings[0].source
        for one in readings:
            if one.source != source or one.sources or one.more:
                return False
        shares = _shares(readings)
        if any(np.isnan(share).any() for share in shares):  # not known, perhaps
            return False
        self._take(rows, shares, _ages(readings), readings[0])
        return True

    def _put_by_group(self, cluster: str, rows: Sequence[int], readings: Sequence[Reading]) -> None:
        for alike in groups_alike(zip(rows, readings, strict=True)):
            if len(alike) < _FEW or alike[0][1].more:
                for _, one in alike:
                    self.put_reading(cluster, one)
                continue
            at, found = zip(*alike, strict=True)
            self._take(np.asarray(at, dtype=np.intp), _shares(found), _ages(found), found[0])

    def _take(self, rows: RowList, shares: Sequence[Floats], ages: Sequence[Floats], like: Reading) -> None:
        """Write readings of different nodes that all have the signals and sources of `like`."""
        where = as_slice(rows)
        take_samples(self._store, where, shares, ages, self.now)
        self._sources.note_all(self._store, where, like)
        for row in self._awaited.by_row.keys() & rows.tolist() if self._awaited.by_row else ():
            self._awaited.read(row)
        self.loads.extend(rows)

    def readings_of(self, row: int) -> tuple[tuple[float, float], ...]:
        """(share, sampled at) of each signal of a row, as `signal_axis` orders them; NaN and -inf: never."""
        return tuple(zip(self.used[:, row].tolist(), self.used_at[:, row].tolist(), strict=True))

    @property
    def source_sets(self) -> Sequence[Mapping[str, str]]:
        """By code of the column `source_set`: signal -> who told it last. Sets never change, they only come."""
        return self._sources.sets

    def sources_of(self, row: int) -> Mapping[str, str]:
        """Who told each signal of a row last."""
        return self._sources.sets[self.source_set.item(row)]


def _shares(readings: Sequence[Reading]) -> list[Floats]:
    return [_column(readings, name) for name in ("cpu", "memory", "net")]


def _ages(readings: Sequence[Reading]) -> list[Floats]:
    return [_column(readings, name) for name in ("cpu_age_s", "memory_age_s", "net_age_s")]


def _column(readings: Sequence[Reading], field: str) -> Floats:
    """[readings] that field of each, NaN for None."""
    return np.asarray(list(map(attrgetter(field), readings)), dtype=np.float64)
