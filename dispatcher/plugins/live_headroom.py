"""Nodes with more measured headroom are better: one policy on three signals, LiveCPU, LiveMemory and LiveNetwork.

    u = w * measured + (1 - w) * requested             utilisation expected with this pod, 0..1
    measured  = reading + recent / allocatable + pod / allocatable     (`recent`: placed since that reading)
    requested = (all requests on the node + pod) / allocatable
    w(age)    = 1 up to `fresh_s`, falling in a straight line to 0 at `stale_s`; 0 for an unknown reading
    score     = 100 * (1 - (u + (s - 1) * max(u - k, 0)) / (1 + (s - 1) * (1 - k)))     k `hot_above`, s `hot_steepness`

So an old or missing reading is never taken for an idle node: the node counts as loaded as its requests say. Above k
each point of utilisation costs s times as much as below, so hot nodes are avoided in proportion, not excluded.
A pod is expected to use its request (100m and 200 MiB without). Its network use is not known and counts 0; network is
the larger of receive and transmit over bandwidth, and falls back to the larger of the CPU and memory requested shares.
Readings are shares 0..1, ages seconds. Turn these off (weight 0) where no telemetry is to be had.
"""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from dispatcher.model.resources import CPU, MEMORY
from dispatcher.scheduling.fleet.occupants import nonzero_request
from dispatcher.scheduling.framework import MAX_SCORE, Depends, Fleet, Floats, Placed, Readings, Rows
from dispatcher.scheduling.framework.bounds import BoundedScore, Ceiling
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin_args import Arg, ArgTable, number

_RESOURCES = (CPU, MEMORY)  # rows of fleet.nonzero and fleet.recent
Amounts = tuple[int, int]
_NOTHING: Amounts = (0, 0)


class _LiveHeadroom(BoundedScore):
    """What the three signals share: the fade of readings and the curve."""

    depends: ClassVar[Depends] = Depends.NODE
    ARGS: ClassVar[ArgTable] = {
        "fresh_s": Arg(45.0, "seconds up to which a reading counts in full", number(0, 86_400)),
        "stale_s": Arg(120.0, "seconds from which a reading does not count at all", number(0, 86_400)),
        "hot_above": Arg(0.8, "utilisation (0..1) above which a node is hot", number(0, 1)),
        "hot_steepness": Arg(4.0, "how much more a point of utilisation costs on a hot node", number(1, 100)),
    }

    def __init__(self, fresh_s: float, stale_s: float, hot_above: float, hot_steepness: float) -> None:
        if stale_s <= fresh_s:
            raise ValueError(f"stale_s ({stale_s:g}) must be greater than fresh_s ({fresh_s:g})")
        self._fresh_s, self._stale_s = fresh_s, stale_s
        self._knee, self._extra = hot_above, hot_steepness - 1.0

    def _reading(self, fleet: Fleet) -> tuple[Readings, Floats]:
        """[n] used share, and when it was sampled."""
        raise TypeError(f"plugin {self.name} reads nothing")

    def _measured(self, amounts: Amounts, used: Floats, fleet: Fleet, rows: Rows) -> Floats:
        """[rows] utilisation with this pod by the reading; NaN where unknown."""
        raise TypeError(f"plugin {self.name} measures nothing")

    def _requested(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> Floats:
        """[rows] utilisation with this pod by requests."""
        raise TypeError(f"plugin {self.name} falls back to nothing")

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """(milli-CPU, bytes) the pod is expected to use."""
        return nonzero_request(placed.pod)

    def _columns(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> list[Any] | None:
        """What `_curve` takes of the fleet: for the reading, then twice for the fallback; None if it cannot."""
        return None

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """The curve of the module over the utilisation expected with this pod."""
        columns = None if _curve.fast is None else self._columns(cast(Amounts, state), fleet, rows)
        if columns is not None:
            scores = np.empty(len(columns[0]))
            _curve.fast(*columns, fleet.now, self._fresh_s, self._stale_s, self._knee, self._extra, scores)
            return scores
        utilisation, _ = self._utilisation(cast(Amounts, state), fleet, rows)
        hot = np.maximum(utilisation - self._knee, 0.0)
        whole = 1.0 + self._extra * (1.0 - self._knee)
        return MAX_SCORE * (1.0 - (utilisation + self._extra * hot) / whole)

    def _utilisation(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> tuple[Floats, Floats]:
        """[rows] utilisation, and the weight that the reading had in it."""
        used, sampled_at = (column[rows] for column in self._reading(fleet))
        measured = np.minimum(self._measured(amounts, used.astype(np.float64), fleet, rows), 1.0)
        age = fleet.now - sampled_at
        if (age <= self._fresh_s).all() and not np.isnan(measured).any():  # the usual case, at half the cost
            return measured, np.ones(len(measured))
        weight = np.clip((self._stale_s - age) / (self._stale_s - self._fresh_s), 0.0, 1.0)
        weight = np.where(np.isnan(measured), 0.0, weight)
        requested = np.minimum(self._requested(amounts, fleet, rows), 1.0)
        return np.where(weight > 0.0, weight * measured, 0.0) + (1.0 - weight) * requested, weight

    def ceiling(self, fleet: Fleet, rows: Rows, until: float) -> Ceiling | None:
        """By the reading where it counts in full until then, else by the lesser of reading and requests.

        The curve bends down at the knee, so its slope without the pod bounds it up to full utilisation.
        """
        columns = None if _bound.fast is None else self._columns(_NOTHING, fleet, rows)
        if columns is not None:
            base, slope, most = (np.empty(len(columns[0])) for _ in range(3))
            _bound.fast(*columns, until, self._fresh_s, self._knee, self._extra, base, slope, most)
        else:
            base, slope, most = self._bound(fleet, rows, until)
        cpu, memory = self._falls(slope, fleet, rows)
        return Ceiling(base, cpu, most, memory, most)

    def _bound(self, fleet: Fleet, rows: Rows, until: float) -> tuple[Floats, Floats, Floats]:
        """[rows] the score without the pod, and what it falls by for a whole node more and for all that is left."""
        used, sampled_at = (column[rows] for column in self._reading(fleet))
        measured = self._measured(_NOTHING, used.astype(np.float64), fleet, rows)
        requested = self._requested(_NOTHING, fleet, rows)
        fresh = (until - sampled_at <= self._fresh_s) & ~np.isnan(measured)
        low = np.minimum(np.where(fresh, measured, np.fmin(measured, requested)), 1.0)
        whole = 1.0 + self._extra * (1.0 - self._knee)
        slope: Floats = np.where(low >= self._knee, 1.0 + self._extra, 1.0) * (MAX_SCORE / whole)
        base = MAX_SCORE * (1.0 - (low + self._extra * np.maximum(low - self._knee, 0.0)) / whole)
        return base, slope, slope * (1.0 - low)

    def _falls(self, slope: Floats, fleet: Fleet, rows: Rows) -> tuple[Floats, Floats]:
        """[rows] by how many points a milli-CPU and a byte bring the curve down at least."""
        return np.zeros(len(slope)), np.zeros(len(slope))

    def explain(self, state: object, placed: Placed, fleet: Fleet, row: int) -> Mapping[str, Any]:
        """What the chosen row was judged by: utilisation, reading, age in seconds, and in words."""
        at = np.asarray([row])
        utilisation, weight = self._utilisation(cast(Amounts, state), fleet, at)
        used, sampled_at = (column[row] for column in self._reading(fleet))
        known = bool(np.isfinite(used) and np.isfinite(sampled_at))
        return {
            "utilisation": round(float(utilisation[0]), 4),
            "reading": round(float(used), 4) if known else None,
            "age_s": round(max(fleet.now - float(sampled_at), 0.0), 1) if known else None,
            "judged": _in_words(known, float(weight[0])),
        }


@kernel("shares floats ints float ints ints float ints ints float float float float float float out")
def _curve(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - columns
    used, sampled_at, recent, more, nonzero0, all0, more0, nonzero1, all1, more1, now, fresh, stale, knee, extra, scores
):
    """The score; `more` is not negative where the pod adds to what is measured, and then of the first resource."""
    whole, faded = 1.0 + extra * (1.0 - knee), 0
    for row in range(len(scores)):  # all as if fresh, without a branch: the usual case
        measured = float(used[row])
        if more >= 0.0:
            measured += (recent[row] + more) / max(all0[row], 1)
        measured = 1.0 if measured > 1.0 else measured
        faded += not (now - sampled_at[row] <= fresh) or measured != measured  # noqa: PLR0124 - no number
        scores[row] = 100.0 * (1.0 - (measured + extra * max(measured - knee, 0.0)) / whole)
    for row in range(len(scores) if faded else 0):
        measured = float(used[row])
        if more >= 0.0:
            measured += (recent[row] + more) / max(all0[row], 1)
        measured = 1.0 if measured > 1.0 else measured
        weight = min(max((stale - (now - sampled_at[row])) / (stale - fresh), 0.0), 1.0)
        if np.isnan(measured):
            weight = 0.0
        if weight < 1.0:
            requested = max((nonzero0[row] + more0) / max(all0[row], 1), (nonzero1[row] + more1) / max(all1[row], 1))
            measured = (weight * measured if weight > 0.0 else 0.0) + (1.0 - weight) * min(requested, 1.0)
            scores[row] = 100.0 * (1.0 - (measured + extra * max(measured - knee, 0.0)) / whole)


@kernel("shares floats ints float ints ints float ints ints float float float float float out out out")
def _bound(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - columns
    used, sampled_at, recent, more, nonzero0, all0, _0, nonzero1, all1, _1, until, fresh, knee, extra, base, slope, most
):
    """See `_LiveHeadroom._bound`; the columns are those of `_curve`."""
    whole = 1.0 + extra * (1.0 - knee)
    for row in range(len(base)):
        low = float(used[row])
        if more >= 0.0:
            low += recent[row] / max(all0[row], 1)
        if not (until - sampled_at[row] <= fresh):
            requested = max(nonzero0[row] / max(all0[row], 1), nonzero1[row] / max(all1[row], 1))
            low = low if low < requested else requested
        elif np.isnan(low):
            low = max(nonzero0[row] / max(all0[row], 1), nonzero1[row] / max(all1[row], 1))
        low = 1.0 if low > 1.0 else low
        fall = (1.0 + extra if low >= knee else 1.0) * (100.0 / whole)
        base[row] = 100.0 * (1.0 - (low + extra * max(low - knee, 0.0)) / whole)
        slope[row] = fall
        most[row] = fall * (1.0 - low)


def _in_words(known: bool, weight: float) -> str:
    if not known:
        return "unknown, by requests"
    if weight <= 0.0:
        return "stale, by requests"
    return "fresh" if weight >= 1.0 else f"fading, {weight:.0%} by reading, rest by requests"


def _share(at: int, amounts: NDArray[Any], fleet: Fleet, rows: Rows) -> Floats:
    """[rows] `amounts` (never 0) as a share of what can be allocated; far above 1 where that is nothing."""
    column = fleet.axis.column(_RESOURCES[at])
    capacity = fleet.allocatable[column][rows] if column is not None else np.zeros(len(amounts), dtype=np.int64)
    share: Floats = amounts / np.maximum(capacity, 1)
    return share


def _by_requests(at: int, amounts: Amounts, fleet: Fleet, rows: Rows) -> Floats:
    return _share(at, fleet.nonzero[at][rows] + float(amounts[at]), fleet, rows)


class _LiveResource(_LiveHeadroom):
    """CPU and memory: both measured and requested."""

    _at: ClassVar[int]

    def class_key(self, placed: Placed) -> Hashable:
        """What the pod is expected to use."""
        return nonzero_request(placed.pod)[self._at]

    def _measured(self, amounts: Amounts, used: Floats, fleet: Fleet, rows: Rows) -> Floats:
        return used + _share(self._at, fleet.recent[self._at][rows] + float(amounts[self._at]), fleet, rows)

    def _requested(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> Floats:
        return _by_requests(self._at, amounts, fleet, rows)

    def _falls(self, slope: Floats, fleet: Fleet, rows: Rows) -> tuple[Floats, Floats]:
        falls, none = _share(self._at, slope, fleet, rows), np.zeros(len(slope))
        return (falls, none) if self._at == 0 else (none, falls)

    def _columns(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> list[Any] | None:
        column, more = fleet.axis.column(_RESOURCES[self._at]), float(amounts[self._at])
        if column is None:
            return None
        used, sampled_at = self._reading(fleet)
        fallback = (fleet.nonzero[self._at][rows], fleet.allocatable[column][rows], more)
        return [used[rows], sampled_at[rows], fleet.recent[self._at][rows], more, *fallback, *fallback]


class LiveCPU(_LiveResource):
    """Prefers nodes with idle CPU."""

    name: ClassVar[str] = "LiveCPU"
    _at: ClassVar[int] = 0

    def _reading(self, fleet: Fleet) -> tuple[Readings, Floats]:
        return fleet.cpu_used, fleet.cpu_at


class LiveMemory(_LiveResource):
    """Prefers nodes with free memory."""

    name: ClassVar[str] = "LiveMemory"
    _at: ClassVar[int] = 1

    def _reading(self, fleet: Fleet) -> tuple[Readings, Floats]:
        return fleet.memory_used, fleet.memory_at


class LiveNetwork(_LiveHeadroom):
    """Prefers nodes with idle network."""

    name: ClassVar[str] = "LiveNetwork"

    def class_key(self, placed: Placed) -> Hashable:
        """What the pod is expected to use of CPU and memory: the fallback judges by them."""
        return nonzero_request(placed.pod)

    def _reading(self, fleet: Fleet) -> tuple[Readings, Floats]:
        return fleet.net_used, fleet.net_at

    def _measured(self, amounts: Amounts, used: Floats, fleet: Fleet, rows: Rows) -> Floats:
        return used

    def _requested(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> Floats:
        return np.maximum(*(_by_requests(at, amounts, fleet, rows) for at in range(len(_RESOURCES))))

    def _columns(self, amounts: Amounts, fleet: Fleet, rows: Rows) -> list[Any] | None:
        used, sampled_at = self._reading(fleet)
        columns: list[Any] = [used[rows], sampled_at[rows], fleet.recent[0][rows], -1.0]
        for at, resource in enumerate(_RESOURCES):
            column = fleet.axis.column(resource)
            if column is None:
                return None
            columns += [fleet.nonzero[at][rows], fleet.allocatable[column][rows], float(amounts[at])]
        return columns
