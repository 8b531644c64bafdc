"""No node is asked to attach more volumes of a CSI driver than its CSINode says it can.

Counted are the different volumes of the pods on the node and those attached to it (VolumeAttachment); a volume that is
there already costs nothing. In-tree volumes count as those of the driver they migrate to. A node without a limit for
a driver has none. Source: kube-scheduler's NodeVolumeLimits (CSI).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from dispatcher.model.objects import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from dispatcher.model.pod import CLAIM, Volume
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.framework import SKIP, Codes, Depends, Filter, FleetView, Placed, Refuse, Rows, Skip
from dispatcher.scheduling.rules.volumes import CsiVolume, csi_volume_of_claim, csi_volume_of_disk

_NO_LIMIT = 2**31  # volumes


class _State(NamedTuple):
    """`wanted`: the pod's volumes. `attached`: node -> what attachments say is there. `tight`: nodes without any volume
    that could not take them all, empty as they are. `spare`: volumes in use that leave every node room for them.
    """

    home: str
    wanted: frozenset[CsiVolume]
    attached: Mapping[str, frozenset[CsiVolume]]
    tight: frozenset[str]
    spare: int


class _Volumes:
    """The CSI volumes behind the volumes of a cluster's pods."""

    def __init__(self, cluster: str, fleet: FleetView) -> None:
        self._claims = fleet.objects.of(cluster, PersistentVolumeClaim)
        self._volumes = fleet.objects.of(cluster, PersistentVolume)
        self._classes = fleet.objects.of(cluster, StorageClass)

    def behind(self, used: Iterable[tuple[str, Volume]]) -> frozenset[CsiVolume]:
        """Of (namespace, volume); what is no CSI volume, or not known, is left out."""
        found = (self._one(namespace, volume) for namespace, volume in used)
        return frozenset(one for one in found if one is not None)

    def _one(self, namespace: str, volume: Volume) -> CsiVolume | None:
        if volume.kind != CLAIM:
            return csi_volume_of_disk(volume)
        claim = self._claims.get(f"{namespace}/{volume.name}")
        return csi_volume_of_claim(claim, self._volumes, self._classes) if claim is not None else None


class NodeVolumeLimits(Filter[_State]):
    """Refuses nodes that cannot attach the pod's volumes beside those they have."""

    name: ClassVar[str] = "NodeVolumeLimits"
    depends: ClassVar[Depends] = Depends.NODE

    def class_key(self, placed: Placed) -> Hashable:
        """The volumes, and where their claims are."""
        pod = placed.pod
        return (placed.home, pod.namespace, pod.volumes) if pod.volumes else None

    def pre_filter(self, placed: Placed, fleet: FleetView) -> _State | Refuse | Skip:
        """The pod's CSI volumes and what is attached where; SKIP for a pod without any."""
        pod = placed.pod
        if not pod.volumes:
            return SKIP
        volumes = _Volumes(placed.home, fleet)
        wanted = volumes.behind((pod.namespace, volume) for volume in pod.volumes)
        if not wanted:
            return SKIP
        attached = fleet.objects.derived(placed.home, _attached, VolumeAttachment, PersistentVolume)
        limits, least = fleet.objects.of(placed.home, CSINode), fleet.objects.derived(placed.home, _least, CSINode)
        tight: frozenset[str] = frozenset()
        if least < len(wanted):
            counts = Counter(driver for driver, _ in wanted)
            tight = frozenset(name for name, node in limits.items() if node.limits and _passed(counts, node.limits))
        spare = least - len(wanted) - max(map(len, attached.values()), default=0)
        return _State(placed.home, wanted, attached, tight, spare)

    def refresh(self, state: _State | Refuse | Skip, placed: Placed, fleet: FleetView) -> _State | Refuse | Skip:
        """What rests on objects alone has not changed."""
        return state

    def filter(self, state: _State, fleet: FleetView, rows: Rows) -> Codes:
        """VOLUME_LIMIT where the limit of a driver would be passed."""
        asked = state
        codes = np.zeros(fleet.n, dtype=np.uint16)
        code = np.uint16(fleet.reasons.code(Reason.VOLUME_LIMIT))
        limits, volumes = fleet.objects.of(asked.home, CSINode), _Volumes(asked.home, fleet)
        for name in self._worth_a_look(asked, fleet):
            row, node = fleet.nodes.row_of(asked.home, name), limits.get(name)
            if row is not None and node is not None and node.limits:
                there = volumes.behind(fleet.volumes.on(row))
                if _too_many(asked.wanted, there, asked.attached.get(name, frozenset()), node.limits):
                    codes[row] = code
        return codes[rows]

    @staticmethod
    def _worth_a_look(asked: _State, fleet: FleetView) -> set[str]:
        """Nodes whose volumes in use might leave too little, or with too small a limit; others have room."""
        used = map(fleet.nodes.name_of, fleet.volumes.rows(max(asked.spare, 0)))
        return {name for cluster, name in used if cluster == asked.home} | asked.attached.keys() | asked.tight


def _attached(
    attachments: Mapping[str, VolumeAttachment], volumes: Mapping[str, PersistentVolume]
) -> dict[str, frozenset[CsiVolume]]:
    """node -> volumes attached, or to be; in-tree volumes are not counted here."""
    there: dict[str, set[CsiVolume]] = {}
    for one in attachments.values():
        volume = volumes.get(one.volume)
        if volume is not None and one.attacher and volume.handle and not volume.in_tree:
            there.setdefault(one.node, set()).add((one.attacher, volume.handle))
    return {node: frozenset(found) for node, found in there.items()}


def _least(limits: Mapping[str, CSINode]) -> int:
    """The smallest limit of any driver on any node."""
    return min((min(node.limits.values()) for node in limits.values() if node.limits), default=_NO_LIMIT)


def _too_many(
    wanted: frozenset[CsiVolume], used: frozenset[CsiVolume], attached: frozenset[CsiVolume], limits: Mapping[str, int]
) -> bool:
    more = Counter(driver for driver, _ in wanted - used)
    there = Counter(driver for driver, _ in used | attached)
    return _passed({driver: there[driver] + count for driver, count in more.items()}, limits)


def _passed(counts: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    return any(count > limits[driver] for driver, count in counts.items() if driver in limits)
