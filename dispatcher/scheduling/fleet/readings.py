"""How a reading enters the columns: only real numbers, only newer samples; what is unknown stays unknown."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dispatcher.model.node import Reading
from dispatcher.scheduling.fleet.columns import RowStore


def take_sample(store: RowStore, column: int, row: int, share: float, age: float, now: float) -> None:
    """Write a share of one signal, `age` seconds old, into `row`, with the time of its sample on the clock of `now`.

    A share that is negative or not finite, or whose age is no number, is no news: the sample before it stays and goes
    on ageing. Shares above 1 are cut to 1. An age below 0 (a sample from the future) counts as 0.
    """
    if not math.isfinite(share) or share < 0.0 or not math.isfinite(age):
        return
    sampled_at = now - max(age, 0.0)
    if sampled_at >= store.used_at.item(column, row):  # a Python number compares faster than one of NumPy
        store.used[column, row] = min(share, 1.0)
        store.used_at[column, row] = sampled_at


class SourceSets:
    """Who told the signals of a row, as a code: most nodes of a cluster are told by the same sources.

    Code 0 is nobody. Agents are not trusted: names are cut, and of more sets than MAX_SETS the sources are not known.
    """

    MAX_SETS, MAX_NAME = 4096, 80

    def __init__(self) -> None:
        self._sets: list[Mapping[str, str]] = [MappingProxyType({})]
        self._codes: dict[tuple[tuple[str, str], ...], int] = {(): 0}
        self.sets: Sequence[Mapping[str, str]] = self._sets  # by code: signal -> source
        # By code a (source, sources, signals) of a reading that is known to change nothing: nearly every one is such.
        self._settled: dict[int, tuple[str, Mapping[str, str], Sequence[str]]] = {}

    def note(self, store: RowStore, row: int, reading: Reading, told: Sequence[str]) -> None:
        """Write who told the signals `told` of a row."""
        before, now = store.source_set.item(row), (reading.source, reading.sources, told)
        if self._settled.get(before) == now:
            return
        code = self.code(before, {signal: reading.source_of(signal) for signal in told})
        store.source_set[row] = code
        if code:
            self._settled[code] = now

    def code(self, before: int, told: Mapping[str, str]) -> int:
        """The code of a row that had `before`, and is now `told` these signals by these sources."""
        known = self._sets[before]
        if all(known.get(signal) == source for signal, source in told.items()):
            return before
        now = dict(known) | {signal: source[: self.MAX_NAME] for signal, source in told.items()}
        key = tuple(sorted(now.items()))
        found = self._codes.get(key)
        if found is None and len(self._sets) < self.MAX_SETS:
            found = self._codes[key] = len(self._sets)
            self._sets.append(MappingProxyType(now))
        return found or 0
