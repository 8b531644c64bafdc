"""The pod, reduced to what placement needs. Made by agents from API objects, read by the
dispatcher.
"""

from operator import attrgetter
from typing import Annotated, Any

import msgspec

from shared.model.bounds import MAX_NEEDS, Amount, Int32, Status, Word
from shared.model.labels import LabelSelector, NodeSelectorTerm, PreferredTerm
from shared.model.leases import LEASE
from shared.model.names import is_app_label

PENDING = "Pending"
RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
TERMINAL = frozenset((SUCCEEDED, FAILED))
PodId = tuple[str, str]  # cluster of submission, uid


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False, omit_defaults=True):
    """Base of everything that crosses the wire: positional, so a field may only be appended."""


class Toleration(Record, frozen=True):
    """core/v1 Toleration; empty effect means all effects, empty key with Exists means all taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    @property
    def text(self) -> str:
        """As taints are written: 'key=value:effect'."""
        value = f"={self.value}" if self.operator == "Equal" else ""
        return f"{self.key}{value}{self.effect and f':{self.effect}'}"


class HostPort(Record, frozen=True):
    """A port that a container takes on its node; ip '0.0.0.0' clashes with every address."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"  # noqa: S104 - a value to compare, never a bind address


class SpreadConstraint(Record, frozen=True):
    """At most `max_skew` difference of matching pods between the domains of `key`, over the whole
    fleet.

    `key` is a fault-domain level (provider, region, zone, rack, cluster, host) or a node label.
    `selector` None means the pod's own app: pods of the same namespace with the same
    `Pod.app_labels`.
    """

    key: str
    max_skew: int = 1
    hard: bool = True
    selector: LabelSelector | None = None
    min_domains: int = 1
    honor_affinity: bool = True  # nodeAffinityPolicy: Honor
    honor_taints: bool = False  # nodeTaintsPolicy: Honor


class PodAffinityTerm(Record, frozen=True):
    """core/v1 PodAffinityTerm: domains of `topology_key` that hold a pod which `selector` matches.

    Pods of `namespaces` and of those that `namespace_selector` matches (an empty one: of all).
    Whoever reads the object has put the pod's own namespace into `namespaces` if neither was given,
    and merged matchLabelKeys and mismatchLabelKeys into `selector`. A `selector` of None matches no
    pod.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(Record, frozen=True):
    """A term that is worth `weight` (1-100) for every matching pod in the node's domain."""

    weight: int
    term: PodAffinityTerm


class PodAffinity(Record, frozen=True):
    """Inter-pod affinity or anti-affinity: all `required` terms must hold, `preferred` ones count
    by weight.
    """

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()


CLAIM = "claim"
ISCSI = "iscsi"
RBD = "rbd"
GCE_DISK = "gcePersistentDisk"
EBS_VOLUME = "awsElasticBlockStore"
AZURE_DISK = "azureDisk"


class Volume(Record, frozen=True):
    """A volume that has a say in where its pod may run: a claim (also a generic ephemeral one's),
    or an inline disk.

    `name` is the claim's name, or what identifies the disk (for iscsi the iqn; for rbd pool/image
    and `monitors`).
    """

    kind: str
    name: str
    read_only: bool = False
    ephemeral: bool = False  # the claim is made for, and must be owned by, this very pod
    monitors: tuple[str, ...] = ()


class Affinity(Record, frozen=True):
    """Node affinity: `required` terms are alternatives (None: no requirement), `preferred` add
    their weights.
    """

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredTerm, ...] = ()


class Claim(Record, frozen=True):
    """What our annotations on a source pod say: to which cluster and node it went, at which epoch."""

    cluster: str
    node: str
    epoch: int


_NEEDS_TOLD = 3


class Need(Record, frozen=True):
    """What a pod needs in another cluster and must be let in there: `word` in list `key` of a row
    of its policy.

    `field` of the pod, and `why` as words that follow it.
    """

    key: Word
    word: Word
    field: Word
    why: Word


class Needs(Record, frozen=True):
    """What is known at home of a pod in any other cluster: `barred`, why it can run in none, and
    what it needs.
    """

    barred: Word = ""
    of_policy: Annotated[tuple[Need, ...], msgspec.Meta(max_length=MAX_NEEDS)] = ()

    @property
    def text(self) -> str:
        """In words, whatever other clusters let in of it."""
        told = "; ".join(f"{one.field} {one.why}" for one in self.of_policy[:_NEEDS_TOLD])
        return self.barred or f"{told}; they take it only if their `executor.accept` lists it"


class PodRef(Record, frozen=True):
    """Which pod, exactly: the UID is a precondition of every write."""

    namespace: str
    name: str
    uid: str


class SourceRef(Record, frozen=True):
    """Whose delegate a pod is. `cluster_uid` is the UID of the source's kube-system namespace."""

    cluster: str
    cluster_uid: str
    namespace: str
    name: str
    uid: str
    epoch: int


class Group(Record, frozen=True):
    """The pod group (gang) that a pod is a member of: `min_count` members start together or none.

    `kind` and `name` say what defines it, in the pod's own namespace and cluster of submission: a
    PodGroup (by its API group), or a mark on the pods themselves (`uid` "" then). `within`: all its
    members go to nodes of one domain: a fault-domain level, a node label, or FLEET for no such
    bound. `whole`: who evicts one member evicts all (disruptionMode all).
    """

    kind: Word
    name: Word
    uid: Word = ""
    min_count: Int32 = 1
    within: Word = "cluster"
    whole: bool = False


FLEET = "fleet"


class Pod(Record, frozen=True):
    """One pod of one cluster. `images`: of init containers and containers; `volume_images`: of
    image volumes.

    `requests` is the effective request (containers, init containers, overhead) in internal units,
    without the implicit one pod. `annotations` holds our prefix only. `problems` names fields that
    could not be read or are not supported: a pod with problems is never placed, and says so.
    `status` is the raw JSON of a delegate's status. `preempts` is False for preemptionPolicy Never.
    `started` is status.startTime (unix seconds, 0 unknown). `preempted`: it terminates because a
    scheduler preferred another pod. `failover`: as names.FAILOVER, "" the default; LEASE only where
    a signed claim says so. `grace_s`: terminationGracePeriodSeconds. `needs`: of a pod of this
    cluster that has no place yet; None: nothing, or an agent of an older version did not say. Of
    one that has a place: what the next pod of its controller needs; None: it was not said. Of one
    that is placed at home it is said where its agent has seen it wait. `at_home`: its node is one
    of this cluster itself although it is named as proxy nodes are. `files`: a digest of what files
    of the downward API show: of a source on a proxy node, what they ought to; of a delegate, what
    they do; "" where there are none. `features`: what its node has to declare (`Node.features`).
    `ends_in_s`: the grace period that it was deleted with; -1: it was not, or an agent of an older
    version did not say. `live`: a digest of what may change of a pod that runs, of a source on a
    proxy node as it is, of a delegate as it reached that, of one format where they begin alike;
    "" where nothing follows. `carries`: which writes on its source reach a delegate (agents/executor/crossing/live).
    `labels_cut`: it has more labels than `labels`, which are too large to be
    told. `generation`: of a source on a proxy node, that of its spec; of a delegate the same, where
    its kubelet has seen that; 0: it has not, or it is not known. `expected` is (milli-CPU, bytes)
    with kube-scheduler's defaults for each container without a request; None: unknown. `group`:
    the group whose members start together; None: it is placed by itself.
    """

    uid: str
    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    requests: dict[str, Amount] = {}
    priority: Int32 = 0
    scheduler_name: str = ""
    node: str = ""
    phase: str = PENDING
    reason: str = ""
    ready: bool = False
    terminating: bool = False
    created: float = 0.0
    gated: bool = False
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claim: Claim | None = None
    source: SourceRef | None = None
    owner: str = ""
    images: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    status: Status = b""
    has_finalizer: bool = False
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    preempts: bool = True
    nominated_node: str = ""
    started: float = 0.0
    expected: tuple[Amount, Amount] | None = None
    volume_images: tuple[str, ...] = ()
    preempted: bool = False
    failover: str = ""
    grace_s: int = 30
    needs: Needs | None = None
    files: Word = ""
    at_home: bool = False
    features: tuple[Word, ...] = ()
    ends_in_s: Int32 = -1
    labels_cut: bool = False
    live: Word = ""
    carries: Word = ""
    generation: Amount = 0
    group: Group | None = None

    @property
    def key(self) -> str:
        """namespace/name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def app_labels(self) -> dict[str, str]:
        """The labels that say what the pod is; equal for a source pod and its delegate."""
        return {key: value for key, value in self.labels.items() if is_app_label(key)}

    @property
    def terminal(self) -> bool:
        """Whether the pod has ended and holds no room on its node any more."""
        return self.phase in TERMINAL

    def ends_within(self, grace_s: int) -> bool:
        """Whether it is being deleted, with no longer a grace period than this; -1: with any."""
        return self.terminating and (grace_s < 0 or self.ends_in_s <= least_grace(grace_s))


def least_grace(grace_s: int) -> int:
    """Of a delegate: 0 would have its API server forget it while its containers may run."""
    return max(1, grace_s)


def without_claim(pod: Pod) -> Pod:
    """The same where nobody has signed what is written on it: it goes nowhere by that."""
    return msgspec.structs.replace(
        pod, claim=None, failover="" if pod.failover == LEASE else pod.failover
    )


# Who a pod is and how it fares. All else but the names of its claims is its template's, also a
# field that is new: it tells pods apart.
OWN_FIELDS = (
    "uid", "name", "phase", "reason", "ready", "terminating", "created", "claim", "source", "status", "has_finalizer",
    "nominated_node", "started", "preempted", "files", "at_home", "ends_in_s", "generation",
)  # fmt: skip
_of_template = attrgetter(
    *(name for name in Pod.__struct_fields__ if name not in (*OWN_FIELDS, "volumes")), "volumes"
)


def template_of(pod: Pod) -> tuple[Any, ...]:
    """All but `OWN_FIELDS` and the names of claims, to compare with another pod's: a StatefulSet or
    an ephemeral volume gives each pod a claim of its own.
    """
    looks: tuple[Any, ...] = _of_template(pod)
    return (*looks[:-1], tuple([_unnamed(one) for one in pod.volumes])) if pod.volumes else looks


def _unnamed(volume: Volume) -> Volume | tuple[bool, bool]:
    return (volume.read_only, volume.ephemeral) if volume.kind == CLAIM else volume
