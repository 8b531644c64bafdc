"""Deletes delegates that nobody goes on with, without an intent of the dispatcher: unbound, and not
signed for here.

A POST that hung and was given up may land long after its order is over, and an agent may die
between POST and binding. What it made runs nothing, and where its source is gone meanwhile no order
names it any more. Deleting too much costs an attempt at the most: what is without a proof is never
gone on with, an order that finds it makes it anew.
"""

from collections.abc import Iterator

from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.intents.delegate import delegate_name
from agents.executor.intents.existing_delegate import unbound_version
from agents.executor.objects import pods
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import LivePod
from shared.kube.http import Procedure
from shared.model import names
from shared.model.pod import PodRef
from shared.security import signatures

# longer than an order takes from POST to binding where the API server answers, and than a delegate
# waits unbound for others of its group (`timing.group_s`)
LEFT_S = 90.0
NOT_OURS_S = 600.0  # until a pod is looked at again that names our scheduler and bears no claim


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """A task for each that has been unbound for `LEFT_S` as seen here, and again as often; named by
    its UID.
    """
    seen = {ref.uid: ref for ref in local.view.unfinished()}
    local.unfinished = {uid: local.unfinished.get(uid, now.mono) for uid in seen}
    for uid, since in local.unfinished.items():
        if now.mono - since >= LEFT_S:
            yield ReconcileTask(uid, seen[uid].namespace, _collect(seen[uid], local, now))


def _collect(ref: PodRef, local: Local, now: Moment) -> Procedure[str]:
    look = yield from pods.look_up(ref.namespace, ref.name)
    if look.pod is None and not look.answered:
        return look.problem
    local.unfinished[ref.uid] = now.mono
    if look.pod is None or look.pod.uid != ref.uid:
        return ""
    if not is_leftover(look.pod, ref, local):
        if not look.pod.mark:
            local.unfinished[ref.uid] += NOT_OURS_S - LEFT_S
        return ""
    answer = yield from delete_exactly(ref, version=unbound_version(look.pod))
    return answer.message


def is_leftover(pod: LivePod, ref: PodRef, local: Local) -> bool:
    """Whether a pod is an unbound delegate of ours by its scheduler, its one name, and a claim for
    this cluster that its home cluster has signed. Whoever else made a pod that looks like one keeps
    it.
    """
    if pod.node or pod.terminating or pod.spec.scheduler_name != names.DELEGATE_SCHEDULER:
        return False
    signed = signatures.read_claim(pod.mark)
    if (
        signed is None
        or signed.target != local.cluster
        or signed.target_uid not in ("", local.cluster_uid)
    ):
        return False
    source = signed.source
    if (source.namespace, delegate_name(source)) != (ref.namespace, ref.name):
        return False
    return signatures.is_claim_of(local.trusted.of(source.cluster_uid), pod.mark)
