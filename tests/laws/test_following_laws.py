"""A standby that takes over is what a dispatcher that begins then would be, whatever it has followed before.

The world of the second half is that of test_exactly_once: answers get lost, agents restart and fall silent, also for
the standby alone, dispatchers are killed, and the standby leads.
"""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import GapError
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from shared.messages import Changes
from shared.model.node import Node
from shared.model.pod import Pod
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.test_exactly_once import CLUSTERS, GRACE_S, Simulation, run_and_check
from tests.laws.test_folding_laws import _state, reports
from tests.laws.world import ModelCluster

SEEDS = [range(at, at + 20) for at in (2000, 2020)]
WEST = Changes("west", "west-uid", "life", 0, 1, full=True, nodes=(Node("w1", ready=True),))


def _lasting(report: Changes) -> Changes:
    """No pod of one UID is ever of another scheduler, or another pod's copy: a copy's UID says whose it is."""

    def uid(pod: Pod) -> str:
        return f"{pod.uid} of {pod.source.uid if pod.source else pod.scheduler_name}"

    pods = tuple(msgspec.structs.replace(pod, uid=uid(pod)) for pod in report.pods)
    return msgspec.structs.replace(report, pods=pods)


def _follower() -> SchedulerCore:
    core = make_core(("east", "west"))
    core.follow()
    return core


@settings(max_examples=examples(100), deadline=None)
@given(
    followed=st.lists(reports().map(_lasting), min_size=1, max_size=3),
    silent_before=st.booleans(),
    now=st.sampled_from(("nothing", "silent", "anew")),
)
def test_it_is_as_one_that_began_then(followed: list[Changes], silent_before: bool, now: str) -> None:
    warm, cold = _follower(), make_core(("east", "west"))
    for at, report in enumerate(followed):
        for told in (WEST, report):
            assert warm.handle(events.ClusterChanged(told), 10.0 + at) == []
        assert warm.handle(events.Tick(), 10.0 + at) == []
    if silent_before:
        warm.handle(events.ClusterSilent("east", "no answer"), 20.0)
    warm.take_over(1)
    opened = [warm.open]
    east: dict[str, events.Event] = {
        "nothing": events.ClusterChanged(Changes("east", "east-uid", "life", 9, 9)),
        "silent": events.ClusterSilent("east", "no answer"),
        "anew": events.ClusterChanged(followed[0]),
    }
    full = {**east, "nothing": events.ClusterChanged(followed[-1])}
    warm.handle(events.ClusterChanged(Changes("west", "west-uid", "life", 1, 1)), 50.0)
    opened.append(warm.open)
    warm.handle(east[now], 50.0)
    opened.append(warm.open)
    for event in (events.ClusterChanged(WEST), full[now]):
        cold.handle(event, 50.0)
    assert opened == [False, False, True]
    back = _came_back([*followed, followed[0]] if now == "anew" else followed)
    assert _but_for_recent(_state(warm, acted=True), back) == _but_for_recent(_state(cold, acted=True), back)


def _came_back(told: list[Changes]) -> set[str]:
    """Nodes that were there, were gone, and may be there again: what runs on one counts until a reading shows it, and
    who began later has not seen it go.
    """
    gone: set[str] = set()
    for earlier, later in pairwise(told):
        gone |= {node.name for node in earlier.nodes} - {node.name for node in later.nodes}
    return gone


def _but_for_recent(state: Any, nodes: set[str]) -> Any:
    clusters, rows, *rest = state
    told = {name: one[:3] if name[0] == "east" and name[1] in nodes else one for name, one in rows.items()}
    return clusters, told, *rest


class FailingOver(Simulation):
    """A standby follows what the leader is told, but for what it misses, and leads when the leader is killed."""

    takeovers = 0
    standby: SchedulerCore | None = None

    def _boot(self) -> SchedulerCore:
        leader, self.standby = self.standby, self._new()
        self.standby.follow()
        self.missed: set[str] = set()
        if leader is None:
            return super()._boot()
        self.boots += 1
        self.takeovers += 1
        self.mail.queue.clear()
        leader.take_over(self.boots * 1_000_000)
        return leader

    def _new(self) -> SchedulerCore:
        return make_core(CLUSTERS, timing=CoreTiming(absence_grace_s=GRACE_S))

    def _report(self, cluster: ModelCluster) -> None:
        super()._report(cluster)
        if self.dice.random() < 0.02:
            self.missed ^= {cluster.name}
        assert self.standby is not None
        if cluster.name in self.missed:
            said = self.standby.handle(events.ClusterSilent(cluster.name, "no answer"), self.now)
        else:
            view = self.standby.clusters[cluster.name]
            try:
                told = cluster.changes(view.revision, view.incarnation)
                said = self.standby.handle(events.ClusterChanged(told), self.now)
            except GapError:
                said = self.standby.handle(events.ClusterChanged(cluster.changes(0, "")), self.now)
        assert said == [], "a standby orders nothing"


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_nothing_is_lost_and_nothing_runs_twice(seeds: range) -> None:
    sims = [FailingOver(seed) for seed in seeds]
    for sim in sims:
        run_and_check(sim)
    assert sum(sim.takeovers for sim in sims) > len(sims)
