"""pods/binding: the one write that gives a pod its node."""

from localfleet.embedded.apiserver.metadata import timestamp
from localfleet.embedded.apiserver.status import (
    FieldError,
    Object,
    bad_request,
    conflict,
    precondition,
    supported,
    unexplained,
)


def check(namespace: str, name: str, binding: Object) -> None:
    """Refuse a Binding that is for another pod (400), or names no node (500)."""
    asked = binding.get("metadata") or {}
    target = binding.get("target") or {}
    if asked.get("name", "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if asked.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.get("kind", "") not in ("", "Node"):
        kinds = supported(("Node", "<empty>"))
        raise unexplained(str(FieldError("unsupported", "target.kind", kinds, target["kind"])))
    if not target.get("name"):
        raise unexplained(str(FieldError("required", "target.name")))


def bind(pod: Object, binding: Object, now: float, topology: dict[str, str]) -> Object:
    """The pod after `binding`: its node, the Binding's annotations and labels, `topology`,
    PodScheduled=True.

    ApiError 409 for another UID or version, a pod that is bound, gated or being deleted.
    The node need not exist: nobody checks that, on the real server neither.
    """
    meta = pod["metadata"]
    asked = binding.get("metadata") or {}
    name = meta["name"]
    target = binding["target"]["name"]
    for word, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if asked.get(key) and asked[key] != meta[key]:
            raise precondition("pods", meta["namespace"], name, word, asked[key], meta[key])
    refusal = _refusal(pod)
    if refusal:
        raise conflict("pods/binding", name, refusal)
    bound = pod | {"metadata": dict(meta), "spec": pod["spec"] | {"nodeName": target}}
    for key, more in (
        ("annotations", asked.get("annotations")),
        ("labels", (asked.get("labels") or {}) | topology),
    ):
        if more:
            bound["metadata"][key] = (meta.get(key) or {}) | more
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True"}
    bound["status"] = set_condition(status, scheduled, now)
    return bound


def _refusal(pod: Object) -> str:
    name = pod["metadata"]["name"]
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def set_condition(status: Object, condition: Object, now: float) -> Object:
    """`status` with `condition` in place of the one of its type; the transition time moves only
    when it turns.
    """
    others = []
    changed = timestamp(now)
    for known in status.get("conditions") or ():
        if known["type"] != condition["type"]:
            others.append(known)
        elif known["status"] == condition["status"]:
            changed = known.get("lastTransitionTime") or changed
    return status | {
        "conditions": [*others, condition | {"lastProbeTime": None, "lastTransitionTime": changed}]
    }
