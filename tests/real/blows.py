"""Blows against every part of a fleet, in an order that a seed gives: kills, freezes, partitions, restored etcds."""

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from tests.real.fleet import RealFleet
from tests.real.processes import Tree
from tests.system.cluster_api import eventually
from tests.system.harness import System, agent_pid, pause

# Part -> how often. An API server, etcd and an agent are those of a plane that the seed chooses.
PARTS = {"kube-apiserver": 5, "etcd": 4, "agent": 5, "raylet": 2, "gcs_server": 2, "dispatcher": 3}
# One deck of them is dealt as often as needed, shuffled anew. "frozen": SIGSTOP, and SIGCONT some seconds later.
# "partition": packets between an agent and its API server go nowhere.
CHAOS = {
    "kube-apiserver": 3,
    "etcd": 2,
    "kube-controller-manager": 2,
    "agent": 4,
    "dispatcher": 4,
    "raylet": 1,
    "frozen kube-apiserver": 3,
    "frozen etcd": 1,
    "frozen agent": 2,
    "frozen dispatcher": 1,
    "partition": 3,
    "restored etcd": 3,
}
_DOWN_S, _FROZEN_S, _CUT_S, _OLD_S = (0.1, 2.0), (1.0, 12.0), (3.0, 45.0), (0.5, 5.0)
_START_S, _END_S = 60, 40
Restored = Callable[[str], None]


def decks(parts: Mapping[str, int], order: random.Random) -> Iterator[str]:
    """Parts without end: each as often as the table says, before any comes once more than that."""
    while True:
        deck = [part for part, count in parts.items() for _ in range(count)]
        order.shuffle(deck)
        yield from deck


class Blows:
    """One blow after the other; `told` says which there were, `hits` how often API server or etcd of a plane died.

    `count` of `parts`, by default one deck. `meanwhile` is called between a backup and its restore, `on_restored` with
    the plane's name once its past is back.
    """

    def __init__(
        self,
        system: System,
        fleet: RealFleet,
        seed: int,
        parts: Mapping[str, int] = PARTS,
        count: int = 0,
        meanwhile: Callable[[], None] = lambda: None,
        on_restored: Restored = lambda _: None,
    ) -> None:
        self._system, self._fleet = system, fleet
        self._meanwhile, self._on_restored = meanwhile, on_restored
        self._random = random.Random(seed)
        self.order = list(islice(decks(parts, self._random), count or sum(parts.values())))
        self.told: list[str] = []
        self.hits = dict.fromkeys(fleet.planes, 0)
        self._strike: dict[str, Callable[[str], str]] = {
            "kube-apiserver": self._plane,
            "etcd": self._plane,
            "agent": self._agent,
            "raylet": self._ray,
            "gcs_server": self._ray,
            "dispatcher": self._dispatcher,
            "kube-controller-manager": self._plane,
            "frozen kube-apiserver": self._frozen_component,
            "frozen etcd": self._frozen_component,
            "frozen agent": self._frozen_agent,
            "frozen dispatcher": self._frozen_dispatcher,
            "partition": self._partition,
            "restored etcd": self._restored,
        }

    def moment(self, longest_s: float) -> None:
        """Let the fleet work for a random time."""
        pause(self._random.uniform(0, longest_s))

    def strike(self, part: str) -> None:
        """Kill it, and start again what nobody else starts again."""
        self.told.append(self._strike[part](part))

    def _plane(self, component: str) -> str:
        name = self._any_plane()
        plane = self._fleet.planes[name]
        plane.kill(component)
        pause(self._random.uniform(*_DOWN_S))
        plane.begin(component)
        self.hits[name] += 1
        return f"{component} of {name}"

    def _agent(self, _: str) -> str:
        name = self._any_plane()
        os.kill(self._pid_of_agent(name), signal.SIGKILL)
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

    def _frozen_component(self, part: str) -> str:
        name, component = self._any_plane(), part.removeprefix("frozen ")
        with self._frozen(self._fleet.planes[name].components[component].pid):
            return f"{part} of {name}"

    def _frozen_agent(self, part: str) -> str:
        name = self._any_plane()
        with self._frozen(self._pid_of_agent(name)):
            return f"{part} of {name}"

    def _frozen_dispatcher(self, part: str) -> str:
        with self._frozen(self._system.dispatcher.pid):
            return part

    def _partition(self, part: str) -> str:
        name = self._any_plane()
        with self._fleet.ways[name].cut():
            pause(self._random.uniform(*_CUT_S))
        return f"{part} of {name}"

    @contextmanager
    def _frozen(self, pid: int) -> Iterator[None]:
        os.kill(pid, signal.SIGSTOP)
        try:
            pause(self._random.uniform(*_FROZEN_S))
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _restored(self, part: str) -> str:
        name = self._any_plane()
        plane = self._fleet.planes[name]
        folder = plane.directory / "backup"
        plane.backup(folder)
        self._meanwhile()
        pause(self._random.uniform(*_OLD_S))
        plane.restore(folder)
        shutil.rmtree(folder)
        self._on_restored(name)
        self.hits[name] += 2
        return f"{part} of {name}"

    def _any_plane(self) -> str:
        return self._random.choice(sorted(self._fleet.planes))

    def _pid_of_agent(self, name: str) -> int:
        server = self._fleet.server(name)
        found: int = eventually(lambda: agent_pid(server), _START_S, lambda: f"{name} has no agent\n{self._system.log}")
        return found
