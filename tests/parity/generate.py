"""Whole cases: a fleet of nodes, pods that run on it, and pods to place."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.parity.case import Case, Object
from tests.parity.dice import Dice, DrawnDice, SeededDice, chance, pick
from tests.parity.generate_nodes import names_of, nodes
from tests.parity.generate_pods import Names, pod
from tests.parity.generate_volumes import Storage, pod_volumes, storage

_PRIORITIES = {"parity-low": 10, "parity-high": 1000, "parity-negative": -5}


@dataclass(frozen=True)
class Size:
    """The most of each in one case."""

    nodes: int = 8
    bound: int = 10
    pending: int = 12


SMALL = Size(nodes=4, bound=4, pending=2)


def case(dice: Dice, name: str, size: Size, volumes: bool = False, profiles: Sequence[str] = ()) -> Case:
    """One case; `name` is in the names of all it holds, so that cases do not touch each other on one API server.

    With `volumes` most of its pods have some; with `profiles` each pending pod names one of them.
    """
    spaces = (f"{name}-a", f"{name}-b", f"{name}-c")
    fleet = nodes(dice, name, size.nodes)
    names = Names(spaces, tuple(names_of(fleet)))
    most = size.bound if fleet else 0
    bound = [pod(dice, f"{name}-b{index}", names, bound=True) for index in range(dice.number(0, most))]
    pending = [pod(dice, f"{name}-p{index}", names) for index in range(dice.number(size.pending // 2, size.pending))]
    made = Case(name, [*_namespaces(spaces), *_priority_classes()], fleet, bound, pending)
    if volumes:
        _mount(dice, made, storage(dice, name, spaces, names.nodes))
    for one in made.pending if profiles else ():
        one["spec"]["schedulerName"] = pick(dice, profiles)
    return made


def _mount(dice: Dice, made: Case, found: Storage) -> None:
    made.objects += found.objects
    for one in (*made.bound, *made.pending):
        if chance(dice, 70):
            mounted = pod_volumes(dice, found, one["metadata"]["namespace"], one is made.pending[-1])
            if mounted:
                one["spec"]["volumes"] = mounted


def seeded_case(seed: str, name: str, size: Size = Size(), volumes: bool = False, profiles: Sequence[str] = ()) -> Case:
    """The case of a seed."""
    return case(SeededDice(f"{seed}/{name}"), name, size, volumes, profiles)


@st.composite
def cases(draw: st.DrawFn, size: Size = SMALL) -> Case:
    """The same as a hypothesis strategy, whose failures shrink."""
    return case(DrawnDice(draw), "case", size)


def _namespaces(names: tuple[str, ...]) -> list[Object]:
    labels: tuple[dict[str, str], ...] = ({"team": "x"}, {"team": "y"}, {})
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(found)}}
        for name, found in zip(names, labels, strict=True)
    ]


def _priority_classes() -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in _PRIORITIES.items()
    ]
