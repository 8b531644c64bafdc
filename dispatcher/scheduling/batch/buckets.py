"""Rows sorted into buckets, for the merge of a batch.

The rows of a bucket are equal in: the domain code of each topology key that count rules look at,
whether pods on the row count, the raw values of normalising node-only scores, each count that is
kept per host, and the cluster where pods bring points of their own (`brought_points`).

Made afresh for each batch, out of the class's rows and the counts as they stand, for `merge_kernel`
to work on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from math import prod

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.batch.bucket_sorting import BucketSorting, sorting_of
from dispatcher.scheduling.batch.merge_tables import (
    MAX_COUNT,
    REQUIRED_COUNT,
    Buckets,
    Counts,
    Plugins,
    Rules,
)
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, weighted
from dispatcher.scheduling.equivalence.group_scores import NormalizedColumn
from dispatcher.scheduling.equivalence.partitions import Partition, partition_of_some
from dispatcher.scheduling.framework import Floats, Ints, SmallInts
from dispatcher.scheduling.framework.domain_counts import (
    LN,
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    ScoreTerm,
)
from shared.model.topology import CLUSTER_LEVEL

# that rows may come to in the course of a batch, or one a pod where there are many already; or as
# many as counts on a host, where few rows take many pods
_MORE_BUCKETS = 64
_MOST_MORE = 1024
_NO_SLOT = -1
_MOST_NUMBERS = 2**63  # that a key may get
_SORT_FEW = 8  # if fewer than one row in so many is feasible, only these are sorted
_AHEAD = 4  # pods more on a row, whose buckets are made with that of the next one

PluginRules = Sequence[tuple[PluginEvaluator, CountRules]]


@dataclass(eq=False)
class BucketLayout:
    """Which rows are in which bucket (`sorting`), and all about the buckets for the kernel.

    `begun`: how many buckets hold rows at the beginning; `used`: how many there are by now, with
    those that rows may come to; the arrays in `all_buckets` have room for more.
    """

    sorting: BucketSorting
    begun: int
    used: int
    counts: Counts
    rules: Rules
    plugins: Plugins
    all_buckets: Buckets
    domain_counts: Sequence[RuleCount]
    hosts: Sequence[int]  # which of the counts are by host
    bucket_of_key: dict[
        tuple[int, ...], int
    ]  # (group, count on the host of each such count) -> bucket
    bucket_keys: list[tuple[int, ...]]  # bucket -> its key
    shared: list[Floats] = field(
        default_factory=list
    )  # raw scores of columns that normalise, [buckets]
    normals: list[Floats] = field(
        default_factory=list
    )  # these, normalised over the buckets that are open now

    @property
    def buckets_in_use(self) -> Buckets:
        """The buckets in use."""
        return Buckets(*(one[: self.used] for one in self.all_buckets))

    @property
    def plugins_in_use(self) -> Plugins:
        """The plugins, with the buckets in use."""
        plugins = self.plugins
        of_buckets = {"raw": plugins.raw, "normal": plugins.normal, "cost": plugins.cost}
        return plugins._replace(
            **{name: values[: self.used] for name, values in of_buckets.items()}
        )

    @property
    def rules_in_use(self) -> Rules:
        """The rules, with the buckets in use."""
        return self.rules._replace(present=self.rules.present[: self.used])

    def copy(self) -> "BucketLayout":
        """Another one for a batch of its own: what a merge changes is copied, the rest shared.

        `rules` are shared although a merge changes them: only layouts of policies without refusals
        may be copied.
        """
        plugins = self.plugins
        changing = ("raw", "normal", "cost", "ends", "size")
        return replace(
            self,
            counts=Counts(*[one.copy() for one in self.counts]),
            plugins=plugins._replace(**{name: getattr(plugins, name).copy() for name in changing}),
            all_buckets=Buckets(*[one.copy() for one in self.all_buckets]),
            bucket_of_key=dict(self.bucket_of_key),
            bucket_keys=list(self.bucket_keys),
            shared=[one.copy() for one in self.shared],
            normals=[one.copy() for one in self.normals],
        )

    def normalize(self, columns: Sequence[NormalizedColumn], *, open_alone: bool) -> None:
        """Normalise the node-only scores of `columns` over the buckets that are open now, or over
        all in use.
        """
        buckets = self.all_buckets
        normals = list[Floats]()
        open_ = buckets.open == 1 if open_alone else np.arange(len(buckets.open)) < self.used
        buckets.shared[:] = 0.0
        for column, raw in zip(columns, self.shared, strict=True):
            normal = raw.copy()
            if open_.any():
                normal[open_] = column.evaluator.normalize(raw[open_])
            buckets.shared[:] += weighted(normal, column.role.weight)
            normals.append(normal)
        self.normals = normals

    def after(self, bucket: int) -> bool:
        """Find, or make, the bucket that a row of `bucket` comes to with one more pod; False if
        there is no room.

        Those after it, too, while there is room for many: rows that take small pods go on from each
        to the next.
        """
        found = self._after(bucket)
        room = len(self.all_buckets.members)
        made = found is not None
        for _ in range(_AHEAD):
            if (
                found is None
                or self.all_buckets.after[found] >= 0
                or room - self.used < _MORE_BUCKETS // 2
            ):
                break
            found = self._after(found)
        return made

    def _after(self, bucket: int) -> int | None:
        group, *values = self.bucket_keys[bucket]
        steps = self.all_buckets.step[bucket]
        key = (
            group,
            *(value + int(steps[at]) for value, at in zip(values, self.hosts, strict=True)),
        )
        found = self.bucket_of_key.get(key)
        if found is None:
            if self.used == len(self.all_buckets.members):
                return None
            found = self._copy(bucket, key)
        self.all_buckets.after[bucket] = found
        return found

    def _copy(self, bucket: int, key: tuple[int, ...]) -> int:
        made = self.used
        for array in (
            self.all_buckets.slot,
            self.all_buckets.step,
            self.all_buckets.shared,
            self.all_buckets.cluster,
            self.rules.present,
        ):
            array[made] = array[bucket]
        for value, at, base in zip(key[1:], self.hosts, self._bases(), strict=True):
            self.all_buckets.slot[made, at] = base + made
            self.counts.counts[base + made] = value
        for score in (*self.shared, *self.normals):
            score[made] = score[bucket]
        self.bucket_keys.append(key)
        self.bucket_of_key[key] = made
        self.used += 1
        return made

    def _bases(self) -> list[int]:
        room = len(self.all_buckets.members)
        first = len(self.counts.counts) - room * len(self.hosts)
        return [first + at * room for at in range(len(self.hosts))]


def bucket_layout_of(
    eq_class: EquivalenceClass, plugin_rules: PluginRules, count: int
) -> BucketLayout | None:
    """The buckets of a refreshed class, for a batch of `count` pods; None if there would be too
    many.
    """
    rules = [one for _, said in plugin_rules for one in said.refusals]
    score_terms = [one for _, said in plugin_rules for one in said.score_terms]
    domain_counts = list(
        {id(one.domain_count): one.domain_count for one in (*rules, *score_terms)}.values()
    )
    columns = [one for one in eq_class.normalizing if len(one.values) > 1]
    cluster = eq_class.fleet.domain(CLUSTER_LEVEL)
    axes = _axes(domain_counts, [one.value for one in columns], [cluster] * bool(eq_class.brought))
    partition = _partition_of(eq_class, axes) if axes else None
    if axes and partition is None:
        return None
    hosts = [at for at, one in enumerate(domain_counts) if one.by_host]
    sorting = sorting_of(eq_class, partition, [domain_counts[at].counts for at in hosts])
    if sorting is None:
        return None
    keys = sorting.keys
    split = dict(zip(map(id, axes), partition.axis_codes, strict=True)) if partition else {}
    groups = np.asarray([key[0] for key in keys], dtype=np.int64)
    codes = {axis: values[groups] for axis, values in split.items()}
    room = len(keys) + max(
        _MORE_BUCKETS, min(count, len(keys)), _on_few_rows(groups, sorting, count)
    )
    slot, step, counts = _slots(domain_counts, hosts, keys, codes, room)
    for term in score_terms:
        if term.table is not None:
            base = _base_of(domain_counts, term.domain_count)
            counts.table[base : base + len(term.table)] = term.table
    present = _presence(rules, codes, room, len(keys))
    layout = BucketLayout(
        sorting,
        len(keys),
        len(keys),
        counts._replace(histogram=_histograms(rules, count)),
        _rules(plugin_rules, domain_counts, present),
        _plugins(
            plugin_rules, domain_counts, room, max(int(sorting.members.sum()), len(counts.counts))
        ),
        _buckets(slot, step, room, sorting.members, moving=_moves(domain_counts, hosts)),
        domain_counts,
        hosts,
        {key: at for at, key in enumerate(keys)},
        keys,
    )
    if eq_class.brought:
        layout.all_buckets.cluster[: len(keys)] = codes[id(cluster)]
    if hosts and keys:
        _link_existing(layout)
    for column in eq_class.normalizing:
        values = codes.get(id(column.value), np.zeros(len(keys), dtype=np.int64))
        layout.shared.append(np.zeros(room))
        layout.shared[-1][: len(keys)] = np.asarray(column.values or [0.0])[values] + 0.0
    return layout


def _on_few_rows(groups: Ints, sorting: BucketSorting, count: int) -> int:
    """How many buckets the rows of each group come to, if each takes up to twice its part."""
    rows = max(1, int(sorting.members.sum()))
    return min(_MOST_MORE, 2 * (count // rows) * len(np.unique(groups)))


def _link_existing(layout: BucketLayout) -> None:
    """Set `after` of each bucket: the one that its rows come to with one more pod, -1 where that is
    still to be made.

    All at once, with each key as one number in a mixed radix. Example: keys (0, 0), (0, 1), (7, 0)
    of groups and counts on hosts come to (0, 1), (0, 2), (7, 1). Counts are 0 to 2, so a key is 3 *
    group + count: 0, 1, 21 look for 1, 2,
    22. Of these only 1 is there, the number of the second bucket: `after` is 1, -1, -1.
    """
    keys = np.asarray(layout.bucket_keys, dtype=np.int64)
    more = keys.copy()
    more[:, 1:] += layout.all_buckets.step[: layout.used][:, layout.hosts]
    lows = np.minimum(keys.min(axis=0), more.min(axis=0))
    widths = np.maximum(keys.max(axis=0), more.max(axis=0)) - lows + 1
    if prod(widths.tolist()) > _MOST_NUMBERS:
        return  # some keys would get the same number: `BucketLayout.after` finds the next ones
    weights = np.append(np.cumprod(widths[:0:-1])[::-1], 1)
    # `numbers` ascend, as the keys do
    numbers = (keys - lows) @ weights
    wanted = (more - lows) @ weights
    found = np.minimum(np.searchsorted(numbers, wanted), layout.used - 1)
    layout.all_buckets.after[: layout.used] = np.where(numbers[found] == wanted, found, -1)


def _partition_of(eq_class: EquivalenceClass, axes: Sequence[SmallInts]) -> Partition | None:
    """Of all rows, which other classes share; or of the feasible ones alone where these are few, as
    for pods that select a region.
    """
    if _SORT_FEW * eq_class.rows.feasible > eq_class.fleet.n or not eq_class.rows.feasible:
        return eq_class.partitions.of(axes)
    return partition_of_some(axes, eq_class.rows.feasible_rows())


def _axes(domain_counts: Sequence[RuleCount], *values: Sequence[SmallInts]) -> list[SmallInts]:
    domains = [one.domain for one in domain_counts if not one.by_host]
    counted = [one.counted for one in domain_counts if one.counted is not None]
    return list({id(axis): axis for axis in (*chain(*values), *domains, *counted)}.values())


def _slots(
    domain_counts: Sequence[RuleCount],
    hosts: Sequence[int],
    keys: Sequence[tuple[int, ...]],
    codes: dict[int, NDArray[np.int64]],
    room: int,
) -> tuple[Ints, Ints, Counts]:
    """Where each bucket finds each count, what a pod adds, and the counts: by domain, then by
    bucket for hosts.
    """
    slot = np.zeros((room, len(domain_counts)), dtype=np.int64)
    step = np.zeros((room, len(domain_counts)), dtype=np.int64)
    used = len(keys)
    flat = []
    base = 0
    for at, one in enumerate(domain_counts):
        if not one.by_host:
            code = codes[id(one.domain)]
            slot[:used, at] = np.where(code >= 0, code + base, _NO_SLOT)
            flat.append(one.counts)
            base += len(one.counts)
    for place, at in enumerate(hosts):
        slot[:used, at] = base + np.arange(used)
        flat.append(np.zeros(room, dtype=np.int64))
        flat[-1][:used] = [key[1 + place] for key in keys]
        base += room
    for at, one in enumerate(domain_counts):
        counted = 1 if one.counted is None else codes[id(one.counted)]
        step[:used, at] = one.more * counted * (slot[:used, at] >= 0)
    counts = np.concatenate(flat) if flat else np.zeros(1, dtype=np.int64)
    moves = np.ones(len(domain_counts), dtype=np.uint16)
    moves[list(hosts)] = 0
    return (
        slot,
        step,
        Counts(
            counts,
            moves,
            histogram=np.zeros((1, 1), dtype=np.int64),
            stamps=np.zeros(len(counts), dtype=np.int64),
            table=np.zeros(len(counts)),
        ),
    )


def _base_of(domain_counts: Sequence[RuleCount], wanted: RuleCount) -> int:
    """Where the slots of a count that is by domain begin."""
    before = takewhile(lambda one: one is not wanted, domain_counts)
    return sum(len(one.counts) for one in before if not one.by_host)


def _moves(domain_counts: Sequence[RuleCount], hosts: Sequence[int]) -> bool:
    return any(domain_counts[at].more for at in hosts)


def _buckets(slot: Ints, step: Ints, room: int, members: Ints, *, moving: bool) -> Buckets:
    counted = np.zeros(room, dtype=np.int64)
    counted[: len(members)] = members
    blank = np.full(room, -1, dtype=np.int64)
    marks = np.zeros(room, dtype=np.uint16)
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
        moved=marks.copy(),
        sums=np.zeros(room),
        cluster=np.zeros(room, dtype=np.int64),
    )


def _presence(
    rules: Sequence[MaxCount | RequiredCount],
    codes: dict[int, NDArray[np.int64]],
    room: int,
    used: int,
) -> NDArray[np.uint16]:
    present = np.zeros((room, len(rules)), dtype=np.uint16)
    for at, rule in enumerate(rules):
        if isinstance(rule, MaxCount) and rule.present is not None:
            domain_count = rule.domain_count
            if domain_count.by_host:  # of hosts, those whose pods count are the ones that matter
                present[:used, at] = (
                    1 if domain_count.counted is None else codes[id(domain_count.counted)]
                )
            else:
                code = codes[id(domain_count.domain)]
                present[:used, at] = (code >= 0) & np.append(rule.present, False)[code]
    return present


def _histograms(rules: Sequence[MaxCount | RequiredCount], count: int) -> Ints:
    """[rules, width] of the counts of domains whose least count matters, from that on."""
    width = count + 2
    found = np.zeros((len(rules), width), dtype=np.int64)
    for at, rule in enumerate(rules):
        if isinstance(rule, MaxCount) and rule.present is not None:
            counts = rule.domain_count.counts[rule.present]
            found[at] = np.bincount(np.minimum(counts - counts.min(), width - 1), minlength=width)
    return found


def _rules(
    plugin_rules: PluginRules, domain_counts: Sequence[RuleCount], present: NDArray[np.uint16]
) -> Rules:
    index = {id(one): at for at, one in enumerate(domain_counts)}
    rules = [
        (evaluator, rule)
        for evaluator, (_, said) in enumerate(plugin_rules)
        for rule in said.refusals
    ]
    lows = [_low(rule) for _, rule in rules]
    return Rules(
        _ints(index[id(rule.domain_count)] for _, rule in rules),
        _ints(MAX_COUNT if isinstance(rule, MaxCount) else REQUIRED_COUNT for _, rule in rules),
        _ints(rule.most if isinstance(rule, MaxCount) else 0 for _, rule in rules),
        _ints(rule.code for _, rule in rules).astype(np.uint16),
        _ints(
            rule.elsewhere if isinstance(rule, MaxCount) else rule.code for _, rule in rules
        ).astype(np.uint16),
        _ints(evaluator for evaluator, _ in rules),
        _ints(low or 0 for low in lows),
        _ints(-1 if low is None else 0 for low in lows),
        present,
    )


def _low(rule: MaxCount | RequiredCount) -> int | None:
    if isinstance(rule, RequiredCount) or rule.present is None:
        return None
    return int(rule.domain_count.counts[rule.present].min())


def _plugins(
    plugin_rules: PluginRules, domain_counts: Sequence[RuleCount], room: int, most: int
) -> Plugins:
    index = {id(one): at for at, one in enumerate(domain_counts)}
    score_terms: list[tuple[int, ScoreTerm]] = [
        (evaluator, term)
        for evaluator, (_, said) in enumerate(plugin_rules)
        for term in said.score_terms
    ]
    said = [rules for _, rules in plugin_rules]
    return Plugins(
        first_pod_exempt=_ints(one.is_exempt for one in said),
        base=_floats(one.base for one in said),
        void=_floats(one.void for one in said),
        scale=_ints(int(one.scale) for one in said),
        size_mode=_ints((2 if one.needs_all_domains else 1) if one.sized else 0 for one in said),
        weight=_floats(
            evaluator.role.weight if evaluator.role.score_at is not None else 0.0
            for evaluator, _ in plugin_rules
        ),
        term_plugin=_ints(evaluator for evaluator, _ in score_terms),
        term_count=_ints(index[id(term.domain_count)] for _, term in score_terms),
        term_by_host=_ints(term.domain_count.by_host for _, term in score_terms),
        term_by_table=_ints(term.table is not None for _, term in score_terms),
        factor=_floats(term.factor for _, term in score_terms),
        offset=_floats(term.offset for _, term in score_terms),
        elsewhere=_floats(term.elsewhere for _, term in score_terms),
        ln=LN.up_to(most + 1 if score_terms else 0),
        raw=np.zeros((room, len(plugin_rules))),
        normal=np.zeros((room, len(plugin_rules))),
        cost=np.zeros((room, len(plugin_rules))),
        ends=np.zeros((len(plugin_rules), 2)),
        size=np.zeros(len(score_terms), dtype=np.int64),
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
