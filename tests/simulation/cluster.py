"""One cluster: a modelled API server and its kubelets, and beside it the product's own executor and cache.

The network loses requests or replies. The server goes away, and forbids everything for a while when it is back. The
agent dies with requests on their way, and begins anew with nothing listed.
"""

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from agents.executor.local import Moment
from agents.observer.cache import ClusterCache
from agents.observer.change_feed import ChangeFeed, Health, Identity
from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads
from agents.observer.owner_uses import OwnerUses
from agents.runtime.driver import Pauses
from agents.runtime.executor_loop import ExecutorLoop
from shared.kube.http import STRATEGIC_PATCH, Request, Response
from shared.messages import AnyIntent, Changes, IntentBatch, Outcome, Peers, PeersAck
from shared.model import names
from tests.agents.executor.world import (
    NAMESPACES,
    ApiModel,
    Object,
    keys_of,
    node_object,
    pod_object,
    pod_path,
    proxy_object,
    show,
)

RUNNING = msgspec.json.encode({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
FORBIDDEN = Response(403, b'{"message":"not authorised yet"}')
NODE_CPU = "4"


@dataclass
class Waiting:
    """A request on its way, and who waits for its answer."""

    request: Request
    told: "asyncio.Future[Response]"


@dataclass
class Network:
    """What happens to a request: `trouble` is the share of those that are lost, or whose replies are."""

    dice: random.Random
    trouble: float = 0.0
    slow: float = 0.0  # the share that is not answered in this second

    def loses(self) -> bool:
        """Whether this one is lost."""
        return self.dice.random() < self.trouble


@dataclass
class Cluster:
    """An API server, its kubelets, and the agent beside it."""

    name: str
    peers: Sequence[str]
    network: Network
    now: Moment = field(default=Moment(0.0, 0.0))
    down: bool = False
    forbids: bool = False
    confirmed: int = 0  # how often an operator has said that what its API server shows is meant
    lives: int = 0
    waiting: list[Waiting] = field(default_factory=list)
    sleeping: list[tuple[float, "asyncio.Future[None]"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = ApiModel(self.name)
        self.nodes = [f"{self.name}-{number}" for number in range(2)]
        for node in self.nodes:
            self.api.put_node(node_object(node, cpu=NODE_CPU, pods="40"))
        for peer in self.peers:
            self.api.put_node(proxy_object(peer))
        self._boot()

    # --- the agent ---------------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.lives += 1
        log = ChangeLog()
        self.cache = ClusterCache(log, (NAMESPACES,))
        self._follow = ChangeFeed(self.cache, Loads(log, tau_s=0), OwnerUses(log, self.cache.pod_by_name))
        uid = f"{self.name}-cluster-uid"
        self.keys = keys_of(self.name)
        self._who = Identity(self.name, uid, f"{self.name}-{self.lives}", keys=self.keys.endorsed_keys())
        pauses = Pauses(self._sleep, self.network.dice)
        self.executor = ExecutorLoop(
            self, self.cache, self.name, uid, clock=lambda: self.now, keys=self.keys, pauses=pauses
        )

    async def kill_agent(self) -> None:
        """Kill -9: of its requests on the way some are done all the same. Its next life has listed nothing yet."""
        for one in self.waiting:
            if not self.down and self.network.dice.random() < 0.5:
                self.api.answer(one.request)
        self.waiting.clear()
        await self.executor.stop()
        self._boot()

    async def send(self, request: Request) -> Response:
        """What the executor asks of its server."""
        told: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(request, told))
        return await told

    async def send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Events: nobody reads them here."""
        return [Response(201) for _ in requests]

    async def _sleep(self, seconds: float) -> None:
        """Until the second in which the pause ends."""
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeping.append((self.now.mono + seconds, awake))
        await awake

    def wake(self) -> None:
        """Pauses end that end in this second."""
        due, self.sleeping = self.sleeping, []
        for until, awake in due:
            if until >= self.now.mono + 1.0:
                self.sleeping.append((until, awake))
            elif not awake.done():
                awake.set_result(None)

    def answer_some(self) -> None:
        """The network brings answers, in any order, and pauses end."""
        self.wake()
        due, self.waiting = self.waiting, []
        self.network.dice.shuffle(due)
        for one in due:
            if one.told.done():
                continue
            if self.network.dice.random() < self.network.slow:
                self.waiting.append(one)
            else:
                one.told.set_result(self._answer(one.request))

    def _answer(self, request: Request) -> Response:
        if self.down or self.network.loses():
            return Response(0, b"no answer")
        if self.forbids:
            return FORBIDDEN
        answer = self.api.answer(request)
        return Response(0, b"reset") if self.network.loses() else answer

    def watch(self) -> None:
        """The agent's lists and watches catch up, if there is a server to tell."""
        if not self.down and not self.forbids:
            show(self.api, self.cache)

    def changes(self, incarnation: str, since: int) -> Changes:
        """What the agent reports."""
        problem = "the API server is away" if self.down else ""
        health = Health(not self.down, problem, confirmed=self.confirmed)
        return self._follow.since(self._who, incarnation, since, health, self.now.mono)

    async def execute(self, dispatcher: int, intents: tuple[AnyIntent, ...]) -> tuple[Outcome, ...]:
        """Orders of one dispatcher life."""
        batch = IntentBatch(f"life-{dispatcher}", dispatcher, intents)
        return (await self.executor.execute(batch)).outcomes

    async def hear(self, dispatcher: int, peers: Peers) -> PeersAck:
        """Word of the other clusters."""
        return await self.executor.set_peers(msgspec.structs.replace(peers, dispatcher=f"life-{dispatcher}"))

    # --- users, kubelets, and others ---------------------------------------------------------------------------------

    def submit(self, name: str, cpu: str, priority: int, *, away: bool) -> None:
        """A user's pod; `away`: for the other clusters alone."""
        pod = pod_object(name, cpu=cpu, priority=priority)
        pod["metadata"]["annotations"] = {names.CLUSTERS: ",".join(self.peers)} if away else {}
        self.api.put_pod(pod)

    def delete(self, pod: Object) -> None:
        """kubectl delete pod."""
        self.api.answer(Request("DELETE", pod_path(pod["metadata"]["name"])))

    def cordon(self, node: str, *, on: bool) -> None:
        """kubectl cordon, or uncordon."""
        self.api.put_node(node_object(node, cpu=NODE_CPU, pods="40", unschedulable=on))

    def rival(self, name: str, node: str) -> None:
        """Another scheduler fills half a node."""
        pod = pod_object(name, cpu="1", nodeName=node)
        pod["spec"]["schedulerName"] = "default-scheduler"
        self.api.put_pod(pod)

    def kubelets(self) -> None:
        """What is bound runs; what is deleted ends."""
        self.api.kubelet_stops()
        for pod in self.bound():
            if pod["status"]["phase"] == "Pending":
                path = pod_path(pod["metadata"]["name"]) + "/status"
                self.api.answer(Request("PATCH", path, RUNNING, STRATEGIC_PATCH))

    def bound(self) -> Iterator[Object]:
        """Pods on nodes with a kubelet."""
        return (pod for pod in self.api.pods() if pod["spec"].get("nodeName", "") in self.nodes)

    def sources(self) -> list[Object]:
        """Pods that were submitted here to us."""
        ours = [pod for pod in self.api.pods() if pod["spec"]["schedulerName"] == names.SCHEDULER_NAME]
        return [pod for pod in ours if not _source(pod)]

    def delegates(self) -> list[Object]:
        """Copies of pods of other clusters."""
        return [pod for pod in self.api.pods() if _source(pod)]


def _source(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(names.SOURCE_UID, ""))


def copies(clusters: Iterable[Cluster]) -> Iterator[tuple[str, str]]:
    """(UID of a source, UID of the pod that runs for it): itself, or a delegate."""
    for cluster in clusters:
        for pod in cluster.bound():
            uid = pod["metadata"]["uid"]
            yield _source(pod) or uid, uid


def evicted(clusters: Iterable[Cluster]) -> Iterator[str]:
    """UIDs of sources whose delegates have to go for a pod of higher priority."""
    for cluster in clusters:
        for pod in cluster.delegates():
            if any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ())):
                yield _source(pod)
