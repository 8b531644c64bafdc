"""A fake cluster with its agent: it answers polls, carries out intents at once, and shows what came
of them.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from time import perf_counter

import msgspec

from benchmarks.fleet.load import Load, node_of, pod_of, reading_of
from shared.messages import (
    BOUND,
    CLAIMED,
    DONE,
    AnyIntent,
    Bind,
    Changes,
    Claim,
    CreateDelegate,
    Hello,
    IntentBatch,
    MirrorStatus,
    Outcome,
    OutcomeBatch,
    Peers,
    PeersAck,
)
from shared.model.node import Reading
from shared.model.pod import RUNNING, Pod
from shared.model.pod import Claim as Claimed

STATUS = b'{"phase":"Running"}'
_change = msgspec.structs.replace


class FakeCluster:
    """A cluster of `load`'s size. `seen(what, uid)` is told when a pod is bound, and when it is
    shown to run.
    """

    def __init__(
        self,
        load: Load,
        number: int,
        others: Mapping[str, "FakeCluster"],
        seen: Callable[[str, str], None],
    ):
        self.load, self.number, self.name = load, number, load.names[number]
        self.listed = True  # else its API server could not be listed yet
        self.disk = ""  # label of all nodes; another one makes them all different
        self.pods: dict[str, Pod] = {}
        self.bytes_sent = 0
        self._others, self._seen = others, seen
        self._chance = Random(load.seed * 100_003 + number)
        self._life, self._revision, self._made = 1, 1, 0
        self._fresh: dict[str, Pod] = {}
        self._gone: set[str] = set()
        self._readings: tuple[Reading, ...] = ()
        self._news, self._urgent = asyncio.Event(), asyncio.Event()  # urgent: a pod is to be placed
        for at in range(load.pods):
            self._put(self._pod(ours=at < load.ours * load.pods, node=self._any_node()))
        self._fresh.clear()

    @property
    def uid(self) -> str:
        """Of its kube-system."""
        return f"{self.name}-uid"

    # --- what happens in it
    # ------------------------------------------------------------------------------------------

    def submit(self, region: str = "", templates: int = 0) -> str:
        """A new pod of ours, for `region` alone, of one of the first `templates` templates (0: of
        any); its UID.
        """
        pod = self._pod(ours=True, templates=templates)
        if region:
            pod = _change(pod, node_selector={"topology.kubernetes.io/region": region})
        self._put(pod)
        self._urgent.set()
        return pod.uid

    def churn(self) -> None:
        """One pod changes: half of the time a bound one's readiness, else one of another scheduler
        comes or goes.
        """
        chance, pod = self._chance.random(), self._any_pod()
        if pod is not None and pod.node and chance < 0.5:
            self._put(_change(pod, ready=not pod.ready))
        elif pod is not None and not pod.scheduler_name and chance < 0.75:
            self._gone.add(pod.uid)
            self._fresh.pop(pod.uid, None)
            del self.pods[pod.uid]
            self._tell()
        else:
            self._put(self._pod(ours=False, node=self._any_node()))

    def sweep(self) -> None:
        """Every node has a new reading."""
        self.tell_readings(
            tuple(reading_of(number, self._chance) for number in range(self.load.nodes))
        )

    def tell_readings(self, readings: tuple[Reading, ...]) -> None:
        """New readings, of any nodes."""
        self._readings = readings
        self._tell()

    def restart(self) -> None:
        """Another life of its agent: it tells everything anew."""
        self._life += 1
        self._tell()

    def _pod(self, *, ours: bool, node: str = "", templates: int = 0) -> Pod:
        self._made += 1
        template = self._chance.randrange(templates or self.load.templates)
        return pod_of(self.load, f"{self.name}-{self._made}", template, ours=ours, node=node)

    def _any_node(self) -> str:
        return f"n{self._chance.randrange(self.load.nodes):04}"

    def _any_pod(self) -> Pod | None:
        """A pod by chance; None where that one is gone."""
        return (
            self.pods.get(f"{self.name}-{self._chance.randrange(self._made) + 1}")
            if self._made
            else None
        )

    def _put(self, pod: Pod) -> None:
        self.pods[pod.uid] = self._fresh[pod.uid] = pod
        self._gone.discard(pod.uid)
        self._tell()

    def _tell(self) -> None:
        self._revision += 1
        self._news.set()

    # --- its agent
    # ----------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Who it is."""
        return Hello(self.name, self.uid, self._incarnation)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """A long poll. There is one follower: what it was told is forgotten here."""
        if (incarnation, since) == (self._incarnation, self._revision):
            self._news.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.load.coalesce_s):
                        await self._urgent.wait()
            except TimeoutError:
                pass
        self._urgent.clear()
        full = incarnation != self._incarnation
        told = self.full() if full else self._latest(since)
        self._fresh, self._gone, self._readings = {}, set(), ()
        return told

    @property
    def _incarnation(self) -> str:
        return f"{self.name}-life-{self._life}"

    def full(self) -> Changes:
        """All of it."""
        if not self.listed:
            who = (self.name, self.uid, self._incarnation, 0, self._revision)
            return Changes(*who, full=True, synced=False, problem="not listed yet")
        nodes = tuple(node_of(self.number, at, self.disk) for at in range(self.load.nodes))
        readings = tuple(reading_of(at, self._chance) for at in range(self.load.nodes))
        who = (self.name, self.uid, self._incarnation, 0, self._revision)
        return Changes(
            *who, full=True, nodes=nodes, pods=tuple(self.pods.values()), readings=readings
        )

    def _latest(self, since: int) -> Changes:
        who = (self.name, self.uid, self._incarnation, since, self._revision)
        if not self.listed:
            return Changes(*who, synced=False, problem="not listed yet")
        gone = tuple(sorted(self._gone))
        return Changes(
            *who, pods=tuple(self._fresh.values()), pods_gone=gone, readings=self._readings
        )

    def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out all of it."""
        answers = tuple(self._carry_out(intent) for intent in batch.intents)
        return OutcomeBatch(
            self.name, answers, obeys=batch.dispatcher_epoch, leader=batch.dispatcher
        )

    def set_peers(self, peers: Peers) -> PeersAck:
        """Heard."""
        return PeersAck(self.name, "word")

    def _carry_out(self, intent: AnyIntent) -> Outcome:
        uid = intent.pod.uid
        if isinstance(intent, Bind):
            return self._bind(intent)
        if isinstance(intent, Claim):
            self._put(
                _change(
                    self.pods[uid],
                    claim=Claimed(intent.cluster, intent.node, intent.epoch),
                    has_finalizer=True,
                )
            )
            return Outcome(intent.id, uid, intent.epoch, CLAIMED, manifest=b"{}", record="signed")
        if isinstance(intent, CreateDelegate):
            return self._create(intent)
        if isinstance(intent, MirrorStatus) and intent.status == STATUS:
            self._put(_change(self.pods[uid], phase=RUNNING, ready=True))
            self._seen("running", uid)
        return Outcome(intent.id, uid, intent.epoch, DONE)

    def _bind(self, intent: Bind) -> Outcome:
        bound = _change(self.pods[intent.pod.uid], node=intent.node)
        if not intent.proxy:
            self._start_soon(bound.uid)
        self._put(bound)
        self._seen("bound", bound.uid)
        return Outcome(intent.id, bound.uid, intent.epoch, BOUND)

    def _start_soon(self, uid: str) -> None:
        """The pod on its node runs in a moment."""
        asyncio.get_running_loop().call_later(self.load.start_s, self._start, uid)

    def _start(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is not None:
            self._put(
                _change(
                    pod, phase=RUNNING, ready=True, status=STATUS if pod.source is not None else b""
                )
            )
            if pod.source is None:
                self._seen("running", uid)

    def _create(self, intent: CreateDelegate) -> Outcome:
        source = self._others[intent.source.cluster].pods[intent.pod.uid]
        self._made += 1
        uid = f"{self.name}-{self._made}"
        copy = _change(
            source, uid=uid, name=f"copy-{source.uid}", claim=None, has_finalizer=False, node=intent.node,
            source=intent.source, status=b'{"phase":"Pending"}', scheduler_name="global-dispatcher.io/delegate",
            node_selector={},
        )  # fmt: skip
        self._put(copy)
        self._start_soon(uid)
        return Outcome(intent.id, intent.pod.uid, intent.epoch, BOUND)


def now() -> float:
    """Seconds, for durations."""
    return perf_counter()
