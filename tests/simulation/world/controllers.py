"""What else acts in a cluster: the controllers of kube-controller-manager, as far as they touch pods and nodes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.world.apiserver import NAMESPACES, PODS, ApiServer
from tests.simulation.world.objects import Object, active, condition, place_of

STRATEGIC = "application/strategic-merge-patch+json"
PROXY = "global-dispatcher-"
GRACE_S = 40.0  # without a sign of life a node is NotReady
TOLERATION_S = 60.0  # of every pod for nodes that are gone (300 by default; short here so that a seed is short)
ORPHAN_S = 40.0
_TAINT = "node.kubernetes.io/unreachable"


def path_of(pod: Object) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


@dataclass
class ReplicaSet:
    """So many pods of one kind, replaced whenever one ends or is deleted."""

    name: str
    namespace: str
    replicas: int
    template: Object

    @property
    def uid(self) -> str:
        """Of the ReplicaSet."""
        return f"rs-{self.namespace}-{self.name}"


@dataclass
class Controllers:
    """Of one cluster, each with its own memory; `look` once in a while."""

    api: ApiServer
    clock: Callable[[], float]
    sets: list[ReplicaSet] = field(default_factory=list)
    alive: dict[str, tuple[str, float]] = field(default_factory=dict)  # node -> (last sign of life, when it was seen)
    tainted: dict[str, float] = field(default_factory=dict)
    orphans: dict[str, float] = field(default_factory=dict)
    kubelets_dead: Callable[[str], bool] = lambda _: False

    def look(self) -> None:
        """One round of all."""
        self._replace()
        self._watch_nodes()
        self._evict()
        self._collect()
        self._empty_namespaces()

    # --- ReplicaSet --------------------------------------------------------------------------------------------------

    def _replace(self) -> None:
        for one in self.sets:
            space = self.api.store.look(f"{NAMESPACES}/{one.namespace}")
            if space is None or space["metadata"].get("deletionTimestamp"):
                continue
            mine = [pod for pod in self.api.pods(one.namespace) if _owner(pod) == one.uid]
            there = [pod for pod in mine if active(pod) and not pod["metadata"].get("deletionTimestamp")]
            for _ in range(one.replicas - len(there)):
                meta = dict(one.template["metadata"])
                ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": one.name, "uid": one.uid}
                meta |= {"generateName": f"{one.name}-", "ownerReferences": [{**ref, "controller": True}]}
                meta.pop("name", None)
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": one.template["spec"]}
                self.api.ask("replicaset", "POST", f"/api/v1/namespaces/{one.namespace}/pods", pod)
            for pod in mine:
                if not active(pod) and not pod["metadata"].get("deletionTimestamp"):
                    self.api.ask("replicaset", "DELETE", path_of(pod))

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _watch_nodes(self) -> None:
        now = self.clock()
        for node in self.api.nodes():
            name = node["metadata"]["name"]
            if name.startswith(PROXY):
                sign = self._sign(node)
                if name not in self.alive or self.alive[name][0] != sign:
                    self.alive[name] = (sign, now)
                lost = now - self.alive[name][1] > GRACE_S
            else:
                lost = self.kubelets_dead(name)
            ready = condition(node, "Ready")
            if lost and ready is not None and ready["status"] == "True":
                self._mark(name, "Unknown")
            elif not lost and ready is not None and not name.startswith(PROXY) and ready["status"] != "True":
                self._mark(name, "True")
            self._taint(name, lost or (ready is not None and ready["status"] != "True"), now)

    def _sign(self, node: Object) -> str:
        name = node["metadata"]["name"]
        lease = self.api.store.look(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
        beat = (condition(node, "Ready") or {}).get("lastHeartbeatTime", "")
        return f"{lease['spec'].get('renewTime') if lease else ''} {beat}"

    def _mark(self, name: str, status: str) -> None:
        told = {
            "type": "Ready",
            "status": status,
            "reason": "NodeStatusUnknown" if status != "True" else "KubeletReady",
        }
        body = {"status": {"conditions": [told]}}
        self.api.ask("node-lifecycle", "PATCH", f"/api/v1/nodes/{name}/status", body, kind=STRATEGIC)
        if status != "True":
            self._unready(name)

    def _unready(self, name: str) -> None:
        for pod in self.api.pods():
            ready = condition(pod, "Ready")
            if pod["spec"].get("nodeName") == name and ready is not None and ready["status"] == "True":
                body = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}}
                self.api.ask("node-lifecycle", "PATCH", f"{path_of(pod)}/status", body, kind=STRATEGIC)

    def _taint(self, name: str, lost: bool, now: float) -> None:
        if lost:
            if name not in self.tainted:
                self.tainted[name] = now
                taint = {"key": _TAINT, "effect": "NoExecute"}
                self.api.ask(
                    "node-lifecycle", "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}, kind=STRATEGIC
                )
        elif self.tainted.pop(name, None) is not None:
            node = self.api.store.get(f"/api/v1/nodes/{name}")
            left = [one for one in (node or {}).get("spec", {}).get("taints", ()) if one["key"] != _TAINT]
            self.api.ask("node-lifecycle", "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": left}})

    def _evict(self) -> None:
        now = self.clock()
        late = {name for name, since in self.tainted.items() if now - since > TOLERATION_S}
        if not late:
            return
        for pod in self.api.pods():
            if pod["spec"].get("nodeName") in late and not pod["metadata"].get("deletionTimestamp"):
                self.api.ask("taint-eviction", "DELETE", path_of(pod))

    # --- pod garbage collector, namespaces ---------------------------------------------------------------------------

    def _collect(self) -> None:
        now, nodes = self.clock(), {node["metadata"]["name"] for node in self.api.nodes()}
        for pod in self.api.pods():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            if not node or node in nodes:
                self.orphans.pop(uid, None)
            elif now - self.orphans.setdefault(uid, now) > ORPHAN_S:
                self.api.ask("pod-gc", "DELETE", path_of(pod), {"gracePeriodSeconds": 0})

    def _empty_namespaces(self) -> None:
        for kept in list(self.api.store.all(NAMESPACES)):
            meta = kept.obj["metadata"]
            if not meta.get("deletionTimestamp"):
                continue
            left = list(self.api.store.all(PODS, meta["name"]))
            for pod in left:
                if not pod.obj["metadata"].get("deletionTimestamp"):
                    self.api.ask("namespace-controller", "DELETE", path_of(pod.obj))
            if not left:
                path = place_of(f"{NAMESPACES}/{meta['name']}").path
                self.api.ask("namespace-controller", "PATCH", path, {"metadata": {"finalizers": None}})


def _owner(pod: Object) -> str:
    return next((str(ref["uid"]) for ref in pod["metadata"].get("ownerReferences", ()) if ref.get("controller")), "")
