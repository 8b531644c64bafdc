"""A place must hold without the pods that are only promised theirs: they may never come.

Fewer pods never take room, ports or volumes away, so this is a matter of rules about other pods alone: affinity to a
nominee, and spread that a nominee evens out. Source: kube-scheduler's RunFilterPluginsWithNominatedPods, second pass.
"""

from dispatcher.model.pod import Pod
from dispatcher.scheduling.classes.pod_class import PodClass
from dispatcher.scheduling.explain import Decision
from dispatcher.scheduling.fleet.nodes import rank_of
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.fleet.occupants import PodId
from dispatcher.scheduling.framework import Placed


def leans_on_pods(pod: Pod) -> bool:
    """Whether more pods can make a node feasible for it."""
    near = pod.pod_affinity is not None and bool(pod.pod_affinity.required)
    return near or any(rule.hard for rule in pod.spread)


def holds_alone(
    decision: Decision, pod_id: PodId, placed: Placed, pods: PodClass, nominations: Nominations
) -> Decision | None:
    """The decision, if its place holds without nominees; else the best that does, None for none.

    `pods` is the pod's class, caught up with the fleet, and is so again in the end.
    """
    if not nominations.seated or not leans_on_pods(placed.pod):
        return decision
    rows = range(pods.fleet.n)
    found = {row: one for row in rows if (one := pods.decide_on(row, pod_id, placed)) is not None}
    with nominations.without_all():
        pods.catch_up(placed)
        there = [] if pods.refusal is not None else [*found]
        alone = {row for row in there if pods.decide_on(row, pod_id, placed) is not None}
    pods.catch_up(placed)
    if decision.row in alone:
        return decision
    best = min(alone, key=lambda row: (-found[row].score, rank_of(*pods.fleet.name_of(row))), default=None)
    return None if best is None else found[best]
