"""Active pods where tenants share: among pods of equal rank the tenant with the lowest share first.

Pods of one *rank* (mostly: of one priority) wait in a lane for each tenant, and lanes hang on the
tree of tenants. The next pod is found from the root down: of the children below which pods of this
rank wait, the one with the lowest (share, pods taken in turn). In a lane pods go as without tenants
(`queued.ActivePods`). No order of two pods of different tenants is kept anywhere, as shares change
with each placement: what is kept are heaps of tenants, and only those are looked at again whose
share may have changed. A pick costs O(depth x log tenants), however many pods wait.

What is promised, beside what `queue` promises of the pods of one tenant and rank:
    1. A pod of a lower rank is decided when none of a higher one is active; of a tenant without
       weight when no pod of another tenant is, whatever their ranks.
    2. Among pods of one rank the tenant with the lowest share is next, where pods that were popped
       in the same batch count as placed.
    3. Of children with equal shares the one is next of which fewest were taken by weight (start-time fair
       queueing: who was away begins where the others are, with no credit), of equal ones who had no
       turn since it came. So the first pod of a tenant waits for no other of equal rank and share,
       however many came before it, but for first pods as itself.
    4. While others of its rank wait, a tenant takes as many in a row as `Shares.row` says: so many
       that it gets ahead of the others by a small part of what there is to share, or one.
    5. Pods of nobody's and pods of all tenants together take turns as of 3.

Sources: dominant resource fairness, Ghodsi et al. 2011; the tree and the meaning of shares as in
Kueue (pkg/cache/scheduler/fair_sharing.go); turns: Goyal et al. 1996, start-time fair queueing.
Units: a share is what `Shares.share_of` answers, a turn is counted in pods.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import structs

from dispatcher.scheduling.framework import PodInfo, QueueSort
from dispatcher.scheduling.queued import ActivePods, QueuedPod

NOBODY = ""  # whose pods are no tenant's
_OURS = (("tenants",), ("nobody",))  # the children of the root: no names of tenants
_ALL_TENANTS, _NO_TENANT = _OURS
_Name = Hashable
_ONE = 1000  # thousandths
_Rank = tuple[Any, ...]
# share, turn, whether it had a turn since it came, serial
_Key = tuple[Any, int, bool, int]


class Shares(Protocol):
    """What is asked about tenants, which are nodes of a tree, each with a name of its own."""

    def tenant_of(self, pod_info: PodInfo) -> str | None:
        """Whose pod it is; None: nobody's."""
        ...

    def path_of(self, tenant: str) -> tuple[Hashable, ...]:
        """The nodes from below the root down to the tenant; no path is the beginning of another."""
        ...

    def share_of(self, node: Hashable) -> Any:
        """The weighted dominant share of a node, comparable to those of its siblings; lower goes
        first.
        """
        ...

    def weight_of(self, node: Hashable) -> int:
        """In thousandths. 0 of a tenant: it goes when nobody else waits."""
        ...

    def row(self, tenant: str, pod_info: PodInfo, most: int) -> int:
        """How many pods like this it may take before it is looked at again whose share is the
        lowest, 1 to `most`.
        """
        ...

    def take_changed(self) -> Collection[str] | None:
        """Tenants that were charged, or given back to, since this was asked last; None: the shares
        of all may have changed.
        """
        ...

    def at(self, now: float) -> None:
        """It is `now`, in seconds that never run back."""
        ...

    def suppose(self, tenant: str, pod_info: PodInfo, times: int) -> None:
        """So many pods like this count as charged, beside what is; negative: no more."""
        ...


class Turns(NamedTuple):
    """How tenants take turns in a queue."""

    shares: Shares
    rank_of: Callable[[PodInfo], _Rank]  # lower goes first, whatever the shares


def active_pods_of(sort: QueueSort) -> "ActivePods | FairPods":
    """Those of a queue that is sorted so; by tenants only if its plugin says how, and if there are
    any.
    """
    turns_of = getattr(sort, "turns", None)
    turns = turns_of() if turns_of is not None else None
    return ActivePods() if turns is None else FairPods(turns)


class _Node:
    """A node of the tree of tenants below which pods of one rank wait. Leaves have a lane."""

    __slots__ = ("_heap", "children", "had_turn", "key", "lane", "name", "parent")

    def __init__(self, name: _Name, parent: "_Node | None") -> None:
        self.name = name
        self.parent = parent
        self.children: dict[_Name, _Node] = {}
        # An entry is void once its child has another key, or is gone. Void ones are dropped when
        # they come up. No two keys are equal, so children are never compared.
        self._heap: list[tuple[_Key, _Node]] = []
        self.key: _Key = (0, 0, False, 0)
        self.had_turn = False
        self.lane: Lane | None = None

    def first(self) -> "_Node":
        """The first of at least one child."""
        heap = self._heap
        while not self._has(heap[0]):
            heapq.heappop(heap)
        return heap[0][1]

    def show(self, child: "_Node", key: _Key) -> None:
        """A child stands there now."""
        child.key = key
        if len(self._heap) > 2 * len(self.children) + 64:
            self._heap = [entry for entry in self._heap if self._has(entry)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (key, child))

    def _has(self, entry: tuple[_Key, "_Node"]) -> bool:
        key, child = entry
        return child.key is key and self.children.get(child.name) is child


class Lane(ActivePods):
    """The active pods of one rank and tenant."""

    def __init__(self, rank: _Rank, tenant: str, leaf: _Node) -> None:
        super().__init__()
        self.rank = rank
        self.tenant = tenant
        self.leaf = leaf
        self.pods = 0

    def add(self, item: QueuedPod) -> None:
        """One more."""
        self.pods += 1
        super().add(item)

    def take(self, first: QueuedPod, most: int) -> list[QueuedPod]:
        """As of all active pods."""
        taken = super().take(first, most)
        self.pods -= len(taken)
        return taken

    def leave(self, item: QueuedPod) -> None:
        """It is active no more."""
        self.pods -= 1
        super().leave(item)


class _Level:
    """The pods of one rank."""

    def __init__(self) -> None:
        self.root = _Node("", None)
        self.lanes: dict[str, Lane] = {}


class FairPods:
    """Stands in for `ActivePods`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._shares = turns.shares
        self._levels: dict[_Rank, _Level] = {}
        # a heap; those of which no pod waits are dropped when they come up
        self._ranks: list[_Rank] = []
        # by name: of each rank of which pods wait below it
        self._nodes: dict[_Name, dict[_Rank, _Node]] = {}
        self._paths: dict[str, tuple[_Name, ...]] = {}  # of tenants that had a pod here
        self._serials = itertools.count(1)
        self._taken: Counter[_Name] = Counter()  # pods, in turns with its siblings
        self._begun: Counter[_Name] = Counter()  # parent -> where the last turn below it began
        # what was taken since `settle`, which counts as charged until then
        self._supposed: list[tuple[str, PodInfo, int]] = []
        self._has_newcomer = False

    def __len__(self) -> int:
        return sum(lane.pods for level in self._levels.values() for lane in level.lanes.values())

    # --- as ActivePods

    def add(self, item: QueuedPod) -> None:
        """One more."""
        tenant = self.whose(item)
        self._lane(self._rank_of(item, tenant), tenant).add(item)

    def whose(self, item: QueuedPod) -> str:
        """The tenant whose pod it is, or NOBODY."""
        return self._shares.tenant_of(item.pod_info) or NOBODY

    def at(self, now: float) -> None:
        """It is `now`."""
        self._shares.at(now)

    def first(self) -> QueuedPod | None:
        """The next of all; None if there is none."""
        lane = self._next_lane()
        return None if lane is None else lane.first()

    def take(self, first: QueuedPod, most: int) -> list[QueuedPod]:
        """The `first` of all and the next of its tenant, turn and class, `most` at most; they are
        active no more.
        """
        lane = _lane_of(first)
        taken = [] if lane is None else lane.take(first, self._row(lane, first, most))
        if lane is not None and taken:
            self._drop_empty(lane)
            self._note_taken(lane, taken)
        return taken

    def take_with(self, item: QueuedPod, pods: int) -> None:
        """With one that was taken so many others were that it stands for: its tenant had a turn with
        each.
        """
        tenant = self.whose(item)
        path = self._path_of(tenant)
        for above, name in zip(("", *path), path, strict=False):
            before = self._taken[name]
            self._taken[name] += self._turns_of(name, pods)
            if self._begun[above] == before:  # nobody else waited
                self._begun[above] = self._taken[name]
        self._look_at(tenant)

    def put_back(self, item: QueuedPod) -> None:
        """One that was taken and not decided: its tenant had no turn with it."""
        self.add(item)
        lane = _lane_of(item)
        node = None if lane is None else lane.leaf
        while node is not None and node.parent is not None:
            self._taken[node.name] -= self._turns_of(node.name, 1)
            self._show(node)
            node = node.parent

    def leave(self, item: QueuedPod) -> None:
        """It is active no more."""
        lane = _lane_of(item)
        if lane is not None:
            lane.leave(item)
            self._drop_empty(lane)

    def take_newcomer(self) -> bool:
        """Whether what was taken since this was asked last has the first pod of a tenant while
        others wait: what is decided of it is to be sent before these are decided.
        """
        found = self._has_newcomer
        self._has_newcomer = False
        return found

    def settle(self) -> None:
        """A batch is whole: what was taken for it is charged from now on when it is decided."""
        if self._supposed:
            for tenant, pod_info, times in self._supposed:
                self._shares.suppose(tenant, pod_info, -times)
            tenants = {tenant for tenant, _, _ in self._supposed}
            self._supposed.clear()
            for tenant in tenants:
                self._look_at(tenant)

    def in_order(self, row: int, most: int) -> Iterator[QueuedPod]:
        """As they would be taken if each was placed, `row` of a class at a time, `most` at most:
        copies.
        """
        self._refresh()
        rehearsal = _Rehearsal(self._turns)
        rehearsal.follow(self, row, most)
        found = list[QueuedPod]()
        try:
            while len(found) < most and (item := rehearsal.first()) is not None:
                found += rehearsal.take(item, row)
        finally:
            rehearsal.settle()
        return iter(found[:most])

    def share_of(self, item: QueuedPod) -> tuple[str | None, Any]:
        """Whose an active pod is, and the share of the tenant."""
        tenant = self._shares.tenant_of(item.pod_info)
        return tenant, None if tenant is None else self._shares.share_of(tenant)

    # --- who is next

    def _next_lane(self) -> "Lane | None":
        if not self._levels:
            return None
        self._refresh()
        while self._ranks[0] not in self._levels:
            heapq.heappop(self._ranks)
        node = self._levels[self._ranks[0]].root
        while node.lane is None:
            node = node.first()
        return node.lane

    def _refresh(self) -> None:
        changed = self._shares.take_changed()
        for tenant in self._paths if changed is None else changed:
            self._look_at(tenant)

    def _look_at(self, tenant: str) -> None:
        """The share of a tenant, and so of those above it, may have changed."""
        for name in self._paths.get(tenant, ()):
            for node in self._nodes.get(name, {}).values():
                self._show(node)

    def _show(self, node: _Node) -> None:
        key = self._key_of(node)
        if node.parent is not None and key[:3] != node.key[:3]:
            node.parent.show(node, key)

    def _key_of(self, node: _Node) -> _Key:
        return self._share(node), self._taken[node.name], node.had_turn, next(self._serials)

    def _share(self, node: _Node) -> Any:
        # all tenants together, and nobody's pods, have equal shares
        return 0 if node.name in _OURS else self._shares.share_of(node.name)

    def _turns_of(self, name: _Name, pods: int) -> int:
        weight = _ONE if name in _OURS else self._shares.weight_of(name)
        return pods * _ONE * _ONE // max(weight, 1)

    # --- what was taken

    def _row(self, lane: Lane, first: QueuedPod, most: int) -> int:
        """How many of a lane may be taken in a row."""
        most = min(most, lane.pods)
        is_alone = len(self._levels[lane.rank].lanes) == 1
        if is_alone or lane.tenant == NOBODY or most == 1:
            return most
        return self._shares.row(lane.tenant, first.pod_info, most)

    def _note_taken(self, lane: Lane, taken: list[QueuedPod]) -> None:
        node = lane.leaf
        self._has_newcomer |= not node.had_turn and bool(self._levels)
        while node.parent is not None:
            above = node.parent
            begins = max(self._taken[node.name], self._begun[above.name])
            ends = self._taken[node.name] = begins + self._turns_of(node.name, len(taken))
            is_alone = above.children.keys() <= {node.name}
            self._begun[above.name] = ends if is_alone else begins
            node.had_turn = True
            node = above
        if lane.tenant != NOBODY:
            pod_info = taken[0].pod_info
            self._shares.suppose(lane.tenant, pod_info, len(taken))
            self._supposed.append((lane.tenant, pod_info, len(taken)))
        self._look_at(lane.tenant)

    # --- lanes

    def _rank_of(self, item: QueuedPod, tenant: str) -> _Rank:
        """Tenants without weight come last, and before them pods on which the QueueSort plugin
        fails.
        """
        is_last = tenant != NOBODY and not self._shares.weight_of(tenant)
        fails = bool(item.order[0][0])  # see `queued.order_of`
        return is_last, fails, () if fails else self._turns.rank_of(item.pod_info)

    def _lane(self, rank: _Rank, tenant: str) -> Lane:
        level = self._levels.get(rank)
        if level is None:
            if len(self._ranks) > 2 * len(self._levels) + 64:
                self._ranks = sorted(self._levels)
            level = self._levels[rank] = _Level()
            heapq.heappush(self._ranks, rank)
        lane = level.lanes.get(tenant)
        if lane is None:
            lane = level.lanes[tenant] = self._new_lane(rank, level.root, tenant)
        return lane

    def _path_of(self, tenant: str) -> tuple[_Name, ...]:
        path = self._paths.get(tenant)
        if path is None:
            path = (
                (_NO_TENANT,) if tenant == NOBODY else (_ALL_TENANTS, *self._shares.path_of(tenant))
            )
            self._paths[tenant] = path
        return path

    def _new_lane(self, rank: _Rank, root: _Node, tenant: str) -> Lane:
        node = root
        for name in self._path_of(tenant):
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node(name, node)
                self._nodes.setdefault(name, {})[rank] = child
                node.show(child, self._key_of(child))
            node = child
        lane = node.lane = Lane(rank, tenant, node)
        return lane

    def _drop_empty(self, lane: Lane) -> None:
        """Pods have left a lane."""
        if lane.pods:
            return
        level = self._levels[lane.rank]
        del level.lanes[lane.tenant]
        if not level.lanes:
            del self._levels[lane.rank]
        node = lane.leaf
        node.lane = None  # void entries hold the node: with nothing of its pods
        while node.parent is not None and not node.children:
            del node.parent.children[node.name]
            of_name = self._nodes[node.name]
            del of_name[lane.rank]
            if not of_name:
                del self._nodes[node.name]
            node = node.parent


class _Rehearsal(FairPods):
    """Copies of the first pods of each lane, to be taken without consequences."""

    def follow(self, real: FairPods, row: int, most: int) -> None:
        """Stand as they do."""
        self._taken.update(real._taken)
        self._begun.update(real._begun)
        ranks = _first_ranks(real._levels, most)
        lanes = [lane for rank in ranks for lane in real._levels[rank].lanes.values()]
        for lane in sorted(lanes, key=lambda one: one.leaf.key[-1]):
            for item in lane.in_order(row, most):
                self.add(structs.replace(item, group=None))
        for name, nodes in real._nodes.items():
            for rank in nodes.keys() & ranks:
                node = nodes[rank]
                mine = self._nodes[name][rank]
                mine.had_turn = node.had_turn
                self._show(mine)

    def _refresh(self) -> None:
        """Nothing is charged meanwhile."""


def _first_ranks(levels: Mapping[_Rank, _Level], most: int) -> set[_Rank]:
    """Those of which the first `most` pods are: a rank is for when all pods of those before it are
    taken.
    """
    found = set[_Rank]()
    for rank in sorted(levels):
        if most <= 0:
            break
        found.add(rank)
        most -= sum(lane.pods for lane in levels[rank].lanes.values())
    return found


def _lane_of(item: QueuedPod) -> Lane | None:
    lane = item.group.owner if item.group is not None else None
    return lane if isinstance(lane, Lane) else None
