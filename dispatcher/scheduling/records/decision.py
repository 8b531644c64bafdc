"""Why a pod went where it went, or nowhere: captured as a few numbers when it is decided, made
words when asked.

The record of a decision (plain JSON values):
    pod {namespace, name, uid}, home, time, profile, outcome "scheduled", decision {cluster, node,
    score}, runner_up {cluster, node, score} or null, margin (null without a runner-up), scores
    {plugin: {raw, normalized, weight, weighted, runner_up_weighted}}, and for a plugin that read
    live load of the chosen node also signals [name], rejected [{reason, cluster, count}], feasible,
    evaluated, readings {signal: {used, mean, age_s, source} or "unknown"} of the chosen node,
    extras {plugin: its own numbers}, refusals [{cluster, message, ago_s, again_in_s}] (see
    model.refusal). Of a pod that was decided in a batch also batch {place, of}: it was the pod
    number `place` (from 1) `of` so many. Its score and those beside it are of its own turn; what is
    counted (rejected, feasible, evaluated, and extras that rest on more than the chosen node) is as
    it was before the first pod of the batch.
The record of a refusal: pod, home, time, profile, outcome "unschedulable", message, clusters {name:
message},
    nominated {cluster, node} or null, victims [{pod, cluster, node}], rejected, feasible 0,
    evaluated, refusals.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.row import PastRows, RowFacts
from dispatcher.scheduling.framework import Floats, PodInfo
from dispatcher.scheduling.framework.cycle_state import CycleState
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.points import ExplainingPlugin, explains_rows
from dispatcher.scheduling.framework.value_columns import (
    Column,
    Each,
    Same,
    Table,
    column_of,
    each,
    fields,
    numbers,
    picked,
    where,
)
from dispatcher.scheduling.records.decision_record import (
    DecisionContext,
    DecisionRecord,
    Place,
    ScoreColumns,
)
from dispatcher.scheduling.records.messages import no_place_message
from shared.model.pod import PodId
from shared.model.reasons import Reason

_NOTHING: Mapping[str, Any] = MappingProxyType({})
# Filled in for every bind: by % numbers are formatted faster than in an f-string.
_SUMMARY = "%s/%s score %.1f, next %s/%s %.1f, %s of %s nodes fit%s"
_ALONE = "%s/%s score %.1f, the only one of %s nodes that fits%s"


class Decision(msgspec.Struct, gc=False, eq=False):
    """A pod and its place. `why`: why there.

    `extras`: by plugin, what it explained about the place. `waits`: Permit plugins that want the
    place held before it is acted on, and for how many seconds at most. `cycle`: what plugins keep
    for the points after the decision. Most decisions have neither extras nor waits: no dict is made
    for these, of which garbage collection would know.
    """

    pod_id: PodId
    pod_info: PodInfo
    cluster: str
    node: str
    row: int
    score: float
    why: DecisionRecord
    extras: Mapping[str, Any] = _NOTHING
    waits: Mapping[str, float] = _NOTHING
    cycle: CycleState | None = None

    def note(self, plugin: str, explained: Any) -> None:
        """What a plugin explained about the place."""
        self.extras = {**self.extras, plugin: explained}

    def wait(self, plugin: str, seconds: float) -> None:
        """A Permit plugin wants the place held for so long at most."""
        self.waits = {**self.waits, plugin: seconds}

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.why.time

    @property
    def context(self) -> DecisionContext:
        """What it stood on."""
        return self.why.context

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best node; None if there is no other."""
        return self.why.runner_up

    @property
    def margin(self) -> float | None:
        """By how much the place beat the runner-up; None if it was the only one."""
        rival = self.runner_up
        return self.score - rival[2] if rival else None

    def record(self) -> dict[str, Any]:
        """The explain record, JSON-ready (see the module)."""
        return next(records_of([self]))

    def summary(self) -> str:
        """One line of why."""
        rival = self.why.runner_up
        context = self.why.context
        refused = _refused(self.pod_info) if self.pod_info.refused else ""
        place = self.cluster, self.node, self.score
        if rival is None:
            return _ALONE % (*place, context.evaluated, refused)
        return _SUMMARY % (*place, *rival, context.feasible, context.evaluated, refused)


class Unschedulable(msgspec.Struct):
    """A pod without a place: `message` for the fleet, `per_cluster` for each cluster, `reasons`
    without arguments.

    `nominated`: (cluster, node) that it is promised, once `victims` are evicted; `displaced` lost
    their promise to it. `absent`: resources that it wants and no node has, where their reasons have
    no code of their own. `hints`: what plugins add to the message, and what is said of node groups.
    `beyond_home`: it is certain that no new node of its own cluster is large enough. `waits_until`:
    until then it evicts nobody, as such a node may come.
    """

    pod_id: PodId
    pod_info: PodInfo
    message: str
    reasons: frozenset[Reason]
    time: float
    context: DecisionContext
    per_cluster: dict[str, str] = msgspec.field(default_factory=dict)
    nominated: tuple[str, str] | None = None
    victims: tuple[Victim, ...] = ()
    displaced: tuple[PodId, ...] = ()
    absent: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    beyond_home: bool = False
    waits_until: float | None = None

    def again(self, pod_id: PodId, pod_info: PodInfo, time: float) -> "Unschedulable":
        """The same refusal of another pod of the class."""
        same = Unschedulable(
            pod_id, pod_info, self.message, self.reasons, time, self.context, self.per_cluster
        )
        same.nominated = self.nominated
        same.absent = self.absent
        same.hints = self.hints
        same.beyond_home = self.beyond_home
        same.waits_until = self.waits_until
        return same

    @property
    def full_message(self) -> str:
        """The message with hints, and what clusters refused the pod for: the same words as long as
        nothing changes.
        """
        more = "".join([f"; {hint}" for hint in self.hints]) + _refused(self.pod_info)
        return self.message.removesuffix(".") + more if more else self.message

    def record(self) -> dict[str, Any]:
        """The explain record, JSON-ready (see the module)."""
        return {
            **_about(self.pod_info, self.time, self.context.profile),
            "outcome": "unschedulable",
            "message": self.full_message,
            "clusters": self._clusters(),
            "nominated": dict(zip(("cluster", "node"), self.nominated, strict=True))
            if self.nominated
            else None,
            "victims": [
                {"pod": one.pod_info.pod.key, "cluster": one.cluster, "node": one.node}
                for one in self.victims
            ],
            "rejected": self.context.rejected_rows(self.absent),
            "feasible": self.context.feasible,
            "evaluated": self.context.evaluated,
        }

    def _clusters(self) -> dict[str, str]:
        home = self.pod_info.home
        refused = self.pod_info.refused
        told = {
            name: "".join(
                [f"; {one.text}" for one in refused if one.concerns(name, home) and not one.over]
            )
            for name in self.per_cluster
        }
        return {
            name: text.removesuffix(".") + told[name] if told[name] else text
            for name, text in self.per_cluster.items()
        }

    def summary(self) -> str:
        """One line of why."""
        return self.full_message


def _refused(pod_info: PodInfo) -> str:
    return (
        "".join([f"; {one.text}" for one in pod_info.refused if not one.over])
        if pod_info.refused
        else ""
    )


def _about(pod_info: PodInfo, time: float, profile: str) -> dict[str, Any]:
    pod = pod_info.pod
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "home": pod_info.home,
        "time": time,
        "profile": profile,
        "refusals": [one.record(time) for one in pod_info.refused if not one.over],
    }


def records_of(decisions: Iterable[Decision]) -> Iterator[dict[str, Any]]:
    """The record of each; what is the same for several may stand in each of them as one object."""
    for table in tables_of(decisions):
        yield from table.rows()


def tables_of(decisions: Iterable[Decision]) -> Iterator[Table]:
    """The records of those of one batch that stand together, in the order in which they were taken,
    as one table.
    """
    for _, batch in itertools.groupby(decisions, lambda one: id(one.why.batch)):
        found = list(batch)
        yield Table(len(found), _column(found))


def _column(batch: Sequence[Decision]) -> Column:
    first = batch[0]
    parts = batch[0].why.parts([one.why for one in batch])
    context = parts.context
    explained = _explain(batch, parts.facts)
    names = first.why.fleet.signal_axis.names
    scores = np.asarray([one.score for one in batch])
    has_rival = numbers(np.asarray([one is not None for one in parts.rivals]))
    return fields(
        {
            **_pods(batch),
            "time": Same(first.time),
            "profile": Same(context.profile),
            "refusals": each(_refusals(batch)),
            "outcome": Same("scheduled"),
            "decision": _place([one.cluster for one in batch], [one.node for one in batch], scores),
            **_rivals(has_rival, parts.rivals, scores),
            "scores": _scores(has_rival, parts.scores, explained.signals),
            "rejected": Same(context.rejected_rows()),
            "feasible": Same(context.feasible),
            "evaluated": Same(context.evaluated),
            "readings": _readings(names, first.time, parts.facts),
            "extras": _extras([one.extras for one in batch], {**parts.extras, **explained.extras}),
            **_batch(parts.place),
        }
    )


def _batch(place: Place | None) -> dict[str, Column]:
    return (
        {"batch": fields({"place": numbers(place.places), "of": Same(place.of)})} if place else {}
    )


def _extras(noted: Sequence[Mapping[str, Any]], others: Mapping[str, Column]) -> Column:
    """What was noted of each, by plugin, and one column a plugin for all."""
    names = tuple(noted[0])
    if any(tuple(one) != names for one in noted):
        rows = fields(others).values(len(noted))
        return each([{**one, **row} for one, row in zip(noted, rows, strict=True)])
    return fields({**{name: each([one[name] for one in noted]) for name in names}, **others})


def _pods(batch: Sequence[Decision]) -> dict[str, Column]:
    pods = [one.pod_info.pod for one in batch]
    columns = {
        "namespace": picked([pod.namespace for pod in pods]),
        "name": each([pod.name for pod in pods]),
        "uid": each([pod.uid for pod in pods]),
    }
    return {"pod": fields(columns), "home": picked([one.pod_info.home for one in batch])}


def _refusals(batch: Sequence[Decision]) -> list[list[dict[str, Any]]]:
    nothing = list[dict[str, Any]]()
    now = batch[0].time
    refused = (one.pod_info.refused for one in batch)
    return [
        [one.record(now) for one in some if not one.over] if some else nothing for some in refused
    ]


def _place(clusters: Sequence[str], nodes: Sequence[str], scores: Floats) -> Column:
    return fields({"cluster": picked(clusters), "node": picked(nodes), "score": numbers(scores)})


def _rivals(
    has: Column, rivals: Sequence[tuple[str, str, float] | None], scores: Floats
) -> dict[str, Column]:
    clusters, nodes, points = zip(*(one or _NOBODY for one in rivals), strict=True)
    found = np.asarray(points)
    return {
        "runner_up": where(has, _place(clusters, nodes, found), Same(None)),
        "margin": where(has, numbers(scores - found), Same(None)),
    }


_NOBODY = ("", "", 0.0)


def _scores(
    has_rival: Column, columns: ScoreColumns, signals: Mapping[str, Sequence[Sequence[str]]]
) -> Column:
    names, weights, raw, normalized, runner_up = columns
    factors = np.asarray(weights, dtype=np.float64)[:, None]
    found = dict[str, Column]()
    shown = zip(
        names, weights, raw, normalized, factors * normalized, factors * runner_up, strict=True
    )
    for name, weight, given, value, weighted, rival in shown:
        by_kind = {
            "raw": numbers(given),
            "normalized": numbers(value),
            "weight": Same(weight),
            "weighted": numbers(weighted),
            "runner_up_weighted": where(has_rival, numbers(rival), Same(None)),
        }
        found[name] = _with_signals(by_kind, signals.get(name, [()]), raw.shape[1])
    return fields(found)


def _with_signals(
    columns: dict[str, Column], signals: Sequence[Sequence[str]], count: int
) -> Column:
    """`signals`: of each decision, or one for all."""
    if all(one == signals[0] for one in signals):
        return fields(columns | ({"signals": Same(signals[0])} if signals[0] else {}))
    rows = zip(fields(columns).values(count), signals, strict=True)
    return Each([row | ({"signals": one} if one else {}) for row, one in rows])


class _Explanations(NamedTuple):
    """By plugin what it explains of the chosen rows, and which signals it read there (of each row,
    or one for all).
    """

    extras: dict[str, Column]
    signals: dict[str, Sequence[Sequence[str]]]


def _explain(batch: Sequence[Decision], facts: RowFacts) -> _Explanations:
    fleet = batch[0].why.fleet
    found = _Explanations({}, {})
    rows = PastRows(fleet, facts)
    alone = [rows] if len(batch) == 1 else None
    for plugin, state in batch[0].why.row_explainers:
        explained = _at_once(plugin, state, batch[0].pod_info, rows)
        if explained is None:
            alone = alone or [PastRows(fleet, facts.alone(place)) for place in range(len(batch))]
            each_explained = [
                _one_row(plugin, state, one.pod_info, row)
                for one, row in zip(batch, alone, strict=True)
            ]
            explained = (
                each([one for one, _ in each_explained]),
                [signals for _, signals in each_explained],
            )
        found.extras[plugin.name], found.signals[plugin.name] = explained
    return found


def _at_once(
    plugin: ExplainingPlugin, state: object, pod_info: PodInfo, rows: PastRows
) -> tuple[Column, Sequence[Sequence[str]]] | None:
    """What a plugin says of all rows, if it can be asked so."""
    if not explains_rows(plugin):
        return None
    rows.signals.asked.clear()
    try:
        explained = plugin.explain_rows(state, pod_info, rows, np.arange(rows.n))
    except Exception:  # asked row by row, it fails for those that it fails for
        return None
    if isinstance(explained, Sequence) and len(explained) != rows.n:
        return None
    return column_of(explained), [list(rows.signals.asked)]


def _one_row(
    plugin: ExplainingPlugin, state: object, pod_info: PodInfo, row: PastRows
) -> tuple[object, list[str]]:
    row.signals.asked.clear()
    try:
        explained = plugin.explain(state, pod_info, row, 0)
    except Exception as error:  # a decision stands without its comments, too
        explained = {"error": f"{type(error).__name__}: {error}"[:200]}
    return explained, list(row.signals.asked)


def _readings(names: Sequence[str], now: float, facts: RowFacts) -> Column:
    signals = facts.signals
    found = dict[str, Column]()
    unknown = Same("unknown")
    known = np.isfinite(signals.used) & np.isfinite(signals.used_at)
    ages = np.maximum(now - signals.used_at, 0.0)
    for name, is_known, used, mean, age in zip(
        names, known, signals.used, signals.mean, ages, strict=False
    ):
        shown = {
            "used": numbers(used),
            "mean": numbers(mean),
            "age_s": numbers(age),
            "source": picked([one.get(name, "") for one in facts.sources]),
        }
        found[name] = where(numbers(is_known), fields(shown), unknown)
    return fields(found)


def no_place(
    pod_id: PodId,
    pod_info: PodInfo,
    time: float,
    context: DecisionContext,
    nodes: Mapping[str, int],
    absent: tuple[str, ...] = (),
) -> Unschedulable:
    """No node is left: why, for the fleet and for each cluster. `nodes`: live nodes per cluster."""
    counts = context.counts(absent)
    by_cluster: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    whole: Counter[str] = Counter()
    for (cluster, why), count in counts.items():
        whole[why.text] += count
        by_cluster[cluster][why.text] += count
    return Unschedulable(
        pod_id,
        pod_info,
        no_place_message(context.evaluated, whole),
        frozenset(why.reason for _, why in counts),
        time,
        context,
        {name: no_place_message(nodes[name], texts) for name, texts in by_cluster.items()},
        absent=absent,
    )
