"""What the cluster's policy does to new objects before they are checked: ours, and the built-in ones a pod meets."""

from typing import Protocol

from agents.embedded.apiserver.status import ApiError, Object, forbidden
from dispatcher.model import names

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
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
    if annotations.get(names.SCHEDULE) == "true" and spec.get("schedulerName") == "default-scheduler":
        spec["schedulerName"] = names.SCHEDULER_NAME
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    _priority(obj, reader)
    _tolerations(spec)


def _priority(obj: Object, reader: Reader) -> None:
    spec, name = obj["spec"], obj["spec"].get("priorityClassName", "")
    chosen = reader.find(_CLASSES, name) if name else _usual_class(reader)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    elif name:
        raise _refused(obj, f"no PriorityClass with name {name} was found")
    value = chosen.get("value", 0) if chosen else 0
    if spec.get("priority") not in (None, value):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
        )
        raise _refused(obj, why + f"controller computed {value} from the given PriorityClass name")
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _usual_class(reader: Reader) -> Object | None:
    """The class for pods that name none: of several the one worth least, as the real server chooses."""
    usual = [found for found in reader.list(_CLASSES) if found.get("globalDefault")]
    return min(usual, key=lambda found: found.get("value", 0), default=None)


def _refused(obj: Object, why: str) -> ApiError:
    return forbidden("pods", obj["metadata"].get("name", ""), why)


def _tolerations(spec: Object) -> None:
    """Pods stay on a lost node for a while, unless they say otherwise (DefaultTolerationSeconds)."""
    tolerations = spec.get("tolerations") or []
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            usual = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            tolerations = [*tolerations, usual]
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def node(obj: Object, reader: Reader) -> None:
    """A node that does not say it is Ready takes no pods until it does (TaintNodesByCondition)."""
    conditions = obj["status"].get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    taints = obj["spec"].get("taints") or []
    if not ready and not any(taint.get("key") == NOT_READY for taint in taints):
        obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


def may_delete_namespace(name: str) -> None:
    """The namespaces a cluster is born with stay."""
    if name in _SYSTEM_NAMESPACES:
        raise forbidden("namespaces", name, "this namespace may not be deleted")
