"""How the sources of readings do, put together for whoever asks: what each tells, of whom, how old,
what is missing.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from statistics import median

from agents.observer.loads import Loads, Preference
from agents.runtime.settings import AgentSettings
from agents.telemetry.source import MAX_NAMED, Status
from shared.messages.telemetry import SourceReport, Telemetry, UnreadSignal

CHUNK = 250  # nodes at once


class Values:
    """The ages of all values that are known."""

    def __init__(self, now: float, preference: Preference) -> None:
        self.now = now
        self.stale_s = preference.stale_s
        self._ages: dict[str, dict[str, list[float]]] = {}  # source -> signal -> ages
        self._fresh: dict[str, set[str]] = {}  # source -> nodes
        self._read: dict[str, set[str]] = {}  # signal -> nodes
        self._preference = preference

    def take(self, told: Iterable[tuple[str, str, str, float]]) -> None:
        """(node, source, signal, age in seconds), each once."""
        for node, source, signal, age in told:
            self._ages.setdefault(source, {}).setdefault(signal, []).append(age)
            if age <= self.stale_s:
                self._fresh.setdefault(source, set()).add(node)
            if age <= self.stale_s and source in self._preference.of(signal):
                self._read.setdefault(signal, set()).add(node)

    def fresh(self, source: str) -> set[str]:
        """Nodes of which a source tells something that is not stale."""
        return self._fresh.get(source, set())

    def ages(self, source: str) -> dict[str, tuple[int, float, float]]:
        """By signal (nodes, median age, greatest age)."""
        found = self._ages.get(source, {})
        return {
            signal: (len(ages), round(median(ages), 1), round(max(ages), 1))
            for signal, ages in found.items()
        }

    def unread(self, signals: Iterable[str], nodes: Collection[str]) -> Iterator[UnreadSignal]:
        """Signals of which no source that is believed tells some nodes, or not any more."""
        for signal in signals:
            missing = sorted(set(nodes) - self._read.get(signal, set()))
            if missing:
                yield UnreadSignal(signal, len(missing), tuple(missing[:MAX_NAMED]))


async def report(
    settings: AgentSettings,
    statuses: Mapping[str, Status],
    loads: Loads,
    nodes: Collection[str],
    now: float,
) -> Telemetry:
    """All sources of a cluster of these nodes, as of `now` on the agent's monotonic clock.

    It takes 12 us a node, so in large clusters the agent's loop goes on meanwhile.
    """
    values = Values(now, settings.telemetry.preference())
    keys = settings.telemetry.keys()
    names = list(nodes)
    for start in range(0, len(names), CHUNK):
        values.take(loads.values(names[start : start + CHUNK], now))
        await asyncio.sleep(0)
    sources = tuple(
        _source(status, keys.get(status.name, ""), values, names) for status in statuses.values()
    )
    unread = tuple(values.unread((signal.name for signal in settings.all_signals()), names))
    return Telemetry(settings.cluster, len(names), values.stale_s, sources, unread)


def _source(status: Status, key: str, values: Values, nodes: Collection[str]) -> SourceReport:
    fresh = values.fresh(status.name).intersection(nodes)
    silent = sorted(set(nodes) - fresh)
    matching = status.matching
    answered_at = status.answered_at
    return SourceReport(
        status.name,
        key,
        asked=status.asked,
        errors=status.errors,
        problem=status.problem,
        answered_s=None if answered_at is None else round(max(0.0, values.now - answered_at), 1),
        lag_s=round(status.lag_s, 3),
        nodes=len(fresh),
        silent=len(silent),
        silent_names=tuple(silent[:MAX_NAMED]),
        failing=len(status.failing),
        failing_names=dict(sorted(status.failing.items())[:MAX_NAMED]),
        unmatched=matching.unmatched,
        unmatched_names=tuple(matching.unmatched_names),
        ambiguous=matching.ambiguous,
        ambiguous_names=tuple(matching.ambiguous_names),
        rejected=dict(status.rejected),
        ages=values.ages(status.name),
    )
