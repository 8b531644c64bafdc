"""The best rows of each bucket of a batch, as many as its pods are likely to come to.

A bucket that has too few of them ends the merge early, and what is left of the batch is merged anew: how many there are
decides how long it takes, not what is decided.
"""

import numpy as np

from dispatcher.scheduling.batch.buckets import BucketLayout
from dispatcher.scheduling.equivalence.best_rows import best_rows
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.framework.kernels import kernel

_MANY = 16  # buckets: from there on all are filled in one go
_LEAST_DEPTH = 32  # rows looked at in each of a few buckets
_SHALLOW = 4  # and of each of many, unless it has more of the best of all


@kernel("ints ints floats ints ints out_ints out_ints")
def _fill(rows, bucket_of, totals, ranks, starts, found, held):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The best rows of each bucket in order, as many as there is room for from `starts` on; `held`: how many."""
    for at in range(len(rows)):
        row, bucket = rows[at], bucket_of[at]
        start, size = starts[bucket], held[bucket]
        room = starts[bucket + 1] - start
        if size == room:
            if room == 0:
                continue
            size -= 1
            last = found[start + size]
            if totals[row] < totals[last] or (totals[row] == totals[last] and ranks[row] >= ranks[last]):
                continue
        place = start + size
        while place > start:
            other = found[place - 1]
            if totals[row] < totals[other] or (totals[row] == totals[other] and ranks[row] >= ranks[other]):
                break
            found[place] = other
            place -= 1
        found[place] = row
        held[bucket] = size + 1
    return 0


def leading_rows(layout: BucketLayout, totals: Floats, ranks: Ints, count: int) -> tuple[RowList, Ints]:
    """The best rows for a batch of `count` pods, bucket by bucket, the best first; those of bucket b stand from
    `starts[b]` to `starts[b + 1]`.
    """
    members = layout.all_buckets.members[: layout.used]
    if len(members) < _MANY or _fill.fast is None:
        return _one_by_one(layout, totals, ranks, np.minimum(members, _depth_of(members, count)))
    depth = np.minimum(members, min(count + 1, max(_SHALLOW, 4 * count // len(members))))
    found, starts = _filled(layout, totals, ranks, depth)
    deep = _deep(totals[found], starts, depth, count) & (depth < members)
    if not deep.any():
        return found, starts
    more, more_starts = _filled(layout, totals, ranks, np.where(deep, np.minimum(members, count + 1), 0))
    pieces = [
        more[more_starts[at] : more_starts[at + 1]] if deep[at] else found[starts[at] : starts[at + 1]]
        for at in range(len(members))
    ]
    return np.concatenate(pieces), _starts([len(one) for one in pieces])


def _deep(points: Floats, starts: Ints, depth: Ints, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[buckets] whose last row is among as many of the best of all as there are pods."""
    bar = np.partition(points, len(points) - count)[len(points) - count] if count < len(points) else -np.inf
    has = depth > 0
    worst = np.full(len(depth), -np.inf)
    worst[has] = points[starts[1:][has] - 1]
    deep: np.ndarray[tuple[int], np.dtype[np.bool_]] = has & (worst >= bar)
    return deep


def _filled(layout: BucketLayout, totals: Floats, ranks: Ints, depth: Ints) -> tuple[RowList, Ints]:
    starts = _starts(depth)
    found = np.empty(int(starts[-1]), dtype=np.int64)
    _fill.fast(layout.rows, layout.bucket_of, totals, ranks, starts, found, np.zeros(len(depth), dtype=np.int64))
    return found, starts


def _one_by_one(layout: BucketLayout, totals: Floats, ranks: Ints, depth: Ints) -> tuple[RowList, Ints]:
    order = np.argsort(layout.bucket_of.astype(np.int16), kind="stable")
    ends = np.cumsum(layout.all_buckets.members[: layout.used]).tolist()
    chosen = [
        best_rows(layout.rows[order[first:last]], totals, ranks, most)
        for first, last, most in zip([0, *ends], ends, depth.tolist(), strict=False)
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *chosen]), _starts(depth)


def _starts(sizes: Ints | list[int]) -> Ints:
    starts: Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return starts


def _depth_of(members: Ints, count: int) -> int:
    """How many rows of each bucket `count` pods are likely to come to: four for each pod in all, and more than that in
    large buckets as long as small ones do not have theirs.
    """
    most = count + 1 if len(members) == 1 else max(_LEAST_DEPTH, 4 * count // max(len(members), 1))
    while most <= count and int(np.minimum(members, 2 * most).sum()) <= 4 * count:
        most *= 2
    return min(most, count + 1)
