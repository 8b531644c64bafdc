"""How kubectl reads a pod's state out of its container statuses (after kube-apiserver's printPod)."""

from typing import Any

from localfleet.embedded.apiserver.status import Object
from localfleet.embedded.apiserver.validate.validation import dig

NONE = "<none>"


def _sidecars(obj: Object) -> set[str]:
    """Init containers that keep running beside the others."""
    found = (obj.get("spec") or {}).get("initContainers") or ()
    return {container["name"] for container in found if container.get("restartPolicy") == "Always"}


def _statuses(obj: Object, group: str) -> list[Object]:
    return (obj.get("status") or {}).get(group) or []


def _condition(obj: Object, kind: str) -> Object:
    for condition in _statuses(obj, "conditions"):
        if condition["type"] == kind:
            return condition
    return {}


def _initializing(obj: Object) -> str:
    """ "Init:..." while an init container has not finished, else ""."""
    sidecars = _sidecars(obj)
    for index, container in enumerate(_statuses(obj, "initContainerStatuses")):
        ended = dig(container, "state.terminated")
        waiting = dig(container, "state.waiting.reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended is not None:
            return "Init:" + _ending(ended)
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len((obj.get('spec') or {}).get('initContainers') or ())}"
    return ""


def _ending(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return (
        f"Signal:{ended['signal']}"
        if ended.get("signal")
        else f"ExitCode:{ended.get('exitCode', 0)}"
    )


def restarts(obj: Object) -> tuple[int, str | None]:
    """How often containers were restarted, and when the last one ended."""
    sidecars = _sidecars(obj)
    counted = [*_statuses(obj, "containerStatuses")]
    initial = _statuses(obj, "initContainerStatuses")
    counted += (
        initial
        if _initializing(obj)
        else [status for status in initial if status["name"] in sidecars]
    )
    ended = [dig(status, "lastState.terminated.finishedAt") for status in counted]
    return sum(status.get("restartCount", 0) for status in counted), max(
        filter(None, ended), default=None
    )


def readiness(obj: Object) -> str:
    """ "1/2": ready containers of all that should run."""
    sidecars = _sidecars(obj)
    total = len((obj.get("spec") or {}).get("containers") or ()) + len(sidecars)
    ready = sum(
        1
        for status in _statuses(obj, "containerStatuses")
        if status.get("ready") and dig(status, "state.running") is not None
    )
    ready += sum(
        1
        for status in _statuses(obj, "initContainerStatuses")
        if status["name"] in sidecars and status.get("ready")
    )
    return f"{ready}/{total}"


def reason(obj: Object) -> str:
    """The STATUS column."""
    status = obj.get("status") or {}
    phase = status.get("phase", "")
    word = status.get("reason") or phase
    if _condition(obj, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    initializing = _initializing(obj)
    if initializing and _condition(obj, "Initialized").get("status") != "True":
        word = initializing
    else:
        word = _from_containers(obj, word)
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(word)


def _from_containers(obj: Object, word: Any) -> str:
    running = False
    failed = ""
    for container in reversed(_statuses(obj, "containerStatuses")):
        ended = dig(container, "state.terminated")
        waiting = dig(container, "state.waiting.reason")
        if waiting:
            word = waiting
        elif ended is not None:
            word = _ending(ended)
            failed = word if ended.get("exitCode") else failed
        elif container.get("ready") and dig(container, "state.running") is not None:
            running = True
    if word != "Completed":
        return str(word)
    if running and _condition(obj, "Ready").get("status") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def wide(obj: Object) -> list[Any]:
    """IP, node, nominated node and readiness gates."""
    status = obj.get("status") or {}
    spec = obj.get("spec") or {}
    addresses = status.get("podIPs") or [{"ip": status.get("podIP") or ""}]
    wanted = spec.get("readinessGates") or []
    passed = sum(
        1
        for gate in wanted
        if _condition(obj, gate.get("conditionType", "")).get("status") == "True"
    )
    gates = f"{passed}/{len(wanted)}" if wanted else NONE
    return [
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        gates,
    ]
