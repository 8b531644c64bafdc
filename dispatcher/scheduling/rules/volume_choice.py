"""Which of a claim's candidate volumes it gets on each row: the first that is there and not another
claim's already.

Volumes that are tied to values of one label (those of one node, or of some zones) are looked up by
the label's code, since there may be as many of them as nodes; `scan` tries the rest, and the rows
where claims compete, one by one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import FleetView, Rows
from dispatcher.scheduling.rules.eligibility import LabelMasks
from dispatcher.scheduling.rules.volume_match import Candidates
from shared.model.objects import PersistentVolume

Indices = NDArray[np.int32]
NONE = -1


class Chooser:
    """Chooses volumes for the claims of one pod, one claim after the other, on all of `rows`."""

    def __init__(self, fleet: FleetView, rows: Rows, masks: LabelMasks) -> None:
        self._fleet = fleet
        self._masks = masks
        self._rows: NDArray[np.intp] = np.arange(fleet.n)[rows]
        self._numbers: dict[
            str, int
        ] = {}  # of volumes, since several claims may have the same candidates
        self._taken: list[Indices] = []

    def choose(self, candidates: Candidates) -> Indices:
        """[rows] the index of the volume that the next claim gets, NONE for none."""
        volumes = candidates.volumes
        numbers = np.asarray([self._number(one) for one in volumes] + [NONE], dtype=np.int32)
        chosen = self._first(candidates)
        disputed = np.zeros(len(chosen), dtype=np.bool_)
        for others in self._taken:
            disputed |= (numbers[chosen] == others) & (chosen != NONE)
        where = np.flatnonzero(disputed)
        if len(where):
            chosen[where] = self.scan(volumes, where)
        self._taken.append(numbers[chosen])
        return chosen

    def _number(self, volume: PersistentVolume) -> int:
        return self._numbers.setdefault(volume.name, len(self._numbers))

    def _first(self, candidates: Candidates) -> Indices:
        """As if no other claim had taken any."""
        volumes = candidates.volumes
        most = len(candidates.volumes)
        first = np.full(len(self._rows), most, dtype=np.int32)
        tied, rest = candidates.by_label
        for key, by_value in tied.items():
            table = np.full(len(self._fleet.nodes.label_values(key)) + 1, most, dtype=np.int32)
            for code, value in enumerate(self._fleet.nodes.label_values(key)):
                table[code] = by_value.get(value, most)
            np.minimum(first, table[self._fleet.nodes.label(key)[self._rows]], out=first)
        for index in rest:
            open_ = np.flatnonzero(first > index)
            if not len(open_):
                break
            first[open_[self._reaches(volumes[index], self._rows[open_])]] = index
        first[first == most] = NONE
        return first

    def scan(self, volumes: Sequence[PersistentVolume], where: NDArray[np.intp]) -> Indices:
        """The same for some of the rows, volume by volume, without those that other claims have
        taken there.
        """
        chosen = np.full(len(where), NONE, dtype=np.int32)
        for index, volume in enumerate(volumes):
            free = chosen == NONE
            for others in self._taken:
                free &= others[where] != self._number(volume)
            if not free.any():
                continue
            chosen[free & self._reaches(volume, self._rows[where])] = index
        return chosen

    def _reaches(self, volume: PersistentVolume, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        if volume.node_affinity is None:
            return np.ones(len(rows), dtype=np.bool_)
        return self._masks.any_term(volume.node_affinity, self._fleet, rows)
