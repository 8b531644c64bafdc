"""Rows sorted into cells: alike in the fault domains that count rules look at, and in the counts on the host itself.

Made afresh for each batch, out of the class's rows and the counts as they stand, for `merge_kernel` to work on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.classes.judges import Judge
from dispatcher.scheduling.classes.merge_tables import CAP, NEED, Cells, Counts, Judges, Rules
from dispatcher.scheduling.classes.partitions import Partition
from dispatcher.scheduling.classes.pod_class import PodClass
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints, SmallInts
from dispatcher.scheduling.framework.tallies import LN, Cap, CountRules, Gain, Need, Tally

_MOST_CELLS = 256
_MORE_CELLS = 64  # that rows may come to in the course of a batch
_WIDEST = 1 << 22  # combinations that are counted in a table
_NO_SLOT = -1

Told = Sequence[tuple[Judge, CountRules]]


@dataclass(eq=False)
class Layout:
    """`rows` that no other filter refuses, `cell_of` each of them [rows]; all about the cells for the kernel.

    `used`: how many cells there are by now; the arrays behind `cells` have room for more.
    """

    rows: RowList
    cell_of: NDArray[np.int64]
    used: int
    counts: Counts
    rules: Rules
    judges: Judges
    whole: Cells
    tallies: Sequence[Tally]
    hosts: Sequence[int]  # which of the tallies are by host
    places: dict[tuple[int, ...], int]  # (group, count on the host of each such tally) -> cell
    names: list[tuple[int, ...]]  # the inverse
    shared: list[Floats] = field(default_factory=list)  # raw scores of columns that normalise, [cells]

    @property
    def cells(self) -> Cells:
        """Those in use."""
        return Cells(*(one[: self.used] for one in self.whole))

    @property
    def scored(self) -> Judges:
        """The judges, with the cells in use."""
        judges = self.judges
        return judges._replace(raw=judges.raw[: self.used], normal=judges.normal[: self.used])

    @property
    def ruled(self) -> Rules:
        """The rules, with the cells in use."""
        return self.rules._replace(present=self.rules.present[: self.used])

    def after(self, cell: int) -> bool:
        """Find, or make, the cell that a row of `cell` comes to with one more pod; False if there is no room for it."""
        group, *values = self.names[cell]
        steps = self.whole.step[cell]
        name = (group, *(value + int(steps[at]) for value, at in zip(values, self.hosts, strict=True)))
        found = self.places.get(name)
        if found is None:
            if self.used == len(self.whole.members):
                return False
            found = self._copy(cell, name)
        self.whole.after[cell] = found
        return True

    def _copy(self, cell: int, name: tuple[int, ...]) -> int:
        made = self.used
        for array in (self.whole.slot, self.whole.step, self.whole.shared, self.rules.present):
            array[made] = array[cell]
        for value, at, base in zip(name[1:], self.hosts, self._bases(), strict=True):
            self.whole.slot[made, at] = base + made
            self.counts.counts[base + made] = value
        for raw in self.shared:
            raw[made] = raw[cell]
        self.names.append(name)
        self.places[name] = made
        self.used += 1
        return made

    def _bases(self) -> list[int]:
        room = len(self.whole.members)
        first = len(self.counts.counts) - room * len(self.hosts)
        return [first + at * room for at in range(len(self.hosts))]


def layout_of(pods: PodClass, told: Told, count: int) -> Layout | None:
    """The cells of a class that has caught up, for a batch of `count` pods; None if there would be too many."""
    rules = [one for _, said in told for one in said.refusals]
    gains = [one for _, said in told for one in said.gains]
    tallies = list({id(one.tally): one.tally for one in (*rules, *gains)}.values())
    columns = [one for one in pods.normalizing if len(one.values) > 1]
    axes = _axes(tallies, [one.value for one in columns])
    partition = pods.partitions.of(axes) if axes else None
    if axes and partition is None:
        return None
    rows = pods.rows.feasible_rows()
    hosts = [at for at, one in enumerate(tallies) if one.by_host]
    sorted_ = _sorted(rows, partition, [tallies[at].counts for at in hosts])
    if sorted_ is None:
        return None
    cell_of, names = sorted_
    split = dict(zip(map(id, axes), partition.codes, strict=True)) if partition else {}
    groups = np.asarray([name[0] for name in names], dtype=np.int64)
    codes = {axis: values[groups] for axis, values in split.items()}
    room = len(names) + _MORE_CELLS
    slot, step, counts = _slots(tallies, hosts, names, codes, room)
    present = _presence(rules, codes, room, len(names))
    layout = Layout(
        rows,
        cell_of,
        len(names),
        counts._replace(histogram=_histograms(rules, count)),
        _rules(told, tallies, present),
        _judges(told, tallies, room, max(len(rows), len(counts.counts))),
        _cells(slot, step, room, np.bincount(cell_of, minlength=len(names)), moving=_moves(tallies, hosts)),
        tallies,
        hosts,
        {name: at for at, name in enumerate(names)},
        names,
    )
    for column in pods.normalizing:
        values = codes.get(id(column.value), np.zeros(len(names), dtype=np.int64))
        layout.shared.append(np.zeros(room))
        layout.shared[-1][: len(names)] = np.asarray(column.values or [0.0])[values] + 0.0
    return layout


def _axes(tallies: Sequence[Tally], values: Sequence[SmallInts]) -> list[SmallInts]:
    domains = [one.domain for one in tallies if not one.by_host]
    counted = [one.counted for one in tallies if one.counted is not None]
    return list({id(axis): axis for axis in (*values, *domains, *counted)}.values())


def _sorted(
    rows: RowList, partition: Partition | None, on_host: Sequence[Ints]
) -> tuple[NDArray[np.int64], list[tuple[int, ...]]] | None:
    """The cell of each of `rows`, and of each cell the group and the counts on the host; None if they are too many."""
    combined = np.zeros(len(rows), dtype=np.int64) if partition is None else partition.group[rows].astype(np.int64)
    lows, widths, width = [], [], 1 if partition is None else partition.size
    for counts in on_host:
        found = counts[rows]
        low = int(found.min(initial=0))
        lows.append(low)
        widths.append(int(found.max(initial=0)) - low + 1)
        width *= widths[-1]
        if width > _WIDEST:
            return None
        combined = combined * widths[-1] + (found - low)
    present = np.flatnonzero(np.bincount(combined, minlength=1))
    if len(present) > _MOST_CELLS:
        return None
    ids = np.zeros(width, dtype=np.int64)
    ids[present] = np.arange(len(present))
    names = []
    for name in present.tolist():
        rest, values = name, []
        for low, more in zip(reversed(lows), reversed(widths), strict=True):
            rest, value = divmod(rest, more)
            values.append(value + low)
        names.append((rest, *reversed(values)))
    return ids[combined], names


def _slots(
    tallies: Sequence[Tally],
    hosts: Sequence[int],
    names: Sequence[tuple[int, ...]],
    codes: dict[int, NDArray[np.int64]],
    room: int,
) -> tuple[Ints, Ints, Counts]:
    """Where each cell finds each count, what a pod adds to it, and the counts: by domain, then by cell for hosts."""
    slot, step = np.zeros((room, len(tallies)), dtype=np.int64), np.zeros((room, len(tallies)), dtype=np.int64)
    used, flat, base = len(names), [], 0
    for at, one in enumerate(tallies):
        if not one.by_host:
            code = codes[id(one.domain)]
            slot[:used, at] = np.where(code >= 0, code + base, _NO_SLOT)
            flat.append(one.counts)
            base += len(one.counts)
    for place, at in enumerate(hosts):
        slot[:used, at] = base + np.arange(used)
        flat.append(np.zeros(room, dtype=np.int64))
        flat[-1][:used] = [name[1 + place] for name in names]
        base += room
    for at, one in enumerate(tallies):
        counted = 1 if one.counted is None else codes[id(one.counted)]
        step[:used, at] = one.more * counted * (slot[:used, at] >= 0)
    counts = np.concatenate(flat) if flat else np.zeros(1, dtype=np.int64)
    moves = np.ones(len(tallies), dtype=np.uint16)
    moves[list(hosts)] = 0
    return slot, step, Counts(counts, moves, np.zeros((1, 1), dtype=np.int64), np.zeros(len(counts), dtype=np.int64))


def _moves(tallies: Sequence[Tally], hosts: Sequence[int]) -> bool:
    return any(tallies[at].more for at in hosts)


def _cells(slot: Ints, step: Ints, room: int, members: Ints, *, moving: bool) -> Cells:
    counted = np.zeros(room, dtype=np.int64)
    counted[: len(members)] = members
    blank, marks = np.full(room, -1, dtype=np.int64), np.zeros(room, dtype=np.uint16)
    return Cells(
        slot,
        step,
        counted,
        root=blank.copy(),
        fresh=np.zeros(room, dtype=np.int64),
        complete=np.ones(room, dtype=np.uint16),
        after=blank if moving else np.arange(room),
        shared=np.zeros(room),
        codes=marks,
        open=marks.copy(),
        points=np.zeros(room),
    )


def _presence(
    rules: Sequence[Cap | Need], codes: dict[int, NDArray[np.int64]], room: int, used: int
) -> NDArray[np.uint16]:
    present = np.zeros((room, len(rules)), dtype=np.uint16)
    for at, rule in enumerate(rules):
        if isinstance(rule, Cap) and rule.present is not None:
            tally = rule.tally
            if tally.by_host:  # of hosts, those whose pods count are the ones that matter
                present[:used, at] = 1 if tally.counted is None else codes[id(tally.counted)]
            else:
                code = codes[id(tally.domain)]
                present[:used, at] = (code >= 0) & np.append(rule.present, False)[code]
    return present


def _histograms(rules: Sequence[Cap | Need], count: int) -> Ints:
    """[rules, width] of the counts of domains whose least count matters, from that on."""
    width = count + 2
    found = np.zeros((len(rules), width), dtype=np.int64)
    for at, rule in enumerate(rules):
        if isinstance(rule, Cap) and rule.present is not None:
            counts = rule.tally.counts[rule.present]
            found[at] = np.bincount(np.minimum(counts - counts.min(), width - 1), minlength=width)
    return found


def _rules(told: Told, tallies: Sequence[Tally], present: NDArray[np.uint16]) -> Rules:
    index = {id(one): at for at, one in enumerate(tallies)}
    rules = [(judge, rule) for judge, (_, said) in enumerate(told) for rule in said.refusals]
    lows = [_low(rule) for _, rule in rules]
    return Rules(
        _ints(index[id(rule.tally)] for _, rule in rules),
        _ints(CAP if isinstance(rule, Cap) else NEED for _, rule in rules),
        _ints(rule.most if isinstance(rule, Cap) else 0 for _, rule in rules),
        _ints(rule.code for _, rule in rules).astype(np.uint16),
        _ints(rule.elsewhere if isinstance(rule, Cap) else rule.code for _, rule in rules).astype(np.uint16),
        _ints(judge for judge, _ in rules),
        _ints(low or 0 for low in lows),
        _ints(-1 if low is None else 0 for low in lows),
        present,
    )


def _low(rule: Cap | Need) -> int | None:
    if isinstance(rule, Need) or rule.present is None:
        return None
    return int(rule.tally.counts[rule.present].min())


def _judges(told: Told, tallies: Sequence[Tally], room: int, most: int) -> Judges:
    index = {id(one): at for at, one in enumerate(tallies)}
    gains: list[tuple[int, Gain]] = [(judge, gain) for judge, (_, said) in enumerate(told) for gain in said.gains]
    said = [rules for _, rules in told]
    return Judges(
        first=_ints(_is_first(one) for one in said),
        base=_floats(one.base for one in said),
        void=_floats(one.void for one in said),
        scale=_ints(int(one.scale) for one in said),
        sized=_ints((2 if one.whole else 1) if one.sized else 0 for one in said),
        weight=_floats(judge.role.weight if judge.role.score_at is not None else 0.0 for judge, _ in told),
        gain_judge=_ints(judge for judge, _ in gains),
        gain_tally=_ints(index[id(gain.tally)] for _, gain in gains),
        gain_by_host=_ints(gain.tally.by_host for _, gain in gains),
        factor=_floats(gain.factor for _, gain in gains),
        offset=_floats(gain.offset for _, gain in gains),
        elsewhere=_floats(gain.elsewhere for _, gain in gains),
        ln=LN.up_to(most + 1),
        raw=np.zeros((room, len(told))),
        normal=np.zeros((room, len(told))),
    )


def _is_first(said: CountRules) -> bool:
    return said.first and not any(isinstance(one, Need) and one.tally.counts.any() for one in said.refusals)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
