"""How many bytes pods of other clusters may be here, and how many may be made: each is an object in
this etcd.

Counted are the bytes of delegates as JSON, and of copies of what they name (`copies`) and call
(`services`), by source cluster, and by source cluster and namespace: what one user or one cluster
may cost another one must not grow with the number of pods that it makes, or with how often it makes
them.

The last quarter of what a cluster may have, and may make in a minute, is kept (`byte_budget`). For
example, with 512 MiB for a cluster and 256 for a namespace, two namespaces that make as many pods
as they can have 256 and 128 MiB; of others, each still has its first 16 MiB, until all is full.
"""

from agents.executor.bounds.byte_budget import (
    ALL_BUT_KEPT,
    KEPT,
    LITTLE,
    OF_NAMESPACE,
    ByteRate,
    SharedBudget,
)
from agents.executor.context.copy_table import Copies
from agents.executor.context.service_table import Services
from agents.executor.context.view import ClusterView
from agents.executor.crossing.policy import ForeignBytes
from shared.kube.verdicts import Answer
from shared.messages import OF_CLUSTER, REFUSED
from shared.model.pod import SourceRef

_MIB = 2**20
_MINUTE_S = 60.0
_SETTING = "of the executor's settings there"
_KEPT_SAID = "the last quarter only for namespaces that take less"


class ForeignBudget:
    """What was made of late, and what stands, against `most`."""

    def __init__(self, most: ForeignBytes, copies: Copies, services: Services) -> None:
        self._most = most
        self._copies = copies
        self._services = services
        self._made = SharedBudget(
            _a_minute(most.namespace_mib_per_minute), _a_minute(most.cluster_mib_per_minute)
        )

    def full(self, source: SourceRef, size: int, view: ClusterView) -> str:
        """Why one more delegate, or copy, of this size is too much beside those that stand; '' if
        it is not.
        """
        most = self._most
        own = self._stands(source.cluster, source.namespace, view)
        of_all = self._stands(source.cluster, "", view)
        if own + size > _bytes(most.namespace_mib):
            return _too_many(_named(source), own, most.namespace_mib, "namespace_mib")
        if of_all + size > _bytes(most.cluster_mib):
            return _too_many(f'cluster "{source.cluster}"', of_all, most.cluster_mib, "cluster_mib")
        little = own + size <= _bytes(most.cluster_mib * LITTLE)
        if not little and of_all + size > _bytes(most.cluster_mib * (1 - KEPT)):
            return _too_many(
                f'cluster "{source.cluster}"', of_all, most.cluster_mib, "cluster_mib", _KEPT_SAID
            )
        return ""

    def _stands(self, cluster: str, namespace: str, view: ClusterView) -> int:
        copies = self._copies.bytes_of(cluster, namespace)
        services = self._services.bytes_of(cluster, namespace)
        return view.foreign_bytes(cluster, namespace) + copies + services

    def too_fast(self, source: SourceRef, now: float) -> str:
        """Why none is made now; '' if one may be."""
        spent = self._made.spent(source.cluster, source.namespace, now)
        if spent == OF_NAMESPACE:
            return _too_often(
                _named(source), self._most.namespace_mib_per_minute, "namespace_mib_per_minute"
            )
        if spent:
            which = f'cluster "{source.cluster}"'
            kept = _KEPT_SAID if spent == ALL_BUT_KEPT else ""
            return _too_often(
                which, self._most.cluster_mib_per_minute, "cluster_mib_per_minute", kept
            )
        return ""

    def no_room(self, source: SourceRef, more: int, view: ClusterView, now: float) -> Answer | None:
        """The answer where a write is too much now, `more`: the bytes by which what stands grows."""
        if more > 0 and (full := self.full(source, more, view)):
            return Answer(REFUSED, full, OF_CLUSTER)
        fast = self.too_fast(source, now)
        return Answer(REFUSED, fast, OF_CLUSTER, passing=True) if fast else None

    def spend(self, source: SourceRef, now: float, size: int) -> None:
        """One was made, or written, or may have been."""
        self._made.spend(source.cluster, source.namespace, now, size)


def _too_many(which: str, stands: int, mib: int, key: str, kept: str = "") -> str:
    return (
        f"pods of {which} have {stands // _MIB} MiB here, and may have {mib} MiB{_beside(kept)}: "
        "make them smaller or "
        f"fewer, or raise `foreign_bytes.{key}` {_SETTING}"
    )


def _too_often(which: str, mib: int, key: str, kept: str = "") -> str:
    return (
        f"pods of {which} were made here with more than {mib} MiB a minute{_beside(kept)}: they "
        "wait, or raise "
        f"`foreign_bytes.{key}` {_SETTING}"
    )


def _beside(kept: str) -> str:
    return f" ({kept})" if kept else ""


def _a_minute(mib: int) -> ByteRate:
    return ByteRate(_bytes(mib), _bytes(mib) / _MINUTE_S)


def _bytes(mib: float) -> float:
    return mib * _MIB


def _named(source: SourceRef) -> str:
    return f'namespace "{source.namespace}" of cluster "{source.cluster}"'
