"""Namespaces whose pods take long to decide have a bounded part of the time, so that others are
decided.
"""

from collections.abc import Sequence

from dispatcher.scheduling.queue import QueuedPod
from shared.model.token_buckets import Allowance

# CPU of one decision; pods of one class that are decided together have `_EACH_S` more
LONGEST_S = 0.05
_EACH_S = 0.0005
_BURST_S = 2.0
_SHARE = 0.05
_LONGEST_REST_S = 60.0
MOST_KEPT = 4096  # namespaces
_Namespace = tuple[str, str]  # cluster of submission, name


class SlowDecisions:
    """Decisions that take longer than `LONGEST_S` are charged to the namespace: 2 s, and a
    twentieth of the time.

    Example: a pod that takes 1 s to decide each time is decided twice; from then on its namespace
    rests for 20 s after each decision of that kind. A restart begins with 2 s again: what one
    decision takes is bounded by what a pod may ask for.
    """

    def __init__(self) -> None:
        self._charged: dict[_Namespace, tuple[Allowance, float]] = {}  # and until when it rests

    def __bool__(self) -> bool:
        return bool(self._charged)

    def note(self, decided: Sequence[QueuedPod], took_s: float, now: float) -> None:
        """So many pods of one class were decided within that time."""
        if not decided or took_s <= LONGEST_S + _EACH_S * len(decided):
            return
        name = _namespace_of(decided[0])
        allowance, _ = self._charged.pop(name, (Allowance(_BURST_S, _SHARE, _LONGEST_REST_S), now))
        if len(self._charged) >= MOST_KEPT:
            del self._charged[next(iter(self._charged))]
        self._charged[name] = allowance, now + allowance.take(now, took_s)

    def rests(self, item: QueuedPod, now: float) -> bool:
        """Whether the pod is to be decided later."""
        charged = self._charged.get(_namespace_of(item))
        return charged is not None and now < charged[1]


def _namespace_of(item: QueuedPod) -> _Namespace:
    return item.pod_id[0], item.placed.pod.namespace
