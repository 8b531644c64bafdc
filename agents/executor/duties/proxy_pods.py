"""Reconciles the pods on proxy nodes, which have no kubelet, without an intent of the dispatcher.

- One that is being deleted and that we do not hold is let go: a source pod that has a delegate
  carries our finalizer and is not meant.
- One whose cluster is lost is set not Ready, so that its address leaves the endpoints; the rest of
  its status is kept, for it may be running. When the cluster is back, its delegate's status is
  mirrored again.
- One that a scheduler of others put there never runs, and counts nowhere: an event says so, on its
  DaemonSet if it has one. Nothing is written onto it. So it is with one of ours whose
  `spec.nodeName` its maker has set.
- One that must not be replaced while its cluster is lost gets unlimited tolerations
  (`failover_mode.py`) in time. One of mode `lease` loses them when its delegate has certainly been
  stopped by the executor there (`lease_expiry.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter, itemgetter
from typing import TypeVar

import msgspec

from agents.executor.context import failover_mode
from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.objects import events, pods
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import LivePod
from agents.executor.trust.peers import is_proxy
from shared.kube.http import MERGE_PATCH, STRATEGIC_PATCH, Procedure, Request
from shared.kube.times import rfc3339
from shared.kube.verdicts import CONFLICT, NOT_FOUND, error_text, is_ambiguous
from shared.messages import PodRef
from shared.model import leases, names
from shared.model.leases import LEASE
from shared.model.pod import PENDING, Pod

T = TypeVar("T")
FREED_AT_ONCE = 20  # pods that may be replaced from now on, at each look: once a second
TOLD_AT_ONCE = 5  # events about pods of others, at each look
TELL_AGAIN_S = 3600.0  # API servers keep events for so long


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """Tasks that are due now, named by the pod's UID; deletions and readiness, on which Services
    rest, come first.
    """
    later: list[Pod] = []
    misplaced: list[tuple[Pod, str]] = []
    for node in tuple(local.view.nodes()):
        if not is_proxy(node):
            continue
        away = local.peers.lost(node.name)
        for pod in tuple(local.view.pods_on(node.name)):
            if pod.terminating and not pod.has_finalizer:
                yield _duty(pod, _let_go(_ref(pod)))
            elif not names.is_ours(pod.scheduler_name) or _put_there_by_hand(pod):
                misplaced.append((pod, node.proxy_for))
            elif away and pod.ready and not pod.terminal:
                yield _duty(pod, _set_not_ready(pod, local.view.pod_version(pod.uid), local, now))
            elif _wants_tolerations(pod, local):
                later.append(pod)
    _tell_misplaced(misplaced, local, now)
    kept = list[Pod]()
    freed = list[Pod]()
    for pod in later:
        (kept if _mode(pod, pod.failover, local) == failover_mode.STRICT else freed).append(pod)
    yield from (
        _duty(pod, _tolerate(pod, local, now))
        for pod in (*kept, *_in_turns(freed, attrgetter("namespace"), FREED_AT_ONCE))
    )


def _tell_misplaced(found: list[tuple[Pod, str]], local: Local, now: Moment) -> None:
    """Once an hour for each that has pods of others there: a DaemonSet, or a pod that is of none."""
    due = dict[str, tuple[Pod, str]]()
    for pod, cluster in found:
        # Anybody may name any DaemonSet as the owner of his pods: it tells of pods of its own
        # namespace alone.
        of_daemon_set = pod.owner.startswith(f"{events.DAEMON_SET}/")
        whose = f"{pod.namespace}/{pod.owner}" if of_daemon_set else pod.uid
        last = local.misplaced.get(whose)
        if last is None or now.mono - last >= TELL_AGAIN_S:
            due.setdefault(whose, (pod, cluster))
    for whose, (pod, cluster) in _in_turns(
        due.items(), lambda one: one[1][0].namespace, TOLD_AT_ONCE
    ):
        events.on_proxy_node(local, pod, cluster, now)
        local.misplaced.put(whose, now.mono)


def _in_turns(found: Iterable[T], namespace_of: Callable[[T], str], most: int) -> list[T]:
    """So many of them, of each namespace as many as of any other: whoever has many, or some that
    cannot be written, keeps none of another namespace waiting.
    """
    lanes: dict[str, list[T]] = {}
    for one in found:
        lanes.setdefault(namespace_of(one), []).append(one)
    turns = (
        (turn, at, one)
        for at, lane in enumerate(lanes.values())
        for turn, one in enumerate(lane[:most])
    )
    return [one for _, _, one in nsmallest(most, turns, key=itemgetter(0, 1))]


def _put_there_by_hand(pod: Pod) -> bool:
    """Whether a pod of ours was never sent away: the dispatcher's have our marks before they are
    bound.
    """
    return pod.phase == PENDING and pod.claim is None and not pod.has_finalizer


def _duty(pod: Pod, procedure: Procedure[str]) -> ReconcileTask:
    return ReconcileTask(pod.uid, pod.namespace, procedure)


def _ref(pod: Pod) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _let_go(ref: PodRef) -> Procedure[str]:
    answer = yield from delete_exactly(ref, 0)
    return answer.message


def _set_not_ready(pod: Pod, version: str, local: Local, now: Moment) -> Procedure[str]:
    """Set the Ready condition to False, as the node controller does for a lost node; without a
    reason, which the merge would keep when the pod is Ready again.
    """
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(now.wall)}
    # A view that lags gets 409 and comes again: what was mirrored meanwhile is newer than what it
    # shows.
    metadata = {"uid": pod.uid, **({"resourceVersion": version} if version else {})}
    body = msgspec.json.encode({"metadata": metadata, "status": {"conditions": [condition]}})
    path = pods.path(pod.namespace, pod.name, "status")
    response = yield Request("PATCH", path, body, STRATEGIC_PATCH)
    if response.ok and pod.failover == LEASE:
        _tell(pod, local, now)
    if response.ok or response.status in (NOT_FOUND, CONFLICT):
        return ""
    return f"pod {pod.key} of a lost cluster cannot be set not Ready: {error_text(response)}"


def _wants_tolerations(pod: Pod, local: Local) -> bool:
    """Whether a source pod that another cluster runs would be deleted too early if that cluster
    were lost, or never.
    """
    ours = pod.has_finalizer and not (pod.terminating or pod.terminal)
    return ours and not failover_mode.stays(_mode(pod, pod.failover, local), pod.tolerations)


def _mode(pod: Pod, failover: str, local: Local) -> str:
    mode = failover_mode.mode_of(
        failover, stopped=local.peers.stopped_in(pod.node, pod.grace_s) == 0
    )
    # Asked of every remote pod at each look: all peers are looked through only for the few that are
    # not strict.
    return (
        failover_mode.STRICT if mode != failover_mode.STRICT and local.peers.too_many_lost else mode
    )


def _failover(pod: LivePod, local: Local) -> str:
    """As Pod.failover, of the pod as just read from the API server."""
    said = pod.annotations.get(names.FAILOVER, "")
    signed = pod.claimed(local.keys.public)
    return "" if said == LEASE and (signed is None or signed.failover != LEASE) else said


def _tell(pod: Pod, local: Local, now: Moment) -> None:
    cluster = local.behind(pod.node)
    events.failover(
        local,
        _ref(pod),
        leases.failover_text(cluster, local.peers.stopped_in(pod.node, pod.grace_s)),
        now,
    )


class _Spec(msgspec.Struct):
    tolerations: list[dict[str, object]] | None = None


class _Tolerating(msgspec.Struct):
    spec: _Spec


def _tolerate(pod: Pod, local: Local, now: Moment) -> Procedure[str]:
    ref = _ref(pod)
    look = yield from pods.look_up(ref.namespace, ref.name)
    if look.differs(ref.uid):
        return ""
    if look.pod is None:
        return look.problem
    current = msgspec.json.decode(look.body, type=_Tolerating).spec.tolerations or []
    failover = _failover(look.pod, local)
    mode = _mode(pod, failover, local)
    wanted = failover_mode.tolerations_for(mode, current)
    if wanted == current:
        return ""
    guard = {"uid": ref.uid, "resourceVersion": look.pod.metadata.resource_version}
    body = msgspec.json.encode({"metadata": guard, "spec": {"tolerations": wanted}})
    response = yield Request("PATCH", pods.path(ref.namespace, ref.name), body, MERGE_PATCH)
    if response.ok and failover == LEASE and mode == failover_mode.ASAP:
        _tell(pod, local, now)
    if response.ok or is_ambiguous(response) or response.status == NOT_FOUND:
        return ""  # done, or looked at again at the next view
    what = (
        "be replaced 300 s after its cluster is lost"
        if mode == failover_mode.STRICT
        else "never be replaced"
    )
    return f"pod {ref.namespace}/{ref.name} would {what}: {error_text(response)}"
