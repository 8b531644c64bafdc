"""The agent as an actor of a Ray that it has joined, which the dispatcher calls. Settings cross as JSON, messages as
msgpack.
"""

import asyncio
from typing import Any

import ray

from agents.runtime.agent import Agent
from agents.runtime.executor_identity import lasting_identity
from agents.runtime.outbound.answering import hear_of_peers, obey
from agents.runtime.settings import AgentSettings
from shared.messages import encode
from shared.process.limits import allow_open_files, collect_less_often, keep_freed_memory
from shared.process.logs import configure_logging

NAMESPACE = "global-dispatcher"
MAX_CONCURRENCY = 64  # long polls and batches under way at once


def actor_name(cluster: str) -> str:
    """Under which the actor of a cluster is found in NAMESPACE."""
    return f"agent:{cluster}"


def resource_name(cluster: str) -> str:
    """The custom Ray resource of the nodes that an agent of this cluster may run on."""
    return f"cluster:{cluster}"


class CalledActor:
    """A thin wrapper: starts the agent on its first call, in the actor's own event loop."""

    def __init__(self, settings: bytes) -> None:
        self._settings = AgentSettings.model_validate_json(settings)
        configure_logging(self._settings.log_level, self._settings.log_file)
        allow_open_files()
        collect_less_often()
        keep_freed_memory()
        self._agent: Agent | None = None
        self._starting = asyncio.Lock()

    async def _started(self) -> Agent:
        async with self._starting:
            if self._agent is None:
                agent = Agent(self._settings, lasting_identity(self._settings.cluster))
                await agent.start()
                self._agent = agent
            return self._agent

    async def hello(self) -> bytes:
        """A Hello."""
        return encode(await (await self._started()).hello())

    async def changes(self, incarnation: str, since: int, wait_s: float) -> bytes:
        """A Changes."""
        return encode(await (await self._started()).changes(incarnation, since, wait_s))

    async def execute(self, batch: bytes, seal: bytes = b"") -> bytes:
        """An IntentBatch in, an OutcomeBatch out. `seal`: the leader's signature on it."""
        agent = await self._started()
        return await obey(agent, agent.gate, batch, seal)

    async def set_peers(self, peers: bytes, seal: bytes = b"") -> bytes:
        """A Peers in, a PeersAck out. `seal`: as of `execute`."""
        agent = await self._started()
        return await hear_of_peers(agent, agent.gate, peers, seal)

    async def telemetry(self) -> bytes:
        """A Telemetry."""
        return encode(await (await self._started()).telemetry())

    async def stop(self) -> bytes:
        """End the agent in good order; the actor itself stays until it is killed."""
        async with self._starting:
            if self._agent is not None:
                await self._agent.stop()
                self._agent = None
        return b""


def create_actor(settings: AgentSettings) -> Any:
    """The actor of this cluster: found by name, else made on a node that has the cluster's resource.

    It restarts for ever and no call is tried again by Ray: a call whose effect is unknown is the caller's to judge.
    """
    options = ray.remote(CalledActor).options(
        name=actor_name(settings.cluster),
        namespace=NAMESPACE,
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=0,
        resources={resource_name(settings.cluster): 0.01},
        max_concurrency=MAX_CONCURRENCY,
    )
    return options.remote(settings.model_dump_json().encode())
