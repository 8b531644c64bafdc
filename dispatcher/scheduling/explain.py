"""Why a pod went where it went, or nowhere: captured as a few numbers when it is decided, made words when asked.

The record of a decision (plain JSON values):
    pod {namespace, name, uid}, home, time, profile, outcome "scheduled",
    decision {cluster, node, score}, runner_up {cluster, node, score} or null, margin (null without a runner-up),
    scores {plugin: {raw, normalized, weight, weighted, runner_up_weighted}},
    rejected [{reason, cluster, count}], feasible, evaluated,
    readings {cpu|memory|network: {used, age_s} or "unknown"} of the chosen node,
    extras {plugin: its own numbers}, refusals [{cluster, message, ago_s, again_in_s}] (see model.refusal).
The record of a refusal: pod, home, time, profile, outcome "unschedulable", message, clusters {name: message},
    nominated {cluster, node} or null, victims [{pod, cluster, node}], rejected, feasible 0, evaluated, refusals.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dispatcher.model.reasons import Reason, ReasonTable, Why
from dispatcher.scheduling.classes.lanes import NO_BID, Bid
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.fleet.row import FactSheet, OneRow, RowFacts
from dispatcher.scheduling.framework import Floats, Placed
from dispatcher.scheduling.framework.lifecycle import CycleState, Victim
from dispatcher.scheduling.framework.points import ExplainingPlugin

if TYPE_CHECKING:
    from dispatcher.scheduling.classes.merge_account import MergeAccount

Rejected = Mapping[tuple[int, int], int]  # (reason code, cluster index) -> nodes
Notes = tuple[tuple[ExplainingPlugin, object], ...]
# Reasons about a pod that are told as they are.
_OURS = frozenset(
    (
        Reason.QUOTA,
        Reason.QUOTA_UNKNOWN,
        Reason.GATED,
        Reason.INVALID,
        Reason.PLUGIN_ERROR,
        Reason.NO_PROFILE,
        Reason.PERMIT,
        Reason.PRE_BIND,
    )
)
_SIGNALS = ("cpu", "memory", "network")


@dataclass(frozen=True, slots=True)
class Ground:
    """What a decision stood on, shared by all decisions that stood on the same."""

    profile: str
    reasons: ReasonTable
    clusters: tuple[str, ...]
    rejected: Rejected
    feasible: int
    evaluated: int

    def counts(self) -> dict[tuple[str, Why], int]:
        """(cluster, reason) -> nodes refused for it; a node that is refused for several counts in each."""
        counts: Counter[tuple[str, Why]] = Counter()
        for (code, cluster), nodes in self.rejected.items():
            for why in self.reasons.whys(code):
                counts[self.clusters[cluster], why] += nodes
        return counts

    def rejected_record(self) -> list[dict[str, Any]]:
        """Rows of {reason, cluster, count}, most nodes first."""
        counts: Counter[tuple[str, str]] = Counter()
        for (name, why), nodes in self.counts().items():
            counts[why.detail, name] += nodes
        rows = [{"reason": text, "cluster": name, "count": nodes} for (text, name), nodes in counts.items()]
        return sorted(rows, key=lambda row: (-int(str(row["count"])), str(row["reason"]), str(row["cluster"])))


class Scores(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Per score plugin of the class: name, weight, raw and normalised value of the chosen row and of the runner-up."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    raw: list[float]
    normalized: list[float]
    runner_up: list[float] | None

    def record(self) -> dict[str, dict[str, float | None]]:
        """{plugin: {raw, normalized, weight, weighted, runner_up_weighted}}."""
        rivals: Sequence[float | None] = self.runner_up or [None] * len(self.names)
        rows = zip(self.names, self.weights, self.raw, self.normalized, rivals, strict=True)
        return {
            name: {
                "raw": raw,
                "normalized": value,
                "weight": weight,
                "weighted": weight * value,
                "runner_up_weighted": None if rival is None else weight * rival,
            }
            for name, weight, raw, value, rival in rows
        }


# per score that groups of rows have in common: its place in `names`, [groups] raw and [groups] normalised values
Common = tuple[tuple[int, Floats, Floats], ...]


class Account(msgspec.Struct, gc=False, eq=False, frozen=True):
    """Why a single decision was taken: the scores, the row as it was, (cluster, node, score) of the runner-up.

    `later`: plugins that can explain it later, since they look at the chosen row alone, and their PreFilter answers.
    """

    ground: Ground
    time: float
    fleet: FleetState
    later: Notes
    scores: Scores
    facts: RowFacts
    runner_up: tuple[str, str, float] | None

    def notes(self) -> dict[str, Any]:
        """What plugins that look further than the row have to say only now; nothing, for they were asked at once."""
        return {}


@dataclass(frozen=True, slots=True)
class Batch:
    """What decisions of one batch have in common. `places`: (cluster, node) of the rows that bids are of.
    `points`: what each group of rows adds to its bids.
    """

    ground: Ground
    fleet: FleetState
    later: Notes
    sheet: FactSheet
    places: Mapping[int, tuple[str, str]]
    names: tuple[tuple[str, ...], tuple[float, ...]]
    common: Common
    points: Sequence[float]


class LateAccount(msgspec.Struct, gc=False, eq=False, frozen=True):
    """The same for a decision out of many, put together when asked for.

    `first` and `second` (NO_BID without) are the bids, `group` and `other` their groups; the chosen row had taken
    `pods` pods of the batch before.
    """

    batch: Batch
    first: Bid
    second: Bid
    pods: int
    group: int = 0
    other: int = 0

    @property
    def ground(self) -> Ground:
        """What it stood on."""
        return self.batch.ground

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.batch.sheet.now

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        return self.batch.fleet

    @property
    def later(self) -> Notes:
        """See `Account`."""
        return self.batch.later

    @property
    def facts(self) -> RowFacts:
        """The chosen row as it was."""
        return self.batch.sheet.facts(self.first[2], self.pods)

    @property
    def scores(self) -> Scores:
        """Of the chosen row and of the runner-up."""
        raw, normal = self._values(self.first, self.group)
        rival = None if self.second is NO_BID else self._values(self.second, self.other)[1]
        return Scores(*self.batch.names, raw, normal, rival)

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best."""
        bid, batch = self.second, self.batch
        return None if bid is NO_BID else (*batch.places[bid[2]], batch.points[self.other] - bid[0])

    def notes(self) -> dict[str, Any]:
        """See `Account`."""
        return {}

    def _values(self, bid: Bid, group: int) -> tuple[list[float], list[float]]:
        values, at = bid[3], bid[4]
        raw: list[float] = values[:, at].tolist()
        normal = raw.copy()
        for at, raw_of, normal_of in self.batch.common:
            raw[at], normal[at] = raw_of.item(group), normal_of.item(group)
        return raw, normal


class Decision(msgspec.Struct, gc=False, eq=False):
    """A pod and its place. `account`: why there.

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
    account: "Account | LateAccount | MergeAccount"
    extras: dict[str, Any] = msgspec.field(default_factory=dict)
    waits: dict[str, float] = msgspec.field(default_factory=dict)
    cycle: CycleState | None = None

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.account.time

    @property
    def ground(self) -> Ground:
        """What it stood on."""
        return self.account.ground

    @property
    def runner_up(self) -> tuple[str, str, float] | None:
        """(cluster, node, score) of the next best node; None if there is no other."""
        return self.account.runner_up

    @property
    def margin(self) -> float | None:
        """By how much the place beat the runner-up; None if it was the only one."""
        rival = self.runner_up
        return self.score - rival[2] if rival else None

    def record(self) -> dict[str, Any]:
        """The explain record, JSON-ready (see the module)."""
        account, rival = self.account, self.runner_up
        facts = account.facts
        return {
            **_about(self.placed, account.time, account.ground.profile),
            "outcome": "scheduled",
            "decision": {"cluster": self.cluster, "node": self.node, "score": self.score},
            "runner_up": dict(zip(("cluster", "node", "score"), rival, strict=True)) if rival else None,
            "margin": self.margin,
            "scores": account.scores.record(),
            "rejected": account.ground.rejected_record(),
            "feasible": account.ground.feasible,
            "evaluated": account.ground.evaluated,
            "readings": dict(zip(_SIGNALS, (_reading(one, account.time) for one in facts.readings), strict=True)),
            "extras": {**self.extras, **account.notes(), **self._later_extras(facts)},
        }

    def _later_extras(self, facts: RowFacts) -> dict[str, Any]:
        row, extras = OneRow(self.account.fleet, facts), {}
        for plugin, state in self.account.later:
            try:
                extras[plugin.name] = plugin.explain(state, self.placed, row, 0)
            except Exception as error:  # a decision stands without its comments, too
                extras[plugin.name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        return extras

    def summary(self) -> str:
        """One line of why."""
        where, ground, rival = f"{self.cluster}/{self.node} score {self.score:.1f}", self.ground, self.runner_up
        refused = _refused(self.placed)
        if rival is None:
            return f"{where}, the only one of {ground.evaluated} nodes that fits{refused}"
        cluster, node, score = rival
        return f"{where}, next {cluster}/{node} {score:.1f}, {ground.feasible} of {ground.evaluated} nodes fit{refused}"


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
    ground: Ground
    per_cluster: dict[str, str] = field(default_factory=dict)
    nominated: tuple[str, str] | None = None
    victims: tuple[Victim, ...] = ()
    displaced: tuple[PodId, ...] = ()

    @property
    def told(self) -> str:
        """The message with what clusters refused the pod for: the same words as long as nothing changes."""
        return self.message + _refused(self.placed)

    def record(self) -> dict[str, Any]:
        """The explain record, JSON-ready (see the module)."""
        return {
            **_about(self.placed, self.time, self.ground.profile),
            "outcome": "unschedulable",
            "message": self.told,
            "clusters": self._clusters(),
            "nominated": dict(zip(("cluster", "node"), self.nominated, strict=True)) if self.nominated else None,
            "victims": [{"pod": one.placed.pod.key, "cluster": one.cluster, "node": one.node} for one in self.victims],
            "rejected": self.ground.rejected_record(),
            "feasible": self.ground.feasible,
            "evaluated": self.ground.evaluated,
        }

    def _clusters(self) -> dict[str, str]:
        home, refused = self.placed.home, self.placed.refused
        return {
            name: "; ".join((text, *(one.text for one in refused if one.concerns(name, home))))
            for name, text in self.per_cluster.items()
        }

    def summary(self) -> str:
        """One line of why."""
        return self.told


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


def _reading(seen: tuple[float, float], now: float) -> dict[str, float] | str:
    used, sampled_at = seen
    if not (np.isfinite(used) and np.isfinite(sampled_at)):
        return "unknown"
    return {"used": used, "age_s": max(now - sampled_at, 0.0)}


_NO_NODES = "no nodes available to schedule pods"


def no_place_message(nodes: int, texts: Counter[str]) -> str:
    """kube-scheduler's sentence: '0/30 nodes are available: 12 Insufficient cpu, 18 Too many pods.'

    A node may be refused for several reasons; the parts are sorted as texts, as kube-scheduler does.
    """
    if not nodes:
        return _NO_NODES
    parts = sorted(f"{count} {text}" for text, count in texts.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}." if parts else f"0/{nodes} nodes are available."


def is_ours(why: Why) -> bool:
    """Whether kube-scheduler knows no such reason to refuse a pod as a whole."""
    return why.reason in _OURS


def refusal_message(nodes: int, why: Why) -> str:
    """The sentence for a pod that is refused as a whole: kube-scheduler's where the reason is one of its own."""
    if is_ours(why):
        return why.text
    return f"0/{nodes} nodes are available: {why.text}." if nodes else _NO_NODES


def no_place(pod_id: PodId, placed: Placed, time: float, ground: Ground, nodes: Mapping[str, int]) -> Unschedulable:
    """No node is left: why, for the fleet and for each cluster. `nodes`: live nodes per cluster."""
    counts = ground.counts()
    by_cluster: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    whole: Counter[str] = Counter()
    for (cluster, why), count in counts.items():
        whole[why.text] += count
        by_cluster[cluster][why.text] += count
    return Unschedulable(
        pod_id,
        placed,
        no_place_message(ground.evaluated, whole),
        frozenset(why.reason for _, why in counts),
        time,
        ground,
        {name: no_place_message(nodes[name], texts) for name, texts in by_cluster.items()},
    )
