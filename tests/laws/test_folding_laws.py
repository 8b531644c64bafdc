"""Reports that are taken in part by part, with anything between the parts: nothing lost, nothing twice, the same end.

The world is that of test_exactly_once: answers get lost, agents restart and fall silent, dispatchers are killed.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.messages import Changes
from dispatcher.model.node import Node
from dispatcher.model.pod import Claim, Pod, SourceRef
from dispatcher.scheduling import events
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.test_exactly_once import CLUSTERS, GRACE_S, Simulation, run_and_check
from tests.laws.world import ModelCluster

SEEDS = [range(at, at + 8) for at in range(0, 40, 8)]


class InParts(Simulation):
    """Of each report of a cluster that is not Ready one pod is folded at a time, and some seconds may pass between."""

    parts = 0

    def _boot(self) -> SchedulerCore:
        self.boots += 1
        self.mail.queue.clear()
        timing = CoreTiming(absence_grace_s=GRACE_S, fold_at_once=1)
        return make_core(CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=timing)

    def _report(self, cluster: ModelCluster) -> None:
        if cluster.name not in self.core.folding:
            super()._report(cluster)
        while cluster.name in self.core.folding and self.dice.random() < 0.7:
            self.parts += 1
            assert not self.core.clusters[cluster.name].ready
            self._feed(events.FoldOn(cluster.name))

    def step(self) -> None:
        super().step()
        state = self.core._state
        assert state.abroad == {tracked.pod_id for tracked in state.tracked.values() if tracked.abroad}
        for name in CLUSTERS:
            asked, state.due = state.due, set()
            state.touch(name)
            state.due, touched = asked, state.due
            assert touched == {tracked.pod_id for tracked in state.tracked.values() if tracked.touches(name)}


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_nothing_is_lost_and_nothing_runs_twice(seeds: range) -> None:
    sims = [InParts(seed) for seed in seeds]
    for sim in sims:
        run_and_check(sim)
    assert sum(sim.parts for sim in sims) > len(sims)


def _pods(draw: st.DrawFn, count: int) -> tuple[Pod, ...]:
    pods = []
    for at in range(count):
        kind = draw(st.sampled_from(("foreign", "ours", "bound", "claimed", "copy")))
        node = draw(st.sampled_from(("n0", "n1", "n2", "unknown")))
        ours = "global-dispatcher" if kind in ("ours", "bound", "claimed") else ""
        source = SourceRef("west", "west-uid", "default", f"s{at}", f"source-{at}", 1) if kind == "copy" else None
        claim = Claim("west", "w1", 3) if kind == "claimed" else None
        where = node if kind in ("foreign", "bound", "copy") else ""
        pods.append(
            Pod(
                f"p{at}",
                "default",
                f"pod-{at}",
                {"app": draw(st.sampled_from("ab"))},
                requests={"cpu": draw(st.integers(1, 900))},
                scheduler_name=ours,
                node=where,
                phase="Running" if where else "Pending",
                claim=claim,
                has_finalizer=claim is not None,
                source=source,
            )
        )
    return tuple(pods)


@st.composite
def reports(draw: st.DrawFn) -> Changes:
    nodes = tuple(
        Node(f"n{at}", labels={"zone": draw(st.sampled_from("xy"))}, ready=True, allocatable={"cpu": 4000, "pods": 9})
        for at in range(draw(st.integers(1, 12)))
    )
    pods = _pods(draw, draw(st.integers(2, 14)))
    return Changes("east", "east-uid", "life", 0, 9, full=True, nodes=nodes, pods=pods, keys=())


@settings(max_examples=examples(100), deadline=None)
@given(report=reports(), at_once=st.integers(1, 6), until=st.sampled_from(("end", "silent", "again")))
def test_in_parts_it_ends_as_it_does_in_one_piece(report: Changes, at_once: int, until: str) -> None:
    """Also where the cluster falls silent, or tells everything anew, before the last part."""
    whole, parts = (make_core(("east", "west"), timing=CoreTiming(fold_at_once=most)) for most in (10**9, at_once))
    west = Changes("west", "west-uid", "life", 0, 1, full=True, nodes=(Node("w1", ready=True),))
    for core in (whole, parts):
        core.handle(events.ClusterChanged(west), 1.0)
        core.handle(events.ClusterChanged(report), 1.0)
    assert not whole.folding
    while parts.folding and until == "end":
        assert not parts.open
        assert not any(isinstance(one, events.Decided) for one in parts.handle(events.Tick(), 1.0))
        parts.handle(events.FoldOn("east"), 1.0)
    for core in (whole, parts):
        if until == "silent":
            core.handle(events.ClusterSilent("east", "no answer"), 1.0)
        elif until == "again":
            core.handle(events.ClusterChanged(report), 1.0)
    while parts.folding:
        parts.handle(events.FoldOn("east"), 1.0)
    acted = until != "silent"  # where it falls silent with its last part, nothing has been done for its pods
    assert _state(parts, acted=acted) == _state(whole, acted=acted)


def _state(core: SchedulerCore, *, acted: bool) -> object:
    fleet = core.fleet
    rows = {
        fleet.name_of(row): (
            fleet.node(row),
            fleet.allocatable[:, row].tolist(),
            fleet.requested[:, row].tolist(),
            fleet.recent[:, row].tolist(),
        )
        for row in np.flatnonzero(fleet.live).tolist()
    }
    places = {one.pod_id: (one.cluster, one.node, one.placed, one.row is None) for one in fleet.occupants()}
    tracked = {
        one.pod_id: (one.source, one.delegates, acted and one.in_flight is None) for one in core.tracked.values()
    }
    queued = {pod_id: core.queue.state_of(pod_id) for pod_id in core.tracked} if acted else {}
    return core.clusters, rows, places, tracked, queued, core.open, fleet.allocatable_total()
