"""How a reading enters the columns: only real numbers, only newer samples; what is unknown stays unknown."""

import math
from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList, RowStore


def take_sample(store: RowStore, column: int, row: int, share: float, age: float, now: float) -> None:
    """Write a share of one signal, `age` seconds old, into `row`, with the time of its sample on the clock of `now`.

    A share that is negative or not finite, or whose age is no number, is no news: the sample before it stays and goes
    on ageing. Shares above 1 are cut to 1. An age below 0 (a sample from the future) counts as 0.
    """
    if not math.isfinite(share) or share < 0.0 or not math.isfinite(age):
        return
    sampled_at = now - max(age, 0.0)
    if sampled_at >= store.used_at[column, row]:
        store.used[column, row] = min(share, 1.0)
        store.used_at[column, row] = sampled_at


def take_samples(
    store: RowStore,
    rows: RowList,
    shares: Sequence[Sequence[float | None]],
    ages: Sequence[Sequence[float]],
    now: float,
) -> None:
    """`take_sample` of the first signals, for different rows: [rows, signals] shares (None: unknown) and ages."""
    share, age = np.asarray(shares, dtype=np.float64).T, np.asarray(ages, dtype=np.float64).T
    sampled_at = now - np.maximum(age, 0.0)
    first = slice(0, len(share))
    before = store.used_at[first, rows]
    news = np.isfinite(share) & (share >= 0.0) & np.isfinite(age) & (sampled_at >= before)
    store.used[first, rows] = np.where(news, np.minimum(share, 1.0), store.used[first, rows])
    store.used_at[first, rows] = np.where(news, sampled_at, before)
