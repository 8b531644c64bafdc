"""A pod runs where its claims have their volumes, or can get them.

- A bound claim: where the node affinity of its volume holds.
- A claim that waits for its first consumer: where a free volume of its class fits (the smallest
  that does), or where its class can provide one: allowed topologies and, if the driver tells it,
  enough free storage.
- Any other claim without a volume makes the pod wait until the claim is bound. All of it in the
  pod's own cluster, where its claims are. Better is where the storage has more room. What is chosen
  is held for the pod from the moment its place is reserved. Source: kube-scheduler's VolumeBinding
  (1.37).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Bools,
    Codes,
    CycleState,
    Depends,
    Filter,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Score,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.lifecycle import Order, PreBind
from dispatcher.scheduling.rules.volume_plan import (
    BITS,
    CLAIM_UNBOUND,
    STORAGE_SPACE,
    VOLUME_AFFINITY,
    VOLUME_BINDING,
    VOLUME_MISSING,
    Rulings,
    VolumePlan,
    delayed_claims,
    plan_key,
    plan_of,
)
from dispatcher.scheduling.rules.volume_scores import scores_of
from dispatcher.scheduling.rules.volumes import (
    CLAIM_AWAITED,
    CLAIM_DELETED,
    CLAIM_LOST,
    CLAIM_NOT_OWNED,
    NOT_FOUND,
    claim_key,
    claims_of,
)
from shared.messages import BindVolume, PodRef, SelectNode
from shared.model.objects import PersistentVolume, PersistentVolumeClaim
from shared.model.pod import CLAIM
from shared.model.reasons import Reasons


@dataclass
class _Held:
    """What is held for a pod: a claim, and the volume or else the node it is to get. `told`: its
    cluster showed it.
    """

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    node: str
    told: bool = False

    @property
    def object(self) -> PersistentVolume | PersistentVolumeClaim:
        """What is written to."""
        return self.volume or self.claim

    @property
    def fields(self) -> dict[str, str]:
        """What is written."""
        if self.volume is None:
            return {"selected_node": self.node}
        return {"claim": self.claim.key, "claim_uid": self.claim.uid}

    def order(self, pod_info: PodInfo) -> Order:
        """The order to write it."""
        pod = PodRef(pod_info.pod.namespace, pod_info.pod.name, pod_info.pod.uid)
        claim = self.claim.key
        uid = self.claim.uid
        if self.volume is None:
            return Order(
                pod_info.home,
                SelectNode("", pod, 0, claim, uid, self.node),
                f"a volume for claim {claim}",
            )
        about = f"claim {claim} to be bound to volume {self.volume.name}"
        return Order(pod_info.home, BindVolume("", pod, 0, self.volume.name, claim, uid), about)


class VolumeBinding(
    Filter[VolumePlan], Score[VolumePlan], Reserve[VolumePlan], PreBind[VolumePlan]
):
    """Refuses nodes where a claim cannot be served, prefers room, holds what is chosen, has it done
    before the bind.
    """

    name: ClassVar[str] = "VolumeBinding"
    REASONS = (
        Reasons.VOLUMES_ELSEWHERE,
        VOLUME_AFFINITY,
        VOLUME_BINDING,
        VOLUME_MISSING,
        STORAGE_SPACE,
        NOT_FOUND,
        CLAIM_AWAITED,
        CLAIM_LOST,
        CLAIM_DELETED,
        CLAIM_NOT_OWNED,
        CLAIM_UNBOUND,
    )
    keyed_by_template = True
    reads = ("volumes",)
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self) -> None:
        self._rulings = Rulings()
        self._held: dict[str, list[_Held]] = {}

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Where the claims are; what they are says the fleet."""
        return pod_info.home if any(claims_of(pod_info.pod)) else None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """What the claims need of nodes, whatever their names."""
        return plan_key(pod_info, fleet) if any(claims_of(pod_info.pod)) else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> VolumePlan | Refuse | Skip:
        """What the claims need; SKIP without any; a Refuse for one that cannot be used, or is not
        bound yet.
        """
        return plan_of(pod_info, fleet) if any(claims_of(pod_info.pod)) else SKIP

    def refresh(
        self, state: VolumePlan | Refuse | Skip, pod_info: PodInfo, fleet: FleetView
    ) -> VolumePlan | Refuse | Skip:
        """Pods change nothing here except by what they hold of objects."""
        return state

    def filter(self, state: VolumePlan, fleet: FleetView, rows: Rows) -> Codes:
        """Why the claims cannot be served, all reasons together; VOLUMES_ELSEWHERE outside the home
        cluster.
        """
        plan = state
        bits = self._rulings.judge(plan, fleet, rows).bits
        table = np.zeros(1 << len(BITS), dtype=np.uint16)
        for value in np.flatnonzero(np.bincount(bits)).tolist() if bits.any() else ():
            told = [fleet.reasons.code(reason) for at, reason in enumerate(BITS) if value >> at & 1]
            table[value] = fleet.reasons.joint(told) if told else 0
        codes: Codes = table[bits]
        codes[~_at_home(plan.home, fleet, rows)] = fleet.reasons.code(Reasons.VOLUMES_ELSEWHERE)
        return codes

    def score(self, state: VolumePlan, fleet: FleetView, rows: Rows) -> Floats:
        """How much of the storage that the claims would get stays free."""
        return scores_of(state, self._rulings, fleet, rows)

    def reserve(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | None:
        """Hold the chosen volumes for their claims, and claims to be provided for the node."""
        known = cycle.read(self.name)  # of a pod whose claims are alike, which may be others
        if not isinstance(known, VolumePlan) or known.chooses:
            return self._book(pod_info, row, fleet)
        if not known.delayed:
            return None
        claims = delayed_claims(pod_info, fleet)  # the filter has judged it, and none is chosen
        if isinstance(claims, Refuse):
            return claims
        self._hold(pod_info, row, fleet, [(claim, None) for claim in claims])
        return None

    def _book(self, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        if not any(claims_of(pod_info.pod)):
            return None
        plan = plan_of(pod_info, fleet)
        if isinstance(plan, Refuse):
            return plan
        verdict = self._rulings.judge(plan, fleet, np.asarray([row]))
        if verdict.bits[0]:
            return refuse(BITS[int(verdict.bits[0]).bit_length() - 1])
        chosen = {key: int(at[0]) for key, at in verdict.chosen.items()}
        found = [(one, chosen.get(one.claim.key, -1)) for one in plan.delayed]
        wanted = [(one, one.candidates.volumes[at] if at >= 0 else None) for one, at in found]
        self._hold(pod_info, row, fleet, [(one.claim, volume) for one, volume in wanted])
        return None

    def _hold(
        self,
        pod_info: PodInfo,
        row: int,
        fleet: FleetView,
        wanted: Iterable[tuple[PersistentVolumeClaim, PersistentVolume | None]],
    ) -> None:
        _, node = fleet.nodes.name_of(row)
        for claim, volume in wanted:
            held = _Held(claim, volume, node)
            fleet.objects.assume(pod_info.home, held.object, held.fields, pod_info.pod.uid)
            self._held.setdefault(pod_info.pod.uid, []).append(held)

    def fits(self, state: object, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        """All, if none of these has an inline disk or a claim of another, and no volume that is
        there is to be chosen: what is held for one is read of no other then. Else none.
        """
        if not isinstance(state, VolumePlan) or state.chooses:
            return 0
        volumes = [(pod_info.pod, volume) for pod_info in pods for volume in pod_info.pod.volumes]
        keys = {claim_key(pod, volume) for pod, volume in volumes if volume.kind == CLAIM}
        return len(pods) if len(keys) == len(volumes) else 0

    def reserve_all(
        self, state: object, pods: Sequence[PodInfo], rows: Sequence[int], fleet: FleetView
    ) -> None:
        """Hold claims to be provided for the nodes; LookupError if one cannot be, which cannot be
        told in advance.
        """
        if not isinstance(state, VolumePlan) or not state.delayed:
            return
        found = [delayed_claims(pod_info, fleet) for pod_info in pods]
        for claims in found:
            if isinstance(claims, Refuse):
                raise LookupError(claims.why.text)
        for pod_info, row, claims in zip(pods, rows, found, strict=True):
            for claim in claims if not isinstance(claims, Refuse) else ():
                self._hold(pod_info, row, fleet, [(claim, None)])

    def pre_bind(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | Sequence[Order] | None:
        """Orders until every claim has its volume; a Refuse if what was chosen is gone, or its
        making was given up.
        """
        orders: list[Order] = []
        for held in self._held.get(pod_info.pod.uid, ()):
            claim = fleet.objects.reported(pod_info.home, held.claim)
            if claim is None or claim.uid != held.claim.uid:
                return refuse(
                    Reasons.PRE_BIND, f'persistentvolumeclaim "{held.claim.name}" is gone'
                )
            if claim.bound:
                continue
            volume = fleet.objects.reported(pod_info.home, held.volume) if held.volume else None
            given_up = _given_up(held, claim, volume)
            if given_up:
                return refuse(Reasons.PRE_BIND, given_up)
            orders.append(held.order(pod_info))
        return orders

    def restore(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        """A pod that is bound has its volumes there; one that is on its way there gets held what it
        needs.
        """
        if row >= 0 and not pod_info.pod.node:
            self._book(pod_info, row, fleet)

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> Callable[[], None]:
        """Let go of everything that was held for the pod; what holds the same again."""
        uid = pod_info.pod.uid
        home = pod_info.home
        held = self._held.pop(uid, [])
        shown = [one for one in held if fleet.objects.release(home, one.object, uid)]

        def hold_again() -> None:
            if held:
                self._held[uid] = held
            for one in shown:
                fleet.objects.assume(home, one.object, one.fields, uid)

        return hold_again


def _given_up(held: _Held, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> str:
    """Why what was chosen will not come about, '' if it may: it was shown once and is taken back,
    or went elsewhere.
    """
    if held.volume is None:
        shown = claim.selected_node
        wanted = held.node
    else:
        shown = volume.claim if volume is not None else ""
        wanted = held.claim.key
    if shown == wanted:
        held.told = True
        return ""
    if not held.told and not shown and (held.volume is None or volume is not None):
        return ""
    return (
        f'the volume of persistentvolumeclaim "{held.claim.name}" could not be provided on node '
        f'"{held.node}"'
    )


def _at_home(home: str, fleet: FleetView, rows: Rows) -> Bools:
    index = next((at for at, info in enumerate(fleet.clusters) if info.name == home), -1)
    here: Bools = fleet.nodes.cluster[rows] == index
    return here
