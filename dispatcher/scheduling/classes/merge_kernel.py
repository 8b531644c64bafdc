"""The merge of a batch whose policies count pods by fault domain, compiled: pod by pod the best row, and what it moves.

Rows alike in all that domains say of them are one *cell*: same groups of domains, same counts on the host itself. One
pod more moves a few counts and takes its row from one cell to another; what refuses a cell, and what it adds to the
points of its rows, follows from the counts alone. Each cell holds the bids of its rows in a skew heap.

Every number is what the plugins' own parts and `normalize` say, bit for bit (`framework.tallies` has the meaning of the
rules). There is no NumPy form of the merge: without a compiler, plugins are asked again after each pod (`forecast`).
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from dispatcher.scheduling.classes.judges import GRID
from dispatcher.scheduling.classes.kernels import Kernel, entered
from dispatcher.scheduling.framework import MAX_SCORE
from dispatcher.scheduling.framework.tallies import Scale

# Why the merge stops.
DONE, NO_PLACE, NO_BID, NO_CELL, OTHERS_OPEN, TOO_FEW = range(6)
AT, WANTED, VARIED = range(3)  # entries of `progress`: pods decided, pods to decide, whether open cells matter to others
CAP, NEED = range(2)
_RANGE, _COST = int(Scale.RANGE), int(Scale.COST)
_UNKNOWN = -1


class Cells(NamedTuple):
    """[cells]; the first two [cells, tallies]."""

    slot: Any  # int64: where in `Counts.counts` the count of the cell's domain is, -1 without a domain
    step: Any  # int64: what one more pod in the cell adds to it
    members: Any  # int64: rows that no other filter refuses
    root: Any  # int64: the best bid, -1 without
    fresh: Any  # int64: bids of rows that have not taken a pod of the batch
    complete: Any  # uint16: 1 if there is a bid of each row that this batch could come to
    after: Any  # int64: the cell of a row that has taken one more pod, -1 unknown
    shared: Any  # float64: points that rest on which cells are open alone
    codes: Any  # uint16: why it is refused
    open: Any  # uint16: 1 if it takes pods
    points: Any  # float64: what it adds to the points of its rows


class Counts(NamedTuple):
    """Pods counted; the histograms are of the counts of those domains whose least count matters."""

    counts: Any  # int64 [slots]
    moves: Any  # uint16 [tallies]: 0 if a pod more means another slot, and not another count
    histogram: Any  # int64 [rules, width]; entry 0 is that of `Rules.low`, the last of all above
    stamps: Any  # int64 [slots]: scratch


class Rules(NamedTuple):
    """[rules] that refuse, in order."""

    tally: Any  # int64
    kind: Any  # int64: CAP or NEED
    most: Any  # int64
    code: Any  # uint16
    elsewhere: Any  # uint16
    judge: Any  # int64
    low: Any  # int64: the least count when the batch began
    rise: Any  # int64: how far it has risen since; -1: it does not matter
    present: Any  # uint16 [cells, rules]: 1 if the cell's domain is one of the histogram's


class Judges(NamedTuple):
    """[judges] that score or refuse by counts; [gains] the terms of their scores."""

    first: Any  # int64: 1 as long as no Need refuses
    base: Any  # float64
    void: Any  # float64
    scale: Any  # int64: a Scale
    sized: Any  # int64: 0, 1: factors are times `ln` of the number of domains, 2: of rows that have all domains
    weight: Any  # float64: the profile's
    gain_judge: Any  # int64 [gains]
    gain_tally: Any  # int64 [gains]
    gain_by_host: Any  # int64 [gains]
    factor: Any  # float64 [gains]
    offset: Any  # float64 [gains]
    elsewhere: Any  # float64 [gains]
    ln: Any  # float64 [most domains + 1]
    raw: Any  # float64 [cells, judges]
    normal: Any  # float64 [cells, judges]


class Bids(NamedTuple):
    """[bids] what rows offer for the next pod; a row has one."""

    points: Any  # float64
    rank: Any  # int64
    row: Any  # int64
    left: Any  # int64: children in the heap
    right: Any  # int64
    taken: Any  # int64: pods of this batch
    next_points: Any  # float64: after one more pod
    next_code: Any  # int64: why there can be no more, 0 if there can, -1 unknown


class Trace(NamedTuple):
    """[pods] what was decided; of the chosen bid and the next best one (-1 without)."""

    bid: Any  # int64 [pods, 2]
    cell: Any  # int64 [pods, 2]
    depth: Any  # int64 [pods, 2]: pods of this batch that its row had taken
    score: Any  # float64 [pods, 2]
    raw: Any  # float64 [pods, 2, judges]
    normal: Any  # float64 [pods, 2, judges]
    codes: Any  # uint16 [pods, cells] why each cell was refused
    full: Any  # int64 [pods] why the row takes no more pods after this one, 0 if it may


def merge(cells, counts, rules, judges, bids, trace, progress):  # type: ignore[no-untyped-def]
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


def refuse(cells, counts, rules, judges):  # type: ignore[no-untyped-def]
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


def verdict(cells, counts, rules, judges, rule, cell):  # type: ignore[no-untyped-def]
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


def mark_open(cells):  # type: ignore[no-untyped-def]
    """(Whether any cell takes pods, whether others do than before.)"""
    found = others = False
    for cell in range(len(cells.members)):
        takes = np.uint16(cells.members[cell] > 0 and cells.codes[cell] == 0)
        others |= takes != cells.open[cell]
        found |= takes == 1
        cells.open[cell] = takes
    return found, others


def score(cells, counts, judges):  # type: ignore[no-untyped-def]
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


def size_of(cells, counts, judges, gain):  # type: ignore[no-untyped-def]
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


def is_whole(cells, judges, judge, cell):  # type: ignore[no-untyped-def]
    """Whether a cell has the domains of all gains of a judge."""
    for gain in range(len(judges.gain_judge)):
        if judges.gain_judge[gain] == judge and cells.slot[cell, judges.gain_tally[gain]] < 0:
            return False
    return True


def normalize(cells, judges):  # type: ignore[no-untyped-def]
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


def by_range(cells, judges, judge):  # type: ignore[no-untyped-def]
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


def by_cost(cells, judges, judge):  # type: ignore[no-untyped-def]
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


def pick(cells, judges, bids, trace, at):  # type: ignore[no-untyped-def]
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
    note(cells, judges, bids, trace, at, 0, first, of_first)
    note(cells, judges, bids, trace, at, 1, second, of_second)
    trace.codes[at, : len(cells.codes)] = cells.codes


def beats(cells, bids, one, of_one, other, of_other):  # type: ignore[no-untyped-def]
    """Whether a bid is better than another one, each with the points of its cell."""
    more = bids.points[one] + cells.points[of_one] - (bids.points[other] + cells.points[of_other])
    if more != 0.0:
        return more > 0.0
    if bids.rank[one] != bids.rank[other]:
        return bids.rank[one] < bids.rank[other]
    return bids.row[one] < bids.row[other]


def note(cells, judges, bids, trace, at, place, bid, cell):  # type: ignore[no-untyped-def]
    """Write one of the two down."""
    trace.bid[at, place], trace.cell[at, place] = bid, cell
    if bid >= 0:
        trace.depth[at, place] = bids.taken[bid]
        trace.score[at, place] = bids.points[bid] + cells.points[cell]
        for judge in range(len(judges.base)):
            trace.raw[at, place, judge] = judges.raw[cell, judge]
            trace.normal[at, place, judge] = judges.normal[cell, judge]


def lacks(cells, bids, trace, at):  # type: ignore[no-untyped-def]
    """What has to be known before the pod is booked, 0 if all is."""
    bid = trace.bid[at, 0]
    if bids.next_code[bid] < 0:
        return NO_BID
    return NO_CELL if bids.next_code[bid] == 0 and cells.after[trace.cell[at, 0]] < 0 else 0


def book(cells, counts, rules, judges, bids, trace, at):  # type: ignore[no-untyped-def]
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


def count(cells, counts, rules, judges, cell):  # type: ignore[no-untyped-def]
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


def rise(counts, rules, rule, before, step):  # type: ignore[no-untyped-def]
    """A domain whose least count matters has `step` pods more than `before`."""
    histogram = counts.histogram[rule]
    last = len(histogram) - 1
    histogram[min(before - rules.low[rule], last)] -= 1
    histogram[min(before + step - rules.low[rule], last)] += 1
    while histogram[rules.rise[rule]] == 0 and rules.rise[rule] < last:
        rules.rise[rule] += 1


def join(bids, one, other):  # type: ignore[no-untyped-def]
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


def better(bids, one, other):  # type: ignore[no-untyped-def]
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
        self._made: Any = None

    def compile(self) -> None:
        """Make `fast`, or load it from disk; ImportError without Numba."""
        import numba

        self._made = self._made or self._compiled(numba)
        self.fast = self._made

    def _compiled(self, numba: Any) -> Any:
        """The loop, compiled."""

        def compiled(function: Callable[..., Any]) -> Any:
            own = FunctionType(function.__code__, known, function.__name__)
            own.__module__, own.__qualname__ = function.__module__, function.__qualname__
            return numba.njit(cache=True, error_model="numpy")(own)

        known = dict(globals())  # in which the steps find each other compiled
        for step in _STEPS:
            known[step.__name__] = compiled(step)
        known["merge"] = fast = compiled(merge)
        fast.compile(tuple(numba.typeof(one) for one in blank()))
        return fast


def blank() -> tuple[Any, ...]:
    """What `merge` takes, with nothing in it: the types of its arguments."""
    whole, wide = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    real, broad = np.zeros(1), np.zeros((1, 1))
    mark, deep = np.zeros(1, dtype=np.uint16), np.zeros((1, 1, 1))
    marks = np.zeros((1, 1), dtype=np.uint16)
    return (
        Cells(wide, wide, whole, whole, whole, mark, whole, real, mark, mark, real),
        Counts(whole, mark, wide, whole),
        Rules(whole, whole, whole, mark, mark, whole, whole, whole, marks),
        Judges(whole, real, real, whole, whole, real, whole, whole, whole, real, real, real, real, broad, broad),
        Bids(real, whole, whole, whole, whole, whole, real, whole),
        Trace(wide, wide, wide, broad, deep, deep, marks, whole),
        whole,
    )


MERGE = entered(_Merge())
