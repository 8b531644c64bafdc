"""A place must hold without the pods that are only promised theirs: they may never come.

Fewer pods never take room, ports or volumes away, so this is a matter of rules about other pods alone: affinity to a
nominee, and spread that a nominee evens out. Source: kube-scheduler's RunFilterPluginsWithNominatedPods, second pass.
"""

from dispatcher.model.pod import Pod, PodId
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.nodes import rank_of
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.records.decision import Decision


def leans_on_pods(pod: Pod) -> bool:
    """Whether more pods can make a node feasible for it."""
    near = pod.pod_affinity is not None and bool(pod.pod_affinity.required)
    return near or any(rule.hard for rule in pod.spread)


def holds_alone(
    decision: Decision, pod_id: PodId, placed: Placed, eq_class: EquivalenceClass, nominations: Nominations
) -> Decision | None:
    """The decision, if its place holds without nominees; else the best that does, None for none.

    `eq_class` is the pod's class, up to date, and is so again in the end.
    """
    if not nominations.seated or not leans_on_pods(placed.pod):
        return decision
    rows = range(eq_class.fleet.n)
    found = {row: one for row in rows if (one := eq_class.decide_on(row, pod_id, placed)) is not None}
    with nominations.without_all():
        eq_class.refresh(placed)
        there = [] if eq_class.refusal is not None else [*found]
        alone = {row for row in there if eq_class.decide_on(row, pod_id, placed) is not None}
    eq_class.refresh(placed)
    if decision.row in alone:
        return decision
    best = min(alone, key=lambda row: (-found[row].score, rank_of(*eq_class.fleet.name_of(row))), default=None)
    return None if best is None else found[best]
