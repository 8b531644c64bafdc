"""Rows sorted into groups whose nodes are alike in every fault domain that matters to an
equivalence class.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Bools, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import untouched, window_of
from shared.messages.pod_cache import PodCache

MOST_GROUPS = 4096
_FEW_GROUPS = 64
_ROWS_A_GROUP = 4  # finer than this, going by groups saves nothing
_WIDEST = 1 << 22  # combinations of codes that are counted in a table
_KEPT = 256
# of a row: group 4, order 8, axis 4
_LEAST_KEPT = 16
_KEPT_BYTES = 2**28
_BYTES_PER_ROW = 16


@dataclass(eq=False)
class Partition:
    """`size` groups. `group` [n]; `axis_codes`: per axis, [size] the domain code or value index
    that the group's rows share; rows of a group are adjacent in `order`, from `starts[group]` to
    `starts[group + 1]`, ascending.
    """

    size: int
    group: SmallInts
    axis_codes: tuple[NDArray[np.int64], ...]
    # whether it is of all rows; else only `size`, `axis_codes` and `group` of its rows hold
    whole: bool = True
    _within: bool | None = None

    def is_within(self, areas: SmallInts, live: Bools) -> bool:
        """Whether the live rows of each group are of one of the `areas` [n]."""
        if self._within is None and _within.fast is not None:
            found = np.full(self.size, -1, dtype=np.int32)
            self._within = bool(_within.fast(self.group, areas, live, found))
        if self._within is None:
            codes = areas[self.order]
            among = live[self.order]
            first = self.starts[:-1]
            least = np.minimum.reduceat(np.where(among, codes, np.iinfo(np.int32).max), first)
            self._within = bool(
                (np.maximum.reduceat(np.where(among, codes, -1), first) <= least).all()
            )
        return self._within

    @cached_property
    def order(self) -> RowList:
        """[n] rows by group: asked for by few, and a third of the work."""
        return np.argsort(self.group.astype(np.int16), kind="stable")  # 16 bits are sorted by radix

    @cached_property
    def starts(self) -> list[int]:
        """[size + 1] where the rows of a group begin in `order`."""
        return [0, *np.cumsum(np.bincount(self.group, minlength=self.size)).tolist()]

    def rows(self, group: int) -> RowList:
        """The rows of a group, ascending."""
        return self.order[self.starts[group] : self.starts[group + 1]]


@kernel("wholes wholes bools out_wholes")
def _within(group, areas, live, found):  # type: ignore[no-untyped-def]
    """1 if the live rows of each group are of one area, which is `found` then (before: -1), else 0."""
    for row in range(len(group)):
        if live[row]:
            area = found[group[row]]
            if area < 0:
                found[group[row]] = areas[row]
            elif area != areas[row]:
                return 0
    return 1


@kernel("out_wholes wholes int")
def _combine(combined, axis, width):  # type: ignore[no-untyped-def]
    """Another digit for each number: a code of `axis`, of `width` ones from -1 up."""
    for row in range(len(combined)):
        combined[row] = combined[row] * width + axis[row] + 1


@kernel("wholes out_wholes out_wholes")
def _number(combined, ids, group):  # type: ignore[no-untyped-def]
    """Number the distinct ones in ascending order: `ids` [numbers] 1 + which it is, 0 for none
    (before: 0).
    """
    for row in range(len(combined)):
        ids[combined[row]] = 1
    size = 0
    for number in range(len(ids)):
        if ids[number]:
            size += 1
            ids[number] = size
    for row in range(len(combined)):
        group[row] = ids[combined[row]] - 1
    return size


def partition_of_some(axes: Sequence[SmallInts], rows: RowList) -> Partition | None:
    """`partition_of` some rows alone, faster where they are few; `group` of all others is 0 and
    means nothing.
    """
    where = window_of(rows)
    found = partition_of([axis[where] for axis in axes])
    if found is None:
        return None
    group = untouched(len(axes[0]), np.int32)
    group[where] = found.group
    return Partition(found.size, group, found.axis_codes, whole=False)


def partition_of(axes: Sequence[SmallInts]) -> Partition | None:
    """Rows grouped by the tuple of their codes (from -1 up) on all axes; None if that is nearly a
    group a row, or if a policy has codes of its own that are below: those are asked for row by row.
    """
    n = len(axes[0])
    most = max(_FEW_GROUPS, min(n // _ROWS_A_GROUP, MOST_GROUPS))
    widths = [int(axis.max(initial=-1)) + 2 for axis in axes]
    # in place, and half as wide: it is memory that takes the time
    combined = np.zeros(n, dtype=np.int32)
    width = 1
    for axis, more in zip(axes, widths, strict=True):
        if width * more > _WIDEST or axis.min(initial=-1) < -1:
            return None
        if _combine.fast is not None:
            _combine.fast(combined, np.ascontiguousarray(axis, dtype=np.int32), more)
        else:
            combined *= more
            combined += axis
            combined += 1
        width *= more
    if _number.fast is not None:
        ids = np.zeros(width, dtype=np.int32)
        group = np.empty(n, dtype=np.int32)
        size = _number.fast(combined, ids, group)
        return Partition(size, group, _split(np.flatnonzero(ids), widths)) if size <= most else None
    present = np.flatnonzero(np.bincount(combined, minlength=1))
    if len(present) > most:
        return None
    ids = np.zeros(width, dtype=np.int32)
    ids[present] = np.arange(len(present))
    return Partition(len(present), ids[combined], _split(present, widths))


def _split(combined: NDArray[np.int64], widths: Sequence[int]) -> tuple[NDArray[np.int64], ...]:
    codes = []
    for width in reversed(widths):
        combined, code = np.divmod(combined, width)
        codes.append(code - 1)
    return tuple(reversed(codes))


class Partitions:
    """Partitions by the very arrays that they were made of, forgotten when a node changes."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._at = -1
        # The arrays are kept with what was made of them, so that no other array can come to have
        # the same id.
        self._kept: PodCache[tuple[int, ...], tuple[Any, Partition | None]] = PodCache()
        self._memo: dict[Hashable, Any] = {}
        self._zeros: SmallInts = np.zeros(0, dtype=np.int32)

    def of(self, axes: Sequence[SmallInts]) -> Partition | None:
        """The partition by `axes` (see `partition_of`)."""
        self._forget_old()
        key = tuple(map(id, axes))
        found = self._kept.get(key)
        if found is None:
            found = tuple(axes), partition_of(axes)
            most = _KEPT_BYTES // (_BYTES_PER_ROW * max(1, self._fleet.n))
            self._kept.most = max(_LEAST_KEPT, min(_KEPT, most))
            self._kept.put(key, found, 0)
        return found[1]

    def one_group(self) -> SmallInts:
        """[n] zeros: all rows are of one group."""
        if len(self._zeros) != self._fleet.n:
            self._zeros = untouched(self._fleet.n, np.int32)
        return self._zeros

    def memo(self) -> dict[Hashable, Any]:
        """A cache for what others compute from partitions, by keys of their own: emptied when a
        node changes.
        """
        self._forget_old()
        return self._memo

    def _forget_old(self) -> None:
        if self._at != self._fleet.changes.position:
            self._kept.clear()
            self._memo.clear()
            self._at = self._fleet.changes.position
