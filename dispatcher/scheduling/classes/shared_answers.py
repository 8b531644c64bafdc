"""Answers that rest on nodes alone, kept once for all classes whose pods look alike to the plugin.

Classes that differ in what they request share what their selectors, tolerations and allowed clusters make of each node.
A column is brought up to date when a class that uses it is: the rows whose node changed, or all.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.model.reasons import Why
from dispatcher.scheduling.classes.judges import GRID, Judge, finite
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, Placed, Rows, SmallInts
from dispatcher.scheduling.framework.roles import Role

DEAD = 0xFFFF  # instead of a reason code: the row holds no node
_NEVER = -1


class SharedColumn:
    """One plugin's answers for one key: `codes` [n], and `value` [n] of `values` if it normalises, else `points` [n]
    in units of 1 / GRID.

    `epoch` moves when answers other than those of changed rows may have. Values of a row without a node mean nothing.
    """

    def __init__(self, role: Role) -> None:
        self.role = role
        self.judge = Judge(role)
        self.epoch = 0
        self.codes: Codes = np.zeros(0, dtype=np.uint16)
        self.raw: Floats = np.zeros(0)
        self.points: Floats = np.zeros(0)
        self.value: SmallInts = np.zeros(0, dtype=np.int32)
        self.values: list[float] = []
        self._index: dict[float, int] = {}
        self._at = _NEVER

    @property
    def silent(self) -> bool:
        """The plugin has nothing to say about these pods."""
        return self.judge.silent

    def catch_up(self, placed: Placed, fleet: FleetState) -> Why | None:
        """Bring the answers up to date; the reason if the plugin refuses the pods as a whole."""
        judge, changed = self.judge, fleet.changes.since(self._at) if self._at != _NEVER else None
        everything = changed is None or judge.is_stale(fleet, changed=len(changed) > 0, touched=False)
        if not everything and changed is not None and not len(changed):
            return None
        silent, self._at = self.silent, _NEVER
        refused = judge.pre_filter(placed, fleet)
        if refused is not None:
            judge.known = False
            return refused
        self._write(fleet, None if everything or silent else changed)
        if everything or silent != self.silent:
            self.epoch += 1
        judge.note(fleet)
        self._at = fleet.changes.position
        return None

    def _write(self, fleet: FleetState, changed: RowList | None) -> None:
        if self.silent:
            return
        n = fleet.n
        rows: Rows = slice(0, n)  # a window is cheaper than a copy
        if changed is not None:
            rows = changed[fleet.live[changed]]
        elif not fleet.live.all():
            rows = np.flatnonzero(fleet.live)
        if self.role.filter_at is not None:
            self.codes = grown(self.codes, n, 0)
            self.codes[rows] = self.judge.codes(fleet, rows)
        if self.role.score_at is not None:
            self._score(fleet, rows, everything=changed is None)

    def _score(self, fleet: FleetState, rows: Rows, *, everything: bool) -> None:
        raw = finite(self.role.plugin, self.judge.scores(fleet, rows))
        self.raw = grown(self.raw, fleet.n, 0.0)
        self.raw[rows] = raw
        if not self.role.normalizes:
            self.points = grown(self.points, fleet.n, 0.0)
            self.points[rows] = np.rint(raw * (self.role.weight * GRID))
            return
        if everything or len(self.value) != fleet.n:
            # Another array, of n entries exactly: what was made of the old one is void.
            self.value = np.append(self.value[: fleet.n], np.zeros(max(fleet.n - len(self.value), 0), dtype=np.int32))
        found, where = np.unique(raw, return_inverse=True)
        self.value[rows] = np.asarray([self._value(one) for one in found.tolist()], dtype=np.int32)[where]

    def _value(self, raw: float) -> int:
        found = self._index.get(raw)
        if found is None:
            found = self._index[raw] = len(self.values)
            self.values.append(raw)
        return found

    @property
    def bytes(self) -> int:
        """What it keeps."""
        return self.codes.nbytes + self.raw.nbytes + self.points.nbytes + self.value.nbytes


class JointCodes:
    """The first of several shared filters that refuses each row: `first` [n], DEAD where there is no node.

    `rejected`: (reason code, cluster index) -> rows; `refused`: these and the dead ones; `evaluated`: live rows.
    """

    def __init__(self, columns: Sequence[SharedColumn]) -> None:
        self.columns = tuple(columns)
        self.epoch = 0
        self.first: Codes = np.zeros(0, dtype=np.uint16)
        self.rejected: dict[tuple[int, int], int] = {}
        self.refused = self.evaluated = 0
        self._at = _NEVER
        self._epochs: tuple[int, ...] = ()

    def catch_up(self, fleet: FleetState) -> None:
        """Follow the columns, which are up to date."""
        epochs = tuple(column.epoch for column in self.columns)
        changed = fleet.changes.since(self._at) if self._at != _NEVER and epochs == self._epochs else None
        if changed is not None and not len(changed):
            return
        self.epoch += changed is None
        self.first = grown(self.first, fleet.n, DEAD)
        rows: Rows = slice(0, fleet.n) if changed is None else changed
        first = np.where(fleet.live[rows], np.uint16(0), np.uint16(DEAD))
        for column in reversed(self.columns):
            codes = column.codes[: fleet.n][rows]
            np.copyto(first, codes, where=(codes != 0) & (first != DEAD))
        self.first[rows] = first
        self.rejected = count_codes(self.first[: fleet.n], fleet)
        self.refused = int(np.count_nonzero(self.first[: fleet.n]))
        self.evaluated = int(np.count_nonzero(fleet.live))
        self._at, self._epochs = fleet.changes.position, epochs


def count_codes(first: Codes, fleet: FleetState, rows: RowList | None = None) -> dict[tuple[int, int], int]:
    """(reason code, cluster index) -> rows refused for it; `first` is about `rows`, None: all."""
    no = np.flatnonzero((first != 0) & (first != DEAD))
    if not len(no):
        return {}
    clusters = max(len(fleet.clusters), 1)
    counts = np.bincount(first[no].astype(np.int64) * clusters + fleet.cluster[no if rows is None else rows[no]])
    return {divmod(key, clusters): int(counts[key]) for key in np.flatnonzero(counts).tolist()}
