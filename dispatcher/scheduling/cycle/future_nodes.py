"""What autoscalers could do for a pod that no node takes: which of their groups make a node that
fits, and whether to evict others for the pod before such a node had time to come.

The filters of the pod's own profile are asked of a fleet of such nodes (`fleet.future`). Those
that look at other pods than the node's own (`Depends.DOMAIN`, `FLEET`) are not: where a new node
would be among the others is not told. So a node that is said to fit might not.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.future import FutureFleet
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.framework import (
    Bools,
    Depends,
    Filter,
    Plugin,
    PodInfo,
    Profile,
    Refuse,
    RoomFilter,
    Skip,
)
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.points import Plan, PluginError, guarded
from shared.messages.pod_cache import POD_CACHE_BYTES, PodCache
from shared.model.node_group import NodeGroup

MAX_HINTS: Final = 3  # clusters that are named in a message
_MOST_KEPT: Final = 1024  # classes of pods
# Pods of a class for which no node came in its time do not wait for one again for so long.
REST_S: Final = 600.0
_ROOM_FOR_LATE: Final = 2.0  # times what the last growth of a group took

Anew = Callable[[], Sequence[Plugin]]


class Outlook(NamedTuple):
    """What node groups could do for a pod. `fits`: cluster -> names of the groups whose nodes would
    take it, of its own cluster first, and of a few. `beyond_home`: it is certain that no new node
    of its own cluster is large enough.
    """

    fits: Mapping[str, frozenset[str]] = MappingProxyType({})
    beyond_home: bool = False


NO_OUTLOOK: Final = Outlook()

_Kind = tuple[ClassKey, str, int]  # home, priority


class _Kept(NamedTuple):
    """An outlook, and what it rests on: on the clock only where a filter looked at it (`by_time`);
    that no new node is large enough rests on those that are there, too.
    """

    outlook: Outlook
    by_time: bool
    standing: Hashable
    objects: dict[str, int]
    nodes_at: int


class FutureNodes:
    """Of one profile. `anew` makes its plugins a second time: what they keep of one fleet, by rows
    and positions in its log, must not be taken for what they know of another. `fault` is told what
    they fail with.
    """

    def __init__(
        self,
        profile: Profile,
        anew: Anew | None,
        fleet: FleetState,
        fault: Callable[[PluginError], None],
    ) -> None:
        self._profile = profile
        self._anew = anew
        self._fleet = fleet
        self._fault = fault
        self._future: FutureFleet | None = None
        self._filters: Sequence[Filter] = ()
        self._kept: PodCache[Hashable, _Kept] = PodCache(_MOST_KEPT)
        self._since: dict[_Kind, float] = {}
        self.wait_s = 0.0  # the longest that a pod waits for a node before it evicts others

    @property
    def known(self) -> bool:
        """Whether any cluster tells of node groups."""
        return self._anew is not None and bool(self._fleet.groups)

    def outlook(self, key: ClassKey, pod_info: PodInfo) -> Outlook:
        """For a pod of this class; kept until what it rests on has changed."""
        fleet = self._future = self._future or self._begin()
        if fleet is None:
            return NO_OUTLOOK
        fleet.follow()
        kind = (key, pod_info.home)
        kept = self._kept.get(kind)
        if kept is not None and self._holds(kept):
            return kept.outlook
        observed = Observed()
        try:
            outlook = self._asked(pod_info, fleet, ObservedView(fleet, observed))
        except PluginError as error:
            self._fault(error)
            return NO_OUTLOOK
        versions = fleet.kept.versions
        objects = {one: versions[one] for one in observed.kinds}
        standing = self._standing(by_time=observed.now)
        nodes_at = self._fleet.changes.position
        told = _Kept(outlook, observed.now, standing, objects, nodes_at)
        self._kept.put(kind, told, key.said)
        return outlook

    def _begin(self) -> FutureFleet | None:
        """Make the plugins anew, of which those filters are asked that judge a node by itself; None
        where they cannot be made twice, which is not tried again.
        """
        try:
            plan = Plan.of(self._profile, self._anew() if self._anew is not None else ())
        except Exception as error:
            self._anew = None
            self._fault(PluginError.of(self._profile.scheduler_name, error))
            return None
        self._filters = [
            one
            for one in plan.filters
            if one.depends in (Depends.STATIC, Depends.NODE) and one not in plan.pod_plugins
        ]
        return FutureFleet(self._fleet)

    def _standing(self, *, by_time: bool) -> tuple[Hashable, ...]:
        """What filters may look at without its being noted by their view, and the clock."""
        fleet = self._fleet
        return (
            fleet.groups.version,
            fleet.clusters_version,
            tuple(fleet.closed.items()),
            tuple(fleet.proxy_taints.items()),
            fleet.clock if by_time else None,
        )

    def _holds(self, kept: _Kept) -> bool:
        versions = self._fleet.kept.versions
        return (
            kept.standing == self._standing(by_time=kept.by_time)
            and all(versions[one] == at for one, at in kept.objects.items())
            and (not kept.outlook.beyond_home or kept.nodes_at == self._fleet.changes.position)
        )

    def _asked(self, pod_info: PodInfo, fleet: FutureFleet, view: ObservedView) -> Outlook:
        rows = np.flatnonzero(fleet.live)
        takes = np.ones(len(rows), dtype=np.bool_)
        small = np.zeros(len(rows), dtype=np.bool_)
        wanted = list[tuple[str, int]]()
        for plugin in self._filters:
            state = guarded(plugin, plugin.pre_filter, pod_info, view)
            if isinstance(state, Skip):
                continue
            if isinstance(state, Refuse):  # whatever nodes there are
                return NO_OUTLOOK
            if len(rows):
                takes &= guarded(plugin, plugin.filter, state, view, rows) == 0
            if isinstance(plugin, RoomFilter):
                wants = guarded(plugin, plugin.wants, state) or ()
                small |= _too_small(fleet, rows, wants)
                wanted += wants
        at_home = fleet.cluster[rows] == _index_of(fleet, pod_info.home)
        home = self._fleet.groups.of(pod_info.home)
        beyond = (
            home.all
            and np.count_nonzero(at_home) == len(home.groups)
            and bool(small[at_home].all())
            and not self._is_as_large(pod_info.home, wanted)
        )
        return Outlook(_by_cluster(fleet, rows[takes], pod_info.home), beyond)

    def _is_as_large(self, home: str, wants: Sequence[tuple[str, int]]) -> bool:
        """Whether its own cluster has a node as large as that: then so may a new one be, whatever
        is told of it.
        """
        fleet = self._fleet
        rows = fleet.live & (fleet.cluster == _index_of(fleet, home))
        for name, amount in wants:
            column = fleet.axis.column(name)
            if column is None:
                return False
            rows = rows & (fleet.allocatable[column] >= amount)
        return bool(rows.any())

    # --- what follows
    # ----------------------------------------------------------------------------------------------

    def hints(self, pod_info: PodInfo, outlook: Outlook) -> Iterator[str]:
        """What is told of it: of the pod's own cluster first, of one group a cluster."""
        home = pod_info.home
        if outlook.beyond_home:
            yield f"no node group of cluster {home} makes a node as large as it asks for"
        for cluster in outlook.fits:
            group = self._best(cluster, outlook)
            if group is not None:
                yield _told(cluster, group, at_home=cluster == home)

    def _best(self, cluster: str, outlook: Outlook) -> NodeGroup | None:
        fitting = outlook.fits.get(cluster)
        if not fitting:
            return None
        found = [one for one in self._fleet.groups.of(cluster).groups if one.name in fitting]
        return min(found, key=_rank, default=None)

    def waits_until(self, key: ClassKey, pod_info: PodInfo, outlook: Outlook) -> float | None:
        """Until when the pod evicts nobody, as a node group of its own cluster may bring it room;
        None: it need not wait. One that waits goes on to where the group has all its nodes: the
        last may be on its way.
        """
        group = self._best(pod_info.home, outlook)
        if not self.wait_s or group is None or group.backs_off:
            return None
        now = self._fleet.now
        usual = group.seconds * _ROOM_FOR_LATE
        wait_s = min(self.wait_s, usual) if usual else self.wait_s
        kind = (key, pod_info.home, pod_info.pod.priority)
        since = self._since.get(kind)
        if since is None or now - since >= wait_s + REST_S:
            if not group.grows or not self._has_room(now):
                return None
            since = self._since[kind] = now
        return since + wait_s if now - since < wait_s else None

    def kept(self) -> Callable[[], None]:
        """What brings back who waits since when, as it is now."""
        since = dict(self._since)

        def bring_back() -> None:
            self._since = since

        return bring_back

    def _has_room(self, now: float) -> bool:
        """Whether one more may wait. Nobody is forgotten whose time runs: with pods of many kinds
        others would wait for ever.
        """
        if not self._may_keep():
            oldest = now - self.wait_s - REST_S
            self._since = {kind: at for kind, at in self._since.items() if at > oldest}
        return self._may_keep()

    def _may_keep(self) -> bool:
        said = sum([key.said for key, _, _ in self._since])
        return len(self._since) < _MOST_KEPT and said < POD_CACHE_BYTES


def _rank(group: NodeGroup) -> tuple[bool, bool, float, str]:
    return not group.grows, group.backs_off, group.seconds, group.name


def _told(cluster: str, group: NodeGroup, *, at_home: bool) -> str:
    size = f"node group {group.name}, {group.size} of at most {group.most} nodes"
    usual = f", usually {group.seconds:.0f} s" if group.seconds else ""
    if group.backs_off:
        return f"cluster {cluster} makes no node that fits for now: {size}, backs off or is paused"
    if not group.grows:
        return f"cluster {cluster} has all nodes that it may have of those that fit: {size}"
    text = f"cluster {cluster} could make a node that fits: {size}{usual}"
    if at_home:
        return text
    return f"{text}; its autoscaler sees no pods of other clusters: make the group larger there"


def _index_of(fleet: FleetState, cluster: str) -> int:
    return next((at for at, one in enumerate(fleet.clusters) if one.name == cluster), -1)


def _by_cluster(fleet: FutureFleet, rows: RowList, home: str) -> Mapping[str, frozenset[str]]:
    """cluster -> names of the groups of these rows, `home` first, and MAX_HINTS clusters at
    most.
    """
    indices = fleet.cluster[rows]
    found = {fleet.clusters[at].name: at for at in np.unique(indices).tolist()}
    told = sorted(found, key=lambda one: (one != home, one))[:MAX_HINTS]
    of = {one: rows[indices == found[one]].tolist() for one in told}
    return {one: frozenset(fleet.name_of(row)[1] for row in of[one]) for one in told}


def _too_small(fleet: FutureFleet, rows: RowList, wants: Sequence[tuple[str, int]]) -> Bools:
    """[rows] whether the node is told to have less of something than the pod wants. Of what it has
    none nothing is told.
    """
    small = np.zeros(len(rows), dtype=np.bool_)
    for name, amount in wants:
        column = fleet.axis.column(name)
        if column is not None:
            has = fleet.allocatable[column, rows]
            small |= (has > 0) & (has < amount)
    return small
