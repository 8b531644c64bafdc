"""The host ports a pod asks for must be free on its node.

Two ports clash when protocol and number are equal and the addresses are, or one of them is 0.0.0.0
(all addresses). Source: kube-scheduler's NodePorts.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from shared.model.pod import HostPort
from shared.model.reasons import Reasons

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a value to compare, never a bind address
Taken = Mapping[tuple[str, int], Sequence[str]]


class NodePorts(Filter[tuple[HostPort, ...]]):
    """Refuses nodes where a wanted host port is taken."""

    name: ClassVar[str] = "NodePorts"
    REASONS = (Reasons.PORTS,)
    keyed_by_template = True
    reads = ("ports",)
    depends: ClassVar[Depends] = Depends.NODE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The set of host ports; None without."""
        return frozenset(pod_info.pod.ports) or None

    def pre_filter(
        self, pod_info: PodInfo, fleet: FleetView
    ) -> tuple[HostPort, ...] | Refuse | Skip:
        """The wanted ports; SKIP without any."""
        return pod_info.pod.ports or SKIP

    def filter(self, state: tuple[HostPort, ...], fleet: FleetView, rows: Rows) -> Codes:
        """PORTS where one of them is taken. Only rows on which any host port is taken are looked
        at.
        """
        wanted = state
        code = np.uint16(fleet.reasons.code(Reasons.PORTS))
        taken = np.zeros(fleet.n, dtype=np.uint16)
        for row in fleet.nodes.rows_with_ports():
            if any(_clashes(port, fleet.nodes.ports_taken(row)) for port in wanted):
                taken[row] = code
        return taken[rows]


def _clashes(port: HostPort, taken: Taken) -> bool:
    addresses = taken.get((port.protocol, port.port), ())
    if port.ip == _EVERY_ADDRESS:
        return bool(addresses)
    return port.ip in addresses or _EVERY_ADDRESS in addresses
