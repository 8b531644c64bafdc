"""A pod whose labels are not told may be one that others count: who would count it by them waits, and says why."""

from typing import Any

import pytest

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.inter_pod_affinity import InterPodAffinity
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Plugin, PodInfo, Refuse, Skip
from dispatcher.scheduling.framework.hints import ClusterEvent, placed_pod_changed
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rules.budgets import Budgets
from shared.model.labels import LabelSelector, Requirement
from shared.model.names import AFFINITY_FROM_OTHERS
from shared.model.objects import Namespace, PodDisruptionBudget
from shared.model.pod import SpreadConstraint
from shared.model.reasons import Reasons
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.scheduling.tiny_plugins import Fit, profile

WEB = selector(app="web")
LACKS = LabelSelector({}, (Requirement("old", "DoesNotExist"),))
EVERYWHERE: Any = {"namespace_selector": selector()}
TEXT = (
    "whom its topologySpreadConstraints count is not known: labels of pod {} are too large to be told, remove some of "
    "its metadata.labels"
)
HINT = (
    "labels of pod {} are too large to be told, so it may be one that the pod's required affinity or anti-affinity "
    "means: remove some of its metadata.labels"
)
AFFINITY = InterPodAffinity(1, False, 1000)


def cut(name: str = "large", namespace: str = "default") -> PodBuilder:
    return pod(name).namespace(namespace).set(labels_cut=True)


def world(*more: PodBuilder, home: str = "a") -> FleetState:
    state = fleet(a=[node("n1").labels(region="r")], b=[])
    for one in more:
        put(state, one, "a", "n1", home=home)
    return state


def decide(state: FleetState, *pods: PodBuilder, plugins: tuple[Plugin, ...] = (Fit(), AFFINITY)) -> list[str]:
    """Where each goes, or why not."""
    found = Scheduler(profile(**{one.name: 1.0 for one in plugins}), plugins, state)
    asking = [(("a", one.pod.uid), one) for one in (each.placed("a") for each in pods)]
    results = found.schedule_class(asking)
    return [one.node if isinstance(one, Decision) else "; ".join((one.message, *one.hints)) for one in results]


FREE = "n1"  # where the pod is whose labels are not told, and no other node
BESIDE = "n2"
WAITS = "waits"
# id -> (asking pod, where it goes)
ASKING: dict[str, tuple[PodBuilder, str]] = {
    "nothing counted": (pod(), FREE),
    "required affinity, the first of its kind": (pod().labels(app="web").near("host", WEB), WAITS),
    "required affinity": (pod().near("host", selector(app="known")), "b1"),
    "required affinity to whom all are": (pod().near("host", selector()), FREE),
    "required affinity to who lacks a label": (pod().near("host", LACKS), "b1"),
    "required anti-affinity to who lacks a label": (pod().away("host", LACKS), BESIDE),
    "required anti-affinity": (pod().away("host", WEB), BESIDE),
    "anti-affinity within the region": (pod().away("region", WEB), "b1"),
    "a hard constraint": (pod().spread("host", selector=WEB), WAITS),
    "preferred affinity": (pod().near("host", WEB, weight=1), FREE),
    "a soft constraint": (pod().spread("host", selector=WEB, hard=False), FREE),
    "a term that means no pod": (pod().away("host", None), FREE),
    "terms of another namespace": (pod().namespace("other").away("host", WEB), FREE),
    "terms about its namespace by name": (pod().namespace("other").away("host", WEB, namespaces=("default",)), BESIDE),
    "terms about all namespaces": (pod().namespace("other").away("host", WEB, **EVERYWHERE), BESIDE),
    "a constraint of another namespace": (pod().namespace("other").spread("host", selector=WEB), FREE),
}


@pytest.mark.parametrize("what", ASKING)
def test_a_pod_whose_labels_are_not_told_keeps_others_away_as_if_they_meant_it(what: str) -> None:
    asking, where = ASKING[what]
    there = [node("n1").labels(region="r")]
    if where != FREE:
        there.append(node("n2").labels(region="r"))
    state = fleet(a=there, b=[] if where == FREE else [node("b1").labels(region="s")])
    if where != FREE:
        put(state, pod("bare"), "b", "b1")
        put(state, pod("known").labels(app="known"), "b", "b1")
    put(state, cut(), "a", "n1")
    (told,) = decide(state, asking)
    assert told == where or (where == WAITS and "labels of pod default/large of cluster a are too large" in told)


def test_who_has_no_other_place_says_which_pod_it_is() -> None:
    (told,) = decide(world(cut()), pod().away("region", WEB))
    assert HINT.format("default/large of cluster a") in told
    (told,) = decide(world(cut()), pod().spread("host", selector=WEB))
    assert told == TEXT.format("default/large of cluster a")


def test_a_pod_of_another_cluster_holds_up_nobody_of_another_namespace_but_where_it_is_open_to_their_terms() -> None:
    asking = pod().namespace("other").away("host", WEB, **EVERYWHERE)
    state = world(cut(), home="b")
    assert decide(state, asking) == ["n1"]
    state.kept.put("b", Namespace("default", labels={AFFINITY_FROM_OTHERS: "true"}))
    assert HINT.format("default/large of cluster b") in decide(state, asking.uid("again"))[0]


def test_it_goes_on_once_the_labels_are_told_or_the_pod_is_gone() -> None:
    asking = [pod(f"p{at}").away("host", WEB) for at in range(3)]
    state = world(cut("one"), cut("other"))
    plugins = (Fit(), AFFINITY)
    there = Scheduler(profile(Fit=1.0, InterPodAffinity=1.0), plugins, state)

    def told(one: PodBuilder) -> str:
        placed = one.placed("a")
        (result,) = there.schedule_class([(("a", placed.pod.uid), placed)])
        return result.node if isinstance(result, Decision) else result.hints[0]

    assert told(asking[0]) == HINT.format("default/one of cluster a")
    put(state, pod("one").labels(app="db"), "a", "n1")
    assert told(asking[1]) == HINT.format("default/other of cluster a")
    state.remove(("a", "uid-other"))
    assert told(asking[2]) == "n1"
    put(state, cut("third"), "a", "n1")
    assert told(asking[0]) == HINT.format("default/third of cluster a")


def test_of_many_pods_of_one_class_none_is_placed_by_labels_that_are_not_told() -> None:
    asking = [pod(f"p{at}").away("host", WEB) for at in range(20)]
    assert {HINT.format("default/large of cluster a") in one for one in decide(world(cut()), *asking)} == {True}


def test_many_pods_of_one_class_fill_all_hosts_but_that_of_the_pod_whose_labels_are_not_told() -> None:
    state = fleet(a=[node(f"n{at}") for at in range(40)])
    put(state, cut(), "a", "n7")
    told = decide(state, *(pod(f"p{at}").labels(app="web").away("host", WEB) for at in range(40)))
    assert set(told[:39]) == {f"n{at}" for at in range(40) if at != 7}
    assert HINT.format("default/large of cluster a") in told[39]


@pytest.mark.parametrize("there", [cut(), pod("known")], ids=["not told", "told"])
def test_rules_over_counts_last_only_where_all_labels_are_told(there: PodBuilder) -> None:
    asking = pod().away("host", WEB).placed("a")
    state = world(there, pod("holder").away("host", WEB))
    view = view_of(state)
    found = AFFINITY.pre_filter(asking, view)
    assert not isinstance(found, Refuse | Skip)
    assert AFFINITY.rules(found, view).lasting != there.build().labels_cut


def test_hard_constraints_of_a_profile_count_as_a_pods_own() -> None:
    spread = FaultDomainSpread(defaults=(SpreadConstraint("host", 1, hard=True),))
    asking = pod().labels(app="web")
    told = [decide(world(cut()), asking, plugins=(Fit(), one)) for one in (spread, FaultDomainSpread(defaults=()))]
    assert told == [[TEXT.format("default/large of cluster a")], ["n1"]]


def test_labels_that_come_to_be_told_are_news_for_whom_they_held_up() -> None:
    before, after = (pod("x").set(node="n1", labels_cut=is_cut).build() for is_cut in (True, False))
    assert WakeEvent.POD_REMOVED in placed_pod_changed(before, after)


@pytest.mark.parametrize("asking", [pod().away("host", WEB), pod().near("host", WEB)])
def test_that_it_goes_is_news_for_whom_its_labels_held_up(asking: PodBuilder) -> None:
    gone = [one.set(node="n1").build() for one in (cut(), pod("known").labels(app="known"))]
    events = [ClusterEvent(WakeEvent.POD_REMOVED, "a", before=one) for one in gone]
    assert [AFFINITY.hint(event, asking.placed("a")) for event in events] == [True, False]


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
        [(("a", "uid-p1"), pod().spread("host", selector=WEB).placed("a"))]
    )
    assert not isinstance(result, Decision)
    assert result.reasons == {Reasons.LABELS_CUT}
