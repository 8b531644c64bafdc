"""Answers that rest on nodes alone, computed once for all classes whose pods look alike to the
plugin.

Classes that differ in what they request share what their selectors, tolerations and allowed
clusters make of each node. Two steps of sharing: a column a plugin and key (`StaticColumn`), and
all columns of classes that are alike to every such plugin (`StaticAnswers`). Refreshed when a class
that uses them is: the rows whose node changed, or all.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from dispatcher.scheduling.equivalence.group_scores import GroupScores
from dispatcher.scheduling.equivalence.partitions import Partitions
from dispatcher.scheduling.equivalence.static_columns import ClusterColumn, StaticColumn
from dispatcher.scheduling.fleet.columns import RowList, grown
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Codes, Floats, Ints, PodInfo, Rows
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import window_of
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole, parts_of
from shared.messages.pod_cache import PodCache, said
from shared.model.reasons import Why

NO_NODE = 0xFFFF  # instead of a reason code: the row holds no node
_NEVER = -1
_PART_BYTES_PER_ROW = 2
_USUAL_CODES = 64  # of reasons; there may be more
# if less than one row in so many is let pass, to gather those costs less than to go through all
FEW_OPEN = 8
_LEAST_KEPT = 16  # of a million nodes 350 MB of columns
_MOST_KEPT = 4096  # where they take hardly any memory
_COLUMN_BYTES_PER_ROW = 22  # codes 2, raw 8, grid points 8, value 4; none has both of the last
_CODES_BYTES_PER_ROW = 2


@kernel("marks out_marks")
def _refuse(codes, first):  # type: ignore[no-untyped-def]
    """Write the `codes` of a filter into `refusal_codes` at the rows that no filter before it
    refuses.
    """
    for row in range(len(first)):
        if first[row] == 0:
            first[row] = codes[row]


class StaticFilters:
    """The first of several shared filters that refuses each row: `refusal_codes` [n], NO_NODE where
    there is no node.

    `rejected`: (reason code, cluster index) -> rows; `refused`: these and the dead ones;
    `evaluated`: live rows.
    """

    def __init__(
        self, columns: Sequence[StaticColumn], shared: "StaticAnswersCache | None" = None
    ) -> None:
        """`shared`: keeps those of the first columns alone."""
        self.columns = tuple(columns)
        self._shared = shared
        self.version = 0
        self._first: Codes = np.zeros(0, dtype=np.uint16)
        # what `_first` is to be: all rows, but these
        self._few: tuple[Codes, RowList, Codes] | None = None
        self.rejected: dict[tuple[int, int], int] = {}
        self.refused = self.evaluated = 0
        self._at = _NEVER
        self._versions: tuple[int, ...] = ()
        self._open: RowList | None = None
        self._n = 0
        self._closed: tuple[int, Codes, dict[tuple[int, int], int]] | None = None

    @property
    def refusal_codes(self) -> Codes:
        """See above. Of few open rows it is made when somebody asks: fresh memory costs more than
        their answers.
        """
        if self._few is not None:
            (closed, rows, first), self._few = self._few, None
            self._first = closed.copy()
            self._first[rows] = first
        return self._first

    @property
    def few_open(self) -> RowList | None:
        """The rows that all of them let pass, ascending, if these are few: as for pods that select
        a region.
        """
        if self._open is None and FEW_OPEN * (self._n - self.refused) < self._n:
            self._open = np.flatnonzero(self.refusal_codes[: self._n] == 0)
        return self._open

    def refresh(self, fleet: FleetState) -> None:
        """Follow the columns, which are up to date."""
        versions = tuple(column.version for column in self.columns)
        changed = (
            fleet.changes.since(self._at)
            if self._at != _NEVER and versions == self._versions
            else None
        )
        if changed is not None and not len(changed):
            return
        self.version += changed is None
        self._n = fleet.n
        self._open = None
        self._closed = None
        known = [
            (at, *one.open_rows) for at, one in enumerate(self.columns) if one.open_rows is not None
        ]
        few = next((one for one in known if FEW_OPEN * len(one[1]) < fleet.n), None)
        if few is None or self._shared is None:
            self._ask(fleet, slice(0, fleet.n) if changed is None else changed)
        else:
            self._open_few(fleet, self._shared.filters(self.columns[: few[0]]), *few)
        self.evaluated = fleet.live_count
        self._at = fleet.changes.position
        self._versions = versions

    def _ask(self, fleet: FleetState, rows: Rows) -> None:
        whole = self._first = grown(self.refusal_codes, fleet.n, NO_NODE)
        first = ~fleet.live[rows] * np.uint16(NO_NODE)
        for column in self.columns:
            if _refuse.fast is not None:
                _refuse.fast(np.ascontiguousarray(column.codes[: fleet.n][rows]), first)
            else:
                np.copyto(first, column.codes[: fleet.n][rows], where=first == 0)
        whole[rows] = first
        self.rejected = count_codes(whole[: fleet.n], fleet)
        self.refused = int(np.count_nonzero(whole[: fleet.n]))

    def _open_few(
        self, fleet: FleetState, before: "StaticFilters", at: int, rows: RowList, code: int
    ) -> None:
        """Ask about the few rows that the column of number `at` lets pass, after the filters
        `before` it. All others are as for anybody whom it refuses there with `code`.

        Example: `before` refuses row 7 of ten with 3, the column lets 6 to 8 pass, and has 5 for
        all others, the next one refuses 8 with 4. For all who have such a column, rows are 5 5 5 5
        5 5 5 3 5 5; here 6 to 8 are 0 3 4.
        """
        before.refresh(fleet)
        (closed, rejected), where = before.closed(code, fleet), window_of(rows)
        first = before.refusal_codes[where].copy()
        for column in self.columns[at + 1 :]:
            np.copyto(first, column.codes[where], where=first == 0)
        self._few = closed, rows, first
        found = dict(rejected)  # a Counter is slower
        for codes, sign in (closed[where], -1), (first, 1):
            for key, count in count_codes(codes, fleet, where).items():
                found[key] = found.get(key, 0) + sign * count
        self.rejected = {key: found[key] for key in sorted(found) if found[key]}
        self._open = rows[first == 0]
        self.refused = fleet.n - len(self._open)

    def closed(self, code: int, fleet: FleetState) -> tuple[Codes, dict[tuple[int, int], int]]:
        """`refusal_codes` and `rejected` as they would be if a further filter refused all other
        rows with `code`.
        """
        known = self._closed
        if known is None or known[0] != code:
            first = self.refusal_codes[: fleet.n].copy()
            first[first == 0] = code
            known = self._closed = code, first, count_codes(first, fleet)
        return known[1:]


@kernel("marks wholes int out_ints")
def _count_codes(first, cluster, clusters, counts):  # type: ignore[no-untyped-def]
    """Count rows by code and cluster, as far as `counts` [codes x clusters] goes; the highest code
    but NO_NODE.
    """
    highest = 0
    codes = len(counts) // clusters
    for row in range(len(first)):
        code = int(first[row])
        if code not in (0, 0xFFFF):
            highest = max(highest, code)
            if code < codes:
                counts[code * clusters + cluster[row]] += 1
    return highest


def _numbered(first: Codes) -> tuple[Ints, Codes]:
    """The codes in `first`, 0 and up; and by code, its place among them. There may be 60,000, and
    few of them here.
    """
    found = np.flatnonzero(np.bincount(first, minlength=NO_NODE + 1)[1:NO_NODE]) + 1
    distinct = np.append(0, found)
    places = np.zeros(NO_NODE + 1, dtype=np.uint16)
    places[distinct], places[NO_NODE] = np.arange(len(distinct)), NO_NODE
    return distinct, places


def count_codes(
    first: Codes, fleet: FleetState, rows: Rows | None = None
) -> dict[tuple[int, int], int]:
    """(reason code, cluster index) -> rows refused for it; `refusal_codes` is about `rows`, None:
    all.
    """
    clusters = max(len(fleet.clusters), 1)
    distinct = np.arange(_USUAL_CODES)
    cluster = fleet.cluster if rows is None else fleet.cluster[rows]
    if _count_codes.fast is not None:
        counts = np.zeros(len(distinct) * clusters, dtype=np.int64)
        if _count_codes.fast(first, cluster, clusters, counts) >= len(distinct):
            distinct, places = _numbered(first)
            counts = np.zeros(len(distinct) * clusters, dtype=np.int64)
            _count_codes.fast(places[first], cluster, clusters, counts)
    else:
        no = np.flatnonzero((first != 0) & (first != NO_NODE))
        codes = first[no]
        if codes.max(initial=0) >= len(distinct):
            distinct, places = _numbered(codes)
            codes = places[codes]
        counts = np.bincount(codes.astype(np.int64) * clusters + cluster[no])
    keys = np.flatnonzero(counts)
    whys = distinct[keys // clusters].tolist()
    where = (keys % clusters).tolist()
    count = counts[keys].tolist()
    return dict(zip(zip(whys, where, strict=True), count, strict=True))


class StaticAnswers:
    """All that classes have in common whose pods look alike to every plugin that rests on nodes
    alone.

    `active`: the columns that are not skipped, in profile order; `static_filters`: the filters
    among them that stand before any other filter. `version` increases when answers may have changed
    on rows that are not in the log of nodes.
    """

    def __init__(
        self,
        columns: Sequence[StaticColumn],
        leading: int,
        fleet: FleetState,
        shared: "StaticAnswersCache",
    ) -> None:
        self._columns = tuple(columns)
        self._leading = leading
        self._fleet = fleet
        self._shared = shared
        self._partitions = shared.partitions
        self._group_scores: GroupScores | None = None
        self._grouped = False
        self.version = 0
        self.said = 0  # bytes of what those of its pods say of which that is most
        self.active: tuple[StaticColumn, ...] = ()
        # those whose scores mean something only beside those of other rows
        self.normalizing: list[StaticColumn] = []
        self.static_filters = StaticFilters(())
        # whether all active filters stand in these, before those of any other plugin
        self.leads = True
        self._volatile: list[tuple[StaticColumn, int]] = []
        self._seen: tuple[object, ...] = ()
        self._at = _NEVER
        self._points: Floats | None = None

    @property
    def current(self) -> bool:
        """Whether it is up to date."""
        if self._at != self._fleet.changes.position:
            return False
        return not any(
            one.version != version or one.evaluator.is_stale(changed=False, touched=False)
            for one, version in self._volatile
        )

    def refresh(self, pod_info: PodInfo) -> Why | None:
        """Bring all columns up to date; the reason if a plugin refuses the pods as a whole."""
        self._at = _NEVER
        for column in self._columns:
            refused = column.refresh(pod_info, self._fleet)
            if refused is not None:
                return refused
        self.active = tuple(column for column in self._columns if not column.evaluator.skipped)
        self.normalizing = [column for column in self.active if column.role.normalizes]
        filters = [one for one in self.active if one.role.filter_at is not None]
        leading = tuple([one for one in filters if one.role.key_at < self._leading])
        self.leads = len(filters) == len(leading)
        if self.static_filters.columns != leading:
            self.static_filters = self._shared.filters(leading)
        self.static_filters.refresh(self._fleet)
        volatile = [one for one in self._columns if one.evaluator.rests_on_more]
        self._volatile = [(one, one.version) for one in volatile]
        self._group_scores = None
        self._points = None
        seen = (
            self.static_filters,
            self.static_filters.version,
            *((one, one.version) for one in self.active),
        )
        self.version += seen != self._seen
        self._seen = seen
        self._at = self._fleet.changes.position
        return None

    def points(self) -> Floats:
        """[n] what is not normalised, of all scores together, in units of 1 / GRID."""
        if self._points is None:
            some = [one for one in self.active if one.role.score_at is not None]
            rows = slice(0, self._fleet.n)
            told = [one.points_of(rows) for one in some if not one.role.normalizes]
            self._points = sum(told, np.zeros(self._fleet.n))
        return self._points

    @property
    def group_scores(self) -> GroupScores | None:
        """What groups of rows add where nothing rests on domains; None if there would be nearly a
        group a row.
        """
        if self._group_scores is None:
            self._group_scores = GroupScores(self.normalizing, (), self._partitions)
            self._grouped = self._group_scores.ask()
        return self._group_scores if self._grouped else None


class StaticAnswersCache:
    """What classes of a plan share, by key; what was unused for longest is dropped beyond about
    `limit` bytes of columns, and as many of parts; 16 of each are always kept. Columns that go by
    cluster are counted apart: they take little, and each of many homes has its own.
    """

    def __init__(self, roles: Sequence[PluginRole], fleet: FleetState, limit: int) -> None:
        self.partitions = Partitions(fleet)
        self._fleet = fleet
        self._limit = limit
        self._roles = [role for role in roles if role.scope is AnswerScope.NODE_OBJECT]
        self._by_node = [role for role in self._roles if not role.by_cluster]
        self._name, self._name_by_node = parts_of(self._roles), parts_of(self._by_node)
        others = [
            role.key_at
            for role in roles
            if role.scope is not AnswerScope.NODE_OBJECT and role.filter_at is not None
        ]
        self._leading = min(
            others, default=len(roles) + max((role.key_at for role in roles), default=0)
        )
        # Bytes a row -> role and key -> column.
        self._columns: defaultdict[int, PodCache[tuple[PluginRole, Hashable], StaticColumn]] = (
            defaultdict(PodCache)
        )
        self._parts: PodCache[tuple[Hashable, ...], StaticAnswers] = PodCache()
        self._filters: PodCache[tuple[StaticColumn, ...], StaticFilters] = PodCache(_LEAST_KEPT)

    def part(self, key: ClassKey, *, by_node: bool = False) -> StaticAnswers:
        """The shared part of the class of a key; `by_node`: without what rests on clusters alone."""
        keys = by_node, (self._name_by_node if by_node else self._name)(key)
        found = self._parts.get(keys)
        if found is None or key.said > found.said:  # they may come to hold this pod
            at = key.asked.at.difference(key.brought)
            roles = self._by_node if by_node else self._roles
            columns = [
                self.column(one, key[one.key_at], key.said) for one in roles if one.key_at in at
            ]
            found = found or StaticAnswers(columns, self._leading, self._fleet, self)
            found.said = key.said
            # it holds its columns
            self._parts.most = self._most(_PART_BYTES_PER_ROW + _COLUMN_BYTES_PER_ROW)
            self._parts.put(keys, found, key.said)
        return found

    def filters(self, columns: tuple[StaticColumn, ...]) -> StaticFilters:
        """What these columns refuse together: parts that differ in what others say share it."""
        found = self._filters.get(columns)
        if found is None:
            found = StaticFilters(columns, self)
            self._filters.put(columns, found, 0)
        return found

    def column(self, role: PluginRole, key: Hashable, size: int = 0) -> StaticColumn:
        """Of a plugin for pods that look alike to it. `size`: bytes of what one of them says."""
        alike = (
            role.by_cluster
            and role.filter_at is None
            and role.score_at is not None
            and not role.normalizes
        )
        bytes_per_row = _COLUMN_BYTES_PER_ROW
        if role.by_cluster and (alike or role.score_at is None):
            bytes_per_row = 0 if alike else _CODES_BYTES_PER_ROW
        kept = self._columns[bytes_per_row]
        found = kept.get((role, key), size)
        if found is None:
            kept.most = self._most(bytes_per_row)
            found = (ClusterColumn if alike else StaticColumn)(role, self._fleet)
            kept.put((role, key), found, size or said(key))
        return found

    def _most(self, bytes_per_row: int) -> int:
        return max(
            _LEAST_KEPT, min(_MOST_KEPT, self._limit // max(1, bytes_per_row * self._fleet.n))
        )
