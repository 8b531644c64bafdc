"""The best rows of each bucket of a batch, as many as its pods are likely to come to.

A bucket that has too few of them ends the merge early, and what is left of the batch is merged
anew: how many there are decides how long it takes, not what is decided.
"""

import numpy as np

from dispatcher.scheduling.batch.bucket_sorting import Leading
from dispatcher.scheduling.batch.buckets import BucketLayout
from dispatcher.scheduling.equivalence.best_rows import best_rows, fill_best_kernel
from dispatcher.scheduling.equivalence.class_rows import ClassRows
from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints

_MANY = 16  # buckets: from there on all are filled in one go
_ANEW = 2  # if of more than one group in so many too few best rows are kept, all rows are looked at
_LEAST_DEPTH = 32  # rows looked at in each of a few buckets
_TOTALS_OF_FEW = 4  # below one feasible row in so many, totals are made of these alone
# rows; to keep so many in order while going through all takes half as long as to sort them
_SHALLOW_OF_FEW = 64
_SHALLOW = 4  # and of each of many, unless it has more of the best of all


def leading_rows(
    layout: BucketLayout, of: ClassRows, ranks: Ints, count: int
) -> tuple[RowList, Ints]:
    """The best rows for a batch of `count` pods, bucket by bucket, the best first; those of bucket
    b stand from `starts[b]` to `starts[b + 1]`.
    """
    members = layout.all_buckets.members[: layout.begun]
    if len(members) == 1:
        depth = np.minimum(members, count + 1)
        if _few_feasible(layout, ranks):
            return _best_of_few(layout.sorting.rows, of, ranks, int(depth[0])), _starts(depth)
        return best_rows(None, of.total[: len(ranks)], ranks, int(depth[0])), _starts(depth)
    if len(members) < _MANY or fill_best_kernel.fast is None:
        depth = np.minimum(members, _depth_of(members, count))
        shallow = fill_best_kernel.fast is not None and depth.max(initial=0) <= _SHALLOW_OF_FEW
        return (_filled if shallow else _one_by_one)(layout, of, ranks, depth)
    depth = np.minimum(members, min(count + 1, max(_SHALLOW, 4 * count // len(members))))
    found, starts = _filled(layout, of, ranks, depth)
    deep = _deep(of.totals_of(found), starts, depth, count) & (depth < members)
    if not deep.any():
        return found, starts
    # Deep buckets are filled anew, and all are put together in the order of buckets. Example: of
    # buckets 0, 1, 2 with rows a | b | c, only 1 is deep and now has d e: rows are a c d e, their
    # buckets 0 2 1 1, and sorted a | d e | c.
    more, more_starts = _filled(
        layout, of, ranks, np.where(deep, np.minimum(members, count + 1), 0)
    )
    sizes = np.where(deep, 0, np.diff(starts))
    more_sizes = np.diff(more_starts)
    rows = np.concatenate([found[np.repeat(~deep, np.diff(starts))], more])
    buckets = np.repeat(np.tile(np.arange(len(deep)), 2), np.concatenate([sizes, more_sizes]))
    return rows[np.argsort(buckets, kind="stable")], _starts(sizes + more_sizes)


def _deep(
    points: Floats, starts: Ints, depth: Ints, count: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[buckets] whose last row is among as many of the best of all as there are pods."""
    bar = (
        np.partition(points, len(points) - count)[len(points) - count]
        if count < len(points)
        else -np.inf
    )
    has = depth > 0
    worst = np.full(len(depth), -np.inf)
    worst[has] = points[starts[1:][has] - 1]
    deep: np.ndarray[tuple[int], np.dtype[np.bool_]] = has & (worst >= bar)
    return deep


def _filled(layout: BucketLayout, of: ClassRows, ranks: Ints, depth: Ints) -> tuple[RowList, Ints]:
    """The best `depth` [buckets] rows of each bucket, all in one pass."""
    leading = layout.sorting.leading
    known = _filled_by_leaders(leading, ranks, depth) if leading else None
    if known is not None:
        return known
    totals = (
        _totals_of_few(layout.sorting.rows, of, ranks) if _few_feasible(layout, ranks) else of.total
    )
    return _best_of_each(layout.sorting.rows, layout.sorting.bucket_of, totals, ranks, depth)


def _totals_of_few(rows: RowList, of: ClassRows, ranks: Ints) -> Floats:
    """[n] the totals of these rows, anything at all others: no class keeps totals of all rows for
    the sake of a few.
    """
    totals = np.empty(len(ranks))
    totals[rows] = of.totals_of(rows)
    return totals


def _best_of_each(
    rows: RowList, bucket_of: Ints, totals: Floats, ranks: Ints, sizes: Ints
) -> tuple[RowList, Ints]:
    starts = _starts(sizes)
    found = np.empty(int(starts[-1]), dtype=np.int64)
    held = np.zeros(len(sizes), dtype=np.int64)
    fill_best_kernel.fast(rows, bucket_of, totals, ranks, starts, found, held)
    return found, starts


def _filled_by_leaders(leading: Leading, ranks: Ints, depth: Ints) -> tuple[RowList, Ints] | None:
    """`_filled` without looking at all rows; None if too few of the best rows are kept in many
    groups.
    """
    leaders = leading.leaders
    wanted = np.where(leading.bucket >= 0, depth[leading.bucket], 0)
    taken = (leading.place > 0) & (leading.place <= wanted[:, None])
    short = np.flatnonzero(taken.sum(axis=1) < wanted).tolist()
    if len(short) > max(_MANY, len(wanted) // _ANEW):
        return None
    taken[short] = False
    more = [leaders.rows(group, int(wanted[group]), leading.is_held) for group in short]
    sizes = np.minimum(depth, np.bincount(leading.held_bucket, minlength=len(depth)))
    held, _ = _best_of_each(leading.held, leading.held_bucket, leaders.table.total, ranks, sizes)
    rows = np.concatenate([leaders.best[taken], *more, held])
    groups = [
        np.repeat(leading.bucket, taken.sum(axis=1)),
        *[leading.bucket[[at] * len(one)] for at, one in zip(short, more, strict=True)],
    ]
    buckets = np.concatenate([*groups, np.repeat(np.arange(len(depth)), sizes)])
    return rows[np.argsort(buckets, kind="stable")], _starts(depth)


def _one_by_one(
    layout: BucketLayout, of: ClassRows, ranks: Ints, depth: Ints
) -> tuple[RowList, Ints]:
    """The same with a pass for each bucket, which is faster for few and deep ones."""
    order = np.argsort(layout.sorting.bucket_of.astype(np.int16), kind="stable")
    ends = np.cumsum(layout.all_buckets.members[: layout.begun]).tolist()
    few = _few_feasible(layout, ranks)
    chosen = list[RowList]()
    for first, last, most in zip([0, *ends], ends, depth.tolist(), strict=False):
        rows = layout.sorting.rows[order[first:last]]
        if few:
            chosen.append(_best_of_few(rows, of, ranks, most))
        else:
            chosen.append(best_rows(rows, of.total, ranks, most))
    return np.concatenate([np.zeros(0, dtype=np.int64), *chosen]), _starts(depth)


def _best_of_few(rows: RowList, of: ClassRows, ranks: Ints, most: int) -> RowList:
    found: RowList = rows[best_rows(None, of.totals_of(rows), ranks[rows], most)]
    return found


def _few_feasible(layout: BucketLayout, ranks: Ints) -> bool:
    return _TOTALS_OF_FEW * int(layout.all_buckets.members[: layout.begun].sum()) < len(ranks)


def _starts(sizes: Ints | list[int]) -> Ints:
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.add.accumulate(sizes, out=starts[1:])
    return starts


def _depth_of(members: Ints, count: int) -> int:
    """How many rows of each bucket `count` pods are likely to come to: four for each pod in all,
    and more than that in large buckets as long as small ones do not have theirs.
    """
    most = count + 1 if len(members) == 1 else max(_LEAST_DEPTH, 4 * count // max(len(members), 1))
    while most <= count and int(np.minimum(members, 2 * most).sum()) <= 4 * count:
        most *= 2
    return min(most, count + 1)
