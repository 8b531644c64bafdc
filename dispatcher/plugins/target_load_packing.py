"""Trimaran's packing by measured load: nodes are filled to a target, and the fuller ones are kept
for need.

    score = (100 - X) * U / X + X          U <= X
            X * (100 - U) / (100 - X)      X < U <= 100; 0 above

X: `target` in percent. U: percent of CPU expected with the pod: the mean of the readings, and
`multiplier` times what is requested by the pod and by those whose load that mean does not hold yet
(`rules.expected_use`). Example, X = 40: an idle node has 40 points, one at 20 % has 70, one at 40 %
has 100, one at 50 % has 33.3.

Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/targetloadpacking. What differs on purpose:
a node without readings goes by its requests, not with 0 points, so that a dead source moves no
pods; a pod is expected to use its request (100m without one) times `multiplier`, where theirs takes
a limit first, and a core where there is neither; placed pods are added until the mean has taken
them in, not for a minute; points are not rounded.
"""

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    Depends,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.rules.expected_use import (
    Amounts,
    Expected,
    Fade,
    FadeArgs,
    expected_use,
    told,
)
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.signals import CPU_SIGNAL


class TargetArgs(FadeArgs):
    """The target, and what pods use of their requests."""

    target: Annotated[
        float, Meta(ge=0.01, le=0.99, description="share of CPU to which nodes are filled")
    ] = 0.4
    multiplier: Annotated[
        float, Meta(ge=0.01, le=100, description="how much of its request a pod is expected to use")
    ] = 1.5


class TargetLoadPacking(Score[Amounts]):
    """Prefers nodes that come near to a target of CPU in use, and of those above it the less
    loaded.
    """

    name: ClassVar[str] = "TargetLoadPacking"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(self, target: float, multiplier: float, fresh_s: float, stale_s: float) -> None:
        self._target = target
        self._multiplier = multiplier
        self._fade = Fade(fresh_s, stale_s)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The CPU it requests."""
        return nonzero_request(pod_info.pod)[0]

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, 0)."""
        return nonzero_request(pod_info.pod)[0], 0

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """The formula of the module."""
        used = self._expected(state, fleet, rows).utilisation
        target = self._target
        points: Floats = np.where(
            used <= target,
            (1.0 - target) * used / target + target,
            target * (1.0 - used) / (1.0 - target),
        )
        return 100.0 * points

    def _expected(self, state: Amounts, fleet: FleetView, rows: Rows) -> Expected:
        return expected_use(CPU_SIGNAL, state, fleet, rows, self._fade, self._multiplier)

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """Utilisation expected beside the target, mean, its age in seconds, and in words."""
        expected = self._expected(state, fleet, np.asarray([row]))
        return {"target": self._target, **told(CPU_SIGNAL, expected, fleet, row)}
