"""Nodes whose NoSchedule or NoExecute taints the pod does not tolerate are out; fewer
PreferNoSchedule ones are better.

raw = -(number of PreferNoSchedule taints not tolerated); score = 100 - 100 * count / largest count,
the quotient a whole number, rounded down; 100 everywhere if no node has such a taint. Source:
kube-scheduler's TaintToleration. In another cluster the tolerations count that the pod keeps there
(`shared.model.crossing`).
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    Codes,
    Depends,
    Filter,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.coded_values import ByCode
from dispatcher.scheduling.framework.hints import ClusterEvent, node_change_helps
from dispatcher.scheduling.rules.eligibility import Tolerance, tolerations_key, untolerated
from shared.model.node import PREFER_NO_SCHEDULE, Node, Taint
from shared.model.pod import Toleration
from shared.model.reasons import Reason, Reasons, ReasonTable
from shared.model.wake_events import NODES, WakeEvent

TAINT_ABROAD = Reason(
    "taint_abroad",
    "node(s) of other clusters had taint(s) that the pod tolerates in its own cluster alone",
    remedy="In other clusters a toleration without a key reaches less ([what "
    "crosses](../crossing.md)): name the key, or ask that cluster's administrators.",
    helped_by=NODES | WakeEvent.CLUSTER_CHANGED,
    resolvable=False,
)

Taints = tuple[Taint, ...]
_MOST_JUDGES = 1024


class _Judge:
    """What pods with such tolerations think of each taint set, by kind of tolerance: a reason code,
    and soft taints not tolerated.
    """

    def __init__(self, kinds: Sequence[Sequence[Toleration]], reasons: ReasonTable) -> None:
        self._kinds = kinds
        self.reasons = reasons
        self.codes = ByCode[Taints](self._codes, np.uint16, 0, (len(kinds),))
        self.soft = ByCode[Taints](self._soft, np.float64, 0.0, (len(kinds),))

    def _codes(self, taints: Taints) -> list[int]:
        return [self._code(kind, taints) for kind in self._kinds]

    def _soft(self, taints: Taints) -> list[int]:
        return [sum(not _tolerates(kind, one) for one in _soft(taints)) for kind in self._kinds]

    def _code(self, kind: Sequence[Toleration], taints: Taints) -> int:
        hard = untolerated(kind, taints)
        if hard is None:
            return 0
        abroad = _tolerates(self._kinds[0], hard)
        return self.reasons.code(TAINT_ABROAD if abroad else Reasons.TAINT, str(hard))


class _Verdicts(NamedTuple):
    """A pod class: which kind of tolerance it has in each cluster, and what each thinks of taints."""

    tolerance: Tolerance
    judge: _Judge

    def at(self, verdicts: ByCode[Taints], fleet: FleetView, rows: Rows) -> NDArray[Any]:
        """[rows] the verdict on the node's taint set of the cluster's kind."""
        nodes = fleet.nodes
        answers = verdicts.of(fleet.nodes.taint_sets)
        kinds = 0 if len(self.tolerance.kinds) == 1 else self.tolerance.of[nodes.cluster[rows]]
        found: NDArray[Any] = answers[nodes.taint_set[rows], kinds]
        return found


class TaintToleration(Filter[_Verdicts], Score[_Verdicts]):
    """Filter on hard taints, score on soft ones."""

    name: ClassVar[str] = "TaintToleration"
    REASONS = (
        Reasons.TAINT,
        TAINT_ABROAD,
    )
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self._judges: dict[
            Hashable, _Judge
        ] = {}  # by kinds of tolerance: they outlast a change of a node

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps nobody if its taints are the same."""
        return node_change_helps(event, lambda before, after: before.taints != after.taints)

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if the pod tolerates all its hard taints."""
        node = event.after
        return not isinstance(node, Node) or all(
            taint.effect == PREFER_NO_SCHEDULE
            or any(taint.tolerated_by(one) for one in pod_info.pod.tolerations)
            for taint in node.taints
        )

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The tolerations, and where they hold."""
        return tolerations_key(pod_info)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _Verdicts | Refuse | Skip:
        """What the pod thinks of each taint set."""
        tolerance = Tolerance.read(pod_info, fleet)
        judge = self._judges.get(tolerance.kinds)
        if judge is None or judge.reasons is not fleet.reasons:
            if len(self._judges) >= _MOST_JUDGES:
                self._judges.clear()
            judge = self._judges[tolerance.kinds] = _Judge(tolerance.kinds, fleet.reasons)
        return _Verdicts(tolerance, judge)

    def filter(self, state: _Verdicts, fleet: FleetView, rows: Rows) -> Codes:
        """TAINT with the first hard taint that is not tolerated; TAINT_ABROAD if it would be at
        home.
        """
        return state.at(state.judge.codes, fleet, rows)

    def score(self, state: _Verdicts, fleet: FleetView, rows: Rows) -> Floats:
        """Minus the number of soft taints that are not tolerated."""
        return -state.at(state.judge.soft, fleet, rows)

    def normalize(self, raw: Floats) -> Floats:
        """100 without soft taints, 0 for the most; 100 everywhere if there are none."""
        worst = -raw.min(initial=0.0)
        scores: Floats = (
            MAX_SCORE - np.floor(-raw * MAX_SCORE / worst)
            if worst > 0
            else np.full_like(raw, MAX_SCORE)
        )
        return scores


def _soft(taints: Sequence[Taint]) -> Iterator[Taint]:
    return (one for one in taints if one.effect == PREFER_NO_SCHEDULE)


def _tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(taint.tolerated_by(one) for one in tolerations)
