"""The cases of kube-scheduler's integration tests for pod groups, by place_group.

They are those of test/integration/scheduler/podgroup of Kubernetes 1.37, each with the name that it has there. What
they say of the queue (a group without its PodGroup, members that come in a cycle) is in
tests/scheduling/core/test_groups.py. Composite groups are not served here, and the pods of a basic group without a
topology constraint are decided each by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from dispatcher.scheduling.cycle.batches import Item
from dispatcher.scheduling.cycle.cycle import Decision, Unschedulable
from dispatcher.scheduling.groups.place_group import place_group
from shared.model.pod import Group
from tests.builders import fleet, node, pod, put, selector
from tests.plugins.storage import bound, storing, using, volume
from tests.scheduling.cycle.test_what_if import default


@dataclass(frozen=True)
class Come:
    """Members that come to a group, as `name:CPUs` where they are not all alike. `goes`: its members with a place are
    on some of these nodes then, and so many `wait`. `evicts`: who has to go first. `|` is between what are as good.
    """

    pods: str
    group: str = "pg1"
    cpu: int = 1
    least: int = 3
    within: str = "rack"
    priority: int = 100
    goes: str = ""
    wait: int = 0
    evicts: str = ""


@dataclass(frozen=True)
class Go:
    """A pod goes, or the group is changed, and those that wait are tried again."""

    pod: str = ""
    group: str = "pg1"
    least: int = 3
    within: str = "rack"
    goes: str = ""
    wait: int = 0
    evicts: str = ""


@dataclass(frozen=True)
class Case:
    """`racks`: rack@zone -> nodes of two CPUs. `there`: pod -> (node, CPUs, priority)."""

    name: str
    racks: dict[str, str]
    steps: tuple[Come | Go, ...]
    there: dict[str, tuple[str, int, int]] | None = None
    cpu: int = 2


class Played:
    """A case, step by step."""

    def __init__(self, case: Case) -> None:
        nodes = [
            node(name).cpu(case.cpu).labels(rack=place.partition("@")[0], zone=place.partition("@")[2])
            for place, names in case.racks.items()
            for name in names.split()
        ]
        self.state = fleet(a=nodes)
        self.profiles = default(self.state)
        for name, (where, cpu, priority) in (case.there or {}).items():
            put(self.state, pod(name).cpu(cpu).priority(priority), "a", where)
        self._waiting: dict[str, list[Item]] = {}
        self._placed: dict[str, dict[str, str]] = {}

    def step(self, step: Come | Go) -> tuple[set[str], int, set[str]]:
        """The nodes of the group, how many of it wait, and who was evicted for it."""
        group = Group("PodGroup", step.group, "", step.least, step.within)
        waiting = self._waiting.setdefault(step.group, [])
        if isinstance(step, Come):
            cpus = {one.partition(":")[0]: int(one.partition(":")[2] or step.cpu) for one in step.pods.split()}
            infos = [pod(one).cpu(cpu).priority(step.priority).set(group=group).placed() for one, cpu in cpus.items()]
            waiting += [(("a", one.pod.uid), one) for one in infos]
        elif step.pod:
            self.profiles.forget(("a", f"uid-{step.pod}"))
        evicted = self._place(group)
        for name in evicted:
            self.profiles.forget(("a", f"uid-{name}"))
        if evicted:
            assert not self._place(group)
        return {*self._placed[step.group].values()}, len(self._waiting[step.group]), evicted

    def _place(self, group: Group) -> set[str]:
        """Place those that wait; who has to go first."""
        waiting, placed = self._waiting[group.name], self._placed.setdefault(group.name, {})
        results = place_group(self.profiles, group, waiting, [("a", name) for name in placed.values()]).results
        by_pod = {one.pod_id: one for one in results}
        found = {info.pod.name: by_pod[pod_id] for pod_id, info in waiting}
        placed |= {name: one.node for name, one in found.items() if isinstance(one, Decision)}
        self._waiting[group.name] = [one for one in waiting if one[1].pod.name not in placed]
        refused = [one for one in results if isinstance(one, Unschedulable)]
        return {victim.pod_info.pod.name for one in refused for victim in one.victims}


R1, R2, R3, R4 = "rack-1@zone-1", "rack-2@zone-1", "rack-3@zone-2", "rack-4@zone-2"
ONE = {"rack-1@zone-1": "node"}
VERY_LOW_AND_LOW = {
    "very-low-1": ("node", 1, 5),
    "very-low-2": ("node", 1, 5),
    "low-1": ("node", 1, 10),
    "low-2": ("node", 1, 10),
}
GANGS = [
    Case(
        "gang schedules when pod group and resources are available",
        ONE,
        (Come("p1 p2 p3", within="cluster", goes="node"),),
        cpu=4,
    ),
    Case(
        "any available pod group members get scheduled",
        ONE,
        (Come("p1 p2 p3", within="cluster", goes="node"), Come("p4", within="cluster", goes="node")),
        cpu=4,
    ),
    Case(
        "gang waits for quorum to start, then schedules",
        ONE,
        (Come("p1 p2", within="cluster", wait=2), Come("p3", within="cluster", goes="node")),
        cpu=4,
    ),
    Case(
        "gang waits for pod group, then for resources, then schedules",
        ONE,
        (Come("p1 p2 p3", within="cluster", wait=3), Go("blocker", within="cluster", goes="node")),
        there={"blocker": ("node", 2, 100)},
        cpu=4,
    ),
    Case(
        "minCount is scheduled, but one pod from a gang remain unschedulable until the blocked resources are released",
        ONE,
        (
            Come("p1 p2 p3 p4", within="cluster", goes="node", wait=1),
            Go("small-blocker", within="cluster", goes="node"),
        ),
        there={"small-blocker": ("node", 1, 100)},
        cpu=4,
    ),
    Case(
        "two gangs competing for the same resources shouldn't deadlock, reversed order",
        ONE,
        (Come("o1 o2 o3", "pg2", within="cluster", goes="node"), Come("p1 p2 p3", within="cluster", wait=3)),
        cpu=4,
    ),
    Case(
        "two gangs competing for the same resources shouldn't deadlock",
        ONE,
        (Come("p1 p2 p3", within="cluster", goes="node"), Come("o1 o2 o3", "pg2", within="cluster", wait=3)),
        cpu=4,
    ),
    Case(
        "pod group interleaving with an individual pod shouldn't deadlock nor livelock, and the individual pod gets "
        "scheduled",
        ONE,
        (Come("p1 p2 p3", within="cluster", wait=3),),
        there={"blocker": ("node", 2, 100)},
        cpu=4,
    ),
    Case(
        # There all four go at once. Here as many as can stay: three go for minCount, the last for the fourth member.
        "gang schedules with workload-aware preemption",
        ONE,
        (
            Come("p1 p2 p3 p4", within="cluster", goes="node", wait=1, evicts="low-2 low-3 low-4"),
            Go(within="cluster", goes="node", evicts="low-1"),
        ),
        there={f"low-{at}": ("node", 1, 10) for at in (1, 2, 3, 4)},
        cpu=4,
    ),
    Case(
        "gang schedules with partial workload-aware preemption",
        ONE,
        (Come("m1 m2", least=2, priority=50, within="cluster", goes="node", evicts="very-low-1 very-low-2"),),
        there=VERY_LOW_AND_LOW,
        cpu=4,
    ),
    Case(
        "tas gang with constraint uses workload preemption",
        ONE,
        (Come("m1 m2", least=2, priority=50, within="zone", goes="node", evicts="very-low-1 very-low-2"),),
        there=VERY_LOW_AND_LOW,
        cpu=4,
    ),
    Case(
        "gang pods are unschedulable due to lack of quorum, then scheduled when minCount is decreased",
        ONE,
        (Come("p1 p2 p3 p4", least=5, within="cluster", wait=4), Go(least=4, within="cluster", goes="node")),
        cpu=4,
    ),
    Case(
        "gang pods are unschedulable due to lack of quorum, and remain unschedulable without triggering reschedule "
        "when minCount is increased",
        ONE,
        (Come("p1 p2 p3 p4", least=5, within="cluster", wait=4), Go(least=6, within="cluster", wait=4)),
        cpu=4,
    ),
    Case(
        "gang pods are unschedulable due to lack of space, then scheduled when minCount is decreased",
        ONE,
        (
            Come("p1 p2 p3 p4 p5", least=5, within="cluster", wait=5),
            Go(least=4, within="cluster", goes="node", wait=1),
        ),
        cpu=4,
    ),
]
THREE_AND_TWO = {R1: "n1 n2 n3", R2: "n4 n5", R3: "n6"}
TWO_AND_THREE = {R1: "n1 n2", "rack-2@zone-2": "n3 n4 n5", R3: "n6"}
MANY = {R1: "n1 n2", "rack-2@zone-2": "n3 n4 n5", R3: "n6 n7 n8", R4: "n9"}
IN_RACKS = [
    Case(
        "gang schedules on a single rack, when only one feasible rack is available",
        THREE_AND_TWO,
        (Come("p1 p2 p3", goes="n1 n2 n3"),),
        there={"existing1": ("n4", 2, 100)},
    ),
    Case(
        "gang remains pending when no feasible resources are found",
        {R1: "n1 n2", R2: "n3", R3: "n4"},
        (Come("p1 p2 p3", cpu=2, wait=3),),
    ),
    Case(
        "gang remains pending when resources are consumed by existing pods",
        {R1: "n1 n2 n3"},
        (Come("p1 p2 p3", wait=3), Go("existing1", goes="n1 n2")),
        there={"existing1": ("n1", 2, 100), "existing2": ("n3", 2, 100)},
    ),
    Case(
        "gang schedules on a single rack, choosing placement with the highest score in default placement scoring "
        "algorithm",
        TWO_AND_THREE,
        (Come("p1 p2 p3", goes="n1 n2"),),
    ),
    Case(
        # There rack 2, where a larger share of the CPUs is taken then. Here those are alike that have four free.
        "gang schedules on a single rack, choosing placement with highest allocation percentage (default placement "
        "scoring algorithm) with pre-existing pods in cluster",
        MANY,
        (Come("p1 p2 p3", goes="n1 n2|n3 n4 n5"),),
        there={"existing1": ("n3", 2, 100), "existing2": ("n8", 1, 100)},
    ),
    Case(
        "two gangs schedule consecutively, each on a separate rack",
        {R1: "n1 n2 n3", R2: "n4 n5"},
        (Come("p1 p2 p3", cpu=2, goes="n1 n2 n3"), Come("p4 p5", "pg2", least=2, goes="n4 n5")),
    ),
    Case(
        "two gangs schedule consecutively, both on the same rack",
        {R1: "n1 n2 n3", R2: "n4"},
        (Come("p1:2 p2:1", least=2, goes="n1 n2 n3"), Come("p3 p4 p5", "pg2", goes="n1 n2 n3")),
    ),
    Case(
        "two gangs schedule consecutively, different topology keys",
        {R1: "n1 n2", R2: "n3", R3: "n4 n5 n6"},
        (
            Come("p1 p2 p3", cpu=2, goes="n4 n5 n6"),
            Come("p4 p5 p6", "pg2", cpu=2, within="zone", goes="n1 n2 n3"),
        ),
    ),
    Case(
        "two gangs schedule consecutively, only one fits in the cluster",
        {R1: "n1 n2"},
        (Come("p1 p2 p3", goes="n1 n2"), Come("p4 p5", "pg2", least=2, wait=2)),
    ),
    Case(
        "gang with minCount < pod count schedules on a single rack",
        {R1: "n1 n2", R2: "n3 n4"},
        (Come("p1 p2 p3", least=2, goes="n1 n2|n3 n4"),),
    ),
    Case(
        "gang with minCount < pod count schedules on a single rack, choosing smaller rack",
        THREE_AND_TWO,
        (Come("p1 p2 p3", goes="n4 n5"), Come("p4", goes="n4 n5"), Come("p5", goes="n4 n5", wait=1)),
    ),
    Case(
        "gang uses pod group preemption when resources are consumed by lower priority existing pods",
        {R1: "n1 n2 n3"},
        # There both go: here the second may stay.
        (Come("p1 p2 p3", priority=200, goes="n1 n2 n3", evicts="existing1|existing2"),),
        there={"existing1": ("n1", 2, 100), "existing2": ("n3", 2, 100)},
    ),
    Case(
        # There rack 1, for its score. One pod has to go in either.
        "gang uses preemption and schedules on a single rack, choosing placement with the highest score",
        TWO_AND_THREE,
        (Come("p1 p2 p3", priority=200, goes="n1 n2|n3 n4 n5", evicts="low1-rack1|low1-rack2|low2-rack2"),),
        there={"low1-rack1": ("n1", 2, 10), "low1-rack2": ("n3", 2, 10), "low2-rack2": ("n4", 2, 10)},
    ),
    Case(
        # There rack 2, for its score. One pod has to go in each.
        "gang uses preemption and schedules on a single rack, choosing placement with highest allocation percentage "
        "with pre-existing pods in cluster",
        MANY,
        (
            Come(
                "p1 p2 p3",
                priority=200,
                goes="n1 n2|n3 n4 n5|n6 n7 n8",
                evicts="low1-rack1|low1-rack2|low1-rack3|low2-rack3",
            ),
        ),
        there={
            "existing1": ("n3", 2, 200),
            "existing2": ("n8", 1, 200),
            "low1-rack1": ("n1", 2, 10),
            "low1-rack2": ("n4", 2, 10),
            "low1-rack3": ("n6", 2, 10),
            "low2-rack3": ("n8", 1, 10),
        },
    ),
    Case(
        "gang with minCount < pod count schedules on a single rack without preemption, additional pod triggers "
        "preemption on the same rack",
        THREE_AND_TWO,
        (
            Come("p1 p2 p3", priority=200, goes="n4 n5"),
            Come("p4", priority=200, goes="n4 n5", evicts="low1-rack2"),
            Come("p5", priority=200, goes="n4 n5", wait=1),
        ),
        there={"low1-rack2": ("n5", 1, 10)},
    ),
    Case(
        "gang does not schedule on a single rack when preemption could free up enough resources",
        {R1: "n1 n2"},
        (Come("p1 p2 p3", wait=3),),
        there={"existing1": ("n2", 2, 100)},
    ),
]
BASIC = [
    Case(
        "basic podgroup schedules on the only rack in the cluster",
        {R1: "n1 n2"},
        (Come("p1 p2 p3", least=1, goes="n1 n2"),),
    ),
    Case(
        "basic podgroup schedules all pods on a single rack, when there are multiple racks fitting in the cluster",
        {R1: "n1 n2", R2: "n3 n4", R3: "n5 n6"},
        (Come("p1 p2 p3", least=1, goes="n1 n2|n3 n4|n5 n6"),),
    ),
    Case(
        "basic podgroup cannot fit on a single rack, no pods get scheduled on a different rack",
        {R1: "n1", R2: "n2"},
        (Come("p1 p2 p3", least=1, goes="n1|n2", wait=1),),
    ),
    Case(
        "basic podgroup does not schedule at all when no pods fit",
        {R1: "n1", R2: "n2"},
        (Come("p1 p2", least=1, cpu=3, wait=2),),
    ),
    Case(
        "basic podgroup schedules only some pods when others don't fit on any node",
        {R1: "n1", R2: "n2"},
        (Come("p1:3 p2:1", least=1, goes="n1|n2", wait=1),),
    ),
    Case(
        "basic podgroup schedules on a single rack, choosing placement with highest allocation percentage (default "
        "placement scoring algorithm)",
        {R1: "n1 n2", "rack-2@zone-2": "n3 n4 n5"},
        (Come("p1 p2 p3", least=1, goes="n1 n2"),),
    ),
    Case(
        "basic podgroup schedules on a single rack, choosing placement with highest allocation percentage with "
        "pre-existing pods",
        {R1: "n1 n2 n3", "rack-2@zone-2": "n4 n5 n6", R3: "n7 n8 n9 n10"},
        (Come("p1 p2 p3", least=1, goes="n4 n5 n6"),),
        there={"existing1": ("n1", 1, 100), "existing2": ("n5", 1, 100), "existing3": ("n6", 1, 100)},
    ),
    Case(
        "basic podgroup schedules on a single rack, choosing best scoring placement that will not fit all podgroup",
        {R1: "n1 n2 n3 n4", R2: "n5"},
        (Come("p1", least=1, goes="n5"), Come("p2 p3", least=1, goes="n5", wait=1)),
        there={"existing1": ("n1", 2, 100)},
    ),
    Case(
        "two basic podgroups schedule consecutively, each on a single rack",
        {R1: "n1 n2 n3", R2: "n4"},
        (Come("p1 p2", least=1, goes="n4"), Come("p3 p4", "pg2", least=1, goes="n1 n2 n3")),
    ),
    Case(
        "two basic podgroups schedule consecutively on the only rack",
        {R1: "n1 n2 n3"},
        (Come("p1 p2", least=1, goes="n1 n2 n3"), Come("p3 p4 p5", "pg2", least=1, goes="n1 n2 n3")),
    ),
    Case(
        "two basic podgroups schedule consecutively, different topology keys",
        {R1: "n1", "rack-2@zone-2": "n2 n3", R3: "n4 n5"},
        (
            Come("p1 p2", least=1, goes="n1"),
            Come("p3 p4 p5", "pg2", least=1, cpu=2, within="zone", goes="n2 n3 n4 n5"),
        ),
    ),
    Case(
        "two basic podgroups schedule consecutively, one does not fit in the assigned rack",
        {R1: "n1 n2", R2: "n3"},
        (
            Come("p1", least=1, goes="n3"),
            Come("p2 p3", least=1, goes="n3", wait=1),
            Come("p4 p5 p6", "pg2", least=1, goes="n1 n2"),
        ),
    ),
    Case(
        "basic podgroup continues to schedule pods when more resources become available",
        {R1: "n1", R2: "n2"},
        (Come("p1", least=1, goes="n1"), Come("p2", least=1, goes="n1", wait=1), Go("existing1", least=1, goes="n1")),
        there={"existing1": ("n1", 1, 100)},
    ),
]


def ways(text: str) -> Iterator[set[str]]:
    return (set(one.split()) for one in text.split("|"))


@pytest.mark.parametrize("case", [*GANGS, *IN_RACKS, *BASIC], ids=lambda case: case.name.replace(" ", "-")[:80])
def test_groups_fare_as_in_the_integration_tests_of_kube_scheduler(case: Case) -> None:
    played = Played(case)
    for step in case.steps:
        nodes, wait, evicted = played.step(step)
        assert wait == step.wait, step
        assert evicted in [*ways(step.evicts)], step
        assert any(nodes <= way for way in ways(step.goes)), (step, nodes)
        assert bool(nodes) == bool(step.goes), (step, nodes)


@pytest.mark.parametrize(
    ("hosts", "placed"), [(["node-1", "node-2"], {"anti-pod": "node-1", "plain-pod": "node-2"}), (["node-1"], {})]
)
def test_anti_affinity_is_honored_across_the_cycle(hosts: Sequence[str], placed: dict[str, str]) -> None:
    """And keeps the group waiting where there is one host alone."""
    state = fleet(a=[node(name).cpu(2).labels(host=name) for name in hosts])
    group = Group("PodGroup", "pg", "", 2)
    repels = pod("anti-pod").cpu(1).labels(app="foo").away("host", selector(app="foo")).requires("host", "In", "node-1")
    infos = [one.set(group=group).placed() for one in (repels, pod("plain-pod").cpu(1).labels(app="foo"))]
    results = place_group(default(state), group, [(("a", one.pod.uid), one) for one in infos]).results
    assert {one.pod_info.pod.name: one.node for one in results if isinstance(one, Decision)} == placed


@pytest.mark.parametrize(("second", "placed"), [("pvc-1", 0), ("pvc-2", 2)])
def test_a_claim_for_one_pod_alone_is_held_by_the_member_before(second: str, placed: int) -> None:
    """Two pods sharing a ReadWriteOncePod claim keep the group waiting, with claims of their own they are placed."""
    found = [volume(f"pv-{name}") for name in ("pvc-1", "pvc-2")]
    claims = [bound(name, f"pv-{name}", access_modes=("ReadWriteOncePod",)) for name in ("pvc-1", "pvc-2")]
    state = storing(*found, *claims, nodes=(node("node-1").cpu(2),))
    group = Group("PodGroup", "pg", "", 2)
    names = {"pvc-pod-1": "pvc-1", "pvc-pod-2": second}
    infos = [using(claim, name=name).cpu(1).set(group=group).placed() for name, claim in names.items()]
    results = place_group(default(state), group, [(("a", one.pod.uid), one) for one in infos]).results
    assert sum(isinstance(one, Decision) for one in results) == placed
