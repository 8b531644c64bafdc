"""How many bytes pods of other clusters may be here, and how many may be made: each is an object in this etcd.

Counted are the bytes of delegates as JSON, by source cluster, and by source cluster and namespace: what one user or one
cluster may cost another one must not grow with the number of pods that it makes, or with how often it makes them.
"""

from agents.executor.byte_budget import ByteBudget, ByteRate
from agents.executor.policy import ForeignBytes
from agents.executor.view import ClusterView
from dispatcher.model.pod import SourceRef

_MIB = 2**20
_MINUTE_S = 60.0
_SETTING = "of the executor's settings there"


class ForeignBudget:
    """What was made of late, and what stands, against `most`."""

    def __init__(self, most: ForeignBytes) -> None:
        self._most = most
        self._of_namespace = _a_minute(most.namespace_mib_per_minute)
        self._of_cluster = _a_minute(most.cluster_mib_per_minute)

    def full(self, source: SourceRef, size: int, view: ClusterView) -> str:
        """Why one more delegate of this size is too much beside those that stand; '' if it is not."""
        most = self._most
        name = source.namespace
        for which, stands, mib, key in (
            (
                f'namespace "{name}" of cluster "{source.cluster}"',
                view.foreign_bytes(source.cluster, name),
                most.namespace_mib,
                "namespace_mib",
            ),
            (
                f'cluster "{source.cluster}"',
                view.foreign_bytes(source.cluster),
                most.cluster_mib,
                "cluster_mib",
            ),
        ):
            if stands + size > mib * _MIB:
                return (
                    f"pods of {which} have {stands // _MIB} MiB here, and may have {mib} MiB: make them smaller or "
                    f"fewer, or raise `foreign_bytes.{key}` {_SETTING}"
                )
        return ""

    def too_fast(self, source: SourceRef, now: float) -> str:
        """Why none is made now; '' if one may be."""
        most = self._most
        name = source.namespace
        if self._of_namespace.wait_s(_key(source), now):
            which = f'namespace "{name}" of cluster "{source.cluster}"'
            mib, key = most.namespace_mib_per_minute, "namespace_mib_per_minute"
        elif self._of_cluster.wait_s(source.cluster, now):
            which = f'cluster "{source.cluster}"'
            mib, key = most.cluster_mib_per_minute, "cluster_mib_per_minute"
        else:
            return ""
        return (
            f"pods of {which} were made here with more than {mib} MiB a minute: they wait, or raise "
            f"`foreign_bytes.{key}` {_SETTING}"
        )

    def spend(self, source: SourceRef, now: float, size: int) -> None:
        """One was made."""
        self._of_namespace.spend(_key(source), now, size)
        self._of_cluster.spend(source.cluster, now, size)


def _a_minute(mib: int) -> ByteBudget:
    return ByteBudget(ByteRate(mib * _MIB, mib * _MIB / _MINUTE_S))


def _key(source: SourceRef) -> str:
    return f"{source.cluster}/{source.namespace}"
