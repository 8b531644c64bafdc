"""Judges and what they found."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from tests.simulation.judges.facts import Facts, PodFact
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.fleet import Fleet, Judgeable
from tests.simulation.world.objects import Object


class Violation(NamedTuple):
    """A promise that did not hold: which, when (seconds from the start), of what, and how."""

    judge: str
    at: float
    objects: str
    text: str

    def __str__(self) -> str:
        return f"{self.judge} at {self.at:.1f} s: {self.objects}: {self.text}"


CRASH = "Crash"  # no promise is broken, but an exception came that nobody had foreseen


class Judge(Judgeable):
    """One promise. `promise` is the contract's number."""

    promise: ClassVar[str] = ""

    def __init__(self, fleet: Fleet, facts: Facts) -> None:
        self.fleet, self.facts = fleet, facts
        self.found: list[Violation] = []
        self._told: set[str] = set()

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{type(self).__name__}({self.promise})"

    def say(self, objects: str, text: str) -> None:
        """A violation; of one object one is enough."""
        if objects not in self._told:
            self._told.add(objects)
            self.found.append(Violation(self.name, self.fleet.now, objects, text))

    def kept(self, fact: PodFact) -> Object | None:
        """A pod as its API server has it now; None if it is gone, or its cluster is."""
        home = self.fleet.clusters.get(fact.cluster)
        kept = home.api.kept(f"{NAMESPACES}/{fact.namespace}/pods/{fact.name}") if home is not None else None
        return kept.obj if kept is not None and kept.obj["metadata"]["uid"] == fact.uid else None

    def at_end(self) -> None:
        """All faults are over and the world has settled."""


class NothingRaises(Judge):
    """The product goes on after an exception that it logs with a traceback; all the same it should not have come."""

    @property
    def name(self) -> str:
        return CRASH

    def tick(self, now: float) -> None:
        for text in self.fleet.loop.raised:
            self.say(text, "an exception was caught and logged with its traceback")
        self.fleet.loop.raised.clear()


def violations(judges: list[Judge]) -> Iterator[Violation]:
    """All that was found, the earliest first."""
    yield from sorted((one for judge in judges for one in judge.found), key=lambda one: one.at)
