"""A node must have room for all the pod requests; how full it may get is a matter of strategy.

Filter: request <= allocatable - requested, for each resource and for the number of pods; all that
lacks is told. Score: the mean over `resources`, by weight, of (allocatable a, requested r with this
pod, both in internal units):
    LeastAllocated            100 * (a - r) / a, 0 if r > a     spread: the emptier the better
    MostAllocated             100 * min(r, a) / a               pack: the fuller the better
    RequestedToCapacityRatio  `shape` at utilisation 100 * r / a, linear between its points, 0..10 stretched to 0..100;
                              resources whose value is 0 have no part in the mean
All whole numbers, rounded down (the mean of the last one to the nearest). CPU and memory count 100m
and 200 MiB for containers without requests; a resource that the node lacks, or that is neither CPU,
memory nor storage and not requested, has no part in the mean. Source: kube-scheduler's
NodeResourcesFit.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    Codes,
    Depends,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Refuse,
    RoomFilter,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.hints import ClusterEvent, node_change_helps
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin_args import (
    RESOURCE_WEIGHTS,
    Args,
    read_by,
    rows_of,
    shown,
    texts,
)
from dispatcher.scheduling.rules.requests import is_judged, nonzero_request
from dispatcher.scheduling.rules.room import MOST_TOLD, lacking_codes
from dispatcher.scheduling.rules.whole import EXACT, percent, plus
from shared.model.node import Node
from shared.model.pod import Pod
from shared.model.reasons import Reasons
from shared.model.resources import CPU, MEMORY, PODS, is_extended

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
RATIO: Final = "RequestedToCapacityRatio"
_NONZERO = (CPU, MEMORY)  # rows of fleet.nodes.nonzero


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A point of the shape."""

    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


_points = rows_of(Point)


def _shape(raw: object) -> tuple[Point, ...]:
    """[{utilization: 0..100, score: 0..10}, ...] with rising utilization."""
    points: tuple[Point, ...] = _points(raw)
    if not points:
        raise ValueError("must be a list of one point at least")
    if any(left.utilization >= right.utilization for left, right in pairwise(points)):
        raise ValueError("utilization must rise from point to point")
    return points


def _groups(raw: object) -> tuple[str, ...]:
    groups = texts(raw)
    slashed = next((group for group in groups if "/" in group), None)
    if slashed is not None:
        raise ValueError(f"a group is what stands before the slash: {shown(slashed)} holds one")
    return groups


@dataclass(frozen=True)
class _Asked:
    """What one pod class asks for: (resource, amount) to have room for, and the pod.

    `sized`: of each cluster that makes the pod larger its index, and what must have room there.
    """

    pod: Pod
    wanted: tuple[tuple[str, int], ...]
    sized: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()


class FitArgs(Args):
    """How free room is scored, and what needs none."""

    strategy: Annotated[
        Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"],
        Meta(description=f"{LEAST}, {MOST} or {RATIO}"),
    ] = LEAST
    resources: Annotated[
        tuple[tuple[str, int], ...],
        Meta(description="weight (1-100) of each resource in the mean", extra=RESOURCE_WEIGHTS),
    ] = ((CPU, 1), (MEMORY, 1))
    shape: Annotated[
        tuple[Point, ...],
        Meta(
            description=f"points {{utilization %, score 0-10}} for {RATIO}",
            extra=read_by(_shape, Annotated[list[Point], Meta(min_length=1)]),
        ),
    ] = (Point(0, 0), Point(100, 10))
    ignored_resources: Annotated[
        tuple[str, ...], Meta(description="extended resources that need no room")
    ] = ()
    ignored_resource_groups: Annotated[
        tuple[str, ...],
        Meta(
            description="the same for all of a group: what stands before the slash",
            extra=read_by(_groups, list[Annotated[str, Meta(pattern="^[^/]+$")]]),
        ),
    ] = ()


class NodeResourcesFit(RoomFilter[_Asked], Score[_Asked]):
    """Filter on room, score by strategy."""

    name: ClassVar[str] = "NodeResourcesFit"
    REASONS = (
        Reasons.INSUFFICIENT,
        Reasons.TOO_MANY_PODS,
    )
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(
        self,
        strategy: str,
        resources: tuple[tuple[str, int], ...],
        shape: tuple[Point, ...],
        ignored_resources: tuple[str, ...] = (),
        ignored_resource_groups: tuple[str, ...] = (),
    ) -> None:
        self._strategy = strategy
        self._resources = resources
        self._values = np.asarray(
            [_broken_line(shape, utilisation) for utilisation in range(101)], dtype=np.float64
        )
        self._ignored = frozenset(ignored_resources)
        self._groups = frozenset(ignored_resource_groups)

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps nobody if it can allocate no more of anything."""
        return node_change_helps(event, _has_more_room)

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if the pod would fit it were it empty; one that
        changed, only if it can allocate more of what the pod asks for.
        """
        before = event.before
        node = event.after
        if not isinstance(node, Node):
            return True
        wanted = self._wanted(pod_info.pod)
        has = node.allocatable
        if isinstance(before, Node) and not any(
            has.get(name, 0) > before.allocatable.get(name, 0) for name, _ in wanted
        ):
            return False
        return all(amount <= has.get(name, 0) for name, amount in wanted)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The requests that are not zero, what the pod is expected to use, and where it becomes
        larger.
        """
        asked = frozenset({item for item in pod_info.pod.requests.items() if item[1]})
        return asked, nonzero_request(pod_info.pod), pod_info.sizes

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _Asked | Refuse | Skip:
        """What must have room: one pod, and what is requested and not ignored; in each cluster by
        the true size.
        """
        sizes = {one.cluster for one in pod_info.sizes}
        infos = enumerate(fleet.clusters) if sizes else ()
        sized = [
            (at, self._wanted(pod_info.at(info.name).pod))
            for at, info in infos
            if info.name in sizes
        ]
        return _Asked(pod_info.pod, self._wanted(pod_info.pod), tuple(sized))

    def _wanted(self, pod: Pod) -> tuple[tuple[str, int], ...]:
        requests = pod.requests.items()
        wanted = [one for one in requests if one[1] and one[0] != PODS and self._counts(one[0])]
        return ((PODS, 1), *wanted)

    def _counts(self, resource: str) -> bool:
        if not self._ignored and not self._groups:
            return True
        ignored = resource in self._ignored or resource.partition("/")[0] in self._groups
        return not (ignored and is_extended(resource))

    # --- room
    # ----------------------------------------------------------------------------------------------

    def filter(self, state: _Asked, fleet: FleetView, rows: Rows) -> Codes:
        """TOO_MANY_PODS and INSUFFICIENT for each resource that lacks, as one code."""
        codes = lacking_codes(state.wanted, fleet, rows)
        for cluster, wanted in state.sized:
            there = fleet.nodes.cluster[rows] == cluster
            if there.any():
                np.copyto(codes, lacking_codes(wanted, fleet, rows), where=there)
        return codes

    def wants(self, state: _Asked) -> Sequence[tuple[str, int]] | None:
        """What must have room, unless it is more than is told apart, or not the same everywhere."""
        return state.wanted if len(state.wanted) <= MOST_TOLD and not state.sized else None

    # --- strategies
    # ----------------------------------------------------------------------------------------------

    def score(self, state: _Asked, fleet: FleetView, rows: Rows) -> Floats:
        """The strategy's mean, a whole number 0..100."""
        pod = state.pod
        if _two.fast is not None and self._strategy != RATIO and len(self._resources) == 2:
            return self._score_two(pod, fleet, rows)
        return self._score_any(pod, fleet, rows)

    def _score_two(self, pod: Pod, fleet: FleetView, rows: Rows) -> Floats:
        columns: list[Any] = []
        for name, weight in self._resources:
            column = fleet.axis.column(name)
            asked = _expected(pod, name)
            if column is None or not is_judged(name, asked) or asked >= EXACT:
                return self._score_any(pod, fleet, rows)
            used = (
                fleet.nodes.nonzero[_NONZERO.index(name)]
                if name in _NONZERO
                else fleet.nodes.requested[column]
            )
            columns += [fleet.nodes.allocatable[column][rows], used[rows], asked, float(weight)]
        scores = np.empty(len(columns[0]))
        if not _two.fast(*columns, self._strategy == MOST, scores):
            return self._score_any(pod, fleet, rows)
        return scores

    def _score_any(self, pod: Pod, fleet: FleetView, rows: Rows) -> Floats:
        total = np.zeros(len(fleet.nodes.live[rows]))
        weights: Floats = np.zeros(1)
        for name, weight in self._resources:
            column = fleet.axis.column(name)
            asked = _expected(pod, name)
            if column is None or not is_judged(name, asked):
                continue
            allocatable = fleet.nodes.allocatable[column][rows]
            value = self._value(_with_pod(fleet, rows, column, name, asked), allocatable)
            share = np.full(1, float(weight))
            if self._strategy == RATIO or not allocatable.all():
                share = weight * (
                    (allocatable > 0) & ((value > 0) | (self._strategy != RATIO))
                ).astype(np.float64)
            total += value * share
            weights = weights + share
        mean = np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)
        whole: Floats = np.floor(mean + 0.5 if self._strategy == RATIO else mean)
        return whole

    def _value(self, requested: Ints, allocatable: Ints) -> Floats:
        full = requested > allocatable
        if self._strategy == LEAST:
            return np.where(full, 0.0, percent(allocatable - requested, allocatable))
        used = np.where(full, 100.0, percent(requested, allocatable))
        return used if self._strategy == MOST else self._values[used.astype(np.intp)]


def _has_more_room(before: Node, after: Node) -> bool:
    return any(
        amount > before.allocatable.get(name, 0) for name, amount in after.allocatable.items()
    )


def _broken_line(shape: Sequence[Point], utilisation: int) -> int:
    """The value 0..100 of a shape at a whole percentage; divisions drop the fraction, toward zero."""
    low = shape[0]
    for high in shape:
        if utilisation <= high.utilization:
            if high is low:
                return high.score * 10
            rise = (high.score - low.score) * 10 * (utilisation - low.utilization)
            step = abs(rise) // (high.utilization - low.utilization)
            return low.score * 10 + (step if rise >= 0 else -step)
        low = high
    return low.score * 10


@kernel("ints ints int float ints ints int float int out")
def _two(  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    all0, used0, asked0, weight0, all1, used1, asked1, weight1, most, scores
):
    """The mean of two resources, least or `most` allocated; 0 where a quantity is too great for
    exact floats.
    """
    worth_full = 100.0 if most else 0.0
    great = 0
    for row in range(len(scores)):
        whole0 = all0[row]
        whole1 = all1[row]
        great |= (
            (whole0 >= EXACT) | (whole1 >= EXACT) | (used0[row] >= EXACT) | (used1[row] >= EXACT)
        )
        left0 = whole0 - used0[row] - asked0
        left1 = whole1 - used1[row] - asked1
        part0 = whole0 - left0 if most else left0
        part1 = whole1 - left1 if most else left1
        value0 = worth_full if left0 < 0 else np.floor(100.0 * part0 / max(whole0, 1))
        value1 = worth_full if left1 < 0 else np.floor(100.0 * part1 / max(whole1, 1))
        share0 = weight0 if whole0 > 0 else 0.0
        share1 = weight1 if whole1 > 0 else 0.0
        share = share0 + share1
        scores[row] = np.floor((value0 * share0 + value1 * share1) / (share if share > 0 else 1.0))
    return 0 if great else 1


def _expected(pod: Pod, resource: str) -> int:
    if resource in _NONZERO:
        return nonzero_request(pod)[_NONZERO.index(resource)]
    return pod.requests.get(resource, 0)


def _with_pod(fleet: FleetView, rows: Rows, column: int, resource: str, asked: int) -> Ints:
    if resource in _NONZERO:
        return plus(fleet.nodes.nonzero[_NONZERO.index(resource)][rows], asked)
    return plus(fleet.nodes.requested[column][rows], asked)
