"""Requests of pods whose binding is under way, or done and not yet in the watch cache
(kube-scheduler: assumed pods).

Without it two binds within one watch delay would both see the same free room.
"""

from collections.abc import Iterator

import msgspec

from agents.executor.context.view import ClusterView
from shared.model.pod import HostPort

HOLD_S = 120.0  # longer than any bind with its retries; then the view is believed


class PendingRequests(msgspec.Struct, frozen=True, gc=False):
    """Room on `node` for one pod. `uid` is empty for a delegate that is about to be created.
    `until` is monotonic.
    """

    namespace: str
    name: str
    uid: str
    node: str
    requests: dict[str, int]
    ports: tuple[HostPort, ...]
    until: float


class Ledger:
    """Bookings by node. A name has one booking at a time: the newest."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[tuple[str, str], PendingRequests]] = {}
        self._node_of: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def book(self, booking: PendingRequests) -> None:
        """Hold room; replaces an earlier booking of the same name."""
        self.drop(booking.namespace, booking.name)
        key = (booking.namespace, booking.name)
        self._node_of[key] = booking.node
        self._by_node.setdefault(booking.node, {})[key] = booking

    def drop(self, namespace: str, name: str) -> None:
        """Give room back; nothing happens if there is no such booking."""
        key = (namespace, name)
        node = self._node_of.pop(key, None)
        if node is None:
            return
        held = self._by_node[node]
        del held[key]
        if not held:
            del self._by_node[node]

    def held(self, node: str, view: ClusterView, now: float) -> Iterator[PendingRequests]:
        """The bookings on a node that its view does not show yet."""
        for booking in tuple(self._by_node.get(node, {}).values()):
            if now >= booking.until or _visible(booking, view):
                self.drop(booking.namespace, booking.name)
            else:
                yield booking

    def settle(self, view: ClusterView, now: float) -> None:
        """Forget every booking that the view shows or that is too old."""
        for node in tuple(self._by_node):
            for _ in self.held(node, view, now):
                pass


def _visible(booking: PendingRequests, view: ClusterView) -> bool:
    pod = view.pod_by_name(booking.namespace, booking.name)
    if not booking.uid:
        return pod is not None and bool(pod.node)
    # A pod with a UID was in the view when it was booked: if it is not there now, it is gone.
    return pod is None or pod.uid != booking.uid or bool(pod.node)
