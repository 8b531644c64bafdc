"""What is captured of a decision when it is taken, so that it can be explained when somebody asks.

Deciding is hot, asking is rare: whoever decides (an equivalence class, a pruned search, the batch lookahead, the count
merge) keeps a few numbers in its own form beside its own code, and every such form satisfies `DecisionRecord`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from dispatcher.model.reasons import ReasonTable, Why
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework.points import ExplainingPlugin

Rejected = Mapping[tuple[int, int], int]  # (reason code, cluster index) -> nodes
Explainers = tuple[tuple[ExplainingPlugin, object], ...]


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision stood on, shared by all decisions that stood on the same."""

    profile: str
    reasons: ReasonTable
    clusters: tuple[str, ...]
    rejected: Rejected
    feasible: int
    evaluated: int

    def counts(self) -> dict[tuple[str, Why], int]:
        """(cluster, reason) -> nodes refused for it; a node that is refused for several counts in each."""
        counts: Counter[tuple[str, Why]] = Counter()
        for (code, cluster), nodes in self.rejected.items():
            for why in self.reasons.whys(code):
                counts[self.clusters[cluster], why] += nodes
        return counts

    def rejected_rows(self) -> list[dict[str, Any]]:
        """Rows of {reason, cluster, count}, most nodes first."""
        counts: Counter[tuple[str, str]] = Counter()
        for (name, why), nodes in self.counts().items():
            counts[why.detail, name] += nodes
        rows = [{"reason": text, "cluster": name, "count": nodes} for (text, name), nodes in counts.items()]
        return sorted(rows, key=lambda row: (-int(str(row["count"])), str(row["reason"]), str(row["cluster"])))


class Scores(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Per score plugin of the class: name, weight, raw and normalised value of the chosen row and of the runner-up."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    raw: list[float]
    normalized: list[float]
    runner_up: list[float] | None

    def record(self) -> dict[str, dict[str, Any]]:
        """{plugin: {raw, normalized, weight, weighted, runner_up_weighted}}."""
        rivals: Sequence[float | None] = self.runner_up or [None] * len(self.names)
        rows = zip(self.names, self.weights, self.raw, self.normalized, rivals, strict=True)
        return {
            name: {
                "raw": raw,
                "normalized": value,
                "weight": weight,
                "weighted": weight * value,
                "runner_up_weighted": None if rival is None else weight * rival,
            }
            for name, weight, raw, value, rival in rows
        }


class RecordParts(NamedTuple):
    """What the records of some decisions are made of beside their scores; an entry for each decision.

    `facts`: the chosen rows as they were. `extras`: what plugins that look further than the chosen row kept for it;
    empty where they were asked at once.
    """

    contexts: Sequence[DecisionContext]
    facts: RowFacts
    extras: Sequence[Mapping[str, Any]]


class DecisionRecord(Protocol):
    """Why one decision was taken."""

    @property
    def batch(self) -> object:
        """What it has in common with others; itself where it stands alone."""

    def parts(self, whys: Sequence[Any]) -> RecordParts:
        """Of decisions of its own batch, in the order in which they were taken."""

    @property
    def context(self) -> DecisionContext:
        """What it stood on."""

    @property
    def time(self) -> float:
        """When it was taken."""

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about; only names of its clusters and resources are read afterwards."""

    @property
    def row_explainers(self) -> Explainers:
        """Plugins that can explain it at any time, since they look at the chosen row alone."""

    @property
    def fit(self) -> tuple[int, int]:
        """How many nodes were feasible, of how many: as the context says, without the rest of it."""

    @property
    def scores(self) -> Scores:
        """Of the chosen row and of the runner-up."""

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best; None if there is none."""


def merged(one: Mapping[tuple[int, int], int], other: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Two counts added up."""
    counts = dict(one)
    for key, count in other.items():
        counts[key] = counts.get(key, 0) + count
    return counts
