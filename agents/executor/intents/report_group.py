"""ReportGroup: the condition of a PodGroup that tells its owner, and whoever made it for him,
whether its pods have their places.

The condition is kube-scheduler's (pkg/scheduler/schedule_one_podgroup.go of 1.37): False with the
reason Unschedulable or SchedulerError, True with the reason Scheduled, and once True for ever. One
that is evicted as a whole has DisruptionTarget, the type and reason of its API, which nobody has to
take back: pods that are made anew in it have their own.
"""

from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment, ReportedGroup
from agents.executor.objects.reads import Metadata
from agents.executor.objects.rewrite import Patch, missing, rewrite
from shared.kube.http import Procedure
from shared.kube.times import rfc3339
from shared.kube.verdicts import Answer, cut, outcome
from shared.messages import (
    DONE,
    PREEMPTED,
    REFUSED,
    SCHEDULER_ERROR,
    STALE,
    UNSCHEDULABLE,
    Outcome,
    ReportGroup,
)
from shared.model.group_kinds import POD_GROUPS, VERSIONS

REPEAT_S = 300.0  # an unchanged report is written again after this long
SCHEDULED = "Scheduled"
MAX_MESSAGE = 1024
_REASONS = (UNSCHEDULABLE, SCHEDULER_ERROR, PREEMPTED)
_DISRUPTED = "DisruptionTarget"
_TYPE = "PodGroupInitiallyScheduled"
_TYPE_OF = {"v1alpha2": "PodGroupScheduled"}  # renamed with 1.37


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] | None = None


class _PodGroup(msgspec.Struct):
    """A PodGroup, as far as it decides whether its status is written."""

    metadata: Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_read = msgspec.json.Decoder(_PodGroup).decode


def report_group(intent: ReportGroup, local: Local, now: Moment) -> Procedure[Outcome]:
    """Write the condition of the group if it changed, at the version of the API that is served."""
    if not intent.scheduled and intent.reason not in _REASONS:
        return outcome(
            intent, REFUSED, f"reason {intent.reason!r} is not one of {', '.join(_REASONS)}"
        )
    why = _no_member(intent, local)
    if why:
        return outcome(intent, STALE, why)
    told = _told(intent, now)
    about = f"{intent.group_uid}/{intent.reason == PREEMPTED}"
    last = local.reported_groups.get(about)
    if last is not None and _holds(last, told):
        return outcome(intent, DONE)
    answer = yield from _write(intent, local, told, now)
    if answer.verdict == DONE:
        local.reported_groups.put(about, told)
    return outcome(intent, *answer)


def _no_member(intent: ReportGroup, local: Local) -> str:
    """Why the pod, as it is seen here, is no member of that group: it leads to the namespace that
    is written to, so that no order writes beyond what a pod of ours has named.
    """
    ref = intent.pod
    pod = local.view.pod(ref.uid)
    if pod is None or (pod.namespace, pod.name) != (ref.namespace, ref.name):
        return f"pod {ref.namespace}/{ref.name} with UID {ref.uid} is not there"
    group = pod.group
    if pod.source is not None or group is None or group.kind != POD_GROUPS:
        return f"pod {pod.key} names no PodGroup here"
    if group.name != intent.group or group.uid not in ("", intent.group_uid):
        return f'pod {pod.key} is of PodGroup "{group.name}"'
    return ""


def _told(intent: ReportGroup, now: Moment) -> ReportedGroup:
    reason = SCHEDULED if intent.scheduled else intent.reason
    return ReportedGroup(intent.scheduled, reason, cut(intent.message, MAX_MESSAGE), now.mono)


def _holds(last: ReportedGroup, told: ReportedGroup) -> bool:
    """Whether what was written last says it all: that it was scheduled is never taken back."""
    same = last._replace(written=0.0) == told._replace(written=0.0)
    return last.scheduled or (same and told.written - last.written < REPEAT_S)


def _write(
    intent: ReportGroup, local: Local, told: ReportedGroup, now: Moment
) -> Procedure[Answer]:
    """A version that is not served, and one that has no such group, are both 404: the others are
    asked, and the one that answered last comes first.
    """
    what = f'podgroup "{intent.group}"'
    first = (local.group_version,) if local.group_version else ()
    answer = missing(what)
    for version in dict.fromkeys((*first, *VERSIONS)):
        path = (
            f"/apis/scheduling.k8s.io/{version}/namespaces/{quote(intent.pod.namespace, safe='')}"
            f"/podgroups/{quote(intent.group, safe='')}"
        )
        kind = _DISRUPTED if told.reason == PREEMPTED else _TYPE_OF.get(version, _TYPE)
        decide = partial(_decided, uid=intent.group_uid, kind=kind, told=told, now=now)
        answer = yield from rewrite(path, what, _read, decide, "status")
        if answer != missing(what):
            local.group_version = version if answer.verdict == DONE else local.group_version
            break
    return answer


def _decided(
    group: _PodGroup, uid: str, kind: str, told: ReportedGroup, now: Moment
) -> Answer | Patch:
    if group.metadata.uid != uid or group.metadata.deletion_timestamp is not None:
        return Answer(STALE, f'podgroup "{group.metadata.name}" was replaced or is being deleted')
    conditions = group.status.conditions or []
    before = next((one for one in conditions if one.get("type") == kind), {})
    status = "True" if told.scheduled or kind == _DISRUPTED else "False"
    same = before.get("status") == status
    if (before.get("status") == "True" and kind != _DISRUPTED) or (
        same and (before.get("reason"), before.get("message")) == (told.reason, told.message)
    ):
        return Answer(DONE)
    since = before.get("lastTransitionTime") if same else None
    written = {
        "type": kind,
        "status": status,
        "reason": told.reason,
        "message": told.message,
        "lastTransitionTime": since or rfc3339(now.wall),
    }
    others = [one for one in conditions if one.get("type") != kind]
    return {"status": {"conditions": [*others, written]}}
