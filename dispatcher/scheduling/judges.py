"""One plugin's part in a pod class: its PreFilter answer, and what its kept answers rest on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.reasons import Why
from dispatcher.scheduling.columns import RowList, distinct
from dispatcher.scheduling.fleet import FleetState
from dispatcher.scheduling.fleet_counts import MatchCount, Observed
from dispatcher.scheduling.framework import Codes, Depends, Filter, Floats, Placed, Plugin, Refuse, Rows, Score, Skip
from dispatcher.scheduling.points import ExplainingPlugin, Plan, PluginError, guarded

_PART = 1 << 14  # rows


def union(one: RowList | None, other: RowList | None) -> RowList | None:
    """Rows in either; None stands for all rows."""
    if one is None or other is None:
        return None
    if not len(one) or not len(other):
        return one if len(one) else other
    return distinct(one, other)


@dataclass(eq=False)
class Judge:
    """A Filter or Score plugin in one class; `filter_at` and `score_at` are its places in the class's tables."""

    plugin: Plugin
    filter_at: int | None
    score_at: int | None
    explainer: ExplainingPlugin | None = None  # the plugin, if it adds numbers of its own to a record
    state: object = None
    observed: Observed = field(default_factory=Observed)
    versions: list[tuple[MatchCount, int]] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    asked_at: float = float("nan")
    everything: bool = True  # all rows are due

    @classmethod
    def of(cls, plan: Plan, plugin: Plugin) -> "Judge":
        """The part of `plugin` in a class of `plan`."""
        filter_at = plan.filters.index(plugin) if isinstance(plugin, Filter) else None
        score_at = next((at for at, one in enumerate(plan.scores) if one.plugin is plugin), None)
        return cls(plugin, filter_at, score_at, plugin if isinstance(plugin, ExplainingPlugin) else None)

    def begin_anew(self) -> None:
        """Forget the class it was part of."""
        self.state, self.observed, self.versions, self.kinds = None, Observed(), [], {}
        self.everything = True

    @property
    def silent(self) -> bool:
        """It has nothing to say about this class."""
        return isinstance(self.state, Skip)

    @property
    def normalizes(self) -> bool:
        """Its scores mean something only beside those of all feasible rows."""
        return isinstance(self.plugin, Score) and self.plugin.normalizes and self.score_at is not None

    def is_stale(self, fleet: FleetState, *, changed: bool, touched: bool) -> bool:
        """Whether its answers for all rows are due, not just those of the rows that changed."""
        if self.observed.now and self.asked_at != fleet.clock:
            return True
        if any(count.version != version for count, version in self.versions):
            return True
        if any(fleet.kept.versions[kind] != version for kind, version in self.kinds.items()):
            return True
        depends = self.plugin.depends
        if depends is Depends.FLEET:
            return changed or touched
        return depends is Depends.DOMAIN and (changed or (touched and not self.versions and not self.silent))

    def rows_due(self, changed: RowList | None, touched: RowList | None) -> RowList | None:
        """Which rows to ask its filter about; None: all."""
        if self.everything or changed is None:
            return None
        return changed if self.plugin.depends is Depends.STATIC else union(changed, touched)

    def note(self, fleet: FleetState) -> None:
        """All asked: remember what the answers rest on."""
        self.asked_at = fleet.clock
        self.versions = [(count, count.version) for count in self.observed.counts.values()]
        self.kinds = {kind: fleet.kept.versions[kind] for kind in self.observed.kinds}
        self.everything = False

    # --- asking ------------------------------------------------------------------------------------------------------

    def pre_filter(self, placed: Placed, fleet: FleetState) -> Why | None:
        """Ask PreFilter anew; the reason if it refuses the class."""
        was_silent = self.silent
        self.observed = fleet.observed = Observed()
        self.state = guarded(self.plugin, self.plugin.pre_filter, placed, fleet)
        if isinstance(self.state, Refuse):
            return self.state.why
        self.everything |= was_silent != self.silent
        return None

    def codes(self, fleet: FleetState, rows: Rows) -> Codes:
        """[rows] what its filter says."""
        plugin: Any = self.plugin
        fleet.observed = self.observed
        return _joined(
            [
                _as_long(plugin, guarded(plugin, plugin.filter, self.state, fleet, part), part)
                for part in _parts(rows, fleet.n)
            ]
        )

    def scores(self, fleet: FleetState, rows: RowList) -> Floats:
        """[rows, ascending and feasible] its raw scores; PluginError for anything that is no finite number."""
        plugin: Any = self.plugin
        fleet.observed = self.observed
        where: Rows = slice(0, fleet.n) if len(rows) == fleet.n else rows  # a window is cheaper than a copy
        return _joined(
            [
                _finite(plugin, _as_long(plugin, guarded(plugin, plugin.score, self.state, fleet, part), part))
                for part in _parts(where, fleet.n)
            ]
        )

    def normalize(self, raw: Floats) -> Floats:
        """Raw scores of all feasible rows, normalised."""
        plugin: Any = self.plugin
        values: Floats = guarded(plugin, plugin.normalize, raw)
        return _finite(plugin, _as_long(plugin, values, slice(0, len(raw))))


def _parts(rows: Rows, n: int) -> list[Rows]:
    """Rows in pieces that stay in a core's cache with all that a plugin computes on the way."""
    length = n if isinstance(rows, slice) else len(rows)
    if length <= _PART:
        return [rows]
    starts = range(0, length, _PART)
    if isinstance(rows, slice):
        return [slice(start, min(start + _PART, length)) for start in starts]
    return [rows[start : start + _PART] for start in starts]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _finite(plugin: Plugin, scores: Floats) -> Floats:
    if not np.isfinite(scores).all():
        raise PluginError(plugin.name, "a score is not a finite number")
    return scores


def _as_long(plugin: Plugin, answer: NDArray[Any], rows: Rows) -> NDArray[Any]:
    length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    if np.shape(answer) != (length,):
        raise PluginError(plugin.name, f"answered {np.shape(answer)} for {length} rows")
    return answer
