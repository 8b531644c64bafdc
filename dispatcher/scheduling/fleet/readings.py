"""How a reading enters the columns: only real numbers, only newer samples; what is unknown stays unknown."""

import math

from dispatcher.scheduling.fleet.columns import RowStore


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
