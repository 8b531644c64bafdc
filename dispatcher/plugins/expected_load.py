"""Nodes whose load will hurt least are better: what is to be expected while a pod stays, all
signals at once.

    u = w * measured + (1 - w) * requested                    utilisation expected of a signal with this pod, cut to 1
    measured  = held + usual * pod / allocatable + surge * max(reading - held, 0) + chance * min(age / stale_s, 1) * h
    held      = mean + usual * settling / allocatable
    requested = usual * (all requests on the node + pod) / allocatable
    w(age)    = 1 up to `fresh_s`, falling in a straight line to 0 at `stale_s`; 0 for an unknown reading
    score     = 100 * (1 - sum(weight * (u^3 + u / 5)) / sum(1.2 * weight))                   over `signals`

`reading`: the last; `mean`: of all, the last minutes most, so that a node that swings is not taken
at its best moment, while one that has become hot is believed at once; `settling`: requests of pods
that have come, as far as that mean does not hold their load yet (`scheduling.fleet.readings`);
`usual`: what nodes use of what is requested, learnt from those that tell and 1 until then
(`scheduling.fleet.usual`). So a node without readings counts as loaded as nodes with such requests
are: it is not taken for idle, and has neither edge nor penalty beside one that tells.

Signals other than cpu and memory go by the larger of the CPU and memory shares. The cube follows
what congestion costs, which grows faster than load: costs of routing grow so (Fortz and Thorup,
INFOCOM 2000, in pieces), and power of p sums balance machines (Awerbuch and others, FOCS 1995:
greedy for the sum of p-th powers); the straight part keeps idle nodes apart. h in 0..1 is a hash of
node, `seed`, the requests on the node and the second, so it is drawn anew all the time: what is old
cannot tell near-ties apart, and a crowd must not follow it to one node (Mitzenmacher, TPDS 2000).

The formula is the functions under "the formula"; NumPy calls them with columns, the kernels with
numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import FleetView, Floats, PodInfo, Rows
from dispatcher.scheduling.framework.kernels import kernel, least, most
from dispatcher.scheduling.framework.plugin_args import read_by
from dispatcher.scheduling.framework.value_columns import Column, Same, numbers
from dispatcher.scheduling.rules.load import (
    Amounts,
    FadeArgs,
    Judged,
    Load,
    LoadFormula,
    LoadScore,
    SignalLoad,
    Signals,
    Weights,
    WrittenWeights,
    booked,
    columns_of,
    mixed,
    signal_weights,
    weight_of,
)
from dispatcher.scheduling.rules.requests import expected_request, nonzero_request
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL

_LINE = 0.2  # what the straight part of the curve counts
_FULL = 1.0 + _LINE


# --- the formula
# --------------------------------------------------------------------------------------------------


def _part(capacity: Any) -> Any:
    """What one unit is of a node; all of it where nothing can be allocated."""
    return 1.0 / most(capacity, 1)


def _share(amount0: Any, part0: Any, amount1: Any, part1: Any) -> Any:
    """The larger share of the two; far above 1 where nothing can be allocated."""
    return most(amount0 * part0, amount1 * part1)


def _measured(used: Any, mean: Any, settling: Any, coming: Any, surge: Any) -> Any:
    """Utilisation with the pod by readings; `settling`, `coming`: what settles, without and with
    the pod.
    """
    return mean + coming + surge * most(used - (mean + settling), 0.0)


def _drawn(rank: Any, nonzero: Any, seed: Any) -> Any:
    """A number in 0..1 that hangs on all three (a multiplicative hash; products wrap)."""
    mixed = (rank ^ (nonzero * 0x5851F42D4C957F2D)) + seed
    mixed = (mixed ^ (mixed >> 29)) * 0x1E3779B97F4A7C15
    return ((mixed >> 32) & 0xFFFFF) / 1048576.0


def _salt(seed: int, now: float) -> int:
    return (seed * 0x2545F4914F6CDD1D + int(now) * 0x9E3779B9) & 0x3FFFFFFFFFFFFFFF


def _doubt(age: Any, stale: Any, chance: Any) -> Any:
    """The utilisation within which chance decides."""
    return chance * least(age / stale, 1.0)


def _cost(utilisation: Any) -> Any:
    """What that utilisation costs, 0.._FULL; convex."""
    return utilisation * utilisation * utilisation + utilisation * 0.2


_FORMULA = (_part, _share, _measured, _drawn, _doubt, weight_of, mixed, _cost)


@kernel(SignalLoad, "float float float float float int float out out", formulas=_FORMULA)
def _costs(columns, now, fresh, stale, surge, chance, salt, factor, told, costs):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel
    """Add what each row costs by one signal to `costs`."""
    faded = 0
    for row in range(len(costs)):  # all as if fresh, without a branch: the usual case
        mean = float(columns.mean[row])
        usual = float(columns.usual[row])
        age = now - columns.sampled_at[row]
        part0 = _part(columns.capacity0[row])
        part1 = _part(columns.capacity1[row])
        settling0 = columns.settling0[row]
        settling1 = columns.settling1[row]
        settling = usual * _share(settling0, part0, settling1, part1)
        coming = usual * _share(settling0 + columns.more0, part0, settling1 + columns.more1, part1)
        measured = _measured(float(columns.used[row]), mean, settling, coming, surge)
        measured += _doubt(age, stale, chance) * _drawn(
            columns.rank[row], columns.nonzero0[row], salt
        )
        faded += not (age <= fresh) or mean != mean  # noqa: PLR0124 - no number
        told[row] = measured
    for row in range(len(costs) if faded else 0):
        weight = weight_of(now - columns.sampled_at[row], fresh, stale, float(columns.mean[row]))
        if weight < 1.0:
            part0 = _part(columns.capacity0[row])
            part1 = _part(columns.capacity1[row])
            amount0 = columns.nonzero0[row] + columns.more0
            amount1 = columns.nonzero1[row] + columns.more1
            requested = float(columns.usual[row]) * _share(amount0, part0, amount1, part1)
            told[row] = mixed(told[row], requested, weight)
    for row in range(len(costs)):
        costs[row] += factor * _cost(least(told[row], 1.0))


class ExpectedArgs(FadeArgs):
    """What counts, the fade of readings, and chance among near-ties."""

    signals: Annotated[
        Weights,
        Meta(description="weight of each signal", extra=read_by(signal_weights, WrittenWeights)),
    ] = ((CPU_SIGNAL, 2.0), (MEMORY_SIGNAL, 1.0), (NETWORK_SIGNAL, 1.0))
    surge: Annotated[
        float,
        Meta(ge=0, le=1, description="how much of what the last reading is above the mean counts"),
    ] = 1.0
    chance: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="utilisation (0..1) within which chance decides once readings are old",
        ),
    ] = 0.02
    seed: Annotated[int, Meta(ge=0, le=1_000_000, description="another number, other chances")] = 0

    @property
    def points(self) -> float:
        """What a cost of 1 takes of the score."""
        return 100.0 / (_FULL * sum(weight for _, weight in self.signals))


def _by_requests(load: Load, args: ExpectedArgs) -> Floats:
    """[rows] utilisation with the pod; far above 1 where nothing can be allocated."""
    columns = load.columns
    part0 = _part(columns.capacity0)
    part1 = _part(columns.capacity1)
    found: Floats = columns.usual.astype(np.float64) * _share(
        columns.nonzero0 + columns.more0, part0, columns.nonzero1 + columns.more1, part1
    )
    return found


def _by_readings(load: Load, args: ExpectedArgs) -> Floats:
    """[rows] utilisation with the pod, and chance; not a number where it is unknown."""
    columns = load.columns
    part0 = _part(columns.capacity0)
    part1 = _part(columns.capacity1)
    mean = columns.mean.astype(np.float64)
    usual = columns.usual.astype(np.float64)
    settling = usual * _share(columns.settling0, part0, columns.settling1, part1)
    coming = usual * _share(
        columns.settling0 + columns.more0, part0, columns.settling1 + columns.more1, part1
    )
    used = columns.used.astype(np.float64)
    doubt = _doubt(load.now - columns.sampled_at, args.stale_s, args.chance)
    drawn = _drawn(columns.rank, columns.nonzero0, _salt(args.seed, load.now))
    found: Floats = _measured(used, mean, settling, coming, args.surge) + doubt * drawn
    return found


def _score(judged: Sequence[Judged], args: ExpectedArgs, fleet: FleetView, rows: Rows) -> Floats:
    costs: Floats = np.zeros(len(judged[0].utilisation))
    for one, (_, weight) in zip(judged, args.signals, strict=True):
        costs += weight * _cost(one.utilisation)
    return 100.0 - costs * args.points


# --- the plugin
# --------------------------------------------------------------------------------------------------


class ExpectedLoad(LoadScore):
    """Prefers nodes whose expected load, of all signals together, costs least with this pod."""

    name: ClassVar[str] = "ExpectedLoad"
    ARGS = ExpectedArgs
    formula = LoadFormula(_by_readings, _by_requests, _score)

    def __init__(self, **args: Any) -> None:
        super().__init__(**args)
        self._only = None  # `explain` compares both amounts with the pod's requests
        self._points = self.args.points

    def _named(self) -> Signals:
        return tuple(name for name, _ in self.args.signals)

    def _amounts(self, pod_info: PodInfo) -> Amounts:
        return expected_request(pod_info)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """100 less what the utilisation expected with this pod costs."""
        if _costs.fast is None:
            return super().score(state, fleet, rows)
        common = booked(state, fleet, rows)
        told, costs = np.empty(len(common[0])), np.zeros(len(common[0]))
        how = self._how(fleet.now)
        for name, weight in self.args.signals:
            _costs.fast(*columns_of(name, common, fleet, rows), *how, weight, told, costs)
        costs *= self._points  # in place: new memory for all rows takes longer than the numbers
        return np.subtract(100.0, costs, out=costs)

    def _judge(self, load: Load) -> Judged:
        if _costs.fast is None:
            return super()._judge(load)
        columns = load.columns
        told, costs = np.empty((2, len(columns.rank)))
        _costs.fast(*columns, *self._how(load.now), 0.0, told, costs)
        age = load.now - columns.sampled_at
        weight = weight_of(age, self.args.fresh_s, self.args.stale_s, columns.mean)
        return Judged(load, least(told, 1.0), weight)

    def _how(self, now: float) -> tuple[float, float, float, float, float, int]:
        """What the kernel takes of time and arguments."""
        args = self.args
        return now, args.fresh_s, args.stale_s, args.surge, args.chance, _salt(args.seed, now)

    def _more(
        self, judged: Judged, state: Amounts, pod_info: PodInfo, fleet: FleetView, rows: Rows
    ) -> Mapping[str, Column]:
        """Use by request, what of the utilisation is the pod, and by what that is known."""
        columns = judged.load.columns
        learnt = state != nonzero_request(pod_info.pod)
        coming = columns.usual * _share(
            columns.more0, _part(columns.capacity0), columns.more1, _part(columns.capacity1)
        )
        return {
            "used_of_requested": numbers(columns.usual, 3),
            "pod": numbers(coming, 4),
            "pod_by": Same("what pods of its owner use" if learnt else "its request"),
        }
