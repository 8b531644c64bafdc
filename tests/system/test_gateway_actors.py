"""Gateway actors on a real Ray: they, the Ray driver and the dispatcher are killed; pods go on to run, each once."""

import json
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.saying import Say
from tests.system.cluster_api import SOURCE_UID, ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, pod, running, settings
from tests.system.ray_fleet import Driver, Head, JoinedAgent, environment, free_ports, loads_ray

ACTORS = 2
MANY = os.environ.get("GLOBAL_DISPATCHER_TEST_ACTORS")  # on a quiet machine, by hand
KILLS = int(MANY or 3)  # of each actor
MOST_S = 5.0 if MANY else 10.0  # until the pods run that came when an actor was killed
LOST = '"event": "the Ray driver cannot be used"'
NODES = 6  # a full report tells of all of them


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    fleet = EmbeddedFleet.start([ClusterSpec(name, nodes=NODES) for name in CLUSTERS], tmp_path / "fleet")
    yield fleet
    fleet.stop()


class Site:
    """A Ray head with room for the actors, whose logs say which processes they are, and a driver."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ray_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        (port,) = free_ports(1)
        self._logs = folder / "state" / "global-dispatcher" / "logs"
        env = environment(XDG_STATE_HOME=str(folder / "state"))
        self.head = stack.enter_context(Head(folder, ray_folder, port, {"gateway": ACTORS}, env))
        self.head.wait_ready()
        self._folder, self._stack, self._env = folder, stack, env
        self.socket = folder / "driver.socket"
        self.start_driver()

    def start_driver(self) -> None:
        """As its kubelet would."""
        self.driver = self._stack.enter_context(Driver(self._folder, self.socket, self.head.address, self._env))

    def begun(self) -> list[list[int]]:
        """Of each actor, the process of each of its lives."""
        files = [self._logs / f"gateway-{number}.log" for number in range(ACTORS)]
        lines = [map(json.loads, file.read_text().splitlines()) if file.exists() else () for file in files]
        return [[one["pid"] for one in of if one["event"] == "gateway actor begins"] for of in lines]

    def holder(self, cluster: str) -> int:
        """The actor to which the agent of a cluster has connected last."""
        at = {}
        for number in range(ACTORS):
            file = self._logs / f"gateway-{number}.log"
            lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
            told = [one for one in lines if one["event"] == "agent connected" and one["cluster"] == cluster]
            at[number] = max((one["timestamp"] for one in told), default="")
        return max(at, key=lambda number: at[number])

    @contextmanager
    def killed(self, number: int) -> Iterator[None]:
        """The process of an actor, which Ray starts again: it has by the end."""
        lives = self.begun()[number]
        os.kill(lives[-1], signal.SIGKILL)
        yield
        eventually(lambda: len(self.begun()[number]) > len(lives), 30, self.head.tail)


def both_run(api: ClusterApi, names: list[str]) -> bool:
    return all(running(api, name) for name in names)


def test_pods_go_on_to_run_each_once_while_actors_and_the_dispatcher_are_killed(
    tmp_path: Path, fleet: EmbeddedFleet, say: Say
) -> None:
    waited: list[float] = []
    certificates = tmp_path / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    east, west = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
    (port,) = free_ports(1)
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        more = {"ray": {"driver": str(site.socket)}, "gateway": {"actors": ACTORS}}
        agents = []
        for name in CLUSTERS:
            (tmp_path / name).mkdir()
            agents.append(stack.enter_context(JoinedAgent(tmp_path / name, settings(fleet, name, certificates, port))))
        with Dispatcher(tmp_path, certificates, port, more) as first:
            eventually(lambda: first.ready() == [True, True], 90, first.tail)
            for number in range(KILLS * ACTORS):
                begun, names = time.monotonic(), [f"before-{number}", f"after-{number}"]
                assert east.create("/api/v1/namespaces/default/pods", pod(names[0], "west")).status_code == 201
                with site.killed(number % ACTORS):
                    assert east.create("/api/v1/namespaces/default/pods", pod(names[1], "west")).status_code == 201
                    eventually(partial(both_run, east, names), 60, first.tail)
                    waited.append(time.monotonic() - begun)
            os.kill(site.driver.pid, signal.SIGKILL)
            assert east.create("/api/v1/namespaces/default/pods", pod("no-driver", "west")).status_code == 201
            site.driver.wait(10)
            eventually(lambda: LOST in first.log.read_text(), 30, first.tail)
            site.start_driver()
            eventually(lambda: running(east, "no-driver"), 60, first.tail)
            assert not loads_ray(first.pid)
            full = [nodes for nodes in first.answers()[len(CLUSTERS) :] if nodes >= NODES]
            os.kill(first.pid, signal.SIGKILL)
            assert east.create("/api/v1/namespaces/default/pods", pod("meanwhile", "west")).status_code == 201
            first.wait(10)
        lives = site.begun()
        with Dispatcher(tmp_path, certificates, port, more) as second:
            eventually(lambda: running(east, "meanwhile"), 60, second.tail)
            assert site.begun() == lives
        fewer = {**more, "gateway": {"actors": ACTORS - 1}}
        with Dispatcher(tmp_path, certificates, port, fewer) as third:
            ended = "a gateway actor beyond the configured number was ended"
            eventually(lambda: ended in site.driver.log.read_text() and third.ready() == [True, True], 60, third.tail)
        assert [agent.code for agent in agents] == [None] * len(CLUSTERS)
        assert full == [], "an agent that was not restarted told everything again"
        assert [len(of) for of in lives] == [1 + KILLS] * ACTORS
    sources = Counter(one["metadata"]["annotations"][SOURCE_UID] for one in west.pods())
    assert set(sources.values()) == {1}
    assert len(sources) == 2 * KILLS * ACTORS + 2
    assert max(waited) < MOST_S
    say(
        f"{KILLS * ACTORS} actors killed: both pods of each time ran within"
        f" p50 {statistics.median(waited):.2f} s, at most {max(waited):.2f} s"
    )
    east.close()
    west.close()
