"""What else acts in a cluster: the controllers of kube-controller-manager, as far as they touch pods and nodes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.world.apiserver import FOLLOWING, NAMESPACES, NODES, PODS, ApiServer
from tests.simulation.world.budgets import BUDGETS, counted
from tests.simulation.world.objects import Object, Place, active, condition, place_of

STRATEGIC = "application/strategic-merge-patch+json"
PROXY = "global-dispatcher-"
GRACE_S = 40.0  # without a sign of life a node is NotReady
ORPHAN_S = 40.0
UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
GUARDED = (UNREACHABLE, NOT_READY)  # of which admission writes tolerations on every pod


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
    tainted: dict[str, str] = field(default_factory=dict)  # node -> key of the taint
    doomed: dict[str, tuple[str, float]] = field(default_factory=dict)  # UID -> (node, when its time there began)
    orphans: dict[str, float] = field(default_factory=dict)
    kubelets_dead: Callable[[str], bool] = lambda _: False
    collected: tuple[object, object] = (None, None)  # pods and nodes as they were when none was an orphan

    def look(self) -> None:
        """One round of all."""
        self._replace()
        self._watch_nodes()
        self._evict()
        self._collect()
        self._empty_namespaces()
        self._count_budgets()

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
            told_so = ready is not None and ready["status"] == "False"
            self._taint(name, UNREACHABLE if lost else NOT_READY if told_so else "")

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

    def _taint(self, name: str, key: str) -> None:
        if self.tainted.get(name, "") == key:
            return
        node = self.api.store.get(f"/api/v1/nodes/{name}") or {}
        taints = [one for one in node["spec"].get("taints") or () if one["key"] not in GUARDED]
        if key:
            self.tainted[name] = key
            taints.append({"key": key, "effect": "NoExecute"})
        else:
            del self.tainted[name]
        self.api.ask("node-lifecycle", "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})

    def _evict(self) -> None:
        """The taint eviction controller: what no toleration covers goes at once, else after the shortest of its times.

        Of several tolerations of one taint the first counts. A time begins when the pod is first seen beside the taint.
        """
        now, begun = self.clock(), self.doomed
        self.doomed = {}
        if not self.tainted:
            return
        for pod in self.api.pods():
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            if node not in self.tainted or meta.get("deletionTimestamp"):
                continue
            was, since = begun.get(meta["uid"], ("", now))
            since = since if was == node else now
            self.doomed[meta["uid"]] = (node, since)
            if now - since >= self._stays_s(node, pod):
                self.api.ask("taint-eviction", "DELETE", path_of(pod))

    def _stays_s(self, node: str, pod: Object) -> float:
        kept = self.api.kept(f"/api/v1/nodes/{node}")
        taints = kept.obj["spec"].get("taints") or () if kept is not None else ()
        return min((tolerated_s(pod, one) for one in taints if one["effect"] == "NoExecute"), default=float("inf"))

    # --- pod garbage collector, namespaces ---------------------------------------------------------------------------

    def _collect(self) -> None:
        shown = self.api.store.all(PODS), self.api.store.all(NODES)  # others as soon as anything in them is written
        if not self.orphans and shown[0] is self.collected[0] and shown[1] is self.collected[1]:
            return
        self.collected = shown
        now, nodes = self.clock(), {node["metadata"]["name"] for node in self.api.nodes()}
        for pod in self.api.pods():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            if not node or node in nodes:
                self.orphans.pop(uid, None)
            elif now - self.orphans.setdefault(uid, now) > ORPHAN_S:
                self.api.ask("pod-gc", "DELETE", path_of(pod), {"gracePeriodSeconds": 0})

    def _count_budgets(self) -> None:
        """The disruption controller."""
        for kept in list(self.api.store.all(BUDGETS)):
            told = counted(kept.obj, self.api.pods(kept.obj["metadata"]["namespace"]))
            if told != kept.obj.get("status"):
                self.api.count_budget(kept.obj, told)

    def _empty_namespaces(self) -> None:
        for kept in list(self.api.store.all(NAMESPACES)):
            meta = kept.obj["metadata"]
            if not meta.get("deletionTimestamp"):
                continue
            left = list(self.api.store.all(PODS, meta["name"]))
            for kind in FOLLOWING.values():
                for held in list(self.api.store.all(kind, meta["name"])):
                    path = Place(kind, meta["name"], held.obj["metadata"]["name"], "").path
                    self.api.ask("namespace-controller", "DELETE", path)
            for pod in left:
                if not pod.obj["metadata"].get("deletionTimestamp"):
                    self.api.ask("namespace-controller", "DELETE", path_of(pod.obj))
            if not left:
                path = place_of(f"{NAMESPACES}/{meta['name']}").path
                self.api.ask("namespace-controller", "PATCH", path, {"metadata": {"finalizers": None}})


def _owner(pod: Object) -> str:
    return next((str(ref["uid"]) for ref in pod["metadata"].get("ownerReferences", ()) if ref.get("controller")), "")


def tolerated_s(pod: Object, taint: Object) -> float:
    """How long a pod may stay beside a NoExecute taint: the first toleration that means it says so. Seconds."""
    first = _toleration(pod, taint)
    return 0.0 if first is None else max(0.0, float(first.get("tolerationSeconds", float("inf"))))


def tolerates(pod: Object, taint: Object) -> bool:
    """Whether a pod may be placed beside a taint."""
    return _toleration(pod, taint) is not None


def _toleration(pod: Object, taint: Object) -> Object | None:
    """The first of a pod that means a taint."""
    for one in pod["spec"].get("tolerations") or ():
        value = one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")
        if one.get("key", taint["key"]) == taint["key"] and one.get("effect", "") in ("", taint["effect"]) and value:
            return dict(one)
    return None
