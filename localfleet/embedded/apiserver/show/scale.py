"""The scale subresource: replicas of a workload, seen as an autoscaling/v1 Scale."""

from localfleet.embedded.apiserver.status import Object

_SIGNS = {"In": "in", "NotIn": "notin"}


def selector_text(selector: Object | None) -> str:
    """A LabelSelector in its query-string form, as tables and Scale.status show it."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for clause in selector.get("matchExpressions") or ():
        operator = clause["operator"]
        key = clause["key"]
        if operator in _SIGNS:
            parts.append(
                f"{key} {_SIGNS[operator]} ({','.join(sorted(clause.get('values') or ()))})"
            )
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts)


def of(obj: Object) -> Object:
    """The Scale of a workload."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    selector = selector_text(obj["spec"].get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        # Go leaves out a zero here.
        "spec": {"replicas": replicas} if (replicas := obj["spec"].get("replicas", 0)) else {},
        "status": status | ({"selector": selector} if selector else {}),
    }


def onto(obj: Object, scale: Object) -> Object:
    """The workload with the replicas, and the resourceVersion if given, of `scale`."""
    meta = dict(obj["metadata"])
    if version := (scale.get("metadata") or {}).get("resourceVersion"):
        meta["resourceVersion"] = version
    return obj | {
        "metadata": meta,
        "spec": obj["spec"] | {"replicas": (scale.get("spec") or {}).get("replicas", 0)},
    }
