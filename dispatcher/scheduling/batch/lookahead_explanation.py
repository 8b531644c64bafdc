"""The records of decisions that a lookahead took: two candidates each, put together when somebody
asks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatcher.scheduling.batch.batch_explanation import BatchExplanation, gathered
from dispatcher.scheduling.batch.candidates import NO_CANDIDATE, Candidate
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    RecordParts,
    ScoreColumns,
)

# per score that groups of rows have in common: its place in `names`, [groups] raw and [groups]
# normalised values
GroupScoreColumns = tuple[tuple[int, Floats, Floats], ...]


@dataclass(frozen=True, slots=True)
class LookaheadContext:
    """What decisions of one batch have in common. `places`: (cluster, node) of the rows that
    candidates are of. `points`: what each group of rows adds to its candidates.
    """

    context: DecisionContext
    fleet: FleetState
    row_explainers: Explainers
    sheet: FactSheet
    places: Mapping[int, tuple[str, str]]
    names: tuple[tuple[str, ...], tuple[float, ...]]
    common: GroupScoreColumns
    points: Sequence[float]


class LookaheadExplanation(BatchExplanation[LookaheadContext], gc=False, eq=False, frozen=True):
    """Why one decision of a lookahead batch was taken; built when asked for.

    `first` and `second` (NO_CANDIDATE without) are the candidates, `group` and `other` their
    groups; the chosen row had taken `pods` pods of the batch before.
    """

    first: Candidate
    second: Candidate
    pods: int
    group: int = 0
    other: int = 0

    @property
    def context(self) -> DecisionContext:
        """What it stood on."""
        return self.batch.context

    @property
    def fit(self) -> tuple[int, int]:
        """How many nodes were feasible, of how many."""
        return self.context.feasible, self.context.evaluated

    def parts(self, whys: Sequence["LookaheadExplanation"]) -> RecordParts:
        """Their rows as they were; all else is the same for all."""
        facts = self.batch.sheet.facts([one.first[2] for one in whys], [one.pods for one in whys])
        firsts = [one.first for one in whys]
        groups = [one.group for one in whys]
        seconds = [one.first if one.second is NO_CANDIDATE else one.second for one in whys]
        raw, normalized = self._values(firsts, groups)
        rivals = self._values(seconds, [one.other for one in whys])[1]
        columns = ScoreColumns(*self.batch.names, raw, normalized, rivals)
        return RecordParts(
            [self.context] * len(whys), facts, {}, columns, [one.runner_up for one in whys]
        )

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best."""
        candidate = self.second
        batch = self.batch
        return (
            None
            if candidate is NO_CANDIDATE
            else (*batch.places[candidate[2]], batch.points[self.other] - candidate[0])
        )

    def _values(
        self, candidates: Sequence[Candidate], groups: Sequence[int]
    ) -> tuple[Floats, Floats]:
        raw = gathered([(one[3], one[4]) for one in candidates])
        normal = raw.copy()
        for at, raw_of, normal_of in self.batch.common:
            raw[at], normal[at] = raw_of[groups], normal_of[groups]
        return raw, normal
