"""A kube-apiserver as far as pods need one: preconditions, patches, binding, two-phase delete, admission.

Independent of the product and of its other fakes; what it does was read in Kubernetes' registry code and seen on real
servers (tests/contract). Admission hooks may change or refuse what is created.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from tests.simulation.world.budgets import BUDGETS, objection, selects, spent
from tests.simulation.world.objects import (
    ENDED,
    Object,
    PatchError,
    Place,
    class_of,
    json_patch,
    merge,
    place_of,
    stamp,
)
from tests.simulation.world.store import Backup, Kept, Store, found

PODS, NODES, NAMESPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"
CONFIG_MAPS, SECRETS = "/api/v1/configmaps", "/api/v1/secrets"
FOLLOWING = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}  # kinds of which objects follow pods
LEASES, EVENTS = "/apis/coordination.k8s.io/v1/leases", "/apis/events.k8s.io/v1/events"
POLICY = "/apis/policy"
PRIORITY_CLASSES, PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses", (10,)  # class_of(10) has value 10
UNSHOWN = (
    *("/apis/metrics.k8s.io", "/apis/storage.k8s.io", POLICY),
    *(f"/apis/scheduling.k8s.io/{rest}" for rest in ("v1/podgroups", "v1alpha", "v1beta")),
    *(f"/apis/scheduling.{api}/" for api in ("x-k8s.io", "sigs.k8s.io", "volcano.sh", "run.ai")),
)
# Kinds of which no world has any. To watch them, too, shows nothing more, and takes as long as all else.
EMPTY = (
    "/api/v1/persistentvolume",
    "/api/v1/services",
    "/api/v1/replicationcontrollers",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
)
# Of every pod for nodes that are gone (300 by default; short here so that a seed is short).
TOLERATION_S = 60
Reply = tuple[int, bytes]
Hook = Callable[[str, Place, Object], Reply | None]  # (actor, where, object): may change it, or refuse it
_JSON_PATCH, _STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"


def status(code: int, message: str, reason: str = "") -> Reply:
    """A metav1 Status."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return code, msgspec.json.encode(body)


_SAID_ALWAYS: dict[str, Reply] = {
    "/version": (200, b'{"gitVersion":"v1.36.0","major":"1","minor":"36"}'),
    # agents may do all
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (201, b'{"status":{"allowed":true}}'),
}


class ApiServer:
    """The API of one cluster. `wall` is its own clock; what begins with one of `hidden` it answers with 404."""

    def __init__(
        self, cluster: str, clock: Callable[[], float], wall: Callable[[], float], hidden: tuple[str, ...] = UNSHOWN
    ) -> None:
        self.cluster, self.wall, self.hidden = cluster, wall, hidden
        self.store = Store(cluster, clock)
        self.hooks: list[Hook] = []
        self.said: Callable[[str, str, Object], None] = lambda *_: None  # (cluster, actor, event)
        for name in ("kube-system", "kube-node-lease", "default"):
            self.add_namespace(name)
        for value in PRIORITIES:
            self.ask("admin", "POST", PRIORITY_CLASSES, {"metadata": {"name": class_of(value)}, "value": value})

    # --- for those who live beside it --------------------------------------------------------------------------------

    def add_namespace(self, name: str) -> None:
        """kubectl create namespace."""
        labels = {"kubernetes.io/metadata.name": name}
        obj = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
        self.ask("admin", "POST", NAMESPACES, obj)

    def ask(
        self,
        actor: str,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/merge-patch+json",
    ) -> Reply:
        """A call by one who is never cut off."""
        return self.handle(actor, method, path, msgspec.json.encode(body) if body is not None else b"", kind)

    def pods(self, namespace: str = "") -> list[Object]:
        """All pods, to be read only."""
        return [kept.obj for kept in self.store.all(PODS, namespace)]

    def nodes(self) -> list[Object]:
        """All nodes, to be read only."""
        return [kept.obj for kept in self.store.all(NODES)]

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle(self, actor: str, method: str, path: str, body: bytes, kind: str, *, limit: int = 0) -> Reply:
        """Do what is asked; (status, JSON). `limit` of a list, 0 for none."""
        if path in _SAID_ALWAYS:
            return _SAID_ALWAYS[path]
        if path.startswith(self.hidden):
            return status(404, "the server could not find the requested resource", "NotFound")
        path, _, query = path.partition("?")
        place = place_of(unquote(path))
        given: Any = msgspec.json.decode(body) if body else {}
        if method == "GET":
            return self._get(place, limit)
        if method == "POST" and query == "dryRun=All":
            return self._tried(actor, place, given)
        if method == "POST":
            return self._post(actor, place, given)
        if method == "PATCH":
            return self._patch(actor, place, given, kind)
        if method == "PUT":
            return self._put(actor, place, given)
        return self._delete(actor, place, given)

    def _get(self, place: Place, limit: int) -> Reply:
        if place.name:
            kept = self.store.kept.get(place.path)
            return (200, kept.raw) if kept else _missing(place)
        return 200, _list(self.store.all(place.resource, place.namespace), self.store.revision, limit)

    def list_of(self, then: Backup, path: str) -> bytes:
        """A list as it was at some moment."""
        wanted = place_of(path)
        return _list(found(then.kept, wanted.resource, wanted.namespace), then.revision)

    def _post(self, actor: str, place: Place, obj: Object) -> Reply:
        if place.sub == "binding":
            return self._bind(actor, place, obj)
        if place.sub == "eviction":
            return self._evict(actor, place, obj)
        if place.resource in {EVENTS, "/api/v1/events"}:
            self.said(self.cluster, actor, obj)
            return 201, msgspec.json.encode(obj)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + self.store.new_uid("x").rpartition("-")[2]
        place = Place(place.resource, place.namespace, meta["name"], "")
        if (closed := self._closed(place.namespace)) is not None:
            return closed
        if place.namespace:
            meta["namespace"] = place.namespace
        if place.path in self.store.kept:
            return status(409, f'{place.resource} "{place.name}" already exists', "AlreadyExists")
        for hook in self.hooks:
            if (refused := hook(actor, place, obj)) is not None:
                return refused
        return self._create(actor, place, obj, meta)

    def _tried(self, actor: str, place: Place, pod: Object) -> Reply:
        """Answer as if a pod was made, and keep nothing."""
        if (closed := self._closed(place.namespace)) is not None:
            return closed
        place = Place(place.resource, place.namespace, pod["metadata"]["name"], "")
        if place.path in self.store.kept:
            return status(409, "it already exists", "AlreadyExists")
        for hook in self.hooks:
            if (refused := hook(actor, place, pod)) is not None:
                return refused
        if (refused := self._prioritise(pod["spec"])) is not None:
            return refused
        pod["metadata"]["uid"], pod["status"] = "of-a-dry-run", {"phase": "Pending"}
        return 201, msgspec.json.encode(pod)

    def _closed(self, namespace: str) -> Reply | None:
        space = self.store.look(f"{NAMESPACES}/{namespace}")
        if not namespace or (space is not None and not space["metadata"].get("deletionTimestamp")):
            return None
        if space is None:
            return status(404, f'namespaces "{namespace}" not found', "NotFound")
        return status(403, f"unable to create new content in namespace {namespace}: being terminated", "Forbidden")

    def _create(self, actor: str, place: Place, obj: Object, meta: Object) -> Reply:
        if place.resource == PODS and (refused := self._prioritise(obj["spec"])) is not None:
            return refused
        plural = place.resource.rpartition("/")[2]
        meta["uid"], meta["creationTimestamp"] = self.store.new_uid(plural[:-1]), stamp(self.wall())
        meta.pop("deletionTimestamp", None)
        if place.resource == PODS:
            obj["status"] = {"phase": "Pending"}
            _tolerate(obj["spec"])
        return 201, self.store.put(place.path, obj, actor, "create").raw

    def _prioritise(self, spec: Object) -> Reply | None:
        """The admission plugin Priority: the value is that of the class; 403 where there is none of the name."""
        name = spec.get("priorityClassName", "")
        made = self.store.look(f"{PRIORITY_CLASSES}/{name}") if name else {"value": 0}
        if made is None:
            return status(403, f"pods is forbidden: no PriorityClass with name {name} was found", "Forbidden")
        spec["priority"] = made["value"]
        return None

    def _bind(self, actor: str, place: Place, body: Object) -> Reply:
        pod = self.store.get(place.path)
        if pod is None:
            return _missing(place)
        meta = pod["metadata"]
        wrong = _precondition(pod, body["metadata"])
        if wrong:
            return wrong
        if meta.get("deletionTimestamp"):
            return status(409, f"pod {place.name} is being deleted, cannot be assigned to a host", "Conflict")
        if pod["spec"].get("nodeName"):
            node = pod["spec"]["nodeName"]
            return status(409, f'pod {place.name} is already assigned to node "{node}"', "Conflict")
        if pod["spec"].get("schedulingGates"):
            return status(409, f"pod {place.name} has non-empty .spec.schedulingGates", "Conflict")
        pod["spec"]["nodeName"] = body["target"]["name"]
        meta["annotations"] = {**meta.get("annotations", {}), **(body["metadata"].get("annotations") or {})}
        told = {"type": "PodScheduled", "status": "True"}
        merge(pod["status"], {"conditions": [told]}, strategic=True)
        self.store.put(place.path, pod, actor, "bind")
        return 201, b'{"kind":"Status","status":"Success"}'

    def _evict(self, actor: str, place: Place, body: Object) -> Reply:
        place = Place(place.resource, place.namespace, place.name, "")
        pod = self.store.look(place.path)
        if pod is not None:
            mine = [kept.obj for kept in self.store.all(BUDGETS, place.namespace) if selects(kept.obj, pod)]
            code, why = objection(pod, mine)
            if code:
                return status(code, why, "TooManyRequests" if code == 429 else "InternalError")
            for budget, told in spent(pod, mine):
                self.count_budget(budget, told)
        return self._delete(actor, place, body.get("deleteOptions", {}))

    def count_budget(self, budget: Object, told: Object) -> None:
        """What a budget allows from now on."""
        path = Place(BUDGETS, budget["metadata"]["namespace"], budget["metadata"]["name"], "").path
        self.store.put(
            path, {**budget, "metadata": dict(budget["metadata"]), "status": told}, "disruption", "put status"
        )

    def _patch(self, actor: str, place: Place, given: Any, kind: str) -> Reply:
        obj = self.store.get(place.path)
        if obj is None:
            return _missing(place)
        if kind == _JSON_PATCH:
            try:
                made = json_patch(obj, given)
            except (PatchError, LookupError, ValueError) as error:
                return status(422, str(error), "Invalid")
        else:
            wrong = _precondition(obj, given.get("metadata") or {})
            if wrong:
                return wrong
            made = msgspec.json.decode(msgspec.json.encode(obj))
            merge(made, given, strategic=kind == _STRATEGIC)
        return self._update(actor, place, obj, made, f"patch {place.sub}".strip())

    def _put(self, actor: str, place: Place, made: Object) -> Reply:
        obj = self.store.get(place.path)
        if obj is None:
            return _missing(place)
        wrong = _precondition(obj, made.get("metadata") or {})
        return wrong or self._update(actor, place, obj, made, f"put {place.sub}".strip())

    def _update(self, actor: str, place: Place, obj: Object, made: Object, verb: str) -> Reply:
        if place.sub == "status":
            made = {**obj, "status": made.get("status", {})}
        elif place.resource == PODS:
            made["status"] = obj["status"]
            old, new = obj["spec"], made["spec"]
            if old.get("nodeName") != new.get("nodeName"):
                return status(422, "spec: Forbidden: pod updates may not change nodeName", "Invalid")
            if any(one not in _but_seconds(new) for one in _but_seconds(old)):
                problem = "existing toleration can not be modified except its tolerationSeconds"
                return status(422, f"spec.tolerations: Forbidden: {problem}", "Invalid")
        elif place.resource in FOLLOWING.values() and (fixed := _unchangeable(obj, made)):
            return status(422, f"{fixed}: Invalid value: field is immutable", "Invalid")
        meta, was = made["metadata"], obj["metadata"]
        for fixed in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name"):
            if fixed in was:
                meta[fixed] = was[fixed]
            else:
                meta.pop(fixed, None)
        added = set(meta.get("finalizers") or ()) - set(was.get("finalizers") or ())
        if was.get("deletionTimestamp") and added:
            return status(422, "metadata.finalizers: Forbidden: no new finalizers can be added", "Invalid")
        kept = self.store.put(place.path, made, actor, verb)
        self.sweep(place.path, actor)
        return 200, kept.raw

    def _delete(self, actor: str, place: Place, options: Object) -> Reply:
        obj = self.store.get(place.path)
        if obj is None:
            return _missing(place)
        wrong = _precondition(obj, options.get("preconditions") or {})
        if wrong:
            return wrong
        meta = obj["metadata"]
        grace = _grace(place, obj, options.get("gracePeriodSeconds"))
        first = "deletionTimestamp" not in meta
        if first or grace < meta.get("deletionGracePeriodSeconds", 0):
            meta.setdefault("deletionTimestamp", stamp(self.wall()))
            meta["deletionGracePeriodSeconds"] = grace
            if place.resource == NAMESPACES:
                obj["status"] = {"phase": "Terminating"}
                meta.setdefault("finalizers", []).append("kubernetes")
            raw = self.store.put(place.path, obj, actor, "delete").raw
        else:
            raw = self.store.kept[place.path].raw
        self.sweep(place.path, actor)
        return 200, raw

    def sweep(self, path: str, actor: str) -> None:
        """Nothing holds it any more: it is gone."""
        meta = self.store.kept[path].obj["metadata"]
        over = meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds")
        if over and not meta.get("finalizers"):
            self.store.remove(path, actor)

    def restore(self, backup: Backup, bump: int = 0) -> None:
        """etcd from a backup."""
        self.store.restore(backup, bump)

    def kept(self, path: str) -> Kept | None:
        """What is stored there."""
        return self.store.kept.get(path)


def _unchangeable(obj: Object, made: Object) -> str:
    """The field of a ConfigMap or Secret that may not be what it is made, '' for none."""
    fixed = ("data", "binaryData", "immutable") if obj.get("immutable") else ()
    return next((one for one in ("type", *fixed) if obj.get(one) != made.get(one)), "")


def _grace(place: Place, obj: Object, asked: int | None) -> int:
    if place.resource != PODS or not obj["spec"].get("nodeName") or obj["status"].get("phase") in ENDED:
        return 0
    own = obj["spec"].get("terminationGracePeriodSeconds", 30)
    return int(own if asked is None else asked)


def _list(found: Sequence[Kept], revision: int, limit: int = 0) -> bytes:
    """All; or the first and the number of the others, for one who wants to know no more. There are no other pages."""
    more = b""
    if limit == 1 and len(found) > 1:
        more = b',"continue":"more","remainingItemCount":%d' % (len(found) - 1)
        found = found[:1]
    items = b",".join(kept.raw for kept in found)
    return b'{"kind":"List","metadata":{"resourceVersion":"%d"%s},"items":[%s]}' % (revision, more, items)


def _missing(place: Place) -> Reply:
    return status(404, f'{place.resource} "{place.name}" not found', "NotFound")


def _precondition(obj: Object, given: Object) -> Reply | None:
    meta = obj["metadata"]
    if given.get("uid") not in (None, "", meta["uid"]):
        return status(409, f"Precondition failed: UID in precondition: {given['uid']}", "Conflict")
    if given.get("resourceVersion") not in (None, "", meta["resourceVersion"]):
        return status(409, "the object has been modified; please apply your changes to the latest version", "Conflict")
    return None


def _but_seconds(spec: Object) -> list[Object]:
    """Tolerations without their times, which alone may change."""
    return [{**one, "tolerationSeconds": None} for one in spec.get("tolerations") or ()]


def _tolerate(spec: Object) -> None:
    """The admission plugin DefaultTolerationSeconds."""
    given = spec.get("tolerations") or []
    for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key", taint) == taint and one.get("effect") in (None, "", "NoExecute") for one in given):
            default = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            given = [*given, default]
    spec["tolerations"] = given
