"""Pods of clusters that are not configured: a cluster was renamed, or removed from the
configuration too early.

They are reported and never touched: the cluster may be put back, and only an operator can know.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracking import Tracked


class UnconfiguredCluster(NamedTuple):
    """A cluster that is not configured: our pods that went there, and delegates here of its pods."""

    cluster: str
    went: int
    came: int

    @property
    def text(self) -> str:
        """What is the matter, and what to do."""
        return (
            f'cluster "{self.cluster}" is not one of this dispatcher\'s, but {self.went} pods '
            "went there and "
            f"{self.came} of its pods run here: nothing is done about them. Put it back into the "
            "configuration, or "
            f"`global-dispatcher cluster leave {self.cluster} --lost` if it never comes back"
        )


def of(tracked: Iterable[Tracked], clusters: Collection[str]) -> list[UnconfiguredCluster]:
    """Clusters that are not among `clusters`, by name, and what there is of them."""
    went: Counter[str] = Counter()
    came: Counter[str] = Counter()
    for one in tracked:
        source = one.source or one.vanished
        target = target_of(one.home, source) if source is not None else ""
        if target and target not in clusters:
            went[target] += 1
        if one.delegates and one.home not in clusters:
            came[one.home] += len(one.delegates)
    return [
        UnconfiguredCluster(name, went[name], came[name])
        for name in sorted(went.keys() | came.keys())
    ]
