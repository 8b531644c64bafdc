"""kill -9 of every part of a fleet, in an order that a seed gives."""

import os
import random
import signal
from collections.abc import Callable

from tests.real.fleet import RealFleet
from tests.real.processes import Tree
from tests.system.cluster_api import eventually
from tests.system.harness import System, agent_pid, pause

# Part -> how often. An API server, etcd and an agent are those of a plane that the seed chooses.
PARTS = {"kube-apiserver": 5, "etcd": 4, "agent": 5, "raylet": 2, "gcs_server": 2, "dispatcher": 3}
_DOWN_S = (0.1, 2.0)
_START_S, _END_S = 60, 40


class Blows:
    """One blow after the other; `told` says which there were, `hits` how often API server or etcd of a plane died."""

    def __init__(self, system: System, fleet: RealFleet, seed: int) -> None:
        self._system, self._fleet = system, fleet
        self._random = random.Random(seed)
        self.order = [part for part, count in PARTS.items() for _ in range(count)]
        self._random.shuffle(self.order)
        self.told: list[str] = []
        self.hits = dict.fromkeys(fleet.planes, 0)
        self._strike: dict[str, Callable[[str], str]] = {
            "kube-apiserver": self._plane,
            "etcd": self._plane,
            "agent": self._agent,
            "raylet": self._ray,
            "gcs_server": self._ray,
            "dispatcher": self._dispatcher,
        }

    def moment(self, longest_s: float) -> None:
        """Let the fleet work for a random time."""
        pause(self._random.uniform(0, longest_s))

    def strike(self, part: str) -> None:
        """Kill it, and start again what nobody else starts again."""
        self.told.append(self._strike[part](part))

    def _plane(self, component: str) -> str:
        name = self._random.choice(sorted(self._fleet.planes))
        plane = self._fleet.planes[name]
        plane.kill(component)
        pause(self._random.uniform(*_DOWN_S))
        plane.begin(component)
        self.hits[name] += 1
        return f"{component} of {name}"

    def _agent(self, _: str) -> str:
        name = self._random.choice(sorted(self._fleet.planes))
        server = self._fleet.server(name)
        pid = eventually(lambda: agent_pid(server), _START_S, lambda: f"{name} has no agent\n{self._system.log}")
        os.kill(pid, signal.SIGKILL)
        return f"agent of {name}"

    def _ray(self, program: str) -> str:
        """Agents and dispatcher end with their Ray; a supervisor starts the dispatcher again.

        A Ray that is killed while it starts would show nothing of pods: it finds out itself, after a minute of its own.
        """
        eventually(lambda: self._system.get("/v1/clusters"), _START_S, lambda: self._system.log)
        (pid,) = Tree(self._system.dispatcher.pid).named(program)
        os.kill(pid, signal.SIGKILL)
        assert self._system.wait_ended(_END_S) == 1
        self._system.start_again()
        return program

    def _dispatcher(self, _: str) -> str:
        self._system.kill_dispatcher()
        return "dispatcher"
