"""Many groups that find no place, and a fleet in which much happens: what each second of that costs
the core, one core.

Every pod that ends frees room for no group, and might help each: kubernetes#141577.
"""

from collections.abc import Sequence
from functools import partial
from time import process_time

from benchmarks.report.rows import Row
from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling import events
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.queue import SchedulingQueue
from shared.messages import Changes
from shared.model.names import RACK, SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Group, Pod

GROUPS, MEMBERS, EVENTS_PER_S = 5_000, 8, 1_000
_NODES, _ON_A_NODE, _TURNS = 1_000, 32, 10
_SETTLE_S, _MEASURED_S = 90, 5  # all have been tried at least once by then


class _Busy:
    """A core of one full cluster, with groups that wait."""

    def __init__(self, groups: int, *, alike: bool) -> None:
        fleet = FleetState()
        plugins = partial(build, DEFAULT_PROFILE, PluginContext())
        made = plugins()
        profiles = Profiles([Scheduler(DEFAULT_PROFILE, made, fleet, anew=plugins)])
        queue = SchedulingQueue(queue_sort(made), profiles.classify, gates=profiles)
        self.core = SchedulerCore(("c",), fleet, queue, profiles, boot_epoch=1)
        self._revision = 0
        self._now = 1000.0
        nodes = [
            Node(
                f"n{at}",
                labels={RACK: f"r{at // 40}"},
                ready=True,
                allocatable={"cpu": 32_000, "memory": 2**37, "pods": 110},
            )
            for at in range(_NODES)
        ]
        self._others = [
            Pod(f"o{at}-{n}", "other", f"o{at}-{n}", requests={"cpu": 1000}, node=f"n{at}")
            for n in range(_ON_A_NODE)
            for at in range(_NODES)
        ]
        self._report(self._others, nodes=nodes, full=True)
        self._report([pod for at in range(groups) for pod in _group(at, alike=alike)])
        for _ in range(_SETTLE_S):
            self.second()

    def _report(
        self,
        pods: Sequence[Pod] = (),
        gone: Sequence[Pod] = (),
        nodes: Sequence[Node] = (),
        *,
        full: bool = False,
    ) -> None:
        since = self._revision
        self._revision += 1
        changes = Changes(
            "c",
            "uid",
            "life",
            since,
            self._revision,
            full=full,
            nodes=tuple(nodes),
            pods=tuple(pods),
            pods_gone=tuple(pod.uid for pod in gone),
        )
        self.core.handle(events.ClusterChanged(changes), self._now)
        while self.core.folding:
            self.core.handle(events.FoldOn("c"), self._now)

    def second(self) -> None:
        """Half of the events are pods that end, half of them pods that take their places."""
        each = EVENTS_PER_S // _TURNS // 2
        for turn in range(_TURNS):
            some = self._others[turn * each : (turn + 1) * each]
            self._now += 1 / _TURNS
            self._report(gone=some)
            self.core.handle(events.Decide(1000), self._now)
            self._report(some)
            self.core.handle(events.Decide(1000), self._now)
        self.core.handle(events.Tick(None), self._now)


def _group(number: int, *, alike: bool) -> list[Pod]:
    name = f"g{number}"
    group = Group("PodGroup", name, "", MEMBERS, "rack")
    labels = {"app": "train"} if alike else {"app": "train", "job": name}
    return [
        Pod(
            f"{name}-{at}",
            "default",
            f"{name}-{at}",
            labels=labels,
            requests={"cpu": 4000, "memory": 2**30},
            scheduler_name=SCHEDULER_NAME,
            owner=f"Job/{name}/{name}",
            group=group,
        )
        for at in range(MEMBERS)
    ]


def _share(groups: int, *, alike: bool) -> float:
    """Percent of a core."""
    busy = _Busy(groups, alike=alike)
    start = process_time()
    for _ in range(_MEASURED_S):
        busy.second()
    return 100 * (process_time() - start) / _MEASURED_S


def waiting_groups(share: int) -> list[Row]:
    """The same events with and without the groups."""
    groups = GROUPS // share
    none = _share(0, alike=True)
    counts = f"the core, {EVENTS_PER_S:,} events/s, {groups:,} groups of {MEMBERS}, by CPU time"
    beside = "the same events without groups"
    return [
        Row(
            name,
            _NODES,
            groups * MEMBERS,
            _share(groups, alike=alike),
            "% of a core",
            10,
            none,
            counts,
            beside,
        )
        for name, alike in (("waiting_groups_alike", True), ("waiting_groups", False))
    ]


CASES = (waiting_groups,)
