"""Nodes with more measured headroom are better: LiveCPU, LiveMemory, LiveNetwork, and LiveHeadroom
for any signal.

    u = w * measured + (1 - w) * requested             utilisation expected with this pod, 0..1
    measured  = reading + recent / allocatable + pod / allocatable     (`recent`: placed since that reading)
    requested = (all requests on the node + pod) / allocatable
    w(age)    = 1 up to `fresh_s`, falling in a straight line to 0 at `stale_s`; 0 for an unknown reading
    score     = 100 * (1 - (u + (s - 1) * max(u - k, 0)) / (1 + (s - 1) * (1 - k)))     k `hot_above`, s `hot_steepness`

So an old or missing reading is never taken for an idle node: the node counts as loaded as its
requests say. Above k each point of utilisation costs s times as much as below, so hot nodes are
avoided in proportion, not excluded. A pod is expected to use its request (100m and 200 MiB
without). What it adds to other signals than cpu and memory is not known and counts 0; they fall
back to the larger of the CPU and memory requested shares. Network is the larger of receive and
transmit over bandwidth. LiveHeadroom of several signals is the score of the one with the least
headroom. Readings are shares 0..1, ages seconds. Turn these off (weight 0) where no telemetry is to
be had.

The formula is the functions under "the formula"; NumPy calls them with columns, the kernels with
numbers.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
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
    Score,
    Skip,
)
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    ShareColumn,
    choose,
    kernel,
    least,
    most,
    of_numbers,
)
from dispatcher.scheduling.framework.plugin_args import Args, read_by, shown, texts
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.resources import CPU, MEMORY
from shared.model.signals import (
    CPU_SIGNAL,
    MEMORY_SIGNAL,
    NAME_PATTERN,
    NETWORK_SIGNAL,
    is_signal_name,
)

_RESOURCES = (CPU, MEMORY)  # rows of fleet.nodes.nonzero and fleet.nodes.recent
_ADDS_TO = {
    CPU_SIGNAL: 0,
    MEMORY_SIGNAL: 1,
}  # signal -> the row of what pods are expected to add to it
Amounts = tuple[int, int]
_NOTHING: Amounts = (0, 0)


class LoadColumns(NamedTuple):
    """What the formula takes of one signal: the reading, what came since, and twice what it falls
    back to.

    `recent`, `more`: what was placed since the reading, and what the pod adds, of `capacity0`;
    `more` -1: not known.
    """

    used: ShareColumn
    sampled_at: FloatColumn
    recent: IntColumn
    more: Number
    nonzero0: IntColumn
    capacity0: IntColumn
    more0: Number
    nonzero1: IntColumn
    capacity1: IntColumn
    more1: Number


# --- the formula
# --------------------------------------------------------------------------------------------------


def _measured(used: Any, recent: Any, more: Any, capacity: Any) -> Any:
    """Utilisation with the pod by the reading; not a number where that is unknown."""
    if more < 0.0:
        return used
    return used + (recent + more) / most(capacity, 1)


def _requested(
    nonzero0: Any, more0: Any, capacity0: Any, nonzero1: Any, more1: Any, capacity1: Any
) -> Any:
    """Utilisation with the pod by requests; far above 1 where nothing can be allocated."""
    return most((nonzero0 + more0) / most(capacity0, 1), (nonzero1 + more1) / most(capacity1, 1))


def _weight(age: Any, fresh: Any, stale: Any, measured: Any) -> Any:
    """What the reading counts beside the requests, 0..1."""
    return choose(np.isnan(measured), 0.0, least(most((stale - age) / (stale - fresh), 0.0), 1.0))


def _mixed(measured: Any, requested: Any, weight: Any) -> Any:
    """The utilisation expected."""
    return choose(weight > 0.0, weight * measured, 0.0) + (1.0 - weight) * requested


def _score(utilisation: Any, knee: Any, extra: Any) -> Any:
    """The curve: 100 for an idle node, 0 for a full one, `extra` times steeper above the knee."""
    hot = most(utilisation - knee, 0.0)
    return 100.0 * (1.0 - (utilisation + extra * hot) / (1.0 + extra * (1.0 - knee)))


def _lowest(fresh: Any, measured: Any, requested: Any) -> Any:
    """The least utilisation that a mix of both can be, at most 1: the reading alone as long as it
    is fresh.
    """
    lesser = choose(measured < requested, measured, requested)  # also where nothing was measured
    return least(choose(fresh & (measured == measured), measured, lesser), 1.0)  # noqa: PLR0124 - no number


def _slope(utilisation: Any, knee: Any, extra: Any) -> Any:
    """Points that the curve falls for a whole node more."""
    return choose(utilisation >= knee, 1.0 + extra, 1.0) * (100.0 / (1.0 + extra * (1.0 - knee)))


_measured_number, _requested_number, _weight_number, _mixed_number = of_numbers(
    _measured, _requested, _weight, _mixed
)
_FORMULA = (_measured, _requested, _weight, _mixed, _score, _lowest, _slope)


@kernel(LoadColumns, "float float float float float out", formulas=_FORMULA)
def _scores(columns, now, fresh, stale, knee, extra, scores):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel
    """The score of each row."""
    used = columns.used
    sampled_at = columns.sampled_at
    recent = columns.recent
    more = columns.more
    nonzero0 = columns.nonzero0
    capacity0 = columns.capacity0
    nonzero1 = columns.nonzero1
    capacity1 = columns.capacity1
    faded = 0
    for row in range(len(scores)):  # all as if fresh, without a branch: the usual case
        measured = least(_measured(float(used[row]), recent[row], more, capacity0[row]), 1.0)
        faded += not (now - sampled_at[row] <= fresh) or measured != measured  # noqa: PLR0124 - no number
        scores[row] = _score(measured, knee, extra)
    for row in range(len(scores) if faded else 0):
        measured = least(_measured(float(used[row]), recent[row], more, capacity0[row]), 1.0)
        weight = _weight(now - sampled_at[row], fresh, stale, measured)
        if weight < 1.0:
            requested = _requested(
                nonzero0[row],
                columns.more0,
                capacity0[row],
                nonzero1[row],
                columns.more1,
                capacity1[row],
            )
            scores[row] = _score(_mixed(measured, least(requested, 1.0), weight), knee, extra)


@kernel(LoadColumns, "float float float float out out out", formulas=_FORMULA)
def _bounds(columns, until, fresh, knee, extra, base, slope, room):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - a kernel
    """See `_LiveHeadroom._bound`."""
    used = columns.used
    sampled_at = columns.sampled_at
    recent = columns.recent
    more = columns.more
    nonzero0 = columns.nonzero0
    capacity0 = columns.capacity0
    nonzero1 = columns.nonzero1
    capacity1 = columns.capacity1
    for row in range(len(base)):
        measured = _measured(float(used[row]), recent[row], more, capacity0[row])
        requested = _requested(
            nonzero0[row],
            columns.more0,
            capacity0[row],
            nonzero1[row],
            columns.more1,
            capacity1[row],
        )
        low = _lowest(until - sampled_at[row] <= fresh, measured, requested)
        fall = _slope(low, knee, extra)
        base[row] = _score(low, knee, extra)
        slope[row] = fall
        room[row] = fall * (1.0 - low)


# --- the plugins
# --------------------------------------------------------------------------------------------------


class LiveArgs(Args):
    """The fade of readings and the curve."""

    fresh_s: Annotated[
        float, Meta(ge=0, le=86_400, description="seconds up to which a reading counts in full")
    ] = 45.0
    stale_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="seconds from which a reading does not count at all"),
    ] = 120.0
    hot_above: Annotated[
        float, Meta(ge=0, le=1, description="utilisation (0..1) above which a node is hot")
    ] = 0.8
    hot_steepness: Annotated[
        float,
        Meta(ge=1, le=100, description="how much more a point of utilisation costs on a hot node"),
    ] = 4.0


class _LiveHeadroom(Score[Amounts]):
    """The formula over one or several signals."""

    depends: ClassVar[Depends] = Depends.NODE
    SIGNALS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, fresh_s: float, stale_s: float, hot_above: float, hot_steepness: float
    ) -> None:
        if stale_s <= fresh_s:
            raise ValueError(f"stale_s ({stale_s:g}) must be greater than fresh_s ({fresh_s:g})")
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._knee = hot_above
        self._extra = hot_steepness - 1.0
        self._take(self.SIGNALS)

    def _take(self, signals: Sequence[str]) -> None:
        self._signals = tuple(signals)
        added = {_ADDS_TO.get(name) for name in self._signals}
        # which of the expected amounts tells classes apart
        self._only = added.pop() if len(added) == 1 else None

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What the pod is expected to use of CPU and memory: the fallback judges by them."""
        amounts = nonzero_request(pod_info.pod)
        return amounts if self._only is None else amounts[self._only]

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, bytes) the pod is expected to use."""
        return nonzero_request(pod_info.pod)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """The curve of the module over the utilisation expected with this pod; the least of several
        signals.
        """
        scores = self._score(_columns(self._signals[0], state, fleet, rows), fleet.now)
        for name in self._signals[1:]:
            np.minimum(
                scores, self._score(_columns(name, state, fleet, rows), fleet.now), out=scores
            )
        return scores

    def _score(self, columns: LoadColumns, now: float) -> Floats:
        if _scores.fast is not None:
            scores = np.empty(len(columns.used))
            _scores.fast(
                *columns, now, self._fresh_s, self._stale_s, self._knee, self._extra, scores
            )
            return scores
        utilisation, _ = self._utilisation(columns, now)
        curve: Floats = _score(utilisation, self._knee, self._extra)
        return curve

    def _utilisation(self, columns: LoadColumns, now: float) -> tuple[Floats, Floats]:
        """[rows] utilisation, and the weight that the reading had in it."""
        measured = least(_measured_in(columns), 1.0)
        age = now - columns.sampled_at
        if (age <= self._fresh_s).all() and not np.isnan(
            measured
        ).any():  # the usual case, at half the cost
            return measured, np.ones(len(measured))
        weight = _weight(age, self._fresh_s, self._stale_s, measured)
        return _mixed(measured, least(_requested_in(columns), 1.0), weight), weight

    def _bound(self, columns: LoadColumns, until: float) -> tuple[Floats, Floats, Floats]:
        """[rows] the score without the pod, and what it falls by for a whole node more and for all
        that is left.
        """
        if _bounds.fast is not None:
            base, slope, room = (np.empty(len(columns.used)) for _ in range(3))
            _bounds.fast(*columns, until, self._fresh_s, self._knee, self._extra, base, slope, room)
            return base, slope, room
        fresh = until - columns.sampled_at <= self._fresh_s
        low = _lowest(fresh, _measured_in(columns), _requested_in(columns))
        slope = _slope(low, self._knee, self._extra)
        return _score(low, self._knee, self._extra), slope, slope * (1.0 - low)

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What the chosen row was judged by: utilisation, reading, age in seconds, and in words."""
        return self._told(self._signals[0], state, fleet, row)

    def _told(self, signal: str, amounts: Amounts, fleet: FleetView, row: int) -> dict[str, Any]:
        load = _load_of(signal, amounts, fleet, row)
        utilisation, weight = self._utilisation_of(load, fleet.now)
        known = math.isfinite(load.used) and math.isfinite(load.sampled_at)
        return {
            "utilisation": round(utilisation, 4),
            "reading": round(load.used, 4) if known else None,
            "age_s": round(max(fleet.now - load.sampled_at, 0.0), 1) if known else None,
            "judged": _in_words(known, weight),
        }

    def _utilisation_of(self, load: "_Load", now: float) -> tuple[float, float]:
        """`_utilisation` of one row: the same numbers, bit for bit."""
        used, sampled_at, recent, more, nonzero0, capacity0, more0, nonzero1, capacity1, more1 = (
            load
        )
        measured = _measured_number(used, recent, more, capacity0)
        measured = 1.0 if measured > 1.0 else measured
        age = now - sampled_at
        if age <= self._fresh_s and not math.isnan(measured):
            return measured, 1.0
        weight = _weight_number(age, self._fresh_s, self._stale_s, measured)
        requested = _requested_number(nonzero0, more0, capacity0, nonzero1, more1, capacity1)
        return _mixed_number(measured, min(requested, 1.0), weight), weight


def _columns(signal: str, amounts: Amounts, fleet: FleetView, rows: Rows) -> LoadColumns:
    """What the formula takes of a signal, for a pod that is expected to use `amounts`."""
    used = fleet.signals.used(signal)[rows]
    sampled_at = fleet.signals.sampled_at(signal)[rows]
    adds_to = _ADDS_TO.get(signal)
    if adds_to is None:
        pairs = (*_fallback(0, amounts, fleet, rows), *_fallback(1, amounts, fleet, rows))
        return LoadColumns(used, sampled_at, fleet.nodes.recent[0][rows], -1.0, *pairs)
    pair = _fallback(adds_to, amounts, fleet, rows)
    return LoadColumns(used, sampled_at, fleet.nodes.recent[adds_to][rows], pair[2], *pair, *pair)


class _Load(NamedTuple):
    """LoadColumns of one row, in Python's numbers."""

    used: float
    sampled_at: float
    recent: int
    more: float
    nonzero0: int
    capacity0: int
    more0: float
    nonzero1: int
    capacity1: int
    more1: float


def _load_of(signal: str, amounts: Amounts, fleet: FleetView, row: int) -> _Load:
    columns = _columns(signal, amounts, fleet, slice(row, row + 1))
    return _Load._make(one.item() if isinstance(one, np.ndarray) else one for one in columns)


def _fallback(at: int, amounts: Amounts, fleet: FleetView, rows: Rows) -> tuple[Ints, Ints, float]:
    """Of CPU or memory: requested, allocatable, and what the pod requests."""
    nonzero = fleet.nodes.nonzero[at][rows]
    column = fleet.axis.column(_RESOURCES[at])
    capacity = (
        fleet.nodes.allocatable[column][rows]
        if column is not None
        else np.zeros(len(nonzero), dtype=np.int64)
    )
    return nonzero, capacity, float(amounts[at])


def _measured_in(columns: LoadColumns) -> Floats:
    used = columns.used.astype(np.float64)
    measured: Floats = _measured(used, columns.recent, columns.more, columns.capacity0)
    return measured


def _requested_in(columns: LoadColumns) -> Floats:
    nonzero0, capacity0, more0, nonzero1, capacity1, more1 = columns[4:]
    requested: Floats = _requested(nonzero0, more0, capacity0, nonzero1, more1, capacity1)
    return requested


def _in_words(known: bool, weight: float) -> str:
    if not known:
        return "unknown, by requests"
    if weight <= 0.0:
        return "stale, by requests"
    return "fresh" if weight >= 1.0 else f"fading, {weight:.0%} by reading, rest by requests"


class LiveCPU(_LiveHeadroom):
    """Prefers nodes with idle CPU."""

    name: ClassVar[str] = "LiveCPU"
    keyed_by_template = True
    SIGNALS: ClassVar[tuple[str, ...]] = (CPU_SIGNAL,)


class LiveMemory(_LiveHeadroom):
    """Prefers nodes with free memory."""

    name: ClassVar[str] = "LiveMemory"
    keyed_by_template = True
    SIGNALS: ClassVar[tuple[str, ...]] = (MEMORY_SIGNAL,)


class LiveNetwork(_LiveHeadroom):
    """Prefers nodes with idle network."""

    name: ClassVar[str] = "LiveNetwork"
    keyed_by_template = True
    SIGNALS: ClassVar[tuple[str, ...]] = (NETWORK_SIGNAL,)


def _signal_names(raw: object) -> tuple[str, ...]:
    """A list of at least one signal."""
    names = texts(raw)
    wrong = [name for name in names if not is_signal_name(name)]
    if wrong:
        raise ValueError(
            f"{shown(wrong[0])} is no signal: lower case letters, digits and underscores, 40 at "
            "most"
        )
    if not names:
        raise ValueError("must name at least one signal, for example [disk]")
    return names


WrittenSignals = Annotated[list[Annotated[str, Meta(pattern=NAME_PATTERN)]], Meta(min_length=1)]


class HeadroomArgs(LiveArgs):
    """The same, and of which signals."""

    signals: Annotated[
        tuple[str, ...],
        Meta(
            description="signals of which the least headroom counts",
            extra=read_by(_signal_names, WrittenSignals),
        ),
    ] = (NETWORK_SIGNAL,)


class LiveHeadroom(_LiveHeadroom):
    """Prefers nodes with headroom in the scarcest of some signals, whatever agents are configured
    to measure.
    """

    name: ClassVar[str] = "LiveHeadroom"
    keyed_by_template = True

    def __init__(
        self,
        signals: Sequence[str],
        fresh_s: float,
        stale_s: float,
        hot_above: float,
        hot_steepness: float,
    ) -> None:
        super().__init__(fresh_s, stale_s, hot_above, hot_steepness)
        self._take(signals)

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """By signal, what the chosen row was judged by."""
        return {name: self._told(name, state, fleet, row) for name in self._signals}
