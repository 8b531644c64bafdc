"""The domains that a group may be placed in: from the narrowest level up to the one that it asks for."""

from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import SmallInts
from dispatcher.scheduling.framework.group_domain import ANYWHERE
from dispatcher.scheduling.framework.pod_info import Domains
from shared.model.pod import FLEET
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL, level_of, within_cluster

# From the narrowest up. A host alone is a domain only where that is asked for.
_MOST_KEYS = 256  # whose domains are kept; pods say any
_LEVELS = ("rack", "zone", "region", "provider", CLUSTER_LEVEL)


class GroupPlace(NamedTuple):
    """A domain of one cluster: `key` and `value` as of `framework.pod_info.Domains`."""

    key: str
    value: str

    @property
    def only_in(self) -> Domains:
        """As members carry it."""
        return Domains(self.key, (self.value,))

    @property
    def words(self) -> str:
        """Like 'rack r1 of cluster east'."""
        if self.key == ANYWHERE:
            return "the fleet"
        if self.key == CLUSTER_LEVEL:
            return f"cluster {self.value}"
        cluster, _, value = self.value.partition("/")
        level = self.key.partition("@")[0].removeprefix("label:")
        return f"{'node' if level == HOST_LEVEL else level} {value} of cluster {cluster}"


def keys_up_to(within: str) -> list[str]:
    """The topology keys of the domains that may hold a group which asks for `within`, the narrowest
    first. Domains lie each within one cluster; ANYWHERE, of a group that asks for FLEET, is none.
    """
    if within == FLEET:
        return [*map(within_cluster, _LEVELS), ANYWHERE]
    level = level_of(within)
    if level not in _LEVELS:
        return [within_cluster(level)]
    return [within_cluster(one) for one in _LEVELS[: _LEVELS.index(level) + 1]]


class DomainLevels:
    """The domains of each topology key, as nodes are now."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._at = -1
        self._with_nodes: dict[str, RowList] = {}
        self._nowhere: SmallInts = np.zeros(0, dtype=np.int32)

    def codes(self, key: str) -> SmallInts:
        """[n] the domain of each row, -1 for none; of ANYWHERE 0."""
        if key != ANYWHERE:
            return self._fleet.domain(key)
        if len(self._nowhere) != self._fleet.n:
            self._nowhere = np.zeros(self._fleet.n, dtype=np.int32)
        return self._nowhere

    def size(self, key: str) -> int:
        """How many codes there are."""
        if key == ANYWHERE:
            return 1
        return self._fleet.n if key == HOST_LEVEL else len(self._fleet.domain_values(key))

    def with_nodes(self, key: str) -> RowList:
        """The codes of domains that have nodes, ascending."""
        if self._at != self._fleet.changes.position:
            self._at = self._fleet.changes.position
            self._with_nodes = {}
        found = self._with_nodes.get(key)
        if found is None:
            if len(self._with_nodes) >= _MOST_KEYS:
                self._with_nodes = {}
            codes = self.codes(key)[self._fleet.live]
            there = np.bincount(codes[codes >= 0], minlength=1)
            found = self._with_nodes[key] = np.flatnonzero(there)
        return found

    def place(self, key: str, code: int) -> GroupPlace:
        """The domain of a code."""
        if key == ANYWHERE:
            return GroupPlace(key, "")
        if key == HOST_LEVEL:
            return GroupPlace(key, "/".join(self._fleet.name_of(code)))
        return GroupPlace(key, self._fleet.domain_values(key)[code])
