"""The rows of docs/parity.md as rules: where our answer is meant to differ from kube-scheduler's, and nowhere else."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.parity.case import Case, Object, Verdict
from tests.parity.compare import TOLERANCE, Difference
from tests.parity.preemption import costs
from tests.parity.profile import WEIGHTS
from tests.parity.readings import (
    Reading,
    bare_budgets,
    containers_alone,
    empty_spread,
    hosts_by_label,
    judged,
    one_size_an_image,
)

Rule = Callable[[Difference, Object, Case], bool]
GATES = "the names of scheduling gates"
_EMPTY = "an empty labelSelector of a spread constraint"
_MADE = re.compile(r" preemption: found a potential placement for pod on node \S+, preempting \d+ victims$")
_AFFINITY = ("feasible", "message", "victims", "InterPodAffinity")


def _preferred_term_unread(found: Difference, pod: Object, case: Case) -> bool:
    """kube-scheduler fails a pod whose preferred node affinity it cannot read; to us such a term matches no node."""
    return found.what == "error" and str(found.theirs).startswith('running PreScore plugin "NodeAffinity": ')


def _place_made(found: Difference, pod: Object, case: Case) -> bool:
    """kube-scheduler says in the message where it preempts how many; we say it in the events of pod and victims."""
    return found.what == "message" and _MADE.sub("", str(found.theirs)) == found.ours != found.theirs


def _gates_named(found: Difference, pod: Object, case: Case) -> bool:
    """We name the gates after the API server's words."""
    gates = ", ".join(gate["name"] for gate in pod["spec"].get("schedulingGates") or ())
    return found.what == "message" and bool(gates) and found.ours == f"{found.theirs}: {gates}"


def _read_so(*readings: Reading, whats: Sequence[str]) -> Rule:
    """Whether our core gives kube-scheduler's answer as soon as it reads the case so."""
    last: list[tuple[Case, Object, Verdict | None]] = []  # a pod may differ on each of a thousand nodes

    def rule(found: Difference, pod: Object, case: Case) -> bool:
        if found.what not in whats:
            return False
        if not last or last[0][0] is not case or last[0][1] is not pod:
            last[:] = [(case, pod, judged(case, pod, readings))]
        verdict = last[0][2]
        return verdict is not None and _is_met(found, verdict, pod, case)

    return rule


def _is_met(found: Difference, verdict: Verdict, pod: Object, case: Case) -> bool:
    """Whether a verdict has kube-scheduler's side of a difference."""
    if found.what == "feasible":
        return [*found.theirs] == sorted(verdict.feasible or ())
    if found.what == "message":
        return not verdict.node and verdict.message == found.theirs
    if found.what == "victims":
        ours = sorted(verdict.victims)
        return ours == found.theirs or _equal_victims(replace(found, ours=ours), pod, case)
    score: float = (verdict.scores or {}).get(found.what, {}).get(found.node, 0.0)
    return abs(score - float(found.theirs or 0.0)) < TOLERANCE


def _equal_victims(found: Difference, pod: Object, case: Case) -> bool:
    """Of nodes that cost the same to empty, either side may take any."""
    if found.what != "victims" or not found.theirs or not found.ours:
        return False
    theirs, ours = (costs(case, pod, victims) for victims in (found.theirs, found.ours))
    return not theirs.isdisjoint(ours)


def _devices(found: Difference, pod: Object, case: Case) -> bool:
    """Nobody allocates devices here, so a pod that claims some waits; kube-scheduler may have a place for it."""
    return bool(pod["spec"].get("resourceClaims")) and "resource claims" in str(found.ours)


# name of the row -> whether a difference is that row's
RULES: dict[str, Rule] = {
    "the place that preemption makes": _place_made,
    GATES: _gates_named,
    "a preferred node affinity term that cannot be read": _preferred_term_unread,
    "a node is a host": _read_so(hosts_by_label, whats=(*_AFFINITY, "PodTopologySpread")),
    "one image name with two sizes on two nodes": _read_so(one_size_an_image, whats=("ImageLocality",)),
    "ties of victims": _equal_victims,
    "devices that are claimed": _devices,
    _EMPTY: _read_so(empty_spread, whats=("feasible", "message", "victims", "PodTopologySpread")),
    "a node is a host, and such an empty selector": _read_so(
        hosts_by_label, empty_spread, whats=("feasible", "message", "victims", "PodTopologySpread")
    ),
    "budgets with an empty selector, or over pods without labels": _read_so(bare_budgets, whats=("victims",)),
    "pod-level requests in the score of NodeResourcesFit": _read_so(containers_alone, whats=("NodeResourcesFit",)),
}


def row_of(found: Difference, pod: Object, case: Case) -> str | None:
    """The first row that a difference is one of."""
    return next((name for name, rule in RULES.items() if rule(found, pod, case)), None)


def unexplained(found: Sequence[Difference], pod: Object, case: Case) -> list[Difference]:
    """The differences that are no row's; a total is explained as far as the scores in it are, to the point."""
    meant = [one for one in found if row_of(one, pod, case) is not None]
    return [
        one for one in found if one not in meant and not _adds_up(one, meant, WEIGHTS[pod["spec"]["schedulerName"]])
    ]


def _adds_up(total: Difference, meant: Sequence[Difference], weights: Mapping[str, int]) -> bool:
    if total.what != "total":
        return False
    parts = [one for one in meant if one.node == total.node and one.what in weights]
    told = sum(weights[one.what] * ((one.theirs or 0.0) - (one.ours or 0.0)) for one in parts)
    return bool(parts) and abs(told - (total.theirs - total.ours)) < 1e-6
