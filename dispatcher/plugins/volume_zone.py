"""A pod runs in the zone and region that the labels of its bound volumes name.

A label may name several zones, joined by '__'. A node without any label of zone or region takes
every volume; an old label of a volume (failure-domain.beta.kubernetes.io/) is compared with the
node's new one where it has no old one. Claims without a volume are left to VolumeBinding. Source:
kube-scheduler's VolumeZone.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    Codes,
    Depends,
    Filter,
    FleetView,
    PodInfo,
    Refuse,
    Rows,
    Skip,
    refuse,
)
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.volumes import claims_of, named_claims, not_found
from shared.model.labels import IN, Requirement
from shared.model.names import REGION, ZONE
from shared.model.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from shared.model.reasons import Reason
from shared.model.wake_events import NODES, STORAGE, WakeEvent

VOLUME_ZONE = Reason(
    "volume_zone",
    "node(s) had no available volume zone",
    remedy="The claim's volume is in another zone.",
    helped_by=NODES | STORAGE,
    resolvable=False,
)
CLAIM_WITHOUT_CLASS = Reason(
    "claim_without_class",
    "PersistentVolumeClaim had no pv name and storageClass name",
    remedy="Name a storage class or a volume in the claim.",
    helped_by=WakeEvent.CLAIM,
    resolvable=False,
    nodes_help=False,
)
CLAIM_WITHOUT_VOLUME = Reason(
    "claim_without_volume",
    "PersistentVolume had no name",
    remedy="The volume object is broken: `kubectl get pv -o yaml`.",
    helped_by=STORAGE,
    resolvable=False,
    nodes_help=False,
)

_OLD = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
_LABELS = (*_OLD, ZONE, REGION)
_ZONES_BETWEEN = "__"


class VolumeZone(Filter[tuple[Requirement, ...]]):
    """Refuses nodes in another zone than a volume's."""

    name: ClassVar[str] = "VolumeZone"
    REASONS = (
        VOLUME_ZONE,
        CLAIM_WITHOUT_CLASS,
        CLAIM_WITHOUT_VOLUME,
    )
    keyed_by_template = True
    reads = ("volumes",)
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self._masks = LabelMasks()

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Where the claims are; what they are says the fleet."""
        return (
            pod_info.home
            if any(not volume.ephemeral for volume in claims_of(pod_info.pod))
            else None
        )

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """What the volumes demand, or why the pod is refused."""
        found = self.pre_filter(pod_info, fleet)
        return None if isinstance(found, Skip) else found

    def pre_filter(
        self, pod_info: PodInfo, fleet: FleetView
    ) -> tuple[Requirement, ...] | Refuse | Skip:
        """What each label of a bound volume demands; SKIP for nothing; a Refuse for a claim that
        will get no volume.
        """
        demands: list[Requirement] = []
        for claim in named_claims(pod_info, fleet) if pod_info.pod.volumes else ():
            if isinstance(claim, Refuse):
                return claim
            if not claim.volume:
                refused = _without_volume(claim, pod_info, fleet)
                if refused is not None:
                    return refused
                continue
            volume = fleet.objects.named(pod_info.home, PersistentVolume, claim.volume)
            if volume is None:
                return not_found("persistentvolume", claim.volume)
            demands += _demands(volume)
        return tuple(demands) or SKIP

    def filter(self, state: tuple[Requirement, ...], fleet: FleetView, rows: Rows) -> Codes:
        """VOLUME_ZONE where a label differs, on nodes that have any label of zone or region."""
        fits = np.ones(len(fleet.nodes.live[rows]), dtype=np.bool_)
        for demand in state:
            fits &= self._met(demand, fleet, rows)
        somewhere = np.zeros_like(fits)
        for label in _LABELS:
            somewhere |= fleet.nodes.label(label)[rows] >= 0
        codes: Codes = (somewhere & ~fits) * np.uint16(fleet.reasons.code(VOLUME_ZONE))
        return codes

    def _met(self, demand: Requirement, fleet: FleetView, rows: Rows) -> Bools:
        met = self._masks.clause(demand, fleet, rows)
        newer = _OLD.get(demand.key)
        if newer is None:
            return met
        by_new = self._masks.clause(Requirement(newer, IN, demand.values), fleet, rows)
        return np.where(fleet.nodes.label(demand.key)[rows] >= 0, met, by_new)


def _without_volume(
    claim: PersistentVolumeClaim, pod_info: PodInfo, fleet: FleetView
) -> Refuse | None:
    if not claim.storage_class:
        return refuse(CLAIM_WITHOUT_CLASS)
    found = fleet.objects.named(pod_info.home, StorageClass, claim.storage_class)
    if found is None:
        return not_found("storageclass.storage.k8s.io", claim.storage_class)
    return None if found.waits else refuse(CLAIM_WITHOUT_VOLUME)


def _demands(volume: PersistentVolume) -> Iterator[Requirement]:
    for label in _LABELS:
        zones = tuple(part.strip() for part in volume.labels.get(label, "").split(_ZONES_BETWEEN))
        if all(zones):
            yield Requirement(label, IN, zones)
