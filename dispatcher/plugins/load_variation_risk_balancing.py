"""Trimaran's risk of load: nodes whose load is low and steady are better than those that are low on
average.

    risk  = (min(u, 1) + min(margin * d^(1 / sensitivity), 1)) / 2            of CPU and of memory
    score = 100 * (1 - the larger risk)

u: share expected to be in use with the pod, by the mean of the readings and the request
(`rules.expected_use`); d: the deviation of the readings from that mean, with the same weights
(`fleet.deviations`). Example, margin 1, sensitivity 1: mean 0.40, pod 0.10, deviation 0.36: risk
(0.50 + 0.36) / 2 = 0.43, score 57. With sensitivity 2 the deviation counts as 0.36^(1/2) = 0.60,
and the score is 45.

Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/loadvariationriskbalancing. What differs on
purpose: where readings are old or missing, u goes by requests, and d is taken to be as large as u
(a coefficient of variation of 1), where theirs gives 0 points; pods that the mean does not hold yet
are added to u; points are not rounded. A sensitivity of 0, with which the deviation does not count
there, is `margin: 0` here.
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
from dispatcher.scheduling.framework.derived import Derived
from dispatcher.scheduling.rules.expected_use import (
    Amounts,
    Expected,
    Fade,
    FadeArgs,
    expected_use,
    told,
)
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

_SIGNALS = (CPU_SIGNAL, MEMORY_SIGNAL)


class VariationArgs(FadeArgs):
    """How much the deviation counts."""

    margin: Annotated[
        float, Meta(ge=0, le=100, description="how much the deviation counts beside the mean")
    ] = 1.0
    sensitivity: Annotated[
        float,
        Meta(ge=0.01, le=100, description="above 1 small deviations count more, below 1 less"),
    ] = 1.0


class LoadVariationRiskBalancing(Score[Amounts]):
    """Prefers nodes whose CPU and memory in use are low, and vary little."""

    name: ClassVar[str] = "LoadVariationRiskBalancing"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE
    derives = Derived(deviations=True)

    def __init__(self, margin: float, sensitivity: float, fresh_s: float, stale_s: float) -> None:
        self._margin = margin
        self._root = 1.0 / sensitivity
        self._fade = Fade(fresh_s, stale_s)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What it requests of CPU and memory."""
        return nonzero_request(pod_info.pod)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, bytes)."""
        return nonzero_request(pod_info.pod)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """The formula of the module."""
        cpu, memory = (self._risk(name, state, fleet, rows) for name in _SIGNALS)
        return 100.0 * (1.0 - np.maximum(cpu, memory))

    def _risk(self, signal: str, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        expected = self._expected(signal, state, fleet, rows)
        varies = np.minimum(
            self._margin * self._deviation(signal, expected, fleet, rows) ** self._root, 1.0
        )
        return (expected.utilisation + varies) / 2

    def _expected(self, signal: str, state: Amounts, fleet: FleetView, rows: Rows) -> Expected:
        return expected_use(signal, state, fleet, rows, self._fade, 1.0)

    def _deviation(self, signal: str, expected: Expected, fleet: FleetView, rows: Rows) -> Floats:
        """[rows] as kept, as far as readings count; else as large as what is in use."""
        kept, (used, weight) = fleet.signals.deviation(signal)[rows].astype(np.float64), expected
        found: Floats = np.where(
            np.isnan(kept) | (weight <= 0.0), used, weight * kept + (1.0 - weight) * used
        )
        return found

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """By signal: utilisation expected, deviation and risk; mean, its age in seconds, and in
        words.
        """
        return {name: self._told(name, state, fleet, row) for name in _SIGNALS}

    def _told(self, signal: str, state: Amounts, fleet: FleetView, row: int) -> dict[str, Any]:
        rows = np.asarray([row])
        expected = self._expected(signal, state, fleet, rows)
        deviation = self._deviation(signal, expected, fleet, rows)
        risk = self._risk(signal, state, fleet, rows)
        numbers = {"deviation": round(float(deviation[0]), 4), "risk": round(float(risk[0]), 4)}
        return {**told(signal, expected, fleet, row), **numbers}
