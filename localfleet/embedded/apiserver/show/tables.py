"""Tables as kubectl shows them, after kube-apiserver's own printers; of other resources name and
age.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from localfleet.embedded.apiserver.metadata import seconds
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show import tables_pod
from localfleet.embedded.apiserver.show.scale import selector_text
from localfleet.embedded.apiserver.status import Object
from localfleet.embedded.apiserver.validate.validation import dig

NONE = "<none>"
Cells = list[Any]


class Layout(NamedTuple):
    """Columns as "Name", or "Name*" for those of `-o wide` alone, and the cells of one object at
    `now`.
    """

    columns: tuple[str, ...]
    cells: Callable[[Object, float], Cells]


def age(obj: Object, now: float) -> str:
    """How long ago an object was created."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(text: str | None, now: float) -> str:
    """How long ago a timestamp was."""
    return duration(now - seconds(text)) if text else "<unknown>"


def duration(span_s: float) -> str:
    """A span as kubectl writes it: 5s, 3m20s, 4h, 2d5h, 3y (apimachinery's HumanDuration)."""
    total = int(span_s)
    if total < -1:
        return "<invalid>"
    if total < 120:
        return f"{max(total, 0)}s"
    for limit, unit, letter, below, small in _SPANS:
        if total < limit:
            rest = total % unit // below if below else 0
            return f"{total // unit}{letter}" + (f"{rest}{small}" if rest else "")
    return f"{total // _YEAR}y"


_DAY = 86400
_YEAR = 365 * 86400
# up to these seconds: whole units and, if any, the rest in smaller ones
_SPANS = (
    (600, 60, "m", 1, "s"),
    (3 * 3600, 60, "m", 0, ""),
    (8 * 3600, 3600, "h", 60, "m"),
    (48 * 3600, 3600, "h", 0, ""),
    (8 * _DAY, _DAY, "d", 3600, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def _name_age(obj: Object, now: float) -> Cells:
    return [obj["metadata"]["name"], age(obj, now)]


def _namespace(obj: Object, now: float) -> Cells:
    return [obj["metadata"]["name"], dig(obj, "status.phase") or "", age(obj, now)]


def _counted(*parts: str) -> Callable[[Object, float], Cells]:
    def cells(obj: Object, now: float) -> Cells:
        return [
            obj["metadata"]["name"],
            sum(len(obj.get(part) or {}) for part in parts),
            age(obj, now),
        ]

    return cells


def _secret(obj: Object, now: float) -> Cells:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


_OLD_ROLE = "kubernetes.io/role"
_ROLE = "node-role.kubernetes.io/"


def _node(obj: Object, now: float) -> Cells:
    status = obj.get("status") or {}
    info = dig(obj, "status.nodeInfo") or {}
    ready = [
        condition for condition in status.get("conditions") or () if condition["type"] == "Ready"
    ]
    states = [
        ("Ready" if condition["status"] == "True" else "NotReady") for condition in ready
    ] or ["Unknown"]
    if dig(obj, "spec.unschedulable"):
        states.append("SchedulingDisabled")
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    roles |= {labels[_OLD_ROLE]} if labels.get(_OLD_ROLE) else set()
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    addresses = {
        address["type"]: address["address"] for address in reversed(status.get("addresses") or [])
    }
    return [
        *(
            obj["metadata"]["name"],
            ",".join(states),
            ",".join(sorted(roles)) or NONE,
            age(obj, now),
        ),
        *(
            info.get("kubeletVersion", ""),
            addresses.get("InternalIP", NONE),
            addresses.get("ExternalIP", NONE),
        ),
        *(
            info.get("osImage") or "<unknown>",
            kernel,
            info.get("containerRuntimeVersion") or "<unknown>",
        ),
    ]


def _event(obj: Object, now: float) -> Cells:
    about = obj.get("involvedObject") or {}
    source = obj.get("source") or {}
    series = obj.get("series") or {}
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    if series:
        last = since(series.get("lastObservedTime"), now)
    count = series.get("count") or obj.get("count") or 1
    who = source.get("component") or obj.get("reportingComponent", "")
    where = source.get("host") or obj.get("reportingInstance", "")
    target = about.get("kind", "").lower() + (f"/{about['name']}" if about.get("name") else "")
    return [
        *(last, obj.get("type", ""), obj.get("reason", ""), target, about.get("fieldPath", "")),
        *(", ".join(filter(None, (who, where))), obj.get("message", "").strip(), first, count),
        obj["metadata"]["name"],
    ]


def _containers(obj: Object) -> Cells:
    containers = dig(obj, "spec.template.spec.containers") or []
    return [
        ",".join(container.get(key, "") for container in containers) for key in ("name", "image")
    ]


def _selector(obj: Object) -> str:
    return selector_text(dig(obj, "spec.selector")) or NONE


def _deployment(obj: Object, now: float) -> Cells:
    spec = obj["spec"]
    status = obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [
        obj["metadata"]["name"],
        ready,
        *counts,
        age(obj, now),
        *_containers(obj),
        _selector(obj),
    ]


def _replica_set(obj: Object, now: float) -> Cells:
    status = obj.get("status") or {}
    counts = [
        obj["spec"].get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
    ]
    return [obj["metadata"]["name"], *counts, age(obj, now), *_containers(obj), _selector(obj)]


# the first condition that holds names the state
_JOB_STATES: tuple[tuple[str, str], ...] = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("Suspended", "Suspended"),
)
_JOB_STATES += (("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"))


def _job(obj: Object, now: float) -> Cells:
    spec = obj["spec"]
    status = obj.get("status") or {}
    true = {
        condition["type"]
        for condition in status.get("conditions") or ()
        if condition["status"] == "True"
    }
    states = [word for kind, word in _JOB_STATES if kind in true]
    if obj["metadata"].get("deletionTimestamp") and not true & {"Complete", "Failed"}:
        states = ["Terminating"]
    done = status.get("succeeded", 0)
    parallel = spec.get("parallelism", 0)
    of = spec.get("completions", f"1 of {parallel}" if parallel > 1 else 1)
    took = ""
    if status.get("startTime"):
        ended = seconds(status["completionTime"]) if status.get("completionTime") else now
        took = duration(ended - seconds(status["startTime"]))
    state = states[0] if states else "Running"
    return [
        obj["metadata"]["name"],
        state,
        f"{done}/{of}",
        took,
        age(obj, now),
        *_containers(obj),
        _selector(obj),
    ]


def _lease(obj: Object, now: float) -> Cells:
    return [obj["metadata"]["name"], dig(obj, "spec.holderIdentity") or "", age(obj, now)]


def _budget(obj: Object, now: float) -> Cells:
    bounds = [_shown(dig(obj, f"spec.{key}")) for key in ("minAvailable", "maxUnavailable")]
    return [
        obj["metadata"]["name"],
        *bounds,
        dig(obj, "status.disruptionsAllowed") or 0,
        age(obj, now),
    ]


def _shown(value: Any) -> str:
    return "N/A" if value is None else str(value)


def _pod(obj: Object, now: float) -> Cells:
    restarts, last = tables_pod.restarts(obj)
    shown = f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)
    ready = tables_pod.readiness(obj)
    reason = tables_pod.reason(obj)
    return [obj["metadata"]["name"], ready, reason, shown, age(obj, now), *tables_pod.wide(obj)]


_WIDE = ("Containers*", "Images*", "Selector*")
_DATA = Layout(("Name", "Data", "Age"), _counted("data", "binaryData"))
_PLAIN = Layout(("Name", "Age"), _name_age)
_POD = (
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "IP*",
    "Node*",
    "Nominated Node*",
    "Readiness Gates*",
)
_NODE = (
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "Internal-IP*",
    "External-IP*",
    "OS-Image*",
    "Kernel-Version*",
)
_EVENT = (
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "Subobject*",
    "Source*",
    "Message",
    "First Seen*",
    "Count*",
    "Name*",
)

LAYOUTS: dict[str, Layout] = {
    "configmaps": _DATA,
    "deployments.apps": Layout(("Name", "Ready", "Up-to-date", "Available", "Age", *_WIDE), _deployment),
    "events": Layout(_EVENT, _event),
    "jobs.batch": Layout(("Name", "Status", "Completions", "Duration", "Age", *_WIDE), _job),
    "leases.coordination.k8s.io": Layout(("Name", "Holder", "Age"), _lease),
    "namespaces": Layout(("Name", "Status", "Age"), _namespace),
    "nodes": Layout((*_NODE, "Container-Runtime*"), _node),
    "poddisruptionbudgets.policy": Layout(
        ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget
    ),
    "pods": Layout(_POD, _pod),
    "replicasets.apps": Layout(("Name", "Desired", "Current", "Ready", "Age", *_WIDE), _replica_set),
    "secrets": Layout(("Name", "Type", "Data", "Age"), _secret),
}  # fmt: skip
_INTEGERS = frozenset({"Allowed Disruptions", "Desired", "Current"})


def layout(row: Resource) -> Layout:
    """The layout of a resource; name and age where it has none of its own."""
    return LAYOUTS.get(row.stored_as or row.key, _PLAIN)


def definitions(row: Resource) -> list[Object]:
    """metav1.TableColumnDefinition of every column; priority 1 is shown by `-o wide` alone."""
    return [
        {
            "name": name.rstrip("*"),
            "type": "integer" if name in _INTEGERS else "string",
            "format": "name" if name.rstrip("*") == "Name" else "",
            "description": "",
            "priority": 1 if name.endswith("*") else 0,
        }
        for name in layout(row).columns
    ]
