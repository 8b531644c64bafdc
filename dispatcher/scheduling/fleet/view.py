"""The fleet as a plugin is shown it: facets over the columns and counts, which note what is read
besides rows.

Who keeps a plugin's answers gives it a view of its own and looks into `observed` to know when they
are stale (`equivalence.evaluators`). Facets last as long as the view, so that a call costs no more
objects. Of columns nothing is noted, since logs tell of every change there.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, cast

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.counts import DomainCount
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.images import IMAGES
from dispatcher.scheduling.fleet.links import LINKS
from dispatcher.scheduling.fleet.volumes import USERS, UsedVolume
from dispatcher.scheduling.framework import (
    Bools,
    ClusterInfo,
    Floats,
    Ints,
    K,
    Link,
    PodInfo,
    Rows,
    Signals,
    SmallInts,
)
from dispatcher.scheduling.framework.coded_values import CodedValues
from dispatcher.scheduling.framework.fleet_view import ProxyTaints, Watched
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm, pods_beside
from dispatcher.scheduling.rules.volumes import CsiVolume
from shared.messages.pod_cache import PodCache
from shared.model.labels import LabelSelector
from shared.model.node import Taint
from shared.model.objects import Namespace
from shared.model.pod import Pod

T = TypeVar("T")
_MOST_KEPT = 4096  # answers about clusters of one plugin


@dataclass(slots=True, eq=False)
class Observed:
    """What somebody looked at besides the rows: the clock, counts, kinds of objects."""

    now: bool = False
    counts: dict[int, DomainCount] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def count(self, found: DomainCount) -> None:
        """A count was looked at."""
        self.counts[id(found)] = found

    def take(self, others: "Observed") -> None:
        """All of that was looked at, too."""
        self.now = self.now or others.now
        self.kinds |= others.kinds
        for found in others.counts.values():
            self.count(found)


class _Unobserved(Observed):
    """Of a view that lasts and whose answers nobody keeps: it must not gather counts."""

    __slots__ = ()

    def count(self, found: DomainCount) -> None:
        """Nobody is told."""


class ObservedView:
    """Satisfies `framework.FleetView`; what is read through it is noted in `observed`."""

    __slots__ = (
        "_fleet",
        "affinity",
        "axis",
        "closed",
        "clusters",
        "images",
        "links",
        "nodes",
        "objects",
        "observed",
        "proxy_taints",
        "reasons",
        "signals",
        "topology",
        "volumes",
    )
    nodes: "ObservedNodes"
    topology: "ObservedTopology"
    affinity: "ObservedAffinity"
    volumes: "ObservedVolumes"
    objects: "ObservedObjects"
    images: "ObservedImages"
    links: "ObservedLinks"

    def __init__(self, fleet: FleetState, observed: Observed) -> None:
        self._fleet = fleet
        self.observed = observed
        self.axis = fleet.axis
        self.signals: Signals = fleet.signals
        # the very same objects while what they hold changes
        self.reasons = fleet.reasons
        self.clusters: Sequence[ClusterInfo] = fleet.clusters
        self.closed: Mapping[str, frozenset[str]] = fleet.closed
        self.proxy_taints: Mapping[str, frozenset[ProxyTaints]] = fleet.proxy_taints

    def __getattr__(self, name: str) -> Any:
        """A facet is made when it is asked for: most plugins look at one or two of the seven."""
        make = _FACETS.get(name)
        if make is None:
            raise AttributeError(f"a view of the fleet has no {name!r}")
        setattr(self, name, make(self._fleet, self.observed))
        return getattr(self, name)

    @property
    def now(self) -> float:
        """The next full second on the core's clock; that it was read is noted."""
        self.observed.now = True
        return self._fleet.clock

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self._fleet.n

    def of_clusters(
        self,
        kept: dict[Hashable, Any] | PodCache[Hashable, Any],
        key: Hashable,
        make: Callable[["ObservedView"], T],
    ) -> T:
        """What `make` says of clusters as wholes, asked once while these and the objects that it
        read stay alike.
        """
        fleet = self._fleet
        known = kept.get(key)
        if known is None or not known.holds(fleet):
            view = _OfClusters(fleet)
            value = make(view)
            if view.reads_more:
                self._read_more(view.observed)
                return value
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            now = fleet.kept.versions
            versions = {kind: now.setdefault(kind, 0) for kind in view.observed.kinds}
            kept[key] = known = _Kept(value, fleet.clusters_version, versions)
        self.observed.kinds.update(known.versions)
        return cast(T, known.value)

    def _read_more(self, others: Observed) -> None:
        self.observed.take(others)


class _OfClusters(ObservedView):
    """A view that knows whether more was read through it than clusters and objects."""

    __slots__ = ("reads_more",)

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self.observed = Observed()
        self.reads_more = False
        self.reasons = fleet.reasons
        self.clusters = fleet.clusters
        self.closed = fleet.closed
        self.proxy_taints = fleet.proxy_taints

    def __getattr__(self, name: str) -> Any:
        self.reads_more = self.reads_more or name != "objects"
        return (
            getattr(self._fleet, name) if name in ("axis", "signals") else super().__getattr__(name)
        )

    def _read_more(self, others: Observed) -> None:
        self.reads_more = True
        super()._read_more(others)

    @property
    def now(self) -> float:
        self.reads_more = True
        return super().now

    @property
    def n(self) -> int:
        self.reads_more = True
        return super().n


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer about clusters, and what it rests on."""

    value: Any
    clusters_version: int
    versions: Mapping[str, int]

    def holds(self, fleet: FleetState) -> bool:
        return (
            self.clusters_version == fleet.clusters_version
            and self.versions.items() <= fleet.kept.versions.items()
        )


def view_of(fleet: FleetState) -> ObservedView:
    """A view for those who keep no answers: nobody is told what is read through it."""
    return ObservedView(fleet, _Unobserved())


class _Facet:
    __slots__ = ("_fleet", "_observed")

    def __init__(self, fleet: FleetState, observed: Observed) -> None:
        self._fleet = fleet
        self._observed = observed

    def _count_in(self, pods: PodSet, key: str) -> Ints:
        """[domains of key] pods of a set."""
        if pods.asks_namespaces:
            self._observed.kinds.add(Namespace.__name__)
        count = self._fleet.count_in(pods, key)
        self._observed.count(count)
        return self._fleet.counted(count)


def _column(name: str) -> Any:
    return property(attrgetter(f"_fleet.{name}"))


class ObservedNodes(_Facet):
    """Satisfies `framework.Nodes`: what nodes have, and nothing else of the fleet."""

    __slots__ = ()

    live: Bools = _column("live")
    cluster: SmallInts = _column("cluster")
    ready: Bools = _column("ready")
    unschedulable: Bools = _column("unschedulable")
    allocatable: Ints = _column("allocatable")
    requested: Ints = _column("requested")
    nonzero: Ints = _column("nonzero")
    recent: Ints = _column("recent")
    settling: Ints = _column("settling")
    rank: Ints = _column("rank")
    taint_set: SmallInts = _column("taint_set")
    taint_sets: CodedValues[tuple[Taint, ...]] = _column("taint_sets")

    def name_of(self, row: int) -> tuple[str, str]:
        """(cluster, node) of a row."""
        return self._fleet.name_of(row)

    def names_of(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """The same of many rows."""
        return self._fleet.names_of(rows)

    def by_name(self) -> Ints:
        """[n] the place of each row in the order of (cluster, node)."""
        return self._fleet.by_name()

    def row_of(self, cluster: str, node: str) -> int | None:
        """The row of a node, None if there is none."""
        return self._fleet.row_of(cluster, node)

    def label(self, key: str) -> SmallInts:
        """[n] code of a node label, -1 where absent."""
        return self._fleet.label(key)

    def label_values(self, key: str) -> CodedValues[str]:
        """The texts behind the codes."""
        return self._fleet.label_values(key)

    def label_rows(self, key: str, value: str) -> RowList:
        """The live rows whose label has this value, ascending."""
        return self._fleet.label_rows(key, value)

    def metric(self, name: str) -> Floats:
        """[n] the number that each node's annotation tells, NaN where there is none."""
        return self._fleet.metric(name)

    def declares(self, feature: str) -> Bools:
        """[n] whether each node declares a feature."""
        return self._fleet.declares(feature)

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> host IPs taken on a row."""
        return self._fleet.ports_taken(row)

    def rows_with_ports(self) -> Sequence[int]:
        """Rows on which any host port is taken."""
        return self._fleet.rows_with_ports()

    def allocatable_total(self, beside: tuple[str, ...] = ()) -> Mapping[str, int]:
        """What the nodes of all Ready clusters can allocate."""
        return self._fleet.allocatable_total(beside)


class ObservedTopology(_Facet):
    """Satisfies `framework.Topology`."""

    __slots__ = ()

    def domain(self, key: str) -> SmallInts:
        """[n] fault-domain code."""
        return self._fleet.domain(key)

    def domain_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes."""
        return self._fleet.domain_values(key)

    def count_matching(self, pod: Pod, selector: LabelSelector | None, key: str) -> Ints:
        """[domains of key] pods of `pod`'s namespace that match."""
        return self._count_in(pods_beside(pod, selector), key)


class ObservedAffinity(_Facet):
    """Satisfies `framework.PodAffinity`."""

    __slots__ = ()
    count_in = _Facet._count_in

    def terms_about(self, pod_info: PodInfo) -> Sequence[StandingTerm]:
        """The affinity terms of placed pods that match a pod, by number."""
        return self._fleet.terms.about(pod_info, self._fleet.kept.versions[Namespace.__name__])

    def count_of(self, term: StandingTerm) -> Ints:
        """[domains of its key] what the holders of a term add up to."""
        count = self._fleet.terms.count(term)
        self._observed.count(count)
        return self._fleet.counted(count)

    def brings(self, pod_info: PodInfo) -> Mapping[int, int] | None:
        """Number of each standing term of a pod -> what it adds to its count; None if one is not
        known yet.
        """
        return self._fleet.terms.brought_by(pod_info)

    def owned_with(self, pod_info: PodInfo) -> int:
        """How many distinct terms about other namespaces a pod's namespace would have with it; 0:
        it brings none.
        """
        return self._fleet.terms.owned_with(pod_info)

    def unlabelled(self, sets: Iterable[PodSet]) -> str:
        """A pod of any of these sets whose labels are not told, in words."""
        return self._fleet.cut_labels.among(sets)

    def default_selector(self, pod_info: PodInfo) -> LabelSelector | None:
        """Which pods the Services and the owner of a pod mean."""
        return self._fleet.selectors.of(pod_info)


class ObservedVolumes(_Facet):
    """Satisfies `framework.Volumes`."""

    __slots__ = ()

    def on(self, row: int) -> Collection[UsedVolume]:
        """(namespace of the pod, volume) that pods use on a row, each once."""
        return self._fleet.volumes.on(row)

    def rows(self) -> Sequence[int]:
        """Rows on which pods use any volumes."""
        return self._fleet.volumes.rows()

    def counts(self, rows: Rows) -> tuple[Ints, Ints]:
        """[rows] how many different volumes pods use, and how many pods are supposed beside them."""
        return self._fleet.volumes.counts(rows, self._fleet.n)

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods on any node name a claim."""
        self._observed.kinds.add(USERS)
        return self._fleet.volumes.users(cluster, namespace, claim)

    def names(self, cluster: str, namespace: str, claim: str) -> bool:
        """Whether pods anywhere use a claim; nothing is noted."""
        return self._fleet.volumes.names(cluster, namespace, claim)

    def has_disk(self, volume: CsiVolume) -> bool:
        """Whether pods anywhere use it as an inline disk; nothing is noted."""
        return self._fleet.volumes.has_disk(volume)


class ObservedObjects(_Facet):
    """Satisfies `framework.Objects`."""

    __slots__ = ()

    def of(self, cluster: str, kind: type[K], *fields: str) -> Mapping[str, K]:
        """key -> object of a kind in a cluster; with `fields`, what else of it changes is not
        noted.
        """
        kept = self._fleet.kept
        self._observed.kinds.add(kept.watch(kind.__name__, fields) if fields else kind.__name__)
        return kept.of(cluster, kind)

    def named(self, cluster: str, kind: type[K], key: str) -> K | None:
        """One object; nothing is noted."""
        return self._fleet.kept.named(cluster, kind, key)

    def alike(self, cluster: str, kind: type[Any], values: object) -> int:
        """How many objects have the values by which they are counted; nothing is noted."""
        return self._fleet.kept.alike(cluster, kind, values)

    def derived(
        self, cluster: str, make: Callable[..., T], *kinds: Watched, namespace: str = ""
    ) -> T:
        """What `make` says of the mappings of these kinds."""
        self._observed.kinds.update(map(self._fleet.kept.name_of, kinds))
        return self._fleet.kept.derived(cluster, make, *kinds, namespace=namespace)

    def reported(self, cluster: str, found: K) -> K | None:
        """An object as its cluster reports it, whatever is assumed of it; None if it is gone."""
        return self._fleet.kept.reported(cluster, found)

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """Show an object with these values in its fields, as long as any holder wants it so."""
        self._fleet.kept.assume(cluster, found, fields, holder)

    def release(self, cluster: str, found: Any, holder: Hashable) -> bool:
        """The inverse of `assume` for one holder; whether it held the object."""
        return self._fleet.kept.release(cluster, found, holder)


class ObservedImages(_Facet):
    """Satisfies `framework.Images`."""

    __slots__ = ()

    def sizes(self, image: str) -> Ints:
        """[n] bytes of an image on each node, 0 where it is not."""
        self._observed.kinds.add(IMAGES)
        return self._fleet.image_sizes(image)

    def nodes_with(self, image: str) -> int:
        """How many nodes have an image."""
        self._observed.kinds.add(IMAGES)
        return self._fleet.nodes_with_image(image)


class ObservedLinks(_Facet):
    """Satisfies `framework.Links`."""

    __slots__ = ()

    def rtt_ms(self) -> Floats:
        """[clusters, clusters] what counts, ms."""
        self._observed.kinds.add(LINKS)
        return self._fleet.links.rtt_ms()

    def between(self, one: str, other: str) -> Link | None:
        """What counts between two clusters."""
        self._observed.kinds.add(LINKS)
        return self._fleet.links.between(one, other, self._fleet.now)


_FACETS: Mapping[str, type[_Facet]] = {
    "nodes": ObservedNodes,
    "topology": ObservedTopology,
    "affinity": ObservedAffinity,
    "volumes": ObservedVolumes,
    "objects": ObservedObjects,
    "images": ObservedImages,
    "links": ObservedLinks,
}
