"""Every side effect of a workload x every way in which it can go wrong (after Sieve, OSDI '22).

A reference run numbers the writes that agents ask for. A plan is one of these writes and one fault at it. The run with
the fault must keep all promises, and come to the same end as the reference: the same pods running, and as many
delegates made and deleted.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.effects import kind_of
from tests.simulation.faults import Story
from tests.simulation.judges.court import Violation
from tests.simulation.planted import crash, in_place
from tests.simulation.telling import Teller
from tests.simulation.workloads import WORKLOADS
from tests.simulation.world.loop import WORLD, in_process, live
from tests.simulation.world.net import Asked
from tests.simulation.world.processes import sim_client

PATIENCE_S = 120
FAULTS = (
    "crash-before",
    "crash-after",
    "lost-request",
    "lost-reply",
    "conflict",
    "failed",
    "done-and-failed",
    "duplicate",
    "stale-after-restart",
    "dropped-event",
    "dispatcher-crash-before",
    "dispatcher-crash-after",
)


class Effect(NamedTuple):
    """A write of an agent: the nth of this kind in this cluster."""

    cluster: str
    kind: str
    nth: int


class Plan(NamedTuple):
    """One fault at one effect of one workload; without either it is the reference run."""

    workload: str
    effect: Effect | None = None
    fault: str = ""

    def __str__(self) -> str:
        at = (
            f"{self.fault} at {self.effect.kind} #{self.effect.nth} of {self.effect.cluster}" if self.effect else "none"
        )
        return f"{self.workload}: {at}"


@dataclass
class Ran:
    """How a plan went. `end`: what is where; `made`: delegates created and deleted."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    end: dict[str, str] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)


class _Runner(Teller):
    """A teller that follows a script and does one thing wrong."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(Story(1, WORKLOADS[plan.workload].sizes, (), (), ()))
        self.plan, self.seen = plan, Counter[tuple[str, str]]()
        self.effects: list[Effect] = []
        self._struck: set[int] = set()
        for name, cluster in self.fleet.clusters.items():
            cluster.wire.tap = self._tap(name)

    def later(self, after_s: float, call: Callable[[], Any]) -> None:
        """Somebody does something in a while."""
        in_process(WORLD, self.fleet.loop.call_later, after_s, call)

    async def run(self) -> Ran:
        """Follow the script, settle, judge."""
        await self.fleet.start()
        for _ in range(3):
            await self.fleet.second()
        for reached in WORKLOADS[self.plan.workload].script(self):
            for _ in range(PATIENCE_S):
                if reached():
                    break
                await self.fleet.second()
        self._heal()
        await self._settle()
        told = self.told()
        return Ran(self.plan, told.violations, self.effects, self._end(), self._made())

    def _end(self) -> dict[str, str]:
        """What users see of each pod, and how often it runs; pods of a ReplicaSet together, for they have no names."""
        facts, end = self.facts, dict[str, list[str]]()
        for cluster, pod in self.fleet.pods():
            fact = facts.pods[pod["metadata"]["uid"]]
            if fact.is_source:
                copies = facts.running_copies(fact.source)
                owner = pod["metadata"].get("ownerReferences", [{"name": fact.name}])[0]["name"]
                end.setdefault(f"{cluster}/{owner}", []).append(f"{pod['status'].get('phase')} x{len(copies)}")
        return {of: ", ".join(sorted(shown)) for of, shown in end.items()}

    def _made(self) -> Counter[str]:
        delegates = [one for one in self.facts.pods.values() if one.source and not one.is_source]
        ran = 0 if WORKLOADS[self.plan.workload].races else sum(one.ran for one in delegates)
        return Counter({"ran": ran, "left": sum(not one.gone for one in delegates)})

    # --- the fault ---------------------------------------------------------------------------------------------------

    def _tap(self, cluster: str) -> Callable[[str, Asked, str], str]:
        def tap(moment: str, request: Asked, actor: str) -> str:
            kind = kind_of(request)
            if not kind:
                return ""
            if moment == "before":
                self.seen[cluster, kind] += 1
                self.effects.append(Effect(cluster, kind, self.seen[cluster, kind]))
                self._struck.discard(id(request))
                if self.plan.effect == self.effects[-1]:
                    self._struck.add(id(request))
                    return self._before(cluster)
            elif id(request) in self._struck:
                self._struck.discard(id(request))
                return self._after(cluster, request, actor)
            return ""

        return tap

    def _before(self, cluster: str) -> str:
        fault = self.plan.fault
        if fault == "crash-before":
            self._crash(cluster)
        elif fault == "dispatcher-crash-before":
            self._crash_dispatcher()
            return ""
        answers = {"crash-before": "lose", "lost-request": "lose", "conflict": "409", "failed": "500"}
        return answers.get(fault, "")

    def _after(self, cluster: str, request: Asked, actor: str) -> str:
        fault, wire = self.plan.fault, self.fleet.clusters[cluster].wire
        if fault in ("crash-after", "stale-after-restart"):
            if fault == "stale-after-restart":
                wire.stand_still()
                self.later(20.0, lambda: setattr(wire.weather, "lagging", False))
            self._crash(cluster)
            return "lose"
        if fault in ("lost-reply", "done-and-failed"):
            return "lose" if fault == "lost-reply" else "504"
        if fault == "duplicate":
            server = wire.server
            again = (actor, request.method, request.path, request.body, request.content_type)
            self.later(4.0, lambda: server.handle(*again))
        elif fault == "dropped-event":
            for one in self.fleet.clusters.values():
                one.wire.cut(compacted=True)
        elif fault == "dispatcher-crash-after":
            self._crash_dispatcher()
        return ""

    def _crash(self, cluster: str) -> None:
        agent = self.fleet.clusters[cluster].agent
        agent.kill()
        self.later(2.0, lambda: self._spawn(agent.start()))

    def _crash_dispatcher(self) -> None:
        dispatcher = self.fleet.dispatchers["dispatcher"]
        dispatcher.kill()
        self.later(2.0, dispatcher.start)


def run(plan: Plan, planted: str = "") -> Ran:
    """Carry a plan out."""

    async def go() -> Ran:
        return await _Runner(plan).run()

    with sim_client(), in_place(planted):
        try:
            return live(go, 1)
        except Exception as error:
            return Ran(plan, [crash(error)])


def enumerated() -> tuple[list[Plan], dict[str, Ran]]:
    """All plans, and the reference runs that they are measured by."""
    reference = {name: run(Plan(name)) for name in WORKLOADS}
    effects = ((name, effect) for name, ran in reference.items() for effect in ran.effects)
    plans = [
        Plan(name, effect, fault)
        for name, effect in effects
        for fault in FAULTS
        if (effect.kind, fault) != ("create", "conflict")  # which would be about another object
    ]
    return plans, reference


def compare(ran: Ran, reference: Ran) -> list[Violation]:
    """What is different from the reference run, as violations."""
    found = list(ran.violations)
    if ran.end != reference.end:
        found.append(Violation("SameEnd", 0.0, str(ran.plan), f"{ran.end}, without the fault {reference.end}"))
    if ran.made != reference.made:
        made, wanted = dict(ran.made), dict(reference.made)
        found.append(Violation("SameEffects", 0.0, str(ran.plan), f"delegates {made}, without the fault {wanted}"))
    return found


def check(
    spread: Callable[..., Iterator[Ran]], progress: Callable[[str, int], Any], most: int = 100_000
) -> tuple[int, int]:
    """(plans carried out, violations). If there are more than `most` plans, a sample, the same each time."""
    plans, reference = enumerated()
    plans = random.Random("plans").sample(plans, min(most, len(plans)))
    bad, done, told = 0, 0, progress("plans", len(plans))
    for name, ran in reference.items():
        for one in ran.violations:
            print(f"sim: reference run {name}: {one}"[:300], flush=True)
        bad += len(ran.violations)
    for ran in spread(run, plans):
        done += 1
        found = compare(ran, reference[ran.plan.workload])
        bad += len(found)
        for one in found[:2]:
            print(f"sim: plan {ran.plan}: {one}"[:300], flush=True)
        told.step(f"violations {bad}")
    return done, bad


__all__ = ["FAULTS", "WORKLOADS", "Plan", "check", "enumerated", "run"]
