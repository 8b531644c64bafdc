"""One plugin's answers that rest on nodes alone, a column a plugin and key; and a shorter one for
scores by cluster.
"""

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator, finite
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, PodInfo, Rows, SmallInts
from dispatcher.scheduling.framework.roles import PluginRole
from shared.model.reasons import Why

_NEVER = -1
# or twice as many as there were when it was looked last; then those that no row has are forgotten
_MOST_VALUES = 256


class StaticColumn:
    """One plugin's answers for one key: `codes` [n], and `value` [n] of `values` if it normalises,
    else `grid_points` [n], the weighted score in units of 1 / GRID.

    `open_rows`: where the filter tells them, the rows that it lets pass and the code of all others.
    `version` increases when answers may have changed on rows that are not in the log of nodes
    (`fleet.changes`). Values of a row without a node mean nothing.
    """

    def __init__(self, role: PluginRole, fleet: FleetState) -> None:
        self.role = role
        self.evaluator = PluginEvaluator(role, fleet)
        self.version = 0
        self.open_rows: tuple[RowList, int] | None = None
        self._codes: Codes = np.zeros(0, dtype=np.uint16)
        self.raw: Floats = np.zeros(0)
        self.grid_points: Floats = np.zeros(0)
        self.value: SmallInts = np.zeros(0, dtype=np.int32)
        self.values: list[float] = []
        self._index: dict[float, int] = {}
        self._most_values = _MOST_VALUES
        self._at = _NEVER

    @property
    def codes(self) -> Codes:
        """[n] 0 where the pod may go, else why not."""
        if self.open_rows is not None and not len(self._codes):
            rows, code = self.open_rows
            self._codes = np.full(self.evaluator.fleet.n, code, dtype=np.uint16)
            self._codes[rows] = 0
        return self._codes

    def refresh(self, pod_info: PodInfo, fleet: FleetState) -> Why | None:
        """Bring the answers up to date; the reason if the plugin refuses the pods as a whole."""
        evaluator = self.evaluator
        changed = fleet.changes.since(self._at) if self._at != _NEVER else None
        everything = changed is None or evaluator.is_stale(changed=len(changed) > 0, touched=False)
        if not everything and changed is not None and not len(changed):
            return None
        skipped = evaluator.skipped
        self._at = _NEVER
        refused = evaluator.pre_filter(pod_info)
        if refused is not None:
            evaluator.known = False
            return refused
        self._write(fleet, None if everything or skipped else changed)
        if everything or skipped != evaluator.skipped:
            self.version += 1
        evaluator.record_dependencies()
        self._at = fleet.changes.position
        return None

    def _write(self, fleet: FleetState, changed: RowList | None) -> None:
        if self.evaluator.skipped:
            return
        n = fleet.n
        rows: Rows = slice(0, n)  # a window is cheaper than a copy
        if changed is not None:
            rows = changed[fleet.live[changed]]
        elif fleet.live_count < n:
            rows = np.flatnonzero(fleet.live)
        if self.role.filter_at is not None:
            self._filter(rows, n)
        if self.role.score_at is not None:
            self._score(fleet, rows, everything=changed is None)
            if len(self.values) > self._most_values:
                self._forget_values(fleet.n)

    def _filter(self, rows: Rows, n: int) -> None:
        before = self.open_rows
        self.open_rows = self.evaluator.open_rows()
        if self.open_rows is not None:
            self._codes = np.zeros(0, dtype=np.uint16)
            return
        self._codes = grown(self._codes, n, 0)
        where = rows if before is None else slice(0, n)
        self._codes[where] = self.evaluator.codes(where)

    def _score(self, fleet: FleetState, rows: Rows, *, everything: bool) -> None:
        raw = self.evaluator.scores(rows)
        # of np.broadcast_to: the first stands for all
        distinct = raw[:1] if raw.strides == (0,) else raw
        finite(self.role.plugin, distinct)
        others = raw if everything else self.raw
        is_one = (
            self.role.normalizes and len(others) > 0 and (everything or not others.flags.writeable)
        )
        if is_one and (distinct == others[0]).all():
            # Most pods prefer no node by labels or taints: one number stands for the whole column,
            # read-only.
            only = float(others[0])  # also of whole numbers: other rows may get fractions later
            if everything or len(others) != fleet.n:
                self.raw = np.broadcast_to(np.float64(only), fleet.n)
                self.value = np.broadcast_to(np.int32(self._value(only)), fleet.n)
            return
        self.raw = grown(self.raw if self.raw.flags.writeable else self.raw.copy(), fleet.n, 0.0)
        self.raw[rows] = raw
        if not self.role.normalizes:
            self.grid_points = grown(self.grid_points, fleet.n, 0.0)
            self.grid_points[rows] = np.rint(raw * (self.role.weight * GRID))
            return
        if everything or len(self.value) != fleet.n or not self.value.flags.writeable:
            # Another array, of n entries exactly: what was made of the old one is void.
            self.value = np.append(
                self.value[: fleet.n], np.zeros(max(fleet.n - len(self.value), 0), dtype=np.int32)
            )
        found, where = distinct_values(raw)
        self.value[rows] = np.asarray([self._value(one) for one in found.tolist()], dtype=np.int32)[
            where
        ]

    def _forget_values(self, n: int) -> None:
        found, where = distinct_values(self.raw[:n])
        self.values = found.tolist()
        self._index = {one: at for at, one in enumerate(self.values)}
        self.value = where.astype(np.int32)  # another array: what was made of the old one is void
        self._most_values = max(_MOST_VALUES, 2 * len(self.values))

    def _value(self, raw: float) -> int:
        found = self._index.get(raw)
        if found is None:
            found = self._index[raw] = len(self.values)
            self.values.append(raw)
        return found

    def raw_at(self, row: int) -> float:
        """The raw score of a row."""
        return self.raw.item(row)

    def raw_of(self, rows: Rows) -> Floats:
        """[rows] raw scores."""
        return self.raw[rows]

    def points_of(self, rows: Rows) -> Floats:
        """[rows] weighted scores in units of 1 / GRID."""
        return self.grid_points[rows]


class ClusterColumn(StaticColumn):
    """The scores of a plugin that only scores, without normalising, and gives all nodes of a
    cluster the same.

    `points` [clusters]: the weighted score in units of 1 / GRID; `by_cluster` [clusters] the raw
    one. By row they are made for those who ask.
    """

    def __init__(self, role: PluginRole, fleet: FleetState) -> None:
        super().__init__(role, fleet)
        self._fleet = fleet
        self.points: Floats = np.zeros(0)
        self.by_cluster: Floats = np.zeros(0)

    def _write(self, fleet: FleetState, changed: RowList | None) -> None:
        if self.evaluator.skipped:
            return
        before = self.by_cluster
        some = fleet.row_of_each_cluster()
        known = np.flatnonzero(some >= 0)
        rows = np.sort(some[known])
        self.by_cluster = np.zeros(len(some))
        self.by_cluster[fleet.cluster[rows]] = finite(self.role.plugin, self.evaluator.scores(rows))
        self.points = np.rint(self.by_cluster * (self.role.weight * GRID))
        if changed is not None and not np.array_equal(before, self.by_cluster):
            self.version += 1

    def raw_at(self, row: int) -> float:
        """The raw score of a row."""
        return self.by_cluster.item(self._fleet.cluster.item(row))

    def raw_of(self, rows: Rows) -> Floats:
        """[rows] raw scores."""
        return self.by_cluster[self._fleet.cluster[rows]]

    def points_of(self, rows: Rows) -> Floats:
        """[rows] weighted scores in units of 1 / GRID."""
        return self.points[self._fleet.cluster[rows]]


class BroughtColumn(StaticColumn):
    """Scores by cluster that each pod of a class brings along (`ClassKey.brought`): 0 here."""

    def raw_at(self, row: int) -> float:
        """What is known without a pod."""
        return 0.0

    def raw_of(self, rows: Rows) -> Floats:
        """[rows] the same."""
        return np.zeros(rows.stop - rows.start if isinstance(rows, slice) else len(rows))


def distinct_values(raw: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The finite values, ascending, and which of them each entry is; fast where alike ones are
    neighbours, as the nodes of a cluster are.
    """
    first = np.append(
        np.zeros(min(len(raw), 1), dtype=np.intp), np.flatnonzero(raw[1:] != raw[:-1]) + 1
    )
    found, where = np.unique(raw[first], return_inverse=True)
    return found, np.repeat(where, np.diff(first, append=len(raw)))
