"""What to do where a pod with the delegate's name exists already: whose it is, and deleting our own
unfinished ones.

A webhook of the target may give a delegate another scheduler, or a node, while the reply that would
show it is lost. So a pod of that name is ours by its scheduler's name, by its claim, or because we
saw it made. It may run until it is gone, and till then its source may go nowhere else. Any other
pod of that name is never touched.
"""

import enum

from agents.executor.context.local import GivenUp, Local
from agents.executor.objects import mutations, pods
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import LivePod
from shared.kube.http import Procedure
from shared.kube.verdicts import TRIES, Answer
from shared.messages import BOUND, DONE, OF_CLUSTER, REFUSED, STALE, UNKNOWN, CreateDelegate, PodRef
from shared.model import names
from shared.model.pod import SourceRef
from shared.security import signatures


class Ownership(enum.Enum):
    """Who made a pod under a delegate's name."""

    OURS = "ours"
    OTHERS = "others"
    # its claim cannot be verified: the keys of the source's cluster are not known
    UNSURE = "unsure"


def ownership(pod: LivePod, source: SourceRef, local: Local) -> Ownership:
    """Whether a pod under the delegate's name may be the delegate of `source`, or another
    scheduler's copy of it.
    """
    given = local.given_up.get(source.uid)
    if pod.spec.scheduler_name == names.DELEGATE_SCHEDULER or (
        given is not None and given.delegate == pod.uid
    ):
        return Ownership.OURS
    signed = signatures.read_claim(pod.mark)
    if signed is None or (signed.source.cluster_uid, signed.source.uid) != (
        source.cluster_uid,
        source.uid,
    ):
        return Ownership.OTHERS
    if signed.target != local.cluster or signed.target_uid not in ("", local.cluster_uid):
        return Ownership.OTHERS
    keys = local.trusted.of(source.cluster_uid)
    if not keys:
        return Ownership.UNSURE
    return Ownership.OURS if signatures.is_claim_of(keys, pod.mark) else Ownership.OTHERS


def answer_for(pod: LivePod, name: str, intent: CreateDelegate, local: Local) -> Answer:
    """The answer by an existing pod. Bound: it carries this cluster's proof. Refused: it is not
    ours. Stale: it belongs to a newer attempt or another failover mode. Unknown: it is ours without
    a proof, or is being deleted.
    """
    source = intent.source
    what = f"pod {source.namespace}/{name}"
    signed = pod.delegated(local.keys.public)
    owner = ownership(pod, source, local)
    another = signed is not None and (signed.source.cluster_uid, signed.source.uid) != (
        source.cluster_uid,
        source.uid,
    )
    if another or owner is Ownership.OTHERS:
        whom = f"{source.cluster} {source.namespace}/{source.name}"
        return Answer(REFUSED, f"{what} exists and is not the delegate of {whom}", OF_CLUSTER)
    if pod.terminating:
        return Answer(UNKNOWN, f"{what} is being deleted")
    if signed is None:
        return Answer(UNKNOWN, f"{what} is there, but this cluster has not signed for it")
    if signed.source.epoch > intent.epoch:
        return Answer(STALE, f"{what} belongs to the newer attempt {signed.source.epoch}")
    if signed.failover != failover_of(intent):
        return Answer(STALE, f"{what} was made for another {names.FAILOVER}")
    return Answer(
        BOUND,
        "" if pod.node == intent.node else f'an earlier attempt bound it to node "{pod.node}"',
    )


def failover_of(intent: CreateDelegate) -> str:
    """The failover mode in the claim that the home cluster has signed."""
    signed = signatures.read_claim(intent.record)
    return signed.failover if signed is not None else ""


def cleared(name: str, intent: CreateDelegate, local: Local) -> Procedure[Answer | None]:
    """None if no pod of this name exists, else the answer. One of ours without a proof is deleted
    first.
    """
    answer = Answer(
        UNKNOWN, f"pod {intent.source.namespace}/{name} changes faster than it can be deleted"
    )
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.source.namespace, name)
        if look.pod is None:
            return None if look.answered else Answer(UNKNOWN, look.problem)
        if not _to_delete(look.pod, intent, local):
            return answer_for(look.pod, name, intent, local)
        ref = PodRef(intent.source.namespace, name, look.pod.uid)
        if foreign := mutations.foreign(look.pod):
            local.given_up.put(intent.source.uid, GivenUp(intent.epoch, ref.uid, foreign))
        deleted = yield from delete_exactly(ref, version=unbound_version(look.pod))
        if deleted.verdict == REFUSED:
            return Answer(UNKNOWN, deleted.message)
        answer = answer if deleted.verdict == DONE else deleted
    return answer


def given_up(
    pod: LivePod, ref: PodRef, why: str, intent: CreateDelegate, local: Local
) -> Procedure[Answer]:
    """Refused once the pod that the server has made of our order, and not as ordered, is gone: it
    may have a node.

    Why is remembered for the next try of the same order, which finds it gone and must not make
    another.
    """
    local.given_up.put(intent.source.uid, GivenUp(intent.epoch, ref.uid, why))
    deleted = yield from delete_exactly(ref, version=unbound_version(pod))
    if deleted.verdict != DONE:
        return Answer(UNKNOWN, deleted.message)
    look = yield from pods.look_up(ref.namespace, ref.name)
    if look.differs(ref.uid):
        return Answer(REFUSED, why, OF_CLUSTER)
    return Answer(UNKNOWN, f"{why}; it is being deleted" if look.answered else look.problem)


def given_up_before(intent: CreateDelegate, local: Local) -> Answer | None:
    """Why an earlier try of the same intent was given up, None if none was."""
    before = local.given_up.get(intent.source.uid)
    return (
        Answer(REFUSED, before.why, OF_CLUSTER)
        if before is not None and before.epoch == intent.epoch
        else None
    )


def unbound_version(pod: LivePod) -> str:
    """The precondition for deleting a pod without a node: a binding that lands meanwhile must not
    be overrun.

    The API server deletes a pod without a node at once; one that has been bound has its grace
    period.
    """
    return "" if pod.node else pod.metadata.resource_version


def _to_delete(pod: LivePod, intent: CreateDelegate, local: Local) -> bool:
    """Ours, without a proof, and not going yet. It is made anew: nobody knows who made one that is
    not signed for.
    """
    unproved = pod.delegated(local.keys.public) is None
    return (
        unproved and not pod.terminating and ownership(pod, intent.source, local) is Ownership.OURS
    )
