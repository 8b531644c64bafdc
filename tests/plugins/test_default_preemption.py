"""DefaultPreemption: who is evicted, on which node, and what is said where nobody is; kube-scheduler's own cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dispatcher.model.labels import NOT_IN, LabelSelector, Requirement
from dispatcher.model.objects import PersistentVolumeClaim, PodDisruptionBudget
from dispatcher.model.pod import CLAIM, Volume
from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.fleet.trial import FleetTrial
from dispatcher.scheduling.framework import Codes, Depends, Filter, FleetView, Placed, Plugin, Rows
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rules import budgets as budgets_module
from dispatcher.scheduling.rules import selector_index
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put, selector
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Fit, Ready, Spread, profile


def scheduler(state: FleetState, *more: Plugin) -> Scheduler:
    chosen: tuple[Plugin, ...] = (Ready(), Fit(), *more, make("DefaultPreemption"))
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)


def refused(one: Scheduler, what: PodBuilder) -> Unschedulable:
    placed = what.placed()
    result = one.schedule(placed, ("a", placed.pod.uid))
    assert isinstance(result, Unschedulable), result
    return result


def names(victims: tuple[Victim, ...]) -> list[str]:
    return [one.placed.pod.name for one in victims]


def urgent(priority: int = 100) -> PodBuilder:
    return pod("urgent").cpu(4).priority(priority)


@dataclass(frozen=True)
class Low:
    """A pod of 1 or more CPU on a node."""

    name: str
    priority: int = 0
    started: float = 1000.0
    cpu: int = 1
    app: str = ""


def full(**nodes: list[Low]) -> FleetState:
    """Nodes of 4 CPU of cluster a with these pods."""
    state = fleet(a=[node(name).cpu(4) for name in nodes])
    for name, lows in nodes.items():
        for low in lows:
            built = pod(low.name).cpu(low.cpu).priority(low.priority).set(started=low.started)
            put(state, built.labels(app=low.app) if low.app else built, "a", name)
    return state


def budget(state: FleetState, app: str, allowed: int, *disrupted: str) -> None:
    state.kept.put("a", PodDisruptionBudget("default", app, selector(app=app), allowed, disrupted))


# The cases of kube-scheduler's TestPickOneNodeForPreemption: each node needs all its pods gone.
PICKS: dict[str, tuple[dict[str, list[Low]], str]] = {
    "lowest highest priority": (
        {"n1": [Low("a", 10, cpu=4)], "n2": [Low("b", 5, cpu=4)], "n3": [Low("c", 7, cpu=4)]},
        "n2",
    ),
    "then the smallest sum of priorities": (
        {"n1": [Low("a", 10, cpu=2), Low("b", 6, cpu=2)], "n2": [Low("c", 10, cpu=2), Low("d", 5, cpu=2)]},
        "n2",
    ),
    "then the fewest victims, of negative priority too": (
        {"n1": [Low("a", -5, cpu=2), Low("b", -5, cpu=2)], "n2": [Low("c", -5, cpu=4)]},
        "n2",
    ),
    "a sum counts pods as well as priorities": (
        {"n1": [Low("a", 10, cpu=1), Low("b", 0, cpu=1), Low("c", 0, cpu=2)], "n2": [Low("d", 10), Low("e", 0, cpu=3)]},
        "n2",
    ),
    "then the latest start of the highest victim": (
        {"n1": [Low("a", 5, 100.0, cpu=4)], "n2": [Low("b", 5, 300.0, cpu=4)], "n3": [Low("c", 5, 200.0, cpu=4)]},
        "n2",
    ),
    "the longest running of the highest victims counts": (
        {
            "n1": [Low("a", 5, 100.0, cpu=2), Low("b", 5, 900.0, cpu=2)],
            "n2": [Low("c", 5, 300.0, cpu=2), Low("d", 5, 400.0, cpu=2)],
        },
        "n2",
    ),
    "lower victims' starts do not count": (
        {
            "n1": [Low("a", 5, 400.0, cpu=2), Low("b", 1, 100.0, cpu=2)],
            "n2": [Low("c", 5, 300.0, cpu=2), Low("d", 1, 900.0, cpu=2)],
        },
        "n1",
    ),
    "equal in all: by name": ({"n2": [Low("a", 5, cpu=4)], "n1": [Low("b", 5, cpu=4)]}, "n1"),
}


@pytest.mark.parametrize(("nodes", "want"), PICKS.values(), ids=PICKS)
def test_the_node_whose_victims_matter_least_is_chosen(nodes: dict[str, list[Low]], want: str) -> None:
    assert refused(scheduler(full(**nodes)), urgent()).nominated == ("a", want)


def test_fewest_budgets_violated_goes_before_everything_else() -> None:
    state = full(n1=[Low("cheap", 0, cpu=4, app="guarded")], n2=[Low("dear", 50, cpu=4)])
    budget(state, "guarded", 0)
    assert refused(scheduler(state), urgent()).nominated == ("a", "n2")


def test_as_many_as_possible_stay_from_the_highest_priority_down() -> None:
    state = full(n1=[Low("low", 1), Low("mid", 5), Low("old", 3, 100.0), Low("young", 3, 900.0)])
    assert names(refused(scheduler(state), urgent().cpu(2)).victims) == ["young", "low"]


@pytest.mark.parametrize("of", [selector(app="db"), LabelSelector({}, (Requirement("app", "In", ("db",)),))])
def test_who_is_guarded_by_a_budget_is_spared_before_others(of: LabelSelector) -> None:
    state = full(n1=[Low("guarded", 1, app="db", cpu=2), Low("free", 5, cpu=2)])
    state.kept.put("a", PodDisruptionBudget("default", "guard", of, 0))
    assert names(refused(scheduler(state), urgent().cpu(2)).victims) == ["free"]


@pytest.mark.parametrize(
    ("allowed", "disrupted", "want"),
    [(0, (), ["f1", "f2"]), (1, (), ["d1", "f2"]), (2, (), ["d1", "d2"]), (0, ("d1", "d2"), ["d1", "d2"])],
    ids=["nothing left", "one more", "enough", "counted as disrupted already"],
)
def test_a_budget_allows_so_many_evictions_and_no_more(
    allowed: int, disrupted: tuple[str, ...], want: list[str]
) -> None:
    lows = [Low("d1", 2, app="db"), Low("d2", 1, app="db"), Low("f1", 9), Low("f2", 8)]
    state = full(n1=lows)
    budget(state, "db", allowed, *disrupted)
    assert sorted(names(refused(scheduler(state), urgent().cpu(2)).victims)) == sorted(want)


def test_an_empty_selector_guards_nobody() -> None:
    state = full(n1=[Low("low", 0, cpu=4, app="x")])
    state.kept.put("a", PodDisruptionBudget("default", "all", selector(), 0))
    state.kept.put("a", PodDisruptionBudget("other", "elsewhere", selector(app="x"), 0))
    assert names(refused(scheduler(state), urgent()).victims) == ["low"]


@pytest.mark.parametrize("priority", [100, 200])
def test_pods_of_equal_or_higher_priority_are_never_touched(priority: int) -> None:
    result = refused(scheduler(full(n1=[Low("peer", priority, cpu=4)])), urgent())
    assert (result.nominated, result.victims) == (None, ())
    assert result.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_where_leaving_does_not_help_it_is_said_why() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4).ready(False), node("n3").cpu(4)])
    put(state, pod("peer").cpu(4).priority(100), "a", "n1")
    put(state, pod("half").cpu(2).priority(100), "a", "n3")
    put(state, pod("low").cpu(2).priority(1), "a", "n3")
    assert refused(scheduler(state), urgent()).message.endswith(
        " preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_where_there_is_no_node_nothing_is_said_of_preemption() -> None:
    assert refused(scheduler(fleet(a=[])), urgent()).message == "no nodes available to schedule pods"


def test_a_pod_that_may_not_preempt_does_not() -> None:
    result = refused(scheduler(full(n1=[Low("low", cpu=4)])), urgent().set(preempts=False))
    assert result.nominated is None
    assert result.message.endswith(" preemption: not eligible due to preemptionPolicy=Never.")


def test_a_pod_whose_room_is_being_cleared_waits() -> None:
    state = full(n1=[Low("low", cpu=4)], n2=[Low("other", cpu=4)])
    one = scheduler(state)
    first = refused(one, urgent())
    assert first.nominated == ("a", "n1")
    again = refused(one, urgent())
    assert again.message.endswith(" preemption: not eligible due to a terminating pod on the nominated node.")
    assert (again.nominated, again.victims) == (("a", "n1"), ())


def test_a_nominated_node_that_can_help_no_more_is_given_up_for_another() -> None:
    state = full(n1=[Low("low", cpu=4)], n2=[Low("other", 5, cpu=4)])
    one = scheduler(state)
    refused(one, urgent())
    state.put_node("a", node("n1").cpu(4).ready(False).build())
    assert refused(one, urgent()).nominated == ("a", "n2")


def test_a_more_urgent_pod_takes_the_promised_room() -> None:
    state = full(n1=[Low("low", cpu=4)])
    one = scheduler(state)
    refused(one, urgent(50))
    result = refused(one, urgent(100).set(uid="uid-more", name="more"))
    assert (result.nominated, names(result.victims)) == (("a", "n1"), ["low"])
    assert result.displaced == (("a", "uid-urgent"),)


def test_pods_of_a_domain_rule_are_tried_node_by_node() -> None:
    """One pod may run in each zone: the one in zone x must go, whatever else runs on either node."""
    state = fleet(a=[node("n1").cpu(8).labels(zone="x"), node("n2").cpu(8).labels(zone="y")])
    put(state, pod("x1").cpu(1).labels(app="web").priority(1), "a", "n1")
    put(state, pod("x2").cpu(1).labels(app="web").priority(2), "a", "n1")
    put(state, pod("y1").cpu(8).priority(200), "a", "n2")
    asking = pod("urgent").cpu(1).labels(app="web").priority(100).spread("zone")
    result = refused(scheduler(state, Spread()), asking)
    assert (result.nominated, names(result.victims)) == (("a", "n1"), ["x2", "x1"])


def columns(state: FleetState) -> bytes:
    return b"".join(array.tobytes() for array in (state.requested, state.nonzero, state.recent))


def test_what_if_leaves_no_trace_in_the_fleet() -> None:
    def built(state: FleetState, nodes: dict[str, NodeBuilder]) -> FleetState:
        for name in nodes:
            put(state, pod(f"low-{name}").cpu(3).port(80).labels(app="web").set(phase="Pending"), "a", name)
            put(state, pod(f"peer-{name}").cpu(1).priority(100), "a", name)
        return state

    nodes = {"n1": node("n1").cpu(4), "n2": node("n2").cpu(4)}
    state = built(fleet(a=list(nodes.values())), nodes)
    asking = pod("urgent").cpu(4).priority(100).labels(app="web").spread("zone")
    before, at = columns(state), state.loads.position
    result = refused(scheduler(state, Spread()), asking)
    assert result.nominated is None
    assert columns(state) == before
    assert state.loads.position == at
    assert {row: dict(state.ports_taken(row)) for row in (0, 1)} == {row: {("TCP", 80): ["0.0.0.0"]} for row in (0, 1)}


# --- volumes ---------------------------------------------------------------------------------------------------------


def needing(claim: str) -> PodBuilder:
    return pod("urgent").priority(100).set(volumes=(Volume(CLAIM, claim),))


def test_a_pod_that_prefilter_refuses_is_told_that_evictions_do_not_help() -> None:
    state = full(n1=[Low("l", cpu=4)], n2=[])
    found = refused(scheduler(state, make("VolumeBinding")), needing("missing"))
    assert found.victims == ()
    assert found.message == (
        '0/2 nodes are available: persistentvolumeclaim "missing" not found. '
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_prefilter_refuses_and_that_never_preempts_is_told_that() -> None:
    found = refused(scheduler(full(n1=[]), make("VolumeBinding")), needing("missing").set(preempts=False))
    assert found.message.endswith("not found. preemption: not eligible due to preemptionPolicy=Never.")


def test_the_user_of_a_claim_that_bears_one_pod_is_evicted_for_the_next() -> None:
    state = full(n1=[], n2=[Low("other")])
    state.kept.put(
        "a", PersistentVolumeClaim("default", "one", "u", "pv", bound=True, access_modes=("ReadWriteOncePod",))
    )
    put(state, pod("user").set(volumes=(Volume(CLAIM, "one"),)), "a", "n1")
    found = refused(scheduler(state, make("VolumeRestrictions")), needing("one"))
    assert names(found.victims) == ["user"]


def test_a_node_that_empties_itself_for_nobody_is_not_waited_for() -> None:
    """Only pods that a scheduler has evicted are: kube-scheduler's podTerminatingByPreemption."""
    state = full(n1=[Low("l", cpu=4)], n2=[Low("m", cpu=4)])
    for name, preempted, victims in (("l", False, ["l"]), ("m", True, [])):
        one, node_name = scheduler(state), "n1" if name == "l" else "n2"
        going = pod(name).cpu(4).set(terminating=True, preempted=preempted)
        state.remove(("a", going.build().uid))
        put(state, going, "a", node_name)
        placed = urgent().placed()
        one.nominations.put(Nominee(("a", placed.pod.uid), placed, "a", node_name))
        assert names(refused(one, urgent()).victims) == victims


def test_nodes_that_cannot_be_better_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred full nodes a few are looked at, and the choice is that of all of them."""
    tried: list[int] = []
    lower = FleetTrial.lower

    def noting(self: FleetTrial, row: int) -> Sequence[Victim]:
        tried.append(row)
        return lower(self, row)

    monkeypatch.setattr(FleetTrial, "lower", noting)
    nodes = {f"n{at:02}": [Low(f"a{at}", 5, 100.0 + at, cpu=2), Low(f"b{at}", 5, 50.0, cpu=2)] for at in range(100)}
    result = refused(scheduler(full(**nodes)), urgent().cpu(2))
    assert (result.nominated, names(result.victims)) == (("a", "n99"), ["a99"])
    assert tried == [99]


def test_filters_that_rest_on_nodes_alone_are_asked_about_a_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    told = Ready.filter

    def noted(self: Ready, state: object, fleet: FleetView, rows: Rows) -> Codes:
        asked.extend(np.arange(fleet.n)[rows].tolist())
        return told(self, state, fleet, rows)

    one = scheduler(full(n1=[Low("a"), Low("b"), Low("c"), Low("d")]))
    assert isinstance(one.schedule(pod("other").cpu(64).placed(), ("a", "other")), Unschedulable)
    monkeypatch.setattr(Ready, "filter", noted)
    assert names(refused(one, urgent().cpu(3)).victims) == ["b", "c", "d"]
    assert asked.count(0) <= 2  # by the class, and by the trial, which looks five times


def by_room(state: FleetState, *more: Plugin) -> Scheduler:
    """What the pods on a node take is its room alone."""
    chosen: tuple[Plugin, ...] = (Ready(), make("NodeResourcesFit"), *more, make("DefaultPreemption"))
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)


def test_where_only_room_is_missing_no_pod_is_moved_to_find_the_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(self: FleetTrial, victims: Sequence[Victim]) -> None:
        raise AssertionError([victim.placed.pod.name for victim in victims])

    state = full(n1=[Low("a", 9, cpu=2), Low("b", 5), Low("c", 3)])
    one = by_room(state)
    monkeypatch.setattr(FleetTrial, "without", moved)
    assert names(refused(one, urgent().cpu(1)).victims) == ["c"]
    bulky = by_room(full(n1=[Low("bulky", 9, cpu=3), Low("slim", 5)]))
    assert names(refused(bulky, urgent().cpu(2)).victims) == ["bulky"]
    monkeypatch.undo()
    one.nominations.drop(("a", "uid-urgent"))
    assert names(refused(one, urgent().cpu(2).port(80)).victims) == ["b", "c"]


def test_nodes_where_all_lower_pods_are_too_few_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that an equal pod has taken for the most part has one lower pod left, which frees too little."""
    tried: list[int] = []
    lower = FleetTrial.lower

    def noting(self: FleetTrial, row: int) -> Sequence[Victim]:
        tried.append(row)
        return lower(self, row)

    monkeypatch.setattr(FleetTrial, "lower", noting)
    state = full(n1=[Low("equal", 100, cpu=2), Low("left", cpu=2)], n2=[Low("a"), Low("b"), Low("c"), Low("d")])
    result = refused(by_room(state), urgent().cpu(4))
    assert (result.nominated, names(result.victims)) == (("a", "n2"), ["a", "b", "c", "d"])
    assert tried == [1]
    state = full(n1=[Low("equal", 100, cpu=2), Low("left", cpu=2)])
    assert "1 Insufficient cpu" in refused(by_room(state), urgent().cpu(4)).message.split("preemption:")[1]


def test_pods_of_several_priorities_make_room_together() -> None:
    state = full(n1=[Low("a", 0), Low("b", 5, cpu=3)], n2=[Low("c", 6, cpu=4)])
    assert names(refused(by_room(state), urgent()).victims) == ["b", "a"]


@pytest.mark.parametrize("kind", ["own label", "own label of one app", "all others"])
def test_what_budgets_cost_does_not_rest_on_how_many_there_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many want the label that a pod has, or cover every pod that there is: none is asked about a pod."""
    state = full(n1=[])
    for at in range(4):
        put(state, pod(f"p{at}").cpu(1).priority(1).labels(managed="helm", app=f"app-{at}"), "a", "n1")
    for at in range(50):
        wanted = {
            "own label": selector(app=f"app-{at}"),
            "own label of one app": selector(managed="helm", app=f"app-{at}"),
            "all others": LabelSelector({}, (Requirement("app", NOT_IN, (f"app-{at}",)),)),
        }[kind]
        state.kept.put("a", PodDisruptionBudget("default", f"b{at}", wanted, 0))
    one = scheduler(state)
    asked: list[Mapping[str, str]] = []

    def noting(_: LabelSelector, labels: Mapping[str, str]) -> bool:
        asked.append(labels)
        return True

    monkeypatch.setattr(LabelSelector, "matches", noting)
    assert refused(one, urgent()).nominated == ("a", "n1")
    assert len(asked) == 0


def test_budgets_of_namespaces_without_victims_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    state = full(n1=[Low("a", app="x"), Low("b", app="x"), Low("c"), Low("d")])
    budget(state, "x", 0)
    for at in range(50):
        state.kept.put("a", PodDisruptionBudget(f"other-{at % 5}", f"b{at}", selector(app="x"), 0))
    read: list[int] = []

    def noting(some: Sequence[LabelSelector]) -> selector_index.SelectorIndex:
        read.append(len(some))
        return selector_index.SelectorIndex(some)

    monkeypatch.setattr(budgets_module, "SelectorIndex", noting)
    assert refused(scheduler(state), urgent()).nominated == ("a", "n1")
    assert read == [1]


class Lenient(Filter):
    """Refuses no node; notes how many it is asked about at a time."""

    name: ClassVar[str] = "Lenient"
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self.asked: list[int] = []

    def class_key(self, placed: Placed) -> None:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        self.asked.append(len(fleet.nodes.live[rows]))
        return np.zeros(self.asked[-1], dtype=np.uint16)


def test_nodes_of_which_all_have_guarded_pods_are_asked_about_together() -> None:
    lenient, state = Lenient(), full(**{f"n{at}": [Low(f"p{at}", cpu=4, app="x")] for at in range(16)})
    budget(state, "x", 0)
    one = by_room(state, lenient)
    assert refused(one, urgent()).nominated == ("a", "n0")
    assert len([count for count in lenient.asked if count == 1]) <= 2
