"""Groups that are placed as a whole: gangs with a rack constraint, all racks looked at. The core
alone, one core.
"""

import gc
from collections.abc import Iterator
from itertools import count
from statistics import median
from time import process_time

import msgspec

from benchmarks.fleets import fleet_of, placed, scheduler_of
from benchmarks.report.rows import Row
from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.groups.place_group import place_group
from shared.model.names import RACK
from shared.model.pod import Group

IN_A_RACK = 40  # nodes
_CPU, _MEMORY = 4000, 2**34  # of a member: eight of them fill a node


def racks_of(clusters: int, nodes: int) -> FleetState:
    """`fleet_of` with 40 nodes in each rack."""
    fleet = fleet_of(clusters, nodes, read=False)
    for at in range(clusters):
        name = f"c{at:03}"
        fleet.put_nodes(
            name,
            [
                msgspec.structs.replace(
                    one, labels={**one.labels, RACK: f"rack-{row % nodes // IN_A_RACK}"}
                )
                for row, one in enumerate(fleet._nodes[at * nodes : (at + 1) * nodes])
                if one is not None
            ],
        )
    return fleet


def gangs(members: int, *, cpu: int = _CPU, labelled: bool = True) -> Iterator[list[Item]]:
    """One group after the other, each a job with a label of its own."""
    for number in count():
        group = Group("PodGroup", f"job-{number}", min_count=members, within="rack")
        items = list[Item]()
        for at in range(members):
            pod = placed(number * members + at, cpu, _MEMORY).pod
            labels = {"app": "train", "job": f"job-{number}"} if labelled else {}
            pod = msgspec.structs.replace(pod, group=group, labels=labels)
            items.append((("c000", pod.uid), PodInfo(pod, "c000")))
        yield items


def _group_of(items: list[Item]) -> Group:
    group = items[0][1].pod.group
    if group is None:
        raise LookupError("a pod without a group")
    return group


def _placed_in(profiles: Profiles, items: list[Item]) -> float:
    """CPU seconds; RuntimeError unless the gang has a place."""
    start = process_time()
    found = place_group(profiles, _group_of(items), items)
    seconds = process_time() - start
    if not found.is_booked:
        raise RuntimeError(found.results[0].summary())
    return seconds
