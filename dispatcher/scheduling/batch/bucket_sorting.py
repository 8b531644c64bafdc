"""Which rows are in which bucket of a batch: all, or in large fleets only those on which pods are
that count.

Rows of one group on whose hosts no pod counts are one bucket; in a fleet of many groups their best
rows are known already (`equivalence.leaders`), and only the few other rows are looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.leaders import GroupLeaders
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.fleet.columns import RowList, distinct
from dispatcher.scheduling.framework import Bools, Ints
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import window_of

MANY_GROUPS = 16  # from there on the best rows of groups are kept
_FEW_HELD = 16  # while one row in so many at most has pods that count: each of those is looked at
_MOST_BUCKETS = 4096  # some for each zone of hundreds of clusters
_WIDEST = 1 << 22  # combinations that are counted in a table
_Keys = list[tuple[int, ...]]


@dataclass
class Leading:
    """What is known without looking at all rows. `bucket` [groups]: that of rows without pods, -1
    for none; `held`, the other feasible rows, ascending, and `held_bucket` of each; `is_held` [n].
    """

    leaders: GroupLeaders
    bucket: Ints
    held: RowList
    held_bucket: Ints
    is_held: Bools

    @cached_property
    def place(self) -> Ints:
        """[groups, WIDTH] the position, from 1, of each kept row among those without pods; 0: it
        has pods.
        """
        best = self.leaders.best
        free = (best >= 0) & ~self.is_held[best]
        place: Ints = np.where(free, np.cumsum(free, axis=1), 0)
        return place


@dataclass
class BucketSorting:
    """`keys`: of each bucket the group and the counts on its hosts, ascending; `members` [buckets]:
    rows that no other filter refuses.
    """

    keys: _Keys
    members: Ints
    leading: Leading | None
    _sorted: Callable[[], tuple[RowList, Ints]]

    @cached_property
    def _all(self) -> tuple[RowList, Ints]:
        return self._sorted()

    @property
    def rows(self) -> RowList:
        """All rows that no other filter refuses, ascending."""
        return self._all[0]

    @property
    def bucket_of(self) -> Ints:
        """[rows] their buckets."""
        return self._all[1]


@dataclass(frozen=True)
class _Digits:
    """A number for each row by its group and the counts on its host, of `widths` values each from
    `lows` on.
    """

    partition: Partition | None
    on_host: Sequence[Ints]
    lows: Sequence[int]
    widths: Sequence[int]

    @classmethod
    def of(
        cls, partition: Partition | None, on_host: Sequence[Ints], told: Sequence[Ints]
    ) -> "_Digits":
        """`told`: of each of `on_host`, the counts of the rows that are sorted; those of 0 may be
        left out.
        """
        lows = [int(counts.min(initial=0)) for counts in told]
        highs = [int(counts.max(initial=0)) for counts in told]
        return cls(
            partition,
            on_host,
            lows,
            [high - low + 1 for low, high in zip(lows, highs, strict=True)],
        )

    @property
    def width(self) -> int:
        """How many numbers there are."""
        found = 1 if self.partition is None else self.partition.size
        for one in self.widths:
            found *= one
        return found

    def combined(self, rows: RowList) -> Ints:
        """[rows] the numbers."""
        where = window_of(rows)
        groups = (
            self.partition.group[where].astype(np.int64)
            if self.partition
            else np.zeros(len(rows), dtype=np.int64)
        )
        for counts, low, width in zip(self.on_host, self.lows, self.widths, strict=True):
            _add_counts(rows, counts, low, width, groups)
        return groups

    def alone(self, groups: Ints) -> Ints:
        """[groups] the numbers of their rows without pods."""
        found = groups.astype(np.int64)
        for low, width in zip(self.lows, self.widths, strict=True):
            found = found * width - low
        return found

    def keys(self, numbers: Ints) -> _Keys:
        """What the numbers stand for."""
        rest = numbers
        values = []
        for low, more in zip(reversed(self.lows), reversed(self.widths), strict=True):
            rest, value = np.divmod(rest, more)
            values.append((value + low).tolist())
        return list(zip(rest.tolist(), *reversed(values), strict=True))


def sorting_of(
    eq_class: EquivalenceClass, partition: Partition | None, on_host: Sequence[Ints]
) -> BucketSorting | None:
    """The rows of a refreshed class, sorted by group and by each of the counts on hosts; None for
    too many buckets.
    """
    if partition is None and not on_host:  # all are one bucket
        return BucketSorting(
            [(0,)], np.asarray([eq_class.rows.feasible]), None, partial(_one, eq_class)
        )
    many = partition is not None and partition.whole and partition.size >= MANY_GROUPS
    told = on_host
    rows = None
    held_of = list[RowList]()
    if many:
        held_of = [_held(counts, eq_class.fleet.n) for counts in on_host]
        told = [counts[held] for counts, held in zip(on_host, held_of, strict=True)]
    elif partition is not None and not partition.whole:
        rows = eq_class.rows.feasible_rows()
        told = [counts[window_of(rows)] for counts in on_host]
    digits = _Digits.of(partition, on_host, told)
    if digits.width > _WIDEST:
        return None
    if partition and many:
        held = distinct(np.zeros(0, dtype=np.intp), *held_of)
        few = _FEW_HELD * len(held) <= eq_class.fleet.n
        leaders = eq_class.rows.leaders(partition) if few else None
        if leaders is not None:
            return _by_leaders(eq_class, leaders, digits, held)
    rows = eq_class.rows.feasible_rows() if rows is None else rows
    present, members, bucket_of = _places(digits.combined(rows), digits.width)
    if len(present) > _MOST_BUCKETS:
        return None
    return BucketSorting(digits.keys(present), members, None, lambda: (rows, bucket_of))


def _one(eq_class: EquivalenceClass) -> tuple[RowList, Ints]:
    rows = eq_class.rows.feasible_rows()
    return rows, np.zeros(len(rows), dtype=np.int64)


def _all_sorted(eq_class: EquivalenceClass, digits: _Digits) -> tuple[RowList, Ints]:
    """All feasible rows, ascending, and their buckets."""
    rows = eq_class.rows.feasible_rows()
    return rows, _places(digits.combined(rows), digits.width)[2]


@kernel("ints out_ints")
def _find_held(counts, found):  # type: ignore[no-untyped-def]
    """The rows whose count is not 0 are `found`; how many they are."""
    held = 0
    for row in range(len(found)):
        if counts[row] != 0:
            found[held] = row
            held += 1
    return held


def _held(counts: Ints, n: int) -> RowList:
    """The rows of `n` on whose hosts pods count, ascending."""
    if _find_held.fast is None:
        return np.flatnonzero(counts[:n])
    found = np.empty(n, dtype=np.int64)  # memory that is not written costs nothing
    return found[: _find_held.fast(np.ascontiguousarray(counts), found)].copy()


def _by_leaders(
    eq_class: EquivalenceClass, leaders: GroupLeaders, digits: _Digits, held: RowList
) -> BucketSorting | None:
    partition = leaders.partition
    is_held = np.zeros(eq_class.fleet.n, dtype=np.bool_)
    is_held[held] = True
    held = held[eq_class.rows.refusal_codes[held] == 0]
    alone = leaders.members - np.bincount(partition.group[held], minlength=partition.size)
    groups = np.flatnonzero(alone)
    numbers = np.concatenate([digits.alone(groups), digits.combined(held)])
    present, members, places = _places(numbers, digits.width)
    if len(present) > _MOST_BUCKETS:
        return None
    bucket = np.full(partition.size, -1, dtype=np.int64)
    bucket[groups] = own = places[: len(groups)]
    members[own] += alone[groups] - 1  # each group is one of the numbers
    leading = Leading(leaders, bucket, held, places[len(groups) :], is_held)
    return BucketSorting(
        digits.keys(present), members, leading, partial(_all_sorted, eq_class, digits)
    )


def _places(combined: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """The numbers that there are, ascending, how many rows have each, and which of them each row
    has.
    """
    counts = np.bincount(combined, minlength=1)
    present = np.flatnonzero(counts)
    ids = np.zeros(width, dtype=np.int64)
    ids[present] = np.arange(len(present))
    return present, counts[present], ids[combined]


@kernel("ints ints int int out_ints")
def _append(rows, counts, low, width, combined):  # type: ignore[no-untyped-def]
    """Another digit for each of the numbers: the count of the row, of `width` ones from `low` on."""
    for at in range(len(rows)):
        combined[at] = combined[at] * width + counts[rows[at]] - low


def _add_counts(
    rows: RowList, counts: Ints, low: int, width: int, combined: NDArray[np.int64]
) -> None:
    if _append.fast is not None:
        _append.fast(rows, np.ascontiguousarray(counts), low, width, combined)
        return
    combined *= width
    combined += counts[rows] - low
