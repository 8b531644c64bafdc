"""A node must have room for all the pod requests; how full it may get is a matter of strategy.

Filter: request <= allocatable - requested, for each resource and for the number of pods.
Score: the mean over `resources`, by weight, of (allocatable a, requested r with this pod, both in internal units):
    LeastAllocated            100 * (a - r) / a                 spread: the emptier the better
    MostAllocated             100 * r / a                       pack: the fuller the better
    RequestedToCapacityRatio  `shape` at utilisation 100 * r / a, linear between its points, 0..10 stretched to 0..100
CPU and memory count 100m and 200 MiB for pods without requests; a resource that the node lacks, or that is neither CPU,
memory nor storage and not requested, has no part in the mean. Source: kube-scheduler's NodeResourcesFit (no rounding).
"""

from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.pod import Pod
from dispatcher.model.reasons import Reason
from dispatcher.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from dispatcher.scheduling.fleet_occupants import nonzero_request
from dispatcher.scheduling.framework import MAX_SCORE, Bools, Codes, Depends, Filter, Fleet, Floats, Placed, Rows, Score
from dispatcher.scheduling.plugin_args import Arg, ArgTable, number, one_of, resource_weights, shown

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
_NONZERO = (CPU, MEMORY)  # rows of fleet.nonzero
_ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)


def _shape(raw: object) -> tuple[tuple[float, float], ...]:
    """[{utilization: 0..100, score: 0..10}, ...] with rising utilization."""
    if not isinstance(raw, list | tuple) or not raw:
        raise ValueError(f"must be a list of {{utilization, score}}, not {shown(raw)}")
    points = tuple(_point(item) for item in raw)
    if any(left[0] >= right[0] for left, right in pairwise(points)):
        raise ValueError("utilization must rise from point to point")
    return points


def _point(raw: object) -> tuple[float, float]:
    if not isinstance(raw, Mapping) or set(raw) != {"utilization", "score"}:
        raise ValueError(f"each point must hold utilization and score, not {shown(raw)}")
    return number(0, 100)(raw["utilization"]), number(0, 10)(raw["score"])


class NodeResourcesFit(Filter, Score):
    """Filter on room, score by strategy."""

    name: ClassVar[str] = "NodeResourcesFit"
    depends: ClassVar[Depends] = Depends.NODE
    ARGS: ClassVar[ArgTable] = {
        "strategy": Arg(LEAST, f"{LEAST}, {MOST} or {RATIO}", one_of(LEAST, MOST, RATIO)),
        "resources": Arg(((CPU, 1.0), (MEMORY, 1.0)), "weight (1-100) of each resource in the mean", resource_weights),
        "shape": Arg(((0.0, 0.0), (100.0, 10.0)), f"points {{utilization %, score 0-10}} for {RATIO}", _shape),
    }

    def __init__(
        self, strategy: str, resources: tuple[tuple[str, float], ...], shape: tuple[tuple[float, float], ...]
    ) -> None:
        self._strategy, self._resources = strategy, resources
        self._utilization = np.asarray([point[0] / 100.0 for point in shape])
        self._points = np.asarray([point[1] * 10.0 for point in shape])

    def class_key(self, placed: Placed) -> Hashable:
        """The requests that are not zero."""
        return frozenset(item for item in placed.pod.requests.items() if item[1])

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """The pod."""
        return placed.pod

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """TOO_MANY_PODS, else INSUFFICIENT with the first resource that lacks."""
        pod = cast(Pod, state)
        wanted = [(PODS, 1), *((name, amount) for name, amount in pod.requests.items() if amount and name != PODS)]
        codes = np.zeros(len(fleet.live[rows]), dtype=np.uint16)
        for name, amount in wanted:
            code = fleet.reasons.code(Reason.TOO_MANY_PODS) if name == PODS else _insufficient(fleet, name)
            column = fleet.axis.column(name)
            if column is None:
                lacks = np.ones(len(codes), dtype=np.bool_)
            else:
                lacks = amount > fleet.allocatable[column, rows] - fleet.requested[column, rows]
            np.copyto(codes, np.uint16(code), where=lacks & (codes == 0))
        return codes

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """The strategy's mean, 0..100."""
        pod = cast(Pod, state)
        total = np.zeros(len(fleet.live[rows]))
        weights: Floats = np.zeros(1)
        for name, weight in self._resources:
            found = _requested_share(pod, name, fleet, rows)
            if found is not None:
                share, lacks = found
                total += self._value(share) * (weight if lacks is None else weight * ~lacks)
                weights = weights + (weight if lacks is None else weight * ~lacks)
        return np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)

    def _value(self, share: Floats) -> Floats:
        if self._strategy == LEAST:
            return MAX_SCORE * (1.0 - share)
        if self._strategy == MOST:
            return MAX_SCORE * share
        scores: Floats = np.interp(share, self._utilization, self._points)
        return scores


def _insufficient(fleet: Fleet, resource: str) -> int:
    return fleet.reasons.code(Reason.INSUFFICIENT, resource)


def _requested_share(pod: Pod, resource: str, fleet: Fleet, rows: Rows) -> tuple[Floats, Bools | None] | None:
    """[rows] requested with this pod over allocatable, at most 1, and where the node has none of it (None: nowhere).

    None for a resource that has no part in the mean.
    """
    column, asked = fleet.axis.column(resource), pod.requests.get(resource, 0)
    if column is None or (not asked and resource not in _ALWAYS):
        return None
    allocatable = fleet.allocatable[column, rows]
    if resource in _NONZERO:
        at = _NONZERO.index(resource)
        wanted = fleet.nonzero[at, rows] + float(nonzero_request(pod)[at])  # floats: two 2^62 would wrap
    else:
        wanted = fleet.requested[column, rows] + float(asked)
    share = np.minimum(wanted / np.maximum(allocatable, 1), 1.0)
    return share, None if allocatable.all() else allocatable == 0
