"""Evict: a pod gives its node to one of higher priority, as kube-scheduler's preemption does it; or
is moved.

First the condition DisruptionTarget, so that Jobs and people can tell why; then the delete, with
the pod's own grace period. Only a pod that really is on that node, of lower priority, and within
what this cluster's policy lets go; for a pod of another cluster only if this one would take that.

A pod that is moved for load (`Evict.moved`) is evicted through the Eviction API, where
PodDisruptionBudgets are kept by the API server; only one of ours, and none with local data or an
annotation that says no. One that has never started (`Evict.unstarted`) is deleted, as it was read:
the Eviction API counts no budget for a pod that is Pending.

A pod that uses what its tenant has borrowed gives it back (`Evict.reclaimed`) whatever its
priority, through the Eviction API as well; only one of ours. Its own word does not count there, nor
a grace period of more than 10 minutes: who borrows could keep what is not his else.
"""

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.intents import taking
from agents.executor.objects import events, pods
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import LivePod
from shared.kube.http import STRATEGIC_PATCH, TOO_BUSY, Procedure, Request, Response
from shared.kube.times import rfc3339
from shared.kube.verdicts import (
    CONFLICT,
    NOT_FOUND,
    POSTPONED,
    TRIES,
    Answer,
    error_text,
    is_ambiguous,
    outcome,
)
from shared.messages import DONE, PREEMPTED, REFUSED, STALE, UNKNOWN, Evict, Outcome
from shared.model import names
from shared.model.starting import not_started

_GONE = Answer(DONE, "the pod is gone")
_MOST_GRACE_S = 600  # of who gives quota back, which is kept for somebody for 900 s


def evict(intent: Evict, local: Local, now: Moment) -> Procedure[Outcome]:
    """done: the pod is gone or on its way. stale: it is not on that node. refused: by policy,
    priority or server.
    """
    look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
    if look.differs(intent.pod.uid):
        return outcome(intent, *_GONE)
    if look.pod is None:
        return outcome(intent, UNKNOWN, look.problem)
    no = _early(look.pod, intent, local) or (yield from taking.objection(intent, local, now))
    if no is not None:
        return outcome(intent, *no)
    if intent.unstarted or intent.reclaimed or intent.moved:
        answer = yield from _let_go(intent, look, local, now)
        return outcome(intent, *answer)
    marked = yield from _mark(intent, now)
    if marked is not None:
        return outcome(intent, *marked)
    answer = yield from delete_exactly(intent.pod)
    if answer.verdict == DONE:
        events.preempted(local, intent.pod, intent.preemptor, intent.node, now)
    return outcome(intent, *answer)


def _let_go(intent: Evict, look: pods.Lookup, local: Local, now: Moment) -> Procedure[Answer]:
    """Not for a pod of higher priority: because it has not started, gives back quota, or is moved."""
    if intent.unstarted:
        answer = yield from _unstarted_deleted(intent, look)
        told = events.not_started
        why = intent.moved
    elif intent.reclaimed:
        wanted = look.pod.spec.termination_grace_period_seconds if look.pod is not None else None
        answer = yield from _evicted(intent, wanted or 0)
        told = events.reclaimed
        why = intent.reclaimed
    else:
        kept = None if look.pod is None else _kept(intent, look.pod)
        answer = kept or (yield from _evicted(intent))
        told = events.moved
        why = intent.moved
    if answer.verdict == DONE:
        told(local, intent.pod, why, now)
    return answer


def _unstarted_deleted(intent: Evict, look: pods.Lookup) -> Procedure[Answer]:
    """Delete a pod as it was read, if none of its containers had run then and their images are not
    being pulled; a status that comes meanwhile spares it.
    """
    seen = not_started(pods.status_of(look.body)) if look.pod is not None else None
    if look.pod is None or seen is None:
        name = f"{intent.pod.namespace}/{intent.pod.name}"
        return Answer(
            STALE, f"a container of pod {name} has run, or its kubelet has not said that none has"
        )
    if seen.pulls:
        return Answer(
            STALE, f"images of pod {intent.pod.namespace}/{intent.pod.name} are being pulled"
        )
    return (yield from delete_exactly(intent.pod, version=look.pod.metadata.resource_version))


def _early(pod: LivePod, intent: Evict, local: Local) -> Answer | None:
    name = f"pod {intent.pod.namespace}/{intent.pod.name}"
    if pod.node != intent.node:
        where = f'on node "{pod.node}"' if pod.node else "not bound"
        return Answer(STALE, f'{name} is {where}, not on node "{intent.node}"')
    if pod.terminating or pod.terminal:
        return _GONE
    by_priority = not intent.moved and not intent.reclaimed
    if by_priority and pod.spec.priority >= intent.priority:
        return Answer(
            REFUSED, f"{name} has priority {pod.spec.priority}: not lower than {intent.priority}"
        )
    ordinary = local.is_own(pod.node) and names.FINALIZER not in pod.finalizers
    if pod.node.startswith(names.PROXY_NODE_PREFIX) and not ordinary:
        return Answer(REFUSED, f"{name} runs in another cluster: it is evicted there")
    ours = (
        names.is_ours(pod.spec.scheduler_name)
        or pod.spec.scheduler_name == names.DELEGATE_SCHEDULER
    )
    if not ours and not by_priority:
        what = "moved for load" if intent.moved else "reclaimed from"
        return Answer(REFUSED, f"{name} is of another scheduler, and not {what}")
    if not ours and not local.policy.evict_foreign:
        return Answer(
            REFUSED,
            f"{name} is of another scheduler: evict_foreign is off in the executor's policy",
        )
    return None


def _kept(intent: Evict, pod: LivePod) -> Answer | None:
    """The refusal, if its owner says that it is not moved."""
    if pod.annotations.get(names.REBALANCE, "true") != "true":
        return Answer(REFUSED, f"its annotation {names.REBALANCE} says no")
    if pod.has_local_data and not intent.local_data:
        text = (
            f'it has local data (emptyDir or hostPath): annotation {names.REBALANCE}: "true" lets '
            "it go"
        )
        return Answer(REFUSED, text)
    return None


def _evicted(intent: Evict, grace_s: int = 0) -> Procedure[Answer]:
    """Ask the Eviction API. done: it is on its way. refused: by a budget or the server. `grace_s`:
    what the pod asks for, of which it gets _MOST_GRACE_S at most.
    """
    options: dict[str, object] = {"preconditions": {"uid": intent.pod.uid}}
    if grace_s > _MOST_GRACE_S:
        options["gracePeriodSeconds"] = _MOST_GRACE_S
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": intent.pod.namespace, "name": intent.pod.name},
        "deleteOptions": options,
    }
    path = pods.path(intent.pod.namespace, intent.pod.name, "eviction")
    request = Request("POST", path, msgspec.json.encode(body))
    problem = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok:
            return Answer(DONE)
        if response.status == NOT_FOUND:
            return _GONE
        problem = error_text(response)
        if response.status in POSTPONED and not _by_budget(response):
            continue
        if response.status != CONFLICT and not response.unknown:
            return Answer(REFUSED, problem)
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if look.differs(intent.pod.uid) or (look.pod is not None and look.pod.terminating):
            return _GONE
    return Answer(UNKNOWN, problem)


def _by_budget(response: Response) -> bool:
    """Whether a 429 is a budget's and not a busy server's."""
    return response.status == TOO_BUSY and b"DisruptionBudget" in response.body


def _mark(intent: Evict, now: Moment) -> Procedure[Answer | None]:
    """Set the condition; the answer to give if the pod cannot be evicted, else None."""
    request = _request(intent, now)
    problem = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok:
            return None
        problem = error_text(response)
        if response.status == NOT_FOUND:
            return _GONE
        if not is_ambiguous(response):
            return Answer(REFUSED, problem)
        if not response.unknown:
            look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
            if look.differs(intent.pod.uid):
                return _GONE
    return Answer(UNKNOWN, problem)


def _request(intent: Evict, now: Moment) -> Request:
    # kube-scheduler's words; the name goes home with the condition of a delegate, its event does not.
    whose = f" ({intent.preemptor})" if intent.preemptor else ""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": PREEMPTED,
        "message": f"{names.SCHEDULER_NAME}: preempting to accommodate a higher priority pod{whose}",
        "lastTransitionTime": rfc3339(now.wall),
    }
    body = msgspec.json.encode(
        {"metadata": {"uid": intent.pod.uid}, "status": {"conditions": [condition]}}
    )
    path = pods.path(intent.pod.namespace, intent.pod.name, "status")
    return Request("PATCH", path, body, STRATEGIC_PATCH)
