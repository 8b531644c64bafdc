"""The domains that a group may be placed in: from the narrowest level up to the one that it asks for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.group_domain import ANYWHERE
from shared.model.pod import FLEET
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL, level_of, within_cluster

# From the narrowest up. A host alone holds a group only if that is asked for.
_LEVELS = ("rack", "zone", "region", "provider", CLUSTER_LEVEL)


class GroupPlace(NamedTuple):
    """A domain of one cluster: `key` and `value` as of `framework.pod_info.Domains`."""

    key: str
    value: str

    @property
    def words(self) -> str:
        """rack r1 of cluster east."""
        if self.key == ANYWHERE:
            return "the fleet"
        if self.key == CLUSTER_LEVEL:
            return f"cluster {self.value}"
        cluster, _, value = self.value.partition("/")
        key = self.key.partition("@")[0].removeprefix("label:")
        return f"{'node' if key == HOST_LEVEL else key} {value} of cluster {cluster}"


def keys_up_to(within: str) -> list[str]:
    """The topology keys of the domains that may hold a group which asks for `within`, the narrowest
    first. Domains lie each within one cluster; FLEET alone bounds nothing.
    """
    if within == FLEET:
        return [*map(within_cluster, _LEVELS), ANYWHERE]
    level = level_of(within)
    if level not in _LEVELS:
        return [within_cluster(level)]
    return [within_cluster(one) for one in _LEVELS[: _LEVELS.index(level) + 1]]


def domains_of(
    fleet: FleetState, within: str, placed: Sequence[tuple[str, str]] = ()
) -> list[GroupPlace]:
    """All of these domains that have nodes, by level, then by name; only those that hold the
    `placed` nodes.
    """
    found = list[GroupPlace]()
    fixed = [row for one in placed if (row := fleet.row_of(*one)) is not None]
    if len(fixed) < len(placed):
        return []
    for key in keys_up_to(within):
        if key == ANYWHERE:
            found.append(GroupPlace(ANYWHERE, ""))
            continue
        codes = fleet.domain(key)
        values = fleet.domain_values(key)
        rows = np.asarray(fixed, dtype=np.intp) if fixed else np.flatnonzero(fleet.live)
        there = set(codes[rows].tolist())
        if not fixed or len(there) == 1:
            found += [GroupPlace(key, one) for one in sorted(values[at] for at in there - {-1})]
    return found
