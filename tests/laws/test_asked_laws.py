"""A pod gets the same decision for the same reasons if plugins that have nothing to say are asked of it, too."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin, PodInfo, Profile
from dispatcher.scheduling.framework.asked import reads_of
from dispatcher.scheduling.profile import DEFAULT_PROFILE, KUBE_SCHEDULER_PROFILE
from shared.model import names
from shared.model.labels import NodeSelectorTerm, PreferredTerm, Requirement
from shared.model.node import FEATURES, PREFER_NO_SCHEDULE
from shared.model.pod import Affinity, HostPort, SpreadConstraint, Volume
from shared.model.refusal import ClusterRefusal
from tests.builders import fleet, node, pod, reading
from tests.laws.examples import examples
from tests.laws.grain import recorded
from tests.laws.test_one_pass_laws import form  # noqa: F401 - a fixture

ON_SSD = NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),))
# Fields that plugins read, with what a pod may have there.
FIELDS: dict[str, tuple[Any, ...]] = {
    "labels": ({"app": "u"}, {"app": "v", "tier": "x"}),
    "annotations": ({names.NEAR: "cluster/b"}, {names.DATA: "d"}, {names.REQUIRE_DATA: "d"}, {names.CLUSTERS: "b"}),
    "ports": ((HostPort(80),), (HostPort(80), HostPort(81, "UDP"))),
    "volumes": ((Volume("claim", "data"),), (Volume("gcePersistentDisk", "disk"),)),
    "node_selector": ({"disk": "ssd"}, {"disk": "none"}),
    "affinity": (Affinity((ON_SSD,)), Affinity(None, (PreferredTerm(7, ON_SSD),)), Affinity()),
    "spread": ((SpreadConstraint("zone", 1, hard=True),), (SpreadConstraint("host", 1, hard=False),)),
    "features": (FEATURES[:1],),
    "resource_claims": (("gpu",),),
    "images": (("web",), ("web", "cache:1")),
    "node": ("n1", "nowhere"),
}


def a_fleet() -> FleetState:
    def nodes(cluster: str) -> list[Any]:
        disks = ("ssd", "hdd")
        found = [node(f"n{at}").cpu(4).labels(disk=disks[at % 2], zone=f"{cluster}{at % 3}") for at in range(6)]
        return [found[0].images({"web": 2**30}), found[1].taint("old", "", PREFER_NO_SCHEDULE), *found[2:]]

    state = fleet(a=nodes("a"), b=nodes("b"), now=1000.0)
    for at, cluster in enumerate("ab"):
        for number in range(0, 6, 2):
            state.put_reading(cluster, reading(f"n{number}", cpu=0.1 * number + 0.05 * at, memory=0.2, net=0.1, age=10))
    return state


def some_pods(seed: np.random.Generator) -> list[list[PodInfo]]:
    """Of one template each, one or more."""
    found = list[list[PodInfo]]()
    for at in range(14):
        has = [name for name in FIELDS if seed.random() < 0.22]
        told = {name: FIELDS[name][int(seed.integers(0, len(FIELDS[name])))] for name in has}
        refused = (ClusterRefusal("ab"[int(seed.integers(0, 2))], "no", 0.0, 9e9),) if seed.random() < 0.2 else ()
        cpu, home = f"{int(seed.integers(1, 9)) * 100}m", "ab"[int(seed.integers(0, 2))]
        many = int(seed.choice((1, 1, 2, 7)))
        built = [pod(f"p{at}-{one}").cpu(cpu).set(owner=f"rs/{at}", **told).build() for one in range(many)]
        found.append([PodInfo(one, home, refused) for one in built])
    return found


def asked_all(plugins: list[Plugin]) -> list[Plugin]:
    for one in plugins:
        one.reads = ()
    return plugins


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("profile", [DEFAULT_PROFILE, KUBE_SCHEDULER_PROFILE], ids=["default", "kubernetes"])
@settings(
    max_examples=examples(20),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # no seed is simpler than another
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_who_has_nothing_to_say_changes_nothing_if_it_is_asked(profile: Profile, seed: int) -> None:
    few = Scheduler(profile, build(profile, PluginContext()), a_fleet())
    every = Scheduler(profile, asked_all(build(profile, PluginContext())), a_fleet())
    told = {one.name for one in every.plan.looks if not reads_of(one)}
    assert len(told) > len({one.name for one in few.plan.looks if not reads_of(one)})
    for pods in some_pods(np.random.default_rng(seed)):
        assert told <= {one.name for _, one in every.plan.asked(pods[0]).keyed}
        items = [((one.home, one.pod.uid), one) for one in pods]
        assert few.classify(pods[0]) == every.classify(pods[0])
        assert recorded(few.schedule_class(items)) == recorded(every.schedule_class(items))
    assert few.faults == every.faults == {}
    assert [msgspec.structs.asdict(one) for one in few.fleet.occupants()] == [
        msgspec.structs.asdict(one) for one in every.fleet.occupants()
    ]
