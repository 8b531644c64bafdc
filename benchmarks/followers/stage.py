"""Embedded clusters, an agent of each as a process, and a dispatcher: all as they come, over TLS on
this machine.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.request import urlopen

import msgspec

from benchmarks.end_to_end.processes import cpu_seconds, family
from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane import ports
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from shared.kube.client import KubeClient, Patience
from shared.kube.http import Request
from shared.kube.session import Access

HOME = "home"
_READY_S = 120.0
_STOP_S = 20.0
_POLL_S = 0.5
_CALM_STEP_S = 1.0
_CALM_CPU = 0.15  # of one core
_CALM_S = 30.0


class Stage:
    """The fleet. `api` speaks to the home cluster; `given` are files of agents, a line for each
    object that came.
    """

    def __init__(self, api: KubeClient, dispatcher: int, given: Sequence[Path]) -> None:
        self.api, self._dispatcher, self._given = api, dispatcher, given

    @property
    def crossed(self) -> int:
        """Objects whose content has come to any cluster."""
        return sum(len(file.read_text().splitlines()) for file in self._given if file.exists())

    @property
    def cpu_s(self) -> float:
        """Of the dispatcher so far."""
        return cpu_seconds(family(self._dispatcher))

    async def calm(self) -> None:
        """Until the dispatcher has nothing left to do."""
        until = monotonic() + _CALM_S
        while monotonic() < until:
            before = self.cpu_s
            await asyncio.sleep(_CALM_STEP_S)
            if self.cpu_s - before < _CALM_CPU * _CALM_STEP_S:
                return

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Of the home's API server; RuntimeError with its words if it refuses."""
        raw = msgspec.json.encode(body) if body is not None else b""
        answer = await self.api.send(Request(method, path, raw))
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return msgspec.json.decode(answer.body)


@asynccontextmanager
async def stage(folder: Path, targets: Sequence[str], nodes: int) -> AsyncIterator[Stage]:
    """All of it, once every cluster is ready."""
    names = [HOME, *targets]
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], names)
    specs = [ClusterSpec(name, nodes=nodes, cpu="64", memory="256Gi") for name in names]
    with ExitStack() as stack:
        fleet = stack.enter_context(EmbeddedFleet.start(specs, folder / "fleet"))
        gateway, http, *health = _free(2 + len(names))
        config = folder / "dispatcher.json"
        config.write_text(json.dumps(_dispatcher(certificates, names, gateway, http)))
        run = ["dispatcher.cli.main", "run", "--config", str(config)]
        dispatcher = stack.enter_context(_process(run, folder / "dispatcher.log"))
        given = []
        for name, port in zip(names, health, strict=True):
            file = folder / f"{name}.json"
            settings = _agent(fleet, name, certificates, gateway)
            file.write_text(json.dumps({**settings, "health": {"port": port}}))
            given.append(folder / f"{name}.given")
            command = ["benchmarks.followers.agent", str(given[-1]), "agent", "--config", str(file)]
            log = folder / f"agent-{name}.log"
            stack.enter_context(_process([*command, "--node-ip", "127.0.0.1"], log))
        await _ready(http, len(names), folder)
        client = KubeClient(Access(str(fleet.kubeconfig), HOME), Patience(5.0, 20.0))
        try:
            yield Stage(client, dispatcher, given)
        finally:
            await client.close()


def _free(count: int) -> list[int]:
    held = ports.reserve(count)
    for one in held:
        one.release()  # held for long enough that nobody else of ours took it
    return [one.number for one in held]


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[int]:
    """A module of ours as a process with its own session, of which nothing is left."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _ready(http: int, count: int, folder: Path) -> None:
    until = monotonic() + _READY_S
    while monotonic() < until:
        rows = await asyncio.to_thread(_rows, http)
        if len(rows) == count and all(row["ready"] for row in rows):
            return
        await asyncio.sleep(_POLL_S)
    tail = (folder / "dispatcher.log").read_text()[-2000:]
    raise RuntimeError(f"the clusters are not ready after {_READY_S:g} s\n{tail}")


def _rows(http: int) -> list[dict[str, Any]]:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{http}/v1/clusters", timeout=5) as answer:
        found: list[dict[str, Any]] = json.load(answer).get("clusters", [])
        return found
    return []


def _dispatcher(certificates: Path, names: Sequence[str], gateway: int, http: int) -> Any:
    return {
        "clusters": [{"name": name, "via": "gateway"} for name in names],
        "gateway": {
            "host": "127.0.0.1",
            "port": gateway,
            "cert_file": str(certificates / "gateway.crt"),
            "key_file": str(certificates / "gateway.key"),
            "client_ca_file": str(certificates / "ca.crt"),
        },
        "signing": {
            "cert_file": str(certificates / "signing.crt"),
            "key_file": str(certificates / "signing.key"),
        },
        "http": {"port": http},
        "leader_election": {"enabled": False},
    }


def _agent(fleet: EmbeddedFleet, name: str, certificates: Path, gateway: int) -> dict[str, Any]:
    key = certificates / f"{name}-key.pem"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(make, check=True)
    return {
        "cluster": name,
        "kubeconfig": str(fleet.kubeconfig),
        "context": name,
        "key_file": str(key),
        "gateway": {
            "urls": [f"wss://127.0.0.1:{gateway}"],
            "ca_file": str(certificates / "ca.crt"),
            "cert_file": str(certificates / f"cluster-{name}.crt"),
            "key_file": str(certificates / f"cluster-{name}.key"),
        },
    }
