"""The merge of a batch whose policies count pods by fault domain, compiled: pod by pod the best row, and what it moves.

Rows alike in all that domains say of them are one *cell*: same groups of domains, same counts on the host itself. One
pod more moves a few counts and takes its row from one cell to another; what refuses a cell, and what it adds to the
points of its rows, follows from the counts alone. Each cell holds the bids of its rows in a skew heap.

Every number is what the plugins' own parts and `normalize` say, bit for bit (`framework.tallies` has the meaning of the
rules). There is no NumPy form of the merge: without a compiler, plugins are asked again after each pod (`forecast`).
"""

import hashlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from dispatcher.scheduling.classes.judges import GRID
from dispatcher.scheduling.classes.kernels import Kernel, entered, kept
from dispatcher.scheduling.classes.merge_tables import (
    AT,
    DONE,
    NEED,
    NO_BID,
    NO_CELL,
    NO_PLACE,
    OTHERS_OPEN,
    TOO_FEW,
    VARIED,
    WANTED,
    Bids,
    Cells,
    Counts,
    Judges,
    Rules,
    Trace,
    blank,
)
from dispatcher.scheduling.framework import MAX_SCORE
from dispatcher.scheduling.framework.tallies import Scale

_RANGE, _COST = int(Scale.RANGE), int(Scale.COST)
_UNKNOWN = -1


def merge(cells: Cells, counts: Counts, rules: Rules, judges: Judges, bids: Bids, trace: Trace, progress: Any) -> int:
    """Decide pods until all are, or something is missing (see the constants)."""
    while progress[AT] < progress[WANTED]:
        at = progress[AT]
        refuse(cells, counts, rules, judges)
        found, others = mark_open(cells)
        if not found:
            return NO_PLACE
        if others and progress[VARIED]:
            return OTHERS_OPEN
        score(cells, counts, judges)
        normalize(cells, judges)
        pick(cells, judges, bids, trace, at)
        if at + 1 < progress[WANTED]:
            missing = lacks(cells, bids, trace, at)
            if missing:
                return missing
            stopped = book(cells, counts, rules, judges, bids, trace, at)
            if stopped:
                progress[AT] += 1
                return stopped
        progress[AT] += 1
    return DONE


def refuse(cells: Cells, counts: Counts, rules: Rules, judges: Judges) -> None:
    """The first rule that refuses each cell."""
    for cell in range(len(cells.members)):
        cells.codes[cell] = 0
        if cells.members[cell] == 0:
            continue
        for rule in range(len(rules.tally)):
            code = verdict(cells, counts, rules, judges, rule, cell)
            if code:
                cells.codes[cell] = code
                break


def verdict(cells: Cells, counts: Counts, rules: Rules, judges: Judges, rule: int, cell: int) -> Any:
    """Why one rule refuses one cell, 0 if it does not."""
    slot = cells.slot[cell, rules.tally[rule]]
    if slot < 0:
        return rules.elsewhere[rule]
    count = counts.counts[slot]
    if rules.kind[rule] == NEED:
        return rules.code[rule] if count <= 0 and not judges.first[rules.judge[rule]] else np.uint16(0)
    most = rules.most[rule]
    if rules.rise[rule] >= 0:
        most += rules.low[rule] + rules.rise[rule]
    return rules.code[rule] if count > most else np.uint16(0)


def mark_open(cells: Cells) -> tuple[bool, bool]:
    """(Whether any cell takes pods, whether others do than before.)"""
    found = others = False
    for cell in range(len(cells.members)):
        takes = np.uint16(cells.members[cell] > 0 and cells.codes[cell] == 0)
        others |= takes != cells.open[cell]
        found |= takes == 1
        cells.open[cell] = takes
    return found, others


def score(cells: Cells, counts: Counts, judges: Judges) -> None:
    """Raw scores of the open cells."""
    for judge in range(len(judges.base)):
        judges.raw[:, judge] = judges.base[judge]
    for gain in range(len(judges.gain_judge)):
        judge, tally, factor = judges.gain_judge[gain], judges.gain_tally[gain], judges.factor[gain]
        if judges.sized[judge]:
            factor *= judges.ln[size_of(cells, counts, judges, gain)]
        for cell in range(len(cells.open)):
            slot = cells.slot[cell, tally]
            if slot < 0:
                judges.raw[cell, judge] += judges.elsewhere[gain]
            else:
                judges.raw[cell, judge] += factor * counts.counts[slot] + judges.offset[gain]


def size_of(cells: Cells, counts: Counts, judges: Judges, gain: int) -> int:
    """How many domains of a tally have rows that take pods; rows without one are one more."""
    judge, tally = judges.gain_judge[gain], judges.gain_tally[gain]
    size, without = 0, 0
    counts.stamps[:] = 0
    for cell in range(len(cells.open)):
        if not cells.open[cell] or (judges.sized[judge] == 2 and not is_whole(cells, judges, judge, cell)):
            continue
        slot = cells.slot[cell, tally]
        if judges.gain_by_host[gain]:
            size += cells.members[cell]
        elif slot < 0:
            without = 1
        elif counts.stamps[slot] == 0:
            counts.stamps[slot] = 1
            size += 1
    return size + without


def is_whole(cells: Cells, judges: Judges, judge: int, cell: int) -> bool:
    """Whether a cell has the domains of all gains of a judge."""
    for gain in range(len(judges.gain_judge)):
        if judges.gain_judge[gain] == judge and cells.slot[cell, judges.gain_tally[gain]] < 0:
            return False
    return True


def normalize(cells: Cells, judges: Judges) -> None:
    """Points of the open cells."""
    cells.points[:] = cells.shared
    for judge in range(len(judges.base)):
        weight = judges.weight[judge] * GRID
        if judges.scale[judge] == _COST:
            by_cost(cells, judges, judge)
        elif judges.scale[judge] == _RANGE:
            by_range(cells, judges, judge)
        else:
            judges.normal[:, judge] = judges.raw[:, judge]
        for cell in range(len(cells.open)):
            if cells.open[cell]:
                cells.points[cell] += np.rint(judges.normal[cell, judge] * weight) / GRID


def by_range(cells: Cells, judges: Judges, judge: int) -> None:
    """Scale.RANGE over the open cells."""
    raw = judges.raw[:, judge]
    least, most = np.inf, -np.inf
    for cell in range(len(cells.open)):
        if cells.open[cell]:
            least, most = min(least, raw[cell]), max(most, raw[cell])
    for cell in range(len(cells.open)):
        if cells.open[cell]:
            share = (raw[cell] - least) / (most - least) if most > least else 0.0
            judges.normal[cell, judge] = np.floor(MAX_SCORE * share)


def by_cost(cells: Cells, judges: Judges, judge: int) -> None:
    """Scale.COST over the open cells."""
    raw, normal = judges.raw[:, judge], judges.normal[:, judge]
    largest, least = 0.0, np.inf
    for cell in range(len(cells.open)):
        if cells.open[cell] and raw[cell] > judges.void[judge]:
            cost = np.floor(0.5 - (raw[cell] - judges.base[judge]))
            largest, least = max(largest, cost), min(least, cost)
    for cell in range(len(cells.open)):
        if not cells.open[cell]:
            continue
        normal[cell] = 0.0
        if raw[cell] > judges.void[judge]:
            cost = np.floor(0.5 - (raw[cell] - judges.base[judge]))
            normal[cell] = np.floor(MAX_SCORE * (largest + least - cost) / largest) if largest > 0.0 else MAX_SCORE


def pick(cells: Cells, judges: Judges, bids: Bids, trace: Trace, at: int) -> None:
    """Write down the best bid and the next best, with their cells and scores."""
    first = second = _UNKNOWN
    of_first = of_second = _UNKNOWN
    for cell in range(len(cells.open)):
        bid = cells.root[cell]
        if bid < 0 or not cells.open[cell]:
            continue
        if first < 0 or beats(cells, bids, bid, cell, first, of_first):
            second, of_second = first, of_first
            first, of_first = bid, cell
        elif second < 0 or beats(cells, bids, bid, cell, second, of_second):
            second, of_second = bid, cell
    for bid in (bids.left[first], bids.right[first]):
        if bid >= 0 and (second < 0 or beats(cells, bids, bid, of_first, second, of_second)):
            second, of_second = bid, of_first
    trace.bid[at, 0], trace.cell[at, 0] = first, of_first
    trace.bid[at, 1], trace.cell[at, 1] = second, of_second
    note(cells, judges, bids, trace, at, 0)
    note(cells, judges, bids, trace, at, 1)
    trace.codes[at, : len(cells.codes)] = cells.codes


def beats(cells: Cells, bids: Bids, one: int, of_one: int, other: int, of_other: int) -> Any:
    """Whether a bid is better than another one, each with the points of its cell."""
    more = bids.points[one] + cells.points[of_one] - (bids.points[other] + cells.points[of_other])
    if more != 0.0:
        return more > 0.0
    if bids.rank[one] != bids.rank[other]:
        return bids.rank[one] < bids.rank[other]
    return bids.row[one] < bids.row[other]


def note(cells: Cells, judges: Judges, bids: Bids, trace: Trace, at: int, place: int) -> None:
    """Write down what goes with one of the two."""
    bid, cell = trace.bid[at, place], trace.cell[at, place]
    if bid >= 0:
        trace.depth[at, place] = bids.taken[bid]
        trace.score[at, place] = bids.points[bid] + cells.points[cell]
        for judge in range(len(judges.base)):
            trace.raw[at, place, judge] = judges.raw[cell, judge]
            trace.normal[at, place, judge] = judges.normal[cell, judge]


def lacks(cells: Cells, bids: Bids, trace: Trace, at: int) -> int:
    """What has to be known before the pod is booked, 0 if all is."""
    bid = trace.bid[at, 0]
    if bids.next_code[bid] < 0:
        return NO_BID
    return NO_CELL if bids.next_code[bid] == 0 and cells.after[trace.cell[at, 0]] < 0 else 0


def book(cells: Cells, counts: Counts, rules: Rules, judges: Judges, bids: Bids, trace: Trace, at: int) -> int:
    """The best row has taken the pod; TOO_FEW if the next cannot be told."""
    bid, cell = trace.bid[at, 0], trace.cell[at, 0]
    cells.root[cell] = join(bids, bids.left[bid], bids.right[bid])
    cells.members[cell] -= 1
    count(cells, counts, rules, judges, cell)
    if bids.taken[bid] == 0:
        cells.fresh[cell] -= 1
    bids.taken[bid] += 1
    trace.full[at] = bids.next_code[bid]
    if bids.next_code[bid] == 0:
        after = cells.after[cell]
        bids.points[bid], bids.next_code[bid] = bids.next_points[bid], _UNKNOWN
        bids.left[bid] = bids.right[bid] = _UNKNOWN
        cells.root[after] = join(bids, cells.root[after], bid)
        cells.members[after] += 1
    return 0 if cells.complete[cell] or cells.fresh[cell] >= 2 else TOO_FEW


def count(cells: Cells, counts: Counts, rules: Rules, judges: Judges, cell: int) -> None:
    """One more pod in a cell."""
    for rule in range(len(rules.tally)):
        tally = rules.tally[rule]
        slot, step = cells.slot[cell, tally], cells.step[cell, tally]
        if slot < 0 or step == 0:
            continue
        if rules.kind[rule] == NEED:
            judges.first[rules.judge[rule]] = 0
        elif rules.rise[rule] >= 0 and rules.present[cell, rule]:
            rise(counts, rules, rule, counts.counts[slot], step)
    for tally in range(len(counts.moves)):
        if counts.moves[tally] and cells.slot[cell, tally] >= 0:
            counts.counts[cells.slot[cell, tally]] += cells.step[cell, tally]


def rise(counts: Counts, rules: Rules, rule: int, before: int, step: int) -> None:
    """A domain whose least count matters has `step` pods more than `before`."""
    histogram = counts.histogram[rule]
    last = len(histogram) - 1
    histogram[min(before - rules.low[rule], last)] -= 1
    histogram[min(before + step - rules.low[rule], last)] += 1
    while histogram[rules.rise[rule]] == 0 and rules.rise[rule] < last:
        rules.rise[rule] += 1


def join(bids: Bids, one: int, other: int) -> int:
    """The root of two skew heaps made one."""
    if one < 0 or other < 0:
        return max(one, other)
    if better(bids, other, one):
        one, other = other, one
    root = one
    while True:  # `one` is better than `other`, which goes where its right child was
        old = bids.right[one]
        bids.right[one] = bids.left[one]
        if old >= 0 and better(bids, old, other):
            old, other = other, old
        bids.left[one] = other
        if old < 0:
            return root
        one, other = other, old


def better(bids: Bids, one: int, other: int) -> Any:
    """Whether a bid is better than another one of the same cell."""
    if bids.points[one] != bids.points[other]:
        return bids.points[one] > bids.points[other]
    if bids.rank[one] != bids.rank[other]:
        return bids.rank[one] < bids.rank[other]
    return bids.row[one] < bids.row[other]


_STEPS = (
    verdict,
    refuse,
    mark_open,
    is_whole,
    size_of,
    score,
    by_range,
    by_cost,
    normalize,
    beats,
    note,
    pick,
    lacks,
    rise,
    count,
    better,
    join,
    book,
)


class _Merge(Kernel):
    """The merge with its steps compiled into it."""

    def __init__(self) -> None:
        super().__init__(merge, "")

    def _compiled(self, numba: Any) -> Any:
        """The loop, compiled; its steps are part of it, and nobody calls them from outside."""

        def own(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
            copy = FunctionType(function.__code__, known, function.__name__)
            copy.__module__, copy.__qualname__ = function.__module__, name or function.__qualname__
            return copy

        known = dict(globals())  # in which the steps find each other compiled
        for step in _STEPS:
            compiled = numba.njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
            known[step.__name__] = compiled(own(step))
        # The cache looks at this file alone: a name of its own for all else that is compiled in.
        fast = kept(numba, own(merge, f"merge_{_digest()}"), no_cfunc_wrapper=True)
        fast.compile(tuple(numba.typeof(one) for one in blank()))
        return fast


def _digest() -> str:
    """Tells apart what is compiled in from elsewhere."""
    shapes = [one._fields for one in (Cells, Counts, Rules, Judges, Bids, Trace)]
    constants = AT, WANTED, VARIED, NEED, DONE, NO_PLACE, NO_BID, NO_CELL, OTHERS_OPEN, TOO_FEW, GRID, MAX_SCORE
    return hashlib.blake2b(repr((shapes, constants, list(Scale))).encode(), digest_size=6).hexdigest()


MERGE = entered(_Merge())
