"""The scheduling framework: what a plugin may read, and the extension points it may implement.

Names and order are kube-scheduler's (k8s.io/kube-scheduler framework). All points work on *rows*: a row is one node of
one cluster. A plugin implements only the points it needs, by inheriting the mixins below.

Laws: never log, never mutate the fleet, never raise for an expected rejection, no clock (`fleet.now`), no randomness.
An exception in a plugin rejects the one pod it was raised for, with the plugin's name.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, cast

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from dispatcher.model.crossing import Opening
from dispatcher.model.labels import LabelSelector
from dispatcher.model.node import Taint
from dispatcher.model.pod import Pod, PodId, Volume
from dispatcher.model.reasons import Reason, ReasonTable, Why
from dispatcher.model.refusal import Refusal
from dispatcher.model.resources import CPU, MEMORY, ResourceAxis
from dispatcher.scheduling.framework.cycle_state import CycleState, Skip
from dispatcher.scheduling.framework.hints import ClusterEvent, WakeEvent
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Codes = NDArray[np.uint16]
Floats = NDArray[np.float64]
Readings = NDArray[np.float32]
Rows = NDArray[np.intp] | slice

K = TypeVar("K")
S = TypeVar("S", default=Any)  # what a plugin answers in PreFilter and is handed at the later points
S_contra = TypeVar("S_contra", contravariant=True, default=Any)

MAX_SCORE = 100.0


class Depends(enum.Enum):
    """What one placement makes stale in a plugin's answers for other pods of the same class."""

    STATIC = "static"  # nothing: answers depend on the node object alone (labels, taints)
    NODE = "node"  # the touched row
    DOMAIN = "domain"  # every row that shares a fault domain with the touched row
    FLEET = "fleet"  # every row


@dataclass(frozen=True)
class ClusterInfo:
    """What plugins may know of a cluster. `ready`: its agent answers and its API server does too.
    `opens`: as in Changes.
    """

    name: str
    ready: bool
    synced: bool
    opens: tuple[Opening, ...] | None = None


class Signals(Protocol):
    """Live load by the name of the signal (`model.signals`). One that no node tells is unknown on all rows."""

    def used(self, name: str) -> Readings:
        """[n] share 0..1 of the capacity, NaN unknown."""
        ...

    def sampled_at(self, name: str) -> Floats:
        """[n] when that share was measured, on the clock of `Fleet.now`; -inf never."""
        ...


class Fleet(Protocol):
    """The fleet's columns as plugins read them; n rows, some of them `live`. Arrays are read-only by law.

    Quantities are int64 internal units (milli-CPU, bytes, counts); readings float32 shares 0..1, NaN unknown.
    """

    now: float
    cycle: CycleState  # of the pod that is being decided or bound
    axis: ResourceAxis
    reasons: ReasonTable
    n: int
    live: Bools  # [n] the row is a node that exists (dead rows are filtered by the cycle itself)
    cluster: SmallInts  # [n] index into clusters
    clusters: Sequence[ClusterInfo]
    closed: Mapping[str, frozenset[str]]  # cluster of submission -> clusters whose proxy node there is cordoned
    ready: Bools  # [n] Ready condition
    unschedulable: Bools  # [n] spec.unschedulable
    allocatable: Ints  # [resources, n]
    requested: Ints  # [resources, n] of all pods on the node and those assumed; row of "pods" counts pods
    nonzero: Ints  # [2, n] cpu and memory requested with kube-scheduler's defaults (100m, 200MB) for pods without
    recent: Ints  # [2, n] cpu and memory requests placed since the node's last reading: load that no reading shows yet
    taint_set: SmallInts  # [n] index into taint_sets
    taint_sets: Sequence[tuple[Taint, ...]]

    @property
    def signals(self) -> Signals:
        """Live load by signal."""
        ...

    def name_of(self, row: int) -> tuple[str, str]:
        """(cluster, node) of a row."""
        ...

    def row_of(self, cluster: str, node: str) -> int | None:
        """The row of a node, None if there is none."""
        ...

    def label(self, key: str) -> SmallInts:
        """[n] interned value of a node label, -1 where absent. `label_value(key, code)` gives the text."""
        ...

    def label_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes of `label(key)`."""
        ...

    def metric(self, name: str) -> Floats:
        """[n] the number in each node's annotation metric.global-dispatcher.io/<name>, NaN where there is none."""
        ...

    def domain(self, key: str) -> SmallInts:
        """[n] fault-domain code of a level or label key (cluster and host need no label); -1 where unknown.

        `model.topology.within_cluster(key)` is a key as well, here and in `domain_values` and `count_matching`: its
        domains lie each within one cluster. `eligibility.topology_key(key, pod)` says which of the two a pod wants.
        """
        ...

    def domain_values(self, key: str) -> Sequence[str]:
        """The texts behind the codes of `domain(key)`."""
        ...

    def ports_taken(self, row: int) -> Mapping[tuple[str, int], Sequence[str]]:
        """(protocol, port) -> host IPs taken on a row."""
        ...

    def rows_with_ports(self) -> Sequence[int]:
        """Rows on which any host port is taken."""
        ...

    def image_sizes(self, image: str) -> Ints:
        """[n] bytes of an image on each node, 0 where it is not. Whoever asks is judged anew when images change."""
        ...

    def nodes_with_image(self, image: str) -> int:
        """How many nodes have an image. Whoever asks is judged anew when images or the number of nodes change."""
        ...

    def allocatable_total(self) -> Mapping[str, int]:
        """What the nodes of Ready clusters can allocate together, by resource, internal units."""
        ...

    def count_matching(self, pod: Pod, selector: Any, key: str) -> Ints:
        """[domains of key] live pods of `pod`'s namespace matching `selector` (None: pod.app_labels), placed + assumed.

        Each pod counts once in the whole fleet: a source pod on a proxy node counts where its delegate runs.
        """
        ...

    def objects(self, cluster: str, kind: type[K]) -> Mapping[str, K]:
        """key -> object of a kind (`model.objects`) in a cluster. Whoever asks is judged anew when the kind changes."""
        ...

    def count_in(self, pods: PodSet, key: str) -> Ints:
        """[domains of key] pods of a set (`pod_sets`), placed + assumed, each once in the whole fleet."""
        ...

    def terms_about(self, placed: "Placed") -> Sequence[StandingTerm]:
        """The affinity terms of placed pods that match a pod, by number. Who asks this has a `standing_key`."""
        ...

    def count_of(self, term: StandingTerm) -> Ints:
        """[domains of its key] how many pods hold a term of `terms_about`; their weights if it is a preferred one."""
        ...

    def brings(self, placed: "Placed") -> Mapping[int, int] | None:
        """Number of a standing term -> what a pod adds to its count; None if nobody holds one of its terms yet."""
        ...

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """For Reserve: from now on an object shows with these values in its fields, as long as any holder wants it."""
        ...

    def release(self, cluster: str, found: Any, holder: Hashable) -> None:
        """The inverse of `assume` for one holder."""
        ...

    def reported(self, cluster: str, found: K) -> K | None:
        """An object as its cluster reports it, whatever is assumed of it; None if it is gone."""
        ...

    def volumes_on(self, row: int) -> Collection[tuple[str, Volume]]:
        """(namespace of the pod, volume) that pods use on a row, each once."""
        ...

    def rows_with_volumes(self) -> Sequence[int]:
        """Rows on which pods use volumes."""
        ...

    def default_selector(self, placed: "Placed") -> LabelSelector | None:
        """Which pods the Services and the owner of a pod mean; who asks this has a `standing_key` that says so."""
        ...

    def claim_users(self, cluster: str, namespace: str, claim: str) -> int:
        """How often pods on any node name a claim. Whoever asks is judged anew when pods with volumes come or go."""
        ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod with the cluster it was submitted in, and what clusters said of it, as the cycle hands it to plugins."""

    pod: Pod
    home: str  # cluster of submission
    refused: tuple[Refusal, ...] = ()  # by which clusters, a while ago; and where the server makes it larger

    @property
    def sizes(self) -> tuple[Refusal, ...]:
        """Of `refused` those that say how large a cluster makes it."""
        return tuple([one for one in self.refused if one.requests]) if self.refused else ()

    def at(self, cluster: str) -> "Placed":
        """The same with the pod as the server of `cluster` makes it, as far as that is known: what it takes there.

        Wherever a place in one cluster is booked, promised or charged, it is by this.
        """
        size = next((one for one in self.sizes if one.cluster == cluster), None)
        return replace(self, pod=_enlarged(self.pod, dict(size.requests))) if size is not None else self


def _enlarged(pod: Pod, made: Mapping[str, int]) -> Pod:
    requests = {name: max(pod.requests.get(name, 0), made.get(name, 0)) for name in pod.requests.keys() | made}
    if pod.expected is None:
        return msgspec.structs.replace(pod, requests=requests)
    cpu, memory = pod.expected
    expected = max(cpu, requests.get(CPU, 0)), max(memory, requests.get(MEMORY, 0))
    return msgspec.structs.replace(pod, requests=requests, expected=expected)


@dataclass(frozen=True)
class Refuse:
    """An expected refusal of the pod as a whole (no node is looked at)."""

    why: Why


def refuse(reason: Reason, argument: str = "") -> Refuse:
    """A refusal from the closed list of reasons."""
    return Refuse(Why(reason, argument))


class WaitingRoom(Protocol):
    """The pods that hold a place and wait for a Permit plugin, as that plugin sees them (`Plugin.attach`)."""

    def waiting(self) -> Sequence[tuple[PodId, Placed]]:
        """All pods that wait for any plugin, longest first."""
        ...

    def allow(self, pod_id: PodId, plugin: str) -> None:
        """`plugin` has no objection any more; a pod that nobody else lets wait goes on. Unknown pods are ignored."""
        ...

    def reject(self, pod_id: PodId, plugin: str, why: Why) -> None:
        """The pod's place is given back, whoever else lets it wait. Unknown pods are ignored."""
        ...


class Plugin(ABC, Generic[S]):
    """Base of every policy. `name` is the key in profiles; S is what it answers in PreFilter and is handed later."""

    name: ClassVar[str]
    depends: ClassVar[Depends] = Depends.NODE
    # Which events may help a pod that this plugin refused, by reason; `hints.HELPED_BY` for reasons that are not here.
    EVENTS: ClassVar[Mapping[Reason, WakeEvent]] = {}

    def attach(self, room: WaitingRoom) -> None:
        """Called once: where a Permit plugin finds the pods that wait, to allow or reject them."""

    def hint(self, event: ClusterEvent, placed: Placed) -> bool:
        """Whether an event of EVENTS is worth a new try of a pod refused by this plugin; asked once a class."""
        return True

    @abstractmethod
    def class_key(self, placed: Placed) -> Hashable:
        """Everything of the pod that this plugin looks at: equal keys must mean equal answers."""

    def standing_key(self, placed: Placed, fleet: Fleet) -> Hashable:
        """What else of the pod matters because of what the fleet holds now (terms of placed pods that match it).

        Two pods get equal answers if their class keys and their standing keys are equal. It is asked right before a
        decision, of every pod: it must be cheap, and no key may come back with another meaning.
        """
        return None

    def pre_filter(self, placed: Placed, fleet: Fleet) -> S | Refuse | Skip:
        """State for this pod class: SKIP, a Refuse, or any value that the other points are handed."""
        return cast(S, None)  # of a plugin without state: Plugin[None]

    def refresh(self, state: S | Refuse | Skip, placed: Placed, fleet: Fleet) -> S | Refuse | Skip:
        """The same when no node and no object has changed since `state` was made, but pods or counts have.

        What rests on nodes alone (eligible domains, say) is taken over from `state`, so that this is cheap.
        """
        return self.pre_filter(placed, fleet)


class QueueSort(Protocol):
    """Orders the queue."""

    def sort_key(self, placed: Placed, queued_at: float) -> tuple[Any, ...]:
        """A sortable key, smallest first; the cycle appends the pod's key so that ties are deterministic."""
        ...


class Filter(Plugin[S]):
    """A hard rule."""

    @abstractmethod
    def filter(self, state: S, fleet: Fleet, rows: Rows) -> Codes:
        """[len(rows)] 0 where the pod may go, else a code of `fleet.reasons`."""


class Score(Plugin[S]):
    """A preference."""

    @abstractmethod
    def score(self, state: S, fleet: Fleet, rows: Rows) -> Floats:
        """[len(rows)] raw score, bigger is better; 0..100 unless the plugin normalises.

        Rows that no filter lets pass may be among `rows`: what is said of them is not used.
        """

    normalizes: ClassVar[bool] = False

    def normalize(self, raw: Floats) -> Floats:
        """Raw scores of the feasible rows to 0..100 (only when `normalizes`).

        It rests on the set of scores alone: equal ones get equal answers, however often and in which order they come.
        """
        return raw


class Reserve(Plugin[S]):
    """Bookkeeping beside the node's room: called when a place is assumed, and its exact inverse."""

    @abstractmethod
    def reserve(self, placed: Placed, row: int, fleet: Fleet) -> Refuse | None:
        """Book; a Refuse books nothing."""

    @abstractmethod
    def unreserve(self, placed: Placed, row: int, fleet: Fleet) -> None:
        """Give back what reserve booked."""

    def too_large(self, placed: Placed, fleet: Fleet) -> Mapping[str, str]:
        """Clusters for whose true size of the pod (`Placed.sizes`) nothing can be booked now, and why: passed over."""
        return {}

    def holds_to_size(self, placed: Placed) -> bool:
        """Whether the pod must not be bound in a larger size than was booked: its true size is booked first."""
        return False


class Permit(Plugin[S]):
    """The last word before a place leaves as an intent: None to go, a Refuse, or seconds to wait (gangs)."""

    @abstractmethod
    def permit(self, placed: Placed, row: int, fleet: Fleet) -> Refuse | float | None:
        """None: go. A Refuse: give the place back. A number: hold the place that many seconds at most."""


class Explained(Protocol[S_contra]):
    """A plugin that adds its own numbers to a decision's record (skew per domain, tenant usage, headroom)."""

    def explain(self, state: S_contra, placed: Placed, fleet: Fleet, row: int) -> Mapping[str, Any]:
        """Plain JSON values about the chosen row."""
        ...


@dataclass(frozen=True)
class PluginUse:
    """One line of a profile: which plugin, with which weight (scores only) and checked arguments."""

    name: str
    weight: float = 1.0
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """Plugins, weights and arguments under one schedulerName, in the order in which filters run."""

    scheduler_name: str
    plugins: tuple[PluginUse, ...]
