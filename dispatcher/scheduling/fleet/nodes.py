"""Clusters and nodes as rows: conditions, taints, labels, fault domains, and what can be allocated."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from dispatcher.scheduling.fleet.changed_rows import ChangedRows
from dispatcher.scheduling.fleet.columns import NodeColumns, RowList, RowStore, exact_sums
from dispatcher.scheduling.fleet.images import ImageColumns
from dispatcher.scheduling.fleet.interned import Interned
from dispatcher.scheduling.fleet.labels import LabelColumns, Relabelling
from dispatcher.scheduling.fleet.links import LinkTable
from dispatcher.scheduling.fleet.metrics import ToldColumns
from dispatcher.scheduling.fleet.objects import ClusterObjects
from dispatcher.scheduling.fleet.priorities import Priorities
from dispatcher.scheduling.fleet.signals import SignalColumns, SignalView
from dispatcher.scheduling.framework import Bools, ClusterInfo, Floats, Ints, SmallInts
from dispatcher.scheduling.framework.coded_values import CodedValues
from dispatcher.scheduling.framework.fleet_view import ProxyTaints
from shared.model.crossing import Opening
from shared.model.names import OWN_NETWORK
from shared.model.node import FEATURES, Node, Taint
from shared.model.objects import PriorityClass
from shared.model.resources import BASE_RESOURCES, MAX_QUANTITY, ResourceAxis, Resources
from shared.model.signals import SignalAxis
from shared.model.tenant import part_of, resource_of
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL, label_of, level_of

# resources beside the basic ones that nodes of one cluster are the first to offer
_MOST_BROUGHT = 256


@dataclass
class _Cluster:
    index: int
    brought: int = 0  # of _MOST_BROUGHT
    rows: dict[str, int] = field(default_factory=dict)
    listed: RowList | slice | None = None  # the same rows as an index, until one comes or goes
    total: Resources | None = None  # what they can allocate, until one changes


class NodeTable(NodeColumns):
    """The rows. A row is one live node, or dead and free to be used again; a cluster's index never
    changes.
    """

    def __init__(self) -> None:
        self.axis = ResourceAxis()
        self.signal_axis = SignalAxis()
        self.n = 0
        self._infos: list[ClusterInfo] = []
        self.clusters: Sequence[ClusterInfo] = self._infos
        self.clusters_version = 0  # increases when one of them comes or changes
        self._closed: dict[str, frozenset[str]] = {}
        self.closed: Mapping[str, frozenset[str]] = self._closed
        self._proxy_taints: dict[str, frozenset[ProxyTaints]] = {}
        self.proxy_taints: Mapping[str, frozenset[ProxyTaints]] = self._proxy_taints
        self.taint_sets = Interned[tuple[Taint, ...]](
            ()
        )  # none has code 0, as rows without a node have
        self.changes = ChangedRows()  # rows whose node or cluster changed
        self._store = RowStore(len(self.axis), len(self.signal_axis))
        self._nodes: list[Node | None] = []
        self._places: list[tuple[str, str]] = []  # (cluster, node) of each row
        self._by_name: Ints | None = None  # known until a row gets another node
        self._free: list[int] = []
        self._clusters: dict[str, _Cluster] = {}
        self._labels = LabelColumns(self._cluster_name, lambda: self.cluster)
        self.kept = ClusterObjects()
        self.priorities = Priorities(self.info)
        self._images = ImageColumns(self.kept.versions)
        self.links = LinkTable(self.kept.versions, self._infos)
        self._metrics = ToldColumns(lambda node, name: node.metrics.get(name, math.nan), math.nan)
        self._features = ToldColumns(lambda node, name: name in node.features, absent=False)
        self._domains: dict[str, SmallInts] = {}
        self._domains_at = -1
        self._row_of_each: tuple[tuple[int, int], RowList] = (-1, 0), np.zeros(0, dtype=np.intp)
        self._total: Resources | None = None
        self._beside: tuple[str, ...] = ()  # of which parts of the fleet there are totals, too
        self.signals = SignalView(self.signal_axis, SignalColumns.of(self._store))
        self._show()

    def _show(self) -> None:
        for name, window in self._store.windows(self.n):
            setattr(self, name, window)
        self.signals.show(self.signal_axis, SignalColumns.of(self))

    def _reserve(self) -> None:
        self._store.reserve(self.n, len(self.axis), len(self.signal_axis))
        self._show()

    def set_cluster(  # noqa: PLR0913 - all that plugins may know of one
        self,
        name: str,
        *,
        ready: bool,
        synced: bool,
        opens: tuple[Opening, ...] | None = None,
        priority_classes: tuple[PriorityClass, ...] = (),
        network: str = OWN_NETWORK,
        runtime_classes: tuple[str, ...] | None = None,
    ) -> None:
        """Insert or update a cluster. Its index never changes."""
        self.put_cluster(
            ClusterInfo(name, ready, synced, opens, priority_classes, network, runtime_classes)
        )

    def put_cluster(self, info: ClusterInfo) -> None:
        """The same, of what plugins may know of it."""
        cluster = self._cluster(info.name)
        if self.clusters[cluster.index] == info:
            return
        self._infos[cluster.index] = info
        self.clusters_version += 1
        self._total = None
        for row in cluster.rows.values():
            self.changes.append(row)

    def info(self, name: str) -> ClusterInfo | None:
        """What is known of the cluster of this name."""
        found = self._clusters.get(name)
        return self._infos[found.index] if found is not None else None

    def set_closed(self, home: str, cluster: str, *, closed: bool) -> None:
        """The proxy node of `cluster` in `home` was cordoned, or is not any more."""
        others = self._closed.pop(home, frozenset()) - {cluster}
        now = others | {cluster} if closed else others
        if now:
            self._closed[home] = now

    @contextmanager
    def as_if_closed(self, home: str, clusters: Iterable[str]) -> Iterator[None]:
        """As if these proxy nodes in `home` were cordoned, for somebody who only looks."""
        opened = set(clusters) - {home} - self.closed.get(home, frozenset())
        for cluster in opened:
            self.set_closed(home, cluster, closed=True)
        try:
            yield
        finally:
            for cluster in opened:
                self.set_closed(home, cluster, closed=False)

    def set_proxy_taints(self, home: str, cluster: str, taints: tuple[Taint, ...]) -> None:
        """The proxy node of `cluster` in `home` has these taints of users; () for none."""
        now = {one for one in self._proxy_taints.pop(home, ()) if one.cluster != cluster}
        if taints:
            now.add(ProxyTaints(cluster, taints))
        if now:
            self._proxy_taints[home] = frozenset(now)

    def _cluster(self, name: str) -> _Cluster:
        found = self._clusters.get(name)
        if found is None:
            found = self._clusters[name] = _Cluster(len(self.clusters))
            self._infos.append(ClusterInfo(name, ready=False, synced=False))
            self.clusters_version += 1
            if self.n:  # what is kept until a node changes may have an entry for each cluster
                self.changes.append(0)
        return found

    def _new_row(self, home: _Cluster, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self.n
            self.n = self.n + 1
            self._nodes.append(None)
            self._places.append(("", ""))
            self._reserve()
        cluster = self.clusters[home.index].name
        home.rows[name] = row
        home.listed = None
        self._places[row] = (cluster, name)
        self._by_name = None
        self._store.cluster[row] = home.index
        self._store.rank[row] = rank_of(cluster, name)
        return row

    def _new_rows(self, home: _Cluster, nodes: Sequence[Node]) -> RowList:
        """`_new_row` and `_write_node` for many nodes that are not known, with one write a column.
        Their rows.
        """
        store = self._store
        cluster = self.clusters[home.index].name
        reused = [self._free.pop() for _ in range(min(len(self._free), len(nodes)))]
        rows = [*reused, *range(self.n, self.n + len(nodes) - len(reused))]
        more = len(rows) - len(reused)
        self.n += more
        self._nodes.extend([None] * more)
        self._places.extend([("", "")] * more)
        self._reserve()
        self._offer(home, nodes)
        home.listed = self._by_name = None
        for row, node in zip(rows, nodes, strict=True):
            home.rows[node.name], self._places[row], self._nodes[row] = (
                row,
                (cluster, node.name),
                node,
            )
        at = np.asarray(rows, dtype=np.intp)
        store.cluster[at], store.live[at] = home.index, True
        store.rank[at] = [rank_of(cluster, node.name) for node in nodes]
        store.ready[at] = [node.ready for node in nodes]
        store.unschedulable[at] = [node.unschedulable for node in nodes]
        store.taint_set[at] = self._taints(nodes)
        for column, resource in enumerate(self.axis.names):
            store.allocatable[column, at] = [node.allocatable.get(resource, 0) for node in nodes]
        self._labels.add(rows, nodes)
        for row, node in zip(rows, nodes, strict=True):
            self._images.move(row, None, node)
            self._metrics.replace(row, node)
            self._features.replace(row, node)
        self._total = home.total = None
        self.changes.extend(rows)
        return at

    def _write_node(self, row: int, node: Node) -> None:
        before = self._nodes[row]
        store = self._store
        self._nodes[row] = node
        store.live[row] = True
        store.ready[row] = node.ready
        store.unschedulable[row] = node.unschedulable
        store.taint_set[row] = self._taints((node,))[0]
        self._offer(self._clusters[self._places[row][0]], (node,))
        store.allocatable[:, row] = [
            node.allocatable.get(resource, 0) for resource in self.axis.names
        ]
        self._labels.replace(row, before.labels if before else {}, node.labels)
        self._images.move(row, before, node)
        self._metrics.replace(row, node)
        self._features.replace(row, node)
        self._total = self._clusters[self._cluster_name(row)].total = None
        self.changes.append(row)

    def _write_nodes(self, rows: RowList, nodes: Sequence[Node], labels: Relabelling) -> None:
        """`_write_node` for many known nodes of one cluster, with one write a column. `labels`:
        what changes there.
        """
        store = self._store
        listed = rows.tolist()
        store.ready[rows] = [node.ready for node in nodes]
        store.unschedulable[rows] = [node.unschedulable for node in nodes]
        store.taint_set[rows] = self._taints(nodes)
        self._labels.relabel(labels)
        self._offer(self._clusters[self._places[listed[0]][0]], nodes)
        for row, node in zip(listed, nodes, strict=True):
            before = self._nodes[row]
            self._nodes[row] = node
            if before is None or before.allocatable is not node.allocatable:
                amounts = [node.allocatable.get(resource, 0) for resource in self.axis.names]
                store.allocatable[:, row] = amounts
            if before is None or before.images is not node.images:
                self._images.move(row, before, node)
            if before is None or before.metrics is not node.metrics:
                self._metrics.replace(row, node)
            if before is None or before.features != node.features:
                self._features.replace(row, node)
        self._total = self._clusters[self._cluster_name(listed[0])].total = None
        self.changes.extend(listed)

    def _taints(self, nodes: Iterable[Node]) -> list[int]:
        self.taint_sets.make_room(self._store.taint_set)
        return [self.taint_sets.code(node.taints) for node in nodes]

    def _offer(self, home: _Cluster, nodes: Iterable[Node]) -> None:
        """A column for each resource that these nodes are the first to offer.

        What pods ask for gets none: users make up names, and where no node offers one there is no
        room to count.
        """
        offered = dict.fromkeys(chain.from_iterable(node.allocatable for node in nodes))
        new = [name for name in offered if self.axis.column(name) is None][
            : _MOST_BROUGHT - home.brought
        ]
        if new:
            home.brought += len(new)
            for resource in new:
                self.axis.intern(resource)
            self._reserve()
            self._count_requests(new)

    def _count_requests(self, resources: Sequence[str]) -> None:
        """The fleet's part: what pods ask for of resources that have just got a column."""

    def _signal(self, name: str) -> int | None:
        column = self.signal_axis.intern(name)
        if len(self.signal_axis) > self._store.signals:
            self._reserve()
        return column

    def _drop_row(self, home: _Cluster, name: str) -> None:
        row = home.rows.pop(name)
        home.listed = None
        node = self._nodes[row]
        self._labels.replace(row, node.labels if node else {}, {})
        self._images.move(row, node, None)
        self._metrics.replace(row, None)
        self._features.replace(row, None)
        self._nodes[row] = None
        self._store.clear(row)
        self._free.append(row)
        self._total = home.total = None
        self.changes.append(row)

    def node_names(self, cluster: str) -> Iterable[str]:
        """Names of the live nodes of a cluster."""
        found = self._clusters.get(cluster)
        return tuple(found.rows) if found else ()

    def row_of_each_cluster(self) -> RowList:
        """[clusters] the row of one live node of each, -1 for a cluster without nodes."""
        at = self.changes.position, len(self.clusters)
        if self._row_of_each[0] != at:
            found = np.full(len(self.clusters), -1, dtype=np.intp)
            for one in self._clusters.values():
                found[one.index] = next(iter(one.rows.values()), -1)
            self._row_of_each = at, found
        return self._row_of_each[1]

    def node(self, row: int) -> Node | None:
        """The node behind a row, None if the row is dead."""
        return self._nodes[row]

    # --- totals
    # ----------------------------------------------------------------------------------------------

    def _rows(self, cluster: _Cluster) -> "RowList | slice":
        """The rows of a cluster; a slice where nothing of another one lies between them."""
        if cluster.listed is None:
            rows = np.fromiter(cluster.rows.values(), dtype=np.intp, count=len(cluster.rows))
            first, last = (int(rows.min()), int(rows.max())) if len(rows) else (0, -1)
            cluster.listed = slice(first, last + 1) if last - first + 1 == len(rows) else rows
        return cluster.listed

    def free_total(self, cluster: str) -> Resources:
        """What the Ready, schedulable nodes of a cluster have left, added up; for its proxy nodes.
        Of resources that none of its nodes offers only the basic ones are named.
        """
        found = self._clusters.get(cluster)
        rows = self._rows(found) if found else slice(0, 0)
        open_ = self.ready[rows] & ~self.unschedulable[rows]
        allocatable = self.allocatable[:, rows]
        left = np.maximum(allocatable - self.requested[:, rows], 0) * open_
        offered = {
            *BASE_RESOURCES,
            *[self.axis.names[at] for at in np.flatnonzero(np.any(allocatable, axis=1))],
        }
        totals = zip(self.axis.names, exact_sums(left), strict=True)
        return {name: total for name, total in totals if name in offered}

    def allocatable_total(self, beside: tuple[str, ...] = ()) -> Resources:
        """What the nodes of all Ready clusters can allocate; tenant ratios are shares of this.
        `beside`: of parts of the fleet, by `quota_key`.
        """
        if self._beside != beside:
            self._beside = beside
            self._total = None
            for one in self._clusters.values():
                one.total = None
        if self._total is None:
            of = [
                self._total_of(name, one)
                for name, one in self._clusters.items()
                if self.clusters[one.index].ready
            ]
            self._total = {
                name: min(sum(one.get(name, 0) for one in of), MAX_QUANTITY)
                for name in (*self.axis.names, *beside)
            }
        return dict(self._total)

    def _total_of(self, name: str, cluster: _Cluster) -> Resources:
        if cluster.total is None:
            sums = exact_sums(self.allocatable[:, self._rows(cluster)])
            parts = {key: self._total_in(key, name, cluster) for key in self._beside}
            cluster.total = dict(zip(self.axis.names, sums, strict=True)) | parts
        return cluster.total

    def _total_in(self, key: str, name: str, cluster: _Cluster) -> int:
        part = part_of(key)
        column = self.axis.column(resource_of(key))
        if part is None or column is None or part.cluster not in ("", name):
            return 0
        rows = self._rows(cluster)
        amounts = self.allocatable[column, rows]
        for label, value in part.labels:
            code = self.label_values(label).find(value)
            known = np.False_ if code is None else self.label(label)[rows] == code
            amounts = amounts * known
        return exact_sums(amounts[np.newaxis])[0]

    def node_counts(self) -> dict[str, int]:
        """Live nodes of each cluster, in the order of their indexes."""
        return {name: len(cluster.rows) for name, cluster in self._clusters.items()}

    @property
    def live_count(self) -> int:
        """How many rows are live, without a look at any."""
        return sum([len(cluster.rows) for cluster in self._clusters.values()])

    # --- labels and domains
    # ------------------------------------------------------------------------------------------

    def name_of(self, row: int) -> tuple[str, str]:
        """(cluster, node) of a live row; LookupError for a dead one."""
        if self._nodes[row] is None:
            raise LookupError(f"row {row} holds no node")
        return self._places[row]

    def names_of(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """The same of many rows."""
        nodes = self._nodes
        places = self._places
        return [places[row] if nodes[row] is not None else self.name_of(row) for row in rows]

    def kept_rows(self, rows: Sequence[int]) -> list[int]:
        """The same numbers of live rows, as the objects that are kept here: so pods keep none of
        their own.
        """
        clusters = self._clusters
        places = self._places
        return [clusters[cluster].rows[node] for cluster, node in [places[row] for row in rows]]

    def by_name(self) -> Ints:
        """[n] the place of each row in the order of (cluster, node); of a dead row, that of its
        last node.
        """
        if self._by_name is None:
            self._by_name = np.empty(self.n, dtype=np.int64)
            self._by_name[sorted(range(self.n), key=self._places.__getitem__)] = np.arange(self.n)
        return self._by_name

    def row_of(self, cluster: str, node: str) -> int | None:
        """The row of a node, None if there is none."""
        found = self._clusters.get(cluster)
        return found.rows.get(node) if found else None

    def _cluster_name(self, row: int) -> str:
        return self._infos[int(self.cluster[row])].name

    def label(self, key: str) -> SmallInts:
        """[n] code of a node label, -1 where absent."""
        return self._labels.codes(key, self._nodes)

    def label_values(self, key: str) -> CodedValues[str]:
        """The texts behind the codes of `label(key)`."""
        return self._labels.values(key, self._nodes)

    def label_rows(self, key: str, value: str) -> RowList:
        """The live rows whose label has this value, ascending."""
        return self._labels.rows(key, value, self._nodes)

    def metric(self, name: str) -> Floats:
        """[n] the number that each node's annotation tells, NaN where there is none."""
        return self._metrics.values(name, self._nodes)

    def declares(self, feature: str) -> Bools:
        """[n] whether each node declares a feature; none does that is not one of FEATURES."""
        if feature not in FEATURES:  # agents make up names: no column for each
            return np.zeros(self.n, dtype=np.bool_)
        return self._features.values(feature, self._nodes)

    def domain(self, key: str) -> SmallInts:
        """[n] fault-domain code of a level or label key (or `within_cluster` of one), -1 where
        absent.
        """
        if self._domains_at != self.changes.position:
            self._domains = {}
            self._domains_at = self.changes.position
        found = self._domains.get(key)
        if (
            found is None
        ):  # whoever asks again while no node has changed is given the very same array
            found = self._domains[key] = self._domain(level_of(key))
        return found

    def _domain(self, level: str) -> SmallInts:
        if level == CLUSTER_LEVEL:
            return self.cluster
        if level == HOST_LEVEL:
            found = np.arange(self.n, dtype=np.int32)
            found[~self.live] = -1
            return found
        label, scoped = label_of(level)
        return self._labels.codes(label, self._nodes, scoped=scoped)

    def _domain_of(self, level: str, row: int) -> int:
        return row if level == HOST_LEVEL else int(self.domain(level)[row])

    def _domains_of(self, level: str, rows: RowList) -> SmallInts:
        return rows.astype(np.int32) if level == HOST_LEVEL else self.domain(level)[rows]

    def _domain_size(self, level: str) -> int:
        if level == HOST_LEVEL:
            return self.n
        return len(self.clusters if level == CLUSTER_LEVEL else self.domain_values(level))

    def image_sizes(self, image: str) -> Ints:
        """[n] bytes of an image on each node, 0 where it is not."""
        return self._images.values(image, self._nodes)

    def nodes_with_image(self, image: str) -> int:
        """How many nodes have an image."""
        return self._images.nodes_with(image)

    def domain_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes of `domain(key)`; a host is 'cluster/node'."""
        level = level_of(key)
        if level == CLUSTER_LEVEL:
            return [info.name for info in self.clusters]
        if level == HOST_LEVEL:
            return [
                "/".join(self.name_of(row)) if self._nodes[row] else "" for row in range(self.n)
            ]
        label, scoped = label_of(level)
        return self._labels.values(label, self._nodes, scoped=scoped)


def rank_of(cluster: str, node: str) -> int:
    """A stable 63-bit number of a node: among equal scores the lowest rank wins.

    A hash and not the order of names, so that equal nodes fill up all over the fleet instead of
    from cluster "a" on; and it costs nothing to keep up when nodes come and go.
    """
    digest = hashlib.blake2b(f"{cluster}/{node}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
