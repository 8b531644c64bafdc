"""A pod that fits nowhere may have pods of lower priority evicted, where their leaving alone makes
a node feasible.

Victims of a node: all evictable pods of lower priority are supposed gone; if the pod fits then, as
many as possible stay, those whose eviction a PodDisruptionBudget forbids first, each time from the
highest priority (of equals the longest running) down. A node with no such pod, or refused for what
no leaving pod changes, is no candidate. The node: fewest budgets violated; lowest highest victim's
priority; smallest sum of priorities (each + 2^31); fewest victims; latest start of the longest
running among its highest victims; then by cluster and name. Nodes are tried in the order of the
least that their victims can matter, known without a try (`Trial.victim_bounds`), until no other can
be better than the best so far: the answer is that of all nodes. Source: kube-scheduler's
DefaultPreemption, with every node as a candidate instead of a sample. Units: seconds, pods.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import CycleState, Depends, FleetView, PodInfo
from dispatcher.scheduling.framework.lifecycle import (
    NoHelp,
    Nomination,
    PostFilter,
    RowList,
    Trial,
    Victim,
)
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.rules.budgets import Budgets, Left
from dispatcher.scheduling.rules.victims import SHIFT, Badness, badness, by_importance

_NOBODY = ("No preemption victims found for incoming pod",)
_FIRST_TRY = 1  # rows; each try is of twice as many as the one before


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: int
    victims: tuple[Victim, ...]  # from the highest priority down
    badness: Badness


class PreemptionArgs(Args):
    """The same as in kube-scheduler, so that its files can be read."""

    min_candidate_nodes_percentage: Annotated[
        float, Meta(ge=0, le=100, description="of no effect: every node is a candidate")
    ] = 10
    min_candidate_nodes_absolute: Annotated[
        float, Meta(ge=0, le=1_000_000, description="of no effect: every node is a candidate")
    ] = 100


class DefaultPreemption(PostFilter[None]):
    """Nominates the node whose victims matter least."""

    name: ClassVar[str] = "DefaultPreemption"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(
        self, min_candidate_nodes_percentage: float = 10, min_candidate_nodes_absolute: float = 100
    ) -> None:
        """Takes kube-scheduler's arguments, so that its files can be read."""

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What nodes are fit for the pod does not rest on its priority."""
        return None

    def post_filter(
        self, cycle: CycleState, pod_info: PodInfo, trial: Trial, fleet: FleetView
    ) -> Nomination | NoHelp | None:
        """The best candidate, or why there is none: kube-scheduler's words, and where nobody is
        evicted.
        """
        if not pod_info.pod.preempts:
            return NoHelp("preemption: not eligible due to preemptionPolicy=Never.", keeps=True)
        if _waits(trial):
            return NoHelp(
                "preemption: not eligible due to a terminating pod on the nominated node.",
                keeps=True,
            )
        rows = trial.hopeful
        if not len(rows):
            return NoHelp(f"preemption: {_message(trial, [])}")
        due = np.zeros(fleet.n, dtype=np.bool_)
        due[rows] = True
        known = np.fromiter(trial.known, dtype=np.intp)
        found = [trial.known[row] for row in known[due[known]].tolist()]
        best = min(
            (one for one in found if isinstance(one, _Candidate)),
            key=lambda one: one.badness,
            default=None,
        )
        due[known] = False
        tried = _Tried(trial, fleet)
        for chunk in _chunks(
            _by_bound(rows[due[rows]], trial, fleet), 1 if trial.one_by_one else len(rows)
        ):
            if best is not None and best.badness < chunk[0][1]:
                break
            answers = tried.rows(np.asarray(sorted(row for row, _ in chunk), dtype=np.intp))
            trial.known.update(answers)
            some = [one for one in (best, *answers.values()) if isinstance(one, _Candidate)]
            best = min(some, key=lambda one: one.badness, default=None)
        if best is not None:
            return Nomination(best.row, best.victims)
        return NoHelp(f"preemption: {_message(trial, [trial.known[row] for row in rows.tolist()])}")


def _by_bound(due: RowList, trial: Trial, fleet: FleetView) -> Iterator[tuple[int, Badness]]:
    """`due` rows, of which nothing is known yet, each with the least badness that it can have, in
    the order of that.

    Where not all victims are of the least priority there is, the highest is greater than it, which
    alone is worse.
    """
    priority, count, latest = trial.victim_bounds(due)
    total = count * (priority + SHIFT)
    order = np.lexsort((fleet.nodes.by_name()[due], -latest, count, total, priority))
    bounds = np.stack([priority, total, count, -latest])
    for at in order:  # mostly the first few are asked for
        row = int(due[at])
        yield row, (0, *bounds[:, at].tolist(), *fleet.nodes.name_of(row))


def _chunks(rows: Iterator[tuple[int, Badness]], most: int) -> Iterator[list[tuple[int, Badness]]]:
    """Few rows first, then more and more, `most` at most."""
    size = min(_FIRST_TRY, most)
    while chunk := list(islice(rows, size)):
        yield chunk
        size = min(2 * size, most)


def _waits(trial: Trial) -> bool:
    """Whether the node that the pod is promised still empties itself for it."""
    row = trial.nominated
    return (
        row is not None and (trial.why(row) is None or row in trial.rows) and trial.terminating(row)
    )


def _message(trial: Trial, refused: Sequence[object]) -> str:
    """0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling.

    `refused`: what came of the rows with pods of lower priority; the others that are worth a try
    have no victims, or are spared.
    """
    counts = Counter(text for texts in refused if isinstance(texts, tuple) for text in texts)
    for cluster, count in trial.spared.items():
        counts[f"node(s) in cluster {cluster} that refused the pod lately (no eviction there)"] = (
            count
        )
    for text in _NOBODY:
        counts[text] += len(trial.rows) - len(refused) - sum(trial.spared.values())
    counts["Preemption is not helpful for scheduling"] += trial.evaluated - len(trial.rows)
    parts = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    return f"0/{trial.evaluated} nodes are available: {parts}."


class _Tried:
    """What comes of trying rows: a candidate, or the texts of why it is none."""

    def __init__(self, trial: Trial, fleet: FleetView) -> None:
        self._trial = trial
        self._fleet = fleet
        self._budgets = Budgets(fleet.objects)

    def rows(self, rows: RowList) -> dict[int, "_Candidate | tuple[str, ...]"]:
        """The answer for each of `rows`; answers of one row must rest on that row alone, or it is
        one row.
        """
        answers: dict[int, _Candidate | tuple[str, ...]] = dict.fromkeys(rows.tolist(), _NOBODY)
        victims = {row: by_importance(self._trial.lower(row)) for row in answers}
        for row, pods in victims.items():
            found = self._reckoned(row, pods) if pods else None
            if found is not None:
                answers[row] = found
        due = [row for row, pods in victims.items() if pods and answers[row] is _NOBODY]
        return (
            answers if not due else answers | self._tried(np.asarray(due, dtype=np.intp), victims)
        )

    def _reckoned(self, row: int, victims: list[Victim]) -> _Candidate | None:
        """What trying would find, where the trial knows it without; None: try."""
        queue = self._by_budgets(victims)
        stays = self._trial.staying(row, [victim for victim, _ in queue])
        evicted = (
            []
            if stays is None
            else [one for one, stay in zip(queue, stays, strict=True) if not stay]
        )
        return _candidate(self._fleet.nodes.name_of(row), row, evicted) if evicted else None

    def _tried(
        self, tried: RowList, victims: dict[int, list[Victim]]
    ) -> dict[int, "_Candidate | tuple[str, ...]"]:
        """The answers of rows with pods that may go."""
        answers: dict[int, _Candidate | tuple[str, ...]] = dict.fromkeys(tried.tolist(), _NOBODY)
        everybody = [one for row in tried.tolist() for one in victims[row]]
        self._trial.suppose_gone(everybody)
        codes = self._trial.codes(tried)
        whys = {
            code: tuple(why.text for why in self._fleet.reasons.whys(code))
            for code in set(codes.tolist())
            if code
        }
        answers.update(
            (row, whys[code])
            for row, code in zip(tried.tolist(), codes.tolist(), strict=True)
            if code
        )
        answers.update((one.row, one) for one in self._reprieve(tried[codes == 0], victims))
        self._trial.restore(everybody)
        return answers

    def _reprieve(self, rows: RowList, victims: dict[int, list[Victim]]) -> list[_Candidate]:
        """Let stay who can, on all rows at once: round by round the next pod of each row comes back
        for a try.
        """
        queues = {row: self._by_budgets(victims[row]) for row in rows.tolist()}
        evicted: dict[int, list[tuple[Victim, bool]]] = {row: [] for row in queues}
        turn = 0
        while returning := {row: queue[turn] for row, queue in queues.items() if turn < len(queue)}:
            self._trial.restore([victim for victim, _ in returning.values()])
            here = np.asarray(list(returning), dtype=np.intp)
            for row in here[self._trial.codes(here) != 0].tolist():
                self._trial.suppose_gone([returning[row][0]])
                evicted[row].append(returning[row])
            turn += 1
        return [
            _candidate(self._fleet.nodes.name_of(row), row, pods)
            for row, pods in evicted.items()
            if pods
        ]

    def _by_budgets(self, pods: list[Victim]) -> list[tuple[Victim, bool]]:
        """(pod, whether a budget forbids its eviction), the forbidden first, else in the order
        given.
        """
        left = Left()
        marked = [(pod, bool(self._budgets.take(pod, left))) for pod in pods]
        return [one for one in marked if one[1]] + [one for one in marked if not one[1]]


def _candidate(
    where: tuple[str, str], row: int, evicted: Sequence[tuple[Victim, bool]]
) -> _Candidate:
    """A node and what it costs: kube-scheduler's pickOneNodeForPreemption, smallest is best."""
    victims = tuple(by_importance([victim for victim, _ in evicted]))
    violations = sum(violated for _, violated in evicted)
    return _Candidate(row, victims, (*badness(victims, violations), *where))
