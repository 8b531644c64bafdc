"""What runs where, by one look at every plane: a typed decode, so that ten thousand pods are quickly read."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from localfleet.controlplane.plane import ControlPlane
from shared.model.names import DELEGATE_SCHEDULER, PROXY_NODE_PREFIX
from tests.real.fleet import SCHEDULER
from tests.system.cluster_api import DELEGATE, SOURCE_UID

_PAGE = "1000"


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec
    status: _Status


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: tuple[_Pod, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One pod of one plane. `source` is the UID of a delegate's source, else empty."""

    plane: str
    name: str
    uid: str
    node: str
    phase: str
    ending: bool
    ours: bool
    source: str

    @property
    def on_proxy(self) -> bool:
        """Bound to the node that stands for another cluster."""
        return self.node.startswith(PROXY_NODE_PREFIX)

    @property
    def runs_here(self) -> bool:
        """On a node with a kubelet, neither ended nor ending."""
        return self.phase == "Running" and not self.ending and bool(self.node) and not self.on_proxy


class Census:
    """All pods of all planes at about one time."""

    def __init__(self, planes: Iterable[ControlPlane]) -> None:
        self.pods = [pod for plane in planes for pod in _pods(plane)]
        self.sources = {pod.uid: pod for pod in self.pods if pod.ours and not pod.source}
        self.delegates = [pod for pod in self.pods if pod.source]

    def places(self) -> dict[str, list[str]]:
        """Source UID -> planes in which it runs; sources that run nowhere, and delegates without one, included."""
        places: dict[str, list[str]] = {uid: [] for uid in self.sources}
        for pod in self.pods:
            if pod.runs_here and pod.ours:
                places.setdefault(pod.source or pod.uid, []).append(pod.plane)
        return places

    def astray(self, taken: Collection[str] = ()) -> list[str]:
        """What is not as it should be when all has settled: each source Running, in one place, its delegate its own.

        Nothing is said of delegates of `taken` sources.
        """
        places = {uid: where for uid, where in self.places().items() if uid in self.sources or uid not in taken}
        wrong = [f"{uid} runs in {where}" for uid, where in places.items() if len(where) != 1]
        known = {*self.sources, *taken}
        wrong += [f"{pod.plane}/{pod.name}: no such source" for pod in self.delegates if pod.source not in known]
        for uid, pod in self.sources.items():
            away = pod.node.removeprefix(PROXY_NODE_PREFIX) if pod.on_proxy else pod.plane
            if pod.phase != "Running" or places[uid] != [away]:
                wrong.append(f"{pod.plane}/{pod.name} on {pod.node or 'no node'} is {pod.phase}, runs in {places[uid]}")
        return wrong

    def bound(self, plane: str) -> set[str]:
        """namespace/name of our pods of a plane that have a node."""
        return {f"default/{pod.name}" for pod in self.pods if pod.plane == plane and pod.node and pod.ours}


def _pods(plane: ControlPlane) -> Iterator[Seen]:
    query = {"limit": _PAGE}
    while True:
        answer = plane.admin.http.get("/api/v1/namespaces/default/pods", params=query).raise_for_status()
        page = msgspec.json.decode(answer.content, type=_List)
        yield from (_seen(plane.name, pod) for pod in page.items)
        if not page.metadata.continue_:
            return
        query["continue"] = page.metadata.continue_


def _seen(plane: str, pod: _Pod) -> Seen:
    meta, spec = pod.metadata, pod.spec
    return Seen(
        plane=plane,
        name=meta.name,
        uid=meta.uid,
        node=spec.node_name,
        phase=pod.status.phase,
        ending=bool(meta.deletion_timestamp),
        ours=spec.scheduler_name in (SCHEDULER, DELEGATE_SCHEDULER),
        source=meta.annotations.get(SOURCE_UID, "") if DELEGATE in meta.labels else "",
    )
