"""The API server's audit log, as tests read it: who did what, and whether it was allowed.

Level Metadata, one event a request at its end (a watch has one more at its start). An event is
written after its answer was sent, so a test waits for it; a request that the kill of the API server
cut off has none.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

# kwok stands for the kubelets of all nodes: its writes would be most of the log and say nothing of
# who schedules.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "users": ["kwok", "system:apiserver"]},
        {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*"]},
        {"level": "Metadata"},
    ],
}
_WAIT_S = 10.0
_POLL_S = 0.05


class User(msgspec.Struct, frozen=True):
    """Who asked."""

    username: str
    groups: tuple[str, ...] = ()


class ObjectRef(msgspec.Struct, frozen=True, rename="camel"):
    """What the request was about; for a create, `name` is empty when it was generated."""

    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    namespace: str = ""
    name: str = ""


class ResponseStatus(msgspec.Struct, frozen=True):
    """The answer's HTTP code."""

    code: int = 0
    reason: str = ""


class AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One audit.k8s.io/v1 Event."""

    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    user: User
    request_uri: str = msgspec.field(name="requestURI")
    object_ref: ObjectRef = ObjectRef()
    response_status: ResponseStatus = ResponseStatus()
    user_agent: str = ""
    stage_timestamp: str = ""
    annotations: dict[str, str] = {}

    @property
    def code(self) -> int:
        """The answer's HTTP code."""
        return self.response_status.code

    @property
    def denied(self) -> bool:
        """RBAC said no."""
        return self.annotations.get("authorization.k8s.io/decision") == "forbid"

    @property
    def action(self) -> tuple[str, str, str]:
        """(verb, API group, resource or resource/subresource), as a Role's rules put it."""
        ref = self.object_ref
        return (
            self.verb,
            ref.api_group,
            f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource,
        )


class AuditLog:
    """The log file of one plane, across restarts of its API server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(AuditEvent)

    def mark(self) -> int:
        """Where the log ends now; `events(since=mark)` are later ones."""
        return self.path.stat().st_size if self.path.exists() else 0

    def events(self, since: int = 0) -> list[AuditEvent]:
        """All whole events after a mark, in the order of writing."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(since)
            lines = log.read().split(b"\n")
        # What follows the last newline is still being written.
        return [event for line in lines[:-1] if (event := self._decoded(line)) is not None]

    def wait_for(
        self, match: Callable[[AuditEvent], bool], since: int = 0, timeout_s: float = _WAIT_S
    ) -> list[AuditEvent]:
        """The events that match, as soon as there is one; TimeoutError else."""
        deadline = time.monotonic() + timeout_s
        while not (found := [event for event in self.events(since) if match(event)]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no such event in {self.path} within {timeout_s:.0f} s")
            time.sleep(_POLL_S)
        return found

    def end_torn_line(self) -> None:
        """After a kill: close a line that was cut off, so that the next API server's first event is
        whole.
        """
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n"):
            with self.path.open("ab") as log:
                log.write(b"\n")

    def _decoded(self, line: bytes) -> AuditEvent | None:
        try:
            return self._decoder.decode(line)
        except msgspec.DecodeError:  # a line that a kill cut off
            return None
