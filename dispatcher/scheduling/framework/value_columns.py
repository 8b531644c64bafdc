"""Plain JSON values of many records, kept and written as columns, and made values again when
somebody reads them.

Numbers stand as bytes of an array, and what is the same for all stands once: many records are
captured and written in a fraction of the time that it takes to make each a map. What comes out is
what went in, to the last digit and in the same order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_FEW = 32  # up to here msgpack writes whole numbers as short by itself


class _Form(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How the values of some records are kept."""


class Same(_Form, tag=0, frozen=True):
    """One value, the same in all records."""

    value: Any

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        return [self.value] * count


class Each(_Form, tag=1, frozen=True):
    """A value for each record, of any kind."""

    told: Sequence[Any]

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        return list(self.told)


class Numbers(_Form, tag=2, frozen=True):
    """Numbers, as the bytes of an array of that NumPy type; rounded to so many `digits` when they
    are read.
    """

    kind: str
    cells: bytes
    digits: int | None = None

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        found: list[Any] = np.frombuffer(self.cells, self.kind).tolist()
        return found if self.digits is None else [round(one, self.digits) for one in found]


class Picked(_Form, tag=3, frozen=True):
    """One of a few values; `which` has the place of each record's among them."""

    among: Sequence[Any]
    which: "Column"

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        among = self.among
        return [among[one] for one in self.which.values(count)]


class Either(_Form, tag=4, frozen=True):
    """The value of the second column where `which` is true, else that of the first; the other one
    means nothing.
    """

    which: "Column"
    first: "Column"
    second: "Column"

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        columns = (column.values(count) for column in (self.which, self.first, self.second))
        return [second if one else first for one, first, second in zip(*columns, strict=True)]


class Fields(_Form, tag=5, frozen=True):
    """Maps with the same keys, in this order."""

    names: Sequence[str]
    columns: Sequence["Column"]

    def values(self, count: int) -> list[Any]:
        """One for each of `count` records."""
        names = self.names
        rows = zip(*(column.values(count) for column in self.columns), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]


Column = Same | Each | Numbers | Picked | Either | Fields


class Table(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """So many records."""

    count: int
    column: Column

    def rows(self) -> list[Any]:
        """The records, in order. What is the same in several may be one object in each of them."""
        return self.column.values(self.count)


def numbers(values: NDArray[Any], digits: int | None = None) -> Column:
    """Numbers, or masks as true and false; whole ones in as few bytes as they need."""
    count = len(values)
    if count > 1:
        cells = values.tobytes()
        if cells != cells[: values.itemsize] * count:
            return (
                _small(values)
                if values.dtype.kind == "i"
                else Numbers(values.dtype.str, cells, digits)
            )
    one = values.item(0)
    return Same(one if digits is None else round(one, digits))


def _small(values: NDArray[Any]) -> Column:
    if len(values) < _FEW:
        return Each(values.tolist())
    for kind in ("<i1", "<i2", "<i4"):
        fewer = values.astype(kind)
        if not np.count_nonzero(fewer != values):
            return Numbers(kind, fewer.tobytes())
    return Numbers("<i8", values.astype("<i8").tobytes())


def each(values: Sequence[Any]) -> Column:
    """Any values."""
    return Same(values[0]) if values and all(one is values[0] for one in values) else Each(values)


def picked(values: Sequence[Any]) -> Column:
    """Hashable values of which many are equal."""
    among = {one: at for at, one in enumerate(dict.fromkeys(values))} if len(values) > 1 else values
    if len(among) == 1:
        return Same(values[0])
    return Picked(
        list(among),
        numbers(np.fromiter(map(among.__getitem__, values), dtype=np.int64, count=len(values))),
    )


def where(mask: Column, column: Column, other: Column) -> Column:
    """`column` where `mask` is true, else `other`."""
    if isinstance(mask, Same):
        return column if mask.value else other
    return Either(mask, other, column)


def fields(columns: Mapping[str, Column]) -> Column:
    """Maps with these keys."""
    same = dict[str, Any]()
    for name, one in columns.items():
        if type(one) is not Same:
            return Fields(list(columns), list(columns.values()))
        same[name] = one.value
    return Same(same)


def taken(column: Column, places: Sequence[int]) -> Column:
    """The values of these records alone."""
    if isinstance(column, Each):
        return Each([column.told[at] for at in places])
    if isinstance(column, Numbers):
        cells = np.frombuffer(column.cells, column.kind)[list(places)]
        return Numbers(column.kind, cells.tobytes(), column.digits)
    if isinstance(column, Picked):
        return Picked(column.among, taken(column.which, places))
    if isinstance(column, Either):
        parts = (column.which, column.first, column.second)
        return Either(*[taken(one, places) for one in parts])
    if isinstance(column, Fields):
        return Fields(column.names, [taken(one, places) for one in column.columns])
    return column


def column_of(told: Column | Sequence[Any]) -> Column:
    """What somebody said of some records, as a column or one by one."""
    return told if isinstance(told, _Form) else each(list(told))
