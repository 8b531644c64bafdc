"""A pod class: every plugin's answer for every row, kept, and brought up to date where something changed.

All pods whose plugins look at equal things share one of these. Whatever changes in the fleet is written in journals;
a class that is used again looks at the rows in them and at the plugins whose `depends` says that more is stale:

    STATIC  rows whose node changed
    NODE    and rows whose pods or readings changed
    DOMAIN  everything, when a count the plugin asked for has changed (any touched row, if it asked for none)
    FLEET   everything, when any row was touched
    a plugin that read the clock: everything, when the clock has moved

PreFilter is asked again whenever a node changed or the plugin is stale. Normalising scores are kept raw and normalised
over the feasible rows. Every weighted score is rounded to a multiple of 2^-20, so that sums are exact in any order.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.reasons import Why
from dispatcher.scheduling.columns import distinct, grown
from dispatcher.scheduling.explain import Ground, Scores
from dispatcher.scheduling.fleet import FleetState, Observed
from dispatcher.scheduling.fleet_counts import MatchCount
from dispatcher.scheduling.framework import Bools, Codes, Depends, Filter, Floats, Placed, Plugin, Rows, Score
from dispatcher.scheduling.peaks import NOWHERE, Peak, Peaks
from dispatcher.scheduling.points import Plan, PluginError, guarded, is_skip, refusal

RowList = NDArray[np.intp]
NONE: RowList = np.zeros(0, dtype=np.intp)
DEAD = 0xFFFF  # in `first`: the row holds no node
_GRID = 2.0**20
_FEW = 32


def weighted(score: Floats, weight: float) -> Floats:
    """A score times its weight, on the grid of 2^-20."""
    result: Floats = np.rint(score * (weight * _GRID)) / _GRID
    return result


def union(one: RowList | None, other: RowList | None) -> RowList | None:
    """Rows in either; None stands for all rows."""
    if one is None or other is None:
        return None
    if not len(one) or not len(other):
        return one if len(one) else other
    return distinct(one, other)


@dataclass(eq=False)
class Judge:
    """One plugin's part in a class: its PreFilter answer, and what it looked at to give the answers that are kept."""

    plugin: Plugin
    filter_at: int | None
    score_at: int | None
    state: object = None
    observed: Observed = field(default_factory=Observed)
    versions: list[tuple[MatchCount, int]] = field(default_factory=list)
    asked_at: float = float("nan")
    everything: bool = True  # all rows are due

    @property
    def silent(self) -> bool:
        """It has nothing to say about this class."""
        return is_skip(self.state)

    def is_stale(self, fleet: FleetState, *, changed: bool, touched: bool) -> bool:
        """Whether its answers for all rows are due, not just those of the rows that changed."""
        if self.observed.now and self.asked_at != fleet.clock:
            return True
        if any(count.version != version for count, version in self.versions):
            return True
        depends = self.plugin.depends
        if depends is Depends.FLEET:
            return changed or touched
        return depends is Depends.DOMAIN and (changed or (touched and not self.versions and not self.silent))

    def rows_due(self, changed: RowList | None, touched: RowList | None) -> RowList | None:
        """Which rows to ask it about; None: all."""
        if self.everything or changed is None:
            return None
        return changed if self.plugin.depends is Depends.STATIC else union(changed, touched)

    def note(self, fleet: FleetState) -> None:
        """All asked: remember what the answers rest on."""
        self.asked_at = fleet.clock
        self.versions = [(count, count.version) for count in self.observed.counts.values()]
        self.everything = False


class PodClass:
    """The answers for one class over all rows of the fleet. Raises PluginError where a plugin does."""

    def __init__(self, plan: Plan, fleet: FleetState) -> None:
        self.plan, self.fleet = plan, fleet
        self.refusal: Why | None = None
        self.judges = [_judge(plan, plugin) for plugin in plan.judges]
        self._filters = [judge for judge in self.judges if judge.filter_at is not None]
        self._scores = [judge for judge in self.judges if judge.score_at is not None]
        self._loads_at = self._changes_at = -1
        self.codes: Codes = np.zeros((len(plan.filters), 0), dtype=np.uint16)
        self.first: Codes = np.zeros(0, dtype=np.uint16)
        self.raw: Floats = np.zeros((len(plan.scores), 0))
        self.normal: dict[int, Floats] = {}
        self.total: Floats = np.zeros(0)
        self.scored: Bools = np.zeros(0, dtype=np.bool_)
        self.peaks = Peaks()
        self.rejected: dict[tuple[int, int], int] = {}
        self.feasible = self.evaluated = 0
        self._ground: Ground | None = None
        self._names: tuple[NDArray[np.intp], tuple[str, ...], tuple[float, ...]] | None = None

    # --- catching up -------------------------------------------------------------------------------------------------

    def catch_up(self, placed: Placed) -> None:
        """Bring every answer up to date with the fleet; `placed` is any pod of the class."""
        fleet = self.fleet
        changed, touched = fleet.changes.since(self._changes_at), fleet.loads.since(self._loads_at)
        if self._loads_at < 0 or changed is None or touched is None:
            changed = touched = None
        moved, loaded = changed is None or len(changed) > 0, touched is None or len(touched) > 0
        for judge in self.judges:
            judge.everything |= changed is None or judge.is_stale(fleet, changed=moved, touched=loaded)
        if not moved and not loaded and not any(judge.everything for judge in self.judges):
            return
        self._changes_at, self._loads_at = fleet.changes.position, fleet.loads.position
        self._grow(fleet.n)
        if not self._pre_filter(placed, moved):
            self._loads_at = -1
            return
        self.scored[slice(None) if changed is None else changed] = False
        filtered, feasibility_moved = self._filter(changed, touched)
        self._score(filtered, touched, feasibility_moved)
        for judge in self.judges:
            judge.note(fleet)

    def _grow(self, n: int) -> None:
        self.codes = grown(self.codes, n, 0)
        self.first = grown(self.first, n, DEAD)
        self.raw = grown(self.raw, n, 0.0)
        self.total = grown(self.total, n, NOWHERE)
        self.scored = grown(self.scored, n, False)
        self.normal = {at: grown(values, n, 0.0) for at, values in self.normal.items()}

    def _pre_filter(self, placed: Placed, moved: bool) -> bool:
        self.refusal = None
        for judge in self.judges:
            if not (judge.everything or moved):
                continue
            spoke = not judge.silent
            judge.observed = self.fleet.observed = Observed()
            judge.state = guarded(judge.plugin, judge.plugin.pre_filter, placed, self.fleet)
            refused = refusal(judge.state)
            if refused is not None:
                self.refusal = refused.why
                return False
            if spoke == judge.silent:
                judge.everything = True
                self._names = None
        return True

    # --- filters -----------------------------------------------------------------------------------------------------

    def _filter(self, changed: RowList | None, touched: RowList | None) -> tuple[RowList | None, bool]:
        """Ask the filters; returns the rows looked at and whether any became feasible or ceased to be."""
        looked = changed
        for judge in self._filters:
            rows = judge.rows_due(changed, touched)
            if rows is None or len(rows):
                self._ask_filter(judge, rows)
                looked = union(looked, rows)
        return looked, self._find_first(looked, nodes_changed=changed is None or len(changed) > 0)

    def _ask_filter(self, judge: Judge, rows: RowList | None) -> None:
        where: Rows = slice(0, self.fleet.n) if rows is None else rows
        if judge.silent:
            self.codes[judge.filter_at, where] = 0
            return
        self.codes[judge.filter_at, where] = self._codes(judge, where)

    def _codes(self, judge: Judge, rows: Rows) -> Codes:
        self.fleet.observed = judge.observed
        plugin: Any = judge.plugin
        codes: Codes = guarded(plugin, plugin.filter, judge.state, self.fleet, rows)
        return _of_length(plugin, codes, rows)

    def _find_first(self, rows: RowList | None, *, nodes_changed: bool) -> bool:
        """The first failing plugin of each of `rows`, in profile order; whether feasibility moved anywhere."""
        where: Rows = slice(0, self.fleet.n) if rows is None else rows
        before = self.first[where].copy()
        after = np.where(self.fleet.live[where], np.uint16(0), np.uint16(DEAD))
        for judge in reversed(self._filters):
            codes = self.codes[judge.filter_at, where]
            np.copyto(after, codes, where=(codes != 0) & (after != DEAD))
        self.first[where] = after
        if rows is None or nodes_changed or len(rows) > _FEW:
            self._count_all()
        else:
            self._recount(rows, before, after)
        return bool(((before == 0) != (after == 0)).any())

    def _recount(self, rows: RowList, before: Codes, after: Codes) -> None:
        if (before == after).all():
            return
        clusters = self.fleet.cluster[rows].tolist()
        for cluster, old, new in zip(clusters, before.tolist(), after.tolist(), strict=True):
            self._shift(old, cluster, -1)
            self._shift(new, cluster, 1)
        self._ground = None

    def _shift(self, code: int, cluster: int, by: int) -> None:
        if code == 0:
            self.feasible += by
            return
        left = self.rejected.get((code, cluster), 0) + by
        if left:
            self.rejected[code, cluster] = left
        else:
            del self.rejected[code, cluster]

    def _count_all(self) -> None:
        first = self.first[: self.fleet.n]
        no = np.flatnonzero((first != 0) & (first != DEAD))
        clusters = max(len(self.fleet.clusters), 1)
        counts = np.bincount(first[no].astype(np.int64) * clusters + self.fleet.cluster[no])
        self.rejected = {divmod(int(key), clusters): int(counts[key]) for key in np.flatnonzero(counts)}
        self.feasible = int(np.count_nonzero(first == 0))
        self.evaluated = self.feasible + len(no)
        self._ground = None

    # --- scores ------------------------------------------------------------------------------------------------------

    def _score(self, filtered: RowList | None, touched: RowList | None, feasibility_moved: bool) -> None:
        fresh = self._fresh(filtered)
        still = self._still_feasible(touched)
        loaded = still if touched is None else distinct(fresh, still)
        rescored, renormalise = loaded, feasibility_moved
        for judge in self._scores:
            rows = fresh if judge.plugin.depends is Depends.STATIC else loaded
            if judge.everything:
                rows = rescored = self._still_feasible(None)
            if len(rows):
                self._ask_score(judge, rows)
                renormalise |= _normalizes(judge)
        if self._normalise(renormalise):
            rescored = self._still_feasible(None)
        self._add_up(filtered, rescored)

    def _fresh(self, filtered: RowList | None) -> RowList:
        """Rows that have become feasible and were not scored; rows that ceased to be are not scored any more."""
        rows = np.arange(self.fleet.n) if filtered is None else filtered
        fits = self.first[rows] == 0
        fresh: RowList = rows[fits & ~self.scored[rows]]
        self.scored[rows] = fits
        return fresh

    def _still_feasible(self, rows: RowList | None) -> RowList:
        if rows is None:
            return np.flatnonzero(self.first[: self.fleet.n] == 0)
        still: RowList = rows[self.first[rows] == 0]
        return still

    def _ask_score(self, judge: Judge, rows: RowList) -> None:
        if judge.silent:
            self.raw[judge.score_at, rows] = 0.0
            return
        self.raw[judge.score_at, rows] = self.raw_scores(judge, rows)

    def raw_scores(self, judge: Judge, rows: RowList) -> Floats:
        """[len(rows)] what the plugin says about feasible rows; PluginError for anything that is no number."""
        self.fleet.observed = judge.observed
        plugin: Any = judge.plugin
        everywhere = len(rows) == self.fleet.n
        where: Rows = slice(0, self.fleet.n) if everywhere else rows
        scores: Floats = _of_length(plugin, guarded(plugin, plugin.score, judge.state, self.fleet, where), where)
        if not np.isfinite(scores).all():
            raise PluginError(plugin.name, "a score is not a finite number")
        return scores

    def _normalise(self, due: bool) -> bool:
        """Normalise over the feasible rows where something moved; whether any plugin did."""
        normalizers = [judge for judge in self._scores if _normalizes(judge) and not judge.silent]
        if not due or not normalizers:
            return False
        rows = np.flatnonzero(self.first[: self.fleet.n] == 0)
        for judge in normalizers:
            plugin: Any = judge.plugin
            at = int(judge.score_at or 0)
            values: Floats = guarded(plugin, plugin.normalize, self.raw[at, rows])
            if np.shape(values) != rows.shape or not np.isfinite(values).all():
                raise PluginError(plugin.name, "a normalised score is not a finite number for each row")
            self.normal.setdefault(at, np.zeros(self.raw.shape[1]))[rows] = values
        return True

    def scores_at(self, at: int, rows: RowList) -> Floats:
        """Score plugin `at` for `rows`, 0..100."""
        judge = self._by_score(at)
        source = self.normal.get(at) if _normalizes(judge) and not judge.silent else None
        values: Floats = self.raw[at, rows] if source is None else source[rows]
        return values

    def _by_score(self, at: int) -> Judge:
        return next(judge for judge in self._scores if judge.score_at == at)

    def _add_up(self, filtered: RowList | None, rescored: RowList) -> None:
        n, ranks = self.fleet.n, self.fleet.rank
        gone = np.flatnonzero(self.first[:n] != 0) if filtered is None else filtered[self.first[filtered] != 0]
        self.total[gone] = NOWHERE
        rows = self._still_feasible(rescored)
        total = np.zeros(len(rows))
        for judge, scored in zip(self._scores, self.plan.scores, strict=True):
            if not judge.silent:
                total += weighted(self.scores_at(int(judge.score_at or 0), rows), scored.weight)
        self.total[rows] = total
        if len(rows) + len(gone) > _FEW or filtered is None:
            self.peaks.rebuild(self.total[:n], ranks)
        else:
            self.peaks.update([*rows.tolist(), *gone.tolist()], self.total[:n], ranks)

    # --- answers -----------------------------------------------------------------------------------------------------

    def best(self) -> Peak | None:
        """The best row now."""
        return self.peaks.best(self.fleet.rank)

    def second(self, first: Peak) -> Peak | None:
        """The best row but that one."""
        return self.peaks.second(first.row, self.total[: self.fleet.n], self.fleet.rank)

    def ground(self) -> Ground:
        """What a decision taken now stands on."""
        if self._ground is None or len(self._ground.clusters) != len(self.fleet.clusters):
            names = tuple(info.name for info in self.fleet.clusters)
            rejected = dict(self.rejected)
            self._ground = Ground(self.plan.profile, self.fleet.reasons, names, rejected, self.feasible, self.evaluated)
        return self._ground

    def active_scores(self) -> tuple[NDArray[np.intp], tuple[str, ...], tuple[float, ...]]:
        """(indexes, names, weights) of the score plugins that have something to say."""
        if self._names is None:
            heard = [int(judge.score_at or 0) for judge in self._scores if not judge.silent]
            scores = [self.plan.scores[at] for at in heard]
            names, weights = tuple(one.plugin.name for one in scores), tuple(one.weight for one in scores)
            self._names = np.asarray(heard, dtype=np.intp), names, weights
        return self._names

    def scores(self, row: int, runner_up: int | None) -> Scores:
        """The per-plugin scores of a row and of the runner-up, as they are now."""
        active, names, weights = self.active_scores()
        raw = self.raw[active, row]
        rival = None if runner_up is None else self._normal_column(runner_up, active)
        return Scores(names, weights, raw, self._normal_column(row, active), rival)

    def _normal_column(self, row: int, active: NDArray[np.intp]) -> Floats:
        values: Floats = self.raw[:, row].copy()
        for at, normal in self.normal.items():
            values[at] = normal[row]
        return values[active]


def _judge(plan: Plan, plugin: Plugin) -> Judge:
    filter_at = plan.filters.index(plugin) if isinstance(plugin, Filter) else None
    score_at = next((at for at, one in enumerate(plan.scores) if one.plugin is plugin), None)
    return Judge(plugin, filter_at, score_at)


def _normalizes(judge: Judge) -> bool:
    return isinstance(judge.plugin, Score) and judge.plugin.normalizes


def _of_length(plugin: Plugin, answer: NDArray[Any], rows: Rows) -> NDArray[Any]:
    length = rows.stop if isinstance(rows, slice) else len(rows)
    if np.shape(answer) != (length,):
        raise PluginError(plugin.name, f"answered {np.shape(answer)} for {length} rows")
    return answer
