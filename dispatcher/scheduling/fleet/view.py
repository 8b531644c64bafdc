"""The fleet as a plugin is shown it: facets over the columns and counts, which note what is read
besides rows.

Who keeps a plugin's answers gives it a view of its own and looks into `observed` to know when they
are stale (`equivalence.evaluators`). Facets last as long as the view, so that a call costs no more
objects. Of columns nothing is noted, since logs tell of every change there.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, cast

from dispatcher.scheduling.fleet.counts import DomainCount
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.images import IMAGES
from dispatcher.scheduling.fleet.links import LINKS
from dispatcher.scheduling.fleet.volumes import USERS
from dispatcher.scheduling.framework import (
    ClusterInfo,
    Floats,
    Ints,
    K,
    Link,
    Nodes,
    PodInfo,
    Rows,
    Signals,
)
from dispatcher.scheduling.framework.fleet_view import ProxyTaints, Watched
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm, pods_beside
from shared.messages.pod_cache import PodCache
from shared.model.labels import LabelSelector
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
    nodes: Nodes
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


def _shown(name: str) -> Any:
    return property(attrgetter(f"_fleet.{name}"))


class ObservedNodes(_Facet):
    """What `framework.Nodes` names, and nothing else of the fleet."""

    __slots__ = ()


for _name in (*Nodes.__annotations__, *[one for one in vars(Nodes) if not one.startswith("_")]):
    setattr(ObservedNodes, _name, _shown(_name))


class ObservedTopology(_Facet):
    """Satisfies `framework.Topology`."""

    __slots__ = ()

    domain = _shown("domain")
    domain_values = _shown("domain_values")

    def count_matching(self, pod: Pod, selector: LabelSelector | None, key: str) -> Ints:
        """[domains of key] pods of `pod`'s namespace that match."""
        return self._count_in(pods_beside(pod, selector), key)


class ObservedAffinity(_Facet):
    """Satisfies `framework.PodAffinity`."""

    __slots__ = ()
    count_in = _Facet._count_in
    brings = _shown("terms.brought_by")
    owned_with = _shown("terms.owned_with")
    unlabelled = _shown("cut_labels.among")
    default_selector = _shown("selectors.of")

    def terms_about(self, pod_info: PodInfo) -> Sequence[StandingTerm]:
        """The affinity terms of placed pods that match a pod, by number."""
        return self._fleet.terms.about(pod_info, self._fleet.kept.versions[Namespace.__name__])

    def count_of(self, term: StandingTerm) -> Ints:
        """[domains of its key] what the holders of a term add up to."""
        count = self._fleet.terms.count(term)
        self._observed.count(count)
        return self._fleet.counted(count)


class ObservedVolumes(_Facet):
    """Satisfies `framework.Volumes`."""

    __slots__ = ()

    on = _shown("volumes.on")
    rows = _shown("volumes.rows")
    names = _shown("volumes.names")  # nothing is noted of these
    has_disk = _shown("volumes.has_disk")

    def counts(self, rows: Rows) -> tuple[Ints, Ints]:
        """[rows] how many different volumes pods use, and how many pods are supposed beside them."""
        return self._fleet.volumes.counts(rows, self._fleet.n)

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods on any node name a claim."""
        self._observed.kinds.add(USERS)
        return self._fleet.volumes.users(cluster, namespace, claim)


class ObservedObjects(_Facet):
    """Satisfies `framework.Objects`."""

    __slots__ = ()

    named = _shown("kept.named")  # nothing is noted of these
    alike = _shown("kept.alike")
    reported = _shown("kept.reported")
    assume = _shown("kept.assume")
    release = _shown("kept.release")

    def of(self, cluster: str, kind: type[K], *fields: str) -> Mapping[str, K]:
        """key -> object of a kind in a cluster; with `fields`, what else of it changes is not
        noted.
        """
        kept = self._fleet.kept
        self._observed.kinds.add(kept.watch(kind.__name__, fields) if fields else kind.__name__)
        return kept.of(cluster, kind)

    def derived(
        self, cluster: str, make: Callable[..., T], *kinds: Watched, namespace: str = ""
    ) -> T:
        """What `make` says of the mappings of these kinds."""
        self._observed.kinds.update(map(self._fleet.kept.name_of, kinds))
        return self._fleet.kept.derived(cluster, make, *kinds, namespace=namespace)


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
