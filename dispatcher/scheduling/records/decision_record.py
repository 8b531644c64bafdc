"""What is captured of a decision when it is taken, so that it can be explained when somebody asks.

Deciding is hot, asking is rare: whoever decides (an equivalence class, a single pass, the merge of
a batch) keeps a few numbers in its own form beside its own code, and every such form satisfies
`DecisionRecord`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import RowFacts
from dispatcher.scheduling.framework import Floats, Ints
from dispatcher.scheduling.framework.points import ExplainingPlugin
from dispatcher.scheduling.framework.value_columns import Column
from shared.model.pod import Needs
from shared.model.reasons import OTHERS, Reasons, ReasonTable, Why

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
    needs: Needs | None = None  # of the pods that it is about

    def whys(self, code: int, absent: Sequence[str] = ()) -> list[Why]:
        """The reasons behind a code. Where codes are scarce, what users make up has none of its
        own: then the pod itself tells what it needs elsewhere, and `absent` the resources that it
        wants and no node has.
        """
        found = list[Why]()
        for why in self.reasons.whys(code):
            if absent and why.lasting and why[:2] == (Reasons.INSUFFICIENT, OTHERS):
                found += [Why(why.reason, name, why.lasting) for name in absent]
            elif self.needs is not None and why[:2] == (Reasons.CANNOT_CROSS, OTHERS):
                found.append(Why(why.reason, self.needs.text))
            else:
                found.append(why)
        return found

    def counts(self, absent: Sequence[str] = ()) -> dict[tuple[str, Why], int]:
        """(cluster, reason) -> nodes refused for it; a node that is refused for several counts in
        each.
        """
        counts: Counter[tuple[str, Why]] = Counter()
        for (code, cluster), nodes in self.rejected.items():
            for why in self.whys(code, absent):
                counts[self.clusters[cluster], why] += nodes
        return counts

    def rejected_rows(self, absent: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Rows of {reason, cluster, count}, most nodes first."""
        codes = {code for code, _ in self.rejected}  # few; the clusters are many
        texts = {code: [why.detail for why in self.whys(code, absent)] for code in codes}
        counts = dict[tuple[str, str], int]()  # a Counter is slower
        for (code, cluster), nodes in self.rejected.items():
            for text in texts[code]:
                key = text, self.clusters[cluster]
                counts[key] = counts.get(key, 0) + nodes
        rows = sorted([(-nodes, text, name) for (text, name), nodes in counts.items()])
        return [{"reason": text, "cluster": name, "count": -nodes} for nodes, text, name in rows]


class Scores(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Per score plugin of the class: name, weight, raw and normalised value of the chosen row and
    of the runner-up.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    raw: Sequence[float]
    normalized: Sequence[float]
    runner_up: Sequence[float] | None


class ScoreColumns(NamedTuple):
    """The same of several decisions: [plugins, decisions] each. `runner_up` means nothing where
    there is none.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    raw: Floats
    normalized: Floats
    runner_up: Floats


class Place(NamedTuple):
    """Of several decisions, which ones of a batch `of` so many they are, from 1 on."""

    places: Ints
    of: int


class RecordParts(NamedTuple):
    """What the records of some decisions are made of; an entry for each decision.

    `context`: what all of them stood on, a batch at its beginning. `facts`: the chosen rows as they
    were. `extras`: by plugin that looks further than the chosen row what it explains of it; empty
    where that was noted at once. `rivals`: (cluster, node, score) of the next best, None without
    one. `place`: None of a pod that was decided alone.
    """

    context: DecisionContext
    facts: RowFacts
    extras: Mapping[str, Column]
    scores: ScoreColumns
    rivals: Sequence[tuple[str, str, float] | None]
    place: Place | None = None


class DecisionRecord(Protocol):
    """Why one decision was taken."""

    @property
    def batch(self) -> object:
        """What it has in common with others; itself where it stands alone."""

    def parts(self, whys: Sequence[Any]) -> RecordParts:
        """Of decisions of its own batch, in the order in which they were taken."""

    @property
    def context(self) -> DecisionContext:
        """What it stood on; of one of a batch, what its batch did at the beginning."""

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
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best; None if there is none."""


def merged(
    one: Mapping[tuple[int, int], int], other: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Two counts added up."""
    counts = dict(one)
    for key, count in other.items():
        counts[key] = counts.get(key, 0) + count
    return counts
