"""The large pods of one namespace share what may be told of them: one who makes many has no other
namespace wait.

Pods that take more than SMALL bytes of memory in the dispatcher are told in full as long as those
of their namespace come to no more than `most` together: first those on a node, then the older ones.
Which these are follows from the pods that are there alone. Of the others the least is told
(`record_bounds.beyond_share`), and that it is so.

Example with a share of 64 MiB: of 5,000 pods of 16 KiB, 4,096 are told in full; when one of them
ends, the next one is.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from agents.observer.record_bounds import beyond_share
from shared.messages.values import A_VALUE
from shared.model.pod import Pod

SMALL = 8 * 1024  # bytes of memory: four times as much as a usual pod takes
MOST = 64 * 2**20  # of the larger pods of one namespace


class _Turn(NamedTuple):
    """What says which of two pods is told in full first."""

    waits: bool
    created: float
    uid: str


class _Large(NamedTuple):
    turn: _Turn
    memory: int
    pod: Pod


class NamespaceShares:
    """The large pods of a cluster, and which of them are told in full."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._of: dict[str, _Namespace] = {}
        self._namespace_of: dict[str, str] = {}  # by UID

    def put(self, pod: Pod, memory: int) -> Sequence[Pod]:
        """A pod as it is now, which takes this much: what is to be told, of it and of others of its
        namespace.
        """
        large = _Large(_Turn(not pod.node, pod.created, pod.uid), memory, pod)
        name = self._namespace_of.get(pod.uid)
        if name is not None and memory > SMALL and self._of[name].replaces(large):
            return (self._of[name].told(large),)
        others = self.drop(pod.uid)
        if memory <= SMALL:
            return (*others, pod)
        self._namespace_of[pod.uid] = pod.namespace
        namespace = self._of.setdefault(pod.namespace, _Namespace(self._most))
        return (*others, *namespace.put(large))

    def drop(self, uid: str) -> Sequence[Pod]:
        """A pod is gone, or small: the others of which more is told now."""
        name = self._namespace_of.pop(uid, None)
        if name is None:
            return ()
        namespace = self._of[name]
        changed = namespace.drop(uid)
        if not namespace:
            del self._of[name]
        return changed


class _Namespace:
    """Its large pods in their order, of which the first `_full` are told in full."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pods: dict[str, _Large] = {}
        self._order: list[_Turn] = []
        self._full = 0
        self._taken = 0

    def __len__(self) -> int:
        return len(self._order)

    def replaces(self, large: _Large) -> bool:
        """Take another version of a pod that has the same turn and takes as much; False if it has
        not.
        """
        known = self._pods[large.pod.uid]
        if (known.turn, known.memory) != (large.turn, large.memory):
            return False
        self._pods[large.pod.uid] = large
        return True

    def told(self, large: _Large) -> Pod:
        """What is told of a pod."""
        in_full = bisect_left(self._order, large.turn) < self._full
        return large.pod if in_full else self._beyond(large.pod)

    def put(self, large: _Large) -> list[Pod]:
        """One more pod; what is to be told, of it and of others."""
        uid = large.pod.uid
        self._pods[uid] = large
        insort(self._order, large.turn)
        if bisect_left(self._order, large.turn) < self._full:
            self._full += 1
            self._taken += large.memory
        return [*(one for one in self._settle() if one.uid != uid), self.told(large)]

    def drop(self, uid: str) -> list[Pod]:
        """One less; the others of which more is told now."""
        large = self._pods.pop(uid)
        at = bisect_left(self._order, large.turn)
        del self._order[at]
        if at < self._full:
            self._full -= 1
            self._taken -= large.memory
        return self._settle()

    def _settle(self) -> list[Pod]:
        """Move the end of those that are told in full to where the share ends; whom that changes."""
        changed: dict[str, Pod] = {}
        while self._taken > self._most:
            self._full -= 1
            last = self._pods[self._order[self._full].uid]
            self._taken -= last.memory
            changed[last.pod.uid] = self._beyond(last.pod)
        while self._full < len(self._order):
            first = self._pods[self._order[self._full].uid]
            if self._taken + first.memory > self._most:
                break
            self._full += 1
            self._taken += first.memory
            changed[first.pod.uid] = first.pod
        return list(changed.values())

    def _beyond(self, pod: Pod) -> Pod:
        most = self._most // 2**20
        small = SMALL // 1024
        return beyond_share(
            pod,
            f"metadata.labels and spec: the pods of namespace {pod.namespace} that take more than "
            f"{small} KiB of "
            f"memory each ({A_VALUE} bytes for each key or value beside its text) take more than "
            f"{most} MiB together, "
            "make them smaller or fewer",
        )
