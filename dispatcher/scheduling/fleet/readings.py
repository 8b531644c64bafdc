"""How a reading enters the columns: only real numbers, only newer samples; what is unknown stays unknown."""

import math

from dispatcher.model.node import Reading
from dispatcher.scheduling.fleet.columns import RowStore


def take_reading(store: RowStore, row: int, reading: Reading, now: float) -> None:
    """Write the shares that `reading` knows into `row`, with the time each was sampled on the clock of `now`.

    A share that is None, negative or not finite is no news: the older sample stays and goes on ageing. Shares above 1
    are cut to 1. An age below 0 (a sample from the future) counts as 0, one that is no number is no news.
    """
    samples = (
        (store.cpu_used, store.cpu_at, reading.cpu, reading.cpu_age_s),
        (store.memory_used, store.memory_at, reading.memory, reading.memory_age_s),
        (store.net_used, store.net_at, reading.net, reading.net_age_s),
    )
    for used, at, share, age in samples:
        if share is None or not math.isfinite(share) or share < 0.0 or not math.isfinite(age):
            continue
        sampled_at = now - max(age, 0.0)
        if sampled_at >= at[row]:
            used[row] = min(share, 1.0)
            at[row] = sampled_at
