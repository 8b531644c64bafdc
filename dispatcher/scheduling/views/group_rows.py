"""What is known of the group that a pod is a member of: how many of how many, where, and in which
step of its start.
"""

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_info import group_id
from dispatcher.scheduling.views.pieces import Row
from shared.model.pod import FLEET
from shared.model.topology import within_cluster

_MOST_DOMAINS = 4


def group_row(core: SchedulerCore, tracked: Tracked) -> Row | None:
    """Of a pod that is placed with others; None of any other.

    `state`: incomplete (fewer than `min_count` are known), waiting (for a place), starting (`step`
    says what all that got places have to get through next, `left` how many have not), started;
    apart: this pod does not count, as it has ended, or waits for something of its own.
    `domains`: where those with a place are, of the kind that the group is bound to.
    """
    source = tracked.source
    name = None if source is None else group_id(PodInfo(source, tracked.home))
    if source is None or source.group is None or name is None:
        return None
    group = core.queue.groups.get(name)
    booked = core.booked.of(tracked.pod_id)
    placed = len(group.placed) if group is not None else 0
    waiting = len(group.members) if group is not None else 0
    state = "started" if placed >= source.group.min_count else "waiting"
    if booked is not None or (group is not None and group.starting):
        state = "starting"
    elif group is None or not (tracked.pod_id in group.members or tracked.pod_id in group.placed):
        state = "apart"
    elif waiting + placed < source.group.min_count:
        state = "incomplete"
    return {
        "name": name.name,
        "kind": name.kind,
        "min_count": source.group.min_count,
        "within": source.group.within,
        "waiting": waiting,
        "placed": placed,
        "state": state,
        "step": booked.step.value if booked is not None else None,
        "left": len(booked.left) if booked is not None else None,
        "domains": _domains(core, tracked) if placed else [],
    }


def _domains(core: SchedulerCore, tracked: Tracked) -> list[str]:
    source = tracked.source
    group = core.queue.groups.of(PodInfo(source, tracked.home)) if source is not None else None
    if group is None:
        return []
    within = group.group.within
    key = within_cluster("cluster" if within == FLEET else within)
    codes = core.fleet.domain(key)
    values = core.fleet.domain_values(key)
    found = dict[str, None]()
    for pod_id in sorted(group.placed):
        occupant = core.fleet.occupant(pod_id)
        row = None if occupant is None else core.fleet.row_of(occupant.cluster, occupant.node)
        if row is not None and codes[row] >= 0:
            found[values[codes[row]]] = None
        if len(found) >= _MOST_DOMAINS:
            break
    return list(found)
