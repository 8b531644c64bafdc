"""pods/binding: the one write that gives a pod its node."""

from agents.embedded.apiserver.metadata import timestamp
from agents.embedded.apiserver.status import ApiError, FieldError, Object, bad_request, conflict, precondition


def bind(pod: Object, binding: Object, now: float) -> Object:
    """The pod after `binding`: its node, the Binding's annotations and labels, PodScheduled=True.

    ApiError 409 for another UID or version, a pod that is bound, gated or being deleted.
    The node need not exist: nobody checks that, on the real server neither.
    """
    meta, asked = pod["metadata"], binding.get("metadata") or {}
    name, target = meta["name"], (binding.get("target") or {}).get("name", "")
    if asked.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if not target:
        raise ApiError(500, "InternalError", str(FieldError("required", "target.name")))
    for word, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if asked.get(key) and asked[key] != meta[key]:
            raise precondition("pods", meta["namespace"], name, word, asked[key], meta[key])
    refusal = _refusal(pod)
    if refusal:
        raise conflict("pods/binding", name, refusal)
    bound = pod | {"metadata": dict(meta), "spec": pod["spec"] | {"nodeName": target}}
    for key in ("annotations", "labels"):
        if asked.get(key):
            bound["metadata"][key] = (meta.get(key) or {}) | asked[key]
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True"}
    bound["status"] = set_condition(status, scheduled, now)
    return bound


def _refusal(pod: Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def set_condition(status: Object, condition: Object, now: float) -> Object:
    """`status` with `condition` in place of the one of its type; the transition time moves only when it turns."""
    others = []
    changed = timestamp(now)
    for known in status.get("conditions") or ():
        if known["type"] != condition["type"]:
            others.append(known)
        elif known["status"] == condition["status"]:
            changed = known.get("lastTransitionTime") or changed
    return status | {"conditions": [*others, condition | {"lastProbeTime": None, "lastTransitionTime": changed}]}
