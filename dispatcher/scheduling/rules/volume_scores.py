"""How much room the storage that a pod's claims would get has left: the more, the better.

score = the mean over storage classes of 100 - 100 * requested / capacity, whole numbers, rounded
down before the mean and to the nearest after it. Where a claim would get a volume that is there,
requests and capacities of such volumes count; else those of claims to be provided where the driver
tells its capacity. Without either: 0. Source: kube-scheduler 1.37, VolumeBinding with
StorageCapacityScoring and its default shape.
"""

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import MAX_SCORE, FleetView, Floats, Rows
from dispatcher.scheduling.rules.volume_plan import Delayed, Rulings, VolumePlan

_Bytes = NDArray[np.float64]


def scores_of(plan: VolumePlan, rulings: Rulings, fleet: FleetView, rows: Rows) -> Floats:
    """[rows] 0..100."""
    chosen = rulings.judge(plan, fleet, rows).chosen
    count = len(fleet.nodes.live[rows])
    there = _Classes(count)
    made = _Classes(count)
    for one in plan.delayed:
        at = chosen.get(one.claim.key, np.full(count, -1, dtype=np.int32))
        _add_volume(there, one, at)
        _add_space(made, one, np.where(at < 0, rulings.space(one.provision, fleet, rows), -1))
    scores: Floats = np.where(there.any(), there.scores(), made.scores())
    return scores


def _add_volume(there: "_Classes", one: Delayed, at: NDArray[np.int32]) -> None:
    sizes = np.asarray(
        [volume.capacity for volume in one.candidates.volumes] + [0], dtype=np.float64
    )
    there.add(one.claim.storage_class or "", one.claim.request, sizes[at], at >= 0, shared=False)


def _add_space(made: "_Classes", one: Delayed, at: NDArray[np.int32]) -> None:
    sizes = np.asarray([*one.provision.free, 0], dtype=np.float64)
    made.add(one.claim.storage_class or "", one.claim.request, sizes[at], at >= 0, shared=True)


class _Classes:
    """By storage class, (requested, capacity, whether anything is) on each row."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._of: dict[str, tuple[_Bytes, _Bytes, NDArray[np.bool_]]] = {}

    def add(
        self, name: str, request: int, sizes: _Bytes, where: NDArray[np.bool_], *, shared: bool
    ) -> None:
        """One more claim on the rows `where`; `shared`: its capacity is that of its class, not one
        of its own.
        """
        if name not in self._of:
            nothing = np.zeros(self._count)
            self._of[name] = (nothing, nothing.copy(), np.zeros(self._count, dtype=np.bool_))
        requested, capacity, known = self._of[name]
        requested[where] += request
        capacity[where] = sizes[where] if shared else capacity[where] + sizes[where]
        known |= where

    def any(self) -> NDArray[np.bool_]:
        """[rows] whether any class has anything there."""
        found = np.zeros(self._count, dtype=np.bool_)
        for *_, known in self._of.values():
            found |= known
        return found

    def scores(self) -> _Bytes:
        """[rows] the mean of the classes that have something there, 0 without any."""
        total = np.zeros(self._count)
        classes = np.zeros(self._count)
        for requested, capacity, known in self._of.values():
            full = (capacity == 0) | (requested > capacity)
            share = np.floor(requested * MAX_SCORE / np.where(full, 1.0, capacity))
            total += np.where(known, MAX_SCORE - np.where(full, MAX_SCORE, share), 0.0)
            classes += known
        return np.floor(total / np.maximum(classes, 1) + 0.5)
