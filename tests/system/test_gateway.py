"""Agents that dial out, as processes without Ray: remote pods run, and a cut costs no restart and no full report."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.service.gateway.relay import Relay
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.ray_fleet import JoinedAgent, Process, environment, free_ports

CLUSTERS = ("east", "west")
CUT_S = 12.0  # longer than a cluster is silent before it is not Ready


def pod(name: str, clusters: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {"global-dispatcher.io/clusters": clusters}},
        "spec": {
            "schedulerName": "global-dispatcher",
            "containers": [{"name": "main", "image": "example.invalid/app:1"}],
        },
    }


class CutLine:
    """A relay in a thread of its own, between agents and gateway; `up` and `down` as a cable is."""

    def __init__(self, to: int) -> None:
        (self.port,) = free_ports(1)
        self._loop = asyncio.new_event_loop()
        self._relay, self._stack = Relay(to), AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def up(self) -> None:
        self._run(self._stack.enter_async_context(self._relay.listening(self.port)))

    def down(self) -> None:
        self._run(self._stack.aclose())

    def close(self) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class Dispatcher(Process):
    """`global-dispatcher run` of clusters that dial in: no kubeconfig, no Ray."""

    def __init__(self, folder: Path, certificates: Path) -> None:
        self.port, self.gateway_port = free_ports(2)
        settings = {
            "clusters": [{"name": name, "via": "gateway"} for name in CLUSTERS],
            "gateway": {
                "port": self.gateway_port,
                "cert_file": str(certificates / "gateway.crt"),
                "key_file": str(certificates / "gateway.key"),
                "client_ca_file": str(certificates / "ca.crt"),
            },
            "http": {"port": self.port},
            "leader_election": {"enabled": False},
            "log": {"format": "json"},
        }
        config = folder / "dispatcher.yaml"
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        super().__init__(command, folder / "dispatcher.log", environment())

    def ready(self) -> list[bool]:
        """Of each cluster."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        answer = httpx.get(f"http://127.0.0.1:{self.port}/v1/clusters", timeout=5, trust_env=False)
        return [row["ready"] for row in answer.json()["clusters"]]

    def answers(self) -> list[int]:
        """Of each time that a cluster answered after a silence, how many nodes it told of."""
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line["nodes"] for line in lines if line.get("event") == "cluster answers"]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    fleet = EmbeddedFleet.start([ClusterSpec(name, nodes=2) for name in CLUSTERS], tmp_path / "fleet")
    yield fleet
    fleet.stop()


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    ensure(tmp_path / "certificates", ["127.0.0.1"], CLUSTERS)
    return tmp_path / "certificates"


def settings(fleet: EmbeddedFleet, cluster: str, certificates: Path, port: int) -> dict[str, Any]:
    key = certificates / f"{cluster}-key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    return {
        "cluster": cluster,
        "kubeconfig": str(fleet.kubeconfig),
        "context": cluster,
        "key_file": str(key),
        "kubelet": {"interval_s": 2},
        "gateway": {
            "urls": [f"wss://127.0.0.1:{port}"],
            "ca_file": str(certificates / "ca.crt"),
            "cert_file": str(certificates / f"cluster-{cluster}.crt"),
            "key_file": str(certificates / f"cluster-{cluster}.key"),
            "longest_pause_s": 1,
        },
    }


def running(api: ClusterApi, name: str) -> bool:
    return any(one["metadata"]["name"] == name and one["status"].get("phase") == "Running" for one in api.pods())


def test_remote_pods_run_and_a_cut_costs_neither_a_restart_nor_a_full_report(
    tmp_path: Path, fleet: EmbeddedFleet, certificates: Path
) -> None:
    east, west = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
    folders = {name: tmp_path / name for name in CLUSTERS}
    for folder in folders.values():
        folder.mkdir()
    with Dispatcher(tmp_path, certificates) as dispatcher:
        line = CutLine(dispatcher.gateway_port)
        line.up()
        with (
            JoinedAgent(folders["east"], settings(fleet, "east", certificates, line.port)) as agent,
            JoinedAgent(folders["west"], settings(fleet, "west", certificates, line.port)) as other,
        ):
            agent.wait_ready()
            other.wait_ready()
            eventually(lambda: dispatcher.ready() == [True, True], 60, dispatcher.tail)
            assert east.create("/api/v1/namespaces/default/pods", pod("one", "west")).status_code == 201
            eventually(lambda: running(east, "one"), 30, dispatcher.tail)
            line.down()
            eventually(lambda: dispatcher.ready() == [False, False], CUT_S * 2, dispatcher.tail)
            told = len(dispatcher.answers())
            line.up()
            eventually(lambda: dispatcher.ready() == [True, True], 60, dispatcher.tail)
            assert [agent.code, other.code] == [None, None]
            assert dispatcher.answers()[told:] == [0, 0], dispatcher.tail()
            assert east.create("/api/v1/namespaces/default/pods", pod("two", "west")).status_code == 201
            eventually(lambda: running(east, "two"), 30, dispatcher.tail)
            assert [agent.terminate(), other.terminate()] == [0, 0]
        line.close()
    assert len(west.pods()) == 2
    east.close()
    west.close()
