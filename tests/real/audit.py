"""What the audit logs of a fleet prove about us: who bound what how often, and by which rights."""

from collections import Counter
from collections.abc import Iterable

from localfleet.controlplane.audit import AuditEvent
from localfleet.controlplane.plane import ControlPlane
from tests.real.fleet import ACCOUNT

BINDING = ("create", "", "pods/binding")
CREATED, TIMED_OUT = 201, 504  # the second: no answer was sent, and whether it was done stands in etcd alone


def ours(plane: ControlPlane, since: int = 0) -> list[AuditEvent]:
    """What our agent's account asked of a plane."""
    return [event for event in plane.audit.events(since) if event.user.username == ACCOUNT]


def bindings(events: Iterable[AuditEvent], *, code: int = CREATED) -> Counter[str]:
    """namespace/name of a pod -> how many binding POSTs were answered so."""
    return Counter(_name(event) for event in events if event.action == BINDING and event.code == code)


def _name(event: AuditEvent) -> str:
    return f"{event.object_ref.namespace}/{event.object_ref.name}"
