"""A profile that decides a share of another's pods in its place."""

import numpy as np
import pytest

from dispatcher.scheduling.cycle.canaries import Compared, canary_problems
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import (
    Canary,
    Depends,
    FleetView,
    Floats,
    Plugin,
    PluginUse,
    PodInfo,
    Profile,
    Rows,
    Score,
)
from tests.builders import fleet, node, pod
from tests.scheduling.tiny_plugins import Fit, Quota

BASE, CANARY = "global-dispatcher", "global-dispatcher-canary"


class Small(Score):
    """Prefers nodes with little CPU, or much."""

    name = "Small"
    depends = Depends.STATIC

    def __init__(self, much: bool = False) -> None:
        self._sign = 1 if much else -1

    def class_key(self, pod_info: PodInfo) -> None:
        return None

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        return np.clip(50.0 + self._sign * fleet.nodes.allocatable[0, rows] / 1000, 0.0, 100.0)


def scheduler(state: FleetState, name: str, *plugins: Plugin, canary: Canary | None = None) -> Scheduler:
    return Scheduler(Profile(name, tuple(PluginUse(one.name) for one in plugins), canary), plugins, state)


def both(state: FleetState, percent: float, base: list[Plugin], other: list[Plugin]) -> Profiles:
    canary = Canary(BASE, percent)
    return Profiles([scheduler(state, BASE, *base), scheduler(state, CANARY, *other, canary=canary)])


def decide(profiles: Profiles, *names: str, cpu: int = 1) -> list[object]:
    placed = [pod(name).cpu(cpu).placed() for name in names]
    return [profiles.schedule_class([(("a", one.pod.uid), one)])[0] for one in placed]


@pytest.mark.parametrize("percent", [1, 20, 75, 100])
def test_about_so_many_percent_of_the_pods_are_the_canarys_and_always_the_same(percent: float) -> None:
    profiles = both(fleet(a=["n1"]), percent, [Fit()], [Fit()])
    pods = [pod(f"p{n}").placed() for n in range(2000)]
    chosen = [profiles.name_of(one) for one in pods]
    assert chosen.count(CANARY) == pytest.approx(20 * percent, abs=60)
    assert chosen == [profiles.name_of(one) for one in pods]


def test_a_pod_that_names_the_canary_itself_is_decided_by_it() -> None:
    profiles = both(fleet(a=["n1"]), 1, [Fit()], [Fit()])
    assert profiles.name_of(pod().set(scheduler_name=CANARY).placed()) == CANARY


@pytest.mark.parametrize(
    ("base", "canary", "cpu", "what"),
    [
        ([Small()], [Small()], 1, Compared.SAME_NODE),
        ([Fit(), Small()], [Fit(), Small(much=True)], 1, Compared.OTHER_CLUSTER),
        ([Fit()], [], 99, Compared.ONLY_CANARY),
        ([], [Fit()], 99, Compared.ONLY_BASE),
        ([Fit()], [Fit()], 99, Compared.NEITHER),
    ],
)
def test_it_is_told_what_the_profile_would_have_decided_that_the_canary_stands_for(
    base: list[Plugin], canary: list[Plugin], cpu: int, what: Compared
) -> None:
    profiles = both(fleet(a=[node("small").cpu(4)], b=[node("large").cpu(8)]), 100, base, canary)
    decide(profiles, "one", cpu=cpu)
    assert profiles.canaries.compared == {(CANARY, BASE, what): 1}


def test_two_nodes_of_one_cluster_are_told_from_two_clusters() -> None:
    state = fleet(a=[node("small").cpu(4), node("large").cpu(8)])
    profiles = both(state, 100, [Fit(), Small()], [Fit(), Small(much=True)])
    decide(profiles, "one")
    assert profiles.canaries.compared == {(CANARY, BASE, Compared.SAME_CLUSTER): 1}


def test_asking_what_the_other_profile_would_do_books_nothing() -> None:
    state, quota = fleet(a=[node("n1").cpu(4)]), Quota()
    profiles = both(state, 100, [Fit(), quota], [Fit()])
    decide(profiles, "one")
    assert (state.requested[0].tolist(), quota.used) == ([1000], {})


def test_a_pod_that_quota_refuses_says_nothing_about_the_profiles() -> None:
    profiles = both(fleet(a=["n1"]), 100, [Fit()], [Fit(), Quota(limit=0)])
    assert not isinstance(decide(profiles, "one")[0], Decision)
    assert not profiles.canaries.compared


def test_what_was_compared_is_counted_on_by_profiles_that_take_over() -> None:
    state = fleet(a=[node("n1").cpu(4)])
    old, new = (both(state, 100, [Fit()], [Fit()]) for _ in range(2))
    decide(old, "one")
    new.take_over(old)
    decide(new, "two")
    assert new.canaries.compared == {(CANARY, BASE, Compared.SAME_NODE): 2}


@pytest.mark.parametrize(
    ("canaries", "said"),
    [
        ([(CANARY, "global-dispatcher-x")], "global-dispatcher-x, which is no profile here: global-dispatcher, "),
        ([(CANARY, CANARY)], "is a canary of itself: give it a scheduler_name of its own"),
        ([(CANARY, BASE), ("global-dispatcher-2", BASE)], "both canaries of global-dispatcher: one at a time"),
        ([(CANARY, BASE), ("global-dispatcher-2", CANARY)], "which is a canary itself"),
    ],
)
def test_what_cannot_be_a_canary_is_said(canaries: list[tuple[str, str]], said: str) -> None:
    assert said in "; ".join(canary_problems(canaries, [BASE, CANARY, "global-dispatcher-2"]))


def test_profiles_that_name_no_base_are_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be a canary of global-dispatcher"):
        Profiles([scheduler(fleet(a=["n1"]), CANARY, canary=Canary(BASE, 5))])
