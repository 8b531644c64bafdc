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

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    Depends,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.framework.bounds import BoundedScore, Fall, UpperBound, fall_together
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    ShareColumn,
    choose,
    kernel,
    least,
    most,
)
from dispatcher.scheduling.framework.plugin_args import Args, read_by
from dispatcher.scheduling.framework.value_columns import (
    Column,
    Same,
    fields,
    numbers,
    picked,
    where,
)
from dispatcher.scheduling.rules.requests import expected_request, nonzero_request
from dispatcher.scheduling.rules.signal_weights import (
    USUAL_WEIGHTS,
    Weights,
    WrittenWeights,
    signal_weights,
)
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL

_RESOURCES = (CPU, MEMORY)  # rows of fleet.nodes.nonzero and fleet.nodes.settling
_OF = {
    CPU_SIGNAL: (0, 0),
    MEMORY_SIGNAL: (1, 1),
}  # signal -> the rows whose larger share it goes by
_EITHER = (0, 1)
# Ranks, and by resource what settles, what is requested, what can be, and what the pod uses.
_Booked = tuple[Ints, list[tuple[Ints, Ints, Ints, float]]]
Amounts = tuple[int, int]
_NOTHING: Amounts = (0, 0)
_LINE = 0.2  # what the straight part of the curve counts
_FULL = 1.0 + _LINE


class SignalLoad(NamedTuple):
    """What the formula takes of one signal; `more`: what the pod is expected to use of `capacity`."""

    used: ShareColumn
    mean: ShareColumn
    sampled_at: FloatColumn
    usual: ShareColumn
    rank: IntColumn
    settling0: IntColumn
    nonzero0: IntColumn
    capacity0: IntColumn
    more0: Number
    settling1: IntColumn
    nonzero1: IntColumn
    capacity1: IntColumn
    more1: Number


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


def _doubt(age: Any, stale: Any, chance: Any) -> Any:
    """The utilisation within which chance decides."""
    return chance * least(age / stale, 1.0)


def _weight(age: Any, fresh: Any, stale: Any, mean: Any) -> Any:
    """What the reading counts beside the requests, 0..1."""
    return choose(np.isnan(mean), 0.0, least(most((stale - age) / (stale - fresh), 0.0), 1.0))


def _mixed(measured: Any, requested: Any, weight: Any) -> Any:
    """The utilisation expected; by the reading alone, bit for bit, where it counts in full."""
    return choose(
        weight < 1.0,
        choose(weight > 0.0, weight * measured, 0.0) + (1.0 - weight) * requested,
        measured,
    )


def _cost(utilisation: Any) -> Any:
    """What that utilisation costs, 0.._FULL; convex."""
    return utilisation * utilisation * utilisation + utilisation * 0.2


def _lowest(fresh: Any, measured: Any, requested: Any) -> Any:
    """The least utilisation that a mix of both can be, at most 1: the reading alone as long as it
    is fresh.
    """
    lesser = choose(measured < requested, measured, requested)  # also where nothing was measured
    return least(choose(fresh & (measured == measured), measured, lesser), 1.0)  # noqa: PLR0124 - no number


def _slope(utilisation: Any) -> Any:
    """What a whole node more costs, at the least."""
    return utilisation * utilisation * 3.0 + 0.2


def _falls(slope: Any, shares0: tuple[Any, Any], shares1: tuple[Any, Any]) -> tuple[Any, Any]:
    """By what the bound falls with a share more of each: where its shares of what settles and of
    all requests are the larger ones.
    """
    first = (shares0[0] >= shares1[0]) & (shares0[1] >= shares1[1])
    other = (shares0[0] <= shares1[0]) & (shares0[1] <= shares1[1])
    return choose(first, slope, 0.0), choose(first, 0.0, choose(other, slope, 0.0))


_FORMULA = (
    _part,
    _share,
    _measured,
    _drawn,
    _doubt,
    _weight,
    _mixed,
    _cost,
    _lowest,
    _slope,
    _falls,
)


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
        weight = _weight(now - columns.sampled_at[row], fresh, stale, float(columns.mean[row]))
        if weight < 1.0:
            part0 = _part(columns.capacity0[row])
            part1 = _part(columns.capacity1[row])
            amount0 = columns.nonzero0[row] + columns.more0
            amount1 = columns.nonzero1[row] + columns.more1
            requested = float(columns.usual[row]) * _share(amount0, part0, amount1, part1)
            told[row] = _mixed(told[row], requested, weight)
    for row in range(len(costs)):
        costs[row] += factor * _cost(least(told[row], 1.0))


@kernel(SignalLoad, "float float float out out out out", formulas=_FORMULA)
def _bounds(columns, until, fresh, surge, cost, room, fall0, fall1):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel
    """See `ExpectedLoad._bound`."""
    for row in range(len(cost)):
        mean = float(columns.mean[row])
        usual = float(columns.usual[row])
        part0 = _part(columns.capacity0[row])
        part1 = _part(columns.capacity1[row])
        settling0 = columns.settling0[row] * part0
        settling1 = columns.settling1[row] * part1
        booked0 = columns.nonzero0[row] * part0
        booked1 = columns.nonzero1[row] * part1
        settling = usual * most(settling0, settling1)
        measured = _measured(float(columns.used[row]), mean, settling, settling, surge)
        low = _lowest(
            until - columns.sampled_at[row] <= fresh, measured, usual * most(booked0, booked1)
        )
        cost[row], slope = _cost(low), _slope(low)
        room[row] = slope * (1.0 - low)
        falls = _falls(slope * usual, (settling0, booked0), (settling1, booked1))
        fall0[row], fall1[row] = falls[0] * part0, falls[1] * part1


# --- the plugin
# --------------------------------------------------------------------------------------------------


class ExpectedArgs(Args):
    """What counts, the fade of readings, and chance among near-ties."""

    signals: Annotated[
        Weights,
        Meta(description="weight of each signal", extra=read_by(signal_weights, WrittenWeights)),
    ] = USUAL_WEIGHTS
    fresh_s: Annotated[
        float, Meta(ge=0, le=86_400, description="seconds up to which a reading counts in full")
    ] = 120.0
    stale_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="seconds from which a reading does not count at all"),
    ] = 300.0
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


class ExpectedLoad(BoundedScore[Amounts]):
    """Prefers nodes whose expected load, of all signals together, costs least with this pod."""

    name: ClassVar[str] = "ExpectedLoad"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(
        self,
        signals: Weights,
        fresh_s: float,
        stale_s: float,
        surge: float,
        chance: float,
        seed: int,
    ) -> None:
        if stale_s <= fresh_s:
            raise ValueError(f"stale_s ({stale_s:g}) must be greater than fresh_s ({fresh_s:g})")
        self._signals = signals
        self._points = 100.0 / (_FULL * sum(weight for _, weight in signals))
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._surge = surge
        self._chance = chance
        self._seed = seed

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What the pod is expected to use of CPU and memory."""
        return expected_request(pod_info)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, bytes) that the pod counts as requesting."""
        return expected_request(pod_info)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """100 less what the utilisation expected with this pod costs."""
        now = fleet.now
        salt = self._salt(fleet.now)
        booked = _booked(state, fleet, rows)
        costs = np.zeros(len(booked[0]))
        told = np.empty(len(booked[0]))
        for name, weight in self._signals:
            columns = _columns(name, booked, fleet, rows)
            if _costs.fast is not None:
                fade = now, self._fresh_s, self._stale_s
                _costs.fast(*columns, *fade, self._surge, self._chance, salt, weight, told, costs)
            else:
                costs += weight * _cost(self._expected(columns, now)[0])
        costs *= self._points  # in place: new memory for all rows takes longer than the numbers
        return np.subtract(100.0, costs, out=costs)

    def _expected(self, columns: SignalLoad, now: float) -> tuple[Floats, Floats]:
        """[rows] utilisation, and the weight that the reading had in it."""
        age = now - columns.sampled_at
        mean = columns.mean.astype(np.float64)
        salt = self._salt(now)
        weight = _weight(age, self._fresh_s, self._stale_s, mean)
        if _costs.fast is not None:
            told, costs = np.empty((2, len(mean)))
            _costs.fast(
                *columns,
                now,
                self._fresh_s,
                self._stale_s,
                self._surge,
                self._chance,
                salt,
                0.0,
                told,
                costs,
            )
            return least(told, 1.0), weight
        measured, requested = self._both(columns)
        measured = measured + _doubt(age, self._stale_s, self._chance) * _drawn(
            columns.rank, columns.nonzero0, salt
        )
        return least(_mixed(measured, requested, weight), 1.0), weight

    def _salt(self, now: float) -> int:
        return (self._seed * 0x2545F4914F6CDD1D + int(now) * 0x9E3779B9) & 0x3FFFFFFFFFFFFFFF

    def upper_bound(self, fleet: FleetView, rows: Rows, until: float) -> UpperBound | None:
        """By the mean where it counts in full until then, else by the lesser of mean and requests;
        without chance.

        The curve is convex, so its slope without the pod bounds it up to full utilisation. A signal
        that goes by the larger share rises at least as the share does that is the larger one
        without the pod.
        """
        count = len(fleet.nodes.rank[rows])
        booked = _booked(_NOTHING, fleet, rows)
        costs = np.zeros(count)
        falls = (list[Fall](), list[Fall]())
        for name, weight in self._signals:
            columns = _columns(name, booked, fleet, rows)
            cost, room, *told = self._bound(columns, until)
            costs += weight * cost
            for resource, fall in zip(_OF.get(name, _EITHER), told, strict=True):
                falls[resource].append((fall, room, weight * self._points))
        cpu, memory = (fall_together(one, count) for one in falls)
        return UpperBound(100.0 - self._points * costs, *cpu, *memory)

    def _bound(self, columns: SignalLoad, until: float) -> tuple[Floats, Floats, Floats, Floats]:
        """[rows] the cost without the pod, what it rises by for all that is left, and for one more
        of each resource.
        """
        if _bounds.fast is not None:
            found = np.empty((4, len(columns.mean)))
            _bounds.fast(*columns, until, self._fresh_s, self._surge, *found)
            return found[0], found[1], found[2], found[3]
        low = _lowest(until - columns.sampled_at <= self._fresh_s, *self._both(columns))
        part0 = _part(columns.capacity0)
        part1 = _part(columns.capacity1)
        shares0 = columns.settling0 * part0, columns.nonzero0 * part0
        shares1 = columns.settling1 * part1, columns.nonzero1 * part1
        fall0, fall1 = _falls(_slope(low) * columns.usual, shares0, shares1)
        return _cost(low), _slope(low) * (1.0 - low), fall0 * part0, fall1 * part1

    def _both(self, columns: SignalLoad) -> tuple[Floats, Floats]:
        """[rows] utilisation with the pod by readings (without chance; not a number where unknown),
        and by requests.
        """
        part0 = _part(columns.capacity0)
        part1 = _part(columns.capacity1)
        mean = columns.mean.astype(np.float64)
        usual = columns.usual.astype(np.float64)
        settling = usual * _share(columns.settling0, part0, columns.settling1, part1)
        coming = usual * _share(
            columns.settling0 + columns.more0, part0, columns.settling1 + columns.more1, part1
        )
        requested = usual * _share(
            columns.nonzero0 + columns.more0, part0, columns.nonzero1 + columns.more1, part1
        )
        return _measured(
            columns.used.astype(np.float64), mean, settling, coming, self._surge
        ), requested

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """By signal: utilisation expected, mean, last reading, its age in seconds, use by request,
        what of the utilisation is the pod, and in words.
        """
        found: Mapping[str, Any] = self.explain_rows(
            state, pod_info, fleet, np.asarray([row])
        ).values(1)[0]
        return found

    def explain_rows(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, rows: Rows
    ) -> Column:
        """The same of each row."""
        learnt = state != nonzero_request(pod_info.pod)
        booked = _booked(state, fleet, rows)
        by = {"pod_by": Same("what pods of its owner use" if learnt else "its request")}
        told = {name: self._told(name, booked, fleet, rows) for name, _ in self._signals}
        return fields({name: fields({**one, **by}) for name, one in told.items()})

    def _told(self, name: str, booked: _Booked, fleet: FleetView, rows: Rows) -> dict[str, Column]:
        columns = _columns(name, booked, fleet, rows)
        now = fleet.now
        means = fleet.signals.mean(name)[rows]
        at = columns.sampled_at
        coming = columns.usual * _share(
            columns.more0, _part(columns.capacity0), columns.more1, _part(columns.capacity1)
        )
        expected, weights = self._expected(columns, now)
        known = np.isfinite(means) & np.isfinite(at)
        told = numbers(known)
        never = Same(None)
        return {
            "utilisation": numbers(expected, 4),
            "mean": where(told, numbers(means, 4), never),
            "reading": where(told, numbers(columns.used, 4), never),
            "age_s": where(told, numbers(np.maximum(now - at, 0.0), 1), never),
            "used_of_requested": numbers(columns.usual, 3),
            "pod": numbers(coming, 4),
            "judged": picked(list(map(_in_words, known.tolist(), weights.tolist()))),
        }


def _booked(amounts: Amounts, fleet: FleetView, rows: Rows) -> _Booked:
    """What the formula takes of resources, for a pod that uses `amounts`: once for all signals."""
    nodes = fleet.nodes
    rank = fleet.nodes.rank[rows]
    found = []
    for row, column in enumerate(map(fleet.axis.column, _RESOURCES)):
        room = (
            np.zeros(len(rank), dtype=np.int64)
            if column is None
            else nodes.allocatable[column][rows]
        )
        found.append(
            (nodes.settling[row][rows], nodes.nonzero[row][rows], room, float(amounts[row]))
        )
    return rank, found


def _columns(signal: str, booked: _Booked, fleet: FleetView, rows: Rows) -> SignalLoad:
    """What the formula takes of a signal beside what is `booked`."""
    signals, (rank, shares) = fleet.signals, booked
    told = (
        signals.used(signal)[rows],
        signals.mean(signal)[rows],
        signals.sampled_at(signal)[rows],
        signals.usual(signal)[rows],
    )
    one, other = _OF.get(signal, _EITHER)
    return SignalLoad(*told, rank, *shares[one], *shares[other])


def _in_words(known: bool, weight: float) -> str:
    if not known:
        return "unknown, by requests"
    if weight <= 0.0:
        return "stale, by requests"
    return "fresh" if weight >= 1.0 else f"fading, {weight:.0%} by readings, rest by requests"
