"""Jobs as arithmetic: which pods to make, count and delete, and what the status says.

Each pod is counted exactly once, also across a crash, in kube-controller-manager's way: a tracking
finalizer keeps an ended pod until its uid stands in status.uncountedTerminatedPods; only when the
finalizer is off is it counted. The condition that ends a Job comes when all its pods have ended and
are counted; before, SuccessCriteriaMet or FailureTarget says what it will be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from localfleet.embedded.meta import (
    Object,
    condition,
    is_finished,
    is_ready,
    is_terminating,
    seconds,
    stamp,
    with_condition,
)

TRACKING = "batch.kubernetes.io/job-tracking"
_LONGEST_BACKOFF_S = 360.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a Job has ended: the condition's type, reason and message."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How many pods have ended, those counted and those (by uid) still to be counted."""

    succeeded: int
    failed: int
    waiting_succeeded: tuple[str, ...]
    waiting_failed: tuple[str, ...]

    @property
    def all_succeeded(self) -> int:
        """Succeeded pods, counted or not."""
        return self.succeeded + len(self.waiting_succeeded)

    @property
    def all_failed(self) -> int:
        """Failed pods, counted or not."""
        return self.failed + len(self.waiting_failed)


@dataclass(frozen=True, slots=True)
class Plan:
    """Write `status`, then take the tracking finalizer off `release`, delete `delete`, make
    `create` pods.
    """

    status: Object
    create: int = 0
    delete: list[Object] = field(default_factory=list)
    release: list[Object] = field(default_factory=list)
    again_s: float | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A Job, the pods it controls, and which of them are neither ended nor going, at one moment."""

    job: Object
    pods: Sequence[Object]
    active: list[Object]
    tally: Tally
    now: float


def plan(job: Object, pods: Sequence[Object], now: float, backoff_s: float) -> Plan:
    """Compare the pods that `job` controls with what it wants. `backoff_s`: pause after the first
    failure.
    """
    active = [pod for pod in pods if not is_finished(pod) and not is_terminating(pod)]
    view = View(job, pods, active, count(job, pods), now)
    done = finish_time(job)
    if done is not None:
        return _wind_up(view, done)
    verdict = judge(view)
    if verdict is not None:
        return Plan(
            _conclude(_status(view, 0), verdict, now, last=_settled(view)),
            0,
            active,
            _countable(view),
        )
    return _carry_on(view, backoff_s)


def _settled(view: View) -> bool:
    waiting = view.tally.waiting_succeeded or view.tally.waiting_failed
    return not waiting and all(is_finished(pod) for pod in view.pods)


def _wind_up(view: View, done: float) -> Plan:
    ttl = view.job["spec"].get("ttlSecondsAfterFinished")
    left = None if ttl is None else done + float(ttl) - view.now
    rest = [pod for pod in view.pods if tracked(pod)]
    return Plan(
        _status(view, 0), 0, view.active, rest, left, expired=left is not None and left <= 0
    )


def _carry_on(view: View, backoff_s: float) -> Plan:
    suspended = bool(view.job["spec"].get("suspend"))
    active = view.active
    wanted = 0 if suspended else wanted_active(view.job, view.tally)
    surplus = sorted(active, key=_keep_rank)[: max(0, len(active) - wanted)]
    pause = 0.0 if len(active) >= wanted else backoff_left(view, backoff_s)
    create = 0 if pause else max(0, wanted - len(active))
    waits = [
        wait for wait in (_deadline_left(view.job, view.now), pause or None) if wait is not None
    ]
    status = _suspend(_status(view, len(active) + create - len(surplus)), suspended, view.now)
    return Plan(status, create, surplus, _countable(view), min(waits, default=None))


def _countable(view: View) -> list[Object]:
    waiting = {*view.tally.waiting_succeeded, *view.tally.waiting_failed}
    return [pod for pod in view.pods if tracked(pod) and pod["metadata"]["uid"] in waiting]


def tracked(pod: Object) -> bool:
    """Whether the pod waits to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def count(job: Object, pods: Sequence[Object]) -> Tally:
    """Move what is no longer tracked into the counts, and put what has newly ended on the waiting
    lists.

    A pod that is deleted before it ended counts as failed.
    """
    status = job.get("status") or {}
    waiting = status.get("uncountedTerminatedPods") or {}
    held = {pod["metadata"]["uid"] for pod in pods if tracked(pod)}
    before_s = list(waiting.get("succeeded") or ())
    before_f = list(waiting.get("failed") or ())
    known = {*before_s, *before_f}
    new = [pod for pod in pods if tracked(pod) and pod["metadata"]["uid"] not in known]
    new_s = [pod["metadata"]["uid"] for pod in new if _phase(pod) == "Succeeded"]
    new_f = [pod["metadata"]["uid"] for pod in new if _has_failed(pod)]
    return Tally(
        int(status.get("succeeded", 0)) + sum(uid not in held for uid in before_s),
        int(status.get("failed", 0)) + sum(uid not in held for uid in before_f),
        (*(uid for uid in before_s if uid in held), *new_s),
        (*(uid for uid in before_f if uid in held), *new_f),
    )


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _has_failed(pod: Object) -> bool:
    return _phase(pod) == "Failed" or (is_terminating(pod) and _phase(pod) != "Succeeded")


def wanted_active(job: Object, tally: Tally) -> int:
    """How many pods shall run at once."""
    parallelism = _number(job, "parallelism", 1)
    completions = job["spec"].get("completions")
    if completions is None:
        # A work queue: once one pod has succeeded no new one is started.
        return parallelism if tally.all_succeeded == 0 else 0
    return min(parallelism, max(0, int(completions) - tally.all_succeeded))


def _number(job: Object, key: str, default: int) -> int:
    value = job["spec"].get(key)
    return default if value is None else int(value)


def judge(view: View) -> Verdict | None:
    """Whether the Job has ended, and how."""
    job = view.job
    tally = view.tally
    active = view.active
    limit = _number(job, "backoffLimit", 6)
    if tally.all_failed > limit or _restarted_too_often(job, active, limit):
        return Verdict(
            "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    left = _deadline_left(job, view.now)
    if left is not None and left <= 0:
        return Verdict(
            "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        )
    completions = job["spec"].get("completions")
    if completions is None:
        complete = tally.all_succeeded > 0 and not active
    else:
        complete = tally.all_succeeded >= int(completions)
    return (
        Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if complete
        else None
    )


def _restarted_too_often(job: Object, active: Sequence[Object], limit: int) -> bool:
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    entries = (
        entry for pod in active for entry in pod.get("status", {}).get("containerStatuses") or ()
    )
    restarts = sum(int(entry.get("restartCount", 0)) for entry in entries)
    return restarts > 0 if limit == 0 else restarts >= limit


def _deadline_left(job: Object, now: float) -> float | None:
    limit = job["spec"].get("activeDeadlineSeconds")
    began = (job.get("status") or {}).get("startTime")
    if limit is None or job["spec"].get("suspend"):
        return None
    return float(limit) if not began else seconds(began) + float(limit) - now


def backoff_left(view: View, first_s: float) -> float:
    """Seconds until a pod may be made again: first_s, doubled with each failure, after the last
    one.
    """
    failed = view.tally.all_failed
    if not failed or not first_s:
        return 0.0
    last = max((_ended_at(pod) for pod in view.pods if _phase(pod) == "Failed"), default=0.0)
    pause = min(first_s * 2.0 ** min(failed - 1, 16), _LONGEST_BACKOFF_S)
    return max(0.0, last + pause - view.now)


def _ended_at(pod: Object) -> float:
    entries = pod.get("status", {}).get("containerStatuses") or ()
    ends = [
        seconds((entry.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for entry in entries
    ]
    return max(ends, default=0.0) or seconds(condition(pod, "Ready").get("lastTransitionTime"))


def _keep_rank(pod: Object) -> tuple[object, ...]:
    age = seconds(pod["metadata"].get("creationTimestamp"))
    return (
        bool(pod["spec"].get("nodeName")),
        _phase(pod) == "Running",
        is_ready(pod),
        -age,
        pod["metadata"]["name"],
    )


def finish_time(job: Object) -> float | None:
    """When the Job ended (unix seconds), None while it has not."""
    ends = [condition(job, kind) for kind in ("Complete", "Failed")]
    return next(
        (seconds(end.get("lastTransitionTime")) for end in ends if end["status"] == "True"), None
    )


def _status(view: View, active: int) -> Object:
    job = view.job
    tally = view.tally
    waiting = {"succeeded": list(tally.waiting_succeeded), "failed": list(tally.waiting_failed)}
    counts = {"active": active, "succeeded": tally.succeeded, "failed": tally.failed}
    status = {key: value for key, value in (job.get("status") or {}).items() if key not in counts}
    if not job["spec"].get("suspend"):
        status.setdefault("startTime", stamp(view.now))
    status |= {key: value for key, value in counts.items() if value}
    status["ready"] = sum(map(is_ready, view.active))
    status["terminating"] = sum(is_terminating(pod) and not is_finished(pod) for pod in view.pods)
    status["uncountedTerminatedPods"] = {key: uids for key, uids in waiting.items() if uids}
    return status


def _conclude(status: Object, verdict: Verdict, now: float, *, last: bool) -> Object:
    conditions = status.get("conditions") or []
    criterion = "SuccessCriteriaMet" if verdict.kind == "Complete" else "FailureTarget"
    for kind in (criterion, verdict.kind) if last else (criterion,):
        entry = {
            "type": kind,
            "status": "True",
            "reason": verdict.reason,
            "message": verdict.message,
        }
        entry["lastProbeTime"] = stamp(now)
        conditions = with_condition(conditions, entry, now)
    end = {"completionTime": stamp(now)} if verdict.kind == "Complete" and last else {}
    return {**status, **end, "conditions": conditions}


def _suspend(status: Object, suspended: bool, now: float) -> Object:
    conditions = status.get("conditions") or []
    known = any(entry["type"] == "Suspended" for entry in conditions)
    if not suspended and not known:
        return status
    reason, message = (
        ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    )
    entry = {"type": "Suspended", "status": str(suspended), "reason": reason, "message": message}
    kept = {key: value for key, value in status.items() if not (suspended and key == "startTime")}
    return {**kept, "conditions": with_condition(conditions, entry, now)}
