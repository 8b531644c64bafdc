"""Every lie of a Prometheus, all the way: source, agent, dispatcher core, placement.

Two whole agents, of a cluster whose source lies and of one whose source is honest, and two cores that hear the same of
both but for one thing: `blind` hears no reading of the lying cluster. Where a lie counts for nothing, both place alike.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from agents.runtime.telemetry_settings import PrometheusSettings
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, Tick
from dispatcher.scheduling.views import explain, nodes_view, whole
from shared.messages import Changes, decode, encode
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import needs, pod_object
from tests.agents.telemetry.servers import HOSTILE, Handler, serving
from tests.laws.cores import make_core

LIAR, HONEST = "east", "west"
# By requests n0 is the fuller node of the liar's cluster; in truth it is the other way round.
TRUTH = {"n0": "0.0", "n1": "0.9"}
HOT = {"n0": "0.7", "n1": "0.8"}  # of the honest cluster: no pod goes there that has room in the other one
PODS = tuple(f"p{number}" for number in range(4))
STALE_S = 300.0  # of the default profile
INTERVAL_S = 0.03  # shorter than the settings let anybody else ask
UNKNOWN, STALE = "unknown, by requests", "stale, by requests"


def telling(shares: Mapping[str, str], ago_s: float = 0.0, times: int = 1) -> Handler:
    """An instant vector of all these nodes for every measure, sampled so long ago; each so many times."""

    async def handle(request: web.Request) -> web.Response:
        now = time.time()
        sampled = "timestamp(" in request.query["query"]
        result = [
            {"metric": {"node": node, "copy": str(copy)}, "value": [now, repr(now - ago_s) if sampled else text]}
            for node, text in shares.items()
            for copy in range(times)
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    return handle


def both(text: str) -> Handler:
    return telling(dict.fromkeys(TRUTH, text))


# What the source does -> what records say of its nodes' readings if it never did anything else.
LIES: dict[str, tuple[Handler, str]] = {
    "NaN": (both("NaN"), UNKNOWN),
    "+Inf": (both("+Inf"), UNKNOWN),
    "-Inf": (both("-Inf"), UNKNOWN),
    "negative": (both("-0.2"), UNKNOWN),
    "far too much": (both("9e99"), UNKNOWN),
    "no number": (both("idle"), UNKNOWN),
    "frozen": (telling(TRUTH, ago_s=3600.0), STALE),
    "from the future": (telling(TRUTH, ago_s=-3600.0), UNKNOWN),
    "every node twice": (telling(TRUTH, times=2), UNKNOWN),
    "an empty answer": (telling({}), UNKNOWN),
    **{name: (handler, UNKNOWN) for name, (handler, _) in HOSTILE.items()},
}


class Server:
    """A Prometheus that answers as it is told to at the moment."""

    def __init__(self, answer: Handler) -> None:
        self.answer = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request)


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


class Clusters:
    """Two clusters of two nodes, each with an agent and a Prometheus."""

    def __init__(self, lie: Handler, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.servers = {LIAR: Server(lie), HONEST: Server(telling(HOT))}
        self.apis: dict[str, FakeApi] = {}
        self.agents: dict[str, Agent] = {}

    async def start(self, name: str, folder: Path, stack: AsyncExitStack) -> None:
        url = await stack.enter_async_context(serving(self.servers[name].handle))
        api = self.apis[name] = await stack.enter_async_context(fake_api(nodes=2))
        api.cluster_uid = f"uid-{name}"
        source = PrometheusSettings(url=url, timeout_s=self._timeout_s, max_mib=1)
        source = source.model_copy(update={"interval_s": INTERVAL_S})
        told = {"prometheus": [source], "order": {"default": ["prometheus"]}}
        access = {"cluster": name, "kubeconfig": api.kubeconfig(folder)}
        agent = self.agents[name] = Agent(AgentSettings.model_validate({**access, "telemetry": told}))
        await agent.start()
        stack.push_async_callback(agent.stop)

    async def until_asked(self, name: str) -> None:
        """Until the source of a cluster has been asked twice more: the second was asked after this was called."""
        status = self.agents[name].sources["prometheus"]
        asked = status.asked
        await until(lambda: status.asked >= asked + 2)


@asynccontextmanager
async def clusters(answer: Handler, folder: Path, timeout_s: float = 0.3) -> AsyncIterator[Clusters]:
    """Running, with new pods in the liar's cluster that every node has room for; the liar's source answers so."""
    started = Clusters(answer, timeout_s)
    async with AsyncExitStack() as stack:
        for name in (LIAR, HONEST):
            await started.start(name, make(folder / name), stack)
        full = [needs(cpu="3", memory="6Gi")]
        started.apis[LIAR].put("pods", pod_object("full", containers=full, nodeName="n0", status={"phase": "Running"}))
        for name in PODS:
            started.apis[LIAR].put("pods", pod_object(name, containers=[needs(cpu="250m", memory="256Mi")]))
        agents = started.agents.values()
        await until(lambda: all(agent.cache.synced and agent.health.api_ok for agent in agents))
        await until(lambda: started.agents[LIAR].cache.count("pods") == 1 + len(PODS))
        await started.until_asked(HONEST)
        yield started


class Cores:
    """Two that hear the same, but that `blind` hears no reading of the liar's nodes."""

    def __init__(self, running: Clusters) -> None:
        self._agents = running.agents
        self.told, self.blind = make_core((LIAR, HONEST)), make_core((LIAR, HONEST))

    async def hear(self, now: float) -> None:
        """All that is new, until the honest cluster's agent has told new readings three times."""
        told = 0
        while told < 3:
            await self._hear(LIAR, now)
            told += bool(await self._hear(HONEST, now))
            await asyncio.sleep(0.01)

    async def _hear(self, cluster: str, now: float) -> int:
        """What is new of a cluster, in bytes as it crosses; how many readings were in it."""
        view = self.told.clusters[cluster]
        answer = await self._agents[cluster].changes(view.incarnation, view.revision, 0.0)
        heard = decode(Changes, encode(answer))
        self.told.handle(ClusterChanged(heard), now)
        self.blind.handle(ClusterChanged(replace(heard, readings=()) if cluster == LIAR else heard), now)
        return len(heard.readings)

    def decide(self, now: float) -> None:
        for core in (self.told, self.blind):
            core.handle(Tick(), now)


def decisions(core: SchedulerCore) -> dict[str, dict[str, Any]]:
    """Of each pod the record of why it goes where it goes."""
    found = {name: explain(core, "default", name) for name in PODS}
    return {name: one["decision"] for name, one in found.items() if one is not None}


def places(core: SchedulerCore) -> dict[str, tuple[str, str]]:
    placed = {name: one["decision"] for name, one in decisions(core).items()}
    return {name: (one["cluster"], one["node"]) for name, one in placed.items()}


def judged(core: SchedulerCore) -> set[str]:
    """What the records say of the readings of the nodes that were chosen, whatever the signal."""
    told = (one["extras"]["ExpectedLoad"] for one in decisions(core).values())
    return {signal["judged"] for one in told for signal in one.values()}


def fresh(core: SchedulerCore) -> set[tuple[str, str]]:
    """The nodes of which the core has a reading that is younger than a minute."""
    ages = {(row["cluster"], row["name"]): row["load"]["cpu"]["age_s"] for row in whole(nodes_view(core))}
    return {node for node, age in ages.items() if age is not None and age < 60}


BY_REQUESTS = dict.fromkeys(PODS, (LIAR, "n1"))
READ = {(HONEST, "n0"), (HONEST, "n1")}
ALL = {*READ, (LIAR, "n0"), (LIAR, "n1")}


async def test_a_source_that_tells_the_truth_decides(tmp_path: Path) -> None:
    async with clusters(telling(TRUTH), tmp_path) as running:
        await running.until_asked(LIAR)
        cores = Cores(running)
        await cores.hear(now=1000.0)
        cores.decide(now=1000.0)
    assert set(places(cores.told).values()) == {(LIAR, "n0")}
    assert places(cores.blind) == BY_REQUESTS
    assert judged(cores.told) == {"fresh"}


# Of each kind one in `make test`, all in `make system`.
_ONE_OF_A_KIND = ("NaN", "negative", "frozen", "from the future", "silence", "a slow drip", "50 MB", "500")


@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=[] if lie in _ONE_OF_A_KIND else pytest.mark.system) for lie in LIES]
)
async def test_where_a_source_lies_pods_go_as_if_it_were_not_there(lie: str, tmp_path: Path) -> None:
    handler, words = LIES[lie]
    async with clusters(handler, tmp_path) as running:
        await running.until_asked(LIAR)
        always = Cores(running)
        await always.hear(now=1000.0)
        always.decide(now=1000.0)
        assert places(always.told) == places(always.blind) == BY_REQUESTS
        assert judged(always.told) == {words}
        assert fresh(always.told) == READ

        began, running.servers[LIAR].answer = Cores(running), telling(TRUTH)
        while fresh(began.told) != ALL:  # a clock that jumps back from an hour ahead is not believed at once
            await began.hear(now=1000.0)
        running.servers[LIAR].answer = handler
        await running.until_asked(LIAR)
        await began.hear(now=1000.0)
        await began.hear(now=1000.0 + STALE_S)
        began.decide(now=1000.0 + STALE_S)
    assert places(began.told) == places(began.blind) == BY_REQUESTS
    assert judged(began.told) == {STALE}
    assert fresh(began.told) == READ


async def test_decisions_wait_for_no_question(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with clusters(hang, tmp_path, timeout_s=3600.0) as running:
        await asked.wait()
        cores = Cores(running)
        await cores.hear(now=1000.0)
        cores.decide(now=1000.0)
        assert running.agents[LIAR].sources["prometheus"].asked == 0  # it still waits for its first answer
    assert places(cores.told) == BY_REQUESTS
    assert fresh(cores.told) == READ
