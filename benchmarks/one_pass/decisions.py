"""The decision of the default profile for one pod by one pass, and what it stands on.

It can decide pods of which beside the plugins whose answers rest on nodes alone only
NodeResourcesFit, ExpectedLoad and FaultDomainSpread with soft constraints have something to say;
others are a NotAskedError.
"""

from collections.abc import Hashable
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.one_pass.kernels import GRID, feasible_rows, two_best_rows
from dispatcher.plugins.expected_load import ExpectedLoad, _salt
from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.node_resources_fit import NodeResourcesFit
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, weighted
from dispatcher.scheduling.equivalence.partitions import Partition, partition_of
from dispatcher.scheduling.equivalence.static_answers import NO_NODE
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.domain_counts import LN
from dispatcher.scheduling.framework.roles import AnswerScope, PluginRole, roles_of
from dispatcher.scheduling.rules.load import booked, columns_of
from shared.model.topology import HOST_LEVEL

_SIGNALS = 3
_NORMALISED = 2
_FADED = -2  # what the loop answers for readings that are not fresh


class NotAskedError(Exception):
    """What this pass has no loop for."""


class Chosen(NamedTuple):
    """The two best rows with their totals (-1 and -inf where there is none), and how many rows are
    feasible.
    """

    row: int
    score: float
    second: int
    second_score: float
    feasible: int


class _Static(NamedTuple):
    """What rests on nodes alone, for pods that look alike to all such plugins."""

    codes: Any
    points: Any
    normalised: list[StaticColumn]


class OnePass:
    """Decides pods over the fleet of a scheduler; books nothing."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._fleet = scheduler.fleet
        self._plan = scheduler.plan
        roles = [
            one
            for one in roles_of(self._plan)
            if one.filter_at is not None or one.score_at is not None
        ]
        self._static_roles = [one for one in roles if one.scope is AnswerScope.NODE_OBJECT]
        self._static: dict[tuple[Hashable, ...], _Static] = {}
        self._others = [
            PluginEvaluator(one, self._fleet)
            for one in roles
            if one.scope is not AnswerScope.NODE_OBJECT
        ]
        self._partition: Partition | None = None
        self._at = -1
        self.compiled_s = 0.0  # CPU time of the last pod in compiled code
        self._first = np.empty(0, dtype=np.uint16)

    def choose(self, pod_info: PodInfo) -> Chosen:
        """The place of a pod as the fleet is now."""
        fleet = self._fleet
        fit = load = spread = None
        for evaluator in self._others:
            if evaluator.pre_filter(pod_info) is not None:
                raise NotAskedError(f"{evaluator.role.name} refuses the pod")
            if evaluator.skipped:
                continue
            plugin = evaluator.role.plugin
            if isinstance(plugin, NodeResourcesFit):
                fit = evaluator
            elif isinstance(plugin, ExpectedLoad):
                load = evaluator
            elif isinstance(plugin, FaultDomainSpread):
                spread = evaluator
            else:
                raise NotAskedError(evaluator.role.name)
        if fit is None or load is None or spread is None:
            raise NotAskedError("fit, load and soft spread all have to be asked")
        static = self._static_of(pod_info)
        return self._choose(static, fit, load, spread, fleet)

    def _static_of(self, pod_info: PodInfo) -> _Static:
        if self._at != self._fleet.changes.position:
            self._static.clear()
            self._partition = None
            self._at = self._fleet.changes.position
        key = tuple([one.plugin.class_key(pod_info) for one in self._static_roles])
        found = self._static.get(key)
        if found is None:
            found = self._static[key] = self._made(pod_info)
        return found

    def _made(self, pod_info: PodInfo) -> _Static:
        fleet = self._fleet
        codes = np.where(fleet.live, 0, NO_NODE).astype(np.uint16)
        points = np.zeros(fleet.n)
        normalised = []
        for role in self._static_roles:
            column = StaticColumn(role, fleet)
            if column.refresh(pod_info, fleet) is not None:
                raise NotAskedError(f"{role.name} refuses the pod")
            if column.skipped:
                continue
            if role.filter_at is not None:
                np.copyto(codes, column.codes[: fleet.n], where=codes == 0)
            if role.normalizes:
                normalised.append(column)
            elif role.score_at is not None:
                points += column.points_of(slice(0, fleet.n))
        if len(normalised) > _NORMALISED:
            raise NotAskedError("more than two normalised columns")
        return _Static(codes, points, normalised)

    def _values(self, static: _Static) -> list[tuple[Any, int, PluginRole | None, list[float]]]:
        found: list[tuple[Any, int, PluginRole | None, list[float]]] = [
            (np.ascontiguousarray(one.value), len(one.values), one.role, one.values)
            for one in static.normalised
        ]
        while len(found) < _NORMALISED:
            found.append((self._nothing, 1, None, [0.0]))
        return found

    def _choose(
        self,
        static: _Static,
        fit: PluginEvaluator,
        load: PluginEvaluator,
        spread: PluginEvaluator,
        fleet: Any,
    ) -> Chosen:
        n = fleet.n
        state: Any = spread.state
        soft = state.soft
        if state.hard or state.strict or not soft or soft[-1].area.level != HOST_LEVEL:
            raise NotAskedError("only the app's own defaults")
        host = soft[-1]
        if len(self._first) != n:
            self._first = np.empty(n, dtype=np.uint16)
            self._nothing = np.zeros(n, dtype=np.int32)
        if self._partition is None:
            self._partition = partition_of([one.area.domain for one in soft[:-1]])
            if self._partition is None:
                raise NotAskedError("nearly a domain a row")
        partition = self._partition
        (value0, size0, *_), (value1, size1, *_) = values = self._values(static)
        refused = np.zeros(len(fleet.clusters) * 8, dtype=np.int64)
        fewest = np.full(partition.size, np.iinfo(np.int64).max)
        most = np.full(partition.size, -1)
        seen = [np.zeros(size0, dtype=np.bool_), np.zeros(size1, dtype=np.bool_)]
        begun = thread_time()
        feasible = feasible_rows.fast(
            static.codes, fleet.cluster, *_room(fit, fleet),
            partition.group, host.area.domain, host.counts, value0, value1,
            self._first, refused, fewest, most, *seen,
        )  # fmt: skip
        self.compiled_s = thread_time() - begun
        if not feasible:
            return Chosen(-1, -np.inf, -1, -np.inf, 0)

        # FaultDomainSpread: the raw score by all domains but hosts, and the extremes of the cost
        met = most >= 0
        base = _spread_but_hosts(state, partition, met)
        host_weight = float(LN.up_to(feasible)[feasible])
        free = host.area.constraint.max_skew - 1.0
        least, largest = (
            np.floor(0.5 - (base[met] - (held[met] * host_weight + free) + 1.0))
            for held in (fewest, most)
        )
        if largest.max() <= 0.0:
            raise NotAskedError("a spread that costs nothing anywhere")
        points = [
            self._points(role, told, which)
            for (_, _, role, told), which in zip(values, seen, strict=True)
        ]
        plugin: Any = load.role.plugin
        amounts: Any = load.state
        common = booked(amounts, load.view, slice(0, n))
        args = plugin.args
        columns = [columns_of(name, common, load.view, slice(0, n)) for name, _ in args.signals]
        weights = [weight for _, weight in args.signals]
        grid_weight = load.role.weight * GRID
        begun = thread_time()
        row, score, second, second_score = two_best_rows.fast(
            *columns[0], *columns[1], *columns[2],
            np.asarray([*weights, args.points, spread.role.weight * GRID]),
            fleet.clock, args.fresh_s, args.stale_s, args.surge, args.chance,
            _salt(args.seed, fleet.clock), grid_weight,
            self._first, static.points, partition.group, host.area.domain, host.counts,
            base, host_weight, free, float(largest.max()), float(least.min()),
            value0, value1, *points,
        )  # fmt: skip
        self.compiled_s += thread_time() - begun
        if row == _FADED:
            raise NotAskedError("readings that are not fresh")
        return Chosen(row, score, second, second_score, feasible)

    def _points(self, role: PluginRole | None, told: list[float], seen: Any) -> Any:
        points = np.zeros(len(told))
        if role is not None:
            raw = np.asarray(told)[seen]
            points[seen] = weighted(np.array(role.plugin.normalize(raw)), role.weight)
        return points


def _room(fit: PluginEvaluator, fleet: Any) -> list[Any]:
    """Of each resource what can be allocated, what is requested, and what the pod wants."""
    wanted = dict(fit.role.plugin.wants(fit.state))
    found: list[Any] = []
    for resource in ("pods", "cpu", "memory"):
        column = fleet.axis.column(resource)
        found += [fleet.allocatable[column], fleet.requested[column], wanted.pop(resource, 0)]
    if wanted:
        raise NotAskedError("other resources")
    return found


def _spread_but_hosts(state: Any, partition: Partition, met: Any) -> Any:
    """[groups] the raw score of FaultDomainSpread without its last constraint, that of hosts."""
    base = np.zeros(partition.size)
    for at, one in enumerate(state.soft[:-1]):
        codes = partition.axis_codes[at]
        size = len(set(codes[met].tolist()))
        weight = float(LN.up_to(size)[size])
        counts = -(one.counts * weight + one.area.constraint.max_skew - 1.0)
        base += np.append(counts, state.elsewhere(one))[codes] - (1.0 if at == 0 else 0.0)
    return base
