"""Preemption against kube-scheduler's rules in plain words: the very node and victims, never more and never higher."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.labels import EXISTS, IN, NOT_IN, LabelSelector, Requirement
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import Pod, PodId
from tests.builders import node, pod
from tests.laws import rules
from tests.laws.examples import examples
from tests.laws.oracle import Seat, World, numbered

Where = tuple[str, str]


@dataclass
class Case:
    """A full fleet, its budgets, and a pod that wants in."""

    world: World
    asking: PodInfo
    budgets: list[tuple[str, PodDisruptionBudget]] = field(default_factory=list)
    promised: list[PodId] = field(default_factory=list)  # pods that are only promised the places where they sit


@contextmanager
def without(world: World, gone: list[PodId]) -> Iterator[None]:
    kept = dict(world.seats)
    world.seats = {pod_id: seat for pod_id, seat in kept.items() if pod_id not in gone}
    yield
    world.seats = kept


def allowed(case: Case, pod_info: PodInfo, where: Where) -> bool:
    """Whether the pod may go there, with the pods that are promised a place, and without them."""
    if not rules.allowed(case.world, pod_info, where):
        return False
    with without(case.world, case.promised):
        return rules.allowed(case.world, pod_info, where)


def by_importance(case: Case, pods: list[PodId]) -> list[PodId]:
    """The most important first: priority, then start; equals by name, those without a start the other way round."""

    def pod_of(pod_id: PodId) -> Pod:
        return case.world.seats[pod_id].pod_info.pod

    named = sorted(pods, key=lambda one: (pod_of(one).key, one))
    named = [one for one in named if pod_of(one).started] + [one for one in named[::-1] if not pod_of(one).started]
    return sorted(named, key=lambda one: (-pod_of(one).priority, pod_of(one).started or float("inf")))


def violating(case: Case, pods: list[PodId]) -> list[PodId]:
    """Those of `pods`, taken in order, for which some budget has nothing left."""
    left = {index: budget.allowed for index, (_, budget) in enumerate(case.budgets)}
    found = []
    for pod_id in pods:
        one, violated = case.world.seats[pod_id].pod_info.pod, False
        for index, (cluster, budget) in enumerate(case.budgets):
            covers = budget.selector is not None and budget.selector.matches(one.labels)
            here = cluster in (pod_id[0], case.world.seats[pod_id].cluster)
            if here and covers and budget.namespace == one.namespace and one.name not in budget.disrupted:
                left[index] -= 1
                violated = violated or left[index] < 0
        if violated:
            found.append(pod_id)
    return found


def victims_on(case: Case, where: Where) -> tuple[list[PodId], int] | None:
    """SelectVictimsOnNode: (victims from the most important down, budgets violated); None: no candidate."""
    world, asking = case.world, case.asking
    lower = [
        pod_id
        for pod_id, seat in world.seats.items()
        if (seat.cluster, seat.node) == where and seat.pod_info.pod.priority < asking.pod.priority
    ]
    with without(world, lower):
        if not lower or not allowed(case, asking, where):
            return None
    ordered = by_importance(case, lower)
    guarded = violating(case, ordered)
    gone = list(ordered)
    for pod_id in [*guarded, *(one for one in ordered if one not in guarded)]:
        gone.remove(pod_id)
        with without(world, gone):
            fits = allowed(case, asking, where)
        if not fits:
            gone.append(pod_id)
    victims = by_importance(case, gone)
    return (victims, len([one for one in victims if one in guarded])) if victims else None


def cost(case: Case, victims: list[PodId], violated: int) -> tuple[Any, ...]:
    """pickOneNodeForPreemption, smallest first."""
    pods = [case.world.seats[one].pod_info.pod for one in victims]
    highest = pods[0].priority
    started = min(one.started or float("inf") for one in pods if one.priority == highest)
    return violated, highest, sum(one.priority + 2**31 for one in pods), len(pods), -started


def choice(case: Case) -> tuple[Where, list[PodId]] | None:
    found = {where: victims_on(case, where) for where in sorted(case.world.nodes)}
    ranked = [(cost(case, *answer), where, answer[0]) for where, answer in found.items() if answer is not None]
    return min(ranked)[1:] if ranked else None


PRIORITIES = st.sampled_from((-10, 0, 0, 5, 10))
APPS = st.sampled_from(("u", "v"))
COVERING = st.sampled_from(
    (
        *(LabelSelector({"app": app}) for app in ("u", "u", "v", "v")),
        *(LabelSelector({}, (Requirement("app", NOT_IN, (app,)),)) for app in ("u", "none")),
        LabelSelector({}, (Requirement("app", EXISTS),)),
        *(LabelSelector({}, (Requirement("app", IN, (app,)),)) for app in ("u", "v")),
    )
)


@st.composite
def running(draw: st.DrawFn, number: int) -> Pod:
    built = pod(f"low-{number}").cpu(draw(st.sampled_from(("200m", "500m", "900m")))).labels(app=draw(APPS))
    built = built.priority(draw(PRIORITIES)).set(started=draw(st.sampled_from((0.0, 100.0, 200.0, 300.0))))
    return built.port(80).build() if draw(st.integers(0, 4)) == 0 else built.build()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    world = World(clusters={"a": True, "b": True})
    for where in (("a", "n1"), ("a", "n2"), ("b", "n1")):
        built = node(where[1]).cpu(draw(st.sampled_from(("1", "2")))).pods(draw(st.sampled_from((3, 110))))
        built = built.labels(zone=draw(st.sampled_from("xy")))
        world.nodes[where] = (built.cordoned() if draw(st.integers(0, 9)) == 0 else built).build()
    for number in range(draw(st.integers(1, 9))):
        cluster, name = draw(st.sampled_from(sorted(world.nodes)))
        one = draw(running(number))
        home = draw(st.sampled_from("ab"))
        if rules.fits(world, one, (cluster, name)) and rules.ports_free(world, one, (cluster, name)):
            world.seats[home, one.uid] = Seat(PodInfo(one, home), cluster, name, world.now, world.turn())
    asking = pod("urgent").cpu(draw(st.sampled_from(("500m", "1", "1500m")))).labels(app=draw(APPS))
    asking = asking.priority(draw(st.sampled_from((5, 100))))
    kind = draw(st.sampled_from(("plain", "plain", "port", "zone", "host")))
    asking = asking.port(80) if kind == "port" else asking.spread(kind) if kind in ("zone", "host") else asking
    case = Case(world, asking.placed("a"))
    for number, covering in enumerate(draw(st.lists(COVERING, max_size=3))):
        budget = PodDisruptionBudget("default", f"b{number}", covering, draw(st.integers(0, 2)))
        case.budgets.append((draw(st.sampled_from("ab")), budget))
    return case


class Asked:
    """The product on the case's fleet; what it answers is held against the choice of the rules."""

    def __init__(self, case: Case) -> None:
        self.case, self.fleet = case, case.world.columns()
        for cluster, budget in case.budgets:
            self.fleet.kept.put(cluster, budget)
        self.scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), self.fleet)

    def ask(self, number: int = 0) -> Nominee | None:
        """One more pod like the case's; its nomination, if it needs one."""
        case, world = self.case, self.case.world
        pod_id, placed = numbered(case.asking, number)
        before = self.fleet.requested.tobytes()
        result = self.scheduler.schedule(placed, pod_id)
        assert isinstance(result, Decision) == any(allowed(case, placed, where) for where in world.nodes)
        if isinstance(result, Decision):
            world.seats[pod_id] = Seat(placed, result.cluster, result.node, world.now, world.turn())
            return None
        want = choice(case)
        assert (result.nominated, [one.pod_id for one in result.victims]) == (want or (None, []))
        nominee = self.scheduler.nominations.drop(pod_id)
        assert self.fleet.requested.tobytes() == before
        return nominee

    def promise(self, nominee: Nominee | None) -> None:
        """Keep a promise: the pod counts as there, and is not less important than those that ask next."""
        if nominee is not None:
            self.scheduler.nominations.put(nominee)
            seat = Seat(nominee.pod_info, nominee.cluster, nominee.node, self.case.world.now, self.case.world.turn())
            self.case.world.seats[nominee.pod_id] = seat
            self.case.promised.append(nominee.pod_id)

    def end(self, index: int) -> None:
        """One of the pods that were there from the beginning ends."""
        ids = [pod_id for pod_id, seat in self.case.world.seats.items() if seat.pod_info.pod.name.startswith("low")]
        if ids:
            pod_id = ids[index % len(ids)]
            del self.case.world.seats[pod_id]
            self.fleet.remove(pod_id)


@settings(max_examples=examples(250), deadline=None)
@given(case=cases())
def test_the_node_and_the_victims_are_kube_schedulers_choice(case: Case) -> None:
    Asked(case).ask()


@settings(max_examples=examples(120), deadline=None)
@given(case=cases(), ends=st.lists(st.integers(-8, 8), min_size=2, max_size=5))
def test_one_after_the_other_finds_what_is_found_out_anew(case: Case, ends: list[int]) -> None:
    """What is kept from pod to pod of one kind is forgotten where the fleet moves: pods end, and promises are made."""
    asked = Asked(case)
    for number, index in enumerate(ends):
        asked.promise(asked.ask(number))
        if index >= 0:
            asked.end(index)


@settings(max_examples=examples(120), deadline=None)
@given(case=cases(), priorities=st.lists(st.sampled_from((-5, 5, 100)), min_size=2, max_size=4))
def test_pods_that_differ_in_importance_alone_find_what_each_finds_alone(case: Case, priorities: list[int]) -> None:
    asked = Asked(case)
    for number, priority in enumerate(priorities):
        more = msgspec.structs.replace(case.asking.pod, priority=priority)
        case.asking = msgspec.structs.replace(case.asking, pod=more)
        asked.ask(number)
