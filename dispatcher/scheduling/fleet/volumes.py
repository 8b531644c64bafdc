"""Which volumes the pods of a row use, and how many pods use a claim: kept up to date pod by pod."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np

from dispatcher.scheduling.fleet.columns import grown
from dispatcher.scheduling.framework import Ints, Rows
from dispatcher.scheduling.rules.volumes import CsiVolume, csi_volume_of_disk
from shared.model.pod import CLAIM, Pod, Volume

T = TypeVar("T")
_Named = tuple[str, str, str, bool]
UsedVolume = tuple[str, Volume]  # the namespace of the pod that uses it, and the volume
USERS = "PodVolumes"  # what moves with them, named as a kind of objects


class VolumesInUse:
    """Volumes by row, users of claims by (cluster, namespace, claim, ephemeral), and of inline
    disks by their CSI volume; each pod counted.
    """

    def __init__(self) -> None:
        self._on: dict[int, Counter[UsedVolume]] = {}
        self._different: Ints = np.zeros(0, dtype=np.int64)  # [rows] volumes, each once
        self._supposed: Ints = np.zeros(0, dtype=np.int64)  # [rows] pods
        self._users: Counter[_Named] = Counter()
        self._disks: Counter[CsiVolume] = Counter()

    def take(self, row: int, cluster: str, pod: Pod) -> None:
        """A pod is on a row of a cluster."""
        used = self._on.get(row)
        if used is None:
            used = self._on[row] = Counter()
        _more(used, [(pod.namespace, volume) for volume in pod.volumes])
        self._reserve(row + 1)
        self._different[row] = len(used)
        _more(self._users, _claims(cluster, pod))
        _more(self._disks, _disks(pod))

    def release(self, row: int, cluster: str, pod: Pod) -> None:
        """The exact inverse of `take`."""
        used = self._on[row]
        _less(used, [(pod.namespace, volume) for volume in pod.volumes])
        self._different[row] = len(used)
        if not used:
            del self._on[row]
        _less(self._users, _claims(cluster, pod))
        _less(self._disks, _disks(pod))

    def _reserve(self, rows: int) -> None:
        self._different, self._supposed = (
            grown(self._different, rows, 0),
            grown(self._supposed, rows, 0),
        )

    def suppose(self, rows: Rows, times: "int | Ints", n: int) -> None:
        """As if so many pods more, each with volumes like the next one's, were on each of `rows` of
        `n`.
        """
        self._reserve(n)
        self._supposed[rows] += times

    def on(self, row: int) -> Collection[UsedVolume]:
        """The volumes that pods use on a row, each once."""
        return self._on.get(row, {}).keys()

    def rows(self) -> Sequence[int]:
        """Rows whose pods use any volumes, ascending."""
        return np.flatnonzero(self._different).tolist()

    def counts(self, rows: Rows, n: int) -> tuple[Ints, Ints]:
        """[rows of n] how many different volumes pods use, and how many pods are supposed beside
        them.
        """
        self._reserve(n)
        return self._different[:n][rows], self._supposed[:n][rows]

    def users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods anywhere name a claim; a claim that is made for one pod alone is not
        counted.
        """
        return self._users[cluster, namespace, claim, False]

    def names(self, cluster: str, namespace: str, claim: str) -> bool:
        """Whether pods anywhere use a claim, also one that is made for one pod alone."""
        users = self._users
        return (
            users[cluster, namespace, claim, False] > 0
            or users[cluster, namespace, claim, True] > 0
        )

    def has_disk(self, volume: CsiVolume) -> bool:
        """Whether pods anywhere use, as an inline disk, what migrates to this."""
        return self._disks[volume] > 0


def has_only_claims(pod: Pod) -> bool:
    """Whether the pod takes no inline disk."""
    return all(volume.kind == CLAIM for volume in pod.volumes)


def _claims(cluster: str, pod: Pod) -> list[_Named]:
    return [
        (cluster, pod.namespace, one.name, one.ephemeral)
        for one in pod.volumes
        if one.kind == CLAIM
    ]


def _disks(pod: Pod) -> list[CsiVolume]:
    found = (csi_volume_of_disk(one) for one in pod.volumes if one.kind != CLAIM)
    return [one for one in found if one is not None]


def _more(counts: Counter[T], come: Sequence[T]) -> None:
    for one in come:
        counts[one] += 1


def _less(counts: Counter[T], gone: Sequence[T]) -> None:
    for one in gone:
        counts[one] -= 1
        if not counts[one]:
            del counts[one]
