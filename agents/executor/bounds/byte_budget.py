"""How many bytes may be written to this cluster's API server for a pod, a namespace or another
cluster.

Of what is one cluster's the last quarter is only for namespaces that take no more than a 32nd of
it, so that a few namespaces keep no others out.
"""

from typing import NamedTuple

from agents.executor.bounds.recent import Recent
from shared.model.token_buckets import Allowance

KEPT = 1 / 4  # of what is a cluster's
LITTLE = 1 / 32  # of it; a namespace with no more than that may use the part that is kept
OF_NAMESPACE = "namespace"
OF_CLUSTER = "cluster"
ALL_BUT_KEPT = "all but kept"
_LONGEST_S = 600.0  # of a debt that is remembered


class ByteRate(NamedTuple):
    """`at_once` bytes, and so many a second after that."""

    at_once: float
    per_s: float


class ByteBudget:
    """One rate for each key. What is written is spent, whatever it is; until a debt is over nothing
    more is written.
    """

    def __init__(self, rate: ByteRate) -> None:
        self._rate = rate
        self._keys: Recent[str, Allowance] = Recent()

    def wait_s(self, key: str, now: float) -> float:
        """Seconds until more may be written for this key, 0.0 if it may be now."""
        known = self._keys.get(key)
        return known.take(now, 0) if known is not None else 0.0

    def spend(self, key: str, now: float, amount: int) -> None:
        """So many bytes were written."""
        known = self._keys.get(key) or Allowance(*self._rate, _LONGEST_S)
        known.take(now, amount)
        self._keys.put(key, known)


class SharedBudget:
    """A rate for each cluster, shared by its namespaces: each has a rate of its own, and leaves
    what is kept.
    """

    def __init__(self, of_namespace: ByteRate, of_cluster: ByteRate) -> None:
        at_once, per_s = of_cluster
        self._of_namespace = ByteBudget(of_namespace)
        self._little = ByteBudget(ByteRate(at_once * LITTLE, per_s * LITTLE))
        self._of_cluster = ByteBudget(of_cluster)
        self._but_kept = ByteBudget(ByteRate(at_once * (1 - KEPT), per_s))

    def spent(self, cluster: str, namespace: str, now: float) -> str:
        """Which rate was used up: OF_NAMESPACE, OF_CLUSTER or ALL_BUT_KEPT; '' if more may be
        written.
        """
        key = f"{cluster}/{namespace}"
        if self._of_namespace.wait_s(key, now):
            return OF_NAMESPACE
        if self._of_cluster.wait_s(cluster, now):
            return OF_CLUSTER
        return (
            ALL_BUT_KEPT
            if self._little.wait_s(key, now) and self._but_kept.wait_s(cluster, now)
            else ""
        )

    def spend(self, cluster: str, namespace: str, now: float, amount: int) -> None:
        """So many bytes were written."""
        for budget in (self._of_namespace, self._little):
            budget.spend(f"{cluster}/{namespace}", now, amount)
        for budget in (self._of_cluster, self._but_kept):
            budget.spend(cluster, now, amount)
