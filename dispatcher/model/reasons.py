"""The closed list of reasons why a node or a pod is refused; texts are kube-scheduler's where it has one.

A reason may carry one argument (a resource, a taint, a tenant). `ReasonTable` interns (reason, argument) to a
small integer once, so that the hot path handles integers and only a message to a person makes text.
"""

import enum
from typing import NamedTuple


class Reason(enum.Enum):
    """Why not. `{}` in the text is the argument."""

    INSUFFICIENT = "Insufficient {}"
    TOO_MANY_PODS = "Too many pods"
    NODE_NAME = "node(s) didn't match the requested node name"
    UNSCHEDULABLE = "node(s) were unschedulable"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    TAINT = "node(s) had untolerated taint {}"
    PORTS = "node(s) didn't have free ports for the requested pod ports"
    SPREAD = "node(s) didn't match pod topology spread constraints ({})"
    SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label {})"
    NOT_READY = "node(s) were not ready"
    CLUSTER_NOT_READY = "node(s) were in a cluster that is not ready"
    VOLUMES_ELSEWHERE = "node(s) were in another cluster than the pod's volumes"
    CLUSTER_NOT_ALLOWED = "node(s) were in a cluster that the pod does not allow"
    REFUSED = "node(s) were refused by their agent ({})"
    POLICY = "node(s) didn't satisfy plugin {}"
    PLUGIN_ERROR = "node(s) could not be judged: plugin {} failed"

    # Reasons about the pod itself: no node is looked at.
    QUOTA = "tenant quota exceeded: {}"
    GATED = "Scheduling is blocked due to non-empty scheduling gates: {}"
    INVALID = "pod cannot be scheduled: {}"
    NO_PROFILE = "spec.schedulerName names no profile of this dispatcher; known: {}"
    PERMIT = "rejected due to timeout after waiting at Permit plugin {}"
    PRE_BIND = "node(s) could not be prepared for the pod: {}"

    def text(self, argument: str = "") -> str:
        """The reason in words."""
        return self.value.format(argument)


# No pod that leaves a node makes it fit a pod refused for one of these (kube-scheduler's UnschedulableAndUnresolvable).
UNRESOLVABLE: frozenset[Reason] = frozenset(
    (
        Reason.NODE_NAME,
        Reason.UNSCHEDULABLE,
        Reason.AFFINITY,
        Reason.TAINT,
        Reason.SPREAD_LABEL,
        Reason.NOT_READY,
        Reason.CLUSTER_NOT_READY,
        Reason.CLUSTER_NOT_ALLOWED,
        Reason.VOLUMES_ELSEWHERE,
        Reason.PLUGIN_ERROR,
        Reason.QUOTA,
        Reason.GATED,
        Reason.INVALID,
        Reason.NO_PROFILE,
    )
)


class Why(NamedTuple):
    """One concrete reason: the entry of the closed list and its argument."""

    reason: Reason
    argument: str = ""

    @property
    def text(self) -> str:
        """In words, as shown to users."""
        return self.reason.text(self.argument)


class ReasonTable:
    """Interns reasons to codes 1, 2, ...; code 0 means 'fits'. Codes never change while the process lives."""

    def __init__(self) -> None:
        self._code: dict[Why, int] = {}
        self._why: list[Why | None] = [None]

    def code(self, reason: Reason, argument: str = "") -> int:
        """The code of this reason (1 or more)."""
        why = Why(reason, argument)
        found = self._code.get(why)
        if found is None:
            found = self._code[why] = len(self._why)
            self._why.append(why)
        return found

    def why(self, code: int) -> Why:
        """The reason behind a code; KeyError for 0 and unknown codes."""
        found = self._why[code] if 0 < code < len(self._why) else None
        if found is None:
            raise KeyError(code)
        return found
