"""Agents that dial out, as processes without Ray: remote pods run, and a cut costs no restart and no full report."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import EmbeddedFleet
from tests.service.gateway.relay import Relay
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, pod, running, settings
from tests.system.ray_fleet import AGENT_IP, JoinedAgent, free_ports

CUT_S = 12.0  # longer than a cluster is silent before it is not Ready


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


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    ensure(tmp_path / "certificates", ["127.0.0.1"], CLUSTERS)
    return tmp_path / "certificates"


def test_remote_pods_run_and_a_cut_costs_neither_a_restart_nor_a_full_report(
    tmp_path: Path, fleet: EmbeddedFleet, certificates: Path
) -> None:
    east, west = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
    folders = {name: tmp_path / name for name in CLUSTERS}
    for folder in folders.values():
        folder.mkdir()
    (relay_port,) = free_ports(1)
    relayed = {"relay": {"host": AGENT_IP, "port": relay_port}}
    with Dispatcher(tmp_path, certificates) as dispatcher:
        line = CutLine(dispatcher.gateway_port)
        line.up()
        with (
            JoinedAgent(folders["east"], {**settings(fleet, "east", certificates, line.port), **relayed}) as agent,
            JoinedAgent(folders["west"], settings(fleet, "west", certificates, line.port)) as other,
        ):
            agent.wait_ready()
            other.wait_ready()
            eventually(lambda: dispatcher.ready() == [True, True], 60, dispatcher.tail)
            assert east.create("/api/v1/namespaces/default/pods", pod("one", "west")).status_code == 201
            eventually(lambda: running(east, "one"), 30, dispatcher.tail)
            eventually(lambda: "started on west-" in east.log("one").text, 30, agent.tail)
            line.down()
            eventually(lambda: dispatcher.ready() == [False, False], CUT_S * 2, dispatcher.tail)
            refused = east.log("one")
            assert (refused.is_success, "gateway" in refused.json()["message"]) == (False, True)
            told = len(dispatcher.answers())
            line.up()
            eventually(lambda: dispatcher.ready() == [True, True], 60, dispatcher.tail)
            assert [agent.code, other.code] == [None, None]
            assert dispatcher.answers()[told:] == [False, False], dispatcher.tail()
            assert east.create("/api/v1/namespaces/default/pods", pod("two", "west")).status_code == 201
            eventually(lambda: running(east, "two"), 30, dispatcher.tail)
            assert [agent.terminate(), other.terminate()] == [0, 0]
        line.close()
    assert len(west.pods()) == 2
    east.close()
    west.close()
