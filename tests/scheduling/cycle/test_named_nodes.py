"""Nodes that a pod names: the others are refused before any filter looks at them."""

from collections.abc import Hashable
from typing import ClassVar

import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler, Unschedulable
from dispatcher.scheduling.framework import FleetView, Plugin, PodInfo
from dispatcher.scheduling.profile import KUBE_SCHEDULER_PROFILE
from shared.model.labels import NodeSelectorTerm, Requirement
from shared.model.pod import Affinity
from tests.builders import PodBuilder, fleet, node, pod


class Names(Plugin):
    """Names nodes by an annotation."""

    name: ClassVar[str] = "Names"

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.annotations.get("names")

    def node_names(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[str] | None:
        text = pod_info.pod.annotations.get("names")
        return None if text is None else frozenset(text.split())


def named(*terms: tuple[str, ...]) -> PodBuilder:
    """A pod with one required term each: its names, by one clause each."""
    made = (
        NodeSelectorTerm((), tuple(Requirement("metadata.name", "In", (name,)) for name in names)) for names in terms
    )
    return pod().set(affinity=Affinity(tuple(made)))


def decide(asking: PodBuilder) -> str:
    state = fleet(a=[node("n1").cordoned(), node("n2").cordoned(), node("n3")])
    plugins = [*build(KUBE_SCHEDULER_PROFILE, PluginContext()), Names()]
    placed = asking.placed()
    result = Scheduler(KUBE_SCHEDULER_PROFILE, plugins, state).schedule(placed, ("a", placed.pod.uid))
    assert isinstance(result, Decision | Unschedulable)
    return result.node if isinstance(result, Decision) else result.message.partition(" preemption:")[0]


ALONE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (named(("n3",)), "n3"),
        (named(("n1",)), ALONE),
        (named(("n1",), ("n3",)), "n3"),
        (named(("n9",)), "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        (named(("n1", "n2")), "0/3 nodes are available: pod affinity terms conflict."),
        (named(("n1", "n2"), ("n3",)), "n3"),
        (named(("n1",)).annotation("names", "n1 n2"),
         "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) "
         "[Names NodeAffinity]."),
        (named(("n1",)).annotation("names", "n2 n3"),
         "0/3 nodes are available: node(s) didn't satisfy plugin(s) [Names NodeAffinity] simultaneously."),
        (pod().annotation("names", "n3"), "n3"),
        (pod().annotation("names", "n2"),
         "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [Names]."),
        (pod(), "n3"),
    ],
    ids=[
        "it is free", "the others are not looked at", "terms are alternatives", "no such node", "clauses conflict",
        "one term conflicts", "two plugins agree", "two plugins have none in common", "another plugin's",
        "another plugin's, cordoned", "none named",
    ],
)  # fmt: skip
def test_only_named_nodes_are_looked_at(asking: PodBuilder, want: str) -> None:
    assert decide(asking) == want
