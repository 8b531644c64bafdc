"""Reports that are taken in part by part, with anything between the parts: nothing lost, nothing twice, the same end.

The world is that of test_exactly_once: answers get lost, agents restart and fall silent, dispatchers are killed.
"""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling import events
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.delegation.tracking import Tracked
from shared.messages import Changes
from shared.model.node import Node
from shared.model.pod import Claim, Pod, PodId, SourceRef
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.test_exactly_once import CLUSTERS, GRACE_S, Simulation, run_and_check
from tests.laws.world import ModelCluster

SEEDS = [range(at, at + 8) for at in range(0, 40, 8)]


def vars_of(tracked: Tracked) -> tuple[object, ...]:
    return msgspec.structs.astuple(tracked)


class InParts(Simulation):
    """Of reports one pod is folded at a time, and some seconds may pass between: of full ones of clusters that are not
    Ready, and of all of Ready ones that say nothing new of their health. So are pods looked at where a cluster changes.
    """

    parts = parts_of_ready = rested = 0

    def _boot(self) -> SchedulerCore:
        self.boots += 1
        self.mail.queue.clear()
        timing = CoreTiming(absence_grace_s=GRACE_S, fold_at_once=1, fold_ready_at_once=1, look_at_once=1)
        return make_core(CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=timing)

    def _report(self, cluster: ModelCluster) -> None:
        if cluster.name not in self.core.folding:
            super()._report(cluster)
        while cluster.name in self.core.folding and self.dice.random() < 0.7:
            self.parts += 1
            self.parts_of_ready += self.core.clusters[cluster.name].ready
            self._feed(events.FoldOn(cluster.name))

    def step(self) -> None:
        super().step()
        state = self.core._state
        assert state.abroad == {tracked.pod_id for tracked in state.tracked.values() if tracked.abroad}
        for name in CLUSTERS:
            asked, state.dirty = state.dirty, set()
            late, state.dirty_backlog, clusters, state.backlog_clusters = (
                state.dirty_backlog,
                {},
                state.backlog_clusters,
                set(),
            )
            state.touch(name)
            touched = {*state.dirty, *state.dirty_backlog}
            state.dirty, state.dirty_backlog, state.backlog_clusters = asked, late, clusters
            at_rest = {tracked.pod_id for tracked in state.tracked.values() if tracked.is_settled}
            concerned = {tracked.pod_id for tracked in state.tracked.values() if tracked.touches(name)}
            assert touched == concerned - at_rest
            self._look_in_vain(sorted(at_rest & concerned))

    def _look_in_vain(self, at_rest: list[PodId]) -> None:
        """A look at pods that are at rest does nothing."""
        state = self.core._state
        before = [(state.fleet.occupant(pod_id), *vars_of(state.tracked[pod_id])) for pod_id in at_rest]
        state.dirty.update(at_rest)
        self.core._reconciler.reconcile_due(self.now)
        assert before == [(state.fleet.occupant(pod_id), *vars_of(state.tracked[pod_id])) for pod_id in at_rest]
        assert not state.effects
        assert not state.outbox.take()
        self.rested += len(at_rest)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_nothing_is_lost_and_nothing_runs_twice(seeds: range) -> None:
    sims = [InParts(seed) for seed in seeds]
    for sim in sims:
        run_and_check(sim)
    assert sum(sim.parts_of_ready for sim in sims) > len(sims)
    assert sum(sim.parts - sim.parts_of_ready for sim in sims) > len(sims)
    assert sum(sim.rested for sim in sims) > len(sims)


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
    _end_alike(whole, parts, until, report)


@st.composite
def later_reports(draw: st.DrawFn) -> tuple[Changes, Changes]:
    """A first report, and what changes then: pods and nodes that come, go or become others; or all of it, told anew."""
    first, then = draw(reports()), draw(reports())
    if draw(st.booleans()):
        return first, msgspec.structs.replace(then, incarnation="another life")
    gone = sorted({pod.uid for pod in first.pods} - {pod.uid for pod in then.pods})
    nodes_gone = sorted({node.name for node in first.nodes} - {node.name for node in then.nodes})
    more = {"pods_gone": tuple(gone), "pods_missing": tuple(gone[::2]), "nodes_gone": tuple(nodes_gone)}
    return first, msgspec.structs.replace(then, full=False, since=9, revision=12, **more)


@settings(max_examples=examples(100), deadline=None)
@given(told=later_reports(), at_once=st.integers(1, 6), until=st.sampled_from(("end", "silent", "again")))
def test_of_a_ready_cluster_in_parts_it_ends_as_it_does_in_one_piece(
    told: tuple[Changes, Changes], at_once: int, until: str
) -> None:
    first, then = told
    timings = [CoreTiming(fold_ready_at_once=most) for most in (10**9, at_once)]
    whole, parts = (make_core(("east", "west"), timing=timing) for timing in timings)
    west = Changes("west", "west-uid", "life", 0, 1, full=True, nodes=(Node("w1", ready=True),))
    for core in (whole, parts):
        for report in (west, first, then):
            core.handle(events.ClusterChanged(report), 1.0)
    assert not whole.folding
    while parts.folding and until == "end":
        assert parts.clusters["east"].ready
        parts.handle(events.FoldOn("east"), 1.0)
    again = msgspec.structs.replace(then, full=True, since=0, incarnation="a life after that")
    _end_alike(whole, parts, until, again)


def _end_alike(whole: SchedulerCore, parts: SchedulerCore, until: str, again: Changes) -> None:
    for core in (whole, parts):
        if until == "silent":
            core.handle(events.ClusterSilent("east", "no answer"), 1.0)
        elif until == "again":
            core.handle(events.ClusterChanged(again), 1.0)
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
    places = {one.pod_id: (one.cluster, one.node, one.pod_info, one.row is None) for one in fleet.occupants()}
    tracked = {
        one.pod_id: (one.source, one.delegates, acted and one.in_flight is None) for one in core.tracked.values()
    }
    queued = {pod_id: core.queue.state_of(pod_id) for pod_id in core.tracked} if acted else {}
    return core.clusters, rows, places, tracked, queued, core.open, fleet.allocatable_total()
