"""Asks the configured sources of one cluster once, as its agent would, and shows what it would
read.

Nothing is kept and nothing is decided by it. Sources that tell counters are asked again until their
rates are known.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agents.kube import wire
from agents.kube.nodes import node_seen
from agents.observer.changes import ChangeLog
from agents.observer.loads import DEFAULT_SOURCE, Loads, Measure, Preference, Sample
from agents.observer.seen import NodeTarget
from agents.runtime.readings import (
    ClusterKubelets,
    fleet_sources,
    node_exporters,
    wanted_measures,
    with_bandwidth,
)
from agents.runtime.settings import AgentSettings
from agents.telemetry.source import Answer, FleetSource, NodeSource, SourceError
from shared.kube.client import KubeClient, Patience
from shared.kube.http import Request
from shared.kube.session import Access
from shared.model.node import Reading

NODES_PATH = "/api/v1/nodes"
PAGE = "500"
AGAIN_S = 2.0


class TrialError(RuntimeError):
    """The cluster's nodes cannot be listed, or not be chosen; the text says why. `fix`: what to do."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Choice:
    """Which nodes are shown: by name, else the first `count`. `wait_s`: how long rates may take to
    be known.
    """

    nodes: tuple[str, ...] = ()
    count: int = 3
    wait_s: float = 15.0


@dataclass(slots=True)
class Tried:
    """One source. `problem`: why there is no answer, or what is missing of it. `failing`: by node,
    where each is asked by itself. `told`: of how many nodes it tells anything; `silent`: the
    others. `measures`: what it was asked for, each with the number of nodes that it is told of;
    empty where a source is asked for nothing in particular.
    """

    name: str
    key: str
    problem: str = ""
    took_s: float = 0.0
    told: int = 0
    of: int = 0
    silent: tuple[str, ...] = ()
    failing: dict[str, str] = field(default_factory=dict)
    answer: Answer = field(default_factory=Answer)
    measures: dict[str, int] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)  # by node that is shown


@dataclass(slots=True)
class Trial:
    """All sources of one cluster. `readings`: by node that is shown, what the dispatcher would be
    told.
    """

    cluster: str
    nodes: int
    shown: tuple[str, ...]
    sources: list[Tried]
    readings: dict[str, Reading]


async def try_sources(settings: AgentSettings, choice: Choice) -> Trial:
    """Ask them all, beside each other; TrialError if the nodes cannot be had."""
    client = KubeClient(
        Access(settings.kubeconfig, settings.context), Patience(settings.api.connect_s)
    )
    try:
        targets = await _targets(client, settings)
        shown = _chosen(targets, choice)
        loads = _loads(settings, settings.telemetry.preference())
        asking = [_Asking(settings, name, targets, shown, loads) for name in _wanted(settings)]
        async with asyncio.TaskGroup() as group:
            for one in asking:
                group.create_task(one.run(client, choice.wait_s))
        now = time.monotonic()
        readings = {
            name: reading for name in shown if (reading := loads.reading(name, now)) is not None
        }
        return Trial(settings.cluster, len(targets), shown, [one.tried for one in asking], readings)
    finally:
        await client.close()


def _wanted(settings: AgentSettings) -> list[str]:
    """The sources that an order names, in their usual order."""
    wanted = settings.telemetry.preference().sources()
    return [name for name in settings.telemetry.names() if name in wanted]


def _loads(settings: AgentSettings, preference: Preference) -> Loads:
    return Loads(ChangeLog(), tau_s=0.0, signals=settings.all_signals(), preference=preference)


async def _targets(client: KubeClient, settings: AgentSettings) -> dict[str, NodeTarget]:
    """All nodes that an agent would read."""
    found: dict[str, NodeTarget] = {}
    token = ""
    while True:
        params = {"limit": PAGE, **({"continue": token} if token else {})}
        answer = await client.send(
            Request("GET", NODES_PATH, params=params), timeout_s=settings.api.request_s
        )
        if not answer.ok:
            words = wire.read_status(answer.body).message or f"status {answer.status}"
            fix = (
                f"see whether its API server answers, and who {client.access.describe()} is: it "
                "has to list nodes"
            )
            raise TrialError(f"the nodes cannot be listed: {words}"[:500], fix)
        try:
            page = wire.read_list(answer.body)
        except wire.BROKEN as error:
            raise TrialError(
                f"the list of nodes cannot be read: {error}"[:500], "see what answers there"
            ) from None
        for item in page.items or ():
            seen = node_seen(item)
            if seen is not None and seen.target is not None:
                found[seen.key] = with_bandwidth(seen.target, settings.kubelet.bandwidth)
        token = page.metadata.continue_ or ""
        if not token:
            return found


def _chosen(targets: Mapping[str, NodeTarget], choice: Choice) -> tuple[str, ...]:
    if not targets:
        raise TrialError("the cluster has no nodes", "try again when there is one")
    if missing := [name for name in choice.nodes if name not in targets]:
        some = ", ".join(sorted(targets)[:10]) + (" ..." if len(targets) > 10 else "")
        raise TrialError(f"there is no node {missing[0]}", f"name one of {some}")
    return choice.nodes or tuple(sorted(targets)[: choice.count])


class _Asking:
    """One source, its answers put into the loads of all sources, and into loads of its own."""

    def __init__(
        self,
        settings: AgentSettings,
        name: str,
        targets: Mapping[str, NodeTarget],
        shown: Sequence[str],
        loads: Loads,
    ) -> None:
        self.tried = Tried(name, settings.telemetry.keys()[name])
        self._settings = settings
        self._targets = targets
        self._shown = shown
        self._both = (loads, _loads(settings, Preference((name,))))
        self._counters: set[str] = set()  # measures that are told as growing totals

    async def run(self, client: KubeClient, wait_s: float) -> None:
        """Ask; again while rates are not known."""
        source, ask = self._opened(client)
        try:
            until = time.monotonic() + wait_s
            while True:
                begun = time.monotonic()
                await ask()
                self.tried.took_s = time.monotonic() - begun
                if self._complete() or time.monotonic() + AGAIN_S > until:
                    return
                await asyncio.sleep(AGAIN_S)
        finally:
            await source.close()

    def _opened(
        self, client: KubeClient
    ) -> tuple[NodeSource | FleetSource, Callable[[], Awaitable[None]]]:
        settings = self._settings
        name = self.tried.name
        for one in settings.telemetry.node_exporter:
            if one.name == name:
                exporters = node_exporters(one)
                return exporters, partial(self._nodes, exporters)
        if name == DEFAULT_SOURCE:
            kubelets = ClusterKubelets(client, settings.kubelet)
            return kubelets, partial(self._nodes, kubelets)
        fleet, _ = fleet_sources(client, settings)[name]
        for server in settings.telemetry.prometheus:
            if server.name == name:
                queries = server.all_queries(settings.cluster, wanted_measures(settings))
                self.tried.measures = {query.measure: 0 for query in queries}
        return fleet, partial(self._fleet, fleet)

    async def _nodes(self, source: NodeSource) -> None:
        """Only those that are shown."""
        tried = self.tried
        told = 0
        tried.of = len(self._shown)

        async def one(name: str) -> None:
            nonlocal told
            try:
                sample = await source.sample(self._targets[name])
            except SourceError as error:
                tried.failing[name] = str(error)
                return
            tried.failing.pop(name, None)
            told += 1
            self._take(name, sample)

        await asyncio.gather(*map(one, self._shown))
        tried.told = told

    async def _fleet(self, source: FleetSource) -> None:
        tried = self.tried
        tried.of = len(self._targets)
        try:
            answer = await source.sample_all(self._targets)
        except SourceError as error:
            tried.problem = str(error)
            return
        tried.answer = answer
        tried.problem = answer.problem
        tried.told = len(answer.samples)
        tried.silent = tuple(sorted(self._targets.keys() - answer.samples.keys()))
        counted = Counter(name for sample in answer.samples.values() for name in sample.measures)
        tried.measures |= {name: counted[name] for name in tried.measures}
        for name in self._shown:
            if (sample := answer.samples.get(name)) is not None:
                self._take(name, sample)

    def _take(self, name: str, sample: Sample) -> None:
        now = time.monotonic()
        self._counters |= {name for name, measure in sample.measures.items() if measure.counter}
        for loads in self._both:
            loads.add(self._targets[name], sample, now, self.tried.name)
        if (reading := self._both[1].reading(name, now)) is not None:
            self.tried.readings[name] = reading

    def _complete(self) -> bool:
        """Whether asking again can tell nothing more."""
        signals = {
            one.name for one in self._settings.all_signals() if self._counters.intersection(one.of)
        }
        told = [
            {name for name, _, _ in reading.signals()} for reading in self.tried.readings.values()
        ]
        return all(names >= signals for names in told)


def raw_measures(tried: Tried) -> dict[str, dict[str, Measure]]:
    """By measure and node what a source for all nodes has answered, in the observer's units."""
    found: dict[str, dict[str, Measure]] = {name: {} for name in tried.measures}
    for node, sample in tried.answer.samples.items():
        for name, measure in sample.measures.items():
            if name in found:
                found[name][node] = measure
    return found
