"""The record of a single decision out of an equivalence class or of one pass: all numbers at
hand.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    Explainers,
    RecordParts,
    ScoreColumns,
    Scores,
)


class RowExplanation(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Why a single decision was taken: the scores, the row as it was, (cluster, node, score) of the
    runner-up.

    `row_explainers`: plugins that can explain it at any time, since they look at the chosen row
    alone, and their PreFilter answers.
    """

    context: DecisionContext
    time: float
    fleet: FleetState
    row_explainers: Explainers
    scores: Scores
    facts: RowFacts
    runner_up: tuple[str, str, float] | None

    @property
    def batch(self) -> "RowExplanation":
        """It stands alone."""
        return self

    def parts(self, whys: Sequence["RowExplanation"]) -> RecordParts:
        """All at hand: plugins that look further than the row were asked at once."""
        scores = self.scores
        raw, normalized = (np.asarray([one]).T for one in (scores.raw, scores.normalized))
        rival = np.asarray([scores.runner_up]).T if scores.runner_up else normalized
        columns = ScoreColumns(scores.names, scores.weights, raw, normalized, rival)
        return RecordParts(self.context, self.facts, {}, columns, [self.runner_up])
