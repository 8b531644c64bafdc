"""Whether pods of another cluster answer at their addresses: what the last tries say.

Both ends are agents, since they are pods like any other, expect each other, and nobody else is
disturbed. One lost packet is no cut: a way is open from the first try that is answered on, and
closed once all of the last `TRIES` were in vain.
"""

import ipaddress
from collections import deque
from collections.abc import Iterable

from agents.observer.seen import NodeTarget
from shared.messages.peer_links import PodReach
from shared.model.names import REACHED, UNREACHED, UNTRIED
from shared.model.probe_address import Address

TRIES = 3
_MOST_TEXT = 300  # characters
# RFC 1918, RFC 6598 (which clouds give to pods, too) and RFC 4193
_PRIVATE = tuple(
    ipaddress.ip_network(one)
    for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)


class PodWay:
    """The way to the pods of one other cluster. Times are of a clock that only grows."""

    def __init__(self, address: str, now: float) -> None:
        self._address = address
        self._last: deque[str] = deque(maxlen=TRIES)
        self._state = UNTRIED
        self._since = now
        self._untried = ""

    def took(self, problem: str, now: float) -> None:
        """A try has ended; `problem`: why in vain, '' if it was answered."""
        self._untried = ""
        self._last.append(problem[:_MOST_TEXT])
        if not problem:
            self._become(REACHED, now)
        elif len(self._last) == TRIES and all(self._last):
            self._become(UNREACHED, now)

    def not_tried(self, why: str, now: float, *, closed: bool) -> None:
        """The address is one that must not be tried. `closed`: it could not lead there."""
        self._last.clear()
        self._untried = why[:_MOST_TEXT]
        self._become(UNREACHED if closed else UNTRIED, now)

    def _become(self, state: str, now: float) -> None:
        if state != self._state:
            self._state = state
            self._since = now

    def reading(self, cluster: str, now: float) -> PodReach:
        """As it is told."""
        return PodReach(
            cluster,
            self._state,
            self._address,
            max(0.0, now - self._since),
            len(self._last),
            sum(map(bool, self._last)),
            self._untried or (self._last[-1] if self._last else ""),
        )


def is_private(ip: Address) -> bool:
    """Whether it is of a network that anybody may use, and that is not reached from elsewhere."""
    return any(ip in one for one in _PRIVATE)


def node_with(address: str, nodes: Iterable[NodeTarget]) -> str:
    """The node of this cluster that has an address; '' for none."""
    return next((one.name for one in nodes if address in one.addresses), "")
