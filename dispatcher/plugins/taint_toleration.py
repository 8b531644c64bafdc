"""Nodes whose NoSchedule or NoExecute taints the pod does not tolerate are out; fewer
PreferNoSchedule ones are better.

raw = -(number of PreferNoSchedule taints not tolerated); score = 100 - 100 * count / largest count,
the quotient a whole number, rounded down; 100 everywhere if no node has such a taint. Source:
kube-scheduler's TaintToleration. In another cluster the tolerations count that the pod keeps there
(`shared.model.crossing`).
"""

from collections.abc import Hashable
from functools import partial
from typing import ClassVar

import numpy as np

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
from dispatcher.scheduling.framework.hints import ClusterEvent, node_change_helps
from dispatcher.scheduling.rules.eligibility import (
    Kinds,
    Taints,
    TaintTables,
    Tolerance,
    tolerates,
    tolerations_key,
    untolerated,
)
from dispatcher.scheduling.rules.whole import percent_of_most
from shared.model.node import PREFER_NO_SCHEDULE, Node
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


class TaintToleration(Filter[Tolerance], Score[Tolerance]):
    """Filter on hard taints, score on soft ones."""

    name: ClassVar[str] = "TaintToleration"
    REASONS = (
        Reasons.TAINT,
        TAINT_ABROAD,
    )
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self._codes: TaintTables
        self._reasons: ReasonTable | None = None  # of `_codes`
        self._soft = TaintTables(_soft, np.float64, 0.0)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps nobody if its taints are the same."""
        return node_change_helps(event, lambda before, after: before.taints != after.taints)

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if the pod tolerates all its hard taints."""
        node = event.after
        own = pod_info.pod.tolerations
        return not isinstance(node, Node) or untolerated(own, node.taints) is None

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The tolerations, and where they hold."""
        return tolerations_key(pod_info)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Tolerance | Refuse | Skip:
        """Which tolerations the pod has in each cluster."""
        return Tolerance.read(pod_info, fleet)

    def filter(self, state: Tolerance, fleet: FleetView, rows: Rows) -> Codes:
        """TAINT with the first hard taint that is not tolerated; TAINT_ABROAD if it would be at
        home.
        """
        if fleet.reasons is not self._reasons:
            self._reasons = fleet.reasons
            self._codes = TaintTables(partial(_codes, fleet.reasons), np.uint16, 0)
        return state.at(self._codes.of(state.kinds), fleet, rows)

    def score(self, state: Tolerance, fleet: FleetView, rows: Rows) -> Floats:
        """Minus the number of soft taints that are not tolerated."""
        return -state.at(self._soft.of(state.kinds), fleet, rows)

    def normalize(self, raw: Floats) -> Floats:
        """100 without soft taints, 0 for the most; 100 everywhere if there are none."""
        scores: Floats = MAX_SCORE - percent_of_most(-raw)
        return scores


def _codes(reasons: ReasonTable, kinds: Kinds, taints: Taints) -> list[int]:
    """For each kind a reason, 0 where all hard taints are tolerated."""
    found = [untolerated(kind, taints) for kind in kinds]
    told = [TAINT_ABROAD if one and tolerates(kinds[0], one) else Reasons.TAINT for one in found]
    return [reasons.code(why, str(one)) if one else 0 for why, one in zip(told, found, strict=True)]


def _soft(kinds: Kinds, taints: Taints) -> list[int]:
    soft = [one for one in taints if one.effect == PREFER_NO_SCHEDULE]
    return [sum(not tolerates(kind, one) for one in soft) for kind in kinds]
