"""ReportUnschedulable: the PodScheduled condition and the event that tell a user why a pod waits."""

import msgspec
from msgspec.structs import replace

from agents.executor.context.local import Local, Moment, Reported
from agents.executor.intents.bind import unfit
from agents.executor.intents.tolerate import tolerate
from agents.executor.objects import events, pods
from shared.kube.http import STRATEGIC_PATCH, Procedure, Request
from shared.kube.times import rfc3339
from shared.kube.verdicts import NOT_FOUND, TRIES, error_text, is_ambiguous, outcome
from shared.messages import (
    DONE,
    HOME_ONLY,
    LOWER_PRIORITY,
    NODES_DO_NOT_HELP,
    REFUSED,
    STALE,
    UNKNOWN,
    WAITING,
    Outcome,
    ReportUnschedulable,
)

REPEAT_S = 300.0  # an unchanged report is written again after this long
EVENT_GAP_S = 30.0  # a changed one makes an event of its own only after this long
_TOLD = (HOME_ONLY, LOWER_PRIORITY)  # of a pod that has its place
_REASONS = ("Unschedulable", "SchedulingGated", WAITING, *_TOLD)


def report_unschedulable(
    intent: ReportUnschedulable, local: Local, now: Moment
) -> Procedure[Outcome]:
    """Patch the PodScheduled condition if it changed, with an event at most every 30 s. A bound pod
    is left alone, and so is one that gets what it waits for.
    """
    if intent.reason not in _REASONS:
        return outcome(
            intent, REFUSED, f"reason {intent.reason!r} is not one of {', '.join(_REASONS)}"
        )
    pod = local.view.pod(intent.pod.uid)
    if pod is not None and intent.reason in _TOLD:
        events.tell(local, intent.pod, intent.reason, intent.message, now)
        return outcome(intent, DONE)
    if pod is not None and intent.reason == WAITING and local.behind(pod.node):
        events.waiting(local, intent.pod, intent.message, now)  # of one that runs elsewhere
        return outcome(intent, DONE)
    early = unfit(pod, intent.pod, node="")
    if early is not None:
        return outcome(intent, *early)
    if (
        intent.reason == WAITING
    ):  # the bind may follow at once: no condition, which might come after it
        events.waiting(local, intent.pod, intent.message, now)
        return outcome(intent, DONE)
    if pod is not None and intent.tolerations:
        answer = yield from tolerate(pod, intent.tolerations)
        if answer.verdict != REFUSED:
            return outcome(intent, *answer)
        intent = replace(intent, message=f"{intent.message}; {answer.message}")
    last = local.reported.get(intent.pod.uid)
    if last is not None and _same(last, intent) and now.mono - last.written < REPEAT_S:
        return outcome(intent, DONE)
    since = last.since if last is not None else rfc3339(now.wall)
    verdict, problem = yield from _write(intent, since)
    if verdict == DONE:
        _remember(intent, last, since, local, now)
    return outcome(intent, verdict, problem)


def _same(last: Reported, intent: ReportUnschedulable) -> bool:
    nominated = intent.nominated_node in (None, last.nominated)
    return nominated and (last.reason, last.message) == (_reason(intent), intent.message)


def _reason(intent: ReportUnschedulable) -> str:
    return intent.reason if intent.nodes_help else NODES_DO_NOT_HELP


def _remember(
    intent: ReportUnschedulable, last: Reported | None, since: str, local: Local, now: Moment
) -> None:
    due = last is None or now.mono - last.evented >= EVENT_GAP_S
    if due:
        events.failed_scheduling(local, intent.pod, intent.message, now)
    evented = now.mono if due or last is None else last.evented
    nominated = intent.nominated_node
    if nominated is None:
        nominated = last.nominated if last is not None else ""
    local.reported.put(
        intent.pod.uid,
        Reported(_reason(intent), intent.message, now.mono, evented, since, nominated),
    )


def _write(intent: ReportUnschedulable, since: str) -> Procedure[tuple[str, str]]:
    request = _request(intent, since)
    problem = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok:
            return DONE, ""
        problem = error_text(response)
        if response.status == NOT_FOUND:
            return STALE, problem
        if not is_ambiguous(response):
            return REFUSED, problem
        if not response.unknown:
            look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
            if look.differs(intent.pod.uid):
                return STALE, f"pod {intent.pod.namespace}/{intent.pod.name} is gone"
    return UNKNOWN, problem


def _request(intent: ReportUnschedulable, since: str) -> Request:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": _reason(intent),
        "message": intent.message,
        "lastTransitionTime": since,
    }
    status: dict[str, object] = {"conditions": [condition]}
    if intent.nominated_node is not None:
        status["nominatedNodeName"] = intent.nominated_node or None  # null takes it away
    body = msgspec.json.encode({"metadata": {"uid": intent.pod.uid}, "status": status})
    return Request(
        "PATCH", pods.path(intent.pod.namespace, intent.pod.name, "status"), body, STRATEGIC_PATCH
    )
