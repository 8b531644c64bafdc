"""Which volumes the pods of a row use, and how many pods use a claim: kept up to date pod by pod."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeVar

from dispatcher.model.pod import CLAIM, Pod, Volume

T = TypeVar("T")
UsedVolume = tuple[str, Volume]  # the namespace of the pod that uses it, and the volume
USERS = "PodVolumes"  # what moves with them, named as a kind of objects


class VolumesInUse:
    """Volumes by row, each pod counted, and users of claims by (cluster, namespace, claim)."""

    def __init__(self) -> None:
        self._on: dict[int, Counter[UsedVolume]] = {}
        self._rows_with: dict[int, set[int]] = {}  # number of different volumes -> rows
        self._users: Counter[tuple[str, str, str]] = Counter()

    def take(self, row: int, cluster: str, pod: Pod) -> None:
        """A pod is on a row of a cluster."""
        used = self._on.setdefault(row, Counter())
        before = len(used)
        used.update((pod.namespace, volume) for volume in pod.volumes)
        self._move(row, before, len(used))
        self._users.update(_claims(cluster, pod))

    def release(self, row: int, cluster: str, pod: Pod) -> None:
        """The exact inverse of `take`."""
        used = self._on[row]
        before = len(used)
        _less(used, [(pod.namespace, volume) for volume in pod.volumes])
        self._move(row, before, len(used))
        if not used:
            del self._on[row]
        _less(self._users, _claims(cluster, pod))

    def _move(self, row: int, before: int, after: int) -> None:
        if before == after:
            return
        if before:
            self._rows_with[before].discard(row)
            if not self._rows_with[before]:
                del self._rows_with[before]
        if after:
            self._rows_with.setdefault(after, set()).add(row)

    def on(self, row: int) -> Collection[UsedVolume]:
        """The volumes that pods use on a row, each once."""
        return self._on.get(row, {}).keys()

    def rows(self, more_than: int = 0) -> Sequence[int]:
        """Rows whose pods use more than so many different volumes, ascending."""
        return sorted(row for count, rows in self._rows_with.items() if count > more_than for row in rows)

    def users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods anywhere name a claim; a claim that is made for one pod alone is not counted."""
        return self._users[cluster, namespace, claim]


def _claims(cluster: str, pod: Pod) -> list[tuple[str, str, str]]:
    return [
        (cluster, pod.namespace, volume.name) for volume in pod.volumes if volume.kind == CLAIM and not volume.ephemeral
    ]


def _less(counts: Counter[T], gone: Sequence[T]) -> None:
    for one in gone:
        counts[one] -= 1
        if not counts[one]:
            del counts[one]
