"""The rows as an equivalence class sees them, and which classes have them in common.

What plugins that look at single rows make of them is kept once for all classes whose pods look
alike to these plugins (`RowTables`): of pods that differ in labels, namespace or home alone, the
class of the first asks about all rows, and the others about those that changed since anybody asked.
What clusters add, for the pod's home say, is added where it is needed: 100 homes with one template
are one table and 100 lists of 100 numbers.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from dispatcher.scheduling.equivalence.evaluators import GRID, PluginEvaluator
from dispatcher.scheduling.equivalence.leaders import GroupLeaders, Leaders
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.rows import Answers, RowPlugins, RowTable, RowTableName
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.equivalence.static_columns import ClusterColumn, StaticColumn
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, SmallInts
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole, parts_of

_NEVER = -1


@kernel("floats floats wholes out")
def _add_by_cluster(total, by_cluster, cluster, found):  # type: ignore[no-untyped-def]
    """The totals with what their clusters add."""
    for row in range(len(total)):
        found[row] = total[row] + by_cluster[cluster[row]]


def _add_points(total: Floats, by_cluster: Floats, cluster: SmallInts, found: Floats) -> None:
    if _add_by_cluster.fast is not None and cluster.max(initial=-1) < len(by_cluster):
        _add_by_cluster.fast(total, by_cluster, cluster, found)
    else:
        np.add(total, by_cluster[cluster], out=found)


class RowTables:
    """The tables that classes use, and the plugins that they ask; what no class uses is forgotten."""

    def __init__(self, roles: Sequence[PluginRole], fleet: FleetState) -> None:
        self._roles = [role for role in roles if role.scope is AnswerScope.ROW]
        self._name = parts_of(self._roles)
        self._fleet = fleet
        self._plugins: WeakValueDictionary[tuple[Hashable, ...], RowPlugins] = WeakValueDictionary()
        self._tables: dict[RowTableName, RowTable] = {}
        self._users: Counter[RowTable] = Counter()
        self._spare: RowTable | None = None
        self.blank = RowTable(
            fleet, RowPlugins(()), (StaticFilters(()), (), (), ())
        )  # of classes not asked about rows
        self.leaders = Leaders(fleet)

    def plugins(self, key: ClassKey) -> RowPlugins:
        """Those that look at one row each, for pods of a class's key."""
        name = self._name(key)
        found = self._plugins.get(name)
        if found is None:
            asked = [role for role in self._roles if role.key_at in key.asked.at]
            found = RowPlugins([PluginEvaluator(role, self._fleet) for role in asked])
            self._plugins[name] = found
        return found

    def take(self, plugins: RowPlugins, name: RowTableName) -> RowTable:
        """The table by these answers; to be given back."""
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = RowTable(self._fleet, plugins, name, self._spare)
            self._spare = None
        self._users[found] += 1
        return found

    def give_back(self, table: RowTable, *, reuse: bool = True) -> None:
        """One class less uses the table; `reuse`: its memory, too, if it was the last."""
        self._users[table] -= 1
        if not self._users[table]:
            del self._users[table], self._tables[table.name]
            self.leaders.forget(table)
            if reuse:  # fresh memory costs more than the answers that go into it
                self._spare = table

    def forget(self, plugins: RowPlugins) -> None:
        """Make these anew for the next class: what they hold may be half written."""
        for name in [name for name, one in self._plugins.items() if one is plugins]:
            del self._plugins[name]


def _of_table(name: str) -> Any:
    return property(attrgetter(f"table.{name}"))


class ClassRows:
    """The rows of one class: `table`, without rows if no row was asked about yet, as PreFilter
    refused the pods as a whole; and `by_cluster` [clusters], the points that clusters add.

    Answers are those of the last refresh of the table (see `RowTable`).
    """

    refusal_codes: Codes = _of_table("refusal_codes")
    rejected: Counter[tuple[int, int]] = _of_table("rejected")
    feasible: int = _of_table("feasible")
    evaluated: int = _of_table("evaluated")
    feasible_rows: Callable[[], RowList] = _of_table("feasible_rows")
    last_scores: Mapping[int | None, Floats] = _of_table("last_scores")

    def __init__(self, fleet: FleetState, tables: RowTables, key: ClassKey) -> None:
        self._fleet = fleet
        self._tables = tables
        self.plugins = tables.plugins(key)
        self.table = tables.blank
        self._left = False
        self.by_cluster: Floats | None = None
        self._version = self._flips = self._asked_at = self._plugins_at = _NEVER
        self._total: Floats = np.zeros(0)
        self._total_of: tuple[int, int] = (_NEVER, 0)  # of the table: version, position in `asked`

    @property
    def current(self) -> bool:
        """Whether no other class has learned that all rows are due."""
        return self._plugins_at == self.plugins.version

    def use(
        self,
        static_filters: StaticFilters,
        filters: Sequence[Answers],
        points: Sequence[StaticColumn],
        evaluators: Sequence[PluginEvaluator],
    ) -> None:
        """The active ones: `static_filters`, then `filters` in profile order; and who scores
        without normalising.
        """
        by_cluster = [one for one in points if isinstance(one, ClusterColumn)]
        others = tuple([one for one in points if not isinstance(one, ClusterColumn)])
        name = static_filters, tuple(filters), others, tuple(evaluators)
        if self.table.name != name:
            before = self.table
            self._version = _NEVER
            if self._left:  # nobody would give it back
                self.table = RowTable(self._fleet, self.plugins, name)
            else:
                self.table = self._tables.take(self.plugins, name)
                if before is not self._tables.blank:
                    self._tables.give_back(before)
        self.by_cluster = (
            sum([one.points for one in by_cluster], np.zeros(1)) / GRID if by_cluster else None
        )
        self._total_of = _NEVER, 0

    def leave(self, *, reuse: bool) -> None:
        """The class is for no more pods. `reuse`: nobody looks at it; else a batch may still be
        decided by it.
        """
        if self.table is not self._tables.blank and not self._left:
            self._tables.give_back(self.table, reuse=reuse)
        self._left = True

    def refresh(self) -> tuple[RowList | None, bool]:
        """Bring the table up to date. Rows that may say otherwise than at the last refresh, None:
        any may; and whether any became feasible or is no longer.
        """
        table = self.table
        table.refresh()
        rows = (
            table.reevaluated_rows.since(self._asked_at) if table.version == self._version else None
        )
        flipped = table.feasibility_version != self._flips
        self._version = table.version
        self._flips = table.feasibility_version
        self._asked_at = table.reevaluated_rows.position
        self._plugins_at = self.plugins.version
        return rows, flipped

    # --- answers
    # ----------------------------------------------------------------------------------------------

    @property
    def total(self) -> Floats:
        """[n] the sum of the weighted scores, -inf where refused."""
        table = self.table
        by_cluster = self.by_cluster
        n = self._fleet.n
        if by_cluster is None:
            return table.total
        version, asked_at = self._total_of
        rows = table.reevaluated_rows.since(asked_at) if version == table.version else None
        if rows is None:
            self._total = grown(self._total, n, 0.0)
            _add_points(table.total[:n], by_cluster, self._fleet.cluster[:n], self._total[:n])
        elif len(rows):
            self._total = grown(self._total, n, 0.0)
            self._total[rows] = self.totals_of(rows)
        self._total_of = table.version, table.reevaluated_rows.position
        return self._total

    def totals_of(self, rows: RowList) -> Floats:
        """[rows] the same of some rows."""
        found = self.table.totals_of(rows)
        return (
            found if self.by_cluster is None else found + self.by_cluster[self._fleet.cluster[rows]]
        )

    def leaders(self, partition: Partition) -> GroupLeaders | None:
        """The best rows of groups each of which is in one cluster, so that what clusters add
        changes no order; None for other groups.
        """
        if not partition.is_within(self._fleet.cluster, self._fleet.live):
            return None
        return self._tables.leaders.of(self.table, partition)

    def forget_scores(self) -> None:
        """Keep `last_scores` no longer: a pod is booked, or is about to be."""
        self.table.last_scores = {}
