"""What the audit logs of a fleet prove about us: who bound what how often, and by which rights."""

from collections import Counter
from collections.abc import Iterable

from localfleet.controlplane.audit import AuditEvent
from localfleet.controlplane.plane import ControlPlane
from tests.real.fleet import ACCOUNT

BINDING, DELETE = ("create", "", "pods/binding"), ("delete", "", "pods")
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
_WRITES = ("create", "update", "patch", "delete")
CREATED, TIMED_OUT = 201, 504  # the second: no answer was sent, and whether it was done stands in etcd alone


def ours(plane: ControlPlane, since: int = 0) -> list[AuditEvent]:
    """What our agent's account asked of a plane."""
    return [event for event in plane.audit.events(since) if event.user.username == ACCOUNT]


def bindings(events: Iterable[AuditEvent], *, code: int = CREATED) -> Counter[str]:
    """namespace/name of a pod -> how many binding POSTs were answered so."""
    return Counter(_name(event) for event in events if event.action == BINDING and event.code == code)


def surplus(plane: ControlPlane) -> set[str]:
    """Names of the pods that a ReplicaSet had too many of: where the answer to a create is lost, it makes another."""
    events = plane.audit.events()
    return {one.object_ref.name for one in events if one.action == DELETE and one.user.username == REPLICA_SETS}


def story(planes: Iterable[ControlPlane], source: str) -> str:
    """All writes to a source pod and its delegates, a line each: when, where, who, what, and the answer's code."""
    told = [
        f"{event.stage_timestamp} {plane.name} {event.user.username} {event.verb} {event.request_uri} {event.code}"
        for plane in planes
        for event in plane.audit.events()
        if event.verb in _WRITES and event.object_ref.resource == "pods" and event.object_ref.name.startswith(source)
    ]
    return "\n".join(sorted(told))


def _name(event: AuditEvent) -> str:
    return f"{event.object_ref.namespace}/{event.object_ref.name}"
