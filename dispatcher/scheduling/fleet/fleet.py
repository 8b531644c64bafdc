"""The fleet: every node of every cluster as one row of columns, and every pod that sits on one.

The single writer is the core. Each change touches the rows it is about and says so in a log, so
that pod classes catch up with exactly those rows. Proxy nodes are no rows: a pod behind one is
entered where its delegate runs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from types import MappingProxyType

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.fleet.columns import RowList, add_pods, highest
from dispatcher.scheduling.fleet.counts import DomainCount, MatchCounts
from dispatcher.scheduling.fleet.cut_labels import CutLabels
from dispatcher.scheduling.fleet.group_table import NodeGroupTable
from dispatcher.scheduling.fleet.occupants import (
    Apps,
    Occupant,
    PodsByNode,
    Ports,
    SharedDicts,
    is_unseen,
    runs_alike,
    same_footprint,
)
from dispatcher.scheduling.fleet.owner_uses import OwnerUses
from dispatcher.scheduling.fleet.reading_table import ReadingTable
from dispatcher.scheduling.fleet.selecting import DefaultSelectors
from dispatcher.scheduling.fleet.terms import TermCounts
from dispatcher.scheduling.fleet.undo_steps import UndoSteps
from dispatcher.scheduling.fleet.usual import EVERY_S, learnt
from dispatcher.scheduling.fleet.volumes import USERS, VolumesInUse, has_only_claims
from dispatcher.scheduling.framework import Ints, PodInfo, Readings, Rows
from dispatcher.scheduling.framework.pod_sets import PodSet
from dispatcher.scheduling.rules.requests import expected_request, nonzero_request, requested
from shared.model.node import Node
from shared.model.objects import Namespace
from shared.model.pod import Pod, PodId
from shared.model.reasons import ReasonTable
from shared.model.resources import MAX_QUANTITY
from shared.model.topology import HOST_LEVEL, level_of

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_FEW = 8  # nodes, of which one by one is as fast
_ALL_OF_IT = (1.0, 1.0)  # `usual` of CPU and memory before anything is learnt
# rows of `nonzero`, `recent` and `settling`, and of the signals of these names
_CPU = 0
_MEMORY = 1


class FleetState(ReadingTable):
    """What `view.ObservedView` shows to plugins. Not thread-safe: one writer, also the only reader
    while it writes.
    """

    def __init__(self, *, now: float = 0.0) -> None:
        super().__init__(now)
        self.reasons = ReasonTable()
        # rows with a pod of which only the time of its start, or its priority, changed
        self.starts = ChangedRows()
        # of what is done to pods here in a what-if (`cycle.what_if`), but for `suppose`
        self.undo_steps = UndoSteps()
        self._counts = MatchCounts(self._namespace_labels)
        self.terms = TermCounts(
            self._namespace_labels, has_domains=lambda key: self._domain_size(key) > 0
        )
        self.cut_labels = CutLabels(self._namespace_labels)
        self._ports = Ports()
        self._dicts = SharedDicts()
        self.volumes = VolumesInUse()
        self.selectors = DefaultSelectors(self.kept)
        self._occupants: dict[PodId, Occupant] = {}
        self._apps = Apps()
        self._on_nodes = PodsByNode()
        self._usual: Readings = np.zeros(
            0, dtype=np.float32
        )  # [signals] as `learn_usual` found it last
        self._usual_shares: Sequence[float] = _ALL_OF_IT
        self._learnt_at = -np.inf
        self.uses = OwnerUses()
        self.groups = NodeGroupTable()

    # --- clusters and nodes
    # ------------------------------------------------------------------------------------------

    def put_node(self, cluster: str, node: Node) -> int:
        """Insert or update a node; pods that were placed on it by name before it was known attach
        now. Its row.
        """
        home = self._cluster(cluster)
        row = home.rows.get(node.name)
        if row is not None and self._nodes[row] == node:
            return row
        self._dicts.share_node(node)
        if row is None:
            row = self._new_row(home, node.name)
            self._on_nodes.arrive((cluster, node.name), row)
            there = list(self._on_nodes.on(row))
        else:
            there = list(self._on_nodes.on(row))
            self._count(there, row, -1)
        self._store.usual[: len(self._usual), row] = self._usual
        self._write_node(row, node)
        for occupant in there:
            if occupant.row is None:
                self._attach(occupant, row)
            else:
                self._count([occupant], row, 1)
        return row

    def put_nodes(self, cluster: str, nodes: Sequence[Node]) -> None:
        """`put_node` for each of them, in one go for those that are known, and for new ones that
        have no pods yet. Known ones enter first, then those that pods came before, then the others.
        No name comes twice.
        """
        home = self._cluster(cluster)
        known = list[tuple[int, Node]]()
        fresh = list[Node]()
        awaited = list[Node]()
        for node in nodes:
            row = home.rows.get(node.name)
            if row is not None:
                if self._nodes[row] != node:
                    known.append((row, node))
            else:
                (awaited if self._on_nodes.awaiting((cluster, node.name)) else fresh).append(node)
        if len(known) < _FEW:
            for _, node in known:
                self.put_node(cluster, node)
        else:
            self._replace_nodes(*zip(*known, strict=True))
        for node in awaited:
            self.put_node(cluster, node)
        for node in fresh:
            self._dicts.share_node(node)
        if fresh:
            rows = self._new_rows(home, fresh)
            self._store.usual[: len(self._usual), rows] = self._usual[:, None]

    def _replace_nodes(self, rows: Sequence[int], nodes: Sequence[Node]) -> None:
        """These rows have other nodes now; pods of which that may change the fault domain are
        counted anew.
        """
        at = np.asarray(rows, dtype=np.intp)
        before = [self._nodes[row] for row in rows]
        for node, was in zip(nodes, before, strict=True):
            self._dicts.share_node(node, was)
        labels = self._labels.relabelling(
            at, [one.labels for one in before if one], [node.labels for node in nodes]
        )
        moving = [(row, self._on_nodes.on(row)) for row in at[labels.moving].tolist()]
        for row, occupants in moving:
            self._count(occupants, row, -1)
        self._write_nodes(at, nodes, labels)
        for row, occupants in moving:
            self._count(occupants, row, 1)

    def remove_node(self, cluster: str, name: str) -> None:
        """The row dies and may be used again; the pods on it stay known by name. Unknown nodes are
        ignored.
        """
        home = self._cluster(cluster)
        row = home.rows.get(name)
        if row is None:
            return
        for occupant in self._on_nodes.on(row):
            self._detach(occupant)
            # What comes back has no reading that shows it.
            occupant.unseen_cpu = occupant.unseen_memory = occupant.settles = True
        self._awaited.by_row.pop(row, None)
        self._on_nodes.leave((cluster, name), row)
        self._drop_row(home, name)

    def learn_usual(self) -> None:
        """Learn what nodes use of what is requested (`usual.py`), once a minute at most; all rows
        count as changed.
        """
        if self.now - self._learnt_at < EVERY_S:
            return
        self._learnt_at = self.now
        found = learnt(self, self._awaited.requests(), self.now)
        if found is not None:
            self._usual = found.astype(np.float32)
            self._usual_shares = self._usual.tolist() if len(found) > _MEMORY else _ALL_OF_IT
            self._store.usual[: len(found), : self.n] = self._usual[:, None]
            self.loads.extend(np.flatnonzero(self.live))

    def with_use(self, pod_info: PodInfo) -> PodInfo:
        """The pod as it counts by what its owner's pods are known to use now; itself where that is
        no news.
        """
        counts_as = self.uses.counts_as(pod_info.pod, self._usual_shares)
        return (
            pod_info
            if counts_as == pod_info.counts_as
            else msgspec.structs.replace(pod_info, counts_as=counts_as)
        )

    # --- pods
    # ----------------------------------------------------------------------------------------------

    def place(
        self, pod_id: PodId, pod_info: PodInfo, cluster: str, node: str, *, assumed: bool
    ) -> None:
        """Enter a pod on a node; again with the same place is no change, with another it moves,
        exactly.
        """
        old = self._occupants.get(pod_id)
        stays = old is not None and old.node == node and old.cluster == cluster
        if old is not None and stays and self.stays(old, pod_info, assumed=assumed):
            return
        row = (
            old.row
            if old is not None and stays and old.row is not None
            else self.row_of(cluster, node)
        )
        if not assumed:
            node = self._share(pod_info.pod, node, row)
        new = Occupant(
            pod_id, pod_info, cluster, node, assumed, self.now, counts_as=pod_info.counts_as
        )
        new.unseen_cpu = new.unseen_memory = new.settles = assumed or is_unseen(pod_info)
        if old is not None:
            if stays:
                new.placed_at = old.placed_at
                new.settles = old.settles
                new.counts_as = old.counts_as
                new.unseen_cpu = old.unseen_cpu
                new.unseen_memory = old.unseen_memory
            self.remove(pod_id)
        self._enter(new)
        self._on_nodes.put(new, row)
        if row is not None:
            self._attach(new, row)
        if self.undo_steps.open:
            self.undo_steps.note(partial(self._leave, new))

    def _enter(self, occupant: Occupant) -> None:
        self._occupants[occupant.pod_id] = occupant
        self._apps.put(occupant)
        self.cut_labels.put(occupant.pod_id, occupant.pod_info)

    def stays(self, occupant: Occupant, pod_info: PodInfo, *, assumed: bool) -> bool:
        """Take another version of a pod for the one where it is; False if it takes or counts
        something else.
        """
        pod = pod_info.pod
        was = occupant.pod_info.pod
        row = occupant.row
        if not assumed:
            self._share(pod, occupant.node, row)
        if not same_footprint(was, pod):
            return False
        if pod.uid == was.uid:  # one text for all that hold it
            msgspec.structs.force_setattr(pod, "uid", was.uid)
        if row is not None and (was.started != pod.started or was.priority != pod.priority):
            self.starts.append(row)
        if was.labels != pod.labels:  # API servers label a pod by its node's zone when they bind it
            self._relabel(occupant, pod_info)
        occupant.pod_info = pod_info
        occupant.assumed = assumed
        return True

    def _share(self, pod: Pod, node: str, row: int | None) -> str:
        """Let a record that lasts hold what others hold, too; the node's name that lasts."""
        self._dicts.share(pod)
        if row is not None and pod.node == node:
            node = self._places[row][1]
            msgspec.structs.force_setattr(pod, "node", node)
        return node

    def remove(self, pod_id: PodId) -> bool:
        """Take a pod out, the exact inverse of `place`; False if it is unknown."""
        occupant = self._occupants.get(pod_id)
        if occupant is None:
            return False
        row = occupant.row
        at = self._leave(occupant)
        if self.undo_steps.open:
            self.undo_steps.note(partial(self._come_back, occupant, row, at))
        return True

    def _leave(self, occupant: Occupant) -> int:
        del self._occupants[occupant.pod_id]
        self._apps.drop(occupant)
        self.cut_labels.drop(occupant.pod_id, occupant.pod_info)
        self._detach(occupant)
        return self._on_nodes.drop(occupant, self.row_of(occupant.cluster, occupant.node))

    def _come_back(self, occupant: Occupant, row: int | None, at: int) -> None:
        """The inverse of `_leave`; `row`: where it counted, None if it was aside."""
        self._enter(occupant)
        self._on_nodes.put_back(occupant, self.row_of(occupant.cluster, occupant.node), at)
        if row is not None:
            self._attach(occupant, row)

    def remove_pod(self, occupant: Occupant) -> None:
        """What-if: the pod leaves its row, but stays known; `add_pod` is the exact inverse."""
        if self.undo_steps.open and occupant.row is not None:
            self.undo_steps.note(partial(self._attach, occupant, occupant.row))
        self._detach(occupant)

    def add_pod(self, occupant: Occupant, row: int) -> None:
        """The pod that was removed is back on its row."""
        self._attach(occupant, row)
        if self.undo_steps.open:
            self.undo_steps.note(partial(self._detach, occupant))

    @contextmanager
    def aside(self, occupants: Iterable[Occupant]) -> Iterator[None]:
        """As if these had left their rows; those that are known still come back to them."""
        removed = [(one, one.row) for one in occupants if one.row is not None]
        for occupant, _ in removed:
            self.remove_pod(occupant)
        try:
            yield
        finally:
            for occupant, row in reversed(removed):
                if self._occupants.get(occupant.pod_id) is occupant:
                    self.add_pod(occupant, row)

    def assume_all(
        self,
        newcomers: Sequence[tuple[PodId, PodInfo]],
        rows: Sequence[int],
        *,
        alike: bool = False,
    ) -> None:
        """Assume pods that are nowhere yet, each on its live row: what `place` does, with one write
        a column.

        All are of one class, which takes no host port or inline disk; `alike`: of one template and
        cluster, too.
        """
        first = newcomers[0][1]
        amounts = expected_request(newcomers[0][1])
        pod_ids, pods = zip(*newcomers, strict=True)
        at = np.asarray(rows, dtype=np.intp)
        names = zip(*[self._places[row] for row in rows], strict=True)
        yes = repeat(True)
        sizes = (repeat(first.counts_as), repeat(amounts))
        occupants = list(
            map(Occupant, pod_ids, pods, *names, yes, repeat(self.now), rows, yes, yes, yes, *sizes)
        )
        self._occupants.update(zip(pod_ids, occupants, strict=True))
        self._on_nodes.put_all(occupants, rows)
        by_row = self._awaited.by_row
        for occupant, row in zip(occupants, rows, strict=True):
            by_row[row].append(occupant)
        for like, run in [(first, slice(None))] if alike else runs_alike(pods):
            self._apps.put_all(occupants[run])
            if len(self._counts) or like.pod.pod_affinity or like.pod.pod_anti_affinity:
                self._counts.shift_all(like, at[run], self._domains_of, 1)
                self.terms.shift_all(like, at[run], self._domains_of, 1)
        taken = Counter(rows)
        where, times = (
            np.fromiter(one, dtype=np.int64, count=len(taken)) for one in (taken, taken.values())
        )
        self._weigh_all(where, first, times)
        if first.pod.volumes:
            for occupant, row in zip(occupants, rows, strict=True):
                self.volumes.take(row, occupant.cluster, occupant.pod_info.pod)
            self.kept.versions[USERS] += len(rows)
        self.loads.extend(rows)
        if self.undo_steps.open:
            self.undo_steps.note_each(self._leave, occupants)

    def _attach(self, occupant: Occupant, row: int) -> None:
        occupant.row = row
        self._weigh(occupant, row, 1)
        self._awaited.add(occupant, row)
        self._ports.take(row, occupant.pod_info.pod)
        if occupant.pod_info.pod.volumes:
            self.volumes.take(row, occupant.cluster, occupant.pod_info.pod)
            self.kept.versions[USERS] += 1
        self._count([occupant], row, 1)
        self.loads.append(row)

    def _relabel(self, occupant: Occupant, pod_info: PodInfo) -> None:
        """Count a pod by other labels, where it is."""
        row = occupant.row
        self._apps.drop(occupant)
        if row is not None:
            self._count([occupant], row, -1)
        occupant.pod_info = pod_info
        self._apps.put(occupant)
        if row is not None:
            self._count([occupant], row, 1)
            self.loads.append(row)

    def _detach(self, occupant: Occupant) -> None:
        row = occupant.row
        if row is None:
            return
        self._weigh(occupant, row, -1)
        self._awaited.remove(occupant, row)
        self._ports.release(row, occupant.pod_info.pod)
        if occupant.pod_info.pod.volumes:
            self.volumes.release(row, occupant.cluster, occupant.pod_info.pod)
            self.kept.versions[USERS] += 1
        self._count([occupant], row, -1)
        occupant.row = None
        self.loads.append(row)

    def _weigh(self, occupant: Occupant, row: int, sign: int) -> None:
        pod = occupant.pod_info.pod
        store = self._store
        for resource, amount in requested(pod):
            column = self.axis.column(resource)
            if column is not None:
                store.add("requested", store.requested, column, row, sign * amount)
        cpu, memory = nonzero_request(pod)
        store.add("nonzero", store.nonzero, _CPU, row, sign * cpu)
        store.add("nonzero", store.nonzero, _MEMORY, row, sign * memory)
        if occupant.unseen_cpu:
            store.add("recent", store.recent, _CPU, row, sign * cpu)
        if occupant.unseen_memory:
            store.add("recent", store.recent, _MEMORY, row, sign * memory)

    def _count_requests(self, resources: Sequence[str]) -> None:
        columns = {resource: self.axis.column(resource) for resource in resources}
        for occupant in self._occupants.values():
            if (row := occupant.row) is None:
                continue
            for resource, amount in occupant.pod_info.pod.requests.items():
                if (column := columns.get(resource)) is not None:
                    self._store.add("requested", self._store.requested, column, row, amount)

    def suppose(self, rows: Rows, pod_info: PodInfo, times: "int | Ints") -> None:
        """As if the pod were placed `times` more often (negative: undo) on each of `rows`; no
        occupant, no log.

        Exact as long as no cell passes MAX_QUANTITY (see `can_suppose`). What-if is apply and undo.
        """
        self._weigh_all(rows, pod_info, times)
        if pod_info.pod.volumes:
            self.volumes.suppose(rows, times, self.n)

    def _weigh_all(self, rows: Rows, pod_info: PodInfo, times: "int | Ints") -> None:
        store = self._store
        pod = pod_info.pod
        nonzero = nonzero_request(pod_info.pod)
        asked = [(self.axis.column(resource), amount) for resource, amount in requested(pod)]
        columns = [(column, amount) for column, amount in asked if column is not None]
        add_pods(store, rows, times, columns, (*nonzero, *nonzero, *expected_request(pod_info)))

    def can_suppose(self, rows: RowList, pod_info: PodInfo, times: int) -> bool:
        """Whether `suppose` is exact: the pod takes no host port or inline disk, no sum comes near
        MAX_QUANTITY.
        """
        pod = pod_info.pod
        most = times * max(
            *pod.requests.values(), *nonzero_request(pod), *expected_request(pod_info), 1
        )
        return (
            not pod.ports
            and has_only_claims(pod)
            and most + highest(self._store, rows) <= MAX_QUANTITY
        )

    def _count(self, occupants: Iterable[Occupant], row: int, amount: int) -> None:
        for occupant in occupants:
            if occupant.row is not None:
                self._counts.shift(occupant.pod_info, row, self._domain_of, amount)
                self.terms.shift(occupant.pod_info, row, self._domain_of, amount)

    def occupant(self, pod_id: PodId) -> Occupant | None:
        """Where a pod is, None if it is nowhere."""
        return self._occupants.get(pod_id)

    def placed_of(self, pod_ids: Set[PodId]) -> Set[PodId]:
        """Those of the pods that are somewhere."""
        return self._occupants.keys() & pod_ids

    def occupants(self) -> Collection[Occupant]:
        """All pods that are somewhere."""
        return self._occupants.values()

    def occupants_on(self, cluster: str, node: str) -> Collection[Occupant]:
        """The pods placed on a node, known or not."""
        row = self.row_of(cluster, node)
        return self._on_nodes.awaiting((cluster, node)) if row is None else self._on_nodes.on(row)

    # --- what views show
    # --------------------------------------------------------------------------------------------

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> host IPs taken on a row."""
        return self._ports.on(row)

    def rows_with_ports(self) -> Sequence[int]:
        """Rows on which any host port is taken."""
        return self._ports.rows()

    def count_in(self, pods: PodSet, key: str) -> DomainCount:
        """The count of a set of pods by domain, made when first asked for, then kept up to date."""
        placed_in = self._placed_in
        namespaces_at = self.kept.versions[Namespace.__name__]
        return self._counts.find(pods, level_of(key), placed_in, namespaces_at)

    def moves(self, count: DomainCount, pod_info: PodInfo) -> bool:
        """Whether a pod like this one moves a count of pods, wherever it comes to a known domain."""
        return count.has(pod_info, self._namespace_labels)

    def counted(self, count: DomainCount) -> Ints:
        """[domains of its key] the numbers of a count."""
        return count.window(self._domain_size(count.key))

    def _namespace_labels(self, cluster: str, namespace: str) -> Mapping[str, str]:
        found = self.kept.of(cluster, Namespace).get(namespace)
        return found.labels if found else _NO_LABELS

    def _placed_in(self, pods: PodSet, level: str) -> Iterator[tuple[PodInfo, int]]:
        namespaces = pods.namespaces
        found = self._apps.holding(pods)
        domain_of = int if level == HOST_LEVEL else self.domain(level).item
        for occupant in self._occupants.values() if found is None else found:
            if occupant.row is not None and (
                namespaces is None or occupant.pod_info.pod.namespace in namespaces
            ):
                yield occupant.pod_info, domain_of(occupant.row)
