"""Load relative to the most loaded node: RelativeCPU and RelativeNetwork, as simple scorers of
others have it.

    score = 100 - 100 * x / max(x)         max: of the nodes where the pod may go; 100 where none is loaded

x: share expected to be in use with the pod, by the mean of the readings (`rules.expected_use`).
Example: nodes at 20 %, 40 % and 80 % have 75, 50 and 0 points; so have nodes at 2 %, 4 % and 8 %.

Source: 100 - 100 * bytes / max, the first form of this scheduler, and the NetworkTraffic plugin of
many a tutorial. They take bytes or cores as they are; here x is a share of the node, or nodes of
different size could not be compared. LiveHeadroom and ExpectedLoad do without the maximum, by which
one node moves the points of all: prefer these.
"""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    Depends,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.rules.expected_use import Amounts, Expected, Fade, expected_use, told
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.signals import CPU_SIGNAL, NETWORK_SIGNAL


class _RelativeLoad(Score[Amounts]):
    """The formula over one signal."""

    depends: ClassVar[Depends] = Depends.NODE
    SIGNAL: ClassVar[str]

    def __init__(self, fresh_s: float, stale_s: float) -> None:
        self._fade = Fade(fresh_s, stale_s)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What it requests of CPU and memory."""
        return nonzero_request(pod_info.pod)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, bytes)."""
        return nonzero_request(pod_info.pod)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """What is expected to be in use, negative."""
        return -self._expected(state, fleet, rows).utilisation

    def _expected(self, state: Amounts, fleet: FleetView, rows: Rows) -> Expected:
        return expected_use(self.SIGNAL, state, fleet, rows, self._fade)

    def normalize(self, raw: Floats) -> Floats:
        """The formula of the module."""
        most = -raw.min(initial=0.0)
        points: Floats = (
            MAX_SCORE + MAX_SCORE * raw / most if most > 0.0 else np.full(len(raw), MAX_SCORE)
        )
        return points

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """Utilisation expected, mean, its age in seconds, and in words."""
        return told(self.SIGNAL, self._expected(state, fleet, np.asarray([row])), fleet, row)


class RelativeCPU(_RelativeLoad):
    """Prefers nodes with little CPU in use beside the busiest one."""

    name: ClassVar[str] = "RelativeCPU"
    keyed_by_template = True
    SIGNAL: ClassVar[str] = CPU_SIGNAL


class RelativeNetwork(_RelativeLoad):
    """Prefers nodes with little network in use beside the busiest one."""

    name: ClassVar[str] = "RelativeNetwork"
    keyed_by_template = True
    SIGNAL: ClassVar[str] = NETWORK_SIGNAL
