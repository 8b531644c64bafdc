"""The end of a source pod: it begins to go when its delegate does, and we let go of it when the
delegate is gone.
"""

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.objects import events, pods
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import LivePod, guarded_patch, without_ours
from shared.kube.http import STRATEGIC_PATCH, Procedure, Request
from shared.kube.times import rfc3339
from shared.kube.verdicts import NOT_FOUND, TRIES, Answer, cut, error_text, is_ambiguous, outcome
from shared.messages import DONE, REFUSED, UNKNOWN, DeleteSource, FinishSource, Outcome, PodRef
from shared.model.delegate_events import MAX_MESSAGE, MAX_REASON, DelegateEvent
from shared.model.names import FINALIZER, PROXY_NODE_PREFIX, marks_lost
from shared.model.pod import least_grace

DISRUPTION_TARGET = "DisruptionTarget"


class _Condition(msgspec.Struct, gc=False):
    """core/v1 PodCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


_STATUS = msgspec.json.Decoder(_Status)


def delete_source(intent: DeleteSource, local: Local, now: Moment) -> Procedure[Outcome]:
    """Delete the source, which has as long to end as its delegate, UID as precondition; our
    finalizer holds it until FinishSource.
    """
    look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
    if look.differs(intent.pod.uid):
        return outcome(intent, DONE, "the pod is gone")
    if look.pod is None:
        return outcome(intent, UNKNOWN, look.problem)
    if not _ours(look.pod, local):
        return outcome(intent, REFUSED, _not_ours(intent.pod, look.pod.node, local))
    if not look.pod.terminating:
        yield from _show_disruption(intent, look.pod, local, now)
    answer = yield from delete_exactly(
        intent.pod, least_grace(intent.grace_s) if intent.grace_s >= 0 else None
    )
    return outcome(intent, *answer)


def _show_disruption(
    intent: DeleteSource, source: LivePod, local: Local, now: Moment
) -> Procedure[None]:
    """Say on the source who disrupted its delegate: Jobs go by that condition, and people by the
    event.

    The deletion waits for no answer to it.
    """
    found = disruption_in(intent.status)
    if found is None:
        return
    cluster = source.node.removeprefix(PROXY_NODE_PREFIX)
    happened = DelegateEvent(found["reason"], found["message"])
    events.of_delegate(local, intent.pod, cluster, happened, now)
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        **found,
        "lastTransitionTime": rfc3339(now.wall),
    }
    change = {"metadata": {"uid": intent.pod.uid}, "status": {"conditions": [condition]}}
    path = pods.path(intent.pod.namespace, intent.pod.name, "status")
    yield Request("PATCH", path, msgspec.json.encode(change), STRATEGIC_PATCH)


def disruption_in(status: bytes) -> dict[str, str] | None:
    """Reason and message of the condition DisruptionTarget in a pod's status (raw JSON); None where
    there is none.
    """
    try:
        conditions = _STATUS.decode(status or b"{}").conditions or ()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    for one in conditions:
        if one.type == DISRUPTION_TARGET and one.status == "True":
            return {"reason": cut(one.reason, MAX_REASON), "message": cut(one.message, MAX_MESSAGE)}
    return None


def finish_source(intent: FinishSource, local: Local, now: Moment) -> Procedure[Outcome]:
    """Delete the pod at once, unless it has ended by itself and nobody deletes it, and take our
    finalizer off. In this order: who comes after an executor that stopped in between sees by the
    deletion what is meant.

    Where finalizers of others hold it, it fails first, as kubelets and PodGC have it before they
    let a pod go: a Job makes no other for one that runs. Refused where the delegate is missing in
    another cluster than the one that is known here by the proxy node's name: the dispatcher knows
    which cluster a pod went to by its claim, which users may take off; this executor by what it has
    stored.
    """
    released = yield from _release(intent, local, now)
    if isinstance(released, Answer):
        return outcome(intent, *released)
    if not released.terminating:
        return outcome(intent, DONE)
    answer = yield from delete_exactly(intent.pod, 0)
    return outcome(intent, *answer)


def _release(intent: FinishSource, local: Local, now: Moment) -> Procedure[LivePod | Answer]:
    """The pod as it was when it was free of our finalizer, or the answer to give instead."""
    ref = intent.pod
    problem = ""
    for _ in range(
        TRIES + 2
    ):  # after it was deleted, and after it has failed, it has another resourceVersion
        pod = yield from _held(intent, local)
        if isinstance(pod, Answer):
            return pod
        changed = yield from _brought_to_end(ref, pod, now)
        if isinstance(changed, Answer):
            return changed
        if changed:
            continue
        if FINALIZER not in pod.finalizers:
            return pod
        response = yield guarded_patch(ref, pod, {"finalizers": without_ours(pod)})
        if response.ok:
            return pod
        problem = error_text(response)
        if response.status == NOT_FOUND:
            return Answer(DONE, "the pod is gone")
        if not is_ambiguous(response):
            return Answer(REFUSED, problem)
    return Answer(UNKNOWN, problem)


def _held(intent: FinishSource, local: Local) -> Procedure[LivePod | Answer]:
    """The pod, as just read, if it is to be let go; else the answer to give."""
    look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
    if look.differs(intent.pod.uid):
        return Answer(DONE, "the pod is gone")
    if look.pod is None:
        return Answer(UNKNOWN, look.problem)
    why = _kept(look.pod, intent, local)
    return Answer(REFUSED, why) if why else look.pod


def _brought_to_end(ref: PodRef, pod: LivePod, now: Moment) -> Procedure[bool | Answer]:
    """Delete a pod that goes on; make one that ends fail where others hold it. Whether it was
    changed so.
    """
    if pod.terminal or pod.terminating:
        return (yield from _fails(ref, pod, now))
    deleted = yield from delete_exactly(ref, 0)
    return deleted.verdict == DONE or deleted


def _fails(ref: PodRef, pod: LivePod, now: Moment) -> Procedure[bool]:
    """Whether a pod that others hold has been made one that failed, and is not ready."""
    if pod.terminal or not without_ours(pod):
        return False
    gone = (
        f"its copy in cluster {pod.node.removeprefix(PROXY_NODE_PREFIX)} is gone, and how it "
        "ended was not seen"
    )
    said = (
        gone
        if pod.node
        else "it was deleted before it was bound: no other cluster has a copy of it"
    )
    unready = {"status": "False", "reason": "PodFailed", "lastTransitionTime": rfc3339(now.wall)}
    conditions = [{"type": kind, **unready} for kind in ("Ready", "ContainersReady")]
    seen = {"uid": ref.uid, "resourceVersion": pod.metadata.resource_version}
    change = {
        "metadata": seen,
        "status": {"phase": "Failed", "message": said, "conditions": conditions},
    }
    path = pods.path(ref.namespace, ref.name, "status")
    response = yield Request("PATCH", path, msgspec.json.encode(change), STRATEGIC_PATCH)
    return response.ok


def _kept(pod: LivePod, intent: FinishSource, local: Local) -> str:
    """Why the pod, as just read, is not to be let go; '' if it is."""
    unmarked = FINALIZER not in pod.finalizers and not _ours(pod, local)
    if unmarked or local.is_own(pod.node):
        return _not_ours(intent.pod, pod.node, local)
    return _missing_elsewhere(pod.node, intent.target_uid, local)


def _missing_elsewhere(node: str, target_uid: str, local: Local) -> str:
    """Why it says nothing of this pod that cluster `target_uid` has no delegate; '' if it does.

    In a cluster that was fenced here nothing runs, whoever answers for it.
    """
    cluster = node.removeprefix(PROXY_NODE_PREFIX)
    known = local.trusted.uid_of(cluster)
    if not node.startswith(PROXY_NODE_PREFIX) or not (known and target_uid) or known == target_uid:
        return ""
    if local.fenced(node):
        return ""
    return (
        f"its delegate is missing in the cluster with kube-system UID {target_uid}, but "
        f'"{cluster}" is known here with '
        f"UID {known}: it waits until that is back, or fenced"
    )


def _ours(pod: LivePod, local: Local) -> bool:
    """Whether it stands on a proxy node, by the mark of the node, or of the pod where the node is
    not seen.
    """
    if local.is_own(pod.node):
        return False
    return bool(local.behind(pod.node)) or (
        pod.node.startswith(PROXY_NODE_PREFIX) and FINALIZER in pod.finalizers
    )


def _not_ours(ref: PodRef, node: str, local: Local) -> str:
    named = node.startswith(PROXY_NODE_PREFIX) and local.is_own(node)
    more = f'. Of node "{node}": {marks_lost(node)}' if named else ""
    return f"pod {ref.namespace}/{ref.name} is not on a proxy node: it is not ours to delete{more}"
