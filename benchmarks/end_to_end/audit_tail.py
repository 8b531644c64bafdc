"""Follows the API server's audit log while a scheduler runs: what was bound and when, by the
server's own clock.
"""

from datetime import datetime
from typing import Any

import msgspec

from localfleet.controlplane.audit import AuditLog


class _Event(msgspec.Struct, rename="camel"):
    stage_timestamp: str = ""
    object_ref: dict[str, Any] = {}
    response_status: dict[str, Any] = {}


class Tail:
    """From now on: when each pod whose name starts with `prefix` was bound (seconds), and how many
    events were written.

    `pods_asked_for`: somebody has listed or watched pods since. `refused`: bindings that the server
    did not take.
    """

    def __init__(self, log: AuditLog, prefix: str = "") -> None:
        self.bindings: list[float] = []
        self.refused = 0
        self.events = 0
        self.pods_asked_for = False
        self._prefix = prefix
        self._file = log.path.open("rb")
        self._file.seek(log.mark())
        self._rest = b""
        self._decode = msgspec.json.Decoder(_Event).decode

    def read(self) -> None:
        """Take in what was written since."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if b'"subresource":"binding"' in line:
                self._binding(self._decode(line))
            elif b'"verb":"create"' in line and b'"resource":"events"' in line:
                self.events += 1
            elif b'"requestURI":"/api/v1/pods?' in line:
                self.pods_asked_for = True

    def close(self) -> None:
        """Stop following."""
        self._file.close()

    def _binding(self, event: _Event) -> None:
        if not event.object_ref.get("name", "").startswith(self._prefix):
            return
        if event.response_status.get("code") == 201:
            self.bindings.append(datetime.fromisoformat(event.stage_timestamp).timestamp())
        else:
            self.refused += 1
