"""What a plugin may read of the fleet: the view that every extension point is handed, facet by
facet.

Each facet is about one thing that kube-scheduler's plugins ask: nodes (NodeInfo), topology (domains
and how pods are spread over them), affinity (terms and sets of pods), volumes, objects (the
informers' listers), images, signals, links between clusters. What belongs to no facet (the clock,
tables of names) is on the view itself.

A view notes what is read through it besides rows: the clock, counts, kinds of objects. An answer
that rests on these is asked for again when they move; nobody else's is. What is not noted says so,
and is for a `fleet_key`. So a plugin reads through the view that it was handed for this call, and
keeps neither it nor a facet. Arrays are read-only, of n rows, some of them `live`. Quantities are
int64 in internal units (milli-CPU, bytes, counts); readings are float32 shares 0..1, NaN unknown.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from dispatcher.scheduling.framework.coded_values import CodedValues
from dispatcher.scheduling.framework.derived import HotRule
from dispatcher.scheduling.framework.pod_info import PodInfo
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm
from shared.messages.pod_cache import PodCache
from shared.model.crossing import Opening
from shared.model.labels import LabelSelector
from shared.model.names import OWN_NETWORK
from shared.model.node import Taint
from shared.model.objects import PriorityClass
from shared.model.pod import Pod, Volume
from shared.model.reasons import ReasonTable
from shared.model.resources import ResourceAxis

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Codes = NDArray[np.uint16]
Floats = NDArray[np.float64]
Readings = NDArray[np.float32]
Rows = NDArray[np.intp] | slice

K = TypeVar("K")
T = TypeVar("T")
# a kind of objects; or a kind, and fields of it that alone are read
Watched = type[Any] | tuple[Any, ...]


@dataclass(frozen=True)
class ClusterInfo:
    """What plugins may know of a cluster. `ready`: its agent answers and its API server does too.
    `opens`, `priority_classes`, `runtime_classes`: as in Changes. `network`: the pod network within
    which its Services are had elsewhere, too.
    """

    name: str
    ready: bool
    synced: bool
    opens: tuple[Opening, ...] | None = None
    priority_classes: tuple[PriorityClass, ...] = ()
    network: str = OWN_NETWORK
    runtime_classes: tuple[str, ...] | None = None

    def brings_services(self, other: "ClusterInfo") -> bool:
        """Whether Services of this cluster are made in the other one for pods that go there."""
        return self.network == other.network != OWN_NETWORK


class ProxyTaints(NamedTuple):
    """Hard taints that users have put on the proxy node of `cluster`."""

    cluster: str
    taints: tuple[Taint, ...]


MEASURED = "measured"
CONFIGURED = "configured"


@dataclass(frozen=True)
class Link:
    """Between two clusters: the round-trip time that counts, where it is from, and its age (None:
    it is configured).
    """

    rtt_ms: float
    source: str
    age_s: float | None


class Nodes(Protocol):
    """The nodes as columns, one row each: conditions, taints, labels, what they have and what pods
    took of it.

    Nothing here is noted by the view: the logs of the fleet tell which rows have changed.
    """

    live: Bools  # [n] the row is a node that exists (dead rows are filtered by the cycle itself)
    cluster: SmallInts  # [n] index into `clusters` of the view
    ready: Bools  # [n] Ready condition
    unschedulable: Bools  # [n] spec.unschedulable
    allocatable: Ints  # [resources, n]
    requested: (
        Ints  # [resources, n] of all pods on the node and those assumed; row of "pods" counts pods
    )
    # [2, n] cpu and memory requested with kube-scheduler's defaults (100m, 200MB) for pods without
    nonzero: Ints
    # [2, n] cpu and memory requests placed since the node's last reading: load that no reading
    # shows yet
    recent: Ints
    # [2, n] the part of cpu and memory requests that `Signals.mean` does not hold yet
    # (`fleet.readings`)
    settling: Ints
    taint_set: SmallInts  # [n] index into taint_sets
    # [n] a stable hash of (cluster, node): lowest first among equals, and a source of seeded chance
    rank: Ints

    @property
    def taint_sets(self) -> CodedValues[tuple[Taint, ...]]:
        """Every set of taints that some node has, or had a while ago."""
        ...

    def name_of(self, row: int) -> tuple[str, str]:
        """(cluster, node) of a row."""
        ...

    def names_of(self, rows: Sequence[int]) -> Sequence[tuple[str, str]]:
        """(cluster, node) of each of many rows."""
        ...

    def by_name(self) -> Ints:
        """[n] the place of each row in the order of (cluster, node)."""
        ...

    def row_of(self, cluster: str, node: str) -> int | None:
        """The row of a node, None if there is none."""
        ...

    def label(self, key: str) -> SmallInts:
        """[n] interned value of a node label, -1 where absent. `label_values(key)[code]` is the
        text.
        """
        ...

    def label_values(self, key: str) -> CodedValues[str]:
        """The texts behind the codes of `label(key)`; a code may come to mean another one when a
        node changes.
        """
        ...

    def label_rows(self, key: str, value: str) -> NDArray[np.intp]:
        """The live rows whose label has this value, ascending."""
        ...

    def metric(self, name: str) -> Floats:
        """[n] the number in each node's annotation metric.global-dispatcher.io/<name>, NaN where
        there is none.
        """
        ...

    def declares(self, feature: str) -> Bools:
        """[n] whether each node declares a feature (status.declaredFeatures), one of
        `model.node.FEATURES`.
        """
        ...

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> host IPs taken on a row."""
        ...

    def rows_with_ports(self) -> Sequence[int]:
        """Rows on which any host port is taken."""
        ...

    def allocatable_total(self, beside: tuple[str, ...] = ()) -> Mapping[str, int]:
        """What the nodes of Ready clusters can allocate together, by resource, internal units.
        `beside`: those of parts of the fleet, by `quota_key`.
        """
        ...


class Topology(Protocol):
    """Fault domains: the domain of each node by topology key, and how many pods of an app are in
    each.
    """

    def domain(self, key: str) -> SmallInts:
        """[n] fault-domain code of a level or label key (cluster and host need no label); -1 where
        unknown.

        `model.topology.within_cluster(key)` is a key as well, here and in `domain_values` and
        `count_matching`: its domains lie each within one cluster. `eligibility.topology_key(key,
        pod)` says which of the two a pod wants.
        """
        ...

    def domain_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes of `domain(key)`, which hold until a node changes."""
        ...

    def count_matching(self, pod: Pod, selector: Any, key: str) -> Ints:
        """[domains of key] live pods of `pod`'s namespace matching `selector` (None:
        pod.app_labels), placed + assumed.

        Each pod counts once in the whole fleet: a source pod on a proxy node counts where its
        delegate runs. Who asks is judged anew when the count changes.
        """
        ...


class PodAffinity(Protocol):
    """Sets of pods and the affinity terms that placed pods hold; counts by domain, each pod once in
    the whole fleet.

    Who asks for a count is judged anew when it changes.
    """

    def count_in(self, pods: PodSet, key: str) -> Ints:
        """[domains of key] pods of a set (`pod_sets`), placed + assumed, each once in the whole
        fleet.
        """
        ...

    def terms_about(self, pod_info: PodInfo) -> Sequence[StandingTerm]:
        """The affinity terms of placed pods that match a pod, by number. Who asks this has a
        `fleet_key`.
        """
        ...

    def count_of(self, term: StandingTerm) -> Ints:
        """[domains of its key] how many pods hold a term of `terms_about`; their weights if it is a
        preferred one.
        """
        ...

    def brings(self, pod_info: PodInfo) -> Mapping[int, int] | None:
        """Number of a standing term -> what a pod adds to its count; None if nobody holds one of
        its terms yet.
        """
        ...

    def owned_with(self, pod_info: PodInfo) -> int:
        """How many distinct terms about pods of other namespaces those of a pod's namespace would
        have with it; 0 if it brings none that is new. Who asks this has a `fleet_key` that says so.
        """
        ...

    def unlabelled(self, sets: Iterable[PodSet]) -> str:
        """A pod of any of these sets whose labels are too large to be told, in words, '' if there
        is none. Who asks this has a `fleet_key` that says whether there is one.
        """
        ...

    def default_selector(self, pod_info: PodInfo) -> LabelSelector | None:
        """Which pods the Services and the owner of a pod mean; who asks this has a `fleet_key` that
        says so.
        """
        ...


class Volumes(Protocol):
    """The volumes that pods use, by row and by claim."""

    def on(self, row: int) -> Collection[tuple[str, Volume]]:
        """(namespace of the pod, volume) that pods use on a row, each once."""
        ...

    def rows(self) -> Sequence[int]:
        """Rows on which pods use any volumes."""
        ...

    def counts(self, rows: Rows) -> tuple[Ints, Ints]:
        """[rows] how many different volumes pods use; and how many pods like the one that is asked
        about are to be supposed there, too.
        """
        ...

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods on any node name a claim. Whoever asks is judged anew when pods with
        volumes come or go.
        """
        ...

    def names(self, cluster: str, namespace: str, claim: str) -> bool:
        """Whether pods on any node use a claim, also an ephemeral one; who asks this has a
        `fleet_key`.
        """
        ...

    def has_disk(self, volume: tuple[str, str]) -> bool:
        """Whether pods on any node use the (driver, handle) as an inline disk; who asks this has a
        `fleet_key`.
        """
        ...


class Objects(Protocol):
    """Objects of clusters beside nodes and pods (`model.objects`), and what Reserve assumes of
    them.
    """

    def of(self, cluster: str, kind: type[K], *fields: str) -> Mapping[str, K]:
        """key -> object of a kind in a cluster. Whoever asks is judged anew when the kind changes;
        with `fields`, when objects come, go or change in these, which are all that may be read.
        """
        ...

    def named(self, cluster: str, kind: type[K], key: str) -> K | None:
        """One object, None if it is not known. Who asks this has a `fleet_key` that says what it
        makes of it.
        """
        ...

    def alike(self, cluster: str, kind: type[Any], values: object) -> int:
        """How many PersistentVolumes have this (driver, handle), or PersistentVolumeClaims this
        volume. Who asks this has a `fleet_key` that says what it makes of it.
        """
        ...

    def derived(
        self, cluster: str, make: Callable[..., T], *kinds: Watched, namespace: str = ""
    ) -> T:
        """What `make` says of the mappings (see `of`) of these kinds: asked again when one of them
        changes. A kind may stand with the only fields of it that are read: (PersistentVolume,
        "handle"). `namespace`: of those in it alone.
        """
        ...

    def reported(self, cluster: str, found: K) -> K | None:
        """An object as its cluster reports it, whatever is assumed of it; None if it is gone."""
        ...

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """For Reserve: from now on an object shows with these values in its fields, as long as any
        holder wants it.
        """
        ...

    def release(self, cluster: str, found: Any, holder: Hashable) -> bool:
        """The inverse of `assume` for one holder; whether it held the object."""
        ...


class Images(Protocol):
    """Container images on nodes. Whoever asks is judged anew when images or the number of nodes
    change.
    """

    def sizes(self, image: str) -> Ints:
        """[n] bytes of an image on each node, 0 where it is not."""
        ...

    def nodes_with(self, image: str) -> int:
        """How many nodes have an image."""
        ...


class Signals(Protocol):
    """Live load by the name of the signal (`model.signals`). One that no node tells is unknown on
    all rows.
    """

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        ...

    def sampled_at(self, name: str) -> Floats:
        """[n] when that share was measured, on the clock of `FleetView.now`; -inf never."""
        ...

    def mean(self, name: str) -> Readings:
        """[n] the mean of the shares read, weighted by time, the last minutes most; NaN unknown. As
        old as the last.
        """
        ...

    def usual(self, name: str) -> Readings:
        """[n] what nodes use for each unit that pods request: 1 until it is known. The same on all
        rows.
        """
        ...

    def told(self, name: str) -> tuple[Readings, Readings, Floats, Readings]:
        """`used`, `mean`, `sampled_at` and `usual` at once."""
        ...

    def deviation(self, name: str) -> Readings:
        """[n] how far the shares read lie from their mean, with its weights; NaN unknown. Ask for
        it by `derives`.
        """
        ...

    def hot(self, rule: HotRule) -> Bools:
        """[n] whether a node is hot by a rule. Ask for it by `derives`."""
        ...


class Links(Protocol):
    """How far clusters are from each other. Whoever asks is judged anew when what counts changes,
    or is too old.
    """

    def rtt_ms(self) -> Floats:
        """[clusters, clusters] round-trip time that counts, ms; 0 within a cluster, NaN unknown.
        Symmetric.
        """
        ...

    def between(self, one: str, other: str) -> Link | None:
        """What counts between two clusters by name, for an explanation: its age is that of now.
        None unknown.
        """
        ...


class FleetView(Protocol):
    """The fleet as one plugin is shown it: facets, the clock, and tables of names that codes stand
    for.
    """

    @property
    def now(self) -> float:
        """Seconds on the core's clock, the next full one. Whoever reads it while judging rows is
        judged anew when it moves.
        """
        ...

    @property
    def n(self) -> int:
        """How many rows there are."""
        ...

    @property
    def axis(self) -> ResourceAxis:
        """Resource names and their rows in `allocatable` and `requested`."""
        ...

    @property
    def reasons(self) -> ReasonTable:
        """Reasons of refusals and their codes."""
        ...

    @property
    def clusters(self) -> Sequence[ClusterInfo]:
        """The clusters, in the order of `nodes.cluster`'s codes. Nothing is noted: who reads more
        than names of other clusters than the row's own has a `fleet_key` that says what it makes of
        it.
        """
        ...

    @property
    def proxy_taints(self) -> Mapping[str, frozenset[ProxyTaints]]:
        """Cluster of submission -> hard taints of users on its proxy nodes. Nothing is noted, as of
        `closed`.
        """
        ...

    @property
    def closed(self) -> Mapping[str, frozenset[str]]:
        """Cluster of submission -> clusters whose proxy node there is cordoned. Nothing is noted:
        who reads it has a `fleet_key` that says what it makes of it.
        """
        ...

    def of_clusters(
        self,
        kept: dict[Hashable, Any] | PodCache[Hashable, Any],
        key: Hashable,
        make: Callable[["FleetView"], T],
    ) -> T:
        """What `make` says of the view that it is handed, asked once under `key` in `kept` while no
        cluster changes and no object that it read: for answers about clusters as wholes, which are
        costly where there are many. `key` says all that is not noted; where pods say any of it
        `kept` is a `PodCache`. Of one that reads more, as
        columns or counts, nothing is kept.
        """
        ...

    @property
    def nodes(self) -> Nodes:
        """Nodes as columns."""
        ...

    @property
    def topology(self) -> Topology:
        """Fault domains and how apps are spread over them."""
        ...

    @property
    def affinity(self) -> PodAffinity:
        """Sets of pods and standing affinity terms."""
        ...

    @property
    def volumes(self) -> Volumes:
        """Volumes in use."""
        ...

    @property
    def objects(self) -> Objects:
        """Objects beside nodes and pods."""
        ...

    @property
    def images(self) -> Images:
        """Container images on nodes."""
        ...

    @property
    def signals(self) -> Signals:
        """Live load by signal."""
        ...

    @property
    def links(self) -> Links:
        """How far clusters are from each other."""
        ...
