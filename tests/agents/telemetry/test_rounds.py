"""Who is asked when, and that nobody waits for the dead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Measure, Sample
from agents.observer.seen import NodeTarget
from agents.telemetry.rounds import Cadence, Rounds
from agents.telemetry.source import SourceError
from tests.agents.kube.fake_server import until

FAST = Cadence(interval_s=0.04, concurrency=4)


class Sources:
    """Kubelets that answer, refuse or hang, and a metrics API."""

    def __init__(self, *names: str) -> None:
        self.targets = {name: NodeTarget(name, "10.0.0.1", cpu=1000, memory=1000) for name in names}
        self.loads = Loads(ChangeLog(), tau_s=0)
        self.asked: dict[str, int] = dict.fromkeys(names, 0)
        self.dead: set[str] = set()
        self.hanging: set[str] = set()
        self.metrics: dict[str, Sample] = {}

    async def ask(self, target: NodeTarget) -> Sample:
        self.asked[target.name] = self.asked.get(target.name, 0) + 1
        if target.name in self.hanging:
            await asyncio.Event().wait()
        if target.name in self.dead:
            raise SourceError("no route")
        return Sample("kubelet", {"cpu": Measure(0.5, float(self.asked[target.name]))})

    async def ask_all(self) -> dict[str, Sample]:
        if not self.metrics:
            raise SourceError("not installed")
        return self.metrics

    def source(self, name: str) -> str:
        reading = self.loads.reading(name, 0.0)
        return reading.source if reading is not None else ""


@asynccontextmanager
async def asking(sources: Sources) -> AsyncIterator[Rounds]:
    rounds = Rounds(sources.targets, sources.loads, sources.ask, sources.ask_all, FAST)
    task = asyncio.create_task(rounds.run())
    try:
        yield rounds
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_every_node_is_asked_again_and_again() -> None:
    sources = Sources("a", "b", "c", "d", "e", "f")
    async with asking(sources):
        await until(lambda: min(sources.asked.values()) >= 3)
    assert set(sources.loads.names()) == set(sources.targets)


async def test_hanging_and_dead_kubelets_delay_nobody() -> None:
    sources = Sources("a", "b", "hangs", "dead")
    sources.hanging, sources.dead = {"hangs"}, {"dead"}
    async with asking(sources):
        await until(lambda: min(sources.asked["a"], sources.asked["b"]) >= 10)
    assert sources.asked["hangs"] == 1
    assert sources.asked["dead"] < sources.asked["a"]


async def test_a_dead_kubelets_node_is_read_from_the_metrics_api_until_it_is_back() -> None:
    sources = Sources("a", "dead")
    sources.dead = {"dead"}
    sources.metrics = {name: Sample("metrics.k8s.io", {"cpu": Measure(0.2, 1.0)}) for name in ("a", "dead", "other")}
    async with asking(sources):
        await until(lambda: sources.source("dead") == "metrics.k8s.io")
        assert sources.source("a") == "kubelet"
        sources.dead = set()
        await until(lambda: sources.source("dead") == "kubelet")


async def test_nodes_come_and_go() -> None:
    sources = Sources("a")
    async with asking(sources):
        await until(lambda: sources.source("a"))
        sources.targets["b"] = NodeTarget("b", "10.0.0.2", cpu=1000)
        await until(lambda: sources.source("b"))
        del sources.targets["a"]
        await until(lambda: not sources.source("a"))


async def test_a_node_without_an_address_is_not_asked_but_read_from_the_metrics_api() -> None:
    sources = Sources("a", "nameless")
    sources.targets["nameless"] = NodeTarget("nameless", cpu=1000)
    sources.metrics = {"nameless": Sample("metrics.k8s.io", {"cpu": Measure(0.2, 1.0)})}
    async with asking(sources):
        await until(lambda: sources.source("nameless") == "metrics.k8s.io")
        await until(lambda: sources.asked["a"] >= 3)
        assert sources.asked["nameless"] == 0
        sources.targets["nameless"] = NodeTarget("nameless", "10.0.0.3", cpu=1000)
        await until(lambda: sources.source("nameless") == "kubelet")


async def test_who_fails_is_known_until_it_answers_or_is_gone() -> None:
    sources = Sources("a", "back", "gone")
    sources.dead = {"back", "gone"}
    async with asking(sources) as rounds:
        await until(lambda: rounds.status.failing == {"back": "no route", "gone": "no route"})
        sources.dead.discard("back")
        await until(lambda: rounds.status.failing == {"gone": "no route"})
        del sources.targets["gone"]
        await until(lambda: rounds.status.failing == {})


async def test_a_node_that_goes_while_it_is_asked_does_not_fail_for_ever() -> None:
    sources, answer = Sources("a", "gone"), asyncio.Event()

    async def ask(target: NodeTarget) -> Sample:
        if target.name == "gone":
            sources.asked["gone"] += 1
            await answer.wait()
            raise SourceError("no route")
        return await Sources.ask(sources, target)

    sources.ask = ask  # type: ignore[method-assign]
    async with asking(sources) as rounds:
        await until(lambda: sources.asked["gone"])
        del sources.targets["gone"]
        await until(lambda: "gone" not in rounds._turns)
        answer.set()
        await until(lambda: rounds.status.errors)
        assert rounds.status.failing == {}
