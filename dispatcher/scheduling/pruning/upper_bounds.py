"""Upper bounds on the score of each row that hold for any pod: what lets a search look at few rows and still be exact.

A table adds up the bounds of several score plugins (`framework.bounds`), in single precision, rounded up. With the
answers that rest on nodes alone it gives the bound of every row for one pod: a few operations a row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, distinct, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Floats, Readings, Rows, SmallInts
from dispatcher.scheduling.framework.bounds import BoundedScore, UpperBound, fall_together
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import blocks, window_of
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.roles import Role

_HORIZON_S = 20.0  # how long bounds hold without a change
_FEW = 48  # rows that are asked anyway rather than bounded anew
_BLOCK = 64  # rows
_SLACK = 2.0**-15  # of the highest points: single precision errs less
_NEVER = -1


@kernel("shares wholes shares shares shares shares shares shares float float out_shares out_shares")
def _reach(points, group, static, base, cpu, most_cpu, memory, most_memory, milli, size, reach, best):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The reach of each row, and the highest of each block of rows. In loops of one kind of work each, the compiler
    makes the second one of vector instructions: half the time of all.
    """
    milli, size = np.float32(milli), np.float32(size)
    for row in range(len(reach)):
        reach[row] = points[group[row]]
    for row in range(len(reach)):
        less_cpu, less_memory = cpu[row] * milli, memory[row] * size
        less_cpu = most_cpu[row] if less_cpu > most_cpu[row] else less_cpu
        less_memory = most_memory[row] if less_memory > most_memory[row] else less_memory
        reach[row] = reach[row] + static[row] + base[row] - less_cpu - less_memory
    for block in range(len(best)):
        start, end = block * _BLOCK, min(block * _BLOCK + _BLOCK, len(reach))
        top = reach[start]
        for row in range(start, end):
            top = reach[row] if reach[row] > top else top
        best[block] = top


@kernel("shares shares float float out_ints")
def _between(reach, best, low, high, found):  # type: ignore[no-untyped-def]
    """How many rows reach `low` but not `high`; those are found, as far as there is room for them."""
    count = 0
    for block in range(len(best)):
        if best[block] >= low:
            for row in range(block * _BLOCK, min(block * _BLOCK + _BLOCK, len(reach))):
                if low <= reach[row] < high:
                    if count < len(found):
                        found[count] = row
                    count += 1
    return count


@kernel("shares out_shares")
def _highest(best, top):  # type: ignore[no-untyped-def]
    """The lowest of the highest, as many as `top` has room for; they are kept there, ascending (before: -inf)."""
    for reach in best:
        if reach > top[0]:
            at = 1
            while at < len(top) and top[at] < reach:
                top[at - 1] = top[at]
                at += 1
            top[at - 1] = reach
    return top[0]


class GroupPoints(NamedTuple):
    """Points that all rows of a group have in common, rounded up, by group; and the group of each row, [n]."""

    points: Readings
    group: SmallInts


class RowBounds:
    """How high each row reaches for one pod; -inf where it is refused, or `left_out`. `top`: the highest.

    `rows`, ascending: what the entries of `reach` are about; None: all rows.
    """

    def __init__(self, reach: Readings, best: Readings, left_out: RowList, rows: RowList | None = None) -> None:
        if rows is not None:
            at = np.searchsorted(rows, left_out)
            left_out = at[np.append(rows, -1)[at] == left_out]
        reach[left_out] = -np.inf
        self._reach, self._best, self._rows = reach, best, rows
        self.top = float(best.max(initial=-np.inf))

    def enough(self, count: int) -> float:
        """A reach that about `count` rows have, or more."""
        if len(self._best) <= count:
            return -np.inf
        if _highest.fast is None:
            return float(np.partition(self._best, len(self._best) - count)[len(self._best) - count])
        return float(_highest.fast(self._best, np.full(count, -np.inf, dtype=np.float32)))

    def between(self, low: float, high: float, most: int) -> RowList | None:
        """The rows that reach `low` but not `high`, ascending; None if these are more than `most`."""
        if _between.fast is None:
            found: RowList = np.flatnonzero((self._reach >= low) & (self._reach < high) & (self._reach > -np.inf))
            count = len(found)
        else:
            found = np.empty(min(most, len(self._reach)), dtype=np.int64)
            count = _between.fast(self._reach, self._best, max(low, _LOWEST), high, found)
        if count > most:
            return None
        return found[:count] if self._rows is None else self._rows[found[:count]]


_LOWEST = float(np.finfo(np.float32).min)


class UpperBounds:
    """The bounds of some score plugins together, kept up to date row by row.

    `loose`: rows that changed since: they may reach anything. `usual`: how far below the highest reach the bar was
    last time (see `pruned_search`), if that can be told.
    """

    def __init__(self, roles: Sequence[Role], fleet: FleetState) -> None:
        self._roles, self._fleet, self._view = tuple(roles), fleet, view_of(fleet)
        self._slack = (1.0 + sum(100.0 * role.weight for role in roles)) * _SLACK
        self._columns = np.zeros((5, 0), dtype=np.float32)  # base, then cpu, most, memory, most
        self._until: Floats = np.zeros(0)  # [blocks] when their bounds end
        self._since = -np.inf
        self._changes_at = self._loads_at = _NEVER
        self._scratch = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
        self.loose: RowList = np.zeros(0, dtype=np.intp)
        self.usual: float | None = None

    def refresh(self) -> bool:
        """Follow the fleet; False if a plugin has no bound."""
        fleet = self._fleet
        changed = fleet.changes.since(self._changes_at) if self._changes_at != _NEVER else None
        touched = fleet.loads.since(self._loads_at) if self._loads_at != _NEVER else None
        if changed is None or touched is None or fleet.now < self._since:
            return self._rebuild()
        if len(changed) or len(touched) > _FEW:
            due = distinct(changed, touched)
            self._columns = grown(self._columns, fleet.n, 0.0)
            if len(self._until) < len(list(blocks(slice(0, fleet.n)))) or not self._write(due):
                return self._rebuild()
            self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position
            touched = touched[:0]
        self.loose, self._since = touched, fleet.now
        return self._until.min(initial=np.inf) > fleet.now + _HORIZON_S / 2 or self._renew()

    def _rebuild(self) -> bool:
        fleet, self._since = self._fleet, self._fleet.now
        self._changes_at = self._loads_at = _NEVER
        self._columns = grown(self._columns, fleet.n, 0.0)
        self._until = np.full(len(list(blocks(slice(0, fleet.n)))), -np.inf)
        if not self._renew():
            return False
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position
        self.loose = np.zeros(0, dtype=np.intp)
        return True

    def _renew(self) -> bool:
        """Renew the bounds of all blocks that have come to their end, else of the one that is next."""
        clock = self._fleet.clock
        due = np.flatnonzero(self._until < clock).tolist() or [int(self._until.argmin())]
        for at, block in enumerate(blocks(slice(0, self._fleet.n))):
            if at in due:
                if not self._write(block):
                    return False
                self._until[at] = clock + _HORIZON_S
        return True

    def _write(self, rows: Rows) -> bool:
        """Add up the bounds: they fall with the pod as far as none of them has come to its end."""
        told: list[tuple[UpperBound, float]] = []
        for role in self._roles:
            plugin: BoundedScore = role.plugin
            upper_bound = guarded(plugin, plugin.upper_bound, self._view, rows, self._fleet.clock + _HORIZON_S)
            if upper_bound is None:
                return False
            told.append((upper_bound, role.weight))
        base = sum((one.base * weight for one, weight in told), np.full(len(told[0][0].base), self._slack))
        self._columns[0, rows] = base
        for at, falls in (
            (1, [(one.cpu, one.most_cpu, weight) for one, weight in told]),
            (3, [(one.memory, one.most_memory, weight) for one, weight in told]),
        ):
            self._columns[at : at + 2, rows] = fall_together(falls, len(base))
        return True

    def row_bounds(
        self,
        static: Readings,
        known: GroupPoints,
        uses: tuple[int, int],
        left_out: RowList,
        rows: RowList | None = None,
    ) -> RowBounds:
        """For a pod that is expected to use so much (milli-CPU, bytes), without rows that are `left_out`. `static` [n]:
        points that rest on nodes alone, -inf where refused; `rows`, ascending: all others are (None: any row may be
        open). What is answered holds until the next call.
        """
        columns, group, (milli, size) = self._columns[:, : len(static)], known.group, uses
        if rows is not None:
            at = window_of(rows)
            columns = columns[:, at] if isinstance(at, slice) else columns.take(at, axis=1)
            static, group = static[at], group[at]
        n, (base, cpu, most_cpu, memory, most_memory) = len(static), columns
        if _reach.fast is None:
            reach = (
                known.points[group]
                + static
                + base
                - np.minimum(cpu * milli, most_cpu)
                - np.minimum(memory * size, most_memory)
            )
            return RowBounds(reach, reach, left_out, rows)
        if len(self._scratch[0]) < n:
            self._scratch = np.zeros(2 * n, dtype=np.float32), np.zeros(2 * n // _BLOCK + 1, dtype=np.float32)
        reach, best = self._scratch[0][:n], self._scratch[1][: -(-n // _BLOCK)]
        _reach.fast(
            known.points,
            group,
            static,
            base,
            cpu,
            most_cpu,
            memory,
            most_memory,
            float(milli),
            float(size),
            reach,
            best,
        )
        return RowBounds(reach, best, left_out, rows)
