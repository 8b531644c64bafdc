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

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dispatcher.model.pod import PodId
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.fleet.row import OneRow, RowFacts
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.cycle_state import CycleState
from dispatcher.scheduling.framework.lifecycle import Victim
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
        why, rival = self.why, self.runner_up
        facts = why.facts
        row_extras, signals = self._row_extras(facts)
        scores = why.scores.record()
        return {
            **_about(self.placed, why.time, why.context.profile),
            "outcome": "scheduled",
            "decision": {"cluster": self.cluster, "node": self.node, "score": self.score},
            "runner_up": dict(zip(("cluster", "node", "score"), rival, strict=True)) if rival else None,
            "margin": self.margin,
            "scores": {
                name: {**numbers, "signals": signals[name]} if signals.get(name) else numbers
                for name, numbers in scores.items()
            },
            "rejected": why.context.rejected_rows(),
            "feasible": why.context.feasible,
            "evaluated": why.context.evaluated,
            "readings": {
                name: _reading(seen, mean, why.time, facts.sources.get(name, ""))
                for name, seen, (mean, _) in zip(why.fleet.signal_axis.names, facts.readings, facts.means, strict=False)
            },
            "extras": {**self.extras, **why.extras(), **row_extras},
        }

    def _row_extras(self, facts: RowFacts) -> tuple[dict[str, Any], dict[str, list[str]]]:
        """By plugin what it says of the row, and of which signals it read there."""
        row, extras, signals = OneRow(self.why.fleet, facts), dict[str, Any](), dict[str, list[str]]()
        for plugin, state in self.why.row_explainers:
            row.signals.asked.clear()
            try:
                extras[plugin.name] = plugin.explain(state, self.placed, row, 0)
            except Exception as error:  # a decision stands without its comments, too
                extras[plugin.name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            signals[plugin.name] = list(row.signals.asked)
        return extras, signals

    def summary(self) -> str:
        """One line of why."""
        where, context, rival = f"{self.cluster}/{self.node} score {self.score:.1f}", self.context, self.runner_up
        refused = _refused(self.placed)
        if rival is None:
            return f"{where}, the only one of {context.evaluated} nodes that fits{refused}"
        cluster, node, score = rival
        return (
            f"{where}, next {cluster}/{node} {score:.1f}, {context.feasible} of {context.evaluated} nodes fit{refused}"
        )


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
            name: "; ".join((text, *(one.text for one in refused if one.concerns(name, home))))
            for name, text in self.per_cluster.items()
        }

    def summary(self) -> str:
        """One line of why."""
        return self.full_message


def _refused(placed: Placed) -> str:
    return "".join(f"; {one.text}" for one in placed.refused)


def _about(placed: Placed, time: float, profile: str) -> dict[str, Any]:
    pod = placed.pod
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "home": placed.home,
        "time": time,
        "profile": profile,
        "refusals": [one.record(time) for one in placed.refused],
    }


def _reading(seen: tuple[float, float], mean: float, now: float, source: str) -> dict[str, Any] | str:
    used, sampled_at = seen
    if not (math.isfinite(used) and math.isfinite(sampled_at)):
        return "unknown"
    return {"used": used, "mean": mean, "age_s": max(now - sampled_at, 0.0), "source": source}


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
