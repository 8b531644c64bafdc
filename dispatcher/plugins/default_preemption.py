"""A pod that fits nowhere may have pods of lower priority evicted, where their leaving alone makes a node feasible.

Victims of a node: all evictable pods of lower priority are supposed gone; if the pod fits then, as many as possible
stay, those whose eviction a PodDisruptionBudget forbids first, each time from the highest priority (of equals the
longest running) down. A node with no such pod, or refused for what no leaving pod changes, is no candidate.
The node: fewest budgets violated; lowest highest victim's priority; smallest sum of priorities (each + 2^31); fewest
victims; latest start of the longest running among its highest victims; then by cluster and name.
Source: kube-scheduler's DefaultPreemption, with every node as a candidate instead of a sample. Units: seconds, pods.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dispatcher.model.objects import PodDisruptionBudget
from dispatcher.scheduling.framework import Depends, Fleet, Placed
from dispatcher.scheduling.lifecycle import NoHelp, Nomination, PostFilter, RowList, Trial, Victim
from dispatcher.scheduling.plugin_args import Arg, ArgTable, number

_SHIFT = 2**31  # kube-scheduler's MaxInt32 + 1: a few pods of negative priority are not better than one


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: int
    victims: tuple[Victim, ...]  # from the highest priority down
    violations: int


class DefaultPreemption(PostFilter):
    """Nominates the node whose victims matter least."""

    name: ClassVar[str] = "DefaultPreemption"
    depends: ClassVar[Depends] = Depends.NODE
    ARGS: ClassVar[ArgTable] = {
        "min_candidate_nodes_percentage": Arg(10, "of no effect: every node is a candidate", number(0, 100)),
        "min_candidate_nodes_absolute": Arg(100, "of no effect: every node is a candidate", number(0, 1_000_000)),
    }

    def __init__(self, min_candidate_nodes_percentage: float = 10, min_candidate_nodes_absolute: float = 100) -> None:
        """Takes kube-scheduler's arguments, so that its files can be read."""

    def class_key(self, placed: Placed) -> Hashable:
        """What nodes are fit for the pod does not rest on its priority."""
        return None

    def post_filter(self, placed: Placed, trial: Trial, fleet: Fleet) -> Nomination | NoHelp | None:
        """The best candidate, or why there is none in kube-scheduler's words."""
        if not placed.pod.preempts:
            return NoHelp("preemption: not eligible due to preemptionPolicy=Never.", keeps=True)
        if _waits(trial):
            return NoHelp("preemption: not eligible due to a terminating pod on the nominated node.", keeps=True)
        tried = _Tried(trial, fleet)
        groups = [np.asarray([row]) for row in trial.rows] if trial.one_by_one else [trial.rows]
        candidates = [one for rows in groups for one in tried.candidates(rows)]
        if not candidates:
            return NoHelp(f"preemption: {tried.message()}")
        best = min(candidates, key=lambda one: (*_badness(one), fleet.name_of(one.row)))
        return Nomination(best.row, best.victims)


def _waits(trial: Trial) -> bool:
    """Whether the node that the pod is promised still empties itself for it."""
    row = trial.nominated
    return row is not None and (trial.why(row) is None or row in trial.rows) and trial.going(row)


class _Tried:
    """What came of trying rows; `refused` counts what is told of rows that are no candidates."""

    def __init__(self, trial: Trial, fleet: Fleet) -> None:
        self._trial, self._fleet = trial, fleet
        self._budgets = _Budgets(fleet)
        self.refused: Counter[str] = Counter()

    def message(self) -> str:
        """0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling."""
        every = self._trial.evaluated
        hopeless = every - len(self._trial.rows)
        counts = self.refused + Counter({"Preemption is not helpful for scheduling": hopeless})
        parts = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
        return f"0/{every} nodes are available: {parts}."

    def candidates(self, rows: RowList) -> list[_Candidate]:
        """Those of `rows` that the pod fits after an eviction. Answers of one row must rest on that row alone."""
        victims = {int(row): _by_importance(self._trial.lower(int(row))) for row in rows}
        tried = np.asarray([row for row, pods in victims.items() if pods], dtype=np.intp)
        if len(tried) < len(rows):
            self.refused["No preemption victims found for incoming pod"] += len(rows) - len(tried)
        everybody = [one for row in tried.tolist() for one in victims[row]]
        self._trial.without(everybody)
        codes = self._trial.codes(tried)
        self.refused.update(why.text for code in codes.tolist() if code for why in self._fleet.reasons.whys(code))
        found = self._reprieve(tried[codes == 0], victims)
        self._trial.back(everybody)
        return found

    def _reprieve(self, rows: RowList, victims: dict[int, list[Victim]]) -> list[_Candidate]:
        """Let stay who can, on all rows at once: round by round the next pod of each row comes back for a try."""
        queues = {row: self._by_budgets(victims[row]) for row in rows.tolist()}
        evicted: dict[int, list[tuple[Victim, bool]]] = {row: [] for row in queues}
        turn = 0
        while returning := {row: queue[turn] for row, queue in queues.items() if turn < len(queue)}:
            self._trial.back([victim for victim, _ in returning.values()])
            here = np.asarray(list(returning), dtype=np.intp)
            for row in here[self._trial.codes(here) != 0].tolist():
                self._trial.without([returning[row][0]])
                evicted[row].append(returning[row])
            turn += 1
        return [_candidate(row, pods) for row, pods in evicted.items() if pods]

    def _by_budgets(self, pods: list[Victim]) -> list[tuple[Victim, bool]]:
        """(pod, whether a budget forbids its eviction), the forbidden first, else in the order given."""
        left: dict[tuple[str, str], int] = {}
        marked = [(pod, self._budgets.take(pod, left)) for pod in pods]
        return [one for one in marked if one[1]] + [one for one in marked if not one[1]]


class _Budgets:
    """The fleet's PodDisruptionBudgets. Those of a pod's home cluster count for it, and of the one where it runs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._of: dict[str, dict[str, list[PodDisruptionBudget]]] = {}

    def _in(self, cluster: str, namespace: str) -> Sequence[PodDisruptionBudget]:
        if cluster not in self._of:
            self._of[cluster] = {}
            for budget in self._fleet.objects(cluster, PodDisruptionBudget).values():
                self._of[cluster].setdefault(budget.namespace, []).append(budget)
        return self._of[cluster].get(namespace, ())

    def take(self, victim: Victim, left: dict[tuple[str, str], int]) -> bool:
        """Take one more pod; whether any budget had nothing left. `left`: what they allow still, by cluster and key."""
        pod, violated = victim.placed.pod, False
        for cluster in sorted({victim.placed.home, victim.cluster}):
            for budget in self._in(cluster, pod.namespace):
                if _covers(budget, victim):
                    key = (cluster, budget.key)
                    left[key] = left.get(key, budget.allowed) - 1
                    violated |= left[key] < 0
        return violated


def _covers(budget: PodDisruptionBudget, victim: Victim) -> bool:
    pod, selector = victim.placed.pod, budget.selector
    if not pod.labels or pod.name in budget.disrupted or selector is None:
        return False
    return bool(selector.match_labels or selector.match_expressions) and selector.matches(pod.labels)


def _importance(victim: Victim) -> tuple[int, float, tuple[str, str]]:
    pod = victim.placed.pod
    return -pod.priority, pod.started or np.inf, victim.pod_id  # not started: starts now, after all others


def _by_importance(victims: Sequence[Victim]) -> list[Victim]:
    return sorted(victims, key=_importance)


def _candidate(row: int, evicted: Sequence[tuple[Victim, bool]]) -> _Candidate:
    victims = tuple(_by_importance([victim for victim, _ in evicted]))
    return _Candidate(row, victims, sum(violated for _, violated in evicted))


def _badness(one: _Candidate) -> tuple[float, ...]:
    """Smallest is best: kube-scheduler's pickOneNodeForPreemption."""
    priorities = [victim.placed.pod.priority for victim in one.victims]
    highest = priorities[0]
    started = min(
        victim.placed.pod.started or np.inf for victim in one.victims if victim.placed.pod.priority == highest
    )
    return one.violations, highest, sum(priorities) + _SHIFT * len(priorities), len(priorities), -started
