"""An agent as a process of its own that joins the Ray head beside the dispatcher, as the charts deploy them."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.ray_fleet import Driver, Head, JoinedAgent, Process, environment, free_ports, loads_ray, node_ports

POD = {
    "metadata": {"name": "one"},
    "spec": {"schedulerName": "global-dispatcher", "containers": [{"name": "main", "image": "example.invalid/app:1"}]},
}


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    """A Ray head; its sockets want a short path."""
    with tempfile.TemporaryDirectory(prefix="gd-") as short, Head(tmp_path, Path(short), free_ports(1)[0]) as started:
        started.wait_ready()
        yield started


@pytest.fixture
def east(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    """One cluster."""
    fleet = EmbeddedFleet.start([ClusterSpec("east", nodes=3)], tmp_path / "fleet")
    yield fleet
    fleet.stop()


def settings(fleet: EmbeddedFleet, head: Head, **ray: Any) -> dict[str, Any]:
    node = {"address": head.address, "ports": node_ports(), **ray}
    kubelet = {"interval_s": 2}
    return {
        "cluster": "east",
        "kubeconfig": str(fleet.kubeconfig),
        "context": "east",
        "kubelet": kubelet,
        "ray": node,
    }


class Dispatcher(Process):
    """`global-dispatcher run` with a Ray driver; of the clusters it knows no more than the name."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        config = folder / "dispatcher.yaml"
        # It has no way into any cluster, so it can hold no Lease.
        settings = {"clusters": [{"name": "east"}], "http": {"port": self.port}, "leader_election": {"enabled": False}}
        config.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        env = environment(GLOBAL_DISPATCHER_RAY__DRIVER=str(folder / "driver.socket"))
        super().__init__(command, folder / "dispatcher.log", env)

    def cluster_ready(self) -> bool:
        """Whether it has heard of the cluster, and that it is well."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        answer = httpx.get(f"http://127.0.0.1:{self.port}/v1/clusters", timeout=5, trust_env=False)
        return [row["ready"] for row in answer.json()["clusters"]] == [True]


def test_a_joined_agent_works_for_a_dispatcher_that_knows_its_name_alone(
    tmp_path: Path, head: Head, east: EmbeddedFleet
) -> None:
    """The dispatcher is there first and makes an actor as soon as it can: the agent's file holds all the same."""
    api = ClusterApi(east.kubeconfig, "east")
    with Driver(tmp_path, tmp_path / "driver.socket", head.address), Dispatcher(tmp_path) as dispatcher:
        with JoinedAgent(tmp_path, settings(east, head)) as agent:
            agent.wait_ready()
            eventually(dispatcher.cluster_ready, 60, dispatcher.tail)
            assert api.create("/api/v1/namespaces/default/pods", POD).status_code == 201
            eventually(lambda: api.pods()[0]["status"].get("phase") == "Running", 30, dispatcher.tail)
            assert not loads_ray(dispatcher.pid)
            assert agent.terminate() == 0, agent.tail()
        eventually(lambda: not dispatcher.cluster_ready(), 60, dispatcher.tail)
        with JoinedAgent(tmp_path, settings(east, head)) as agent:
            agent.wait_ready()
            eventually(dispatcher.cluster_ready, 60, dispatcher.tail)
    api.close()


def test_an_agent_without_its_head_ends_so_that_its_pod_starts_anew(
    tmp_path: Path, head: Head, east: EmbeddedFleet
) -> None:
    with JoinedAgent(tmp_path, settings(east, head, lost_s=6)) as agent:
        agent.wait_ready()
        head.terminate()
        assert agent.wait(60) == 1, agent.tail()
        assert '"leaving"' in agent.log.read_text()


def test_an_agent_with_a_wrong_token_never_becomes_ready_and_ends(
    tmp_path: Path, head: Head, east: EmbeddedFleet
) -> None:
    wrong = environment(RAY_AUTH_TOKEN="cd" * 32)
    with JoinedAgent(tmp_path, settings(east, head, join_s=20), wrong) as agent:
        assert agent.wait(60) == 1, agent.tail()
        assert "the agent is at work" not in agent.log.read_text()
