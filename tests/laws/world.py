"""A small honest world for the core: clusters that carry intents out, lose answers, restart and fall silent.

Independent of the product's executor: it says what an agent promises (shared.messages), nothing more. Every
start of a container is counted, so a law can say "runs exactly once" without asking the dispatcher.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.scheduling.events import Effect, SendIntents
from shared import messages as m
from shared.model.names import CLAIM, proxy_node_name
from shared.model.node import Node
from shared.model.pod import RUNNING, Pod, SourceRef
from shared.security.signatures import Preemptor, SignedClaim, public_key, read_claim, sign_claim, sign_preemptor

replace = msgspec.structs.replace
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@dataclass
class World:
    """All clusters, and what has ever been started: (home cluster, source uid) -> number of starts."""

    clusters: dict[str, "ModelCluster"]
    running: Counter[tuple[str, str]] = field(default_factory=Counter)
    twice: list[tuple[str, str]] = field(default_factory=list)

    def started(self, pod_id: tuple[str, str]) -> None:
        """A container of this pod starts; two at once is what must never be."""
        self.running[pod_id] += 1
        if self.running[pod_id] > 1:
            self.twice.append(pod_id)

    def stopped(self, pod_id: tuple[str, str]) -> None:
        """It stops."""
        self.running[pod_id] -= 1


class ModelCluster:
    """One cluster with its agent: API objects, numbered changes, and the promises of the executor."""

    def __init__(self, name: str, nodes: list[Node], peers: list[str], world: World) -> None:
        self.name, self.uid, self.world = name, f"uid-of-{name}", world
        self.nodes = {node.name: node for node in nodes}
        for peer in peers:
            proxy = proxy_node_name(peer)
            self.nodes[proxy] = Node(proxy, ready=True, proxy_for=peer)
        self.pods: dict[str, Pod] = {}
        self.cache: dict[str, Pod] = {}  # what the agent's watch has shown it so far
        self.incarnation = 1
        self._revision = 0
        self._touched: dict[str, int] = {}
        self._serial = 0

    # What the agent reports

    def changes(self, since: int, incarnation: str) -> m.Changes:
        """Numbered changes after `since`; all of it for another incarnation."""
        full = incarnation != self.identity
        since = -1 if full else since
        touched = [uid for uid, revision in self._touched.items() if revision > since]
        return m.Changes(
            self.name,
            self.uid,
            self.identity,
            max(since, 0),
            self._revision,
            full=full,
            nodes=tuple(self.nodes.values()) if full else (),
            pods=tuple(self.cache[uid] for uid in touched if uid in self.cache),
            pods_gone=() if full else tuple(uid for uid in touched if uid not in self.cache),
            keys=(public_key(_KEY),),
        )

    @property
    def identity(self) -> str:
        """The agent's incarnation."""
        return f"{self.name}-{self.incarnation}"

    def restart_agent(self) -> None:
        """A new life of the agent: it lists with quorum, so its cache is fresh. The cluster is unchanged."""
        self.incarnation += 1
        self.watch()

    def watch(self) -> None:
        """The agent's watch catches up with the API server."""
        for uid in self.pods.keys() | self.cache.keys():
            if self.pods.get(uid) is not self.cache.get(uid):
                self._revision += 1
                self._touched[uid] = self._revision
        self.cache = dict(self.pods)

    def _put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def _remove(self, pod: Pod) -> None:
        known = self.pods.pop(pod.uid, None) is not None
        if known and pod.node in self.nodes and not self.nodes[pod.node].proxy_for:
            self.world.stopped(_identity(self.name, pod))

    # What users and controllers do

    def submit(self, name: str, cpu: int, priority: int = 0, *, namespace: str = "default", **more: Any) -> Pod:
        """A user's pod, annotated for us."""
        self._serial += 1
        uid = f"{self.name}-{self._serial}"
        fields = {"requests": {"cpu": cpu}, "priority": priority, "scheduler_name": "global-dispatcher", **more}
        pod = Pod(uid, namespace, name, **fields)
        self._put(pod)
        return pod

    def delete(self, uid: str) -> None:
        """kubectl delete pod: at once, unless our finalizer or a proxy node holds it."""
        pod = self.pods.get(uid)
        if pod is None:
            return
        if pod.has_finalizer or pod.node.startswith(proxy_node_name("")):
            self._put(replace(pod, terminating=True))
        else:
            self._remove(pod)

    def delete_delegate(self, pod: Pod) -> None:
        """Somebody deletes a delegate where it runs (a drain, an eviction)."""
        self._put(replace(pod, terminating=True))

    def lose_sight(self, pod: Pod) -> None:
        """A node controller marks a pod as not ready, as when it misses the heartbeats of its (proxy) node."""
        self._put(replace(pod, ready=False))

    def sources(self) -> Iterator[Pod]:
        """Pods submitted here."""
        return (pod for pod in list(self.pods.values()) if pod.source is None)

    # What the executor promises

    def execute(self, intent: m.AnyIntent) -> m.Outcome:
        """Carry one intent out; the verdicts are those of messages.Outcome."""
        verdict, message, manifest = _EXECUTE[type(intent)](self, intent)
        scope = m.OF_NODE if verdict == m.REFUSED else ""  # it refuses for want of room alone
        done = m.Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, message, manifest, scope=scope)
        if isinstance(intent, m.ConfirmNoSource) and intent.preempts and verdict == m.DONE:
            return replace(done, record=self._signed(intent))
        if isinstance(intent, m.CreateDelegate) and verdict == m.DONE:
            return replace(done, delegate_uid=f"delegate-of-{intent.source.uid}")
        return self._with_end(intent, done) if isinstance(intent, m.ConfirmNoDelegate) else done

    def _with_end(self, intent: m.ConfirmNoDelegate, done: m.Outcome) -> m.Outcome:
        found = self.pods.get(f"delegate-of-{intent.source.uid}")
        if found is None or done.verdict != m.DONE:
            return done
        return replace(done, end=found.phase if found.terminal else m.DELETING, delegate_uid=found.uid)

    def _bind(self, intent: m.Bind) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is None or pod.terminating:
            return m.STALE, "gone", b""
        if pod.node:
            return (m.BOUND if pod.node == intent.node else m.STALE), "bound already", b""
        if not intent.proxy:
            if pod.claim is not None:
                return m.STALE, "claimed", b""
            if not self._fits(intent.node, pod.requests):
                return m.REFUSED, "no room", b""
            self.world.started((self.name, pod.uid))
        phase = pod.phase if intent.proxy else RUNNING
        self._put(replace(pod, node=intent.node, phase=phase))
        return m.BOUND, "", b""

    def _fits(self, node: str, requests: dict[str, int]) -> bool:
        used = sum(pod.requests.get("cpu", 0) for pod in self.pods.values() if pod.node == node)
        return node in self.nodes and used + requests.get("cpu", 0) <= self.nodes[node].allocatable["cpu"]

    def _claim(self, intent: m.Claim) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is None or pod.terminating or pod.node:
            return m.STALE, "gone or bound", b""
        if pod.claim is not None and (pod.claim.cluster, pod.claim.node) != (intent.cluster, intent.node):
            return m.STALE, "claimed already", b""
        source = SourceRef(self.name, self.uid, pod.namespace, pod.name, pod.uid, intent.epoch)
        self._put_claim(pod, SignedClaim(source, intent.cluster, "", intent.node, b""))
        return m.CLAIMED, "", msgspec.json.encode(pod.requests)

    def _put_claim(self, pod: Pod, claim: SignedClaim) -> None:
        marks = {**pod.annotations, CLAIM: sign_claim(_KEY, claim)}
        self._put(replace(pod, claim=claim.claim, has_finalizer=True, annotations=marks))

    def _unclaim(self, intent: m.Unclaim) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is None or pod.node:
            return m.STALE, "", b""
        marks = {key: value for key, value in pod.annotations.items() if key != CLAIM}
        self._put(replace(pod, claim=None, has_finalizer=False, annotations=marks))
        if pod.terminating:
            self._remove(self.pods[pod.uid])
        return m.DONE, "", b""

    def _create(self, intent: m.CreateDelegate) -> tuple[str, str, bytes]:
        uid = f"delegate-of-{intent.source.uid}"
        found = self.pods.get(uid)
        if found is not None and found.terminating:
            return m.STALE, "terminating", b""
        if found is not None and found.node:
            return m.BOUND, "", b""
        if found is None and intent.made:
            return m.STALE, "it was created, and is gone", b""
        requests = msgspec.json.decode(intent.manifest, type=dict[str, int])
        if (why := self.webhook(intent)) or not self._fits(intent.node, requests):
            if found is not None:
                self._remove(found)
            return m.REFUSED, why or "no room", b""
        made = _delegate(uid, intent, self.name, requests)
        if intent.unbound:
            self._put(replace(made, node="", phase="Pending", ready=False))
            return m.DONE, "", b""
        self.world.started((intent.source.cluster, intent.source.uid))
        self._put(made)
        return m.BOUND, "", b""

    def webhook(self, intent: m.CreateDelegate) -> str:
        """Why admission refuses a delegate; "" if it does not."""
        return ""

    def _confirm(self, intent: m.ConfirmNoDelegate) -> tuple[str, str, bytes]:
        found = self.pods.get(f"delegate-of-{intent.source.uid}")
        if found is None:
            return m.DONE, "", b""
        if intent.ended and (found.terminal or found.terminating):
            return m.DONE, "", b""
        if (intent.collect or not found.node) and not found.terminating:
            self._put(replace(found, terminating=True))
        return m.STALE, "there", b""

    def _confirm_source(self, intent: m.ConfirmNoSource) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if intent.preempts:
            waits = pod is not None and not pod.terminating and not pod.node
            return (m.DONE if waits else m.STALE), "it does not wait", b""
        return (m.STALE if pod is not None else m.DONE), "", b""

    def _signed(self, intent: m.ConfirmNoSource) -> str:
        """What the cluster says of a pod that waits, for which others are to go elsewhere."""
        pod = self.pods[intent.pod.uid]
        source = SourceRef(self.name, self.uid, pod.namespace, pod.name, pod.uid, intent.epoch)
        said = Preemptor(source, intent.preempts, pod.priority, requests=dict(pod.requests))
        return sign_preemptor(_KEY, said)

    def _restore(self, intent: m.RestoreClaim) -> tuple[str, str, bytes]:
        signed = read_claim(intent.claim)
        pod = self.pods.get(intent.pod.uid)
        if pod is None or signed is None or pod.terminating:
            return m.STALE, "gone", b""
        if pod.node and pod.node != proxy_node_name(signed.target):
            return m.STALE, "elsewhere", b""
        if pod.claim is None:
            self._put_claim(pod, signed)
        return m.DONE, "", b""

    def _delete(self, intent: m.DeleteDelegate) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is not None and pod.source is not None and not pod.terminating:
            self._put(replace(pod, terminating=True))
        return m.DONE, "", b""

    def _mirror(self, intent: m.MirrorStatus) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is None:
            return m.STALE, "", b""
        self._put(replace(pod, phase=RUNNING, ready=True))
        return m.DONE, "", b""

    def _sign(self, intent: m.SignManifest) -> tuple[str, str, bytes]:
        return (m.DONE, "", b"{}") if intent.pod.uid in self.pods else (m.STALE, "gone", b"")

    def _update(self, intent: m.UpdateDelegate) -> tuple[str, str, bytes]:
        return (m.DONE if f"delegate-of-{intent.source.uid}" in self.pods else m.STALE), "", b""

    def _delete_source(self, intent: m.DeleteSource) -> tuple[str, str, bytes]:
        self.delete(intent.pod.uid)
        return m.DONE, "", b""

    def _finish(self, intent: m.FinishSource) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is not None:
            self._remove(pod)
        return m.DONE, "", b""

    def _report(self, intent: m.ReportUnschedulable) -> tuple[str, str, bytes]:
        return m.DONE, "", b""

    def _report_group(self, intent: m.ReportGroup) -> tuple[str, str, bytes]:
        return m.DONE, "", b""

    def _evict(self, intent: m.Evict) -> tuple[str, str, bytes]:
        pod = self.pods.get(intent.pod.uid)
        if pod is None or pod.terminating:
            return m.DONE, "", b""
        if pod.node != intent.node:
            return m.STALE, "not there", b""
        if pod.priority >= intent.priority and not intent.reclaimed:
            return m.REFUSED, "not lower", b""
        self._put(replace(pod, terminating=True))
        return m.DONE, "", b""

    def kubelets(self) -> None:
        """What terminates on a real node ends."""
        for pod in list(self.pods.values()):
            if pod.terminating and (pod.source is not None or (pod.node and not pod.has_finalizer)):
                self._remove(pod)


_EXECUTE: dict[type[m.Intent], Callable[[ModelCluster, Any], tuple[str, str, bytes]]] = {
    m.Bind: ModelCluster._bind,
    m.Claim: ModelCluster._claim,
    m.Unclaim: ModelCluster._unclaim,
    m.CreateDelegate: ModelCluster._create,
    m.ConfirmNoDelegate: ModelCluster._confirm,
    m.ConfirmNoSource: ModelCluster._confirm_source,
    m.RestoreClaim: ModelCluster._restore,
    m.DeleteDelegate: ModelCluster._delete,
    m.MirrorStatus: ModelCluster._mirror,
    m.SignManifest: ModelCluster._sign,
    m.UpdateDelegate: ModelCluster._update,
    m.DeleteSource: ModelCluster._delete_source,
    m.FinishSource: ModelCluster._finish,
    m.ReportUnschedulable: ModelCluster._report,
    m.ReportGroup: ModelCluster._report_group,
    m.Evict: ModelCluster._evict,
}


def _identity(cluster: str, pod: Pod) -> tuple[str, str]:
    return (pod.source.cluster, pod.source.uid) if pod.source is not None else (cluster, pod.uid)


def _delegate(uid: str, order: m.CreateDelegate, cluster: str, requests: dict[str, int]) -> Pod:
    source, node = order.source, order.node
    claim = SignedClaim(source, cluster, "", node, b"")
    return Pod(
        uid,
        source.namespace,
        source.name,
        requests=requests,
        node=node,
        phase=RUNNING,
        ready=True,
        source=source,
        status=b"running",
        annotations={CLAIM: sign_claim(_KEY, claim)},
    )


@dataclass
class Mail:
    """Intents under way to one cluster; a seeded dice decides what is delivered, lost, repeated or late."""

    dice: random.Random
    loss: float
    queue: list[SendIntents] = field(default_factory=list)

    def post(self, effects: list[Effect]) -> None:
        """Take the intents out of the core's effects."""
        self.queue += [effect for effect in effects if isinstance(effect, SendIntents)]

    def take(self) -> list[SendIntents]:
        """What is delivered now; the rest is late."""
        now = [batch for batch in self.queue if self.dice.random() > self.loss]
        self.queue = [batch for batch in self.queue if batch not in now]
        return now
