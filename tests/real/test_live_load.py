"""Live load end to end: stress-ng and iperf3 on two measured nodes, node_exporter, Prometheus, agent, dispatcher, and
where the pods of a real control plane go. Once readings end, requests decide within the age that the profile states.

Agent and dispatcher are whole, in one process without Ray. n1 has the fewer requests and, unless it is busy, the lower
readings, so pods go there unless it is read to be busy.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from dispatcher.config import load_config
from dispatcher.scheduling.views import whole
from dispatcher.service.assembly import Dispatcher, assemble
from dispatcher.service.links.link import LocalLink
from localfleet.controlplane.nodes import NodeSpec
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane.fixtures import ControlPlanes
from tests.real.debian import needed
from tests.real.measured_nodes import MEMORY, RATE, MeasuredNode, Scraping, unavailable

CLUSTER = "east"
FRESH_S, STALE_S = 5.0, 10.0  # of the profile
WAIT_S = 240.0  # at most, for what takes seconds on a quiet machine
PODS = "/api/v1/namespaces/default/pods"
A_LITTLE = 3  # percent of a core that n2 computes all the time: far more than two idle nodes differ by
BUSY = 0.3  # share of a node's CPU or network, above which no pod goes there
SOURCE = {"source": "prometheus"}
BY_READINGS, BY_REQUESTS = "by readings", "stale, by requests"  # how a node was judged
Record = dict[str, Any]

pytestmark = [pytest.mark.skipif(bool(unavailable()), reason=unavailable()), pytest.mark.timeout(900)]


@dataclass
class Rig:
    """The nodes, what scrapes them, and the control plane that has them as its own."""

    nodes: dict[str, MeasuredNode]
    scraping: Scraping
    plane: ControlPlane
    folder: Path
    pods: int = 0

    def agent(self) -> Agent:
        """It reads the nodes from Prometheus and nowhere else. What rights it needs is tested elsewhere."""
        source = {"url": self.scraping.url, "interval_s": 1, "window": "5s", "sets": ["node_exporter"]}
        settings = {
            "cluster": CLUSTER,
            "kubeconfig": str(self.plane.kubeconfig),
            "kubelet": {"smoothing_s": 0, "bandwidth": RATE},
            "telemetry": {"prometheus": [source], "order": {"default": ["prometheus"]}, "stale_s": FRESH_S},
            "metrics": {"enabled": True, "port": 0},
        }
        return Agent(AgentSettings.model_validate(settings))

    def dispatcher(self, agent: Agent) -> Dispatcher:
        """The default profile, but for how long readings count."""
        aged = {"name": "ExpectedLoad", "weight": 4, "args": {"fresh_s": FRESH_S, "stale_s": STALE_S}}
        (self.folder / "profile.yaml").write_text(yaml.safe_dump({"extends": "default", "plugins": [aged]}))
        config = {"clusters": [{"name": CLUSTER}], "profile": "profile.yaml"}
        (self.folder / "dispatcher.yaml").write_text(yaml.safe_dump(config))
        return assemble([LocalLink(CLUSTER, agent)], load_config(self.folder / "dispatcher.yaml"))


@pytest.fixture(scope="module")
def rig(control_plane: ControlPlanes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    programs = needed("prometheus", "prometheus-node-exporter", "stress-ng", "iperf3")
    folder = tmp_path_factory.mktemp("live")
    with ExitStack() as stack:
        nodes: dict[str, MeasuredNode] = {}
        for name in ("n1", "n2"):
            nodes[name] = MeasuredNode(name, folder / name, programs)
            stack.callback(nodes[name].close)
        stack.enter_context(nodes["n2"].computing(A_LITTLE))
        scraping = Scraping(folder / "prometheus", programs["prometheus"], list(nodes.values()))
        stack.callback(scraping.close)
        shapes = [NodeSpec(name, cpu="8", memory=str(MEMORY), address=node.cable.node) for name, node in nodes.items()]
        plane = control_plane(CLUSTER, nodes=shapes)
        there = {"cpu": "600m", "memory": "2Gi"}  # too little to learn from it what pods use of their requests
        container = {"name": "main", "image": "none", "resources": {"requests": there}}
        plane.admin.create(PODS, {"metadata": {"name": "there"}, "spec": {"nodeName": "n2", "containers": [container]}})
        yield Rig(nodes, scraping, plane, folder)


class Live:
    """An agent and a dispatcher that run, and what is asked of them."""

    def __init__(self, rig: Rig, agent: Agent, dispatcher: Dispatcher) -> None:
        self.rig, self.views = rig, dispatcher.views
        self._agent = agent

    def used(self, node: str, signal: str) -> float | None:
        """What the dispatcher knows of a node."""
        found = (one["load"].get(signal, {}).get("used") for one in whole(self.views.nodes()) if one["name"] == node)
        return next(found, None)

    async def until_used(self, node: str, signal: str, holds: Callable[[float], bool]) -> None:
        await until(
            lambda: (used := self.used(node, signal)) is not None and holds(used), lambda: whole(self.views.nodes())
        )

    async def place(self) -> Record:
        """The record of one more pod, which is deleted once it is bound."""
        self.rig.pods += 1
        name, admin = f"p{self.rig.pods}", self.rig.plane.admin
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        spec = {"schedulerName": "global-dispatcher", "containers": [container]}
        await asyncio.to_thread(admin.create, PODS, {"metadata": {"name": name}, "spec": spec})
        await until(lambda: (self.views.explain("default", name) or {}).get("node"), lambda: whole(self.views.pods()))
        record: Record = (self.views.explain("default", name) or {})["decision"]
        bound = await asyncio.to_thread(admin.get, f"{PODS}/{name}")
        assert bound["spec"]["nodeName"] == record["decision"]["node"]
        await asyncio.to_thread(admin.delete, f"{PODS}/{name}?gracePeriodSeconds=0")
        return record

    async def until_pods_go_to(self, node: str, judged: str) -> Record:
        """The first record of a pod that goes there, judged so by all signals. What is too old never counts."""
        records: list[Record] = []

        async def there() -> bool:
            records.append(await self.place())
            signals = records[-1]["extras"]["ExpectedLoad"].values()
            assert all(by(one) == BY_REQUESTS for one in signals if (one["age_s"] or 0.0) > STALE_S)
            return records[-1]["decision"]["node"] == node and {by(one) for one in signals} == {judged}

        await until(there, lambda: (f"no pod {judged} to {node}", records[-1:], whole(self.views.nodes())))
        return records[-1]

    async def metric(self, name: str, **labels: str) -> float:
        """Of the agent; 0 where it has none of these labels."""
        host, port = self._agent.metrics.address or ("", 0)
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            text = (await client.get(f"http://{host}:{port}/metrics")).text
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        full = f"global_dispatcher_agent_{name}"
        return sum(one.value for one in samples if one.name == full and one.labels == labels)

    async def until_told(self, name: str, holds: Callable[[float], bool], **labels: str) -> None:
        async def told() -> bool:
            return holds(await self.metric(name, **labels))

        await until(told, lambda: f"{name} {labels}")


def by(signal: Record) -> str:
    """What decided. On a slow machine readings fade, and count less, before the next ones come."""
    judged: str = signal["judged"]
    return BY_READINGS if judged.startswith(("fresh", "fading")) else judged


async def until(holds: Callable[[], Awaitable[object] | object], what: Callable[[], object]) -> None:
    """Wait for a condition; AssertionError with what there is instead."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_S
    while not (await found if isinstance(found := holds(), Awaitable) else found):
        assert loop.time() < deadline, what()
        await asyncio.sleep(0.1)


@asynccontextmanager
async def dispatching(rig: Rig) -> AsyncIterator[Live]:
    """Ready, with readings of all nodes."""
    agent = rig.agent()
    dispatcher = rig.dispatcher(agent)
    await agent.start()
    running = asyncio.create_task(dispatcher.service.run())
    try:
        live = Live(rig, agent, dispatcher)
        for node in rig.nodes:
            for signal in ("cpu", "memory", "network"):
                await live.until_used(node, signal, lambda used: used < BUSY)
        yield live
    finally:
        dispatcher.service.stop()
        await running
        await agent.stop()


LOADS: dict[str, Callable[[MeasuredNode], AbstractContextManager[None]]] = {
    "cpu": MeasuredNode.computing,
    "network": MeasuredNode.sending,
}


@pytest.mark.parametrize("signal", LOADS)
async def test_pods_leave_a_node_that_is_read_to_be_busy_and_come_back(rig: Rig, signal: str) -> None:
    async with dispatching(rig) as live:
        await live.until_pods_go_to("n1", BY_READINGS)
        with LOADS[signal](rig.nodes["n1"]):
            await live.until_used("n1", signal, lambda used: used > BUSY)
            await live.until_pods_go_to("n2", BY_READINGS)
        await live.until_used("n1", signal, lambda used: used < BUSY)
        await live.until_pods_go_to("n1", BY_READINGS)


FAULTS: dict[str, Callable[[Rig], AbstractContextManager[None]]] = {
    "the exporter": lambda rig: rig.nodes["n1"].without_exporter(),
    "the link": lambda rig: rig.nodes["n1"].without_link(),
    "Prometheus": lambda rig: rig.scraping.dead(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_readings_requests_decide_and_explain_and_metrics_say_so(rig: Rig, fault: str) -> None:
    """n1 is busy all the time: as long as that is known pods go to n2, by requests they go to n1."""
    async with dispatching(rig) as live:
        with rig.nodes["n1"].computing():
            await live.until_used("n1", "cpu", lambda used: used > BUSY)
            await live.until_pods_go_to("n2", BY_READINGS)
            with FAULTS[fault](rig):
                record = await live.until_pods_go_to("n1", BY_REQUESTS)
                assert all(one["age_s"] >= STALE_S for one in record["extras"]["ExpectedLoad"].values())
                await metrics_say_so(live, fault)
            await live.until_pods_go_to("n2", BY_READINGS)


async def metrics_say_so(live: Live, fault: str) -> None:
    if fault == "Prometheus":
        await live.until_told("source_up", lambda up: up == 0.0, **SOURCE)
        await live.until_told("source_errors_total", lambda count: count > 0, **SOURCE)
        await live.until_told("source_age_seconds", lambda age: age > STALE_S, **SOURCE)
    else:
        await live.until_told("source_silent_nodes", lambda count: count == 1.0, **SOURCE)
    await live.until_told("unread_nodes", lambda count: count >= 1.0, signal="cpu")
    oldest = {**SOURCE, "signal": "cpu", "quantile": "1"}
    await live.until_told("reading_age_seconds", lambda age: age >= STALE_S, **oldest)
