"""Nodes whose NoSchedule or NoExecute taints the pod does not tolerate are out; fewer PreferNoSchedule ones are better.

raw = -(number of PreferNoSchedule taints not tolerated); score = 100 - 100 * count / largest count, the quotient a
whole number, rounded down; 100 everywhere if no node has such a taint. Source: kube-scheduler's TaintToleration.
In another cluster the tolerations count that the pod keeps there (`dispatcher.model.crossing`).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.node import PREFER_NO_SCHEDULE, Node, Taint
from dispatcher.model.pod import Toleration
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    Codes,
    Depends,
    Filter,
    FleetView,
    Floats,
    Placed,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.hints import NODES, ClusterEvent, WakeEvent
from dispatcher.scheduling.rules.eligibility import Tolerance, tolerations_key, untolerated


@dataclass
class _Verdicts:
    """What a pod class thinks of each taint set, by kind of tolerance: a reason code, and soft taints not tolerated."""

    tolerance: Tolerance
    codes: list[list[int]] = field(default_factory=list)  # [sets][kinds]
    soft: list[list[int]] = field(default_factory=list)

    def catch_up(self, fleet: FleetView) -> None:
        """Judge the taint sets that are new; a set never changes once it has its number."""
        kinds = self.tolerance.kinds
        for taints in fleet.nodes.taint_sets[len(self.codes) :]:
            self.codes.append([self._code(kind, taints, fleet) for kind in kinds])
            self.soft.append([sum(not _tolerates(kind, one) for one in _soft(taints)) for kind in kinds])

    def _code(self, kind: Sequence[Toleration], taints: Sequence[Taint], fleet: FleetView) -> int:
        hard = untolerated(kind, taints)
        if hard is None:
            return 0
        abroad = _tolerates(self.tolerance.kinds[0], hard)
        return fleet.reasons.code(Reason.TAINT_ABROAD if abroad else Reason.TAINT, str(hard))

    def at(self, table: list[list[int]], dtype: "type[np.generic]", fleet: FleetView, rows: Rows) -> NDArray[Any]:
        """[rows] the entry of the node's taint set and of the cluster's kind."""
        answers: NDArray[Any] = np.asarray(table, dtype=dtype)
        if len(self.tolerance.kinds) == 1:
            return answers[:, 0][fleet.nodes.taint_set[rows]]
        found: NDArray[Any] = answers[fleet.nodes.taint_set[rows], self.tolerance.of[fleet.nodes.cluster[rows]]]
        return found


class TaintToleration(Filter[_Verdicts], Score[_Verdicts]):
    """Filter on hard taints, score on soft ones."""

    name: ClassVar[str] = "TaintToleration"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = {
        Reason.TAINT: NODES,
        Reason.TAINT_ABROAD: NODES | WakeEvent.CLUSTER_CHANGED,
    }
    normalizes: ClassVar[bool] = True

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps nobody if its taints are the same."""
        before, after = event.before, event.after
        return not (isinstance(before, Node) and isinstance(after, Node) and before.taints == after.taints)

    def hint(self, event: ClusterEvent, placed: Placed) -> bool:
        """A node that came or changed helps if the pod tolerates all its hard taints."""
        node = event.after
        return not isinstance(node, Node) or all(
            taint.effect == PREFER_NO_SCHEDULE or any(taint.tolerated_by(one) for one in placed.pod.tolerations)
            for taint in node.taints
        )

    def class_key(self, placed: Placed) -> Hashable:
        """The tolerations, and where they hold."""
        return tolerations_key(placed)

    def pre_filter(self, placed: Placed, fleet: FleetView) -> _Verdicts | Refuse | Skip:
        """What the pod thinks of each taint set."""
        return _Verdicts(Tolerance.read(placed, fleet))

    def filter(self, state: _Verdicts, fleet: FleetView, rows: Rows) -> Codes:
        """TAINT with the first hard taint that is not tolerated; TAINT_ABROAD if it would be at home."""
        verdicts = state
        verdicts.catch_up(fleet)
        return verdicts.at(verdicts.codes, np.uint16, fleet, rows)

    def score(self, state: _Verdicts, fleet: FleetView, rows: Rows) -> Floats:
        """Minus the number of soft taints that are not tolerated."""
        verdicts = state
        verdicts.catch_up(fleet)
        return -verdicts.at(verdicts.soft, np.float64, fleet, rows)

    def normalize(self, raw: Floats) -> Floats:
        """100 without soft taints, 0 for the most; 100 everywhere if there are none."""
        worst = -raw.min(initial=0.0)
        scores: Floats = MAX_SCORE - np.floor(-raw * MAX_SCORE / worst) if worst > 0 else np.full_like(raw, MAX_SCORE)
        return scores


def _soft(taints: Sequence[Taint]) -> Iterator[Taint]:
    return (one for one in taints if one.effect == PREFER_NO_SCHEDULE)


def _tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(taint.tolerated_by(one) for one in tolerations)
