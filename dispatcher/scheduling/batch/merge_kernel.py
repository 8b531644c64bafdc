"""The merge of a batch whose policies count pods by fault domain, compiled: pod by pod the best row, and what it moves.

Rows alike in all that domains say of them are one *bucket*: same groups of domains, same counts on the host itself. One
pod more moves a few counts and takes its row from one bucket to another; what refuses a bucket, and what it adds to the
points of its rows, follows from the counts alone. Each bucket holds the candidates of its rows in a skew heap.

Every number is what the plugins' own parts and `normalize` say, bit for bit (`framework.tallies` has the meaning of the
rules). There is no NumPy form of the merge: without a compiler, plugins are asked again after each pod (`lookahead`).
"""

from typing import Any

import numpy as np

from dispatcher.scheduling.batch.merge_tables import (
    AT,
    BUCKET_UNKNOWN,
    CANDIDATE_UNKNOWN,
    DONE,
    NEED,
    NO_PLACE,
    OTHERS_OPEN,
    TOO_FEW,
    VARIED,
    WANTED,
    Buckets,
    Candidates,
    Counts,
    Plugins,
    Rules,
    Trace,
)
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.framework import MAX_SCORE
from dispatcher.scheduling.framework.tallies import Scale

_RANGE, _COST = int(Scale.RANGE), int(Scale.COST)
_UNKNOWN = -1


def merge(
    buckets: Buckets,
    counts: Counts,
    rules: Rules,
    plugins: Plugins,
    candidates: Candidates,
    trace: Trace,
    progress: Any,
) -> int:
    """Decide pods until all are, or something is missing (see the constants)."""
    while progress[AT] < progress[WANTED]:
        at = progress[AT]
        refuse(buckets, counts, rules, plugins)
        found, others = mark_open(buckets)
        if not found:
            return NO_PLACE
        if others and progress[VARIED]:
            return OTHERS_OPEN
        score(buckets, counts, plugins)
        normalize(buckets, plugins)
        pick(buckets, plugins, candidates, trace, at)
        if at + 1 < progress[WANTED]:
            missing = lacks(buckets, candidates, trace, at)
            if missing:
                return missing
            stopped = book(buckets, counts, rules, plugins, candidates, trace, at)
            if stopped:
                progress[AT] += 1
                return stopped
        progress[AT] += 1
    return DONE


def refuse(buckets: Buckets, counts: Counts, rules: Rules, plugins: Plugins) -> None:
    """The first rule that refuses each bucket."""
    for bucket in range(len(buckets.members)):
        buckets.codes[bucket] = 0
        if buckets.members[bucket] == 0:
            continue
        for rule in range(len(rules.tally)):
            code = verdict(buckets, counts, rules, plugins, rule, bucket)
            if code:
                buckets.codes[bucket] = code
                break


def verdict(buckets: Buckets, counts: Counts, rules: Rules, plugins: Plugins, rule: int, bucket: int) -> Any:
    """Why one rule refuses one bucket, 0 if it does not."""
    slot = buckets.slot[bucket, rules.tally[rule]]
    if slot < 0:
        return rules.elsewhere[rule]
    count = counts.counts[slot]
    if rules.kind[rule] == NEED:
        return rules.code[rule] if count <= 0 and not plugins.first[rules.plugin[rule]] else np.uint16(0)
    most = rules.most[rule]
    if rules.rise[rule] >= 0:
        most += rules.low[rule] + rules.rise[rule]
    return rules.code[rule] if count > most else np.uint16(0)


def mark_open(buckets: Buckets) -> tuple[bool, bool]:
    """(Whether any bucket takes pods, whether others do than before.)"""
    found = others = False
    for bucket in range(len(buckets.members)):
        takes = np.uint16(buckets.members[bucket] > 0 and buckets.codes[bucket] == 0)
        others |= takes != buckets.open[bucket]
        found |= takes == 1
        buckets.open[bucket] = takes
    return found, others


def score(buckets: Buckets, counts: Counts, plugins: Plugins) -> None:
    """Raw scores of the open buckets."""
    for plugin in range(len(plugins.base)):
        plugins.raw[:, plugin] = plugins.base[plugin]
    for gain in range(len(plugins.gain_plugin)):
        plugin, tally, factor = plugins.gain_plugin[gain], plugins.gain_tally[gain], plugins.factor[gain]
        if plugins.sized[plugin]:
            factor *= plugins.ln[size_of(buckets, counts, plugins, gain)]
        for bucket in range(len(buckets.open)):
            slot = buckets.slot[bucket, tally]
            if slot < 0:
                plugins.raw[bucket, plugin] += plugins.elsewhere[gain]
            else:
                plugins.raw[bucket, plugin] += factor * counts.counts[slot] + plugins.offset[gain]


def size_of(buckets: Buckets, counts: Counts, plugins: Plugins, gain: int) -> int:
    """How many domains of a tally have rows that take pods; rows without one are one more."""
    plugin, tally = plugins.gain_plugin[gain], plugins.gain_tally[gain]
    size, without = 0, 0
    counts.stamps[:] = 0
    for bucket in range(len(buckets.open)):
        if not buckets.open[bucket] or (plugins.sized[plugin] == 2 and not is_whole(buckets, plugins, plugin, bucket)):
            continue
        slot = buckets.slot[bucket, tally]
        if plugins.gain_by_host[gain]:
            size += buckets.members[bucket]
        elif slot < 0:
            without = 1
        elif counts.stamps[slot] == 0:
            counts.stamps[slot] = 1
            size += 1
    return size + without


def is_whole(buckets: Buckets, plugins: Plugins, plugin: int, bucket: int) -> bool:
    """Whether a bucket has the domains of all gains of a plugin."""
    for gain in range(len(plugins.gain_plugin)):
        if plugins.gain_plugin[gain] == plugin and buckets.slot[bucket, plugins.gain_tally[gain]] < 0:
            return False
    return True


def normalize(buckets: Buckets, plugins: Plugins) -> None:
    """Points of the open buckets."""
    buckets.points[:] = buckets.shared
    for plugin in range(len(plugins.base)):
        weight = plugins.weight[plugin] * GRID
        if plugins.scale[plugin] == _COST:
            by_cost(buckets, plugins, plugin)
        elif plugins.scale[plugin] == _RANGE:
            by_range(buckets, plugins, plugin)
        else:
            plugins.normal[:, plugin] = plugins.raw[:, plugin]
        for bucket in range(len(buckets.open)):
            if buckets.open[bucket]:
                buckets.points[bucket] += np.rint(plugins.normal[bucket, plugin] * weight) / GRID


def by_range(buckets: Buckets, plugins: Plugins, plugin: int) -> None:
    """Scale.RANGE over the open buckets."""
    raw = plugins.raw[:, plugin]
    least, most = np.inf, -np.inf
    for bucket in range(len(buckets.open)):
        if buckets.open[bucket]:
            least, most = min(least, raw[bucket]), max(most, raw[bucket])
    for bucket in range(len(buckets.open)):
        if buckets.open[bucket]:
            share = (raw[bucket] - least) / (most - least) if most > least else 0.0
            plugins.normal[bucket, plugin] = np.floor(MAX_SCORE * share)


def by_cost(buckets: Buckets, plugins: Plugins, plugin: int) -> None:
    """Scale.COST over the open buckets."""
    raw, normal = plugins.raw[:, plugin], plugins.normal[:, plugin]
    largest, least = 0.0, np.inf
    for bucket in range(len(buckets.open)):
        if buckets.open[bucket] and raw[bucket] > plugins.void[plugin]:
            cost = np.floor(0.5 - (raw[bucket] - plugins.base[plugin]))
            largest, least = max(largest, cost), min(least, cost)
    for bucket in range(len(buckets.open)):
        if not buckets.open[bucket]:
            continue
        normal[bucket] = 0.0
        if raw[bucket] > plugins.void[plugin]:
            cost = np.floor(0.5 - (raw[bucket] - plugins.base[plugin]))
            normal[bucket] = np.floor(MAX_SCORE * (largest + least - cost) / largest) if largest > 0.0 else MAX_SCORE


def pick(buckets: Buckets, plugins: Plugins, candidates: Candidates, trace: Trace, at: int) -> None:
    """Write down the best candidate and the next best, with their buckets and scores."""
    first = second = _UNKNOWN
    of_first = of_second = _UNKNOWN
    for bucket in range(len(buckets.open)):
        candidate = buckets.root[bucket]
        if candidate < 0 or not buckets.open[bucket]:
            continue
        if first < 0 or beats(buckets, candidates, candidate, bucket, first, of_first):
            second, of_second = first, of_first
            first, of_first = candidate, bucket
        elif second < 0 or beats(buckets, candidates, candidate, bucket, second, of_second):
            second, of_second = candidate, bucket
    for candidate in (candidates.left[first], candidates.right[first]):
        if candidate >= 0 and (second < 0 or beats(buckets, candidates, candidate, of_first, second, of_second)):
            second, of_second = candidate, of_first
    trace.candidate[at, 0], trace.bucket[at, 0] = first, of_first
    trace.candidate[at, 1], trace.bucket[at, 1] = second, of_second
    note(buckets, plugins, candidates, trace, at, 0)
    note(buckets, plugins, candidates, trace, at, 1)
    trace.codes[at, : len(buckets.codes)] = buckets.codes


def beats(buckets: Buckets, candidates: Candidates, one: int, of_one: int, other: int, of_other: int) -> Any:
    """Whether a candidate is better than another one, each with the points of its bucket."""
    more = candidates.points[one] + buckets.points[of_one] - (candidates.points[other] + buckets.points[of_other])
    if more != 0.0:
        return more > 0.0
    if candidates.rank[one] != candidates.rank[other]:
        return candidates.rank[one] < candidates.rank[other]
    return candidates.row[one] < candidates.row[other]


def note(buckets: Buckets, plugins: Plugins, candidates: Candidates, trace: Trace, at: int, place: int) -> None:
    """Write down what goes with one of the two."""
    candidate, bucket = trace.candidate[at, place], trace.bucket[at, place]
    if candidate >= 0:
        trace.depth[at, place] = candidates.taken[candidate]
        trace.score[at, place] = candidates.points[candidate] + buckets.points[bucket]
        for plugin in range(len(plugins.base)):
            trace.raw[at, place, plugin] = plugins.raw[bucket, plugin]
            trace.normal[at, place, plugin] = plugins.normal[bucket, plugin]


def lacks(buckets: Buckets, candidates: Candidates, trace: Trace, at: int) -> int:
    """What has to be known before the pod is booked, 0 if all is."""
    candidate = trace.candidate[at, 0]
    if candidates.next_code[candidate] < 0:
        return CANDIDATE_UNKNOWN
    return BUCKET_UNKNOWN if candidates.next_code[candidate] == 0 and buckets.after[trace.bucket[at, 0]] < 0 else 0


def book(
    buckets: Buckets,
    counts: Counts,
    rules: Rules,
    plugins: Plugins,
    candidates: Candidates,
    trace: Trace,
    at: int,
) -> int:
    """The best row has taken the pod; TOO_FEW if the next cannot be known."""
    candidate, bucket = trace.candidate[at, 0], trace.bucket[at, 0]
    buckets.root[bucket] = join(candidates, candidates.left[candidate], candidates.right[candidate])
    buckets.members[bucket] -= 1
    count(buckets, counts, rules, plugins, bucket)
    if candidates.taken[candidate] == 0:
        buckets.fresh[bucket] -= 1
    candidates.taken[candidate] += 1
    trace.full[at] = candidates.next_code[candidate]
    if candidates.next_code[candidate] == 0:
        after = buckets.after[bucket]
        candidates.points[candidate], candidates.next_code[candidate] = candidates.next_points[candidate], _UNKNOWN
        candidates.left[candidate] = candidates.right[candidate] = _UNKNOWN
        buckets.root[after] = join(candidates, buckets.root[after], candidate)
        buckets.members[after] += 1
    return 0 if buckets.complete[bucket] or buckets.fresh[bucket] >= 2 else TOO_FEW


def count(buckets: Buckets, counts: Counts, rules: Rules, plugins: Plugins, bucket: int) -> None:
    """One more pod in a bucket."""
    for rule in range(len(rules.tally)):
        tally = rules.tally[rule]
        slot, step = buckets.slot[bucket, tally], buckets.step[bucket, tally]
        if slot < 0 or step == 0:
            continue
        if rules.kind[rule] == NEED:
            plugins.first[rules.plugin[rule]] = 0
        elif rules.rise[rule] >= 0 and rules.present[bucket, rule]:
            rise(counts, rules, rule, counts.counts[slot], step)
    for tally in range(len(counts.moves)):
        if counts.moves[tally] and buckets.slot[bucket, tally] >= 0:
            counts.counts[buckets.slot[bucket, tally]] += buckets.step[bucket, tally]


def rise(counts: Counts, rules: Rules, rule: int, before: int, step: int) -> None:
    """A domain whose least count matters has `step` pods more than `before`."""
    histogram = counts.histogram[rule]
    last = len(histogram) - 1
    histogram[min(before - rules.low[rule], last)] -= 1
    histogram[min(before + step - rules.low[rule], last)] += 1
    while histogram[rules.rise[rule]] == 0 and rules.rise[rule] < last:
        rules.rise[rule] += 1


def join(candidates: Candidates, one: int, other: int) -> int:
    """The root of two skew heaps made one."""
    if one < 0 or other < 0:
        return max(one, other)
    if better(candidates, other, one):
        one, other = other, one
    root = one
    while True:  # `one` is better than `other`, which goes where its right child was
        old = candidates.right[one]
        candidates.right[one] = candidates.left[one]
        if old >= 0 and better(candidates, old, other):
            old, other = other, old
        candidates.left[one] = other
        if old < 0:
            return root
        one, other = other, old


def better(candidates: Candidates, one: int, other: int) -> Any:
    """Whether a candidate is better than another one of the same bucket."""
    if candidates.points[one] != candidates.points[other]:
        return candidates.points[one] > candidates.points[other]
    if candidates.rank[one] != candidates.rank[other]:
        return candidates.rank[one] < candidates.rank[other]
    return candidates.row[one] < candidates.row[other]
