"""Scripted stand-ins: agents behind a link, and a core that records what it is fed."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from dispatcher.plugins.registry import REGISTRY, reasons_of
from dispatcher.plugins.tenant_quota import QUOTA_UNKNOWN
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.equivalence.cache import ClassCounts
from dispatcher.scheduling.events import Decide, Effect, Event, Tick
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.queued import Cause, QueuedPod, State
from dispatcher.scheduling.views import Pieces, Row, whole
from dispatcher.service.clock import Clock
from dispatcher.service.links.link import AgentTimeout, Arrived, LinkError, at_once
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.service import Service
from dispatcher.service.timing import ServiceTiming
from shared.messages import (
    BOUND,
    Bind,
    Changes,
    Hello,
    IntentBatch,
    Outcome,
    OutcomeBatch,
    Peers,
    PeersAck,
    PodRef,
    Telemetry,
)
from shared.model.pod import Pod
from shared.model.reasons import Reason, Reasons
from tests.builders import pod

FAST = ServiceTiming(
    poll_wait_s=0.01,
    silent_s=0.5,
    first_sync_s=0.5,
    execute_s=0.5,
    tick_s=0.005,
    backoff_s=0.001,
    backoff_max_s=0.004,
)


class FakeAgent:
    """An agent in this process: answers `changes` from a script, binds all it is told, remembers what it was told."""

    def __init__(self, cluster: str, incarnation: str = "one") -> None:
        self.cluster, self.incarnation, self.revision = cluster, incarnation, 1
        self.asked: list[tuple[str, int]] = []
        self.batches: list[IntentBatch] = []
        self.peers: list[Peers] = []
        self.verdict: Callable[[str], Outcome | None] = lambda intent_id: None
        self.gate = asyncio.Event()
        self.gate.set()

    async def hello(self) -> Hello:
        return Hello(self.cluster, f"{self.cluster}-uid", self.incarnation)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        self.asked.append((incarnation, since))
        await self.gate.wait()
        known = incarnation == self.incarnation and since <= self.revision
        if known and since == self.revision:
            await asyncio.sleep(wait_s)
        begin, uid = since if known else 0, f"{self.cluster}-uid"
        return Changes(self.cluster, uid, self.incarnation, begin, self.revision, full=not known)

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        self.batches.append(batch)
        await self.gate.wait()
        answers = [self.verdict(i.id) or Outcome(i.id, i.pod.uid, i.epoch, BOUND) for i in batch.intents]
        return OutcomeBatch(self.cluster, tuple(answers))

    async def set_peers(self, peers: Peers) -> PeersAck:
        self.peers.append(peers)
        return PeersAck(self.cluster, f"word {len(self.peers)}")

    async def telemetry(self) -> Telemetry:
        return Telemetry(self.cluster)


class ScriptedLink:
    """A link whose calls are plain functions; by default it is silent: every call times out at once."""

    executor_apart: bool | None = None

    def __init__(self, cluster: str, **calls: Callable[..., Any]) -> None:
        self.cluster, self._calls = cluster, calls
        self.called: Counter[str] = Counter()

    async def _call(self, name: str, *args: object) -> Any:
        self.called[name] += 1
        await asyncio.sleep(0)
        if name not in self._calls:
            raise AgentTimeout(f"agent of cluster {self.cluster} did not answer {name} within 0 s")
        answer = self._calls[name](*args)
        if isinstance(answer, LinkError):
            raise answer
        return answer

    async def hello(self, *, timeout_s: float) -> Hello:
        answer: Hello = await self._call("hello")
        return answer

    async def changes(
        self, incarnation: str, since: int, wait_s: float, *, timeout_s: float, arrived: Arrived = at_once
    ) -> Changes:
        answer: Changes = await self._call("changes", incarnation, since)
        await arrived(b"")
        return answer

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        answer: OutcomeBatch = await self._call("execute", batch)
        return answer

    async def set_peers(self, peers: Peers, *, timeout_s: float) -> PeersAck:
        answer: PeersAck | None = await self._call("set_peers", peers)
        return answer or PeersAck(self.cluster)

    async def telemetry(self, *, timeout_s: float) -> Telemetry:
        answer: Telemetry = await self._call("telemetry")
        return answer


@dataclass
class FakeQueue:
    """Counts that a test sets."""

    active: int = 0

    def counts(self) -> Mapping[str, int]:
        return {"active": self.active, "backoff": 0, "unschedulable": 0, "gated": 0}

    incoming: Mapping[tuple[State, str], int] = field(
        default_factory=lambda: {
            (State.UNSCHEDULABLE, Cause.FAILED): 2,
            (State.GATED, Cause.ADD): 1,
            (State.UNSCHEDULABLE, Cause.ADD): 4,
            (State.ACTIVE, "NODE_ADDED"): 5,
            (State.ACTIVE, "READINGS"): 6,
        }
    )

    def parked(self) -> Iterator[tuple[QueuedPod, int]]:
        for reasons, count in (((Reasons.QUOTA, QUOTA_UNKNOWN, Reasons.TAINT), 3), ((Reasons.UNANSWERED,), 2)):
            placed = pod("p").placed()
            yield QueuedPod(("east", placed.pod.uid), placed, None, 0.0, (), reasons=frozenset(reasons)), count


class FakeProfiles:
    """One, whose every pod is."""

    class_counts: ClassVar = {"global-dispatcher": ClassCounts(kept=3, dropped=2, passes=5)}

    def name_of(self, pod_info: PodInfo) -> str:
        return "global-dispatcher"

    def refused_by(self, pod_info: PodInfo, reasons: frozenset[Reason]) -> set[str]:
        return {of for one, of in reasons_of(REGISTRY).items() if one in reasons and of}


class Clusters(dict[str, ClusterView]):
    """A cluster that no test has entered has not reported yet."""

    def __missing__(self, name: str) -> ClusterView:
        return ClusterView(name)


@dataclass
class FakeCore:
    """Records events; answers with scripted effects; raises where told to. `arrived` wakes those who wait."""

    events: list[Event] = field(default_factory=list)
    effects: deque[list[Effect]] = field(default_factory=deque)
    fails_on: Callable[[Event], bool] = lambda event: False
    clusters: dict[str, ClusterView] = field(default_factory=Clusters)
    queue: FakeQueue = field(default_factory=FakeQueue)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)
    open: bool = True
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: int = 0
    folding: tuple[str, ...] = ()
    waking: bool = False
    compared: dict[tuple[str, str, str], int] = field(default_factory=dict)
    profiles: FakeProfiles = field(default_factory=FakeProfiles)
    budgets: list[int] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def handle(self, event: Event, now: float) -> list[Effect]:
        self.arrived.set()
        if self.fails_on(event):
            raise RuntimeError("scripted failure")
        if isinstance(event, Tick):
            self.ticks += 1
            return self.effects.popleft() if self.effects else []
        if isinstance(event, Decide):
            self.budgets.append(event.budget)
            return []
        self.events.append(event)
        return []

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that is fed makes the condition true."""
        async with asyncio.timeout(60):
            while not condition():
                self.arrived.clear()
                await self.arrived.wait()


def _in_pieces(rows: Callable[["FakeViews"], list[Row]]) -> Callable[["FakeViews"], Pieces]:
    return lambda views: iter([[row] for row in rows(views)])


def _of_one(key: str, rows: Callable[["FakeViews"], list[Row]]) -> Callable[..., Pieces]:
    return lambda views, only="": iter([[row] for row in rows(views) if only in ("", row[key])])


class FakeViews:
    """Rows as the core's views give them."""

    @_in_pieces
    def clusters(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "east",
                "ready": True,
                "problem": "",
                "cordoned_in": ["west"],
                "fenced_in": [],
                "nodes": 1,
                "ready_nodes": 1,
                "pods": 2,
                "remote": 0,
                "submitted": 3,
                "report_age_s": 0.4,
            },
            {
                "name": "west",
                "ready": False,
                "problem": "<b>silent</b>",
                "cordoned_in": ["east"],
                "fenced_in": ["east"],
                "nodes": 1,
                "ready_nodes": 0,
                "pods": 1,
                "remote": 1,
                "submitted": 0,
                "report_age_s": None,
            },
        ]

    @_in_pieces
    def links(self) -> list[dict[str, Any]]:
        measured = {"rtt_ms": 40.612, "jitter_ms": 1.25, "loss": 0.031, "age_s": 7.0, "counts_ms": 41.0}
        never = dict.fromkeys(("rtt_ms", "jitter_ms", "loss", "age_s", "counts_ms"))
        return [
            {"from": "east", "to": "west", **measured, "source": "measured"},
            {"from": "west", "to": "east", **never, "source": "unknown"},
        ]

    @partial(_of_one, "cluster")
    def nodes(self) -> list[dict[str, Any]]:
        use = {"requested": "500m", "allocatable": "4", "share": 0.125}
        load = {
            "cpu": {"used": 0.34, "age_s": 3.0, "source": "kubelet"},
            "memory": {"used": 0.2, "age_s": 3.0, "source": "kubelet"},
            "network": {"used": None, "age_s": None, "source": ""},
        }
        return [
            {
                "cluster": cluster,
                "name": f"{cluster}-1",
                "ready": True,
                "unschedulable": False,
                "cpu": use,
                "memory": use,
                "pods": use,
                "load": load,
            }
            for cluster in ("east", "west")
        ]

    def rebalancing(self) -> list[dict[str, Any]] | None:
        pod = {"namespace": "default", "source": "east", "from": "east/east-1", "age_s": 30.0}
        return [
            {**pod, "name": "web-1", "to": "west/west-1", "gain": 3.2, "result": "evicted", "why": "east-1 is hot"},
            {**pod, "name": "web-2", "to": None, "gain": None, "result": "stays", "why": "it is of a DaemonSet"},
        ]

    @_in_pieces
    def usage(self) -> list[dict[str, Any]]:
        use = {"requested": "500m", "allocatable": "4", "share": 0.125}
        silent: dict[str, Any] = {"used": None, "age_s": None, "known": 0, "hottest": None, "sources": []}
        told = {"used": 0.34, "age_s": 3.0, "known": 1, "hottest": {"node": "east-1", "used": 0.34}}
        return [
            {
                "cluster": cluster,
                "ready": cluster == "east",
                "nodes": 1,
                "cpu": use,
                "memory": use,
                "pods": use,
                "load": {"cpu": load, "memory": load, "network": silent},
            }
            for cluster, load in (("east", {**told, "sources": ["kubelet"]}), ("west", silent))
        ]

    @partial(_of_one, "namespace")
    def pods(self) -> list[dict[str, Any]]:
        return [
            {
                "namespace": "default",
                "name": "web-1",
                "source": "east",
                "cluster": "west",
                "node": "west-1",
                "phase": "Running",
                "ready": True,
                "reason": "score 71.3, 2.1 ahead of east/east-1",
                "controller": "ReplicaSet/web-5d4f",
                "deployment": "Deployment/web",
            },
            {
                "namespace": "shop",
                "name": "api-1",
                "source": "east",
                "cluster": "",
                "node": "",
                "phase": "Pending",
                "ready": False,
                "reason": "0/2 nodes are available: 2 Insufficient cpu.",
                "controller": "StatefulSet/api",
                "deployment": "",
            },
        ]

    def cluster_names(self) -> list[str]:
        return [row["name"] for row in whole(self.clusters())]

    def count_pods(self, namespace: str = "") -> int:
        return len(whole(self.pods(namespace)))

    def tenants(self) -> list[dict[str, Any]]:
        amounts = {"nominal": "4", "used": "5", "borrowed": "1", "lent": "0", "limit": "8"}
        common = {"resource": "cpu", "waiting": 2, **amounts}
        free = {"tenant": "free", "parent": "", "level": 0, "resource": "", "share": 0.0, "waiting": 0}
        return [
            {"tenant": "all", "parent": "", "level": 0, "share": 0.0, **common},
            {"tenant": "shop", "parent": "all", "level": 1, "share": 0.125, **common},
            free,
        ]

    def tenant(self, name: str) -> dict[str, Any] | None:
        if name != "shop":
            return None
        amounts = {
            "nominal": "4",
            "said": "40%",
            "of_children": "0",
            "quota": "4",
            "lending_limit": "1",
            "kept": "3",
            "borrowing_limit": "2",
            "used": "5",
            "usage": "5",
            "borrowed": "1",
            "lent": "0",
            "available": "1",
            "limited_by": "all",
            "limit": "6",
            "share": 0.125,
        }
        return {
            "tenant": "shop",
            "path": ["all", "shop"],
            "children": [],
            "namespaces": ["shop", "west/till-*"],
            "waiting": 2,
            "starved": 1,
            "weight": 2.0,
            "share": 0.125,
            "dominant": "cpu",
            "shares": [0.125],
            "rules": {
                "all": {"max_priority": 7},
                "shop": {"nodes": {"pool": "x"}, "clusters": ["west"], "spread": True},
            },
            "resources": [{"resource": "cpu", "of": "the fleet", **amounts}],
            "not_limited": {"pods": "5"},
        }

    def next_victims(self, tenant: str) -> Pieces:
        text = "pod shop/web-3 on west/n4 (priority 0), for pods of bank"
        yield [{"resource": "cpu", "of": "the fleet", "borrowed": "1", "text": text}] if tenant == "shop" else []

    def quota(self, cluster: str, pod: Pod, replicas: int) -> dict[str, Any]:
        if pod.namespace == "both" and not cluster:
            raise ValueError("namespace both is of several tenants")
        fits = min(replicas, 2) if pod.priority <= 7 else 0
        return {
            "tenant": "shop",
            "path": ["all", "shop"],
            "asks": {name: str(amount) for name, amount in pod.requests.items()},
            "replicas": replicas,
            "fits": fits,
            "why": "" if fits == replicas else "tenant shop: cpu asked 1, used 5, limit 6",
            "closed": ["nodes of cluster west"],
            "borrows": {"cpu": "1"},
            "frees": None if fits == replicas else {"text": "1 of cpu has to come free in tenant all"},
        }

    def queue(self, most: int) -> list[dict[str, Any]]:
        pod = {"namespace": "default", "source": "east", "tenant": "red", "share": 0.25, "waits_s": 3.0, "attempts": 0}
        return [
            {**pod, "place": place, "name": f"web-{place}", "priority": 5, "why": "priority 5, tenant red"}
            for place in range(1, min(most, 3) + 1)
        ]

    def queue_counts(self) -> dict[str, Any]:
        return {"active": 3, "backoff": 2, "unschedulable": 7, "gated": 0, "waiting": 0}

    def place(self, namespace: str, name: str, cluster: str = "") -> dict[str, Any] | None:
        found = [one for one in self.queue(3) if (one["namespace"], one["name"]) == (namespace, name)]
        return {**found[0], "state": "active", "why": f"number 1 of 3: {found[0]['why']}"} if found else None

    def source_of(self, namespace: str, name: str) -> dict[str, Any] | None:
        source = {"cluster": "west", "home": "east", "namespace": "default", "name": "web-1"}
        return source if (namespace, name) == ("default", "web-1-copy") else None

    def drain(self, cluster: str, *, leave: bool = False) -> Pieces:
        pod = {"source": "east", "namespace": "default", "pods": 3}
        return iter(
            [
                [{**pod, "name": "web-1", "to": "north/n1", "waiting": 0}],
                [{**pod, "name": f"not-in-{cluster}", "to": None, "waiting": 1, "leave": leave}],
            ]
        )

    def explain(self, namespace: str, name: str, cluster: str = "") -> dict[str, Any] | None:
        found = [row for row in whole(self.pods()) if (row["namespace"], row["name"]) == (namespace, name)]
        return {**found[0], "decision": None} if found and cluster in ("", "east") else None


def bind(number: int, uid: str = "") -> Bind:
    """An intent with a readable id."""
    return Bind(f"{number}", PodRef("default", f"web-{number}", uid or f"uid-{number}"), number, "n1")


def service(core: FakeCore, *links: Any, timing: ServiceTiming = FAST) -> Service:
    """A service over a scripted core."""
    return Service(core, links, clock=Clock(), metrics=Metrics(), timing=timing)


@asynccontextmanager
async def running(subject: Service) -> AsyncIterator[None]:
    """The service runs meanwhile."""
    loop = asyncio.create_task(subject.run())
    try:
        yield
    finally:
        subject.stop()
        await loop
