"""Groups that are placed as a whole, each with a label of its own: all racks are looked at. The core
alone, one core.
"""

import gc
from collections.abc import Iterator
from itertools import count, islice
from time import process_time

import msgspec

from benchmarks.fleets import fleet_of, placed, scheduler_of
from benchmarks.report.rows import Row
from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.groups.place_group import GroupResult, place_group
from shared.model.pod import Group

_IN_A_RACK = 40  # nodes
_MEMBER = (4000, 2**34)  # milli-CPU, bytes: eight of them fill a node
_WARM = 3  # gangs before the clock runs
_BY_CPU = "core, each job with a label of its own, by CPU time"
_BESIDE = "the same pods in batches of eight, without a group, in the same run"


def _gangs(members: int, cpu: int = _MEMBER[0]) -> Iterator[list[Item]]:
    for number in count():
        group = Group("PodGroup", f"job-{number}", min_count=members, within="rack")
        labels = {"app": "train", "job": group.name}
        items = list[Item]()
        for at in range(members):
            pod = placed(number * members + at, cpu, _MEMBER[1]).pod
            pod = msgspec.structs.replace(pod, group=group, labels=labels)
            items.append((("c000", pod.uid), PodInfo(pod, "c000")))
        yield items


def _placed(profiles: Profiles, items: list[Item]) -> tuple[GroupResult, float]:
    """With the CPU seconds that it took."""
    group = items[0][1].pod.group
    if group is None:
        raise LookupError("a pod without a group")
    start = process_time()
    found = place_group(profiles, group, items)
    return found, process_time() - start


def _booked(profiles: Profiles, items: list[Item]) -> float:
    """CPU seconds; RuntimeError unless it has a place."""
    found, seconds = _placed(profiles, items)
    if not found.is_booked:
        raise RuntimeError(found.results[0].summary())
    return seconds


def _profiles(clusters: int, nodes: int) -> Profiles:
    profiles = Profiles([scheduler_of(fleet_of(clusters, nodes, in_a_rack=_IN_A_RACK))])
    gc.collect()
    gc.freeze()  # as the dispatcher does once it has listed its clusters
    return profiles


def gangs_of_eight(share: int) -> list[Row]:
    """5,000 nodes in 125 racks: gangs of 8 with a rack constraint until a tenth of the fleet is full."""
    profiles = _profiles(1, 5000)
    found = list(islice(_gangs(8), _WARM + 500 // share))
    for items in found[:_WARM]:
        _booked(profiles, items)
    pods = 8 * len(found[_WARM:])
    seconds = sum(_booked(profiles, items) for items in found[_WARM:])
    plain = _profiles(1, 5000)
    for items in found[:_WARM]:
        plain.schedule_class(items)
    start = process_time()
    for items in found[_WARM:]:
        plain.schedule_class(items)
    beside = pods / (process_time() - start)
    rate = pods / seconds
    return [
        Row("gangs_of_eight", 5000, pods, rate, "pods/s", 5000, beside, _BY_CPU, _BESIDE),
    ]


def best_rack_of_100_clusters(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes in 12,500 racks: the best rack for a gang of 64, of which five fill
    a rack; all racks score alike when a new one is begun. The first one waits until columns of nodes
    are made.
    """
    profiles = _profiles(100, 5000 // share)
    gangs = _gangs(64)
    first = _booked(profiles, next(gangs)) * 1000
    times = sorted(_booked(profiles, items) * 1000 for items in islice(gangs, 200 // share))
    nodes = profiles.fleet.n
    rows = (
        ("best_rack_p50", times[len(times) // 2], None),
        ("best_rack_p99", times[int(len(times) * 0.99)], 50),
        ("best_rack_first", first, None),
    )
    return [
        Row(name, nodes, 64, value, "ms", target, None, "core, gangs of 64, by CPU time")
        for name, value, target in rows
    ]


def gangs_that_fit_nowhere(share: int) -> list[Row]:
    """5,000 nodes: 5,000 gangs of 8 wait, for whom no rack has room: all are refused once, and again
    when a pod elsewhere has come.
    """
    profiles = _profiles(1, 5000)
    waiting = list(islice(_gangs(8, cpu=33_000), 5000 // share))
    other = next(_gangs(1))
    times = []
    for _ in range(2):
        start = process_time()
        for items in waiting:
            if _placed(profiles, items)[0].is_booked:
                raise RuntimeError("a gang has a place that no node has room for")
        times.append(process_time() - start)
        profiles.schedule_class(other)
    rate = len(waiting) / times[1]
    first = len(waiting) / times[0]
    return [
        Row(
            "gangs_refused",
            5000,
            8 * len(waiting),
            rate,
            "groups/s",
            None,
            first,
            _BY_CPU,
            "at first",
        ),
    ]


CASES = (gangs_of_eight, best_rack_of_100_clusters, gangs_that_fit_nowhere)
