"""One act is a generator: do, yield, undo. The table of all, and what they need to know of a world."""

import random
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from typing import Any

from tests.simulation.faults import Fault
from tests.simulation.judges.facts import PREFIX, PROXY, Facts
from tests.simulation.world.fleet import Cluster, Fleet
from tests.simulation.world.objects import Object
from tests.simulation.world.processes import LinkWeather

Act = Generator[None, None, None]


class Stage:
    """A world with what its acts need to know. `backups` are taken every 20 s."""

    def __init__(self, fleet: Fleet, facts: Facts) -> None:
        self.fleet, self.facts = fleet, facts
        self.backups: dict[str, list[Any]] = {}
        self.serial = 0
        self.spawn: Callable[[Coroutine[Any, Any, None]], None] = lambda _: None

    def back_up(self) -> None:
        """etcdctl snapshot save, everywhere."""
        for name, cluster in self.fleet.clusters.items():
            self.backups.setdefault(name, []).append(cluster.api.store.backup())

    def number(self) -> int:
        """For names."""
        self.serial += 1
        return self.serial

    def links(self, cluster: str) -> Iterator[LinkWeather]:
        """Between that cluster's agent and all dispatchers."""
        return (one for (_, of), one in self.fleet.weathers.items() if of == cluster)


Do = Callable[[Stage, Fault, Cluster, random.Random], Act]
ACTS: dict[str, Do] = {}


def act(kind: str) -> Callable[[Do], Do]:
    """An entry of the table."""

    def add(do: Do) -> Do:
        ACTS[kind] = do
        return do

    return add


def plain_pod(
    name: str, namespace: str, cpu: int, *, scheduler: str = "global-dispatcher", **annotations: str
) -> Object:
    """A pod as people write it."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    metadata: Object = {"name": name, "namespace": namespace, "labels": {"app": name}}
    if annotations:
        metadata["annotations"] = {PREFIX + key: value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 10},
    }


def naming(pod: Object, names: Sequence[str]) -> Object:
    """The same with these ConfigMaps in its environment; "?" before a name: it is optional, "$": it is a Secret."""
    refs = []
    for name in names:
        ref = {"name": name.lstrip("?$"), **({"optional": True} if "?" in name else {})}
        refs.append({"secretRef" if "$" in name else "configMapRef": ref})
    if refs:
        pod["spec"]["containers"][0]["envFrom"] = refs
    return pod


def config_map(name: str, text: str, **annotations: str) -> Object:
    """One with this text in it."""
    metadata: Object = {"name": name, "annotations": {PREFIX + key: value for key, value in annotations.items()}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def spread_by_zone(app: str) -> Object:
    """As many in each zone, give or take one, or not at all."""
    selector = {"matchLabels": {"app": app}}
    zone, never = "topology.kubernetes.io/zone", "DoNotSchedule"
    return {"maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": never, "labelSelector": selector}


def pods_of(stage: Stage, cluster: Cluster, *, source: bool, on_proxy: bool = False) -> list[Object]:
    found = []
    for pod in cluster.api.pods():
        fact = stage.facts.pods[pod["metadata"]["uid"]]
        if not fact.source or fact.is_source != source or pod["metadata"].get("deletionTimestamp"):
            continue
        if not on_proxy or pod["spec"].get("nodeName", "").startswith(PROXY):
            found.append(pod)
    return found
