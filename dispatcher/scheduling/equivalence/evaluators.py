"""One plugin, evaluated for one class: its PreFilter answer, what that answer depends on, and calls
of the plugin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.counts import DomainCount
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.framework import (
    Codes,
    CountedPlugin,
    Depends,
    Floats,
    Part,
    Plugin,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.framework.domain_counts import CountRules
from dispatcher.scheduling.framework.in_step import in_step
from dispatcher.scheduling.framework.points import PluginError, guarded
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole
from dispatcher.scheduling.framework.sound_rules import flaw_of
from shared.model.reasons import Why
from shared.model.topology import HOST_LEVEL

GRID = (
    2.0**20
)  # weighted scores are whole multiples of 1 / GRID: exact sums in any order, and equal scores are equal
_WHOLE = "bui"
_REAL = "buif"  # kinds of arrays
_MOST_SCORE = 2.0**900  # times any weight, in units of 1 / GRID, it is a finite number


@dataclass(eq=False, slots=True)
class PluginEvaluator:
    """A Filter or Score plugin asked for one kind of pod, with a view of its own: `observed` is
    what it read there.
    """

    role: PluginRole
    fleet: FleetState
    observed: Observed = field(default_factory=Observed)
    view: ObservedView = field(init=False)
    state: object = None
    skipped: bool = False  # it has nothing to say about this kind of pod
    # passed to `score`/`score_parts`: `state`, unless `pre_score_domains` replaced it
    score_state: object = None
    versions: list[tuple[DomainCount, int]] = field(default_factory=list)
    object_versions: dict[str, int] = field(default_factory=dict)  # object kind -> version seen
    asked_at: float = float("nan")
    nodes_at: int = -1  # position of the log of nodes when PreFilter answered
    prepared: object = None  # what PreScore answered
    # its answers were taken and hold, as far as `is_stale` does not say otherwise
    known: bool = False
    sound: CountRules | None = None  # the last rules that were looked through

    def __post_init__(self) -> None:
        self.view = ObservedView(self.fleet, self.observed)

    @property
    def rests_on_more(self) -> bool:
        """Whether its answers rest on more than nodes: the clock, counts of pods, or objects."""
        return self.observed.now or bool(self.observed.kinds) or bool(self.versions)

    def is_stale(self, *, changed: bool, touched: bool) -> bool:
        """Whether its answers for all rows are due, not just those of the rows that changed."""
        fleet = self.fleet
        if not self.known or (self.observed.now and self.asked_at != fleet.clock):
            return True
        for count, version in self.versions:
            if count.version != version or count.dropped:
                return True
        if self.object_versions and self.objects_moved():
            return True
        depends = self.role.plugin.depends
        if depends is Depends.FLEET:
            return changed or touched
        return depends is Depends.DOMAIN and (
            changed or (touched and not self.versions and not self.skipped)
        )

    def record_dependencies(self) -> None:
        """All asked: record what the answers rest on."""
        fleet = self.fleet
        seen = self.observed
        self.asked_at = fleet.clock
        if seen.counts or self.versions:
            self.versions = [(count, count.version) for count in seen.counts.values()]
        if seen.kinds or self.object_versions:
            self.object_versions = {kind: fleet.kept.versions[kind] for kind in seen.kinds}
        self.known = True

    # --- asking
    # ----------------------------------------------------------------------------------------------

    def pre_filter(self, pod_info: PodInfo) -> Why | None:
        """Run PreFilter if a node, or an object or the clock that it looked at, changed; else only
        `refresh` of what pods change. The reason if it refuses.
        """
        plugin = self.role.plugin
        fleet = self.fleet
        fresh = not self.known or self.nodes_at != fleet.changes.position or self._looked_aside()
        # Counts are those that it looks at now; but rows that are not asked again rest on the clock
        # and the kinds of objects that were looked at for them; on counts, too, where several
        # classes share what one of them asked.
        if self.role.scope is not AnswerScope.ROW:
            self.observed.counts.clear()
        if fresh:
            self.state = guarded(plugin, plugin.pre_filter, pod_info, self.view)
        else:
            self.state = guarded(plugin, plugin.refresh, self.state, pod_info, self.view)
        self.nodes_at = fleet.changes.position
        self.score_state = self.state
        self.skipped = isinstance(self.state, Skip)
        return self.state.why if isinstance(self.state, Refuse) else None

    def assume_first_placed(self, pod_info: PodInfo) -> bool:
        """Take the state that PreFilter, which skips the class now, will answer once one of its
        pods is placed (`state_after_first`); False if the plugin cannot tell it.
        """
        plugin = self.role.plugin
        if not isinstance(plugin, CountedPlugin):
            return False
        # a subclass that has replaced `pre_filter` alone may skip pods for other reasons
        if not in_step(type(plugin), "state_after_first", "pre_filter"):
            return False
        state = guarded(plugin, plugin.state_after_first, pod_info, self.view)
        if state is not None:
            self.state = self.score_state = state
            self.skipped = False
            self.record_dependencies()
        return state is not None

    def _looked_aside(self) -> bool:
        """Whether the clock or the objects that it looked at have moved since."""
        fleet = self.fleet
        if self.observed.now and self.asked_at != fleet.clock:
            return True
        return self.objects_moved()

    def objects_moved(self) -> bool:
        """Whether kinds of objects that it looked at have changed since."""
        seen = self.object_versions
        versions = self.fleet.kept.versions
        return {kind: versions[kind] for kind in seen} != seen

    def codes(self, rows: Rows) -> Codes:
        """[rows] what its filter says."""
        plugin = self.role.plugin
        answer = guarded(plugin, plugin.filter, self.state, self.view, rows)
        codes = _as_long(plugin, answer, rows)
        self._check_codes(codes)
        return codes.astype(np.uint16, copy=False)

    def _check_codes(self, codes: NDArray[Any]) -> None:
        """PluginError for a code without a reason: nobody could tell why a node is refused."""
        if codes.dtype.kind not in _WHOLE:
            raise PluginError(self.role.plugin.name, f"answered codes that are {codes.dtype}")
        least = 0 if codes.dtype.kind in "ub" else codes.min(initial=0)
        for code in (least, codes.max(initial=0)):
            if not self.fleet.reasons.knows(code):
                raise PluginError(
                    self.role.plugin.name, f"answered code {code}, which no reason has"
                )

    def open_rows(self) -> tuple[RowList, int] | None:
        """The rows that its filter lets pass and the code of all others, if it knows them (see
        `Filter.open_rows`).
        """
        plugin = self.role.plugin
        n = self.fleet.n
        if not in_step(plugin.__class__, "open_rows", "filter"):
            return None
        answer = guarded(plugin, plugin.open_rows, self.state, self.view)
        if answer is None:
            return None
        rows, code = guarded(
            plugin, lambda: (np.asarray(answer[0], dtype=np.intp), int(np.uint16(answer[1])))
        )
        if (
            not code
            or not self.fleet.reasons.knows(code)
            or rows.ndim != 1
            or (len(rows) and not (rows[0] >= 0 and rows[-1] < n and (rows[1:] > rows[:-1]).all()))
        ):
            raise PluginError(
                plugin.name, f"open_rows are no ascending rows of {n} with a code for all others"
            )
        return rows, code

    @property
    def pre_scores_domains(self) -> bool:
        """Whether its scores rest on which domains have feasible rows."""
        counts = self.role.score_at is not None and isinstance(self.role.plugin, CountedPlugin)
        return counts and self._rules().sized

    def pre_score_domains(self, rows: Rows) -> None:
        """PreScore by domains, with the feasible rows (see `CountedPlugin.pre_score_domains`)."""
        plugin = self.role.plugin
        self.score_state = guarded(plugin, plugin.pre_score_domains, self.state, self.view, rows)

    def scores(self, rows: Rows) -> Floats:
        """[rows, ascending] its raw scores; those of rows that are not feasible may be anything."""
        plugin = self.role.plugin
        return _numbers(
            plugin, guarded(plugin, plugin.score, self.score_state, self.view, rows), rows
        )

    def prepared_scores(self, pod_info: PodInfo, feasible: RowList, rows: Rows) -> Floats:
        """PreScore for the `feasible` rows, then the scores of `rows`, which are the same; zeros
        for SKIP.
        """
        plugin = self.role.plugin
        self.prepared = state = guarded(
            plugin, plugin.pre_score, self.state, pod_info, self.view, feasible
        )
        if isinstance(state, Skip):
            return np.zeros(len(feasible))
        scores: Floats = guarded(plugin, plugin.score, state, self.view, rows)
        return finite(plugin, _numbers(plugin, scores, rows))

    def finite_scores(self, rows: Rows) -> Floats:
        """The same for feasible rows; PluginError for anything that is no finite number."""
        return finite(self.role.plugin, self.scores(rows))

    def normalize(self, raw: Floats) -> Floats:
        """Raw scores of all feasible rows (each value once is enough), normalised."""
        plugin = self.role.plugin
        values: Floats = guarded(plugin, plugin.normalize, raw)
        return finite(plugin, _numbers(plugin, values, slice(0, len(raw))))

    def count_rules(self) -> CountRules | None:
        """Its rules, for those who decide by them alone; None if it has a scale of its own."""
        return None if self.role.plugin.own_scale else self._rules()

    def _rules(self) -> CountRules:
        """Its rules; PluginError for what is no set of rules."""
        plugin = self.role.plugin
        told: CountRules = guarded(plugin, plugin.checked_rules, self.state, self.view)
        if told is not self.sound:
            flaw = flaw_of(told, self.fleet.domain(HOST_LEVEL), self.fleet.reasons)
            if flaw:
                raise PluginError(plugin.name, flaw)
        self.sound = told
        return told

    def filter_parts(self) -> Sequence[Part]:
        """Its reason codes by fault domain."""
        plugin = self.role.plugin
        self._rules()
        parts: Sequence[Part] = guarded(plugin, plugin.filter_parts, self.state, self.view)
        return parts

    def score_parts(self) -> Sequence[Part]:
        """Its raw scores by fault domain."""
        plugin = self.role.plugin
        if self.role.score_at is None:
            return ()
        parts: Sequence[Part] = guarded(plugin, plugin.score_parts, self.score_state, self.view)
        return parts

    def answers(self, part: Part, domains: NDArray[Any]) -> NDArray[Any]:
        """[domains] a part's answers for domain codes; PluginError if it has none for one of them."""
        return guarded(self.role.plugin, part.answers.__getitem__, domains)


def weighted(values: Floats, weight: float) -> Floats:
    """Normalised scores times a weight, in whole multiples of 1 / GRID."""
    scaled = values * (weight * GRID)
    np.rint(scaled, out=scaled)
    scaled /= GRID
    return scaled


def finite(plugin: Plugin, scores: Floats) -> Floats:
    """The scores, or PluginError if one is no finite number, or its points may be none."""
    least, most = scores.min(initial=0), scores.max(initial=0)
    if not (least >= -_MOST_SCORE and most <= _MOST_SCORE):  # nor if one is not a number
        raise PluginError(plugin.name, "a score is not a finite number")
    return scores


def _numbers(plugin: Plugin, answer: NDArray[Any], rows: Rows) -> Floats:
    """Scores, as wide as others are where they are of an odd width."""
    scores: Floats = _as_long(plugin, answer, rows)
    if scores.dtype.kind not in _REAL:
        raise PluginError(plugin.name, f"answered scores that are {scores.dtype}")
    usual = scores.dtype.kind != "f" or scores.dtype.itemsize in (4, 8)
    return scores if usual else scores.astype(np.float64)


def _as_long(plugin: Plugin, answer: NDArray[Any], rows: Rows) -> NDArray[Any]:
    length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    if not isinstance(answer, np.ndarray) or isinstance(answer, np.ma.MaskedArray):
        # a list times a weight would be a longer list
        raise PluginError(
            plugin.name, f"answered a {type(answer).__name__}, not a NumPy array of {length} rows"
        )
    if answer.shape != (length,):
        raise PluginError(plugin.name, f"answered {answer.shape} for {length} rows")
    return answer
