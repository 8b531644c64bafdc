"""Claim and Unclaim: marks a source pod as handed to another cluster, and takes the mark off.

The mark is a claim signed by this cluster, annotations for people (cluster, node, attempt) and a
finalizer, in one merge patch guarded by UID and resourceVersion: of two who write at the same time,
one gets 409.
"""

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.crossing import manifest
from agents.executor.objects import events, pods, source_manifest, target_needs
from agents.executor.objects.pods import LivePod, guarded_patch, without_ours
from agents.executor.trust.peers import closed_to_new, name_taken
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import NOT_FOUND, TRIES, Answer, error_text, is_ambiguous, outcome
from shared.messages import (
    CLAIMED,
    DONE,
    OF_CLUSTER,
    OF_POD,
    REFUSED,
    STALE,
    UNKNOWN,
    Claim,
    Outcome,
    PodRef,
    RestoreClaim,
    Unclaim,
)
from shared.model import names
from shared.model.leases import LEASE
from shared.model.pod import SourceRef
from shared.security import signatures
from shared.security.signatures import SignedClaim


def claim(intent: Claim, local: Local, now: Moment) -> Procedure[Outcome]:
    """Read the pod, write claim and finalizer, and return the claim and the manifest for its
    delegate.
    """
    if (early := _not_now(intent, local)) is not None:
        return outcome(intent, *early)
    problem = ""
    before = None
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if not look.answered:
            return outcome(intent, UNKNOWN, look.problem)
        wrong = (
            unfit(look.pod, intent.pod)
            or _forbidden(look.pod, intent)
            or _taken(look.pod, intent, local)
        )
        if wrong is not None:
            return outcome(intent, *wrong)
        assert look.pod is not None  # noqa: S101 - unfit() answers for a missing pod
        try:
            sanitised = yield from source_manifest.for_another_cluster(
                look.body, intent.pod.namespace, intent.cluster, local, now
            )
        except manifest.ManifestError as error:
            # what is not known yet of one cluster may be of others, and hard spread waits for it
            soon = isinstance(error, source_manifest.NotKnownError)
            scope = OF_CLUSTER if soon else OF_POD
            return outcome(intent, REFUSED, str(error), scope, passing=soon)
        left = _left_behind(intent, look.body)
        present = look.pod.claimed(local.keys.public)
        wanted = _wanted(intent, sanitised, _failover(look.pod, present), local)
        before = before or present
        if present == wanted:
            return _claimed(intent, look.pod.mark, sanitised, before, left)
        mark = local.keys.sign_claim(wanted)
        response = yield _marked(intent.pod, look.pod, mark, wanted)
        if response.ok:
            _tell(intent, left, sanitised, local, now)
            return _claimed(intent, mark, sanitised, before, left)
        problem = error_text(response)
        if not is_ambiguous(response):
            verdict = STALE if response.status == NOT_FOUND else REFUSED
            return outcome(intent, verdict, problem, OF_POD, response.passing)
    return outcome(intent, UNKNOWN, problem)


def _left_behind(intent: Claim, pod: bytes) -> str:
    """What of the pod does not go along; '' if all does."""
    keys = manifest.left_behind(pod)
    outlasts = manifest.outlasts_nodes(pod)
    return events.left_behind_note(intent.cluster, keys, outlasts=outlasts)


def _tell(intent: Claim, left: str, sanitised: bytes, local: Local, now: Moment) -> None:
    """Tell the pod's owner what of it does not go along, or may be lacking there."""
    if left:
        events.left_behind(local, intent.pod, left, now)
    if secrets := target_needs.optional_secrets(sanitised):
        events.optional_secrets(local, intent.pod, intent.cluster, secrets, now)


def _claimed(
    intent: Claim, mark: str, sanitised: bytes, before: SignedClaim | None, left: str
) -> Outcome:
    """Claimed; the message tells of an earlier attempt for the same place, which may have been
    heard there.
    """
    taken_over = before is not None and before.source.epoch != intent.epoch
    said = (
        f"taken over from attempt {before.source.epoch}"
        if before is not None and taken_over
        else ""
    )
    return msgspec.structs.replace(
        outcome(intent, CLAIMED, said), manifest=sanitised, record=mark, left_behind=left
    )


def unclaim(intent: Unclaim, local: Local, now: Moment) -> Procedure[Outcome]:
    """Remove claim and finalizer, unless the pod is on a proxy node by now or a newer attempt has
    claimed it.
    """
    problem = ""
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if not look.answered:
            return outcome(intent, UNKNOWN, look.problem)
        if look.pod is None or look.differs(intent.pod.uid):
            return outcome(intent, DONE, "the pod is gone")
        wrong = _keeps(look.pod, intent, local)
        if wrong is not None:
            return outcome(intent, *wrong)
        response = yield _unmarked(look.pod, intent.pod)
        if response.ok or response.status == NOT_FOUND:
            return outcome(intent, DONE)
        problem = error_text(response)
        if not is_ambiguous(response):
            return outcome(intent, REFUSED, problem)
    return outcome(intent, UNKNOWN, problem)


def restore_claim(intent: RestoreClaim, local: Local, now: Moment) -> Procedure[Outcome]:
    """Write our claim and finalizer again, from the copy of the claim on the delegate."""
    wanted = signatures.read_claim(intent.claim)
    if wanted is None or wanted.source.uid != intent.pod.uid:
        return outcome(intent, REFUSED, "what the delegate carries is no claim of this pod")
    if not signatures.is_claim_of(local.keys.public, intent.claim):
        return outcome(intent, REFUSED, "what the delegate carries was not signed by this cluster")
    problem = ""
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if not look.answered:
            return outcome(intent, UNKNOWN, look.problem)
        wrong = _not_restored(look.pod, intent, wanted, local)
        if wrong is not None:
            return outcome(intent, *wrong)
        assert look.pod is not None  # noqa: S101 - _not_restored() answers for a missing pod
        response = yield _marked(intent.pod, look.pod, intent.claim, wanted)
        if response.ok:
            return outcome(intent, DONE)
        problem = error_text(response)
        if not is_ambiguous(response):
            return outcome(intent, STALE if response.status == NOT_FOUND else REFUSED, problem)
    return outcome(intent, UNKNOWN, problem)


def unfit(pod: LivePod | None, ref: PodRef) -> Answer | None:
    """Why the pod, as just read from the API server, must not be claimed; None if it may be."""
    name = f"pod {ref.namespace}/{ref.name}"
    if pod is None or pod.uid != ref.uid:
        return Answer(STALE, f"{name} with UID {ref.uid} is not there")
    if pod.node:
        return Answer(STALE, f'{name} is bound to node "{pod.node}"')
    if pod.terminating or pod.terminal:
        return Answer(STALE, f"{name} {'is being deleted' if pod.terminating else 'has ended'}")
    if not names.is_ours(pod.spec.scheduler_name):
        return Answer(REFUSED, f'{name} belongs to scheduler "{pod.spec.scheduler_name}"')
    return None


def objection(pod: LivePod | None, intent: Claim, local: Local) -> Answer | None:
    """Why a claim would not be written on the pod, as just read, whatever its manifest is; None if
    it would.
    """
    pod_says = unfit(pod, intent.pod) or _forbidden(pod, intent) or _taken(pod, intent, local)
    return _not_now(intent, local) or pod_says


def _not_now(intent: Claim, local: Local) -> Answer | None:
    """Why a claim is refused before the pod is read: own UID unknown, target fenced, cordoned or
    not the known one.
    """
    if not local.cluster_uid:
        return Answer(UNKNOWN, "this cluster is not known by its UID yet")
    proxy = names.proxy_node_name(intent.cluster)
    if fenced := local.fenced(proxy):
        return Answer(STALE, fenced)
    pod = local.view.pod(intent.pod.uid)
    node = local.view.node(proxy)
    why = (
        name_taken(node, intent.cluster)
        or closed_to_new(node, pod)
        or local.trusted.another(intent.cluster, intent.cluster_uid)
    )
    return Answer(REFUSED, why, OF_CLUSTER) if why else None


def _forbidden(pod: LivePod | None, intent: Claim) -> Answer | None:
    """What the owner of the pod wrote against it: the dispatcher goes by the same, and is not
    trusted with it.
    """
    if pod is None:
        return None
    name = f"pod {intent.pod.namespace}/{intent.pod.name}"
    said = pod.annotations
    if pod.spec.scheduling_gates:
        return Answer(STALE, f"{name} has scheduling gates")
    allowed = said.get(names.CLUSTERS)
    listed = allowed is None or intent.cluster in [one.strip() for one in allowed.split(",")]
    if said.get(names.STAY) != "true" and listed:
        return None
    return Answer(REFUSED, f'{name} does not allow cluster "{intent.cluster}"', OF_CLUSTER)


def _wanted(intent: Claim, sanitised: bytes, failover: str, local: Local) -> SignedClaim:
    pod = intent.pod
    source = SourceRef(
        local.cluster, local.cluster_uid, pod.namespace, pod.name, pod.uid, intent.epoch
    )
    place = (intent.cluster, intent.cluster_uid, intent.node)
    return SignedClaim(source, *place, signatures.digest_of(sanitised), failover)


def _failover(pod: LivePod, present: SignedClaim | None) -> str:
    """What an earlier attempt for the same place has said holds: its delegate may be there."""
    if present is not None:
        return present.failover
    return LEASE if pod.annotations.get(names.FAILOVER) == LEASE else ""


def _taken(pod: LivePod | None, intent: Claim, local: Local) -> Answer | None:
    signed = pod.claimed(local.keys.public) if pod else None
    if signed is None:
        return None
    claimed = signed.claim
    if claimed.epoch > intent.epoch:
        return Answer(STALE, f"claimed by the newer attempt {claimed.epoch}")
    if (claimed.cluster, claimed.node) != (intent.cluster, intent.node):
        return Answer(
            STALE, f"claimed for {claimed.cluster}/{claimed.node} by attempt {claimed.epoch}"
        )
    return None


def _keeps(pod: LivePod, intent: Unclaim, local: Local) -> Answer | None:
    if pod.node.startswith(names.PROXY_NODE_PREFIX):
        return Answer(
            STALE,
            f'bound to node "{pod.node}": a pod in another cluster keeps its claim until it ends',
        )
    signed = pod.claimed(local.keys.public)
    if signed is not None and signed.source.epoch > intent.epoch:
        return Answer(STALE, f"claimed by the newer attempt {signed.source.epoch}")
    marked = names.FINALIZER in pod.finalizers or names.CLAIM in pod.annotations
    return None if marked else Answer(DONE)


def _not_restored(
    pod: LivePod | None, intent: RestoreClaim, wanted: SignedClaim, local: Local
) -> Answer | None:
    name = f"pod {intent.pod.namespace}/{intent.pod.name}"
    if pod is None or pod.uid != intent.pod.uid:
        return Answer(STALE, f"{name} is gone")
    elsewhere = pod.node == names.proxy_node_name(wanted.target) and not local.is_own(pod.node)
    if pod.node and not elsewhere:
        return Answer(STALE, f'{name} is bound to node "{pod.node}"')
    if pod.terminating or (pod.terminal and not pod.node):
        return Answer(STALE, f"{name} {'is being deleted' if pod.terminating else 'has ended'}")
    present = pod.claimed(local.keys.public)
    if present is None:
        return None
    if present == wanted or (
        present.target == wanted.target and present.source.epoch >= wanted.source.epoch
    ):
        return Answer(DONE)
    # Where it is bound, the node says where it belongs, whatever a claim for another cluster says.
    newer = not pod.node and present.source.epoch > wanted.source.epoch
    return (
        Answer(STALE, f"{name} is claimed by the newer attempt {present.source.epoch}")
        if newer
        else None
    )


def _marked(ref: PodRef, pod: LivePod, mark: str, signed: SignedClaim) -> Request:
    annotations = {
        names.CLAIM: mark,
        names.CLAIM_CLUSTER: signed.target,
        names.CLAIM_NODE: signed.node,
        names.EPOCH: str(signed.source.epoch),
    }
    return guarded_patch(
        ref, pod, {"annotations": annotations, "finalizers": (*without_ours(pod), names.FINALIZER)}
    )


def _unmarked(pod: LivePod, ref: PodRef) -> Request:
    annotations = dict.fromkeys((names.CLAIM, names.CLAIM_CLUSTER, names.CLAIM_NODE))
    return guarded_patch(ref, pod, {"annotations": annotations, "finalizers": without_ours(pod)})
