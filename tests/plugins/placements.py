"""Pods with labels and terms on nodes with labels, in few words."""

from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.labels import LabelSelector, Requirement
from shared.model.objects import Namespace
from tests.builders import PodBuilder, fleet, node, pod, put

Seats = list[tuple[PodBuilder, str]]


def clause(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector({}, (Requirement(key, operator, values),))


def clauses(*parts: LabelSelector) -> LabelSelector:
    return LabelSelector({}, tuple(one for part in parts for one in part.match_expressions))


def into(key: str, *values: str) -> LabelSelector:
    return clause(key, "In", *values)


def having(key: str) -> LabelSelector:
    return clause(key, "Exists")


def placed_on(nodes: dict[str, dict[str, str]], seats: Seats) -> FleetState:
    """One cluster with these nodes and pods, and namespaces sub1.team1 to sub2.team2 labelled by their team."""
    state = fleet(a=[node(name).labels(**labels) for name, labels in nodes.items()])
    for team in ("1", "2"):
        for number in ("1", "2"):
            state.kept.put("a", Namespace(f"sub{number}.team{team}", {"team": f"team{team}"}))
    for index, (one, where) in enumerate(seats):
        put(state, one.uid(f"seat{index}"), "a", where)
    return state


def one(name: str = "p", **labels: str) -> PodBuilder:
    return pod(name).labels(**labels)
