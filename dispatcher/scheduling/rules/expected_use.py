"""How much of a node will be in use with a pod: by the mean of readings, by requests where these
are old or missing.

    u         = w * measured + (1 - w) * requested                                                  cut to 1
    measured  = mean + factor * (settling + pod) / allocatable
    requested = (usual * requests on the node + factor * pod) / allocatable
    w(age)    = 1 up to `fresh_s`, falling in a straight line to 0 at `stale_s`; 0 for an unknown mean

`settling`: requests of pods that have come, as far as the mean does not hold their load yet
(`fleet.readings`); `usual`: what nodes use of what is requested (`fleet.usual`); `factor`: what a
pod uses of its request, by default `usual`. So a node without readings is as loaded as its requests
say, never idle. Signals other than cpu and memory go by the larger of both shares.

Example: mean 0.30 of 4 CPUs, nothing settles, a pod of 500m, factor 1.5: u = 0.30 + 1.5 * 0.125 =
0.4875.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import FleetView, Floats, Ints, Rows
from dispatcher.scheduling.framework.plugin_args import Args
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

Amounts = tuple[int, int]  # milli-CPU, bytes
_RESOURCES = (CPU, MEMORY)  # rows of fleet.nodes.nonzero and fleet.nodes.settling
_OF = {CPU_SIGNAL: (0,), MEMORY_SIGNAL: (1,)}  # signal -> the rows whose larger share it goes by
_EITHER = (0, 1)


class FadeArgs(Args):
    """How readings grow old."""

    fresh_s: Annotated[
        float, Meta(ge=0, le=86_400, description="seconds up to which a reading counts in full")
    ] = 120.0
    stale_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="seconds from which a reading does not count at all"),
    ] = 300.0


@dataclass(frozen=True)
class Fade:
    """ValueError for a fade that ends before it begins."""

    fresh_s: float
    stale_s: float

    def __post_init__(self) -> None:
        if self.stale_s <= self.fresh_s:
            raise ValueError(
                f"stale_s ({self.stale_s:g}) must be greater than fresh_s ({self.fresh_s:g})"
            )

    def weight(self, age: Floats) -> Floats:
        """[rows] what readings of that age count, 0..1."""
        weight: Floats = np.clip((self.stale_s - age) / (self.stale_s - self.fresh_s), 0.0, 1.0)
        return weight


class Expected(NamedTuple):
    """[rows] each: `utilisation` 0..1 with the pod, and the weight that readings have in it."""

    utilisation: Floats
    weight: Floats


def expected_use(
    signal: str,
    amounts: Amounts,
    fleet: FleetView,
    rows: Rows,
    fade: Fade,
    factor: float | None = None,
) -> Expected:
    """The formula of the module for a pod that requests `amounts`."""
    signals = fleet.signals
    usual = fleet.signals.usual(signal)[rows].astype(np.float64)
    mean = signals.mean(signal)[rows].astype(np.float64)
    weight = np.where(
        np.isnan(mean), 0.0, fade.weight(fleet.now - signals.sampled_at(signal)[rows])
    )
    uses = usual if factor is None else np.full(len(mean), factor)
    measured = np.where(weight > 0.0, mean, 0.0) + uses * _share(
        signal, fleet.nodes.settling, amounts, fleet, rows
    )
    if (weight == 1.0).all():
        return Expected(np.minimum(measured, 1.0), weight)
    scale = usual / np.maximum(uses, 1e-9)
    requested = uses * _share(signal, fleet.nodes.nonzero, amounts, fleet, rows, scale)
    return Expected(
        np.minimum(weight * measured + (1.0 - weight) * np.minimum(requested, 1.0), 1.0), weight
    )


def _share(
    signal: str, there: Ints, amounts: Amounts, fleet: FleetView, rows: Rows, scale: Any = 1.0
) -> Floats:
    """[rows] the larger share of (scale * there + amounts); far above 1 where nothing can be
    allocated.
    """
    shares = []
    for row in _OF.get(signal, _EITHER):
        column = fleet.axis.column(_RESOURCES[row])
        asked = scale * there[row][rows] + amounts[row]
        shares.append(
            asked
            if column is None
            else asked / np.maximum(fleet.nodes.allocatable[column][rows], 1)
        )
    found: Floats = np.maximum.reduce(shares)
    return found


def told(signal: str, expected: Expected, fleet: FleetView, row: int) -> dict[str, Any]:
    """For records: what one row was judged by; `expected` is of this row alone."""
    mean = float(fleet.signals.mean(signal)[row])
    sampled_at = float(fleet.signals.sampled_at(signal)[row])
    known = bool(np.isfinite(mean) and np.isfinite(sampled_at))
    return {
        "utilisation": round(float(expected.utilisation[0]), 4),
        "mean": round(mean, 4) if known else None,
        "age_s": round(max(fleet.now - sampled_at, 0.0), 1) if known else None,
        "judged": _in_words(known, float(expected.weight[0])),
    }


def _in_words(known: bool, weight: float) -> str:
    if not known or weight <= 0.0:
        return "stale, by requests" if known else "unknown, by requests"
    return "fresh" if weight >= 1.0 else f"fading, {weight:.0%} by readings, rest by requests"
