"""A whole cluster without a socket or a real clock: API, controllers and kubelets, moved on by hand."""

import random
from typing import Any

from localfleet.embedded.api import Api
from localfleet.embedded.controllers.nodes import Patience
from localfleet.embedded.controllers.roster import Tempo, control_loop
from localfleet.embedded.kubelet.kubelets import Kubelets, Pace
from localfleet.embedded.kubelet.shapes import Shape, node_objects
from localfleet.embedded.storage import Storage

Object = dict[str, Any]
START = 1_700_000_000.0


class Clock:
    """Unix seconds that move when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class SimulatedCluster:
    """`scheduled`: pods without a node are bound in turn to nodes without taints, as a scheduler would."""

    def __init__(self, nodes: int = 3, *, scheduled: bool = True, cpu: str = "8", job_backoff_s: float = 0.0) -> None:
        self.clock = Clock()
        self.api = Api(clock=self.clock, storage=Storage(None), random=random.Random(1), name="a")
        self.controllers = control_loop(self.api, self.clock, Tempo(Patience(), job_backoff_s))
        self.kubelets = self._kubelets()
        self.scheduled = scheduled
        self._turn = 0
        self.kubelets.start()
        self.controllers.start()
        for node in node_objects("a", [Shape(cpu=cpu, count=nodes)] if nodes else [], "local", ["a", "b", "c"]):
            self.api.create("nodes", node)
        self.settle()

    def _kubelets(self) -> Kubelets:
        return Kubelets(self.api, self.clock, block=7, port=20_000, seed=1, pace=Pace())

    def restart_kubelets(self) -> None:
        """As when the process is killed and comes back on the same objects."""
        self.kubelets = self._kubelets()
        self.kubelets.start()

    def settle(self) -> None:
        """Let everything that is due at this moment happen."""
        for _ in range(50):
            before = self.api.objects.version
            self.kubelets.catch_up()
            self.kubelets.tick(self.clock.now)
            self.controllers.settle()
            self._schedule()
            if self.api.objects.version == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def advance(self, seconds: float, step: float = 0.5) -> None:
        """Move the clock, letting things happen on the way."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(self.clock.now + step, end)
            self.settle()

    def _schedule(self) -> None:
        if not self.scheduled:
            return
        free = [node["metadata"]["name"] for node in self.api.list("nodes") if not node["spec"].get("taints")]
        for pod in self.api.list("pods"):
            if free and not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
                self.bind(pod, free[self._turn % len(free)])
                self._turn += 1

    def bind(self, pod: Object, node: str) -> None:
        """Bind a pod."""
        meta = pod["metadata"]
        self.api.bind(meta["namespace"], meta["name"], {"metadata": {"name": meta["name"]}, "target": {"name": node}})

    def pod(self, name: str) -> Object:
        """A pod of the default namespace."""
        return self.api.get("pods", name, "default")

    def pods(self) -> list[Object]:
        """All pods of the default namespace."""
        return self.api.list("pods", "default")

    def phases(self) -> list[str]:
        """The phases of the default namespace's pods, sorted."""
        return sorted(pod["status"]["phase"] for pod in self.pods())


def pod(name: str = "p", *, cpu: str = "100m", policy: str = "Always", node: str = "", **annotations: str) -> Object:
    """A pod; keyword `run_seconds` stands for the annotation embedded.global-dispatcher.io/run-seconds, and so on."""
    spec: Object = {"restartPolicy": policy, "containers": [container(cpu)]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "annotations": behaviour(**annotations)}, "spec": spec}


def container(cpu: str = "100m") -> Object:
    """One container with requests."""
    return {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}


def behaviour(**annotations: str) -> dict[str, str]:
    """Simulation annotations by their last word, with underscores."""
    prefix = "embedded.global-dispatcher.io/"
    return {prefix + key.replace("_", "-"): value for key, value in annotations.items()}


def template(image: str = "app:1", *, policy: str = "Always", **annotations: str) -> Object:
    """A pod template labelled app=web."""
    metadata = {"labels": {"app": "web"}, "annotations": behaviour(**annotations)}
    return {"metadata": metadata, "spec": {"restartPolicy": policy, "containers": [{**container(), "image": image}]}}


def deployment(replicas: int = 3, name: str = "web", **spec: Any) -> Object:
    """A Deployment of app=web."""
    base = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    return {"metadata": {"name": name}, "spec": {**base, **spec}}


def job(
    name: str = "work", *, policy: str = "Never", run_seconds: str = "2", exit_code: str = "0", **spec: Any
) -> Object:
    """A Job whose pods run for a while and end."""
    body = template(policy=policy, run_seconds=run_seconds, exit_code=exit_code)
    return {"metadata": {"name": name}, "spec": {"template": body, **spec}}
