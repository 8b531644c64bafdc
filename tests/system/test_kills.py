"""kill -9 in the middle of 2,000 pods over three clusters: every pod runs exactly once, no delegate is left over."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.system.cluster_api import DELEGATE, SOURCE_UID, deployment, eventually
from tests.system.harness import HOME, System, agent_pid, pause, specs

PODS = 2000
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def kill_agent(system: System) -> None:
    pid = agent_pid(system.fleet.server("west"))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_server(name: str) -> Callable[[System], None]:
    def kill(system: System) -> None:
        system.fleet.kill(name)
        pause(2)
        system.fleet.restart(name)

    return kill


BLOWS: dict[str, Callable[[System], None]] = {
    "agent": kill_agent,
    "dispatcher": System.kill_dispatcher,
    "api-server-of-the-source": kill_server(HOME),
    "api-server-of-a-target": kill_server("north"),
}


class Recorder:
    """Looks at every cluster all the time, and remembers each delegate that was ever seen on a node.

    One that has no node when its agent dies is made anew: nothing has run in it.
    """

    def __init__(self, system: System) -> None:
        self.delegates: dict[str, set[str]] = {}
        self.twice: dict[str, list[str]] = {}
        self._system = system
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(1.5):
            try:
                self._look()
            except httpx.HTTPError:
                continue  # that server is being killed

    def _look(self) -> None:
        for api in self._system.apis.values():
            for pod in api.pods():
                if DELEGATE in pod["metadata"].get("labels", {}) and pod["spec"].get("nodeName"):
                    source = pod["metadata"]["annotations"][SOURCE_UID]
                    self.delegates.setdefault(source, set()).add(pod["metadata"]["uid"])
        self.twice |= {uid: clusters for uid, clusters in self._system.places().items() if len(clusters) > 1}


@pytest.mark.parametrize("blow", BLOWS)
def test_every_pod_runs_exactly_once_after_kill_9(blow: str, tmp_path: Path) -> None:
    with System(tmp_path, specs(nodes=6, cpu="64", memory="256Gi")) as system:
        system.wait_ready()
        body = deployment("many", PODS, requests={"cpu": "100m", "memory": "64Mi"})
        assert system.home.create(DEPLOYMENTS, body).status_code == 201
        eventually(lambda: len(system.places()) > PODS // 5, 120, lambda: system.log)
        with Recorder(system) as recorder:
            BLOWS[blow](system)
            places = system.wait_running(PODS, 240)
        assert not recorder.twice
        assert all(len(seen) == 1 for seen in recorder.delegates.values()), "a pod was delegated anew"
        assert {clusters[0] for clusters in places.values()} == set(system.apis)
        sources = {pod["metadata"]["uid"] for pod in system.home.pods()}
        assert len(sources) == PODS
        assert recorder.delegates.keys() <= sources
        restarts = [pod for pod in system.home.pods() for s in pod["status"]["containerStatuses"] if s["restartCount"]]
        assert not restarts
