"""Node health as arithmetic: conditions and taints of a silent or sick node, and when its pods must
leave.

The rules are those of kube-controller-manager's node lifecycle and taint eviction controllers.
"""

from collections.abc import Sequence
from math import inf

from localfleet.embedded.meta import Object, condition, seconds, stamp
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, Taint
from shared.model.pod import Toleration

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
Wanted = tuple[tuple[str, str], ...]


def silenced(node: Object, now: float) -> list[Object]:
    """The node's conditions once nothing was heard of it for too long: all Unknown."""
    found = {entry["type"]: entry for entry in node.get("status", {}).get("conditions") or ()}
    for kind in _CONDITIONS:
        old = found.get(kind)
        if old is not None and old["status"] == "Unknown":
            continue
        never = old is None
        reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
        message = (
            "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
        )
        fields = {"type": kind, "status": "Unknown", "reason": reason, "message": message}
        heard = (old or {}).get("lastHeartbeatTime") or node["metadata"].get("creationTimestamp")
        found[kind] = {**fields, "lastHeartbeatTime": heard, "lastTransitionTime": stamp(now)}
    return list(found.values())


def wanted_taints(node: Object) -> Wanted:
    """Keys and effects that the node's Ready condition and cordon ask for."""
    by_status: dict[str, Wanted] = {
        "True": (),
        "False": ((NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)),
        "Unknown": ((UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)),
        "": ((NOT_READY, NO_SCHEDULE),),
    }
    health = by_status.get(condition(node, "Ready")["status"], ())
    return (*health, (UNSCHEDULABLE, NO_SCHEDULE)) if node["spec"].get("unschedulable") else health


def retainted(node: Object, now: float) -> list[Object] | None:
    """The node's taints as they should be, None when they are so already. Taints of others are
    kept.
    """
    taints = node["spec"].get("taints") or []
    wanted = wanted_taints(node)
    present = {(taint["key"], taint["effect"]) for taint in taints if taint["key"] in _OURS}
    if present == set(wanted):
        return None
    kept = [
        taint
        for taint in taints
        if taint["key"] not in _OURS or (taint["key"], taint["effect"]) in wanted
    ]
    added = [_taint(key, effect, now) for key, effect in wanted if (key, effect) not in present]
    return kept + added


def _taint(key: str, effect: str, now: float) -> Object:
    return {
        "key": key,
        "effect": effect,
        **({"timeAdded": stamp(now)} if effect == NO_EXECUTE else {}),
    }


def executing(node: Object) -> list[Object]:
    """The node's NoExecute taints."""
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == NO_EXECUTE]


def eviction_time(pod: Object, taints: Sequence[Object], now: float) -> float:
    """When the pod must leave a node with these NoExecute taints (unix seconds); inf: never.

    A taint that nothing tolerates means now; else the shortest tolerationSeconds counts from the
    taint's timeAdded.
    """
    tolerations = [_toleration(raw) for raw in pod["spec"].get("tolerations") or ()]
    soonest = inf
    for raw in taints:
        taint = Taint(raw["key"], raw.get("value") or "", raw["effect"])
        matching = [toleration for toleration in tolerations if taint.tolerated_by(toleration)]
        if not matching:
            return now
        stays = min((t.seconds for t in matching if t.seconds is not None), default=inf)
        soonest = min(soonest, (seconds(raw.get("timeAdded")) or now) + max(0.0, stays))
    return soonest


def _toleration(raw: Object) -> Toleration:
    return Toleration(
        raw.get("key") or "",
        raw.get("operator") or "Equal",
        raw.get("value") or "",
        raw.get("effect") or "",
        raw.get("tolerationSeconds"),
    )
