"""A pod whose labels are not told may be one that others count: who would count it by them waits, and says why."""

from typing import Any

import pytest

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin, PodInfo
from dispatcher.scheduling.framework.hints import WakeEvent, placed_pod_changed
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rules.budgets import Budgets
from shared.model.labels import LabelSelector
from shared.model.names import AFFINITY_FROM_OTHERS
from shared.model.objects import Namespace, PodDisruptionBudget
from shared.model.pod import SpreadConstraint
from shared.model.reasons import Reason
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.scheduling.tiny_plugins import Fit, profile

WEB = selector(app="web")
EVERYWHERE: Any = {"namespace_selector": selector()}
TEXT = (
    "whom its required affinity and topologySpreadConstraints count is not known: labels of pod {} are too large to be "
    "told, remove some of its metadata.labels"
)


def cut(name: str = "large", namespace: str = "default") -> PodBuilder:
    return pod(name).namespace(namespace).set(labels_cut=True)


def world(*more: PodBuilder, home: str = "a") -> FleetState:
    state = fleet(a=[node("n1").cpu(9)], b=["n1"])
    for one in more:
        put(state, one, "a", "n1", home=home)
    return state


def decide(state: FleetState, *pods: PodBuilder, plugins: tuple[Plugin, ...] = (Fit(),)) -> list[str]:
    """Where each goes, or why not."""
    found = Scheduler(profile(**{one.name: 1.0 for one in plugins}), plugins, state)
    asking = [(("a", one.pod.uid), one) for one in (each.placed("a") for each in pods)]
    results = found.schedule_class(asking)
    return [result.node if isinstance(result, Decision) else result.message for result in results]


# id -> (asking pod, whether it waits)
ASKING: dict[str, tuple[PodBuilder, bool]] = {
    "nothing counted": (pod(), False),
    "required affinity": (pod().near("host", WEB), True),
    "required anti-affinity": (pod().away("host", WEB), True),
    "a hard constraint": (pod().spread("host", selector=WEB), True),
    "preferred affinity": (pod().near("host", WEB, weight=1), False),
    "a soft constraint": (pod().spread("host", selector=WEB, hard=False), False),
    "a term that means no pod": (pod().away("host", None), False),
    "terms of another namespace": (pod().namespace("other").away("host", WEB), False),
    "terms about its namespace by name": (pod().namespace("other").away("host", WEB, namespaces=("default",)), True),
    "terms about all namespaces": (pod().namespace("other").away("host", WEB, **EVERYWHERE), True),
    "a constraint of another namespace": (pod().namespace("other").spread("host", selector=WEB), False),
}


@pytest.mark.parametrize("what", ASKING)
def test_who_would_count_a_pod_by_labels_that_are_not_told_waits_and_says_which_pod_it_is(what: str) -> None:
    asking, waits = ASKING[what]
    (told,) = decide(world(cut()), asking)
    assert told == (TEXT.format("default/large of cluster a") if waits else "n1")


def test_a_pod_of_another_cluster_holds_up_nobody_of_another_namespace_but_where_it_is_open_to_their_terms() -> None:
    asking = pod().namespace("other").away("host", WEB, **EVERYWHERE)
    state = world(cut(), home="b")
    assert decide(state, asking) == ["n1"]
    state.kept.put("b", Namespace("default", labels={AFFINITY_FROM_OTHERS: "true"}))
    assert decide(state, asking.uid("again")) == [TEXT.format("default/large of cluster b")]


def test_it_goes_on_once_the_labels_are_told_or_the_pod_is_gone() -> None:
    asking = [pod(f"p{at}").near("host", selector()) for at in range(3)]
    state = world(cut("one"), cut("other"))
    assert decide(state, asking[0]) == [TEXT.format("default/one of cluster a")]
    put(state, pod("one").labels(app="web"), "a", "n1")
    assert decide(state, asking[1]) == [TEXT.format("default/other of cluster a")]
    state.remove(("a", "uid-other"))
    assert decide(state, asking[2]) == ["n1"]


def test_of_many_pods_of_one_class_none_is_placed_by_labels_that_are_not_told() -> None:
    asking = [pod(f"p{at}").away("host", WEB) for at in range(20)]
    assert set(decide(world(cut()), *asking)) == {TEXT.format("default/large of cluster a")}


def test_hard_constraints_of_a_profile_count_as_a_pods_own() -> None:
    spread = FaultDomainSpread(defaults=(SpreadConstraint("host", 1, hard=True),))
    asking = pod().labels(app="web")
    told = [decide(world(cut()), asking, plugins=(Fit(), one)) for one in (spread, FaultDomainSpread(defaults=()))]
    assert told == [[TEXT.format("default/large of cluster a")], ["n1"]]


def test_labels_that_come_to_be_told_are_news_for_whom_they_held_up() -> None:
    before, after = (pod("x").set(node="n1", labels_cut=is_cut).build() for is_cut in (True, False))
    assert WakeEvent.POD_REMOVED in placed_pod_changed(before, after)


def test_any_budget_of_its_namespace_may_cover_it() -> None:
    state = world()
    state.kept.put("a", PodDisruptionBudget("default", "db", LabelSelector({"app": "db"}), allowed=0))
    known, unknown = pod("web").labels(app="web").build(), cut().build()
    taken = [
        Budgets(state.kept).take(Victim(("a", one.uid), PodInfo(one, "a"), "a", "n1"), {}) for one in (known, unknown)
    ]
    assert taken == ["", "default/db"]


def test_it_is_a_reason_that_no_eviction_helps() -> None:
    (result,) = Scheduler(profile(Fit=1.0), (Fit(),), world(cut())).schedule_class(
        [(("a", "uid-p1"), pod().away("host", WEB).placed("a"))]
    )
    assert not isinstance(result, Decision)
    assert result.reasons == {Reason.LABELS_CUT}
