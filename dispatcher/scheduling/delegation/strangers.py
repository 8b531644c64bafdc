"""Pods that belong to clusters which are none of this dispatcher's: renamed, or taken off its configuration too early.

They are told and never touched: whoever took the cluster off may put it back, and only an operator can know.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracking import Tracked


class Stranger(NamedTuple):
    """A cluster that is not ours: pods of ours that went there, and delegates here of pods that come from there."""

    cluster: str
    went: int
    came: int

    @property
    def text(self) -> str:
        """What is the matter, and what to do."""
        return (
            f'cluster "{self.cluster}" is not one of this dispatcher\'s, but {self.went} pods went there and '
            f"{self.came} of its pods run here: nothing is done about them. Put it back into the configuration, or "
            f"`global-dispatcher cluster leave {self.cluster} --lost` if it never comes back"
        )


def of(tracked: Iterable[Tracked], clusters: Collection[str]) -> list[Stranger]:
    """Clusters that are not among `clusters`, by name, and what there is of them."""
    went: Counter[str] = Counter()
    came: Counter[str] = Counter()
    for one in tracked:
        source = one.source
        target = target_of(one.home, source) if source is not None else ""
        if target and target not in clusters:
            went[target] += 1
        if one.delegates and one.home not in clusters:
            came[one.home] += len(one.delegates)
    return [Stranger(name, went[name], came[name]) for name in sorted(went.keys() | came.keys())]
