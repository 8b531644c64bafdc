"""The pod status that a kubelet writes at each step of a pod's life (core/v1 PodStatus)."""

from dataclasses import dataclass

from localfleet.embedded.kubelet.admission import Rejection
from localfleet.embedded.kubelet.references import Lack
from localfleet.embedded.meta import Object, stamp, with_condition

TERMINATED_BY_SIGNAL = 143  # 128 + SIGTERM
_OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs: the node's address and the pod's own."""

    host_ip: str
    pod_ip: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container's last run ended."""

    exit_code: int
    started: float
    ended: float

    def state(self, container_id: str) -> Object:
        """core/v1 ContainerStateTerminated."""
        return {
            "exitCode": self.exit_code,
            "reason": "Completed" if self.exit_code == 0 else "Error",
            "startedAt": stamp(self.started),
            "finishedAt": stamp(self.ended),
            "containerID": container_id,
        }


@dataclass(frozen=True, slots=True)
class Containers:
    """What all containers of a pod do: `state` as core/v1 has it, or the ending of this run."""

    state: Object | Ending
    ready: bool = False
    restarts: int = 0
    last: Ending | None = None


def starting(pod: Object, place: Place, now: float) -> Object:
    """Bound and admitted, containers being created."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    return _status(pod, place, now, "Pending", Containers(waiting))


def lacking_configuration(pod: Object, place: Place, now: float, lack: Lack) -> Object:
    """Admitted, but a ConfigMap, Secret or image that it names cannot be had."""
    status = starting(pod, place, now)
    for entry in (*status.get("initContainerStatuses", ()), *status["containerStatuses"]):
        if entry["name"] == lack.container:
            entry["state"] = {"waiting": lack.waiting}
    return status


def running(
    pod: Object, place: Place, now: float, *, restarts: int = 0, last: Ending | None = None
) -> Object:
    """All containers run and are ready since `now`."""
    state = {"running": {"startedAt": stamp(now)}}
    return _status(pod, place, now, "Running", Containers(state, True, restarts, last))


def backing_off(pod: Object, place: Place, now: float, *, restarts: int, last: Ending) -> Object:
    """The containers have ended and wait to be started again."""
    reason = "CrashLoopBackOff" if last.exit_code else "Completed"
    state = {"waiting": {"reason": reason, "message": "back-off restarting failed container"}}
    return _status(pod, place, now, "Running", Containers(state, False, restarts, last))


def finished(pod: Object, place: Place, now: float, *, restarts: int, ending: Ending) -> Object:
    """The containers have ended for good: Succeeded with exit code 0, else Failed."""
    phase = "Succeeded" if ending.exit_code == 0 else "Failed"
    return _status(pod, place, now, phase, Containers(ending, restarts=restarts))


def rejected(pod: Object, rejection: Rejection, now: float) -> Object:
    """Refused at admission: nothing has run."""
    status = dict(pod.get("status") or {})
    return {
        **status,
        "phase": "Failed",
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": stamp(now),
    }


def _status(pod: Object, place: Place, now: float, phase: str, containers: Containers) -> Object:
    old = pod.get("status") or {}
    spec = pod["spec"]
    status = {
        **old,
        "phase": phase,
        "conditions": _conditions(old.get("conditions") or [], phase, containers.ready, now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "podIP": place.pod_ip,
        "podIPs": [{"ip": place.pod_ip}],
        "startTime": old.get("startTime") or stamp(now),
        "containerStatuses": [_container(pod, entry, containers) for entry in spec["containers"]],
    }
    if spec.get("ephemeralContainers") and phase != "Pending":
        ended = phase != "Running"
        status["ephemeralContainerStatuses"] = _debug_containers(pod, ended, now)
    if spec.get("initContainers"):
        status["initContainerStatuses"] = _init_containers(
            pod, old.get("initContainerStatuses"), phase, now
        )
    return status


def lacks_debug(pod: Object) -> bool:
    """Whether a debug container was added that its status does not show."""
    added = pod["spec"].get("ephemeralContainers") or ()
    return len(added) > len((pod.get("status") or {}).get("ephemeralContainerStatuses") or ())


def _debug_containers(pod: Object, ended: bool, now: float) -> list[Object]:
    """They run from when they are seen until the pod ends."""
    old = (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()
    known = {entry["name"]: entry for entry in old}
    state = Ending(0, now, now) if ended else {"running": {"startedAt": stamp(now)}}
    return [
        known[entry["name"]]
        if entry["name"] in known and not ended
        else _container(pod, entry, Containers(state))
        for entry in pod["spec"]["ephemeralContainers"]
    ]


def _init_containers(pod: Object, old: list[Object] | None, phase: str, now: float) -> list[Object]:
    if old and all("terminated" in entry["state"] for entry in old):
        return old
    pending = phase == "Pending"
    state = {"waiting": {"reason": "PodInitializing"}} if pending else Ending(0, now, now)
    return [
        _container(pod, entry, Containers(state, not pending))
        for entry in pod["spec"]["initContainers"]
    ]


def _conditions(old: list[Object], phase: str, ready: bool, now: float) -> list[Object]:
    started = phase != "Pending"
    ended = phase in ("Succeeded", "Failed")
    answers = dict(
        zip(_OWN_CONDITIONS, (started and not ended, started, ready, ready), strict=True)
    )
    reasons = {"Succeeded": {"reason": "PodCompleted"}, "Failed": {"reason": "PodFailed"}}
    why = reasons.get(phase, {} if ready else {"reason": "ContainersNotReady"})
    conditions = old
    for kind, answer in answers.items():
        entry = {"type": kind, "status": str(answer), **({} if answer else why)}
        conditions = with_condition(conditions, entry, now)
    if not any(entry["type"] == "PodScheduled" for entry in conditions):
        conditions = with_condition(conditions, {"type": "PodScheduled", "status": "True"}, now)
    return conditions


def _container(pod: Object, container: Object, containers: Containers) -> Object:
    restarts = containers.restarts
    state = containers.state
    last = containers.last
    identity = f"embedded://{pod['metadata']['uid']}-{container['name']}-{restarts}"
    is_running = not isinstance(state, Ending) and "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": identity if isinstance(state, Ending) or is_running else "",
        "ready": containers.ready,
        "started": is_running,
        "restartCount": restarts,
        "state": {"terminated": state.state(identity)} if isinstance(state, Ending) else state,
        "lastState": {"terminated": last.state(f"{identity}-previous")} if last else {},
    }
