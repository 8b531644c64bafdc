"""The node groups of each cluster, as their agents tell of them."""

from collections.abc import Mapping
from typing import Final

from shared.model.node_group import NodeGroups

_NONE: Final = NodeGroups()


class NodeGroupTable:
    """What each cluster tells of its groups. `version` moves with every change."""

    def __init__(self) -> None:
        self._told: dict[str, NodeGroups] = {}
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._told)

    def put(self, cluster: str, told: NodeGroups | None) -> bool:
        """Take what a cluster tells, None for one that does not. Whether other nodes can be made
        there than before; how many there are is no such news.
        """
        before = self._told.get(cluster)
        if told == before:
            return False
        self.version += 1
        if told is None:
            del self._told[cluster]
        else:
            self._told[cluster] = told
        return _offers(before) != _offers(told)

    def of(self, cluster: str) -> NodeGroups:
        """The groups of a cluster, none where it does not tell."""
        return self._told.get(cluster, _NONE)

    def all(self) -> Mapping[str, NodeGroups]:
        """What each cluster tells that does."""
        return self._told


def _offers(told: NodeGroups | None) -> object:
    return told and (told.all, [(one.name, one.template, one.grows) for one in told.groups])
