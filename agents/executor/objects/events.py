"""Events (events.k8s.io/v1) about pods, and about DaemonSets, as `kubectl describe` shows them.

They are put into `Local.events` and written by the shell when it has time: an event is never worth
a late bind.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from shared.kube.http import Request
from shared.kube.times import rfc3339_micro
from shared.kube.verdicts import cut
from shared.messages import PodRef
from shared.model import names
from shared.model.delegate_events import DelegateEvent
from shared.model.pod import Pod

NORMAL = "Normal"
WARNING = "Warning"
CHANGE_REFUSED = "ChangeRefused"
STALE_COPY = "StaleCopy"
ON_PROXY_NODE = "OnProxyNode"
MAX_NOTE = 1024  # bytes, a limit of the API
DAEMON_SET = "DaemonSet"
_MAX_NAME = 253
_MAX_INSTANCE = 128
_ENCODE = msgspec.json.Encoder().encode


class _Named(msgspec.Struct, gc=False):
    name: str
    namespace: str


class _Regarding(msgspec.Struct, gc=False, rename="camel"):
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"
    kind: str = "Pod"


class _Event(msgspec.Struct, gc=False, rename="camel", kw_only=True):
    """events.k8s.io/v1 Event."""

    api_version: str = "events.k8s.io/v1"
    kind: str = "Event"
    metadata: _Named
    event_time: str
    reporting_controller: str = names.SCHEDULER_NAME
    reporting_instance: str
    action: str
    reason: str
    regarding: _Regarding
    note: str
    type: str


def scheduled(local: Local, ref: PodRef, where: str, now: Moment) -> None:
    """A pod got its place; `where` is cluster/node."""
    note = f"Successfully assigned {ref.namespace}/{ref.name} to {where}"
    _put(local, ref, (NORMAL, "Scheduled", "Binding"), note, now)


def failed_scheduling(local: Local, ref: PodRef, message: str, now: Moment) -> None:
    """A pod has no place; `message` says why."""
    _put(local, ref, (WARNING, "FailedScheduling", "Scheduling"), message, now)


def waiting(local: Local, ref: PodRef, message: str, now: Moment) -> None:
    """A pod has a place, and `message` says what holds it up."""
    _put(local, ref, (NORMAL, "Waiting", "Scheduling"), message, now)


def tell(local: Local, ref: PodRef, reason: str, message: str, now: Moment) -> None:
    """A pod has its place, and the dispatcher has something to say of that."""
    _put(local, ref, (NORMAL, reason, "Scheduling"), message, now)


def left_behind(local: Local, ref: PodRef, note: str, now: Moment) -> None:
    """`note`: what of a pod does not go along (`left_behind_note`)."""
    _put(local, ref, (NORMAL, "LeftBehind", "Scheduling"), note, now)


def left_behind_note(cluster: str, keys: Sequence[str], *, outlasts: bool) -> str:
    """Labels and annotations that do not go along to `cluster` by themselves; `keys` name them.
    `outlasts`: nor does a toleration by which the pod stays on a node that has failed. '' if none.
    """
    never = ", ".join(key for key in keys if names.is_reserved(key))
    if_listed = ", ".join(key for key in keys if not names.is_reserved(key))
    row = (
        f"cluster {cluster} takes these labels and annotations only if a row of its "
        "`executor.accept` lists them in"
    )
    told = f"{row} `annotations`: {if_listed}" if if_listed else ""
    reserved = f"no other cluster takes these, of Kubernetes' own domains: {never}" if never else ""
    keyless = (
        f"cluster {cluster} takes a toleration without a key only if a row of its "
        '`executor.accept` has "*" in '
        "`tolerations`: else the pod is evicted there when its node fails"
    )
    note = "; ".join(filter(None, (told, reserved, keyless if outlasts else "")))
    return cut(note, MAX_NOTE)


def optional_secrets(
    local: Local, ref: PodRef, cluster: str, secrets: Sequence[str], now: Moment
) -> None:
    """Secrets without which a pod runs in `cluster`, if that lacks them: of Secrets nobody looks."""
    note = (
        f"nobody looks whether cluster {cluster} has these Secrets, which are optional: without "
        "them the pod runs "
        f"there all the same (make them there, too, or remove `optional`): {', '.join(secrets)}"
    )
    _put(local, ref, (NORMAL, "OptionalSecret", "Scheduling"), note, now)


def altered(local: Local, ref: PodRef, fields: str, now: Moment) -> None:
    """Admission of this cluster has changed a delegate; its owner hears of it at home."""
    note = (
        f"Not as at home: admission of cluster {local.cluster} (a webhook, policy or LimitRange) "
        f"has set {fields}"
    )
    _put(local, ref, (WARNING, "AlteredByAdmission", "Creating"), note, now)


def other_services(local: Local, ref: PodRef, which: str, now: Moment) -> None:
    """A delegate calls Services that are not those of its home; its owner hears of it there."""
    note = f"Services of cluster {local.cluster} in place of those at home: {which}"
    _put(local, ref, (WARNING, "OtherServices", "Creating"), note, now)


def not_carried(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """A change of a source does not reach its delegate; its owner hears of it at home."""
    note = f"A change of the pod is not made in cluster {local.cluster}: {why}"
    _put(local, ref, (WARNING, CHANGE_REFUSED, "Updating"), note, now)


def stale_copy(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """What a delegate reads is, or was, not as at home; its owner hears of it there."""
    note = f"Not as at home: the copy in cluster {local.cluster} {why}"
    _put(local, ref, (WARNING, STALE_COPY, "Updating"), note, now)


def preempted(local: Local, ref: PodRef, preemptor: str, node: str, now: Moment) -> None:
    """A pod was evicted for one of higher priority; `preemptor` names that one."""
    note = f"Preempted by pod {preemptor or 'of higher priority'} on node {node}"
    _put(local, ref, (NORMAL, "Preempted", "Preempting"), note, now)


def moved(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """A pod was evicted so that it is placed anew; `why` says for what."""
    _put(
        local, ref, (NORMAL, "Rebalanced", "Rebalancing"), f"Evicted to be placed anew: {why}", now
    )


def reclaimed(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """A pod was evicted as its tenant gives back what it has borrowed."""
    _put(local, ref, (NORMAL, "Reclaimed", "Reclaiming"), f"Evicted to give back quota {why}", now)


def not_started(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """A delegate that never started is deleted, so that its source is placed anew."""
    _put(local, ref, (WARNING, "NotStarted", "Stopping"), f"Deleted to be placed anew: {why}", now)


def lease_lapsed(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """A delegate of failover mode `lease` is stopped."""
    note = f"{why}: this pod is stopped, since the cluster of its source may replace it now"
    _put(local, ref, (WARNING, "LeaseLapsed", "Stopping"), note, now)


def failover(local: Local, ref: PodRef, text: str, now: Moment) -> None:
    """What becomes of a pod whose cluster is lost."""
    _put(local, ref, (WARNING, "ClusterLost", "Failover"), text, now)


def budgets_not_kept(local: Local, ref: PodRef, why: str, now: Moment) -> None:
    """Some PodDisruptionBudgets of a pod that runs in another cluster do not protect it there."""
    _put(local, ref, (WARNING, "BudgetsNotKept", "Disruption"), why, now)


def foreign_scheduler(local: Local, ref: PodRef, scheduler: str, now: Moment) -> None:
    """A pod asks for us by annotation but names another scheduler: it is left alone, and the user
    is told.
    """
    note = (
        f'annotation {names.SCHEDULE} is "true" but spec.schedulerName is "{scheduler}", so this '
        "pod is left "
        f'to that scheduler; set spec.schedulerName to "{names.SCHEDULER_NAME}" or remove the '
        "annotation"
    )
    _put(local, ref, (WARNING, "OtherScheduler", "Scheduling"), note, now)


def invalid_annotation(local: Local, ref: PodRef, reason: str, text: str, now: Moment) -> None:
    """Something on a pod means nothing, or not what its owner takes it for; `text` names it and the
    fix.
    """
    _put(local, ref, (WARNING, reason, "Scheduling"), text, now)


def of_delegate(
    local: Local, ref: PodRef, cluster: str, happened: DelegateEvent, now: Moment
) -> int:
    """What was told of the delegate in its own cluster; how many bytes that has."""
    times = f" (at least {happened.count} times)" if happened.count > 1 else ""
    note = f"in cluster {cluster}{times}: {happened.message or 'no message'}"
    type_ = NORMAL if happened.normal else WARNING
    return _put(local, ref, (type_, happened.reason or "Unknown", "Running"), note, now)


def on_proxy_node(local: Local, pod: Pod, cluster: str, now: Moment) -> None:
    """Not the dispatcher has put a pod onto a proxy node. That of a DaemonSet would come again: so
    that is told.
    """
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    affinity = (
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
        "give"
        f" each term the requirement {{key: {names.PROXY_LABEL}, operator: DoesNotExist}}"
    )
    why = f"node {pod.node} stands for cluster {cluster} and runs no pods of other schedulers"
    fix = f"delete it, and set spec.{affinity}"
    if names.is_ours(pod.scheduler_name):
        why = (
            f"node {pod.node} stands for cluster {cluster} and runs only pods that the dispatcher "
            "sends there"
        )
        fix = (
            f'make it anew without spec.nodeName; annotation {names.CLUSTERS}: "{cluster}" asks '
            "for that cluster"
        )
    about = None
    owner, _, uid = pod.owner.rpartition("/")
    kind, _, name = owner.partition("/")
    if kind == DAEMON_SET:
        why = f"pod {pod.name} never runs, and holds up a roll-out: {why}"
        fix = (
            f"set spec.template.spec.{affinity} (`global-dispatcher doctor --config FILE` shows "
            "the patch)"
        )
        about = _Regarding(pod.namespace, name, uid, "apps/v1", kind)
    _put(local, ref, (WARNING, ON_PROXY_NODE, "Scheduling"), f"{why}: {fix}", now, about)


@lru_cache(maxsize=1024)
def _path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(namespace, safe='')}/events"


def _put(
    local: Local,
    ref: PodRef,
    kind: tuple[str, str, str],
    note: str,
    now: Moment,
    regarding: _Regarding | None = None,
) -> int:
    """`regarding`: None for the pod. How many bytes it has."""
    type_, reason, action = kind
    time = rfc3339_micro(now.wall)
    digest = hashlib.sha256(
        f"{ref.uid}/{reason}/{time}/{note}".encode("utf-8", "replace")
    ).hexdigest()[:16]
    event = _Event(
        metadata=_Named(f"{ref.name[: _MAX_NAME - 17]}.{digest}", ref.namespace),
        event_time=time,
        reporting_instance=f"{names.SCHEDULER_NAME}-{local.cluster}"[:_MAX_INSTANCE],
        action=action,
        reason=reason,
        regarding=regarding or _Regarding(ref.namespace, ref.name, ref.uid),
        note=cut(note, MAX_NOTE),
        type=type_,
    )
    body = _ENCODE(event)
    local.events.append(Request("POST", _path(ref.namespace), body))
    return len(body)
