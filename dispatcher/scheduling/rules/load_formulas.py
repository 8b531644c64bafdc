"""Formulas of terms about live load beside ExpectedLoad: what will be in use (`LoadFormula`), and the
points for it. u: the utilisation expected of a signal with the pod; fade and mix of readings and
requests are those of `rules.load`.

*By the last reading* (LiveX): measured = reading + (recent + pod) / allocatable, `recent` what was
placed since that reading; what a pod adds to other signals than cpu and memory is not known, and
counts 0.

*By the mean* (all others): measured = mean + factor * (settling + pod) / allocatable, requested =
(usual * requests on the node + factor * pod) / allocatable. `settling`: requests of pods that have
come, as far as the mean does not hold their load yet (`fleet.readings`); `usual`: what nodes use of
what is requested (`fleet.usual`); `factor`: what a pod uses of its request, by default `usual`.
Example: mean 0.30 of 4 CPUs, nothing settles, a pod of 500m, factor 1.5: u = 0.30 + 1.5 * 0.125 =
0.4875.

Signals other than cpu and memory go by the larger of both shares.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from dispatcher.scheduling.framework import MAX_SCORE, FleetView, Floats, Rows
from dispatcher.scheduling.framework.derived import Derived
from dispatcher.scheduling.framework.kernels import least, most
from dispatcher.scheduling.framework.value_columns import Column, Same, numbers
from dispatcher.scheduling.rules.load import Formula, Judged, Load, LoadFormula

Told = Sequence[Judged]

# --- what will be in use
# --------------------------------------------------------------------------------------------------


def _last(load: Load, args: Any) -> Floats:
    used = load.columns.used.astype(np.float64)
    found: Floats = least(used + load.share("settling") if load.of_one else used, 1.0)
    return found


def _all_requests(load: Load, args: Any) -> Floats:
    found: Floats = least(load.share("nonzero"), 1.0)
    return found


def _by_mean(factor: Callable[[Any], float | None]) -> tuple[Formula, Formula]:
    """`factor`: of the arguments; None: what is usual."""

    def uses(load: Load, args: Any) -> Any:
        told = factor(args)
        return load.columns.usual.astype(np.float64) if told is None else told

    def measured(load: Load, args: Any) -> Floats:
        found: Floats = load.columns.mean.astype(np.float64) + uses(load, args) * load.share(
            "settling"
        )
        return found

    def requested(load: Load, args: Any) -> Floats:
        used = uses(load, args)
        usual = load.columns.usual.astype(np.float64)
        found: Floats = least(used * load.share("nonzero", usual / np.maximum(used, 1e-9)), 1.0)
        return found

    return measured, requested


# --- points
# --------------------------------------------------------------------------------------------------


def _headroom(told: Told, args: Any, fleet: FleetView, rows: Rows) -> Floats:
    """100 * (1 - (u + (s - 1) * max(u - k, 0)) / (1 + (s - 1) * (1 - k))), the least of several
    signals; k `hot_above`, s `hot_steepness`.

    Above k each point of utilisation costs s times as much as below, so hot nodes are avoided in
    proportion, not excluded. Turn these off (weight 0) where no telemetry is to be had.
    """
    knee, extra = args.hot_above, args.hot_steepness - 1.0

    def points(u: Floats) -> Floats:
        hot = most(u - knee, 0.0)
        found: Floats = 100.0 * (1.0 - (u + extra * hot) / (1.0 + extra * (1.0 - knee)))
        return found

    return reduce(np.minimum, [points(one.utilisation) for one in told])


def _packed(told: Told, args: Any, fleet: FleetView, rows: Rows) -> Floats:
    """(100 - X) * U / X + X up to U = X, above it X * (100 - U) / (100 - X); U, X: u and `target`
    in percent. X = 40: an idle node has 40 points, one at 20 % 70, at 40 % 100, at 50 % 33.3.

    Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/targetloadpacking. What differs on
    purpose: a node without readings goes by its requests, not with 0 points, so that a dead source
    moves no pods; a pod is expected to use its request (100m without one) times `multiplier`, where
    theirs takes a limit first, and a core where there is neither; placed pods are added until the
    mean has taken them in, not for a minute; points are not rounded.
    """
    used, target = told[0].utilisation, args.target
    points: Floats = np.where(
        used <= target,
        (1.0 - target) * used / target + target,
        target * (1.0 - used) / (1.0 - target),
    )
    return 100.0 * points


def _steady(told: Told, args: Any, fleet: FleetView, rows: Rows) -> Floats:
    """100 * (1 - the larger risk of CPU and memory).

    risk = (u + min(margin * d^(1 / sensitivity), 1)) / 2; d: the deviation of the readings from
    their mean (`fleet.deviations`). Margin 1, sensitivity 1, mean 0.40, pod 0.10, d 0.36: risk
    (0.50 + 0.36) / 2 = 0.43, score 57. With sensitivity 2 d counts as 0.36^(1/2) = 0.60: 45 points.

    Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/loadvariationriskbalancing. What differs
    on purpose: where readings are old or missing, u goes by requests, and d is as large as u (a
    coefficient of variation of 1), where theirs gives 0 points; pods that the mean does not hold
    yet are added to u; points are not rounded. A sensitivity of 0, with which the deviation does
    not count there, is `margin: 0` here.
    """
    cpu, memory = (_risk(one, args, fleet, rows)[1] for one in told)
    return 100.0 * (1.0 - np.maximum(cpu, memory))


def _risk(one: Judged, args: Any, fleet: FleetView, rows: Rows) -> tuple[Floats, Floats]:
    """[rows] d, and the risk."""
    kept = fleet.signals.deviation(one.load.signal)[rows].astype(np.float64)
    used, weight = one.utilisation, one.weight
    deviation: Floats = np.where(
        np.isnan(kept) | (weight <= 0.0), used, weight * kept + (1.0 - weight) * used
    )
    varies = np.minimum(args.margin * deviation ** (1.0 / args.sensitivity), 1.0)
    return deviation, (used + varies) / 2


def _tell_risk(one: Judged, args: Any, fleet: FleetView, rows: Rows) -> Mapping[str, Column]:
    deviation, risk = _risk(one, args, fleet, rows)
    return {"deviation": numbers(deviation, 4), "risk": numbers(risk, 4)}


def _unused(told: Told, args: Any, fleet: FleetView, rows: Rows) -> Floats:
    return -told[0].utilisation


def _beside_the_busiest(raw: Floats) -> Floats:
    """100 - 100 * u / max(u), of the nodes where the pod may go; 100 where none is loaded. Nodes at
    20 %, 40 % and 80 % have 75, 50 and 0 points; so have nodes at 2 %, 4 % and 8 %.

    Source: 100 - 100 * bytes / max, the first form of this scheduler, and the NetworkTraffic plugin
    of many a tutorial. They take bytes or cores as they are; here u is a share of the node, or
    nodes of different size could not be compared. By the maximum one node moves the points of all:
    prefer LiveHeadroom and ExpectedLoad.
    """
    highest = -raw.min(initial=0.0)
    points: Floats = (
        MAX_SCORE + MAX_SCORE * raw / highest if highest > 0.0 else np.full(len(raw), MAX_SCORE)
    )
    return points


HEADROOM = LoadFormula(_last, _all_requests, _headroom, placed="recent")
PACKED = LoadFormula(
    *_by_mean(lambda args: args.multiplier),
    _packed,
    tells=lambda judged, args, fleet, rows: {"target": Same(args.target)},
)
STEADY = LoadFormula(
    *_by_mean(lambda args: 1.0), _steady, tells=_tell_risk, derives=Derived(deviations=True)
)
RELATIVE = LoadFormula(*_by_mean(lambda args: None), _unused, _beside_the_busiest)
