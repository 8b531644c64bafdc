"""What the cluster's policy does to new objects before they are checked: ours, and the built-in
ones a pod meets.
"""

from typing import Protocol

from localfleet.embedded.apiserver.status import ApiError, Object, forbidden
from localfleet.embedded.apiserver.validate.topology import topology_labels
from shared.model import names

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_STORAGE_CLASSES = "storageclasses.storage.k8s.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASSES = "priorityclasses.scheduling.k8s.io"
_TOLERATION_SECONDS = 300
_SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class Reader(Protocol):
    """What a policy may look at."""

    def find(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """One object, None if there is none."""

    def list(self, resource: str) -> list[Object]:
        """All objects of a resource."""


def nothing(obj: Object, reader: Reader) -> None:
    """Kinds that no policy touches."""


def pod(obj: Object, reader: Reader) -> None:
    """A new pod: our schedulerName for our annotation, its priority, account and usual tolerations."""
    spec = obj["spec"]
    annotations = obj["metadata"].get("annotations") or {}
    ours_to_place = spec.get("schedulerName") == "default-scheduler" and not spec.get("nodeName")
    if annotations.get(names.SCHEDULE) == "true" and ours_to_place:
        spec["schedulerName"] = names.SCHEDULER_NAME
    _machinery(obj)
    _account(obj, reader)
    _priority(obj, reader)
    _tolerations(spec)
    if spec.get("nodeName"):
        topology = topology_labels(reader.find("nodes", spec["nodeName"]))
        if topology:
            obj["metadata"]["labels"] = (obj["metadata"].get("labels") or {}) | topology


_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_FIELD: Object = {
    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    "path": "namespace",
}
_TOKEN_SOURCES: list[Object] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [_FIELD]}},
]


def _account(obj: Object, reader: Reader) -> None:
    """Its service account, which must be there, and the account's token in every container
    (ServiceAccount).
    """
    spec = obj["spec"]
    meta = obj["metadata"]
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = reader.find("serviceaccounts", name, meta["namespace"])
    if account is None:
        where = f"{meta['namespace']}/{name}"
        raise _refused(
            obj, f'error looking up service account {where}: serviceaccount "{name}" not found'
        )
    wanted = spec.get(
        "automountServiceAccountToken", account.get("automountServiceAccountToken", True)
    )
    containers = [
        container
        for group in ("containers", "initContainers")
        for container in spec.get(group) or ()
    ]
    bare = [container for container in containers if not _mounts_token(container)]
    if not wanted or not bare:
        return
    # The real server draws five letters; here they follow from the pod, so that the same pod is
    # made twice alike.
    volume = "kube-api-access-" + meta["uid"][:5]
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        {"name": volume, "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}},
    ]
    for container in bare:
        mount = {"name": volume, "readOnly": True, "mountPath": _ACCOUNT_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _mounts_token(container: Object) -> bool:
    return any(
        mount.get("mountPath") == _ACCOUNT_PATH for mount in container.get("volumeMounts") or ()
    )


def _machinery(obj: Object) -> None:
    """No RuntimeClass is served here, and overhead is a RuntimeClass's to say (RuntimeClass)."""
    spec = obj["spec"]
    if spec.get("runtimeClassName"):
        raise _refused(obj, f'pod rejected: RuntimeClass "{spec["runtimeClassName"]}" not found')
    if spec.get("overhead"):
        raise _refused(
            obj,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        )


def _priority(obj: Object, reader: Reader) -> None:
    spec = obj["spec"]
    name = obj["spec"].get("priorityClassName", "")
    chosen = reader.find(_CLASSES, name) if name else _usual_class(reader)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    elif name:
        raise _refused(obj, f"no PriorityClass with name {name} was found")
    value = chosen.get("value", 0) if chosen else 0
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod "
            "spec; priority admission "
        )
        raise _refused(obj, why + f"controller computed {value} from the given PriorityClass name")
    spec["priority"] = value
    policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.setdefault("preemptionPolicy", policy) != policy:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            "provided in pod spec; "
        )
        raise _refused(
            obj,
            f"{why}priority admission controller computed {policy} from the given PriorityClass "
            "name",
        )


def _usual_class(reader: Reader) -> Object | None:
    """The class for pods that name none: of several the one worth least, as the real server
    chooses.
    """
    usual = [found for found in reader.list(_CLASSES) if found.get("globalDefault")]
    return min(usual, key=lambda found: found.get("value", 0), default=None)


def _refused(obj: Object, why: str) -> ApiError:
    return forbidden("pods", obj["metadata"].get("name", ""), why)


def _tolerations(spec: Object) -> None:
    """Pods stay on a lost node for a while, unless they say otherwise (DefaultTolerationSeconds)."""
    tolerations = spec.get("tolerations") or []
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            usual = {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _TOLERATION_SECONDS,
            }
            tolerations = [*tolerations, usual]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "",
        "NoExecute",
    )


def claim(obj: Object, reader: Reader) -> None:
    """A claim that names no class gets the default one: of several the youngest
    (DefaultStorageClass).
    """
    if obj["spec"].get("storageClassName") is not None:
        return
    usual = [
        found
        for found in reader.list(_STORAGE_CLASSES)
        if _annotation(found, _DEFAULT_CLASS) == "true"
    ]
    if usual:
        youngest = max(
            usual,
            key=lambda found: (found["metadata"]["creationTimestamp"], found["metadata"]["name"]),
        )
        obj["spec"]["storageClassName"] = youngest["metadata"]["name"]


def _annotation(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def node(obj: Object, reader: Reader) -> None:
    """A new node takes no pods until a controller has seen it Ready (TaintNodesByCondition)."""
    taints = obj["spec"].get("taints") or []
    if not any(taint.get("key") == NOT_READY for taint in taints):
        obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


def may_delete_namespace(name: str) -> None:
    """The namespaces a cluster is born with stay."""
    if name in _SYSTEM_NAMESPACES:
        raise forbidden("namespaces", name, "this namespace may not be deleted")
