"""Who finds a place: the one question that the scheduling cycle asks, whoever answers it.

    place finder                   finds the place of                                    reads, per pod
    placing.OnePass                a pod unlike others, in a class not worth keeping     all rows
    equivalence.EquivalenceClass   any pod, one at a time                                rows that changed, all totals
    beside_nominees.BesideNominees any pod while rooms are held for nominated ones       as its class, twice

All of them answer the same for the same pod on the same fleet (tests/laws); they differ in what
they cost and in what they can decide at all. The cycle asks them in turn: who cannot tell says so,
and the next one is asked. Many equal pods are decided together, the same as by any of these, by
`batch.CountMerge`: one row and a few counts a pod.
"""

from dataclasses import dataclass
from typing import Protocol

from dispatcher.scheduling.framework import Codes, PodInfo
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import DecisionContext, Explainers
from shared.model.pod import PodId
from shared.model.reasons import Why


@dataclass(frozen=True, slots=True)
class NoPlace:
    """No row is feasible. `context`: how many were refused, and for what.

    `codes` [n]: the reason code of each row, for PostFilter; None from one that does not know them
    row by row.
    """

    context: DecisionContext
    codes: Codes | None = None


Selected = Decision | NoPlace | None  # None: this one cannot tell, ask another one


class PlaceFinder(Protocol):
    """Finds places for pods of one class. PluginError from any method: a plugin failed."""

    def prepare(self, pod_info: PodInfo) -> Why | None:
        """Come up to date with the fleet; the reason if PreFilter refuses all pods of the class."""
        return None

    def answer_of(self, plugin: str) -> object:
        """What a plugin answered in PreFilter, or in PreScore after it; SKIP if it was not asked."""
        ...

    def select(self, pod_id: PodId, pod_info: PodInfo) -> Selected:
        """The place for the next pod, with the record of why; or why there is none. Books nothing."""
        ...

    def explainers(self) -> Explainers:
        """Plugins that must be asked about a decision before its pod is booked: they look further
        than the row.
        """
        return ()

    def booked(self, row: int) -> None:
        """The pod of the last decision was booked on its row."""
        return
