"""Readings of 5,000 nodes from one Prometheus: questions, CPU of agent and dispatcher, decisions
while it hangs.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from time import process_time

import numpy as np
from msgspec.structs import replace

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads
from agents.observer.seen import NodeTarget
from agents.runtime.readings import wanted_measures
from agents.runtime.settings import AgentSettings
from agents.telemetry.polls import Polls
from agents.telemetry.prometheus import Prometheus
from agents.telemetry.web import Pool, Web
from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.load import NODE, Load, node_name
from benchmarks.fleet.phases import Fleet
from benchmarks.fleet.wire import SocketLink
from benchmarks.prometheus.server import ANSWER, HANG, Server, serving
from benchmarks.report.rows import Row
from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.events import ClusterChanged
from dispatcher.service.assembly import assemble
from dispatcher.service.service import Core
from shared.messages import Changes, decode, encode
from shared.model.node import Reading

NODES, ROUNDS, TURNS = 5_000, 30, 3
INTERVAL_S = 1.0  # between two questions: fifteen times as often as by default
ANSWERS = "the same while it answers"


def prometheus_of_5000_nodes(share: int) -> list[Row]:
    """`share` 10: a tenth of the rounds and of the time."""
    return asyncio.run(measure(NODES, max(2, ROUNDS // share), 10.0 / share))


async def measure(nodes: int, rounds: int, turn_s: float, turns: int = TURNS) -> list[Row]:
    """All figures; `turn_s`: for how long decisions are watched in each turn."""
    with serving([node_name(number) for number in range(nodes)]) as server:
        rows = _round_rows(nodes, await rounds_of(server, nodes, rounds))
        return rows + _latency_rows(nodes, *await _latencies(server, nodes, turn_s, turns))


def settings_of(server: Server, cluster: str = "c000") -> AgentSettings:
    """An agent's, with that Prometheus as its one source and the sets and signals that are the
    default.
    """
    source = {"url": server.url, "interval_s": INTERVAL_S, "timeout_s": 3600.0}
    telemetry = {"prometheus": [source], "order": {"default": ["prometheus"]}}
    return AgentSettings.model_validate({"cluster": cluster, "telemetry": telemetry})


def source_of(settings: AgentSettings) -> Prometheus:
    """The source as the agent makes it."""
    (one,) = settings.telemetry.prometheus
    queries = one.all_queries(settings.cluster, wanted_measures(settings))
    return Prometheus(
        one.name, Web(one.url, one.limits(), Pool(), one.credentials()), queries, one.node_labels
    )


def targets_of(nodes: int) -> dict[str, NodeTarget]:
    """The nodes of `benchmarks.fleet`, as an agent knows them."""
    names = map(node_name, range(nodes))
    cpu, memory = NODE["cpu"], NODE["memory"]
    return {
        name: NodeTarget(name, cpu=cpu, memory=memory, bandwidth=1_250_000_000) for name in names
    }


class Agent:
    """What an agent does with its source: asks, believes or not, tells."""

    def __init__(self, server: Server, nodes: int) -> None:
        settings = settings_of(server)
        self.news = asyncio.Event()
        self._source, self._targets = source_of(settings), targets_of(nodes)
        self._loads = Loads(
            ChangeLog(on_change=self.news.set),
            tau_s=settings.kubelet.smoothing_s,
            signals=settings.all_signals(),
            preference=settings.telemetry.preference(),
        )

    async def ask(self) -> None:
        """One round of questions."""
        answer, now = await self._source.sample_all(self._targets), time.monotonic()
        for name, sample in answer.samples.items():
            self._loads.add(self._targets[name], sample, now, "prometheus")

    async def keep_asking(self) -> None:
        """Every interval, as an agent does, until cancelled."""
        await Polls("prometheus", self._source, self._targets, self._loads, INTERVAL_S).run()

    def readings(self) -> tuple[Reading, ...]:
        """Of all nodes, as they are told."""
        now = time.monotonic()
        return tuple(
            one for name in self._targets if (one := self._loads.reading(name, now)) is not None
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._source.close()


# --- what a round costs
# ----------------------------------------------------------------------------------------------


@dataclass
class Rounds:
    """CPU seconds of the agent and of the dispatcher, and how often each query was asked, for so
    many rounds.
    """

    agent: list[float] = field(default_factory=list)
    fold: list[float] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    readings: int = 0  # in the last report


async def rounds_of(server: Server, nodes: int, rounds: int) -> Rounds:
    """The agent asks and tells, the dispatcher takes it in; one after the other."""
    agent, core, found = Agent(server, nodes), _core(), Rounds()
    cluster = FakeCluster(Load(clusters=1, nodes=nodes, pods=0), 0, {}, lambda what, uid: None)
    first = cluster.full()
    core.handle(ClusterChanged(first), 0.0)
    server.asked()
    for number in range(1, rounds + 1):
        began = process_time()
        await agent.ask()
        readings = agent.readings()
        news = replace(
            first, full=False, nodes=(), since=number, revision=number + 1, readings=readings
        )
        told = encode(news)
        found.agent.append(process_time() - began)
        began = process_time()
        core.handle(ClusterChanged(decode(Changes, told)), number * 15.0)
        found.fold.append(process_time() - began)
        found.readings = len(readings)
    found.asked = server.asked()
    await agent.close()
    return found


def _core() -> Core:
    return assemble([SocketLink("c000", "")], DispatcherConfig()).service.core


def _round_rows(nodes: int, found: Rounds) -> list[Row]:
    rounds = len(found.agent)
    often = max(found.asked.values()) / rounds
    measures = len(found.asked)
    asked = (
        f"how often a query is asked in a round, of {measures} (one a measure, one for the times "
        "of all)"
    )
    return [
        Row("prometheus_questions", nodes, 0, often, "times", 1, None, asked),
        Row(
            "prometheus_agent_cpu",
            nodes,
            0,
            1e3 * median(found.agent),
            "ms",
            None,
            None,
            "CPU of a round: asked, read, told",
        ),
        Row(
            "prometheus_fold_cpu",
            nodes,
            0,
            1e3 * median(found.fold),
            "ms",
            20,
            None,
            "CPU of the dispatcher for the readings of a round, decoding included",
        ),
    ]


# --- decisions while it hangs
# ----------------------------------------------------------------------------------------


async def _latencies(
    server: Server, nodes: int, turn_s: float, turns: int
) -> tuple[list[float], list[float]]:
    """Seconds from submission to bound of a pod every 50 ms, while the server answers and while it
    hangs, in turn.
    """
    fleet, agent = Fleet(Load(clusters=2, nodes=nodes)), Agent(server, nodes)
    cluster = fleet.clusters["c000"]
    found: dict[str, list[float]] = {ANSWER: [], HANG: []}

    async def tell() -> None:
        while True:
            await agent.news.wait()
            agent.news.clear()
            cluster.tell_readings(agent.readings())

    async with fleet.dispatcher():
        await fleet.ask("go")
        await fleet.until("bound", fleet.submit(1))
        await fleet.until_quiet()
        tasks = [asyncio.create_task(one) for one in (agent.keep_asking(), tell())]
        for word in turns * (ANSWER, HANG):
            server.tell(word)
            await asyncio.sleep(2 * INTERVAL_S)  # the question that hangs has been asked
            async with fleet.phase(word, probes=True) as taken:
                await asyncio.sleep(turn_s)
            found[word] += taken.probes
        server.tell(ANSWER)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await agent.close()
    return found[ANSWER], found[HANG]


def _latency_rows(nodes: int, answers: list[float], hangs: list[float]) -> list[Row]:
    rows, said, count = (
        list[Row](),
        "from submission to bound while a query hangs, one pod every 50 ms",
        len(hangs),
    )
    for quantile, share in (("p50", 0.5), ("p99", 0.99)):
        well, ill = (1e3 * float(np.quantile(one, share)) for one in (answers, hangs))
        name = f"prometheus_hangs_{quantile}"
        rows.append(Row(name, 2 * nodes, count, ill, "ms", None, well, said, ANSWERS))
        rows.append(
            Row(
                f"{name}_ratio",
                2 * nodes,
                count,
                ill / well,
                "x",
                1.1,
                None,
                f"{said}; {ANSWERS} is 1",
            )
        )
    return rows


CASES = (prometheus_of_5000_nodes,)
