"""Upper bounds on the score of each row that hold for any pod: what lets a search look at few rows
and still be exact.

A table adds up the bounds of several score plugins (`framework.bounds`), in single precision,
rounded up. With the answers that rest on nodes alone it gives the bound of every row for one pod: a
few operations a row.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, distinct, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Floats, Readings, Rows
from dispatcher.scheduling.framework.bounds import BoundedScore, UpperBound, fall_together
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import blocks, window_of
from dispatcher.scheduling.framework.points import guarded
from dispatcher.scheduling.framework.roles import PluginRole
from dispatcher.scheduling.pruning.block_bounds import BlockGroups, BlockTable, block_bounds
from dispatcher.scheduling.pruning.row_bounds import BLOCK, GroupPoints, RowBounds

_HORIZON_S = 20.0  # how long bounds hold without a change
_FEW = 48  # rows that are asked anyway rather than bounded anew
_SLACK = 2.0**-15  # of the highest points: single precision errs less
_NEVER = -1


@kernel("shares wholes shares shares shares shares shares shares float float out_shares out_shares")
def _reach(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    points, group, static, base, cpu, most_cpu, memory, most_memory, milli, size, reach, best
):
    """The reach of each row, and the highest of each block of rows. In loops of one kind of work
    each, the compiler makes the second one of vector instructions: half the time of all.
    """
    milli = np.float32(milli)
    size = np.float32(size)
    for row in range(len(reach)):
        reach[row] = points[group[row]]
    for row in range(len(reach)):
        less_cpu = cpu[row] * milli
        less_memory = memory[row] * size
        less_cpu = most_cpu[row] if less_cpu > most_cpu[row] else less_cpu
        less_memory = most_memory[row] if less_memory > most_memory[row] else less_memory
        reach[row] = reach[row] + static[row] + base[row] - less_cpu - less_memory
    for block in range(len(best)):
        start = block * BLOCK
        end = min(block * BLOCK + BLOCK, len(reach))
        top = reach[start]
        for row in range(start, end):
            top = reach[row] if reach[row] > top else top
        best[block] = top


class UpperBounds:
    """The bounds of some score plugins together, kept up to date row by row.

    `loose`: rows that changed since: they may reach anything. `usual`: how far below the highest
    reach the bar was last time (see `pruned_search`), if that can be told.
    """

    def __init__(self, roles: Sequence[PluginRole], fleet: FleetState) -> None:
        self._roles = tuple(roles)
        self._fleet = fleet
        self._view = view_of(fleet)
        self._slack = (1.0 + sum(100.0 * role.weight for role in roles)) * _SLACK
        self._columns = np.zeros((5, 0), dtype=np.float32)  # base, then cpu, most, memory, most
        self._blocks = BlockTable()
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
            self._changes_at = fleet.changes.position
            self._loads_at = fleet.loads.position
            touched = touched[:0]
        self.loose = touched
        self._since = fleet.now
        return self._until.min(initial=np.inf) > fleet.now + _HORIZON_S / 2 or self._renew()

    def _rebuild(self) -> bool:
        fleet = self._fleet
        self._since = self._fleet.now
        self._changes_at = self._loads_at = _NEVER
        self._columns = grown(self._columns, fleet.n, 0.0)
        self._until = np.full(len(list(blocks(slice(0, fleet.n)))), -np.inf)
        if not self._renew():
            return False
        self._changes_at = fleet.changes.position
        self._loads_at = fleet.loads.position
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
            upper_bound = guarded(
                plugin, plugin.upper_bound, self._view, rows, self._fleet.clock + _HORIZON_S
            )
            if upper_bound is None:
                return False
            told.append((upper_bound, role.weight))
        base = sum(
            (one.base * weight for one, weight in told), np.full(len(told[0][0].base), self._slack)
        )
        self._columns[0, rows] = base
        for at, falls in (
            (1, [(one.cpu, one.most_cpu, weight) for one, weight in told]),
            (3, [(one.memory, one.most_memory, weight) for one, weight in told]),
        ):
            self._columns[at : at + 2, rows] = fall_together(falls, len(base))
        self._blocks.written(rows)
        return True

    def row_bounds(
        self,
        static: Readings,
        known: GroupPoints,
        uses: tuple[int, int],
        left_out: RowList,
        rows: RowList | None = None,
        blocks: tuple[BlockGroups, Readings] | None = None,
    ) -> RowBounds:
        """For a pod that is expected to use so much (milli-CPU, bytes), without rows that are
        `left_out`. `static` [n]: points that rest on nodes alone, -inf where refused; `rows`,
        ascending: all others are (None: any row may be open). `blocks`: the groups and the highest
        static points of each block, if these are known. What is answered holds until the next call.
        """
        whole = self._columns[:, : len(static)]
        group = known.group
        columns: Readings | Sequence[Readings] = whole
        if rows is not None:
            at = window_of(rows)
            columns = [
                column[at] for column in whole
            ]  # one by one: of all together a copy would be made first
            static = static[at]
            group = group[at]
        if _reach.fast is None:
            reach = _reach_of(known.points[group], static, columns, uses)
            return RowBounds(reach, reach, left_out, rows)
        n = len(static)
        if len(self._scratch[0]) < n:
            self._scratch = (
                np.zeros(2 * n, dtype=np.float32),
                np.zeros(2 * n // BLOCK + 1, dtype=np.float32),
            )
        reach = self._scratch[0][:n]
        best = self._scratch[1][: -(-n // BLOCK)]
        if rows is None and blocks is not None:
            by_block = blocks[0], blocks[1], self._blocks.of(whole)
            return block_bounds(known, (static, *columns), by_block, uses, (reach, best), left_out)
        _reach.fast(
            known.points, group, static, *columns, float(uses[0]), float(uses[1]), reach, best
        )
        return RowBounds(reach, best, left_out, rows)


def _reach_of(
    points: Readings,
    static: Readings,
    columns: Readings | Sequence[Readings],
    uses: tuple[int, int],
) -> Readings:
    """The NumPy form of `_reach`."""
    (base, cpu, most_cpu, memory, most_memory), (milli, size) = columns, uses
    reach: Readings = (
        points
        + static
        + base
        - np.minimum(cpu * milli, most_cpu)
        - np.minimum(memory * size, most_memory)
    )
    return reach
