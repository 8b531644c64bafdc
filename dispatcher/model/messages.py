"""Everything that crosses between dispatcher and agents: versioned msgpack bytes, never pickled objects.

Records are positional arrays; a new field is appended with a default, so N and N-1 read each other. `VERSION`
changes only when that is impossible, and a peer of another version is refused with a clear error.

The delegate protocol (cluster A holds the source pod, B runs it), every step idempotent and level-triggered:
Claim (A) -> CreateDelegate (B) -> Bind to the proxy node (A) -> MirrorStatus (A) until it ends;
source deleted -> DeleteDelegate (B) -> FinishSource (A); delegate being deleted -> DeleteSource (A); delegate gone ->
FinishSource (A).
"""

from typing import Any, TypeVar

import msgspec

from dispatcher.model.crossing import Opening
from dispatcher.model.node import Node, Reading
from dispatcher.model.objects import AnyObject, ObjectRef
from dispatcher.model.pod import Pod, Record, SourceRef

VERSION = 1


class PodRef(Record, frozen=True):
    """Which pod, exactly: the UID is a precondition of every write."""

    namespace: str
    name: str
    uid: str


# --- agent -> dispatcher ---------------------------------------------------------------------------------------------


class Hello(Record, frozen=True):
    """Who an agent is. `cluster_uid` is the UID of its kube-system namespace.

    `keys` are the cluster's public keys (Ed25519, base64), the one it signs with first. `obeys` is the highest
    dispatcher epoch that its executor has obeyed, in this life or an earlier one.
    """

    cluster: str
    cluster_uid: str
    incarnation: str
    version: int = VERSION
    server_version: str = ""
    keys: tuple[str, ...] = ()
    obeys: int = 0


class Changes(Record, frozen=True):
    """What changed in one cluster after revision `since` up to `revision`.

    `full` means: forget what you knew of this cluster, this is all of it. `synced` is False until the agent has listed
    everything once. `api_ok` is False while its API server does not answer or its watch is silent; `problem` says why.
    `evicts_foreign`: the cluster's policy lets pods of other schedulers be evicted for its own of higher priority.
    `restored`: its API server went back in time (etcd restored from a backup) and that is not reconciled yet: what is
    missing there proves nothing. `keys`: as in Hello. `pods_missing`: those of `pods_gone` that nobody has seen to be
    deleted; they are just absent from a list that came after a gap. `opens`: which tolerations its policy lets in
    beside the harmless ones; None: an agent of an older version, of which that is not known.
    """

    cluster: str
    cluster_uid: str
    incarnation: str
    since: int
    revision: int
    full: bool = False
    synced: bool = True
    api_ok: bool = True
    problem: str = ""
    nodes: tuple[Node, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()
    pods_gone: tuple[str, ...] = ()
    readings: tuple[Reading, ...] = ()
    version: int = VERSION
    objects: tuple[AnyObject, ...] = ()
    objects_gone: tuple[ObjectRef, ...] = ()
    evicts_foreign: bool = False
    restored: bool = False
    keys: tuple[str, ...] = ()
    pods_missing: tuple[str, ...] = ()
    opens: tuple[Opening, ...] | None = None


# --- dispatcher -> agent: intents ------------------------------------------------------------------------------------


class Intent(Record, frozen=True, tag=True):
    """One order. (`pod.uid`, `epoch`, type) is its idempotency key; `id` pairs it with its outcome."""

    id: str
    pod: PodRef
    epoch: int


class Bind(Intent, frozen=True):
    """Bind `pod` to `node` with the UID as precondition; `annotations` land on the pod in the same write."""

    node: str
    annotations: dict[str, str] = {}
    proxy: bool = False


class Claim(Intent, frozen=True):
    """Mark the source pod as going to `node` of `cluster`: annotations and finalizer, guarded by uid and version.

    The mark is signed by this cluster. Outcome CLAIMED carries it and the sanitised manifest for the delegate. Claiming
    again with the same epoch is a no-op that answers the same; a newer epoch takes over a claim for the same place.
    STALE where any other claim is present. `cluster_uid` is the UID of the target's kube-system namespace.
    """

    cluster: str
    node: str
    cluster_uid: str = ""


class Unclaim(Intent, frozen=True):
    """Take our claim and finalizer off a source pod that is not bound to a proxy node: it can be placed again."""


class RestoreClaim(Intent, frozen=True):
    """Write `claim` (the mark as its delegate carries it) and our finalizer on the source again: both were taken off.

    STALE where an unbound pod has a newer claim, or the pod went elsewhere meanwhile.
    """

    claim: str


class ConfirmNoDelegate(Intent, frozen=True):
    """Ask the API server whether there is no delegate of `source`, `pod` being the source.

    DONE: there is none, and orders of attempts up to this epoch will make none. STALE: there is one; with `collect` it
    is being deleted now.
    """

    source: SourceRef
    collect: bool = False


class ConfirmNoSource(Intent, frozen=True):
    """Ask the API server of the source whether `pod` is gone. DONE: it is. STALE: it is there."""


class CreateDelegate(Intent, frozen=True):
    """Create (or find) the delegate of `source` in this cluster from `manifest` (JSON: metadata, spec) and bind it.

    `pod` names the source pod. The delegate's name is derived from the source UID. REFUSED only where the API server
    has no delegate of this source: what an earlier send of the order has bound is BOUND, whatever may
    speak against it now.
    `at_most`: what the delegate may request (effective, internal units), which is what the tenant's quota was asked
    for. One that the API server makes larger is deleted before it is bound, and refused with its true size. Empty: it
    is bound if it fits.
    """

    source: SourceRef
    node: str
    manifest: bytes
    annotations: dict[str, str] = {}
    record: str = ""  # the claim, signed by the source cluster: no delegate is made without one
    at_most: dict[str, int] = {}


class DeleteDelegate(Intent, frozen=True):
    """Delete the delegate `pod` (its own UID is the precondition) with its own grace period."""


class MirrorStatus(Intent, frozen=True):
    """Write a delegate's status (raw JSON, pods/status shape) onto the source pod; never moves a terminal phase."""

    status: bytes


class DeleteSource(Intent, frozen=True):
    """The delegate is being deleted where it runs: begin to delete the source pod, too, with its own grace period.

    Our finalizer keeps it until the delegate is gone, but its controller may replace it now, as for any evicted pod.
    """


class FinishSource(Intent, frozen=True):
    """The delegate is gone: take our finalizer off the source pod and, unless it has ended by itself, delete it."""


WAITING = "Waiting"


class ReportUnschedulable(Intent, frozen=True):
    """Set PodScheduled=False (`reason` Unschedulable or SchedulingGated) with `message`, and a Warning event.

    `reason` WAITING: the pod has a place that something holds up; a Normal event and nothing else.
    `nominated_node`: what status.nominatedNodeName shall be, "" none; None leaves it alone.
    """

    message: str
    reason: str = "Unschedulable"
    nominated_node: str | None = None


class Evict(Intent, frozen=True):
    """Take `pod` off `node` for a pod of higher priority: condition DisruptionTarget, then delete, by UID and node.

    `priority` is the other pod's: a pod that has as much itself is not evicted. `preemptor` names it for people.
    """

    node: str
    priority: int
    preemptor: str = ""


class BindVolume(Intent, frozen=True):
    """Set `volume`'s claimRef to `claim` (namespace/name) with its UID, unless the volume is another claim's."""

    volume: str
    claim: str
    claim_uid: str


class SelectNode(Intent, frozen=True):
    """Write `node` on a claim that waits for its first consumer: its volume is to be made for that node."""

    claim: str
    claim_uid: str
    node: str


AnyIntent = (
    Bind
    | Claim
    | Unclaim
    | RestoreClaim
    | ConfirmNoDelegate
    | ConfirmNoSource
    | CreateDelegate
    | DeleteDelegate
    | MirrorStatus
    | DeleteSource
    | FinishSource
    | ReportUnschedulable
    | Evict
    | BindVolume
    | SelectNode
)


class IntentBatch(Record, frozen=True):
    """Orders of one dispatcher life. `dispatcher_epoch` grows with every start; an agent refuses a lower one.

    `deadline_s` counts from receipt on the agent's own clock: what was not begun by then is answered STALE, a
    CreateDelegate UNKNOWN.
    """

    dispatcher: str
    dispatcher_epoch: int
    intents: tuple[AnyIntent, ...]
    deadline_s: float = 30.0
    version: int = VERSION


# --- agent -> dispatcher: outcomes -----------------------------------------------------------------------------------

BOUND, CLAIMED, DONE, STALE, REFUSED, UNKNOWN = "bound", "claimed", "done", "stale", "refused", "unknown"
# What a refusal is about: one node (room, taints), the cluster (namespace, quota, policy), or the pod, which can run
# in its own cluster alone.
OF_NODE, OF_CLUSTER, OF_POD = "node", "cluster", "pod"


class Outcome(Record, frozen=True):
    """What became of one intent.

    bound/claimed/done: it holds now (also when it already held). stale: the world moved on, plan again. refused: local
    policy, re-check or the API server said no; `message` says why, `scope` what that is about (OF_NODE, OF_CLUSTER,
    OF_POD; "" is not said). unknown: neither could be learnt; ask again.
    `requests` of a CreateDelegate: what the delegate requests (effective, internal units) as the API server made it,
    where that is not what the order's manifest requests; else empty. With refused: only that size is why.
    `passing`: refused by a failure (HTTP 5xx, a webhook that does not answer), not by a rule: worth asking again soon.
    """

    id: str
    uid: str
    epoch: int
    verdict: str
    message: str = ""
    manifest: bytes = b""
    record: str = ""  # of CLAIMED: the signed claim
    requests: dict[str, int] = {}
    scope: str = ""
    passing: bool = False


class OutcomeBatch(Record, frozen=True):
    """Answers in the order of the intents. `obeys`: the dispatcher epoch that this executor obeys, `leader`: whose.

    Where it is higher than the batch's own, or another's, a newer dispatcher leads and the sender has to stop.
    """

    cluster: str
    outcomes: tuple[Outcome, ...]
    version: int = VERSION
    obeys: int = 0
    leader: str = ""


# --- dispatcher -> agent: proxy nodes --------------------------------------------------------------------------------


class Peer(Record, frozen=True):
    """Another cluster as its proxy node shall show it: `allocatable` is what that cluster has free, internal units.

    `uid` is the UID of its kube-system namespace, `keys` its public keys as in Hello. `api_ok`: its agent said at last
    that its API server answers. `unrenewed_s`: for so long no lease of it can have been renewed; 0 while it is ready.
    """

    cluster: str
    ready: bool
    allocatable: dict[str, int] = {}
    labels: dict[str, str] = {}
    uid: str = ""
    keys: tuple[str, ...] = ()
    api_ok: bool = False
    unrenewed_s: float = 0.0


class Shadow(Record, frozen=True):
    """A budget in the target that keeps budgets of `cluster` for its delegates in `namespace`.

    `keep`: its minAvailable. `always`: delegates that are not Ready may be evicted. `budgets`: whose names, for people.
    """

    cluster: str
    namespace: str
    name: str
    keep: int
    always: bool = False
    budgets: str = ""


class Cover(Record, frozen=True):
    """The delegate `pod` belongs under the shadow budget of this name in its namespace; "": under none."""

    pod: PodRef
    shadow: str


class Shadows(Record, frozen=True):
    """All shadow budgets of the clusters `of`; one of theirs that is not listed is removed. Of others nothing is said.

    `covers`: delegates of theirs whose label says something else; not always all of them at once.
    """

    of: tuple[str, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    covers: tuple[Cover, ...] = ()


NO_SHADOWS = Shadows()


class Peers(Record, frozen=True):
    """All other clusters; a proxy node of a cluster that is not listed is removed once no pod is bound to it.

    `echo` is the word of the last PeersAck of this agent: it renews the lease of its delegates for `lease_s`.
    """

    dispatcher: str
    dispatcher_epoch: int
    peers: tuple[Peer, ...] = ()
    version: int = VERSION
    echo: str = ""
    lease_s: float = 0.0
    shadows: Shadows = NO_SHADOWS


class PeersAck(Record, frozen=True):
    """The answer to Peers. `word` is another one each time, to be echoed; "" of an agent that knows no leases."""

    cluster: str
    word: str = ""
    version: int = VERSION


T = TypeVar("T", bound=Record)
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Hello, Changes, IntentBatch, OutcomeBatch, Peers, PeersAck)
}


class WireError(ValueError):
    """Bytes from a peer that are not what was expected; the text says what and from which version."""


def encode(message: Record) -> bytes:
    """A message as msgpack bytes."""
    return _ENCODER.encode(message)


def decode(kind: type[T], data: bytes) -> T:
    """Read bytes from a peer; WireError for anything that is not a `kind` of our version."""
    try:
        message: T = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"not a {kind.__name__}: {error}") from None
    version = getattr(message, "version", VERSION)
    if version != VERSION:
        raise WireError(f"{kind.__name__} has version {version}, this side speaks {VERSION}: upgrade the older side")
    return message
