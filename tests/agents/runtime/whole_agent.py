"""A whole agent against a fake API server, and a dispatcher that follows it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from shared.messages import Changes, decode, encode
from shared.model.node_group import NodeGroups
from shared.model.objects import AnyObject
from shared.model.pod import Pod
from tests.agents.kube.fake_server import FakeApi

IMPATIENT = {
    "connect_s": 1.0,
    "request_s": 0.3,
    "probe_s": 0.02,
    "probe_timeout_s": 0.1,
    "grace_s": 0.15,
    "backoff_s": 0.01,
    "max_backoff_s": 0.05,
}


# Where the server answers all the time: on a starved machine it would count as lost now and then.
PATIENT = {**IMPATIENT, "connect_s": 30.0, "request_s": 30.0, "probe_timeout_s": 30.0, "grace_s": 30.0}


class Dispatcher:
    """Follows an agent as the dispatcher does, through bytes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.incarnation, self.revision = "", 0
        self.pods: dict[str, Pod] = {}
        self.nodes: set[str] = set()
        self.objects: dict[tuple[str, str], AnyObject] = {}
        self.node_groups: NodeGroups | None = None
        self.last: Changes | None = None

    async def poll(self, wait_s: float = 5.0) -> Changes:
        answer = await self.agent.changes(self.incarnation, self.revision, wait_s)
        self.last = changes = decode(Changes, encode(answer))
        if changes.full:
            self.pods, self.nodes, self.objects, self.node_groups = {}, set(), {}, None
        self.node_groups = changes.node_groups or self.node_groups
        self.nodes |= {node.name for node in changes.nodes}
        self.nodes -= set(changes.nodes_gone)
        self.pods |= {pod.name: pod for pod in changes.pods}
        gone = set(changes.pods_gone)
        self.pods = {name: pod for name, pod in self.pods.items() if pod.uid not in gone}
        self.objects |= {(type(one).__name__, one.key): one for one in changes.objects}
        for ref in changes.objects_gone:
            self.objects.pop((ref.kind, ref.key), None)
        self.incarnation, self.revision = changes.incarnation, changes.revision
        return changes

    async def poll_until(self, holds: object) -> None:
        assert callable(holds)
        async with asyncio.timeout(60):
            while not holds():
                await self.poll(0.1)

    def well(self) -> bool:
        return self.last is not None and self.last.synced and self.last.api_ok

    def restored(self) -> bool:
        return self.last is not None and self.last.restored

    def lost(self) -> bool:
        return self.last is not None and not self.last.api_ok


@asynccontextmanager
async def an_agent(
    api: FakeApi,
    folder: Path,
    seen: dict[str, int] | None = None,
    pace: Mapping[str, float] = IMPATIENT,
    coalesce_s: float = 0.02,
    node_groups: Mapping[str, object] = MappingProxyType({}),
    **more: float,
) -> AsyncIterator[Dispatcher]:
    """An agent, impatient by default; `more` of its settings of the API server, `seen` of an earlier life."""
    settings = AgentSettings.model_validate(
        {
            "cluster": "east",
            "kubeconfig": api.kubeconfig(folder),
            "api": {**pace, **more},
            "kubelet": {"interval_s": 0.1},
            "coalesce_s": coalesce_s,
            "node_groups": node_groups,
        }
    )
    agent = Agent(settings)
    agent.remember_highest(seen or {})
    await agent.start()
    try:
        yield Dispatcher(agent)
    finally:
        await agent.stop()


def went_back(api: FakeApi) -> None:
    """The pod "kept" alone was there when the backup was made."""
    kept = api.objects["pods"]["kept"]
    api.restore("pods", [kept], version=int(kept["metadata"]["resourceVersion"]))
