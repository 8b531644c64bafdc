"""Nodes whose NoSchedule or NoExecute taints the pod does not tolerate are out; fewer PreferNoSchedule ones are better.

raw = -(number of PreferNoSchedule taints not tolerated); score = 100 - 100 * count / largest count, the quotient a
whole number, rounded down; 100 everywhere if no node has such a taint. Source: kube-scheduler's TaintToleration.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dispatcher.model.node import PREFER_NO_SCHEDULE, Node, Taint
from dispatcher.model.pod import Pod
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    Codes,
    Depends,
    Filter,
    Fleet,
    Floats,
    Placed,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.hints import NODES, Happening, WakeEvent
from dispatcher.scheduling.rules.eligibility import tolerations_key, untolerated


@dataclass
class _Verdicts:
    """What a pod class thinks of each taint set: [sets] reason code and [sets] soft taints not tolerated."""

    pod: Pod
    codes: list[int] = field(default_factory=list)
    soft: list[int] = field(default_factory=list)

    def catch_up(self, fleet: Fleet) -> None:
        """Judge the taint sets that are new; a set never changes once it has its number."""
        for taints in fleet.taint_sets[len(self.codes) :]:
            hard = untolerated(self.pod, taints)
            self.codes.append(fleet.reasons.code(Reason.TAINT, str(hard)) if hard else 0)
            self.soft.append(sum(one.effect == PREFER_NO_SCHEDULE and not self._tolerates(one) for one in taints))

    def _tolerates(self, taint: Taint) -> bool:
        return any(taint.tolerated_by(toleration) for toleration in self.pod.tolerations)


class TaintToleration(Filter[_Verdicts], Score[_Verdicts]):
    """Filter on hard taints, score on soft ones."""

    name: ClassVar[str] = "TaintToleration"
    depends: ClassVar[Depends] = Depends.STATIC
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = {Reason.TAINT: NODES}
    normalizes: ClassVar[bool] = True

    def hint(self, happening: Happening, placed: Placed) -> bool:
        """A node that came or changed helps if the pod tolerates all its hard taints."""
        node = happening.after
        return not isinstance(node, Node) or all(
            taint.effect == PREFER_NO_SCHEDULE or any(taint.tolerated_by(one) for one in placed.pod.tolerations)
            for taint in node.taints
        )

    def class_key(self, placed: Placed) -> Hashable:
        """The tolerations."""
        return tolerations_key(placed.pod)

    def pre_filter(self, placed: Placed, fleet: Fleet) -> _Verdicts | Refuse | Skip:
        """What the pod thinks of each taint set."""
        return _Verdicts(placed.pod)

    def filter(self, state: _Verdicts, fleet: Fleet, rows: Rows) -> Codes:
        """TAINT with the first hard taint that is not tolerated."""
        verdicts = state
        verdicts.catch_up(fleet)
        return np.asarray(verdicts.codes, dtype=np.uint16)[fleet.taint_set[rows]]

    def score(self, state: _Verdicts, fleet: Fleet, rows: Rows) -> Floats:
        """Minus the number of soft taints that are not tolerated."""
        verdicts = state
        verdicts.catch_up(fleet)
        return -np.asarray(verdicts.soft, dtype=np.float64)[fleet.taint_set[rows]]

    def normalize(self, raw: Floats) -> Floats:
        """100 without soft taints, 0 for the most; 100 everywhere if there are none."""
        worst = -raw.min(initial=0.0)
        scores: Floats = MAX_SCORE - np.floor(-raw * MAX_SCORE / worst) if worst > 0 else np.full_like(raw, MAX_SCORE)
        return scores
