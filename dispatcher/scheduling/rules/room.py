"""What of the room that a pod wants lacks on nodes, as reason codes: amounts beside allocatable -
requested.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.framework import Bools, Codes, FleetView, Ints, Rows
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.lifecycle import RowList
from shared.model.reasons import OTHERS, Reasons
from shared.model.resources import PODS

_FEW = 4  # rows
_MOST_COUNTED = 8  # resources: so many bits, twice, make a small table
MOST_TOLD = 62  # resources; each is one bit


@kernel("ints ints int")
def _lacking(allocatable, requested, amount):  # type: ignore[no-untyped-def]
    """1 if any row has no room for `amount`, else 0."""
    short = 0
    for row in range(len(allocatable)):
        short |= amount > allocatable[row] - requested[row]
    return short


@kernel("ints ints ints int int int out_ints")
def _mark(allocatable, requested, rows, amount, short, beyond, kinds):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Add `short` to the kind of each row that has no room for `amount`, and `beyond` where an
    empty one has none.
    """
    for at in range(len(rows)):
        whole = allocatable[rows[at]]
        if amount > whole - requested[rows[at]]:
            kinds[at] |= short | (beyond if amount > whole else 0)


def lacking_codes(wanted: Sequence[tuple[str, int]], fleet: FleetView, rows: Rows) -> Codes:
    """[len(rows)] 0, or one code of all of `wanted` (resource, amount) that lacks on the row:
    TOO_MANY_PODS and INSUFFICIENT. At most `MOST_TOLD` resources are named.
    """
    wanted = wanted[:MOST_TOLD]
    if not isinstance(rows, slice) and len(rows) <= _FEW:
        return np.asarray(
            [_codes_on(row, wanted, fleet) for row in np.asarray(rows).tolist()], dtype=np.uint16
        )
    if _mark.fast is not None and not isinstance(rows, slice) and len(wanted) <= _MOST_COUNTED:
        return _codes_of(
            wanted, _marked(wanted, fleet, np.ascontiguousarray(rows, dtype=np.int64)), fleet
        )
    if _lacking.fast is not None and not any(_lacks_anywhere(*one, fleet, rows) for one in wanted):
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
    lacks = [_lacks(name, amount, fleet, rows) for name, amount in wanted]
    codes = np.zeros(len(lacks[0]), dtype=np.uint16)
    short = np.flatnonzero(np.logical_or.reduce(lacks))
    if len(short):
        where = short + (rows.start or 0) if isinstance(rows, slice) else rows[short]
        codes[short] = _codes_of_lacks(wanted, [one[short] for one in lacks], fleet, where)
    return codes


def _codes_on(row: int, wanted: Sequence[tuple[str, int]], fleet: FleetView) -> int:
    """The same of one row, which is faster than by columns where there are few."""
    short = beyond = 0
    nodes = fleet.nodes
    allocatable = nodes.allocatable
    requested = nodes.requested
    for bit, (name, amount) in enumerate(wanted):
        column = fleet.axis.column(name)
        whole = None if column is None else allocatable.item(column, row)
        if whole is None or column is None or amount > whole - requested.item(column, row):
            short |= 1 << bit
            beyond |= (name != PODS and (whole is None or amount > whole)) << bit
    return _code(wanted, short, beyond, fleet) if short else 0


def _lacks_anywhere(name: str, amount: int, fleet: FleetView, rows: Rows) -> bool:
    column = fleet.axis.column(name)
    if column is None:
        return True
    return bool(
        _lacking.fast(
            fleet.nodes.allocatable[column][rows], fleet.nodes.requested[column][rows], amount
        )
    )


def _marked(wanted: Sequence[tuple[str, int]], fleet: FleetView, rows: RowList) -> Ints:
    """[rows] bits of what lacks, and above these of what an empty node would lack."""
    kinds = np.zeros(len(rows), dtype=np.int64)
    for bit, (name, amount) in enumerate(wanted):
        column = fleet.axis.column(name)
        short = 1 << bit
        beyond = 0 if name == PODS else short << len(wanted)
        if column is None:
            kinds |= short | beyond
        else:
            nodes = fleet.nodes
            _mark.fast(
                nodes.allocatable[column],
                nodes.requested[column],
                rows,
                amount,
                short,
                beyond,
                kinds,
            )
    return kinds


def _codes_of(wanted: Sequence[tuple[str, int]], kinds: Ints, fleet: FleetView) -> Codes:
    """[rows] the codes of such bits: few kinds, counted rather than sorted."""
    bits = len(wanted)
    met = np.flatnonzero(np.bincount(kinds)).tolist()
    table = np.zeros(met[-1] + 1, dtype=np.uint16)
    lacking = [kind for kind in met if kind]
    table[lacking] = [
        _code(wanted, kind & ((1 << bits) - 1), kind >> bits, fleet) for kind in lacking
    ]
    codes: Codes = table[kinds]
    return codes


def _lacks(name: str, amount: int, fleet: FleetView, rows: Rows) -> Bools:
    column = fleet.axis.column(name)
    if column is None:
        return np.ones(len(fleet.nodes.live[rows]), dtype=np.bool_)
    lacks: Bools = (
        amount > fleet.nodes.allocatable[column][rows] - fleet.nodes.requested[column][rows]
    )
    return lacks


def _codes_of_lacks(
    wanted: Sequence[tuple[str, int]], lacks: Sequence[Bools], fleet: FleetView, rows: Rows
) -> Codes:
    """[rows] the code of everything that is lacking there; each distinct code is made once."""
    patterns = np.zeros((2, len(lacks[0])), dtype=np.int64)
    for bit, ((name, amount), one) in enumerate(zip(wanted, lacks, strict=True)):
        column = fleet.axis.column(name)
        beyond = one if column is None else one & (amount > fleet.nodes.allocatable[column][rows])
        patterns[0] |= one.astype(np.int64) << bit
        patterns[1] |= (beyond & (name != PODS)).astype(np.int64) << bit
    bits = len(wanted)
    if bits <= _MOST_COUNTED:
        return _codes_of(wanted, patterns[0] | patterns[1] << bits, fleet)
    pairs, pair_of = np.unique(patterns, axis=1, return_inverse=True)
    codes = [_code(wanted, short, beyond, fleet) for short, beyond in pairs.T.tolist()]
    return np.asarray(codes, dtype=np.uint16)[pair_of.reshape(-1)]


def _code(wanted: Sequence[tuple[str, int]], short: int, beyond: int, fleet: FleetView) -> int:
    table = fleet.reasons
    scarce = fleet.reasons.is_scarce
    distinct = dict.fromkeys(
        table.code(Reasons.TOO_MANY_PODS)
        if name == PODS
        else table.code(
            Reasons.INSUFFICIENT,
            OTHERS if scarce and fleet.axis.column(name) is None else name,
            lasting=bool(beyond >> bit & 1),
        )
        for bit, (name, _) in enumerate(wanted)
        if short >> bit & 1
    )
    codes = list(distinct)
    return codes[0] if len(codes) == 1 else table.joint(codes)
