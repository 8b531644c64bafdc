"""kube-scheduler's log of its cycles for pod groups (schedule_one_podgroup.go), beside what it says of single pods.

Needs schedule_one_podgroup at level 10.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.parity.case import Verdict
from tests.parity.groups.case import EVERYWHERE
from tests.parity.log import HANDLERS, Handler, SchedulerLog

_PODS_COUNT = "PodGroupPodsCount"


@dataclass
class GroupCycle:
    """One cycle for a group. `tables` and `shares` as of GroupVerdict; scores are as logged, times the weights.

    `scheduled`: how many members go to their nodes now, 0 where the group waits, for the reason that `message` tells.
    `emptied`: its second look, as if all pods of lower priority were gone; `evicts`: some of them go, the `victims`.
    """

    tables: dict[str, list[Verdict]] = field(default_factory=dict)
    shares: dict[str, int] = field(default_factory=dict)
    scheduled: int = 0
    message: str = ""
    emptied: "GroupCycle | None" = None
    evicts: bool = False
    victims: list[str] = field(default_factory=list)


class GroupLog(SchedulerLog):
    """`groups`: those that came. `cycles`: group -> its cycles that have ended."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.groups: set[str] = set()
        self.cycles: defaultdict[str, list[GroupCycle]] = defaultdict(list)
        self._cycle = GroupCycle()
        self._look = self._cycle
        self._domain = EVERYWHERE

    def _group_came(self, values: dict[str, str]) -> None:
        self.groups.add(values["podGroup"])

    def _group_began(self, values: dict[str, str]) -> None:
        self._look = self._cycle = GroupCycle()
        self._domain = EVERYWHERE

    def _in_domain(self, values: dict[str, str]) -> None:
        self._domain = values["placement"]
        if self._domain in self._look.tables:  # it looks once more, to evict others
            self._look = self._cycle.emptied = GroupCycle()

    def _member_began(self, values: dict[str, str]) -> None:
        self._attempt.scores, self._attempt.totals = {}, {}
        self._look.tables.setdefault(self._domain, []).append(Verdict(values["pod"]))

    def _member_totalled(self, values: dict[str, str]) -> None:
        self._totalled(values)
        told = self._look.tables.get(self._domain, ())
        if told and told[-1].pod == values["pod"]:
            told[-1].scores, told[-1].totals = self._attempt.scores, self._attempt.totals
            told[-1].feasible = frozenset(self._attempt.totals)

    def _domain_scored(self, values: dict[str, str]) -> None:
        if values["plugin"] == _PODS_COUNT:
            self._look.shares[values["placement"]] = int(values["score"])

    def _group_placed(self, values: dict[str, str]) -> None:
        self._cycle.scheduled = int(values["scheduledPods"])
        self.cycles[values["podGroup"]].append(self._cycle)

    def _evicted(self, values: dict[str, str]) -> None:
        self._cycle.victims.append(values["victim"])

    def _group_evicts(self, values: dict[str, str]) -> None:
        self._cycle.evicts = True
        self._group_refused(values)

    def _group_refused(self, values: dict[str, str]) -> None:
        self._cycle.message = values.get("err", "")
        self.cycles[values["podGroup"]].append(self._cycle)

    handlers: ClassVar[dict[bytes, Handler]] = {
        **HANDLERS,
        b"Add event for pod group": _group_came,
        b"Attempting to schedule pod group": _group_began,
        b"Assuming placement in snapshot": _in_domain,
        b"Attempting to schedule a pod belonging to a pod group": _member_began,
        b"Calculated node's final score for pod": _member_totalled,
        b"Plugin scored placement for podGroup": _domain_scored,
        b"Successfully scheduled a pod group": _group_placed,
        b"Unable to schedule a pod group": _group_refused,
        b"Preemptor Pod preempted victim Pod": _evicted,
        b"Pod group is waiting for preemption": _group_evicts,
        b"Error scheduling pod group": _group_refused,
    }
