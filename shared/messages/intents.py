"""Dispatcher to agent: orders, one record a kind.

The delegate protocol (cluster A holds the source pod, B runs it), every step idempotent and
level-triggered: Claim (A) -> CreateDelegate (B) -> Bind to the proxy node (A) -> MirrorStatus (A)
until it ends; source deleted -> DeleteDelegate (B) -> FinishSource (A); delegate being deleted ->
DeleteSource (A); delegate gone -> FinishSource (A).
"""

from shared.messages.version import VERSION
from shared.model.bounds import Amount, Int32
from shared.model.pod import PodRef, Record, SourceRef, Toleration


class Intent(Record, frozen=True, tag=True):
    """One order. (`pod.uid`, `epoch`, type) is its idempotency key; `id` pairs it with its outcome."""

    id: str
    pod: PodRef
    epoch: int


class Bind(Intent, frozen=True):
    """Bind `pod` to `node` with the UID as precondition; `annotations` land on the pod in the same
    write.
    """

    node: str
    annotations: dict[str, str] = {}
    proxy: bool = False


class Claim(Intent, frozen=True):
    """Mark the source pod as going to `node` of `cluster`: annotations and finalizer, guarded by
    uid and version.

    The mark is signed by this cluster. Outcome CLAIMED carries it and the sanitised manifest for
    the delegate. Claiming again with the same epoch is a no-op that answers the same; a newer epoch
    takes over a claim for the same place. STALE where any other claim is present. `cluster_uid` is
    the UID of the target's kube-system namespace.
    """

    cluster: str
    node: str
    cluster_uid: str = ""


class Unclaim(Intent, frozen=True):
    """Take our claim and finalizer off a source pod that is not bound to a proxy node: it can be
    placed again.
    """


class RestoreClaim(Intent, frozen=True):
    """Write `claim` (the mark as its delegate carries it) and our finalizer on the source again:
    both were taken off.

    STALE where an unbound pod has a newer claim, or the pod went elsewhere meanwhile.
    """

    claim: str


class ConfirmNoDelegate(Intent, frozen=True):
    """Ask the API server whether there is no delegate of `source`, `pod` being the source.

    DONE: there is none, and orders of attempts up to this epoch will make none. STALE: there is
    one; with `collect` it is being deleted now. With `ended` one that is being deleted, or whose
    phase is final, is as none, and the outcome says which (`end`).
    """

    source: SourceRef
    collect: bool = False
    ended: bool = False


class ConfirmNoSource(Intent, frozen=True):
    """Ask the API server of the source whether `pod` is gone. DONE: it is. STALE: it is there.

    `preempts`, a cluster where pods are to be evicted for it, makes it another question. DONE with
    a `record`: it waits for a place there, and this is what its own cluster signs of it
    (`signatures.Preemptor`). STALE: it does not. An older executor signs nothing.
    """

    preempts: str = ""


class CreateDelegate(Intent, frozen=True):
    """Create (or find) the delegate of `source` in this cluster from `manifest` (JSON: metadata,
    spec) and bind it.

    `pod` names the source pod. The delegate's name is derived from the source UID. REFUSED only
    where the API server has no delegate of this source: what an earlier send of the order has bound
    is BOUND, whatever may speak against it now. `at_most`: what the delegate may request
    (effective, internal units), which is what the tenant's quota was asked for. One that the API
    server makes larger is deleted before it is bound, and refused with its true size. Empty: it is
    bound if it fits. `services`: an operator has said that the pod networks of both clusters are
    one, and the pod calls Services: those of its namespace are to be there before it. `unbound`:
    it is created and left so: outcome DONE with its UID (an older executor binds it, BOUND). `made`:
    the UID of one that was, to be bound; STALE if it is gone.
    """

    source: SourceRef
    node: str
    manifest: bytes
    annotations: dict[str, str] = {}
    record: str = ""  # the claim, signed by the source cluster: no delegate is made without one
    at_most: dict[str, int] = {}
    services: bool = False
    unbound: bool = False
    made: str = ""


class SignManifest(Intent, frozen=True):
    """Sign the manifest of a source on a proxy node as it is now: what may change of a pod that
    runs, or what its files show, has changed. Outcome DONE carries the claim that the pod bears,
    signed for that manifest, and the manifest.
    """


class UpdateDelegate(Intent, frozen=True):
    """Write onto the delegate of `source` what `manifest` says otherwise than what reached it
    before, of that which may change while a pod runs, and what its files show; nothing else.

    `record`: the claim for `node` and this manifest, signed by the source cluster.
    """

    source: SourceRef
    node: str
    manifest: bytes
    record: str


class DeleteDelegate(Intent, frozen=True):
    """Delete the delegate `pod` (its own UID is the precondition).

    `source`: whose delegate it is taken for. REFUSED where it is another's. None, as older
    dispatchers send: any. `grace_s`: seconds that it has to end, as its source was given by who
    deleted that; -1: its own grace period.
    """

    source: SourceRef | None = None
    grace_s: Int32 = -1


class MirrorStatus(Intent, frozen=True):
    """Write a delegate's status (raw JSON, pods/status shape) onto the source pod; never moves a
    terminal phase.

    `routed`: an operator has said that the pod networks of both clusters are one, so that its
    addresses lead to it from the home cluster, too. Else they are not written: at home they may be
    nobody's, or another pod's. `carries`: which writes on the source reach the delegate
    (`Pod.carries`); it is shown on the source, whose admission lets these through. `generation`:
    that of the source whose spec the delegate's kubelet has seen; 0: it has not seen the latest
    yet, and what was shown stays.
    """

    status: bytes
    routed: bool = False
    carries: str = ""
    generation: Amount = 0


class DeleteSource(Intent, frozen=True):
    """The delegate is being deleted where it runs: begin to delete the source pod, too.

    Our finalizer keeps it until the delegate is gone, but its controller may replace it now, as for
    any evicted pod. `status`: the delegate's, as it was last seen (raw JSON); who disrupted it is
    shown on the source before that goes. `grace_s`: seconds that the delegate has to end; -1, as
    older dispatchers send: the source's own grace period.
    """

    status: bytes = b""
    grace_s: Int32 = -1


class FinishSource(Intent, frozen=True):
    """The delegate is gone: take our finalizer off the source pod and, unless it has ended by
    itself, delete it.

    `target_uid`: UID of kube-system of the cluster that has no delegate, "" if it is not known.
    """

    target_uid: str = ""


WAITING = "Waiting"
HOME_ONLY = "StaysHome"
LOWER_PRIORITY = "LowerPriority"
NODES_DO_NOT_HELP = "NodesDoNotHelp"
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
PREEMPTED = "PreemptionByScheduler"


class ReportUnschedulable(Intent, frozen=True):
    """Set PodScheduled=False (`reason` Unschedulable or SchedulingGated) with `message`, and a
    Warning event.

    `reason` WAITING: the pod has a place that something holds up; a Normal event and nothing else.
    HOME_ONLY: its namespace is in no other cluster; LOWER_PRIORITY: it is less important where it
    goes than at home; both the same, on a pod that has its place.
    `nominated_node`: what status.nominatedNodeName shall be, "" none; None leaves it alone.
    `nodes_help` False: no new node of its cluster would help. The condition's reason is then
    NODES_DO_NOT_HELP: on Unschedulable autoscalers make nodes.
    `tolerations`: what the pod waits to be given. The executor adds them, and only if it cannot says
    `message`, with why; an older one says it, and adds nothing.
    """

    message: str
    reason: str = "Unschedulable"
    nominated_node: str | None = None
    nodes_help: bool = True
    tolerations: tuple[Toleration, ...] = ()


class ReportGroup(Intent, frozen=True):
    """Say in the status of the PodGroup `group` (scheduling.k8s.io), in the namespace of its member
    `pod`, whether it was scheduled: condition PodGroupInitiallyScheduled, of v1alpha2
    PodGroupScheduled, as kube-scheduler writes it.

    `reason` of one that was not: UNSCHEDULABLE or SCHEDULER_ERROR. PREEMPTED: it is evicted as a
    whole, condition DisruptionTarget; an older executor refuses that. DONE: it says so, or it has
    said before that it was scheduled, which is never taken back. STALE: there is no such group any more,
    or the pod is no member of it. REFUSED: the cluster does not let it be written. Only for an agent
    that tells groups: an older one reads no batch that holds it.
    """

    group: str
    group_uid: str
    scheduled: bool
    reason: str = UNSCHEDULABLE
    message: str = ""


class Evict(Intent, frozen=True):
    """Take `pod` off `node` for a pod of higher priority: condition DisruptionTarget, then delete,
    by UID and node.

    `priority` is the other pod's: a pod that has as much itself is not evicted. `preemptor` names
    it for people.

    `moved`, if not empty, is why the pod is moved to a better place: no other pod counts then, and
    the Eviction API is asked, which keeps budgets. Agents that do not know the field refuse for
    `priority`, which is NO_PRIORITY then. `local_data`: its owner lets go what is in its emptyDir
    and hostPath volumes. `unstarted`: only if none of its containers has ever run, and as it is
    read then; such a pod no budget counts. `source`, with the `manifest` of its delegate: the other
    pod, where it is of another cluster, which must be one that this cluster would take. REFUSED of
    OF_CLUSTER: it would not. An older executor does not ask. `services`: as of its CreateDelegate.

    `reclaimed`, if not empty, is whose quota it uses and who takes that back: no priority counts
    then, and the Eviction API is asked. Agents that do not know the field refuse for `priority`,
    which is NO_PRIORITY then, too.
    """

    node: str
    priority: int
    preemptor: str = ""
    moved: str = ""
    local_data: bool = False
    unstarted: bool = False
    source: SourceRef | None = None
    manifest: bytes = b""
    services: bool = False
    reclaimed: str = ""


class BindVolume(Intent, frozen=True):
    """Set `volume`'s claimRef to `claim` (namespace/name) with its UID, unless the volume is
    another claim's.
    """

    volume: str
    claim: str
    claim_uid: str


class SelectNode(Intent, frozen=True):
    """Write `node` on a claim that waits for its first consumer: its volume is to be made for that
    node.
    """

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
    | SignManifest
    | UpdateDelegate
    | ReportGroup
)


class IntentBatch(Record, frozen=True):
    """Orders of one dispatcher life. `dispatcher_epoch` grows with every start; an agent refuses a
    lower one.

    `deadline_s` counts from receipt on the agent's own clock: what was not begun by then is
    answered STALE, a CreateDelegate UNKNOWN. `answer_bytes`: how many bytes of manifests the answer
    may hold, equal ones once; 0: any number, each whole, as older dispatchers ask.
    """

    dispatcher: str
    dispatcher_epoch: int
    intents: tuple[AnyIntent, ...]
    deadline_s: float = 30.0
    version: int = VERSION
    answer_bytes: int = 0
