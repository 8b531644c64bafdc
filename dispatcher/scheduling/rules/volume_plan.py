"""What a pod's claims need of nodes: worked out once from the objects of its cluster, then asked of
rows at once.

Source: kube-scheduler's volume binder (GetPodVolumeClaims, FindPodVolumes).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import Bools, FleetView, PodInfo, Refuse, Rows, refuse
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.volume_choice import Chooser, Indices
from dispatcher.scheduling.rules.volume_match import Candidates, VolumesFor, candidates, volumes_for
from dispatcher.scheduling.rules.volumes import find_claims
from shared.model.labels import IN, LabelSelector, NodeSelectorTerm, Requirement
from shared.model.objects import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from shared.model.reasons import Reason
from shared.model.wake_events import NODES, STORAGE, WakeEvent

VOLUME_AFFINITY = Reason(
    "volume_affinity",
    "node(s) didn't match PersistentVolume's node affinity",
    remedy="The claim's volume cannot be reached from that node.",
    helped_by=NODES | STORAGE,
    resolvable=False,
)
VOLUME_BINDING = Reason(
    "volume_binding",
    "node(s) didn't find available persistent volumes to bind",
    remedy="No free volume fits the claim, and its class provisions none for that node.",
    helped_by=NODES | STORAGE | WakeEvent.POD_REMOVED,
    resolvable=False,
)
STORAGE_SPACE = Reason(
    "storage_space",
    "node(s) did not have enough free storage",
    remedy="The CSI driver reports too little capacity there (CSIStorageCapacity).",
    helped_by=NODES | STORAGE,
    resolvable=False,
)
VOLUME_MISSING = Reason(
    "volume_missing",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    remedy="The claim is bound to a volume that is not there.",
    helped_by=STORAGE,
    resolvable=False,
    nodes_help=False,
)
CLAIM_UNBOUND = Reason(
    "claim_unbound",
    "pod has unbound immediate PersistentVolumeClaims",
    remedy="The claim's class binds at once and has not: `kubectl describe pvc`.",
    helped_by=STORAGE,
    resolvable=False,
    nodes_help=False,
)

NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Why a row is refused, as bits; told in this order.
BITS = (VOLUME_AFFINITY, VOLUME_BINDING, STORAGE_SPACE, VOLUME_MISSING)
_AFFINITY, _BINDING, _SPACE, _MISSING = (np.uint8(1 << at) for at in range(4))
_NOWHERE = "nowhere"  # in a key, in place of the node affinity of a volume that does not exist
Terms = tuple[NodeSelectorTerm, ...]


@dataclass(frozen=True)
class Provision:
    """How a claim without a volume may be given one: where its class allows, and where there is
    space (None: anywhere).

    `possible` is False for a class that provides none. `free`: the bytes that there are in each of
    `spaces`.
    """

    possible: bool
    topologies: Terms = ()
    spaces: tuple[LabelSelector, ...] | None = None
    free: tuple[int, ...] = ()


@dataclass(frozen=True)
class Delayed:
    """A claim whose volume is chosen together with the node. `node` is where it is already to be
    provided, '' none.
    """

    claim: PersistentVolumeClaim
    node: str
    candidates: Candidates
    provision: Provision


@dataclass(frozen=True)
class VolumePlan:
    """The pod's claims: `bound` ones by what their volume demands (None: the volume is not there),
    and delayed ones.
    """

    home: str
    bound: tuple[PersistentVolume | None, ...]
    delayed: tuple[Delayed, ...]

    @property
    def chooses(self) -> bool:
        """Whether any claim may get a volume that is there."""
        return any(one.candidates.volumes for one in self.delayed)


@dataclass
class Verdict:
    """Per row: `bits` of BITS, and for each delayed claim the index of its candidate, -1 for none."""

    bits: NDArray[np.uint8]
    chosen: dict[str, Indices] = field(default_factory=dict)


_Sorted = tuple[list[PersistentVolume | None], list[tuple[PersistentVolumeClaim, StorageClass]]]


def _sorted_claims(pod_info: PodInfo, fleet: FleetView) -> _Sorted | Refuse:
    """The volumes of the pod's bound claims (None: not there), and its claims that wait with their
    classes.
    """
    found = find_claims(pod_info, fleet)
    home = pod_info.home
    if isinstance(found, Refuse):
        return found
    waiting: list[tuple[PersistentVolumeClaim, StorageClass]] = []
    bound: list[PersistentVolume | None] = []
    for claim in found:
        if claim.bound:
            bound.append(fleet.objects.named(home, PersistentVolume, claim.volume))
            continue
        made_by = fleet.objects.named(home, StorageClass, claim.storage_class or "")
        if made_by is None or not made_by.waits or claim.volume:
            return refuse(CLAIM_UNBOUND)
        waiting.append((claim, made_by))
    return bound, waiting


def plan_key(pod_info: PodInfo, fleet: FleetView) -> Hashable:
    """Equal for pods that get equal plans: their claims ask for the same, or have volumes in the
    same places, whatever the names. Left out is what `plan_of` reads of objects by kind (classes,
    free volumes): when a kind changes, the plan is made anew anyway.
    """
    found = _sorted_claims(pod_info, fleet)
    if isinstance(found, Refuse):
        return found.why
    bound, waiting = found
    places = tuple([_NOWHERE if one is None else one.node_affinity for one in bound])
    if not waiting:
        return places
    kept = fleet.objects.derived(pod_info.home, volumes_for, PersistentVolume).kept
    # A volume is kept for a claim by its key and, where it says so, its UID.
    return places, tuple(
        [
            (_wish(claim), (claim.key, claim.uid) if claim.key in kept else None)
            for claim, _ in waiting
        ]
    )


def _wish(claim: PersistentVolumeClaim) -> Hashable:
    """What a claim without a volume asks for."""
    only = claim.selector
    labels = (
        None if only is None else (frozenset(only.match_labels.items()), only.match_expressions)
    )
    where = claim.selected_node, claim.storage_class
    return *where, claim.request, claim.block, claim.attributes_class, claim.access_modes, labels


def plan_of(pod_info: PodInfo, fleet: FleetView) -> VolumePlan | Refuse:
    """Sort the pod's claims; a Refuse, in kube-scheduler's words, for claims that cannot be used,
    or not yet.
    """
    found = _sorted_claims(pod_info, fleet)
    home = pod_info.home
    if isinstance(found, Refuse):
        return found
    bound, waiting = found
    if not waiting:
        return VolumePlan(home, tuple(bound), ())
    fleet.objects.of(home, StorageClass)  # noted: where and how a class provides is not in the key
    volumes = fleet.objects.derived(home, volumes_for, PersistentVolume)
    delayed = [_delayed(claim, made_by, volumes, home, fleet) for claim, made_by in waiting]
    delayed.sort(key=lambda one: _turn(one.claim))
    return VolumePlan(home, tuple(bound), tuple(delayed))


def _turn(claim: PersistentVolumeClaim) -> tuple[bool, int]:
    """Those whose node is chosen come first; the others by size: small claims leave large volumes
    to large ones.
    """
    return not claim.selected_node, 0 if claim.selected_node else claim.request


def delayed_claims(pod_info: PodInfo, fleet: FleetView) -> list[PersistentVolumeClaim] | Refuse:
    """The claims of the pod's plan that have no volume yet, in its order; or the Refuse in its
    place.
    """
    found = _sorted_claims(pod_info, fleet)
    return (
        found if isinstance(found, Refuse) else sorted([claim for claim, _ in found[1]], key=_turn)
    )


def _delayed(
    claim: PersistentVolumeClaim,
    made_by: StorageClass,
    volumes: VolumesFor,
    home: str,
    fleet: FleetView,
) -> Delayed:
    node = claim.selected_node
    return Delayed(
        claim,
        node,
        Candidates(()) if node else candidates(claim, volumes.worth_a_look(claim)),
        _provision(
            claim,
            made_by,
            fleet.objects.of(home, CSIDriver),
            fleet.objects.of(home, CSIStorageCapacity),
        ),
    )


def _provision(
    claim: PersistentVolumeClaim,
    made_by: StorageClass,
    drivers: Mapping[str, CSIDriver],
    capacities: Mapping[str, CSIStorageCapacity],
) -> Provision:
    driver = drivers.get(made_by.provisioner)
    counted = claim.request and driver is not None and driver.storage_capacity
    possible = made_by.provisioner not in ("", NO_PROVISIONER)
    if not counted:
        return Provision(possible, made_by.topologies)
    found = [
        (one.topology, one.capacity or 0)
        for one in capacities.values()
        if one.storage_class == made_by.name
        and one.topology is not None
        and _holds(one, claim.request)
    ]
    spaces = tuple(topology for topology, _ in found)
    return Provision(possible, made_by.topologies, spaces, tuple(free for _, free in found))


def _holds(space: CSIStorageCapacity, size: int) -> bool:
    limit = space.maximum if space.maximum is not None else space.capacity
    return limit is not None and limit >= size


class Rulings:
    """Asks rows whether a plan's claims can be served there."""

    def __init__(self) -> None:
        self._masks = LabelMasks()

    def judge(self, plan: VolumePlan, fleet: FleetView, rows: Rows) -> Verdict:
        """All rows at once; what is told of rows outside the home cluster means nothing."""
        bits = self._bound(plan, fleet, rows)
        verdict = Verdict(bits)
        pinned = [one for one in plan.delayed if one.node]
        astray = np.zeros(len(bits), dtype=np.bool_)
        for one in pinned:
            astray |= ~_is_row(plan.home, one.node, fleet, rows)
        unserved = self._static(plan, fleet, rows, verdict)
        refused = astray.copy()
        bits[astray] |= _BINDING
        for one in plan.delayed:
            needs = unserved.get(one.claim.key, np.ones(len(bits), dtype=np.bool_)) & ~refused
            refused |= self._provide(one.provision, needs, fleet, rows, bits)
        return verdict

    def _bound(self, plan: VolumePlan, fleet: FleetView, rows: Rows) -> NDArray[np.uint8]:
        """Of bound claims the first whose volume does not fit, or is not there, is told."""
        bits = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint8)
        for volume in plan.bound:
            if volume is None:
                bits[bits == 0] = _MISSING
            elif volume.node_affinity is not None:
                bits[~self._masks.any_term(volume.node_affinity, fleet, rows) & (bits == 0)] = (
                    _AFFINITY
                )
        return bits

    def _static(
        self, plan: VolumePlan, fleet: FleetView, rows: Rows, verdict: Verdict
    ) -> dict[str, Bools]:
        """Choose volumes for the claims whose node is open; where a claim finds none."""
        chooser = Chooser(fleet, rows, self._masks)
        for one in plan.delayed:
            if not one.node:
                verdict.chosen[one.claim.key] = chooser.choose(one.candidates)
        return {key: chosen < 0 for key, chosen in verdict.chosen.items()}

    def _provide(
        self,
        provision: Provision,
        needs: Bools,
        fleet: FleetView,
        rows: Rows,
        bits: NDArray[np.uint8],
    ) -> Bools:
        """Where the claim needs a new volume and cannot have one; `bits` says why."""
        if not needs.any():
            return needs
        if not provision.possible:
            bits[needs] |= _BINDING
            return needs
        refused = np.zeros_like(needs)
        if provision.topologies:
            refused = needs & ~self._masks.any_term(provision.topologies, fleet, rows)
            bits[refused] |= _BINDING
        if provision.spaces is not None:
            full = needs & ~refused & (self.space(provision, fleet, rows) < 0)
            bits[full] |= _SPACE
            refused |= full
        return refused

    def space(self, provision: Provision, fleet: FleetView, rows: Rows) -> Indices:
        """[rows] the index of the first of the provision's spaces that a row reaches, -1 for none."""
        found = np.full(len(fleet.nodes.live[rows]), -1, dtype=np.int32)
        for at, selector in enumerate(provision.spaces or ()):
            mask = found < 0
            for key, value in selector.match_labels.items():
                mask &= self._masks.clause(Requirement(key, IN, (value,)), fleet, rows)
            for clause in selector.match_expressions:
                mask &= self._masks.clause(clause, fleet, rows)
            found[mask] = at
        return found


def _is_row(cluster: str, node: str, fleet: FleetView, rows: Rows) -> Bools:
    here = np.zeros(fleet.n, dtype=np.bool_)
    row = fleet.nodes.row_of(cluster, node)
    if row is not None:
        here[row] = True
    return here[rows]
