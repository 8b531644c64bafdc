"""No node is asked to attach more volumes of a CSI driver than its CSINode says it can.

A driver may ask that nodes without it take no pod with its volumes (`preventPodSchedulingIfMissing`
of its CSIDriver).

Counted are the different volumes of the pods on the node and those attached to it
(VolumeAttachment); a volume that is there already costs nothing. In-tree volumes count as those of
the driver they migrate to. A node without a limit for a driver has none. Source: kube-scheduler's
NodeVolumeLimits (CSI).
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    Codes,
    Depends,
    Filter,
    FleetView,
    Ints,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.rules.csi_volumes import (
    Attached,
    CsiVolumes,
    Wanted,
    attachments_of,
    wanted_of,
)
from dispatcher.scheduling.rules.volumes import CsiVolume
from shared.model.objects import CSIDriver, CSINode
from shared.model.pod import CLAIM
from shared.model.reasons import Reason
from shared.model.wake_events import NODES, WakeEvent

VOLUME_LIMIT = Reason(
    "volume_limit",
    "node(s) exceed max volume count",
    remedy="The CSI driver attaches no more volumes to that node (CSINode).",
    helped_by=NODES | WakeEvent.POD_REMOVED | WakeEvent.CSI | WakeEvent.CLAIM,
)
CSI_DRIVER = Reason(
    "csi_driver",
    "{} CSI driver is not installed on the node",
    remedy="The pod has a volume of that CSI driver, whose CSIDriver object says "
    "`preventPodSchedulingIfMissing`, and the node's CSINode does not list it: "
    "install the driver there.",
    helped_by=NODES | WakeEvent.CSI,
)

_NO_LIMIT = 2**31  # volumes


class _State(NamedTuple):
    """`least`: the smallest limit of any driver on any node of the cluster. `needed`: drivers that a
    node has to have, and the nodes that have each.
    """

    home: str
    wanted: Wanted
    attached: Attached
    least: int
    needed: tuple[tuple[str, frozenset[str]], ...]


class NodeVolumeLimits(Filter[_State]):
    """Refuses nodes that lack a driver of the pod's volumes, or cannot attach them beside those
    they have.
    """

    name: ClassVar[str] = "NodeVolumeLimits"
    REASONS = (
        VOLUME_LIMIT,
        CSI_DRIVER,
    )
    keyed_by_template = True
    reads = ("volumes",)
    depends: ClassVar[Depends] = Depends.NODE

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The inline disks, and where the claims are; what these are says the fleet."""
        disks = tuple([volume for volume in pod_info.pod.volumes if volume.kind != CLAIM])
        return (pod_info.home, disks) if pod_info.pod.volumes else None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """How many volumes of which driver are asked for, and which of them may be on some node."""
        return wanted_of(pod_info, fleet) if pod_info.pod.volumes else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """The pod's CSI volumes and what is attached where; SKIP without any, or where nothing is
        limited or needed.
        """
        wanted = wanted_of(pod_info, fleet) if pod_info.pod.volumes else Wanted()
        if not wanted.size:
            return SKIP
        least = fleet.objects.derived(pod_info.home, _least, CSINode)
        needed = _needed(pod_info.home, wanted, fleet)
        if least == _NO_LIMIT and not needed:
            return SKIP
        return _State(pod_info.home, wanted, attachments_of(pod_info.home, fleet), least, needed)

    def refresh(
        self, state: _State | Refuse | Skip, pod_info: PodInfo, fleet: FleetView
    ) -> _State | Refuse | Skip:
        """What rests on objects alone has not changed."""
        return state

    def filter(self, state: _State, fleet: FleetView, rows: Rows) -> Codes:
        """CSI_DRIVER where a driver is missing, else VOLUME_LIMIT where the limit of one would be
        passed.
        """
        used, supposed = fleet.volumes.counts(rows)
        codes = np.zeros(len(used), dtype=np.uint16)
        limits = fleet.objects.of(state.home, CSINode)
        volumes = CsiVolumes(state.home, fleet)
        for at, row in _worth_a_look(state, fleet, rows, used + state.wanted.size * supposed):
            cluster, name = fleet.nodes.name_of(row)
            node = limits.get(name) if cluster == state.home else None
            if node is not None and node.limits:
                attached = state.attached.on.get(name, frozenset())
                there = volumes.behind(fleet.volumes.on(row))
                pods = int(supposed[at])
                if _too_many(state.wanted, there, attached, pods, node.limits):
                    codes[at] = fleet.reasons.code(VOLUME_LIMIT)
        for driver, having in reversed(state.needed):
            codes[_lacking(state.home, having, fleet, rows)] = fleet.reasons.code(
                CSI_DRIVER, driver
            )
        return codes


def _needed(home: str, wanted: Wanted, fleet: FleetView) -> tuple[tuple[str, frozenset[str]], ...]:
    """By name, as in `_State`."""
    needed = fleet.objects.derived(home, _required, (CSIDriver, "required"))
    asked = needed & {driver for driver, _ in (*wanted.new, *wanted.known)} if needed else needed
    if not asked:
        return ()
    having = fleet.objects.derived(home, _having, (CSINode, "drivers"))
    return tuple((driver, having.get(driver, frozenset())) for driver in sorted(asked))


def _required(drivers: Mapping[str, CSIDriver]) -> frozenset[str]:
    return frozenset(name for name, driver in drivers.items() if driver.required)


def _having(nodes: Mapping[str, CSINode]) -> dict[str, frozenset[str]]:
    """Driver -> the nodes that have it."""
    found: dict[str, set[str]] = {}
    for name, node in nodes.items():
        for driver in node.drivers:
            found.setdefault(driver, set()).add(name)
    return {driver: frozenset(names) for driver, names in found.items()}


def _lacking(home: str, having: frozenset[str], fleet: FleetView, rows: Rows) -> Bools:
    """[rows] whether it is a node of this cluster, and none of `having`."""
    live: Bools = fleet.nodes.live[rows]
    names = fleet.nodes.names_of(np.arange(fleet.n)[rows][live].tolist())
    lacks = np.zeros(len(live), dtype=np.bool_)
    lacks[live] = [cluster == home and name not in having for cluster, name in names]
    return lacks


def _worth_a_look(
    asked: _State, fleet: FleetView, rows: Rows, used: Ints
) -> Iterator[tuple[int, int]]:
    """(place in `rows`, row) where what is in use and attached might leave too little; other nodes
    have room.
    """
    few = used > asked.least - asked.wanted.size - asked.attached.most
    found = np.flatnonzero(few & fleet.nodes.live[rows])
    numbers = np.arange(fleet.n)[rows]
    return zip(found.tolist(), numbers[found].tolist(), strict=True)


def _least(limits: Mapping[str, CSINode]) -> int:
    """The smallest limit of any driver on any node."""
    return min(
        (min(node.limits.values()) for node in limits.values() if node.limits), default=_NO_LIMIT
    )


def _too_many(
    wanted: Wanted,
    used: frozenset[CsiVolume],
    attached: frozenset[CsiVolume],
    pods: int,
    limits: Mapping[str, int],
) -> bool:
    """Beside so many `pods` more that each bring as many new volumes, and use the same known ones."""
    used = used | wanted.known if pods else used
    more = Counter({driver: count * (pods + 1) for driver, count in wanted.new})
    more.update(driver for driver, _ in wanted.known - used)
    there = Counter(driver for driver, _ in used | attached)
    return _passed({driver: there[driver] + count for driver, count in more.items()}, limits)


def _passed(counts: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    return any(count > limits[driver] for driver, count in counts.items() if driver in limits)
