"""The fleet: every node of every cluster as one row of columns, and every pod that sits on one.

The single writer is the core. Each change touches the rows it is about and says so in a journal, so that pod classes
catch up with exactly those rows. Proxy nodes are no rows: a pod behind one is entered where its delegate runs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from dispatcher.model.node import Node, Reading
from dispatcher.model.objects import Namespace
from dispatcher.model.pod import Pod, PodId
from dispatcher.model.reasons import ReasonTable
from dispatcher.model.resources import MAX_QUANTITY
from dispatcher.model.topology import level_of
from dispatcher.scheduling.fleet.counts import DomainCount, MatchCounts
from dispatcher.scheduling.fleet.journal import Journal
from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.fleet.occupants import (
    Apps,
    Occupant,
    Ports,
    SharedDicts,
    is_unseen,
    runs_alike,
    weighs_the_same,
)
from dispatcher.scheduling.fleet.readings import take_sample
from dispatcher.scheduling.fleet.selecting import DefaultSelectors
from dispatcher.scheduling.fleet.terms import TermCounts
from dispatcher.scheduling.fleet.volumes import USERS, VolumesInUse
from dispatcher.scheduling.framework import Ints, Placed, Rows
from dispatcher.scheduling.framework.pod_sets import PodSet
from dispatcher.scheduling.rules.requests import nonzero_request, requested

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_CPU, _MEMORY = 0, 1  # rows of `nonzero` and `recent`, and of the signals of these names


class FleetState(NodeTable):
    """What `view.ObservedView` shows to plugins. Not thread-safe: one writer, also the only reader while it writes."""

    def __init__(self, *, now: float = 0.0) -> None:
        super().__init__()
        self.reasons = ReasonTable()
        self.loads = Journal()  # rows whose pods or readings changed
        self.now = now  # seconds on the core's clock
        self._counts = MatchCounts(self._namespace_labels)
        self.terms = TermCounts(self._namespace_labels)
        self._ports = Ports()
        self._dicts = SharedDicts()
        self.volumes = VolumesInUse()
        self.selectors = DefaultSelectors(self.kept)
        self._occupants: dict[PodId, Occupant] = {}
        self._apps = Apps()
        self._at: dict[tuple[str, str], dict[PodId, Occupant]] = {}
        self._unseen: dict[int, list[Occupant]] = {}

    # --- clusters and nodes ------------------------------------------------------------------------------------------

    def put_node(self, cluster: str, node: Node) -> int:
        """Insert or update a node; pods that were placed on it by name before it was known attach now. Its row."""
        home = self._cluster(cluster)
        row = home.rows.get(node.name)
        if row is not None and self._nodes[row] == node:
            return row
        there = list(self._at.get((cluster, node.name), {}).values())
        if row is None:
            row = self._new_row(home, node.name)
        else:
            self._count(there, row, -1)
        self._write_node(row, node)
        for occupant in there:
            if occupant.row is None:
                self._attach(occupant, row)
            else:
                self._count([occupant], row, 1)
        return row

    def remove_node(self, cluster: str, name: str) -> None:
        """The row dies and may be used again; the pods on it stay known by name. Unknown nodes are ignored."""
        home = self._cluster(cluster)
        row = home.rows.get(name)
        if row is None:
            return
        for occupant in self._at.get((cluster, name), {}).values():
            self._detach(occupant)
            occupant.unseen_cpu = occupant.unseen_memory = True  # what comes back has no reading that shows it
        self._unseen.pop(row, None)
        self._drop_row(home, name)

    def put_reading(self, cluster: str, reading: Reading) -> None:
        """Take over what a reading knows, newest sample first come; unknown nodes are ignored.

        A reading sampled at or after the time a pod was placed includes that pod, so `recent` stops counting it.
        """
        row = self._cluster(cluster).rows.get(reading.node)
        if row is None:
            return
        for name, share, age in reading.signals():
            column = self._signal(name)
            if column is not None:
                take_sample(self._store, column, row, share, age, self.now)
        self._forget_seen(row)
        self.loads.append(row)

    def _forget_seen(self, row: int) -> None:
        unseen = self._unseen.get(row)
        if not unseen:
            return
        cpu_at, memory_at = self._store.used_at[_CPU, row], self._store.used_at[_MEMORY, row]
        for occupant in unseen:
            self._mark_seen(occupant, cpu=occupant.placed_at <= cpu_at, memory=occupant.placed_at <= memory_at)
        left = [one for one in unseen if one.unseen_cpu or one.unseen_memory]
        self._unseen[row] = left

    def _mark_seen(self, occupant: Occupant, *, cpu: bool, memory: bool) -> None:
        row = occupant.row
        if row is None:
            return
        amounts = nonzero_request(occupant.placed.pod)
        if cpu and occupant.unseen_cpu:
            self._store.add("recent", self._store.recent, _CPU, row, -amounts[_CPU])
            occupant.unseen_cpu = False
        if memory and occupant.unseen_memory:
            self._store.add("recent", self._store.recent, _MEMORY, row, -amounts[_MEMORY])
            occupant.unseen_memory = False

    # --- pods --------------------------------------------------------------------------------------------------------

    def place(self, pod_id: PodId, placed: Placed, cluster: str, node: str, *, assumed: bool) -> None:
        """Enter a pod on a node; again with the same place is no change, with another it moves, exactly."""
        if not assumed:  # a record that lasts
            self._dicts.share(placed.pod)
        old = self._occupants.get(pod_id)
        stays = old is not None and old.cluster == cluster and old.node == node
        if old is not None and stays and weighs_the_same(old.placed.pod, placed.pod):
            old.placed, old.assumed = placed, assumed
            return
        new = Occupant(pod_id, placed, cluster, node, assumed, self.now)
        new.unseen_cpu = new.unseen_memory = assumed or is_unseen(placed)
        if old is not None:
            if stays:
                new.placed_at, new.unseen_cpu, new.unseen_memory = old.placed_at, old.unseen_cpu, old.unseen_memory
            self.remove(pod_id)
        self._occupants[pod_id] = new
        self._apps.put(new)
        self._at.setdefault((cluster, node), {})[pod_id] = new
        row = self.row_of(cluster, node)
        if row is not None:
            self._attach(new, row)

    def remove(self, pod_id: PodId) -> bool:
        """Take a pod out, the exact inverse of `place`; False if it is unknown."""
        occupant = self._occupants.pop(pod_id, None)
        if occupant is None:
            return False
        self._apps.drop(occupant)
        self._detach(occupant)
        where = (occupant.cluster, occupant.node)
        del self._at[where][pod_id]
        if not self._at[where]:
            del self._at[where]
        return True

    def remove_pod(self, occupant: Occupant) -> None:
        """What-if: the pod leaves its row, but stays known; `add_pod` is the exact inverse."""
        self._detach(occupant)

    def add_pod(self, occupant: Occupant, row: int) -> None:
        """The pod that was removed is back on its row."""
        self._attach(occupant, row)

    def assume_all(self, newcomers: Sequence[tuple[PodId, Placed]], rows: Sequence[int]) -> None:
        """Assume pods that are nowhere yet, each on its live row: what `place` does, with one write a column.

        All request the same and take no host port; no sum comes near MAX_QUANTITY (see `can_suppose`).
        """
        occupants, by_node, by_row, now = self._occupants, self._at, self._unseen, self.now
        tied = any(one.pod.pod_affinity or one.pod.pod_anti_affinity for _, one in newcomers)
        for (pod_id, placed), row in zip(newcomers, rows, strict=True):
            where = self._places[row]
            occupant = Occupant(pod_id, placed, *where, True, now, row, True, True)
            occupants[pod_id] = occupant
            self._apps.put(occupant)
            on_node, unseen = by_node.get(where), by_row.get(row)
            if on_node is None or unseen is None:
                on_node, unseen = by_node.setdefault(where, {}), by_row.setdefault(row, [])
            on_node[pod_id] = occupant
            unseen.append(occupant)
        if tied or len(self._counts):
            for like, where_like in runs_alike([placed for _, placed in newcomers], np.asarray(rows, dtype=np.intp)):
                self._counts.shift_all(like, where_like, self._domains_of, 1)
                self.terms.shift_all(like, where_like, self._domains_of, 1)
        taken = Counter(rows)
        where_all = np.fromiter(taken, dtype=np.intp, count=len(taken))
        self.suppose(where_all, newcomers[0][1].pod, np.fromiter(taken.values(), dtype=np.int64, count=len(taken)))
        self.loads.extend(rows)

    def _attach(self, occupant: Occupant, row: int) -> None:
        occupant.row = row
        self._weigh(occupant, row, 1)
        if occupant.unseen_cpu or occupant.unseen_memory:
            self._unseen.setdefault(row, []).append(occupant)
        self._ports.take(row, occupant.placed.pod)
        if occupant.placed.pod.volumes:
            self.volumes.take(row, occupant.cluster, occupant.placed.pod)
            self.kept.versions[USERS] += 1
        self._count([occupant], row, 1)
        self.loads.append(row)

    def _detach(self, occupant: Occupant) -> None:
        row = occupant.row
        if row is None:
            return
        self._weigh(occupant, row, -1)
        if occupant.unseen_cpu or occupant.unseen_memory:
            self._unseen[row].remove(occupant)
        self._ports.release(row, occupant.placed.pod)
        if occupant.placed.pod.volumes:
            self.volumes.release(row, occupant.cluster, occupant.placed.pod)
            self.kept.versions[USERS] += 1
        self._count([occupant], row, -1)
        occupant.row = None
        self.loads.append(row)

    def _weigh(self, occupant: Occupant, row: int, sign: int) -> None:
        pod, store = occupant.placed.pod, self._store
        for resource, amount in requested(pod):
            column = self._column(resource)
            store.add("requested", store.requested, column, row, sign * amount)
        cpu, memory = nonzero_request(pod)
        store.add("nonzero", store.nonzero, _CPU, row, sign * cpu)
        store.add("nonzero", store.nonzero, _MEMORY, row, sign * memory)
        if occupant.unseen_cpu:
            store.add("recent", store.recent, _CPU, row, sign * cpu)
        if occupant.unseen_memory:
            store.add("recent", store.recent, _MEMORY, row, sign * memory)

    def suppose(self, rows: Rows, pod: Pod, times: "int | Ints") -> None:
        """As if `pod` were placed `times` more often (negative: undo) on each of `rows`; no occupant, no journal.

        Exact as long as no cell passes MAX_QUANTITY (see `can_suppose`). What-if is apply and undo.
        """
        store, (cpu, memory) = self._store, nonzero_request(pod)
        for resource, amount in requested(pod):
            store.requested[self._column(resource), rows] += times * amount
        for column in (store.nonzero, store.recent):
            column[_CPU, rows] += times * cpu
            column[_MEMORY, rows] += times * memory

    def can_suppose(self, rows: Rows, pod: Pod, times: int) -> bool:
        """Whether `suppose` is exact: the pod takes no host port or volume, and no sum comes near MAX_QUANTITY."""
        most = times * max(*pod.requests.values(), *nonzero_request(pod), 1)
        highest = max(int(self.requested[:, rows].max(initial=0)), int(self.nonzero[:, rows].max(initial=0)))
        return not pod.ports and not pod.volumes and most + highest <= MAX_QUANTITY

    def _count(self, occupants: Iterable[Occupant], row: int, amount: int) -> None:
        for occupant in occupants:
            if occupant.row is not None:
                self._counts.shift(occupant.placed, row, self._domain_of, amount)
                self.terms.shift(occupant.placed, row, self._domain_of, amount)

    def occupant(self, pod_id: PodId) -> Occupant | None:
        """Where a pod is, None if it is nowhere."""
        return self._occupants.get(pod_id)

    def are_nowhere(self, pod_ids: Collection[PodId]) -> bool:
        """Whether none of these pods is anywhere."""
        return self._occupants.keys().isdisjoint(pod_ids)

    def occupants(self) -> Collection[Occupant]:
        """All pods that are somewhere."""
        return self._occupants.values()

    def occupants_on(self, cluster: str, node: str) -> Collection[Occupant]:
        """The pods placed on a node, known or not."""
        return self._at.get((cluster, node), {}).values()

    def readings_of(self, row: int) -> tuple[tuple[float, float], ...]:
        """(share, sampled at) of each signal of a row, as `signal_axis` orders them; NaN and -inf: never."""
        return tuple(zip(self.used[:, row].tolist(), self.used_at[:, row].tolist(), strict=True))

    # --- what views show --------------------------------------------------------------------------------------------

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> host IPs taken on a row."""
        return self._ports.on(row)

    def rows_with_ports(self) -> Sequence[int]:
        """Rows on which any host port is taken."""
        return self._ports.rows()

    def count_in(self, pods: PodSet, key: str) -> DomainCount:
        """The count of a set of pods by domain, made when first asked for, then kept up to date."""
        placed_in, namespaces_at = self._placed_in, self.kept.versions[Namespace.__name__]
        return self._counts.find(pods, level_of(key), placed_in, namespaces_at)

    def counted(self, count: DomainCount) -> Ints:
        """[domains of its key] the numbers of a count."""
        return count.window(self._domain_size(count.key))

    def _namespace_labels(self, cluster: str, namespace: str) -> Mapping[str, str]:
        found = self.kept.of(cluster, Namespace).get(namespace)
        return found.labels if found else _NO_LABELS

    def image_sizes(self, image: str) -> Ints:
        """[n] bytes of an image on each node, 0 where it is not."""
        return self._images.sizes(image, self._nodes)

    def nodes_with_image(self, image: str) -> int:
        """How many nodes have an image."""
        return self._images.nodes_with(image)

    def _placed_in(self, pods: PodSet, level: str) -> Iterator[tuple[Placed, int]]:
        namespaces = pods.namespaces
        for occupant in self._occupants.values() if pods.app is None else self._apps.of(pods.app):
            if occupant.row is not None and (namespaces is None or occupant.placed.pod.namespace in namespaces):
                yield occupant.placed, self._domain_of(level, occupant.row)
