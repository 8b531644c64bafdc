"""The node groups of each cluster, as their agents tell of them."""

import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from shared.model.node_group import NodeGroup, NodeGroups

_NONE: Final = NodeGroups()
_LONGEST_S: Final = 1e6
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*")


def credible(told: NodeGroups) -> NodeGroups:
    """What an agent tells, as far as it can be: names and numbers are shown to owners of pods in
    other clusters, and of each name there is one row of `FutureFleet`. Of groups that no autoscaler
    can have named so nothing is kept, and then these are not all.
    """
    known = {one.name: _sane(one) for one in told.groups if _NAME.fullmatch(one.name)}
    return NodeGroups(tuple(known.values()), told.all and len(known) == len(told.groups))


def _sane(one: NodeGroup) -> NodeGroup:
    seconds = min(max(0.0, one.seconds), _LONGEST_S) if math.isfinite(one.seconds) else 0.0
    if one.size >= 0 and seconds == one.seconds:
        return one
    return msgspec.structs.replace(one, size=max(0, one.size), seconds=seconds)


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
