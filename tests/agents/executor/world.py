"""A small API server for the executor's tests: versions, preconditions, finalizers, two-phase delete.

It is an independent model of what the executor relies on, and it records what was really done.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor.context.local import Local, Moment
from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.intents.delegate import delegate_name
from agents.executor.intents.procedures import carry_out
from agents.kube.convert import pod_seen
from agents.kube.nodes import node_seen
from agents.kube.objects import KINDS
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.mark_verifier import MarkVerifier
from agents.observer.seen import NODES, PODS, ObjectSeen, PodSeen
from agents.runtime.executor_loop import read_pod
from shared.kube.http import STRATEGIC_PATCH, Procedure, Request, Response
from shared.messages import AnyIntent, CreateDelegate, Outcome, Peer, PodRef
from shared.model import names
from shared.model.objects import (
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
)
from shared.model.pod import SourceRef
from shared.security.keys import OwnKeys
from shared.security.signatures import SignedClaim, digest_of
from tests.simulation.world.objects import merge

Object = dict[str, Any]
T = TypeVar("T")
NOW = Moment(mono=1000.0, wall=1_700_000_000.0)
NAMESPACES, BUDGETS = Namespace.__name__, PodDisruptionBudget.__name__
CLASSES = PriorityClass.__name__
CONTROLLERS = (ReplicaSet.__name__, ReplicationController.__name__, DaemonSet.__name__)


def pod_object(name: str = "web", namespace: str = "default", *, cpu: str = "100m", **spec: Any) -> Object:
    """A pod of ours as a user submits it."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def node_object(name: str = "n1", *, cpu: str = "1", pods: str = "10", ready: bool = True, **spec: Any) -> Object:
    """A Ready node."""
    resources = {"cpu": cpu, "memory": "4Gi", "pods": pods}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions},
    }


def proxy_object(cluster: str) -> Object:
    """The proxy node of another cluster."""
    node = node_object(names.proxy_node_name(cluster))
    node["metadata"]["labels"][names.PROXY_LABEL] = cluster
    return node


class ApiModel:
    """Pods, nodes, leases and events of one cluster. `done` lists the effects: (verb, what, uid or detail)."""

    def __init__(self, cluster: str = "a", namespaces: Iterable[str] = ("default",)) -> None:
        self.cluster = cluster
        self.namespaces = set(namespaces)
        self.namespace_labels: dict[str, dict[str, str]] = {}
        self.namespace_annotations: dict[str, dict[str, str]] = {}
        self.objects: dict[str, Object] = {}
        self.done: list[tuple[str, str, str]] = []
        self.budgets_spent = False
        self.lacks: set[str] = set()  # subresources that it does not serve
        self.refuses: Callable[[Object], str] = lambda body: ""  # why admission refuses a patch of a pod
        self._version = 0

    def put(self, path: str, obj: Object) -> Object:
        """Store an object as its owner would."""
        obj = msgspec.json.decode(msgspec.json.encode(obj))
        obj["metadata"].setdefault("uid", f"{self.cluster}-{self._version}-uid")
        self.objects[path] = obj
        return self._stamp(obj)

    def put_pod(self, obj: Object) -> PodRef:
        """Store a pod and say which it is."""
        meta = obj["metadata"]
        stored = self.put(pod_path(meta["name"], meta["namespace"]), obj)
        return PodRef(meta["namespace"], meta["name"], stored["metadata"]["uid"])

    def put_node(self, obj: Object) -> None:
        """Store a node."""
        self.put(f"/api/v1/nodes/{obj['metadata']['name']}", obj)

    def put_class(self, name: str, value: int, **fields: Any) -> None:
        """Store a PriorityClass."""
        self.put(f"{_CLASSES}/{name}", {"metadata": {"name": name}, "value": value, **fields})

    def pod(self, name: str, namespace: str = "default") -> Object | None:
        """The pod of this name, or None."""
        return self.objects.get(pod_path(name, namespace))

    def pods(self) -> list[Object]:
        """All pods."""
        return [obj for path, obj in self.objects.items() if "/pods/" in path]

    def count(self, verb: str) -> int:
        """How often something was really done."""
        return sum(1 for done in self.done if done[0] == verb)

    def answer(self, request: Request) -> Response:
        """Do what is asked, as a kube-apiserver would."""
        handle = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }[request.method]
        body = msgspec.json.decode(request.body) if request.body else {}
        return handle(unquote(request.path), body, request.content_type)

    def _get(self, path: str, body: Object, kind: str) -> Response:
        if path.endswith(("/pods", "/configmaps")):
            return _ok({"items": self._listed(*path.rsplit("/", 1))})
        if path == "/api/v1/namespaces":
            told = self.namespace_annotations
            named = [{"metadata": {"name": one, "annotations": told.get(one, {})}} for one in sorted(self.namespaces)]
            return _ok({"items": named})
        obj = self.objects.get(path)
        return _ok(obj) if obj is not None else _error(404, f"{path} not found")

    def _listed(self, where: str, plural: str) -> list[Object]:
        return [
            obj for path, obj in self.objects.items() if path.startswith(f"{where}/") and path.split("/")[-2] == plural
        ]

    def _put(self, path: str, body: Object, kind: str) -> Response:
        obj = self.objects.get(path)
        if obj is None:
            return _error(404, f"{path} not found")
        if any(body["metadata"][one] != obj["metadata"][one] for one in ("uid", "resourceVersion")):
            return _error(409, "the object has been modified; please apply your changes to the latest version")
        self.objects[path] = body
        self.done.append(("put", path, body["metadata"]["uid"]))
        return _ok(self._stamp(body))

    def _post(self, path: str, body: Object, kind: str) -> Response:
        if path.endswith("/binding"):
            return self._bind(path.removesuffix("/binding"), body)
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"), body)
        space = path.split("/")[4] if "/api/v1/namespaces/" in path else ""
        if space and space not in self.namespaces:
            return _error(404, f'namespaces "{space}" not found')
        path, _, query = path.partition("?")
        path = f"{path}/{body['metadata']['name']}"
        if path in self.objects:
            return _error(409, f"{path} already exists")
        if named := body.get("spec", {}).get("priorityClassName"):
            found = self.objects.get(f"{_CLASSES}/{named}")
            if found is None:
                return _error(403, f"no PriorityClass with name {named} was found")
            body["spec"]["priority"] = found["value"]
        body["metadata"].pop("uid", None)
        body.setdefault("status", {"phase": "Pending"})
        if query == "dryRun=All":
            body["metadata"]["uid"] = "of-a-dry-run"
            return _ok(body, 201)
        stored = self.put(path, body)
        self.done.append(("create", path, stored["metadata"]["uid"]))
        return _ok(stored, 201)

    def _evict(self, path: str, body: Object) -> Response:
        if self.budgets_spent and path in self.objects:
            details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods and has 2"}]}
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            return Response(429, msgspec.json.encode({"message": text, "details": details}))
        done = self._delete(path, body["deleteOptions"], "")
        return _ok({"kind": "Status", "status": "Success"}, 201) if done.ok else done

    def _bind(self, path: str, body: Object) -> Response:
        pod = self.objects.get(path)
        if pod is None:
            return _error(404, f"{path} not found")
        meta = pod["metadata"]
        if body["metadata"].get("uid", meta["uid"]) != meta["uid"]:
            return _error(409, "Precondition failed: UID in precondition")
        if body["metadata"].get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            return _error(409, "Precondition failed: ResourceVersion in precondition")
        if meta.get("deletionTimestamp"):
            return _error(409, f"pod {meta['name']} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            return _error(409, f'pod {meta["name"]} is already assigned to node "{pod["spec"]["nodeName"]}"')
        pod["spec"]["nodeName"] = body["target"]["name"]
        meta["annotations"] = {**meta.get("annotations", {}), **body["metadata"].get("annotations", {})}
        merge(pod["status"], {"conditions": [{"type": "PodScheduled", "status": "True"}]}, strategic=True)
        self._stamp(pod)
        self.done.append(("bind", meta["uid"], body["target"]["name"]))
        return _ok({"kind": "Status", "status": "Success"}, 201)

    def _patch(self, path: str, body: Object, kind: str) -> Response:
        base, part = path, ""
        for one in ("status", "ephemeralcontainers", "resize"):
            if path.endswith(f"/{one}"):
                base, part = path.removesuffix(f"/{one}"), one
        obj = self.objects.get(base)
        if obj is None or part in self.lacks:
            return _error(404, f"{base} not found")
        given, meta = body.pop("metadata", {}), obj["metadata"]
        if given.get("uid", meta["uid"]) != meta["uid"]:
            return _error(409, "Precondition failed: UID in precondition")
        if given.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            return _error(409, "the object has been modified; please apply your changes to the latest version")
        if part in ("ephemeralcontainers", "resize"):
            given = {}
        if part == "" and (why := self.refuses(body)):
            return _error(403, why)
        phase = obj.get("status", {}).get("phase")
        merge(meta, given, strategic=kind == STRATEGIC_PATCH)
        merge(obj, body, strategic=kind == STRATEGIC_PATCH)
        self._stamp(obj)
        if part in ("ephemeralcontainers", "resize"):
            self.done.append((part, meta["uid"], ""))
        else:
            self.done.append(("patch", meta["uid"], f"{phase}>{obj.get('status', {}).get('phase')}"))
        self._sweep(base)
        return _ok(obj)

    def _delete(self, path: str, body: Object, kind: str) -> Response:
        obj = self.objects.get(path)
        if obj is None:
            return _error(404, f"{path} not found")
        meta = obj["metadata"]
        only = body.get("preconditions", {})
        if only.get("uid", meta["uid"]) != meta["uid"]:
            return _error(409, "Precondition failed: UID in precondition")
        if only.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            return _error(409, "Precondition failed: ResourceVersion in precondition")
        ended = obj.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        running = obj.get("spec", {}).get("nodeName") and not ended
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        meta["deletionGracePeriodSeconds"] = body.get("gracePeriodSeconds", 30) if running else 0
        self._stamp(obj)
        self.done.append(("delete", meta["uid"], path))
        self._sweep(path)
        return _ok(obj)

    def _sweep(self, path: str) -> None:
        meta = self.objects[path]["metadata"]
        if meta.get("deletionTimestamp") and meta["deletionGracePeriodSeconds"] == 0 and not meta.get("finalizers"):
            self.done.append(("gone", meta["uid"], path))
            del self.objects[path]

    def kubelet_stops(self) -> None:
        """Every pod on a real node whose deletion has begun really ends."""
        for path, obj in list(self.objects.items()):
            node = obj.get("spec", {}).get("nodeName", "")
            if obj["metadata"].get("deletionTimestamp") and not node.startswith(names.PROXY_NODE_PREFIX):
                obj["metadata"]["deletionGracePeriodSeconds"] = 0
                self._sweep(path)

    def _stamp(self, obj: Object) -> Object:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        return obj


_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod_path(name: str, namespace: str = "default") -> str:
    """Where a pod is stored."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _ok(obj: Object, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(obj))


def _error(status: int, message: str) -> Response:
    return Response(status, msgspec.json.encode({"kind": "Status", "status": "Failure", "message": message}))


class World:
    """An executor beside its API server. The view shows what the server had at the last `sync`."""

    def __init__(
        self, *nodes: Object, cluster: str = "a", peers: tuple[str, ...] = (), policy: ExecutorPolicy | None = None
    ) -> None:
        self.api = ApiModel(cluster)
        for node in nodes or (node_object(),):
            self.api.put_node(node)
        for peer in peers:
            self.api.put_node(proxy_object(peer))
        self.policy, self.peers = policy or ExecutorPolicy(), tuple(Peer(peer, ready=True) for peer in peers)
        self.restart()

    def restart(self, *, listed: bool = True) -> None:
        """A new life of the executor: nothing remembered, everything listed (or nothing yet)."""
        self.cache = ClusterCache(ChangeLog(), (NAMESPACES, BUDGETS, CLASSES, *CONTROLLERS))
        cluster = self.api.cluster
        self.local = Local(self.cache, cluster, read_pod, keys_of(cluster), f"{cluster}-cluster-uid", self.policy)
        for other in ("a", "b", "c"):
            self.local.trusted.trust(other, f"{other}-cluster-uid", keys_of(other).endorsed_keys())
        self.local.peers.update(self.peers, NOW.mono)
        if listed:
            self.sync()

    def sync(self) -> None:
        """The watch catches up."""
        show(self.api, self.cache, MarkVerifier(self.local.keys.public))

    def submit(self, obj: Object | None = None) -> PodRef:
        """A user creates a pod, and the view shows it."""
        ref = self.api.put_pod(obj or pod_object())
        self.sync()
        return ref

    def do(self, intent: AnyIntent, now: Moment = NOW, *, dispatcher_epoch: int = 1) -> Outcome:
        """Carry out one intent on a server without faults."""
        return run(carry_out(intent, dispatcher_epoch, self.local, now), self.api.answer)


@lru_cache(maxsize=64)
def keys_of(cluster: str) -> OwnKeys:
    """The key pair of a cluster: the same in each test."""
    return OwnKeys([Ed25519PrivateKey.from_private_bytes(sha256(cluster.encode()).digest())])


# Most of what is listed anew has not changed, and what is seen of an object cannot be.
_object_seen = {kind.name: kind.seen for kind in KINDS}
_node_seen, _pod_seen = lru_cache(2**14)(node_seen), lru_cache(2**14)(pod_seen)


def show(api: ApiModel, cache: ClusterCache, authenticity: MarkVerifier | None = None) -> None:
    """List all kinds anew, as the agent does: what its cluster has not signed is not believed."""
    judge = authenticity or MarkVerifier(keys_of(api.cluster).public)
    if NAMESPACES in cache.kinds:
        cache.begin(NAMESPACES)
        cache.page(NAMESPACES, [ObjectSeen(_namespace(api, name), 0) for name in sorted(api.namespaces)])
        cache.end(NAMESPACES)
    shown = (BUDGETS, CLASSES, *CONTROLLERS)
    for kind, part in ((kind, f"/{kind.lower()}{'es' if kind == CLASSES else 's'}/") for kind in shown):
        if kind in cache.kinds:
            cache.begin(kind)
            raws = [msgspec.json.encode(obj) for path, obj in api.objects.items() if part in path]
            cache.page(kind, filter(None, map(_object_seen[kind], raws)))
            cache.end(kind)
    for kind, part, see in ((NODES, "/nodes/", _node_seen), (PODS, "/pods/", _pod_seen)):
        cache.begin(kind)
        raws = [msgspec.json.encode(obj) for path, obj in api.objects.items() if part in path]
        found = [seen for raw in raws if (seen := see(raw)) is not None]
        cache.page(kind, [judge.verify(seen)[0] if isinstance(seen, PodSeen) else seen for seen in found])
        cache.end(kind)


def _namespace(api: ApiModel, name: str) -> Namespace:
    return Namespace(name, api.namespace_labels.get(name, {}))


def run(procedure: Procedure[T], answer: Callable[[Request], Response]) -> T:
    """Drive a procedure to its end."""
    try:
        request = next(procedure)
        while True:
            request = procedure.send(answer(request))
    except StopIteration as end:
        result: T = end.value
        return result


def scripted(*responses: Response | int, then: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Answers these first (a number stands for an empty answer of that status), then what `then` answers."""
    waiting = list(responses)

    def answer(request: Request) -> Response:
        if not waiting:
            return then(request)
        first = waiting.pop(0)
        return first if isinstance(first, Response) else Response(first)

    return answer


def lost_reply(answer: Callable[[Request], Response], method: str, nth: int = 1) -> Callable[[Request], Response]:
    """The nth request of this method takes effect, but its answer is lost."""
    seen: list[Request] = []

    def faulty(request: Request) -> Response:
        response = answer(request)
        if request.method == method:
            seen.append(request)
            if len(seen) == nth:
                return Response(0, b"reset")
        return response

    return faulty


def source_of(ref: PodRef, epoch: int, cluster: str = "a") -> SourceRef:
    """The source of a delegate, from cluster 'a' unless said otherwise."""
    return SourceRef(cluster, f"{cluster}-cluster-uid", ref.namespace, ref.name, ref.uid, epoch)


def order_for(
    ref: PodRef, epoch: int, node: str, manifest: bytes, *, target: str = "b", cluster: str = "a"
) -> CreateDelegate:
    """The order to make the delegate of a pod of `cluster`, with the claim that this cluster has signed for it."""
    source = source_of(ref, epoch, cluster)
    signed = SignedClaim(source, target, f"{target}-cluster-uid", node, digest_of(manifest))
    return CreateDelegate("i", ref, epoch, source, node, manifest, record=keys_of(cluster).sign_claim(signed))


def delegate_of(ref: PodRef) -> str:
    """Name of the delegate of a source pod of cluster 'a'."""
    return delegate_name(source_of(ref, 0))
