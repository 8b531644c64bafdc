"""What of the room that a pod wants lacks on nodes, as reason codes: amounts beside allocatable -
requested.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.framework import Codes, FleetView, Ints, Rows
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


@kernel("ints ints ints int int int out_ints out_ints")
def _mark(allocatable, requested, rows, amount, bit, beyond_bit, short, beyond):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """Add `bit` to `short` of each row that has no room for `amount`, and `beyond_bit` to `beyond`
    where an empty one has none.
    """
    for at in range(len(rows)):
        whole = allocatable[rows[at]]
        if amount > whole - requested[rows[at]]:
            short[at] |= bit
            if amount > whole:
                beyond[at] |= beyond_bit


def lacking_codes(wanted: Sequence[tuple[str, int]], fleet: FleetView, rows: Rows) -> Codes:
    """[len(rows)] 0, or one code of all of `wanted` (resource, amount) that lacks on the row:
    TOO_MANY_PODS and INSUFFICIENT. At most `MOST_TOLD` resources are named.
    """
    wanted = wanted[:MOST_TOLD]
    if isinstance(rows, slice):
        if not any(_lacks_anywhere(*one, fleet, rows) for one in wanted):
            return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        rows = np.arange(fleet.n)[rows]
    elif len(rows) <= _FEW:
        return np.asarray(
            [_codes_on(row, wanted, fleet) for row in np.asarray(rows).tolist()], dtype=np.uint16
        )
    return _codes_of(wanted, *_marked(wanted, fleet, rows), fleet)


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


def _lacks_anywhere(name: str, amount: int, fleet: FleetView, rows: slice) -> bool:
    column = fleet.axis.column(name)
    if column is None:
        return True
    whole = fleet.nodes.allocatable[column][rows]
    requested = fleet.nodes.requested[column][rows]
    if _lacking.fast is not None:
        return bool(_lacking.fast(whole, requested, amount))
    return bool((amount > whole - requested).any())


def _marked(
    wanted: Sequence[tuple[str, int]], fleet: FleetView, rows: RowList
) -> tuple[Ints, Ints]:
    """[rows] bits of what lacks, and of what an empty node would lack; of few resources both in
    one column, the latter above the former.
    """
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    few = len(wanted) <= _MOST_COUNTED
    short = np.zeros(len(rows), dtype=np.int64)
    beyond = short if few else np.zeros(len(rows), dtype=np.int64)
    for at, (name, amount) in enumerate(wanted):
        column = fleet.axis.column(name)
        bit = 1 << at
        beyond_bit = 0 if name == PODS else bit << (len(wanted) if few else 0)
        if column is None:
            short |= bit
            beyond |= beyond_bit
            continue
        whole = fleet.nodes.allocatable[column]
        requested = fleet.nodes.requested[column]
        if _mark.fast is not None:
            _mark.fast(whole, requested, rows, amount, bit, beyond_bit, short, beyond)
            continue
        lacks = amount > whole[rows] - requested[rows]
        short |= lacks * bit
        beyond |= (lacks & (amount > whole[rows])) * beyond_bit
    return short, beyond


def _codes_of(
    wanted: Sequence[tuple[str, int]], short: Ints, beyond: Ints, fleet: FleetView
) -> Codes:
    """[rows] the codes of such bits, each made once: few kinds are counted rather than sorted."""
    if short is not beyond:
        pairs, pair_of = np.unique(np.stack((short, beyond)), axis=1, return_inverse=True)
        made = [
            _code(wanted, lacks, past, fleet) if lacks else 0 for lacks, past in pairs.T.tolist()
        ]
        return np.asarray(made, dtype=np.uint16)[pair_of.reshape(-1)]
    bits = len(wanted)
    lacking = [kind for kind in np.flatnonzero(np.bincount(short)).tolist() if kind]
    table = np.zeros(max(lacking, default=0) + 1, dtype=np.uint16)
    table[lacking] = [
        _code(wanted, kind & ((1 << bits) - 1), kind >> bits, fleet) for kind in lacking
    ]
    codes: Codes = table[short]
    return codes


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
