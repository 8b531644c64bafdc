"""The kubelets of one cluster: what really runs, whatever any API server says.

They start what is bound to their nodes if it fits beside what runs there, stop what is deleted within its grace time,
end pods by themselves, and keep containers running while the API server is away.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation.world.apiserver import FOLLOWING, NAMESPACES, NODES, PODS, ApiServer
from tests.simulation.world.objects import Object, active, cpu_of, named_by, place_of

STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(eq=False)
class Container:
    """One pod that runs, or did. `why` it stopped: ended, deleted, vanished, rejected, node. `shown`: the objects in
    its environment, as they were when it started.
    """

    uid: str
    path: str
    node: str
    cpu: int
    started: float
    grace: float
    stops_at: float | None = None
    why: str = ""
    ends_at: float = float("inf")
    ends_as: str = "Succeeded"
    status: Object = field(default_factory=dict)  # as it was told
    shown: list[Object | None] = field(default_factory=list)


class Watcher(Protocol):
    """Who is told of containers."""

    def started(self, cluster: str, container: Container) -> None: ...
    def stopped(self, cluster: str, container: Container) -> None: ...


class Kubelets:
    """All nodes of a cluster. `slow_s`: longest time that a pod takes to stop; `strict`: reject what does not fit."""

    def __init__(self, api: ApiServer, dice: random.Random, watcher: Watcher, clock: Callable[[], float]) -> None:
        self.api, self.dice, self.watcher, self.clock = api, dice, watcher, clock
        self.running: dict[str, Container] = {}
        self._known: set[str] = set()  # UIDs of pods on nodes, as the API server shows them
        self._ended: dict[str, str] = {}  # UID -> phase that it came to
        self.cut_off: set[str] = set()  # nodes that do not reach the API server
        self.dead: set[str] = set()  # nodes without power
        self.slow_s, self.ends_share = 2.0, 0.0
        self._addresses = 0
        self._seen: tuple[object, ...] = ()  # what the last look was at

    def look(self) -> None:
        """What a kubelet does every second."""
        now = self.clock()
        self._stop(now)
        if self._same_as_before():
            return
        pods = [pod for pod in self.api.pods() if pod["spec"].get("nodeName", "")]
        self._known = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            node = pod["spec"]["nodeName"]
            if node in self.cut_off or node in self.dead or self.api.kept(f"/api/v1/nodes/{node}") is None:
                continue
            if not node.startswith("global-dispatcher-"):
                self._sync(pod, node, now)
        for uid, container in self.running.items():
            if uid not in self._known and container.stops_at is None and container.node not in self.cut_off:
                container.stops_at, container.why = now + min(container.grace, self.slow_s), "vanished"

    def _same_as_before(self) -> bool:
        """Whether all is as at the last look, which has done what there was to do: then time alone changes nothing."""
        store = self.api.store
        # Other lists as soon as anything in them is written.
        shown = (store.all(PODS), store.all(NODES), *(store.all(kind) for kind in FOLLOWING.values()))
        seen = (frozenset(self.cut_off), frozenset(self.dead), tuple(self.running))
        before, self._seen = self._seen, (*shown, *seen)
        same = bool(before) and all(was is now for was, now in zip(before, shown, strict=False))
        return same and before[len(shown) :] == seen

    def _stop(self, now: float) -> None:
        for uid, container in list(self.running.items()):
            if container.stops_at is not None and container.stops_at <= now:
                self._over(uid, container)
            elif container.ends_at <= now:
                container.why = "ended"
                self._over(uid, container)

    def _over(self, uid: str, container: Container) -> None:
        del self.running[uid]
        self.watcher.stopped(self.api.cluster, container)
        if container.why == "ended":
            self._ended[uid] = container.ends_as

    def _sync(self, pod: Object, node: str, now: float) -> None:
        meta = pod["metadata"]
        uid, container = meta["uid"], self.running.get(meta["uid"])
        path = place_of(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}").path
        if meta.get("deletionTimestamp"):
            if container is None:
                self.api.ask("kubelet", "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
            elif container.stops_at is None:
                container.stops_at = now + min(float(meta.get("deletionGracePeriodSeconds", 30)), self.slow_s)
                container.why = "deleted"
        elif uid in self._ended and active(pod):
            self._say(path, {"phase": self._ended[uid], "conditions": [{"type": "Ready", "status": "False"}]})
        elif container is None and active(pod) and uid not in self._ended:
            self._start(pod, path, node, now)
        elif container is not None and active(pod) and pod["status"].get("phase") != container.status["phase"]:
            self._say(path, container.status)  # a kubelet tells it again where the API server shows something else

    def _start(self, pod: Object, path: str, node: str, now: float) -> None:
        shown = self._environment(pod)
        if shown is None:  # CreateContainerConfigError: it is tried again
            return
        uid, cpu = pod["metadata"]["uid"], cpu_of(pod)
        kept = self.api.kept(f"/api/v1/nodes/{node}")
        room = cpu_of_node(kept.obj) if kept else 0
        # Whoever is deleted by force holds no room any more, though its containers may take their time to stop.
        there = (one.cpu for one in self.running.values() if one.node == node and one.uid in self._known)
        if sum(there) + cpu > room:
            why = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
            self._ended[uid] = "Failed"
            rejected = Container(uid, path, node, cpu, now, 0.0, why="rejected")
            self._say(path, why)
            self.watcher.stopped(self.api.cluster, rejected)
            return
        grace = float(pod["spec"].get("terminationGracePeriodSeconds", 30))
        container = Container(uid, path, node, cpu, now, grace, shown=shown)
        if self.dice.random() < self.ends_share:
            container.ends_at = now + 20 + self.dice.random() * 60
            container.ends_as = self.dice.choice(("Succeeded", "Failed"))
        self.running[uid] = container
        self.watcher.started(self.api.cluster, container)
        self._addresses += 1
        address = f"10.{ord(self.api.cluster[0]) % 32}.0.{self._addresses}"
        ready = {"type": "Ready", "status": "True"}
        of_pod = {"podIP": address, "podIPs": [{"ip": address}]}
        of_node = f"192.168.{ord(self.api.cluster[0]) % 32}.1"
        of_host = {"hostIP": of_node, "hostIPs": [{"ip": of_node}]}
        container.status = {"phase": "Running", **of_pod, **of_host, "conditions": [ready]}
        self._say(path, container.status)

    def _environment(self, pod: Object) -> list[Object | None] | None:
        """What its containers read when they start; None where one is lacking that is not optional."""
        shown = []
        for one in named_by(pod):
            plural = FOLLOWING[one.kind].rpartition("/")[2]
            found = self.api.store.look(f"{NAMESPACES}/{pod['metadata']['namespace']}/{plural}/{one.name}")
            if found is None and not one.optional:
                return None
            shown.append(found)
        return shown

    def _say(self, path: str, status: Object) -> None:
        self.api.ask("kubelet", "PATCH", f"{path}/status", {"status": status}, kind=STRATEGIC)

    def power(self, node: str, *, on: bool) -> None:
        """A node dies with all that runs there, or comes back empty."""
        if on:
            self.dead.discard(node)
            return
        self.dead.add(node)
        for uid, container in list(self.running.items()):
            if container.node == node:
                container.why = "node"
                self._over(uid, container)


def cpu_of_node(node: Object) -> int:
    """Milli-CPU that a node can allocate."""
    text = str(node["status"].get("allocatable", {}).get("cpu", "0"))
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def bound(api: ApiServer) -> list[Object]:
    """Pods on nodes with kubelets."""
    return [pod for pod in api.pods() if not pod["spec"].get("nodeName", "global-dispatcher-").startswith("global-dis")]


__all__ = ["PODS", "Container", "Kubelets", "Watcher", "bound", "cpu_of_node"]
