"""The node controller: notices silence, keeps health taints, evicts, and collects the pods of nodes
that are gone.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from localfleet.embedded.api import Api
from localfleet.embedded.controllers.node import eviction_time, executing, retainted, silenced
from localfleet.embedded.controllers.replicaset import PODS
from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.controllers.writes import Delete, Merge, PutStatus, carry_out
from localfleet.embedded.meta import (
    Object,
    condition,
    is_finished,
    is_ready,
    is_terminating,
    with_condition,
)
from localfleet.embedded.recorder import NORMAL, Recorder

NODES = "nodes"
LEASES = "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
_MONITOR = Ref(NODES, "", "")
_LATE = 3.0


class Patience(NamedTuple):
    """Seconds: silence after which a node is Unknown, between looks, and before pods of a missing
    node are removed.
    """

    grace_s: float = 40.0
    period_s: float = 5.0
    quarantine_s: float = 40.0


class NodeController:
    """Watches over nodes, also those whose kubelet is somebody else's.

    Silence is counted on this process' own clock from when a heartbeat was last seen to change.
    Time in which the process itself was stopped is nobody's silence.
    """

    name = "node-controller"

    def __init__(self, api: Api, world: World, recorder: Recorder, patience: Patience) -> None:
        self._api = api
        self._world = world
        self._recorder = recorder
        self._patience = patience
        # Looked at more often than a node can become silent, so that a pause is noticed before its
        # effects.
        self._period_s = min(patience.period_s, patience.grace_s / 8)
        self._heard: dict[str, tuple[object, float]] = {}
        self._missing: dict[str, float] = {}
        self._lost: set[str] = set()
        self._looked = 0.0

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """The node, that of a lease, or that of a pod that may have to leave it."""
        if ref.resource == NODES:
            if old is not None and is_ready(old) and not is_ready(obj):
                self._lost.add(ref.name)
            yield ref
            if not self._looked:
                yield _MONITOR
        elif ref.resource == LEASES and ref.namespace == LEASE_NAMESPACE:
            yield Ref(NODES, "", ref.name)
        elif ref.resource == PODS and (name := obj["spec"].get("nodeName")):
            node = self._world.get(Ref(NODES, "", name))
            if node is None or executing(node):
                yield Ref(NODES, "", name)

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One node, existing or not; or the look at the clock."""
        if key == _MONITOR:
            return self._look(now)
        node = self._world.get(key)
        if node is None:
            return self._collect(key.name, now)
        self._missing.pop(key.name, None)
        waits = [self._listen(key, node, now)]
        node = self._api.get(NODES, key.name)
        taints = retainted(node, now)
        if taints is not None:
            carry_out(self._api, Merge(key, {"spec": {"taints": taints or None}}))
            node = self._api.get(NODES, key.name)
        if key.name in self._lost:
            self._lost.discard(key.name)
            self._doubt_pods(key.name, now)
        waits.append(self._evict(node, now))
        return min(waits) if min(waits) < inf else None

    def _look(self, now: float) -> float:
        slept = now - self._looked - self._period_s if self._looked else 0.0
        if slept > self._period_s * _LATE:
            self._heard = {name: (beat, at + slept) for name, (beat, at) in self._heard.items()}
        self._looked = now
        return self._period_s

    def _listen(self, key: Ref, node: Object, now: float) -> float:
        """Note a heartbeat, or its absence; answers when silence will have lasted too long."""
        lease = self._world.get(Ref(LEASES, LEASE_NAMESPACE, key.name)) or {}
        ready = condition(node, "Ready")
        beat = (
            lease.get("spec", {}).get("renewTime"),
            ready.get("lastHeartbeatTime"),
            node["metadata"]["uid"],
        )
        known = self._heard.get(key.name)
        if known is None or known[0] != beat:
            self._heard[key.name] = (beat, now)
        left = self._heard[key.name][1] + self._patience.grace_s - now
        if left > 0:
            return left
        if ready["status"] != "Unknown":
            status = {**node.get("status", {}), "conditions": silenced(node, now)}
            carry_out(self._api, PutStatus(key, node, status))
            text = f"Node {key.name} status is now: NodeNotReady"
            self._recorder.record(node, "Node", NORMAL, "NodeNotReady", text)
        return inf

    def _doubt_pods(self, name: str, now: float) -> None:
        """Pods of a node that has stopped being Ready are not Ready either."""
        node = self._world.get(Ref(NODES, "", name))
        if node is not None and is_ready(node):
            return
        for ref, pod in self._world.on_node(name):
            if is_ready(pod) and not is_finished(pod):
                self._set_condition(
                    ref,
                    {**condition(pod, "Ready"), "status": "False", "reason": "NodeNotReady"},
                    now,
                )

    def _evict(self, node: Object, now: float) -> float:
        """Delete what may not stay; answers in how many seconds the next one must go."""
        taints = executing(node)
        soonest = inf
        if not taints:
            return inf
        for ref, pod in self._world.on_node(node["metadata"]["name"]):
            if is_terminating(pod) or is_finished(pod):
                continue
            due = eviction_time(pod, taints, now)
            if due > now:
                soonest = min(soonest, due)
                continue
            why = {
                "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
            }
            self._set_condition(ref, {"type": "DisruptionTarget", "status": "True", **why}, now)
            self._recorder.record(
                pod,
                "Pod",
                NORMAL,
                "TaintManagerEviction",
                f"Marking for deletion Pod {ref.namespace}/{ref.name}",
            )
            carry_out(self._api, Delete(ref, pod["metadata"]["uid"]))
        return soonest - now

    def _collect(self, name: str, now: float) -> float | None:
        """Remove the pods of a node that has been missing for long enough."""
        self._heard.pop(name, None)
        pods = self._world.on_node(name)
        if not pods:
            self._missing.pop(name, None)
            return None
        left = self._missing.setdefault(name, now) + self._patience.quarantine_s - now
        if left > 0:
            return left
        for ref, pod in pods:
            if is_terminating(pod) and not pod["metadata"].get("deletionGracePeriodSeconds"):
                continue
            why = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
            if not is_finished(pod):
                self._set_condition(
                    ref, {"type": "DisruptionTarget", "status": "True", **why}, now, phase="Failed"
                )
            carry_out(self._api, Delete(ref, pod["metadata"]["uid"], grace_s=0))
        return None

    def _set_condition(self, ref: Ref, entry: Object, now: float, **status: str) -> None:
        pod = self._world.get(ref)
        if pod is None:
            return
        old = pod.get("status") or {}
        conditions = with_condition(old.get("conditions") or [], entry, now)
        carry_out(
            self._api,
            Merge(ref, {"status": {**status, "conditions": conditions}}, subresource="status"),
        )
