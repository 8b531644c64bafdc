"""Canaries: a profile that decides a share of another profile's pods, and how its decisions compare
with that one's.

Which pods these are follows from their UIDs alone, so a pod keeps its profile over restarts and on
every replica. Of each batch that a canary decides, its base is asked where the first pod would go
at that moment; nothing is booked for that answer.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from zlib import crc32

from dispatcher.scheduling.cycle.batches import Enough, Item, Result
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.records.decision import Decision

_PARTS = 10_000  # a hundredth of a percent


class Compared(enum.StrEnum):
    """A canary's decision beside what its base would have decided."""

    SAME_NODE = "same_node"
    SAME_CLUSTER = "same_cluster"
    OTHER_CLUSTER = "other_cluster"
    ONLY_CANARY = "only_canary_found_a_node"
    ONLY_BASE = "only_base_found_a_node"
    NEITHER = "neither_found_a_node"


class Canaries:
    """The canaries among some schedulers. `compared`: (profile of the canary, of its base, what) ->
    how often.

    ValueError for a base that is not there, is a canary itself, or has another canary already.
    """

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        by_name = {one.plan.profile: one for one in schedulers}
        self._of: dict[str, tuple[Scheduler, int]] = {}
        self._base: dict[str, Scheduler] = {}
        self.compared: Counter[tuple[str, str, str]] = Counter()
        for canary in schedulers:
            if canary.canary is None:
                continue
            base = canary.canary.of
            name = canary.plan.profile
            if base not in by_name or by_name[base].canary is not None or base in self._of:
                raise ValueError(f"profile {name} cannot be a canary of {base}")
            self._of[base] = canary, round(canary.canary.percent * _PARTS / 100)
            self._base[name] = by_name[base]

    def instead_of(self, base: Scheduler, pod_info: PodInfo) -> Scheduler:
        """Who decides a pod that names the profile of `base`: its canary for a share of pods, else
        `base`.
        """
        found = self._of.get(base.plan.profile)
        if found is None:
            return base
        canary, parts = found
        return canary if crc32(pod_info.pod.uid.encode()) % _PARTS < parts else base

    def schedule_class(
        self, scheduler: Scheduler, items: Sequence[Item], *, alike: bool, enough: Enough
    ) -> list[Result]:
        """`Scheduler.schedule_class`; a canary's first pod is compared."""
        base = self._base.get(scheduler.plan.profile)
        if base is None:
            return scheduler.schedule_class(items, alike=alike, enough=enough)
        expected = base.would_choose(*items[0])
        results = scheduler.schedule_class(items, alike=alike, enough=enough)
        if (what := _compare(results[0], expected)) is not None:
            self.compared[scheduler.plan.profile, base.plan.profile, what] += 1
        return results

    def go_on_from(self, old: "Canaries") -> None:
        """Count on from where others have come to."""
        self.compared.update(old.compared)


def canary_problems(named: Iterable[tuple[str, str]], names: Sequence[str]) -> list[str]:
    """What is wrong with (canary, base) among profiles of these names, in words."""
    found = []
    bases = dict[str, str]()
    canaries = dict(named)
    for canary, base in canaries.items():
        if base == canary:
            found.append(
                f"profile {canary} is a canary of itself: give it a scheduler_name of its own"
            )
        elif base not in names:
            found.append(
                f"profile {canary} is a canary of {base}, which is no profile here: "
                f"{', '.join(names)}"
            )
        elif base in canaries:
            found.append(f"profile {canary} is a canary of {base}, which is a canary itself")
        elif base in bases:
            found.append(
                f"profiles {bases[base]} and {canary} are both canaries of {base}: one at a time"
            )
        bases[base] = canary
    return found


def _compare(result: Result, expected: Decision | None) -> Compared | None:
    """None where no node was looked at, as for a pod that quota refuses: that is not the profile's
    doing.
    """
    if isinstance(result, Decision):
        if expected is None:
            return Compared.ONLY_CANARY
        if result.cluster != expected.cluster:
            return Compared.OTHER_CLUSTER
        return Compared.SAME_NODE if result.node == expected.node else Compared.SAME_CLUSTER
    if not result.context.evaluated:
        return None
    return Compared.ONLY_BASE if expected is not None else Compared.NEITHER
