"""Rows of groups told apart by a number that each has, as by how many pods of an app are on a host.

Most rows have none: these stay in the group of their domains, and the few others are moved.
`counted_terms` has an example.
"""

from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Ints, Rows, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.memory import untouched, window_of
from dispatcher.scheduling.pruning.fitting_rows import WIDEST, FittingRows

_FEW = 64  # rows that are followed one by one, and pieces of them
_BLOCK = 256  # rows
_Groups = tuple[Partition, Ints | None]


@kernel("ints out_ints")
def _with_number(numbers, found):  # type: ignore[no-untyped-def]
    """How many numbers are not 0; their places are found, as far as there is room for them. In
    blocks whose first loop the compiler makes of vector instructions.
    """
    count = 0
    for block in range(-(-len(numbers) // _BLOCK)):
        part = numbers[block * _BLOCK : block * _BLOCK + _BLOCK]
        some = 0
        for row in range(len(part)):
            some |= part[row]
        for row in range(len(part) if some else 0):
            if part[row] != 0:
                if count < len(found):
                    found[count] = block * _BLOCK + row
                count += 1
    return count


@kernel("ints ints int marks out_wholes out_ints")
def _move(places, numbers, size, refused, group, members):  # type: ignore[no-untyped-def]
    """Move the rows at these places from the group of their domains, of `size` ones, to that with
    their number.
    """
    for at in range(len(places)):
        row = places[at]
        before = group[row]
        group[row] = after = before + numbers[row] * size
        if refused[row] == 0:
            members[before] -= 1
            members[after] += 1


@dataclass(slots=True)
class SplitRows:
    """`group` [n] of each row: number * groups + that of its domains; `members` [groups x width]:
    rows that fit. All numbers are below `width`. `whole`: all rows are in the group of their
    domains but those that have `moved`.

    `base`: the groups of domains; `of`: who asked, for which width, the filters and their version;
    `loads_at`: up to which change of rows.
    """

    base: Partition
    group: SmallInts
    members: Ints
    width: int
    whole: bool
    of: tuple[object, int, StaticFilters, int]
    loads_at: int
    moved: list[RowList] = field(default_factory=list)


class RowsByNumber:
    """Splits the rows of groups, and follows them from one pod to the next: an answer holds until
    the next call.
    """

    def __init__(self, fitting: FittingRows) -> None:
        self._fitting = fitting
        self._last: SplitRows | None = None

    def split(
        self, whose: object, groups: _Groups, width: int, filters: StaticFilters
    ) -> SplitRows | None:
        """The rows of a partition by their numbers [n] (None: there are none), `width` of them told
        apart at least; None for too many groups, or a number below 0. `whose`: the numbers of one
        move with the pods of rows alone.

        Where few rows fit, the groups of others are anything.
        """
        of = whose, width, filters, filters.version
        return self._again(groups, of) or self._anew(groups, of)

    def _again(
        self, groups: _Groups, of: tuple[object, int, StaticFilters, int]
    ) -> SplitRows | None:
        """By the last split and the rows that changed since: only their hosts' numbers may have.
        None if that was of other groups, too many rows changed, or there is no group for a number.
        """
        last, (base, numbers), loads = self._last, groups, self._fitting.fleet.loads
        if last is None or numbers is None or last.of != of or len(last.moved) > _FEW:
            return None
        rows = loads.since(last.loads_at)
        if rows is None or len(rows) > _FEW:
            return None
        last.moved.append(
            rows
        )  # also those before one that has no group: `_unmoved` puts them back
        for row in rows.tolist():
            number = numbers.item(row)
            fits = int(of[2].refusal_codes.item(row) == 0)
            if not 0 <= number < last.width:
                return None
            last.members[last.group.item(row)] -= fits
            last.group[row] = group = number * base.size + base.group.item(row)
            last.members[group] += fits
        last.loads_at = loads.position
        return last

    def _anew(
        self, groups: _Groups, of: tuple[object, int, StaticFilters, int]
    ) -> SplitRows | None:
        (base, numbers), filters, few = groups, of[2], of[2].few_open
        rows = slice(0, self._fitting.fleet.n) if few is None else window_of(few)
        numbers = None if numbers is None else np.ascontiguousarray(numbers[rows])
        places = _places(numbers)
        told = np.zeros(0, dtype=np.int64) if numbers is None else numbers[places]
        width = max(of[1], int(told.max(initial=0)) + 1)
        if told.min(initial=0) < 0 or base.size * width > WIDEST:
            return None
        group = base.group[rows]
        first = filters.refusal_codes[rows]
        members = np.zeros(base.size * width, dtype=np.int64)
        if few is None:
            fitting = self._fitting.of(base, filters)
            members[fitting.names] = fitting.counts
        else:
            members[: base.size] = np.bincount(group[first == 0], minlength=base.size)
        if numbers is not None:
            group = self._unmoved(base) if few is None else np.array(group)
            _move.fast(places, numbers, base.size, first, group, members)
        if few is not None:
            group = base.group if numbers is None else _spread(group, rows, self._fitting.fleet.n)
        of = of[0], width, filters, filters.version
        made = SplitRows(
            base,
            group,
            members,
            width,
            few is None,
            of,
            self._fitting.fleet.loads.position,
            [places],
        )
        if few is None and numbers is not None:
            self._last = made
        return made

    def _unmoved(self, base: Partition) -> SmallInts:
        """[n] the groups of a partition, to be written: those of the last split where it was of the
        same one.
        """
        last = self._last
        self._last = None
        if last is None or last.base is not base:
            return base.group.copy()
        for places in last.moved:
            last.group[places] = base.group[places]
        return last.group


def _places(numbers: Ints | None) -> RowList:
    """Where numbers are not 0, ascending."""
    found = np.empty(0 if numbers is None else len(numbers), dtype=np.int64)
    return found if numbers is None else found[: _with_number.fast(numbers, found)]


def _spread(group: SmallInts, rows: Rows, n: int) -> SmallInts:
    """[n] the group of each of the rows; 0 for all others."""
    found: SmallInts = untouched(n, np.int32)
    found[rows] = group
    return found
