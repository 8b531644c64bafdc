"""What the tests of DefaultPreemption share: full nodes, their schedulers, and what a refused pod gets."""

from dataclasses import dataclass

from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin
from dispatcher.scheduling.framework.lifecycle import Victim
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import CLAIM, Volume
from tests.builders import PodBuilder, fleet, node, pod, put, selector
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Fit, Ready, profile


def scheduler(state: FleetState, *more: Plugin) -> Scheduler:
    chosen: tuple[Plugin, ...] = (Ready(), Fit(), *more, make("DefaultPreemption"))
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)


def refused(one: Scheduler, what: PodBuilder) -> Unschedulable:
    placed = what.placed()
    result = one.schedule(placed, ("a", placed.pod.uid))
    assert isinstance(result, Unschedulable), result
    return result


def names(victims: tuple[Victim, ...]) -> list[str]:
    return [one.pod_info.pod.name for one in victims]


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


def needing(claim: str) -> PodBuilder:
    return pod("urgent").priority(100).set(volumes=(Volume(CLAIM, claim),))


def by_room(state: FleetState, *more: Plugin) -> Scheduler:
    """What the pods on a node take is its room alone."""
    chosen: tuple[Plugin, ...] = (Ready(), make("NodeResourcesFit"), *more, make("DefaultPreemption"))
    return Scheduler(profile(**{one.name: 1.0 for one in chosen}), chosen, state)
