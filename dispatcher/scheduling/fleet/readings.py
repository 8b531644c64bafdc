"""How a reading enters the columns: only real numbers, only newer samples; what is unknown stays
unknown.

Beside the newest share of a signal a row keeps one number more, the mean of all shares, weighted by
time so that a sample counts e times less every MEAN_S seconds: one look at a node that swings by
the minute says little of the hours for which a pod will stay. What a pod adds that was placed `a`
seconds before the newest sample, and needed START_S to start, is in that mean by 1 - exp(-(a -
START_S) / MEAN_S); the rest, `left_to_settle`, is counted by what pods of its owner use, else by
its request (`awaited_pods`).
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.columns import RowList, RowStore
from dispatcher.scheduling.fleet.deviations import moved
from shared.model.node import Reading

MEAN_S = 300.0
START_S = 60.0
Array = NDArray[np.float64]
_SETTLED = 1 / 32  # what is less than this share of a request is not worth remembering its pod


def take_sample(
    store: RowStore, column: int, row: int, share: float, age: float, now: float
) -> None:
    """Write a share of one signal, `age` seconds old, into `row`, with the time of its sample on
    the clock of `now`.

    A share that is negative or not finite, or whose age is no number, is no news: the sample before
    it stays and goes on ageing. Shares above 1 are cut to 1. An age below 0 (a sample from the
    future) counts as 0.
    """
    if not math.isfinite(share) or share < 0.0 or not math.isfinite(age):
        return
    sampled_at = now - max(age, 0.0)
    before = store.used_at.item(column, row)
    if sampled_at >= before:
        share = min(share, 1.0)
        mean = store.used_mean.item(column, row) if before > -math.inf else share
        store.used[column, row] = share
        store.used_at[column, row] = sampled_at
        left = float(np.exp((before - sampled_at) / MEAN_S))
        store.used_mean[column, row] = share + (mean - share) * left
        if len(store.used_variance):
            store.used_variance[column, row] = moved(
                store.used_variance.item(column, row), share, mean, left
            )


def _left_of(before: Array, sampled_at: Array) -> Array:
    with np.errstate(invalid="ignore"):  # of what was never read, and is no news
        return np.exp((before - sampled_at) / MEAN_S)


def left_to_settle(placed_at: float, sampled_at: float) -> float:
    """The share 0..1 of a pod's load that the mean does not hold, whose last sample is of that
    time.

    1 where nothing was ever read (-inf); 0 once it is hardly anything.
    """
    since = sampled_at - placed_at - START_S
    left = math.exp(-since / MEAN_S) if since > 0.0 else 1.0
    return left if left > _SETTLED else 0.0


def take_samples(
    store: RowStore, rows: RowList | slice, share: Array, age: Array, now: float
) -> None:
    """`take_sample` of the first signals, for different rows: [signals, rows] shares (NaN: unknown)
    and ages.
    """
    sampled_at = now - np.maximum(age, 0.0)
    first = slice(0, len(share))
    before = store.used_at[first, rows].copy()  # of a slice it is a window
    news = np.isfinite(share) & (share >= 0.0) & np.isfinite(age) & (sampled_at >= before)
    share = np.where(news, np.minimum(share, 1.0), store.used[first, rows])
    store.used[first, rows] = share
    store.used_at[first, rows] = sampled_at = np.where(news, sampled_at, before)
    mean = store.used_mean[first, rows]
    left = _left_of(before, sampled_at)
    since = np.where(np.isfinite(before), mean, share)
    store.used_mean[first, rows] = np.where(news, share + (since - share) * left, mean)
    if len(store.used_variance):
        variance = store.used_variance[first, rows]
        store.used_variance[first, rows] = np.where(
            news, moved(variance, share, since, left), variance
        )


def groups_alike(known: Iterable[tuple[int, Reading]]) -> Iterable[Sequence[tuple[int, Reading]]]:
    """(row, reading) grouped by which signals are known and their sources; mostly all are one
    group. Of a row, only the first is in these: the others follow, each by itself, in turn.
    """
    groups: dict[Hashable, list[tuple[int, Reading]]] = {}
    seen = set[int]()
    later = list[list[tuple[int, Reading]]]()
    for pair in known:
        row, one = pair
        if row in seen:
            later.append([pair])
            continue
        seen.add(row)
        sources = frozenset(one.sources.items()) if one.sources else None
        key = (
            one.source,
            one.cpu is None,
            one.memory is None,
            one.net is None,
            sources,
            not one.more,
        )
        group = groups.get(key)
        if group is None:
            groups[key] = [pair]
        else:
            group.append(pair)
    return [*groups.values(), *later]


class SourceSets:
    """The sources of the signals of a row, as a code: most nodes of a cluster have the same
    sources.

    Code 0: no source. Agents are not trusted: names are cut, and of more sets than MAX_SETS the
    sources are not known.
    """

    MAX_SETS = 4096
    MAX_NAME = 80

    def __init__(self) -> None:
        self._sets: list[Mapping[str, str]] = [MappingProxyType({})]
        self._codes: dict[tuple[tuple[str, str], ...], int] = {(): 0}
        self.sets: Sequence[Mapping[str, str]] = self._sets  # by code: signal -> source
        # By code a (source, sources, signals) of a reading that is known to change nothing: nearly
        # every one is such.
        self._settled: dict[int, tuple[str, Mapping[str, str], Sequence[str]]] = {}

    def note(self, store: RowStore, row: int, reading: Reading, signals: Sequence[str]) -> None:
        """Write the source of these `signals` of a row."""
        before = store.source_set.item(row)
        now = (reading.source, reading.sources, signals)
        if self._settled.get(before) == now:
            return
        code = self.code(before, {signal: reading.source_of(signal) for signal in signals})
        store.source_set[row] = code
        if code:
            self._settled[code] = now

    def note_all(self, store: RowStore, rows: RowList | slice, like: Reading) -> None:
        """`note` for all of these rows, whose readings have the signals and sources of `like`."""
        sources = {signal: like.source_of(signal) for signal, _, _ in like.signals()}
        before = store.source_set[rows].copy()
        for code in dict.fromkeys(before.tolist()):
            if (now := self.code(code, sources)) != code:
                store.source_set[rows] = np.where(before == code, now, store.source_set[rows])

    def code(self, before: int, sources: Mapping[str, str]) -> int:
        """The code of a row that had `before`, and now these signals from these sources."""
        known = self._sets[before]
        if all(known.get(signal) == source for signal, source in sources.items()):
            return before
        now = dict(known) | {signal: source[: self.MAX_NAME] for signal, source in sources.items()}
        key = tuple(sorted(now.items()))
        found = self._codes.get(key)
        if found is None and len(self._sets) < self.MAX_SETS:
            found = self._codes[key] = len(self._sets)
            self._sets.append(MappingProxyType(now))
        return found or 0
