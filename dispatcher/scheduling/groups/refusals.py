"""What the members of a group are told that has no place: how many of how many, in which domain, and
what was missing there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework.pod_info import as_one
from dispatcher.scheduling.groups.domain_levels import DomainLevels, GroupPlace
from dispatcher.scheduling.groups.templates import Template
from dispatcher.scheduling.records.decision import Unschedulable
from dispatcher.scheduling.records.messages import no_place_message
from shared.model.pod import Group
from shared.model.reasons import Reason, Reasons, Why
from shared.model.resources import PODS


@dataclass
class Tried:
    """What is known of a group that finds no place. `place`: the best domain of the `domains` of its
    level, which holds `held` members that wait; `missing`: what is said of its nodes.
    """

    group: Group
    placed: int
    needed: int
    place: GroupPlace | None = None
    held: int = -1
    domains: int = 0
    missing: str = ""
    reasons: set[Reason] = field(default_factory=set)

    @property
    def text(self) -> str:
        """In words."""
        group = self.group
        if self.place is None:
            return f"{group.name}: {self.missing}"
        members = f"{self.placed + self.held} of {self.placed + self.needed} members"
        best = f", the best of {self.domains}" if self.domains > 1 else ""
        missing = f"; {self.missing}" if self.missing else ""
        return f"{group.name}: {members} fit in {self.place.words}{best}{missing}"


def refusals(
    profiles: Profiles, waiting: Sequence[Item], tried: Tried, told: Unschedulable | None
) -> list[Unschedulable]:
    """The same for each member. `told`: the refusal of one of them in the best domain."""
    why = Why(Reasons.GROUP, tried.text)
    reasons = frozenset((*tried.reasons, Reasons.GROUP))
    found = list[Unschedulable]()
    same: Unschedulable | None = None
    for pod_id, pod_info in waiting:
        if same is None:
            same = profiles.of(pod_info).refused(pod_id, pod_info, why)
            same.reasons = reasons
            if told is not None:
                same.context = told.context
                same.absent = told.absent
            found.append(same)
        else:
            found.append(same.again(pod_id, pod_info, same.time))
    return found


def refused_alone(templates: Sequence[Template], needed: int) -> Why | None:
    """Why so many members cannot be placed anywhere: they are refused for themselves, or their
    quota is not enough for all of them together.
    """
    allowed = sum(one.most for one in templates)
    if allowed >= needed:
        return None
    for one in templates:
        for _, pod_info in one.items:
            why = one.scheduler.refuses_alone(pod_info)
            if why is not None:
                return why
    members = [pod_info for one in templates for _, pod_info in one.items]
    why = templates[0].scheduler.refuses_alone(as_one(members[:needed]))
    return why or Why(Reasons.QUOTA, f"{allowed} of {needed} members are let pass")


def missing_in(templates: Sequence[Template], levels: DomainLevels, key: str, code: int) -> str:
    """What the nodes of a domain lack for more pods of the template that has the least room there,
    as counts of nodes by reason.
    """
    template = min(templates, key=lambda one: _left(one, key, code))
    if template.room is None or template.closed is None:
        return template.why.text if template.why else ""
    fleet = template.scheduler.fleet
    rows = np.flatnonzero((levels.codes(key) == code) & fleet.live)
    codes = template.closed.refusal_codes[rows]
    counts = Counter[str]()
    for one in codes[codes != 0].tolist():
        counts.update({why.text for why in fleet.reasons.whys(one)})
    rows = rows[codes == 0]
    wants = template.room.wants
    if len(rows) and wants:
        by_want = template.room.by_want(rows)
        full = by_want == by_want.min(axis=0)
        for (name, _), nodes in zip(wants, full.sum(axis=1).tolist(), strict=True):
            pods = Why(Reasons.TOO_MANY_PODS)
            why = pods if name == PODS else Why(Reasons.INSUFFICIENT, name)
            if nodes:
                counts[why.text] += nodes
    return _counted(len(codes), counts)


def _left(template: Template, key: str, code: int) -> float:
    room = template.in_domains.get(key)
    return -1.0 if room is None else room.item(code) / len(template.items)


def missing_of(refused: Unschedulable) -> str:
    """What a member was told that was tried in a domain, without a word of the nodes outside."""
    context = refused.context
    counts = Counter[str]()
    nodes = context.evaluated
    for (_, why), count in context.counts(refused.absent).items():
        if why.reason == Reasons.OUTSIDE_DOMAIN:
            nodes -= count
        else:
            counts[why.text] += count
    return _counted(nodes, counts) if counts else refused.message.removesuffix(".")


def _counted(nodes: int, counts: Counter[str]) -> str:
    return f"there {no_place_message(nodes, counts).removesuffix('.')}"
