"""Rows sorted into buckets: alike in the fault domains that count rules look at, and in the counts on the host itself.

Made afresh for each batch, out of the class's rows and the counts as they stand, for `merge_kernel` to work on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.batch.merge_tables import CAP, NEED, Buckets, Counts, Plugins, Rules
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.partitions import Partition
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints, SmallInts
from dispatcher.scheduling.framework.tallies import LN, Cap, CountRules, Gain, Need, Tally

_MOST_BUCKETS = 256
_MORE_BUCKETS = 64  # that rows may come to in the course of a batch
_WIDEST = 1 << 22  # combinations that are counted in a table
_NO_SLOT = -1

PluginRules = Sequence[tuple[PluginEvaluator, CountRules]]


@dataclass(eq=False)
class BucketLayout:
    """`rows` that no other filter refuses, `bucket_of` each of them [rows]; all about the buckets for the kernel.

    `used`: how many buckets there are by now; the arrays behind `buckets` have room for more.
    """

    rows: RowList
    bucket_of: NDArray[np.int64]
    used: int
    counts: Counts
    rules: Rules
    evaluators: Plugins
    whole: Buckets
    tallies: Sequence[Tally]
    hosts: Sequence[int]  # which of the tallies are by host
    places: dict[tuple[int, ...], int]  # (group, count on the host of each such tally) -> bucket
    names: list[tuple[int, ...]]  # the inverse
    shared: list[Floats] = field(default_factory=list)  # raw scores of columns that normalise, [buckets]

    @property
    def buckets(self) -> Buckets:
        """Those in use."""
        return Buckets(*(one[: self.used] for one in self.whole))

    @property
    def scored(self) -> Plugins:
        """The plugins, with the buckets in use."""
        evaluators = self.evaluators
        return evaluators._replace(raw=evaluators.raw[: self.used], normal=evaluators.normal[: self.used])

    @property
    def ruled(self) -> Rules:
        """The rules, with the buckets in use."""
        return self.rules._replace(present=self.rules.present[: self.used])

    def after(self, bucket: int) -> bool:
        """Find, or make, the bucket that a row of `bucket` comes to with one more pod; False if there is no room."""
        group, *values = self.names[bucket]
        steps = self.whole.step[bucket]
        name = (group, *(value + int(steps[at]) for value, at in zip(values, self.hosts, strict=True)))
        found = self.places.get(name)
        if found is None:
            if self.used == len(self.whole.members):
                return False
            found = self._copy(bucket, name)
        self.whole.after[bucket] = found
        return True

    def _copy(self, bucket: int, name: tuple[int, ...]) -> int:
        made = self.used
        for array in (self.whole.slot, self.whole.step, self.whole.shared, self.rules.present):
            array[made] = array[bucket]
        for value, at, base in zip(name[1:], self.hosts, self._bases(), strict=True):
            self.whole.slot[made, at] = base + made
            self.counts.counts[base + made] = value
        for raw in self.shared:
            raw[made] = raw[bucket]
        self.names.append(name)
        self.places[name] = made
        self.used += 1
        return made

    def _bases(self) -> list[int]:
        room = len(self.whole.members)
        first = len(self.counts.counts) - room * len(self.hosts)
        return [first + at * room for at in range(len(self.hosts))]


def bucket_layout_of(eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int) -> BucketLayout | None:
    """The buckets of a refreshed class, for a batch of `count` pods; None if there would be too many."""
    rules = [one for _, said in plugin_rules for one in said.refusals]
    gains = [one for _, said in plugin_rules for one in said.gains]
    tallies = list({id(one.tally): one.tally for one in (*rules, *gains)}.values())
    columns = [one for one in eq_class.normalizing if len(one.values) > 1]
    axes = _axes(tallies, [one.value for one in columns])
    partition = eq_class.partitions.of(axes) if axes else None
    if axes and partition is None:
        return None
    rows = eq_class.rows.feasible_rows()
    hosts = [at for at, one in enumerate(tallies) if one.by_host]
    sorted_ = _sorted(rows, partition, [tallies[at].counts for at in hosts])
    if sorted_ is None:
        return None
    bucket_of, names = sorted_
    split = dict(zip(map(id, axes), partition.codes, strict=True)) if partition else {}
    groups = np.asarray([name[0] for name in names], dtype=np.int64)
    codes = {axis: values[groups] for axis, values in split.items()}
    room = len(names) + _MORE_BUCKETS
    slot, step, counts = _slots(tallies, hosts, names, codes, room)
    present = _presence(rules, codes, room, len(names))
    layout = BucketLayout(
        rows,
        bucket_of,
        len(names),
        counts._replace(histogram=_histograms(rules, count)),
        _rules(plugin_rules, tallies, present),
        _plugins(plugin_rules, tallies, room, max(len(rows), len(counts.counts))),
        _buckets(slot, step, room, np.bincount(bucket_of, minlength=len(names)), moving=_moves(tallies, hosts)),
        tallies,
        hosts,
        {name: at for at, name in enumerate(names)},
        names,
    )
    for column in eq_class.normalizing:
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
    """The bucket of each row, and of each bucket the group and the counts on the host; None if they are too many."""
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
    if len(present) > _MOST_BUCKETS:
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
    """Where each bucket finds each count, what a pod adds, and the counts: by domain, then by bucket for hosts."""
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


def _buckets(slot: Ints, step: Ints, room: int, members: Ints, *, moving: bool) -> Buckets:
    counted = np.zeros(room, dtype=np.int64)
    counted[: len(members)] = members
    blank, marks = np.full(room, -1, dtype=np.int64), np.zeros(room, dtype=np.uint16)
    return Buckets(
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


def _rules(plugin_rules: PluginRules, tallies: Sequence[Tally], present: NDArray[np.uint16]) -> Rules:
    index = {id(one): at for at, one in enumerate(tallies)}
    rules = [(evaluator, rule) for evaluator, (_, said) in enumerate(plugin_rules) for rule in said.refusals]
    lows = [_low(rule) for _, rule in rules]
    return Rules(
        _ints(index[id(rule.tally)] for _, rule in rules),
        _ints(CAP if isinstance(rule, Cap) else NEED for _, rule in rules),
        _ints(rule.most if isinstance(rule, Cap) else 0 for _, rule in rules),
        _ints(rule.code for _, rule in rules).astype(np.uint16),
        _ints(rule.elsewhere if isinstance(rule, Cap) else rule.code for _, rule in rules).astype(np.uint16),
        _ints(evaluator for evaluator, _ in rules),
        _ints(low or 0 for low in lows),
        _ints(-1 if low is None else 0 for low in lows),
        present,
    )


def _low(rule: Cap | Need) -> int | None:
    if isinstance(rule, Need) or rule.present is None:
        return None
    return int(rule.tally.counts[rule.present].min())


def _plugins(plugin_rules: PluginRules, tallies: Sequence[Tally], room: int, most: int) -> Plugins:
    index = {id(one): at for at, one in enumerate(tallies)}
    gains: list[tuple[int, Gain]] = [
        (evaluator, gain) for evaluator, (_, said) in enumerate(plugin_rules) for gain in said.gains
    ]
    said = [rules for _, rules in plugin_rules]
    return Plugins(
        first=_ints(_is_first(one) for one in said),
        base=_floats(one.base for one in said),
        void=_floats(one.void for one in said),
        scale=_ints(int(one.scale) for one in said),
        sized=_ints((2 if one.whole else 1) if one.sized else 0 for one in said),
        weight=_floats(
            evaluator.role.weight if evaluator.role.score_at is not None else 0.0 for evaluator, _ in plugin_rules
        ),
        gain_plugin=_ints(evaluator for evaluator, _ in gains),
        gain_tally=_ints(index[id(gain.tally)] for _, gain in gains),
        gain_by_host=_ints(gain.tally.by_host for _, gain in gains),
        factor=_floats(gain.factor for _, gain in gains),
        offset=_floats(gain.offset for _, gain in gains),
        elsewhere=_floats(gain.elsewhere for _, gain in gains),
        ln=LN.up_to(most + 1),
        raw=np.zeros((room, len(plugin_rules))),
        normal=np.zeros((room, len(plugin_rules))),
    )


def _is_first(said: CountRules) -> bool:
    return said.first and not any(isinstance(one, Need) and one.tally.counts.any() for one in said.refusals)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
