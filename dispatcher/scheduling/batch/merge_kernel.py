"""The merge of a batch whose policies count pods by fault domain, compiled: pod by pod the best
row, and what it moves.

Rows that nothing but their own score tells apart are one *bucket*: equal in the domain code per
key, in whether pods on the row count, in the raw values of normalising node-only scores, and in
each count kept per host. One pod more moves a few counts and takes its row from one bucket to
another; what refuses a bucket, and what it adds to the points of its rows, follows from the counts
alone. Each bucket holds the candidates of its rows in a skew heap.

Every number is what the plugins' own parts and `normalize` say, bit for bit
(`framework.domain_counts` defines the rules). There is no NumPy form of the merge: until these
functions are compiled they run as they are, where buckets are few.
"""

from typing import Any

import numpy as np

from dispatcher.scheduling.batch.merge_tables import (
    AT,
    BUCKET_UNKNOWN,
    CANDIDATE_UNKNOWN,
    DONE,
    NO_PLACE,
    OPEN_SET_CHANGED,
    RENORMALIZE,
    REQUIRED_COUNT,
    TOO_FEW,
    WANTED,
    Brought,
    Buckets,
    Candidates,
    Counts,
    Plugins,
    Rules,
    Trace,
)
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.framework.domain_counts import COST, RANGE, on_scale

_UNKNOWN = -1


def merge(  # noqa: PLR0913 - compiled: plain tuples of arrays, one a kind of row
    buckets: Buckets,
    counts: Counts,
    rules: Rules,
    plugins: Plugins,
    candidates: Candidates,
    brought: Brought,
    trace: Trace,
    progress: Any,
) -> int:
    """Decide pods until all are, or something is missing (see the constants)."""
    # whether buckets came, or others are open than for the pod before: what was found holds no more
    fresh = True
    while progress[AT] < progress[WANTED]:
        at = progress[AT]
        if len(rules.domain_count):
            refuse(buckets, counts, rules, plugins)
        found, changed = mark_open(buckets)
        if not found:
            return NO_PLACE
        if changed and progress[RENORMALIZE]:
            return OPEN_SET_CHANGED
        fresh |= changed
        score(buckets, counts, plugins, fresh)
        normalize(buckets, plugins, fresh)
        fresh = False
        pick(buckets, plugins, candidates, brought, trace, at)
        if at == 0 and len(rules.domain_count):
            trace.codes[: len(buckets.codes)] = buckets.codes
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
        for rule in range(len(rules.domain_count)):
            code = verdict(buckets, counts, rules, plugins, rule, bucket)
            if code:
                buckets.codes[bucket] = code
                break


def verdict(
    buckets: Buckets, counts: Counts, rules: Rules, plugins: Plugins, rule: int, bucket: int
) -> Any:
    """Why one rule refuses one bucket, 0 if it does not."""
    slot = buckets.slot[bucket, rules.domain_count[rule]]
    if slot < 0:
        return rules.elsewhere[rule]
    count = counts.counts[slot]
    if rules.kind[rule] == REQUIRED_COUNT:
        return (
            rules.code[rule]
            if count <= 0 and not plugins.first_pod_exempt[rules.plugin[rule]]
            else np.uint16(0)
        )
    most = rules.most[rule]
    if rules.rise[rule] >= 0:
        most += rules.low[rule] + rules.rise[rule]
    return rules.code[rule] if count > most else np.uint16(0)


def mark_open(buckets: Buckets) -> tuple[bool, bool]:
    """(Whether any bucket is open, whether the set of open buckets changed.)"""
    found = changed = False
    for bucket in range(len(buckets.members)):
        takes = np.uint16(buckets.members[bucket] > 0 and buckets.codes[bucket] == 0)
        changed |= takes != buckets.open[bucket]
        found |= takes == 1
        buckets.open[bucket] = takes
    return found, changed


def score(buckets: Buckets, counts: Counts, plugins: Plugins, fresh: bool) -> None:
    """Raw scores of the open buckets; where they are others than for the pod before, the bucket has
    `moved`.

    `fresh`: take all for moved. While the same buckets are open, no number of domains changes but
    that of hosts.
    """
    buckets.moved[:] = fresh
    for term in range(len(plugins.term_plugin)):
        if plugins.size_mode[plugins.term_plugin[term]] and (fresh or plugins.term_by_host[term]):
            plugins.size[term] = size_of(buckets, counts, plugins, term)
    for plugin in range(len(plugins.base)):
        buckets.sums[:] = plugins.base[plugin]
        for term in range(len(plugins.term_plugin)):
            if plugins.term_plugin[term] == plugin:
                add_term(buckets, counts, plugins, plugin, term)
        for bucket in range(len(buckets.open)):
            if buckets.open[bucket] and buckets.sums[bucket] != plugins.raw[bucket, plugin]:
                plugins.raw[bucket, plugin] = buckets.sums[bucket]
                buckets.moved[bucket] = 1


def add_term(buckets: Buckets, counts: Counts, plugins: Plugins, plugin: int, term: int) -> None:
    """Add to the sum of each bucket what a term of a plugin makes of the count where the bucket is."""
    domain_count = plugins.term_count[term]
    by_table = plugins.term_by_table[term]
    factor = plugins.factor[term]
    if plugins.size_mode[plugin]:
        factor *= plugins.ln[plugins.size[term]]
    for bucket in range(len(buckets.sums)):
        slot = buckets.slot[bucket, domain_count]
        if slot < 0:
            buckets.sums[bucket] += plugins.elsewhere[term]
        elif by_table:
            buckets.sums[bucket] += counts.table[slot]
        else:
            buckets.sums[bucket] += factor * counts.counts[slot] + plugins.offset[term]


def size_of(buckets: Buckets, counts: Counts, plugins: Plugins, term: int) -> int:
    """How many domains of a count have rows that take pods; rows without one are one more."""
    plugin = plugins.term_plugin[term]
    domain_count = plugins.term_count[term]
    size = 0
    without = 0
    if not plugins.term_by_host[term]:
        counts.stamps[:] = 0
    for bucket in range(len(buckets.open)):
        if not buckets.open[bucket] or (
            plugins.size_mode[plugin] == 2 and not has_all_domains(buckets, plugins, plugin, bucket)
        ):
            continue
        slot = buckets.slot[bucket, domain_count]
        if plugins.term_by_host[term]:
            size += buckets.members[bucket]
        elif slot < 0:
            without = 1
        elif counts.stamps[slot] == 0:
            counts.stamps[slot] = 1
            size += 1
    return size + without


def has_all_domains(buckets: Buckets, plugins: Plugins, plugin: int, bucket: int) -> bool:
    """Whether a bucket has the domains of all score terms of a plugin."""
    for term in range(len(plugins.term_plugin)):
        if (
            plugins.term_plugin[term] == plugin
            and buckets.slot[bucket, plugins.term_count[term]] < 0
        ):
            return False
    return True


def normalize(buckets: Buckets, plugins: Plugins, fresh: bool) -> None:
    """Points of the open buckets: of those that have moved, or of all once the ends of a scale
    have.
    """
    for plugin in range(len(plugins.base)):
        if plugins.scale[plugin] == COST:
            ends = ends_of_costs(buckets, plugins, plugin)
        elif plugins.scale[plugin] == RANGE:
            ends = ends_of_range(buckets, plugins, plugin)
        else:
            ends = 0.0, 0.0
        if fresh or ends[0] != plugins.ends[plugin, 0] or ends[1] != plugins.ends[plugin, 1]:
            plugins.ends[plugin, 0], plugins.ends[plugin, 1] = ends
            buckets.moved[:] = 1
    for bucket in range(len(buckets.open)):
        if buckets.open[bucket] and buckets.moved[bucket]:
            buckets.points[bucket] = buckets.shared[bucket]
            for plugin in range(len(plugins.base)):
                plugins.normal[bucket, plugin] = on_scale(
                    plugins.scale[plugin],
                    plugins.raw[bucket, plugin],
                    plugins.ends[plugin, 0],
                    plugins.ends[plugin, 1],
                    plugins.base[plugin],
                    plugins.void[plugin],
                )
                weight = plugins.weight[plugin] * GRID
                buckets.points[bucket] += np.rint(plugins.normal[bucket, plugin] * weight) / GRID


def ends_of_range(buckets: Buckets, plugins: Plugins, plugin: int) -> tuple[float, float]:
    """The least and the most of raw scores, for Scale.RANGE over the open buckets."""
    least = np.inf
    most = -np.inf
    for bucket in range(len(buckets.open)):
        if buckets.open[bucket]:
            raw = plugins.raw[bucket, plugin]
            least = min(least, raw)
            most = max(most, raw)
    return least, most


def ends_of_costs(buckets: Buckets, plugins: Plugins, plugin: int) -> tuple[float, float]:
    """The least and the most of costs, for Scale.COST over the open buckets; finds those of buckets
    that have moved.
    """
    least = np.inf
    most = 0.0
    for bucket in range(len(buckets.open)):
        raw = plugins.raw[bucket, plugin]
        if buckets.open[bucket] and raw > plugins.void[plugin]:
            if buckets.moved[bucket]:
                plugins.cost[bucket, plugin] = np.floor(0.5 - (raw - plugins.base[plugin]))
            cost = plugins.cost[bucket, plugin]
            least = min(least, cost)
            most = max(most, cost)
    return least, most


def pick(
    buckets: Buckets,
    plugins: Plugins,
    candidates: Candidates,
    brought: Brought,
    trace: Trace,
    at: int,
) -> None:
    """Write down the best candidate and the next best, with their buckets and scores."""
    own = brought.points[brought.kind[at]]
    first = second = _UNKNOWN
    of_first = of_second = _UNKNOWN
    most = next_most = 0.0
    for bucket in range(len(buckets.open)):
        candidate = buckets.root[bucket]
        if candidate < 0 or not buckets.open[bucket]:
            continue
        points = (
            candidates.points[candidate] + buckets.points[bucket] + own[buckets.cluster[bucket]]
        )
        if first < 0 or beats(candidates, candidate, points, first, most):
            second = first
            of_second = of_first
            next_most = most
            first = candidate
            of_first = bucket
            most = points
        elif second < 0 or beats(candidates, candidate, points, second, next_most):
            second = candidate
            of_second = bucket
            next_most = points
    for candidate in (candidates.left[first], candidates.right[first]):
        if candidate >= 0:
            points = candidates.points[candidate] + buckets.points[of_first]
            points += own[buckets.cluster[of_first]]
            if second < 0 or beats(candidates, candidate, points, second, next_most):
                second = candidate
                of_second = of_first
                next_most = points
    trace.candidate[at, 0], trace.bucket[at, 0] = first, of_first
    trace.candidate[at, 1], trace.bucket[at, 1] = second, of_second
    if first >= 0:  # asked here and not in `trace_choice`, the merge takes half as long
        trace_choice(plugins, candidates, trace, at, 0, first, of_first, most)
    if second >= 0:
        trace_choice(plugins, candidates, trace, at, 1, second, of_second, next_most)


def beats(candidates: Candidates, one: int, points: float, other: int, than: float) -> Any:
    """Whether a candidate of so many points, with those of its bucket, is better than another one
    of `than`.
    """
    more = points - than
    if more != 0.0:
        return more > 0.0
    if candidates.rank[one] != candidates.rank[other]:
        return candidates.rank[one] < candidates.rank[other]
    return candidates.row[one] < candidates.row[other]


def trace_choice(  # noqa: PLR0913 - as `merge`
    plugins: Plugins,
    candidates: Candidates,
    trace: Trace,
    at: int,
    place: int,
    candidate: int,
    bucket: int,
    points: float,
) -> None:
    """Write down one of the two choices: what its row had taken, and its scores."""
    trace.depth[at, place] = candidates.taken[candidate]
    trace.score[at, place] = points
    for plugin in range(len(plugins.base)):
        trace.raw[at, place, plugin] = plugins.raw[bucket, plugin]
        trace.normal[at, place, plugin] = plugins.normal[bucket, plugin]


def lacks(buckets: Buckets, candidates: Candidates, trace: Trace, at: int) -> int:
    """What has to be known before the pod is booked, 0 if all is."""
    candidate = trace.candidate[at, 0]
    if candidates.next_code[candidate] < 0:
        return CANDIDATE_UNKNOWN
    return (
        BUCKET_UNKNOWN
        if candidates.next_code[candidate] == 0 and buckets.after[trace.bucket[at, 0]] < 0
        else 0
    )


def book(  # noqa: PLR0913 - as `merge`
    buckets: Buckets,
    counts: Counts,
    rules: Rules,
    plugins: Plugins,
    candidates: Candidates,
    trace: Trace,
    at: int,
) -> int:
    """The best row has taken the pod; TOO_FEW if the next cannot be known."""
    candidate = trace.candidate[at, 0]
    bucket = trace.bucket[at, 0]
    buckets.root[bucket] = join(candidates, candidates.left[candidate], candidates.right[candidate])
    buckets.members[bucket] -= 1
    count(buckets, counts, rules, plugins, bucket)
    if candidates.taken[candidate] == 0:
        buckets.fresh[bucket] -= 1
    candidates.taken[candidate] += 1
    if candidates.next_code[candidate] == 0:
        after = buckets.after[bucket]
        candidates.points[candidate], candidates.next_code[candidate] = (
            candidates.next_points[candidate],
            _UNKNOWN,
        )
        candidates.left[candidate] = candidates.right[candidate] = _UNKNOWN
        buckets.root[after] = join(candidates, buckets.root[after], candidate)
        buckets.members[after] += 1
    return 0 if buckets.complete[bucket] or buckets.fresh[bucket] >= 2 else TOO_FEW


def count(buckets: Buckets, counts: Counts, rules: Rules, plugins: Plugins, bucket: int) -> None:
    """One more pod in a bucket."""
    for rule in range(len(rules.domain_count)):
        domain_count = rules.domain_count[rule]
        slot = buckets.slot[bucket, domain_count]
        step = buckets.step[bucket, domain_count]
        if slot < 0 or step == 0:
            continue
        if rules.kind[rule] == REQUIRED_COUNT:
            plugins.first_pod_exempt[rules.plugin[rule]] = 0
        elif rules.rise[rule] >= 0 and rules.present[bucket, rule]:
            rise(counts, rules, rule, counts.counts[slot], step)
    for domain_count in range(len(counts.moves)):
        if counts.moves[domain_count] and buckets.slot[bucket, domain_count] >= 0:
            counts.counts[buckets.slot[bucket, domain_count]] += buckets.step[bucket, domain_count]


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
        one = other
        other = old


def better(candidates: Candidates, one: int, other: int) -> Any:
    """Whether a candidate is better than another one of the same bucket."""
    if candidates.points[one] != candidates.points[other]:
        return candidates.points[one] > candidates.points[other]
    if candidates.rank[one] != candidates.rank[other]:
        return candidates.rank[one] < candidates.rank[other]
    return candidates.row[one] < candidates.row[other]
