"""A whole agent in a network namespace of its own, with an API server there; the dispatcher reaches it by a Unix
socket, which is the same in all of these.

    unshare --net python -m tests.real.namespaced_agent SETTINGS.json SOCKET
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from dispatcher.service.links.link import AgentDied, Arrived, at_once, read, within
from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    decode,
    encode,
)
from tests.agents.kube.fake_server import fake_api

_LENGTH = 4
UP = "answers"


async def serve(given: dict[str, Any], folder: Path, path: Path) -> None:
    """Until the process is ended."""
    async with fake_api(nodes=1) as api:
        api.cluster_uid = f"uid-{given['cluster']}"
        agent = Agent(AgentSettings.model_validate({**given, "kubeconfig": api.kubeconfig(folder)}))
        await agent.start()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            call, *args = msgspec.msgpack.decode(await _received(reader))
            await _send(writer, await _called(agent, call, args))
            writer.close()

        async with await asyncio.start_unix_server(answer, path):
            print(UP, flush=True)
            await asyncio.Event().wait()


async def _called(agent: Agent, call: str, args: list[Any]) -> bytes:
    match call:
        case "hello":
            return encode(await agent.hello())
        case "changes":
            return encode(await agent.changes(*args))
        case "execute":
            return encode(await agent.execute(decode(IntentBatch, args[0])))
        case "telemetry":
            return encode(await agent.telemetry())
        case _:
            return encode(await agent.set_peers(decode(Peers, args[0])))


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(len(data).to_bytes(_LENGTH, "big") + data)
    await writer.drain()


async def _received(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH), "big"))


class SocketLink:
    """The dispatcher's way to such an agent."""

    executor_apart: bool | None = None
    actor = ""

    def __init__(self, cluster: str, path: Path) -> None:
        self.cluster, self._path = cluster, path

    async def _call(self, timeout_s: float, call: str, *args: object) -> bytes:
        async def asked() -> bytes:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path)
                await _send(writer, msgspec.msgpack.encode([call, *args]))
                found = await _received(reader)
                writer.close()
            except (OSError, EOFError) as error:
                raise AgentDied(f"agent of cluster {self.cluster}: {error!r}") from error
            return found

        return await within(asked(), timeout_s, self.cluster, call)

    async def hello(self, *, timeout_s: float) -> Hello:
        return read(Hello, await self._call(timeout_s, "hello"), self.cluster)

    async def changes(
        self, incarnation: str, since: int, wait_s: float, *, timeout_s: float, arrived: Arrived = at_once
    ) -> Changes:
        told = await self._call(timeout_s, "changes", incarnation, since, wait_s)
        await arrived(told)
        return read(Changes, told, self.cluster)

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        return read(OutcomeBatch, await self._call(timeout_s, "execute", encode(batch)), self.cluster)

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        return read(PeersAck, await self._call(timeout_s, "set_peers", encode(peers)), self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        return read(Telemetry, await self._call(timeout_s, "telemetry"), self.cluster)


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    settings = Path(sys.argv[1])
    asyncio.run(serve(json.loads(settings.read_text()), settings.parent, Path(sys.argv[2])))
