"""The arrays that the merge of a batch works on (`merge_kernel`)."""

from typing import Any, NamedTuple

import numpy as np

# Why the merge stops. OPEN_SET_CHANGED: normalise node-only scores again.
DONE, NO_PLACE, CANDIDATE_UNKNOWN, BUCKET_UNKNOWN, OPEN_SET_CHANGED, TOO_FEW = range(6)
# Entries of `progress`: pods decided; pods to decide; 1 if node-only raw scores differ, so the open
# set affects them.
AT, WANTED, RENORMALIZE = range(3)
MAX_COUNT, REQUIRED_COUNT = range(2)


class Buckets(NamedTuple):
    """[buckets]; the first two [buckets, counts]."""

    # int64: where in `Counts.counts` the count of the bucket's domain is, -1 without a domain
    slot: Any
    step: Any  # int64: what one more pod in the bucket adds to it
    members: Any  # int64: rows that no other filter refuses
    root: Any  # int64: the best candidate, -1 without
    fresh: Any  # int64: candidates of rows that have not taken a pod of the batch
    complete: Any  # uint16: 1 if there is a candidate of each row that this batch could come to
    after: Any  # int64: the bucket of a row that has taken one more pod, -1 unknown
    shared: (
        Any  # float64: weighted node-only scores, normalised; change only when the open set changes
    )
    codes: Any  # uint16: why it is refused
    open: Any  # uint16: 1 if it takes pods
    points: Any  # float64: what it adds to the points of its rows
    moved: Any  # uint16: 1 if its points have to be found anew
    sums: Any  # float64: scratch, the raw scores of one plugin while its terms are added
    cluster: Any  # int64: that of its rows, where pods bring points of their own


class Counts(NamedTuple):
    """Pods counted; the histograms are of the counts of those domains whose least count matters."""

    counts: Any  # int64 [slots]
    # uint16 [counts]: 1: the count rises in its slot; 0: per-host count, the row changes bucket
    # instead
    moves: Any
    histogram: Any  # int64 [rules, width]; entry 0 is that of `Rules.low`, the last of all above
    stamps: Any  # int64 [slots]: scratch
    table: Any  # float64 [slots]: what a term gives the domain instead, if it has a table


class Rules(NamedTuple):
    """[rules] that refuse, in order."""

    domain_count: Any  # int64
    kind: Any  # int64: MAX_COUNT or REQUIRED_COUNT
    most: Any  # int64
    code: Any  # uint16
    elsewhere: Any  # uint16
    plugin: Any  # int64
    low: Any  # int64: the least count when the batch began
    rise: Any  # int64: how far it has risen since; -1: it does not matter
    present: Any  # uint16 [buckets, rules]: 1 if the bucket's domain is one of the histogram's


class Plugins(NamedTuple):
    """[plugins] that score or refuse by counts; [terms] the terms of their scores.

    `first_pod_exempt`: for the first pod of a set that is affine to itself. `size_mode`: 0 plain;
    1: factor x ln(feasible domains + 2), rows without a domain count as one; 2: as 1, but only rows
    that have every domain of the plugin's terms.
    """

    # int64: 1 while all RequiredCounts are zero everywhere: rows with the domain are not refused
    first_pod_exempt: Any
    base: Any  # float64
    void: Any  # float64
    scale: Any  # int64: a Scale
    size_mode: Any  # int64: see above
    weight: Any  # float64: the profile's
    term_plugin: Any  # int64 [terms]
    term_count: Any  # int64 [terms]
    term_by_host: Any  # int64 [terms]
    term_by_table: Any  # int64 [terms]
    factor: Any  # float64 [terms]
    offset: Any  # float64 [terms]
    elsewhere: Any  # float64 [terms]
    ln: Any  # float64 [most domains + 1]
    raw: Any  # float64 [buckets, plugins]
    normal: Any  # float64 [buckets, plugins]
    cost: Any  # float64 [buckets, plugins]: of Scale.COST
    ends: Any  # float64 [plugins, 2]: the least and the most that the normal scores were found with
    size: Any  # int64 [terms]: domains of the term's count


class Candidates(NamedTuple):
    """[candidates] what rows offer for the next pod; a row has one."""

    points: Any  # float64
    rank: Any  # int64
    row: Any  # int64
    left: Any  # int64: children in the heap
    right: Any  # int64
    taken: Any  # int64: pods of this batch
    next_points: Any  # float64: after one more pod
    next_code: Any  # int64: why there can be no more, 0 if there can, -1 unknown


class Brought(NamedTuple):
    """Points by cluster that pods bring along."""

    points: Any  # float64 [kinds of pods, clusters]
    kind: Any  # int64 [pods]


class Trace(NamedTuple):
    """[pods] what was decided; of the chosen candidate and the next best one (-1 without)."""

    candidate: Any  # int64 [pods, 2]
    bucket: Any  # int64 [pods, 2]
    depth: Any  # int64 [pods, 2]: pods of this batch that its row had taken
    score: Any  # float64 [pods, 2]
    raw: Any  # float64 [pods, 2, plugins]
    normal: Any  # float64 [pods, 2, plugins]
    codes: Any  # uint16 [buckets] why each bucket was refused when the batch began


def blank() -> tuple[Any, ...]:
    """What `merge` takes, with nothing in it: the types of its arguments."""
    whole = np.zeros(1, dtype=np.int64)
    wide = np.zeros((1, 1), dtype=np.int64)
    real = np.zeros(1)
    broad = np.zeros((1, 1))
    mark = np.zeros(1, dtype=np.uint16)
    deep = np.zeros((1, 1, 1))
    marks = np.zeros((1, 1), dtype=np.uint16)
    return (
        Buckets(
            wide, wide, whole, whole, whole, mark, whole, real, mark, mark, real, mark, real, whole
        ),
        Counts(whole, mark, wide, whole, real),
        Rules(whole, whole, whole, mark, mark, whole, whole, whole, marks),
        Plugins(
            whole,
            real,
            real,
            whole,
            whole,
            real,
            whole,
            whole,
            whole,
            whole,
            real,
            real,
            real,
            real,
            broad,
            broad,
            broad,
            broad,
            whole,
        ),
        Candidates(real, whole, whole, whole, whole, whole, real, whole),
        Brought(broad, whole),
        Trace(wide, wide, wide, broad, deep, deep, mark),
        whole,
    )
