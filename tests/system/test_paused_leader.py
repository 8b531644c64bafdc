"""A leader that stands still (SIGSTOP) until another leads, and then goes on, orders nothing.

Two dispatchers, each with a gateway of its own; agents of two clusters dial both and verify what the leader signs.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import ClusterApi, eventually, running_places
from tests.system.dialled import CLUSTERS, Dispatcher, pod, settings
from tests.system.load import PODS, Load
from tests.system.ray_fleet import JoinedAgent, free_ports

HOME, AWAY = CLUSTERS
SHORT = {"lease_s": 3, "renew_deadline_s": 2, "retry_s": 0.4}
AWAKE_S = 3.0  # longer than a leader that has found its Lease taken goes on
LATE = 'global_dispatcher_agent_outcomes_total{verdict="unknown"}'  # also of orders of a leader of before


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    fleet = EmbeddedFleet.start([ClusterSpec(name, nodes=2) for name in CLUSTERS], tmp_path / "fleet")
    yield fleet
    fleet.stop()


class Replica(Dispatcher):
    """One of two."""

    def get(self, path: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=5, trust_env=False)

    def leads(self) -> bool:
        found: bool = self.get("/v1/leader").json()["leads"]
        return found

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Agent(JoinedAgent):
    """With metrics."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        folder.mkdir()
        (self._metrics,) = free_ports(1)
        super().__init__(folder, {**told, "metrics": {"enabled": True, "port": self._metrics}})

    def late(self) -> float:
        """Orders that came from a leader whom it obeys no more."""
        text = httpx.get(f"http://127.0.0.1:{self._metrics}/metrics", timeout=5, trust_env=False).text
        assert "global_dispatcher_agent_outcomes_total" in text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(LATE))


def test_a_leader_that_wakes_after_another_leads_orders_nothing(tmp_path: Path, fleet: EmbeddedFleet) -> None:
    certificates = tmp_path / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    apis = {name: ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS}
    election = {"leader_election": {"kubeconfig": str(fleet.kubeconfig), **SHORT}}
    with ExitStack() as stack:
        replicas = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            replicas.append(stack.enter_context(Replica(tmp_path / name, certificates, more=election)))
        agents = []
        for name in CLUSTERS:
            told = settings(fleet, name, certificates, replicas[0].gateway_port)
            told["gateway"]["urls"] += [f"wss://127.0.0.1:{replicas[1].gateway_port}"]
            agents.append(stack.enter_context(Agent(tmp_path / f"agent-{name}", told)))

        def tails() -> str:
            return "\n---\n".join(one.tail() for one in (*replicas, *agents))

        def leader() -> Replica | None:
            found = [one for one in replicas if one.leads()]
            return found[0] if len(found) == 1 and found[0].ready() == [True, True] else None

        paused = eventually(leader, 60, tails)
        (other,) = [one for one in replicas if one is not paused]
        eventually(lambda: other.get("/readyz").status_code == 200, 60, tails)
        feeder = ClusterApi(fleet.kubeconfig, HOME)
        assert feeder.create(PODS, pod("first", AWAY)).status_code == 201
        eventually(lambda: running_places(apis, HOME), 30, tails)
        paused.signal(signal.SIGSTOP)
        stack.callback(paused.signal, signal.SIGCONT)  # else it would not end
        # Of these it knows nothing, and has all to order when it wakes.
        with Load(feeder, lambda number: pod(f"load-{number}", AWAY)) as load:
            eventually(other.leads, 30, other.tail)
            eventually(lambda: len(running_places(apis, HOME)) > 5, 30, tails)
            before, late, woken = load.made, [one.late() for one in agents], time.monotonic()
            paused.signal(signal.SIGCONT)
            while time.monotonic() < woken + AWAKE_S:
                time.sleep(0.2)
            assert load.made > before, "there was nothing to order meanwhile"
            assert [one.late() for one in agents] == late, f"it gave orders when it woke\n{paused.tail()}"
            assert [one.leads() for one in (paused, other)] == [False, True], tails()
        eventually(lambda: len(running_places(apis, HOME)) == load.made + 1, 60, tails)
        twice = {uid: places for uid, places in running_places(apis, HOME).items() if len(places) > 1}
        assert not twice
        for api in (*apis.values(), feeder):
            api.close()
