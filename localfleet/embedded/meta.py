"""Reading and writing what every Kubernetes object has: times, conditions, owners, selectors."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shared.model.labels import LabelSelector, Requirement

Object = dict[str, Any]


def stamp(now: float) -> str:
    """Unix seconds as a metav1.Time: whole seconds, UTC."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(now: float) -> str:
    """Unix seconds as a metav1.MicroTime, as leases and events carry it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: str | None) -> float:
    """A metav1.Time or MicroTime as unix seconds; 0.0 for none or one that cannot be read."""
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def condition(obj: Object, kind: str) -> Object:
    """The status condition of type `kind`; an empty one with status "" when there is none."""
    for entry in obj.get("status", {}).get("conditions") or ():
        if entry.get("type") == kind:
            found: Object = entry
            return found
    return {"type": kind, "status": ""}


def with_condition(
    conditions: list[Object], new: Object, now: float, *, touched: str = ""
) -> list[Object]:
    """`conditions` with `new` in place of the one of its type.

    lastTransitionTime moves only when the status changes. `touched` names a second time field
    (lastUpdateTime, lastHeartbeatTime) that moves whenever the entry is written anew.
    """
    kept = [entry for entry in conditions if entry.get("type") != new["type"]]
    old = next((entry for entry in conditions if entry.get("type") == new["type"]), None)
    same_status = old is not None and old.get("status") == new["status"]
    since = old.get("lastTransitionTime") if old is not None and same_status else None
    entry = {**new, "lastTransitionTime": since or stamp(now)}
    if touched:
        unchanged = old is not None and all(old.get(key) == value for key, value in new.items())
        entry[touched] = (
            old.get(touched, stamp(now)) if old is not None and unchanged else stamp(now)
        )
    return [*kept, entry]


def is_ready(obj: Object) -> bool:
    """Whether the Ready condition of a pod or node is True."""
    return bool(condition(obj, "Ready")["status"] == "True")


def is_terminating(obj: Object) -> bool:
    """Whether deletion has been asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_finished(pod: Object) -> bool:
    """Whether the pod has ended, in whatever way."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def controller_of(obj: Object) -> Object | None:
    """The owner reference with controller=true."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controller_reference(owner: Object, api_version: str, kind: str) -> Object:
    """The owner reference by which `owner` controls what it makes."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def label_selector(raw: Mapping[str, Any] | None) -> LabelSelector:
    """A metav1 LabelSelector; none or an empty one matches everything."""
    raw = raw or {}
    clauses = tuple(
        Requirement(
            clause.get("key", ""), clause.get("operator", ""), tuple(clause.get("values") or ())
        )
        for clause in raw.get("matchExpressions") or ()
    )
    return LabelSelector(dict(raw.get("matchLabels") or {}), clauses)


def labels_of(obj: Object) -> dict[str, str]:
    """The object's labels, perhaps none."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """The object's annotations, perhaps none."""
    return obj["metadata"].get("annotations") or {}
