"""Why a pod went where it went, or nowhere: captured as a few numbers when it is decided, made words when asked.

The record of a decision (plain JSON values):
    pod {namespace, name, uid}, home, time, profile, outcome "scheduled",
    decision {cluster, node, score}, runner_up {cluster, node, score} or null, margin (null without a runner-up),
    scores {plugin: {raw, normalized, weight, weighted, runner_up_weighted}}, and for a plugin that read live load of
        the chosen node also signals [name],
    rejected [{reason, cluster, count}], feasible, evaluated,
    readings {signal: {used, age_s, source} or "unknown"} of the chosen node,
    extras {plugin: its own numbers}, refusals [{cluster, message, ago_s, again_in_s}] (see model.refusal).
The record of a refusal: pod, home, time, profile, outcome "unschedulable", message, clusters {name: message},
    nominated {cluster, node} or null, victims [{pod, cluster, node}], rejected, feasible 0, evaluated, refusals.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dispatcher.model.pod import PodId
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.fleet.row import PastRows, RowFacts
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.cycle_state import CycleState
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.points import ExplainingPlugin, ExplainsRows
from dispatcher.scheduling.records.decision_record import DecisionContext, DecisionRecord
from dispatcher.scheduling.records.messages import no_place_message


class Decision(msgspec.Struct, gc=False, eq=False):
    """A pod and its place. `why`: why there.

    `extras` are what plugins noted at once.
    `waits`: Permit plugins that want the place held before it is acted on, and for how many seconds at most.
    `cycle`: what plugins keep for the points after the decision.
    """

    pod_id: PodId
    placed: Placed
    cluster: str
    node: str
    row: int
    score: float
    why: DecisionRecord
    extras: dict[str, Any] = msgspec.field(default_factory=dict)
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    cycle: CycleState | None = None

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
        where, rival = f"{self.cluster}/{self.node} score {self.score:.1f}", self.runner_up
        (feasible, evaluated), refused = self.why.fit, _refused(self.placed)
        if rival is None:
            return f"{where}, the only one of {evaluated} nodes that fits{refused}"
        cluster, node, score = rival
        return f"{where}, next {cluster}/{node} {score:.1f}, {feasible} of {evaluated} nodes fit{refused}"


@dataclass(slots=True)
class Unschedulable:
    """A pod without a place: `message` for the fleet, `per_cluster` for each cluster, `reasons` without arguments.

    `nominated`: (cluster, node) that it is promised, once `victims` are evicted; `displaced` lost their promise to it.
    """

    pod_id: PodId
    placed: Placed
    message: str
    reasons: frozenset[Reason]
    time: float
    context: DecisionContext
    per_cluster: dict[str, str] = field(default_factory=dict)
    nominated: tuple[str, str] | None = None
    victims: tuple[Victim, ...] = ()
    displaced: tuple[PodId, ...] = ()

    def again(self, pod_id: PodId, placed: Placed, time: float) -> "Unschedulable":
        """The same refusal of another pod of the class."""
        return Unschedulable(
            pod_id, placed, self.message, self.reasons, time, self.context, self.per_cluster, self.nominated
        )

    @property
    def full_message(self) -> str:
        """The message with what clusters refused the pod for: the same words as long as nothing changes."""
        return self.message + _refused(self.placed)

    def record(self) -> dict[str, Any]:
        """The explain record, JSON-ready (see the module)."""
        return {
            **_about(self.placed, self.time, self.context.profile),
            "outcome": "unschedulable",
            "message": self.full_message,
            "clusters": self._clusters(),
            "nominated": dict(zip(("cluster", "node"), self.nominated, strict=True)) if self.nominated else None,
            "victims": [{"pod": one.placed.pod.key, "cluster": one.cluster, "node": one.node} for one in self.victims],
            "rejected": self.context.rejected_rows(),
            "feasible": self.context.feasible,
            "evaluated": self.context.evaluated,
        }

    def _clusters(self) -> dict[str, str]:
        home, refused = self.placed.home, self.placed.refused
        return {
            name: "; ".join((text, *(one.text for one in refused if one.concerns(name, home) and not one.over)))
            for name, text in self.per_cluster.items()
        }

    def summary(self) -> str:
        """One line of why."""
        return self.full_message


def _refused(placed: Placed) -> str:
    return "".join(f"; {one.text}" for one in placed.refused if not one.over)


def _about(placed: Placed, time: float, profile: str) -> dict[str, Any]:
    pod = placed.pod
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "home": placed.home,
        "time": time,
        "profile": profile,
        "refusals": [one.record(time) for one in placed.refused if not one.over],
    }


def records_of(decisions: Iterable[Decision]) -> Iterator[dict[str, Any]]:
    """The record of each. Those of one batch that stand together, in the order in which they were taken, are put
    together from columns; what is the same for several stands in each of them as one object.
    """
    for _, batch in itertools.groupby(decisions, lambda one: id(one.why.batch)):
        yield from _records(list(batch))


def _records(batch: Sequence[Decision]) -> Iterator[dict[str, Any]]:
    contexts, facts, extras = batch[0].why.parts([one.why for one in batch])
    names, signals = batch[0].why.fleet.signal_axis.names, facts.signals
    columns = (one.T.tolist() for one in (signals.used, signals.mean, signals.used_at))
    seen = zip(*columns, facts.sources, strict=True)
    shown: tuple[DecisionContext | None, list[dict[str, Any]]] = None, []
    for one, context, extra, readings, told in zip(batch, contexts, extras, seen, _told(batch, facts), strict=True):
        if context is not shown[0]:
            shown = context, context.rejected_rows()
        yield _record(one, context, shown[1], {**one.extras, **extra}, _readings(names, one.time, *readings), told)


def _record(
    one: Decision,
    context: DecisionContext,
    rejected: list[dict[str, Any]],
    extras: dict[str, Any],
    readings: dict[str, Any],
    told: "_Told",
) -> dict[str, Any]:
    rival, scores = one.runner_up, one.why.scores.record()
    for name, signals in told.signals.items():
        if signals and name in scores:
            scores[name]["signals"] = signals
    return {
        **_about(one.placed, one.time, context.profile),
        "outcome": "scheduled",
        "decision": {"cluster": one.cluster, "node": one.node, "score": one.score},
        "runner_up": dict(zip(("cluster", "node", "score"), rival, strict=True)) if rival else None,
        "margin": one.score - rival[2] if rival else None,
        "scores": scores,
        "rejected": rejected,
        "feasible": context.feasible,
        "evaluated": context.evaluated,
        "readings": readings,
        "extras": {**extras, **told.extras},
    }


class _Told(NamedTuple):
    """By plugin what it says of the chosen row, and of which signals it read there."""

    extras: dict[str, Any]
    signals: dict[str, list[str]]


def _told(batch: Sequence[Decision], facts: RowFacts) -> list[_Told]:
    fleet = batch[0].why.fleet
    found, rows = [_Told({}, {}) for _ in batch], PastRows(fleet, facts)
    alone = [rows] if len(batch) == 1 else None
    for plugin, state in batch[0].why.row_explainers:
        said = _at_once(plugin, state, batch[0].placed, rows)
        if said is None:
            alone = alone or [PastRows(fleet, facts.alone(place)) for place in range(len(batch))]
            said = [_one_row(plugin, state, one.placed, row) for one, row in zip(batch, alone, strict=True)]
        for told, (extra, signals) in zip(found, said, strict=True):
            told.extras[plugin.name], told.signals[plugin.name] = extra, signals
    return found


def _at_once(
    plugin: ExplainingPlugin, state: object, placed: Placed, rows: PastRows
) -> list[tuple[object, list[str]]] | None:
    """What a plugin says of all rows, if it can be asked so."""
    if not isinstance(plugin, ExplainsRows):
        return None
    rows.signals.asked.clear()
    try:
        said = plugin.explain_rows(state, placed, rows, np.arange(rows.n))
    except Exception:  # asked row by row, it fails for those that it fails for
        return None
    signals = list(rows.signals.asked)
    return [(one, signals) for one in said] if len(said) == rows.n else None


def _one_row(plugin: ExplainingPlugin, state: object, placed: Placed, row: PastRows) -> tuple[object, list[str]]:
    row.signals.asked.clear()
    try:
        said = plugin.explain(state, placed, row, 0)
    except Exception as error:  # a decision stands without its comments, too
        said = {"error": f"{type(error).__name__}: {error}"[:200]}
    return said, list(row.signals.asked)


def _readings(
    names: Sequence[str],
    now: float,
    used: Sequence[float],
    means: Sequence[float],
    used_at: Sequence[float],
    sources: Mapping[str, str],
) -> dict[str, Any]:
    return {
        name: {"used": share, "mean": mean, "age_s": max(now - sampled_at, 0.0), "source": sources.get(name, "")}
        if math.isfinite(share) and math.isfinite(sampled_at)
        else "unknown"
        for name, share, mean, sampled_at in zip(names, used, means, used_at, strict=False)
    }


def no_place(
    pod_id: PodId, placed: Placed, time: float, context: DecisionContext, nodes: Mapping[str, int]
) -> Unschedulable:
    """No node is left: why, for the fleet and for each cluster. `nodes`: live nodes per cluster."""
    counts = context.counts()
    by_cluster: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    whole: Counter[str] = Counter()
    for (cluster, why), count in counts.items():
        whole[why.text] += count
        by_cluster[cluster][why.text] += count
    return Unschedulable(
        pod_id,
        placed,
        no_place_message(context.evaluated, whole),
        frozenset(why.reason for _, why in counts),
        time,
        context,
        {name: no_place_message(nodes[name], texts) for name, texts in by_cluster.items()},
    )
