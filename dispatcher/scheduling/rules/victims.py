"""Which of several pods matters more, and what it costs to evict some: kube-scheduler's rules, for
whoever looks for victims.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.framework.lifecycle import Victim

# kube-scheduler's MaxInt32 + 1: a few pods of negative priority are not better than one
SHIFT = 2**31
Badness = tuple[float | str, ...]


def by_importance(victims: Sequence[Victim]) -> list[Victim]:
    """The most important first; equals by name, those that have not started backwards, as in
    kube-scheduler's sort.
    """
    named = sorted(victims, key=lambda one: (one.pod_info.pod.key, one.pod_id))
    started = [one for one in named if one.pod_info.pod.started]
    return sorted(
        [*started, *(one for one in reversed(named) if not one.pod_info.pod.started)],
        key=importance,
    )


def importance(victim: Victim) -> tuple[int, float]:
    """The lowest is the most important."""
    pod = victim.pod_info.pod
    return -pod.priority, pod.started or np.inf  # not started: starts now, after all others


def badness(victims: Sequence[Victim], violations: int) -> Badness:
    """What it costs to evict these, the most important first, of whom so many are spared by a budget:
    kube-scheduler's pickOneNodeForPreemption, smallest is best.
    """
    pods = [victim.pod_info.pod for victim in victims]
    highest = pods[0].priority
    started = min(one.started or np.inf for one in pods if one.priority == highest)
    total = sum(one.priority for one in pods) + SHIFT * len(pods)
    return violations, highest, total, len(pods), -started
