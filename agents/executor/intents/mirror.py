"""MirrorStatus: the delegate's status, written onto the source pod that is bound to a proxy node.

Each write names the version it builds on, so that a write that was lost on its way and lands late
meets a newer version and changes nothing: a pod that has ended stays ended. PodScheduled, but for
its generation, and conditions of others on the source are kept (strategic merge by type).
Addresses, of the pod and of its node, are mirrored only where the network is the delegate's, too:
elsewhere a Service would lead to whoever has them at home. Nor those that no EndpointSlice takes
(loopback, link-local): with one of them its controller writes none of the Service's other
endpoints, either.

Generations are counted by each API server for itself. Where the order says which of the source's is
the one that the delegate's kubelet has seen, that is shown, of the status and of each condition
that is of the same one there; else what was shown stays, which is an earlier one.

Who writes statuses in the target must not fill this cluster's etcd, each version of which has the
whole pod: a status has a bounded size (`status_size`), and a pod, and all pods in one other
cluster, a rate of bytes. Ends pass it.
"""

import hashlib
from typing import Any

import msgspec

from agents.executor.bounds.byte_budget import ALL_BUT_KEPT, OF_NAMESPACE
from agents.executor.context.local import Local, Mirrored, Moment
from agents.executor.context.relayed_events import ToldEvents
from agents.executor.crossing import live, status_size
from agents.executor.objects import events, pods
from agents.executor.objects.pods import Lookup
from agents.executor.objects.service_content import is_unicast
from shared.kube.http import STRATEGIC_PATCH, Procedure, Request, Response
from shared.kube.verdicts import NOT_FOUND, TRIES, Answer, error_text, is_ambiguous, outcome
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, MirrorStatus, Outcome, PodRef
from shared.model.delegate_events import all_events_of
from shared.model.names import CARRIES
from shared.model.pod import FAILED, PENDING, RUNNING, SUCCEEDED, TERMINAL

Object = dict[str, Any]

_PHASES = frozenset((PENDING, RUNNING, SUCCEEDED, FAILED))
_COPIED = (
    "phase",
    "reason",
    "message",
    "startTime",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
)
# What a resize in place shows: servers that know none have neither.
_RESIZED = ("resources", "allocatedResources")
_RESIZING = ("PodResizePending", "PodResizeInProgress")
_ADDRESSED = (("podIP", "podIPs"), ("hostIP", "hostIPs"))
_ADDRESSES = 8
_ENDED = "the pod has ended: its phase is final"


def mirror_status(intent: MirrorStatus, local: Local, now: Moment) -> Procedure[Outcome]:
    """Patch the source's status; no request if it has ended or shows this status already.

    A refusal makes a Warning event StatusNotMirrored on the source, once for each cause. Events
    that come with the status of the delegate become events of the source; those that are normal as
    long as statuses may be written, from whose bytes they are taken.
    """
    _tell_events(intent, local, now)
    result = yield from _mirror(intent, local, now)
    if result.verdict == DONE:
        local.refused.drop(intent.pod.uid)
    elif result.verdict == REFUSED and local.refused.get(intent.pod.uid) != result.message:
        local.refused.put(intent.pod.uid, result.message)
        events.invalid_annotation(local, intent.pod, "StatusNotMirrored", result.message, now)
    return result


def _tell_events(intent: MirrorStatus, local: Local, now: Moment) -> None:
    uid = intent.pod.uid
    pod = local.view.pod(uid)
    if pod is None:
        local.told_events.drop(uid)
        return
    cluster = local.behind(pod.node)
    happened = all_events_of(intent.status) if cluster else []
    if not happened:
        return
    told = local.told_events.get(uid) or ToldEvents()
    namespace = intent.pod.namespace
    room = local.events.has_room and not local.status_bytes.spent(cluster, namespace, now.mono)
    for one in told.new(happened, now.mono, now.wall, normal=room):
        size = events.of_delegate(local, intent.pod, cluster, one, now)
        if one.normal:
            local.status_bytes.spend(cluster, namespace, now.mono, size)
    local.told_events.put(uid, told)


def _too_fast(ref: PodRef, target: str, local: Local, now: Moment) -> str:
    """Why the status is not written now, '' if it may be; the same text each time, as it makes an
    event.
    """
    if local.status_bytes_of_pod.wait_s(ref.uid, now.mono):
        return (
            f"the status of pod {ref.namespace}/{ref.name} changes too often in cluster "
            f"{target!r} for its size: it is "
            "written more seldom here"
        )
    spent = local.status_bytes.spent(target, ref.namespace, now.mono)
    whose = f" of namespace {ref.namespace}" if spent in (OF_NAMESPACE, ALL_BUT_KEPT) else ""
    if not spent:
        return ""
    return (
        f"the statuses of pods{whose} in cluster {target!r} change too often for their size: they "
        "are written more "
        "seldom"
    )


def _mirror(intent: MirrorStatus, local: Local, now: Moment) -> Procedure[Outcome]:
    name = f"pod {intent.pod.namespace}/{intent.pod.name}"
    try:
        phase, ready, patch = _translate(intent)
    except (
        msgspec.MsgspecError,
        TypeError,
        AttributeError,
        KeyError,
        ValueError,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__}: {error}"
        return outcome(
            intent, REFUSED, f"the status of the delegate of {name} cannot be read: {why}"
        )
    pod = local.view.pod(intent.pod.uid)
    last = local.mirrored.get(intent.pod.uid)
    if pod is None:
        return outcome(intent, STALE, f"{name} is gone")
    if pod.terminal:
        return outcome(intent, DONE, _ENDED)
    if last is not None and last.phase in TERMINAL:
        last = None  # the view lags, or the server has lost the end: only a look tells
    marks = {"annotations": {CARRIES: ",".join(live.known(intent.carries)) or None}}
    digest = hashlib.sha256(patch + msgspec.json.encode(marks)).digest()
    if last is not None and last.digest == digest and (pod.phase, pod.ready) == (phase, ready):
        return outcome(intent, DONE)
    target = local.behind(pod.node)
    if not target:
        last = None  # only a look tells where the pod is
    if phase not in TERMINAL and (why := _too_fast(intent.pod, target, local, now)):
        return outcome(intent, REFUSED, why)
    written = yield from _write(intent.pod, (marks, patch), last.version if last else "", local)
    if isinstance(written, Answer):
        return outcome(intent, *written)
    version, size = written
    local.status_bytes_of_pod.spend(intent.pod.uid, now.mono, size)
    local.status_bytes.spend(target, intent.pod.namespace, now.mono, size)
    local.mirrored.put(intent.pod.uid, Mirrored(digest, phase, version))
    return outcome(intent, DONE)


def _write(
    ref: PodRef, what: tuple[Object, bytes], version: str, local: Local
) -> Procedure[tuple[str, int] | Answer]:
    """The resourceVersion after the write of metadata and status, and how large the pod is; or the
    answer to give instead.
    """
    problem = ""
    for _ in range(TRIES):
        if not version:
            look = yield from pods.look_up(ref.namespace, ref.name)
            no = _closed(look, ref, local)
            if no is not None:
                return no
            version = look.pod.metadata.resource_version if look.pod else ""
        response = yield _request(ref, what, version)
        if response.ok:
            return _version(response), max(len(what[1]), len(response.body))
        problem = error_text(response)
        if response.status == NOT_FOUND:
            return Answer(STALE, problem)
        if not is_ambiguous(response):
            return Answer(
                REFUSED,
                f"the status of pod {ref.namespace}/{ref.name} cannot be written: {problem}",
            )
        version = ""
    return Answer(UNKNOWN, problem)


def _closed(look: Lookup, ref: PodRef, local: Local) -> Answer | None:
    if look.differs(ref.uid):
        return Answer(STALE, f"pod {ref.namespace}/{ref.name} is gone")
    if look.pod is None:
        return Answer(UNKNOWN, look.problem)
    if look.pod.terminal:
        return Answer(DONE, _ENDED)
    if not local.behind(look.pod.node):
        where = f'bound to node "{look.pod.node}"' if look.pod.node else "not bound"
        return Answer(
            STALE,
            f"pod {ref.namespace}/{ref.name} is {where}, not to a proxy node: its status is its "
            "own",
        )
    return None


def _version(response: Response) -> str:
    pod = pods.read(response.body)
    return pod.metadata.resource_version if pod else ""


def _request(ref: PodRef, what: tuple[Object, bytes], version: str) -> Request:
    marks, patch = what
    metadata = msgspec.json.encode({**marks, "uid": ref.uid, "resourceVersion": version})
    body = b'{"metadata":' + metadata + b',"status":' + patch + b"}"
    return Request("PATCH", pods.path(ref.namespace, ref.name, "status"), body, STRATEGIC_PATCH)


def _translate(intent: MirrorStatus) -> tuple[str, bool, bytes]:
    """(phase, ready, strategic patch of status) from a delegate's status."""
    status = msgspec.json.decode(intent.status, type=Object)
    phase = status.setdefault("phase", PENDING)
    if phase not in _PHASES:
        raise ValueError(f"phase {str(phase)[:40]!r} is not one of {', '.join(sorted(_PHASES))}")
    seen = status.get("observedGeneration") if intent.generation else None
    told = [_condition(one, seen, intent.generation) for one in status.get("conditions") or ()]
    conditions = [_of_home(one) if one["type"] == "PodScheduled" else one for one in told]
    conditions = [one for one in conditions if one]
    conditions.sort(
        key=lambda one: "/" in one["type"]
    )  # where there are too many, Kubernetes' own are shown
    shown = {one["type"] for one in conditions}
    gone = [{"type": one, "$patch": "delete"} for one in _RESIZING if one not in shown]
    patch = {name: status.get(name) for name in _COPIED}
    patch |= {name: status[name] for name in _RESIZED if name in status}
    patch |= {"observedGeneration": intent.generation} if seen is not None else {}
    for one, every in _ADDRESSED:
        addresses = (status.get(every) or ())[:_ADDRESSES] if intent.routed else ()
        listed = [status.get(one), *(each["ip"] for each in addresses)]
        leads = intent.routed and all(each is None or is_unicast(each) for each in listed)
        patch[one] = listed[0] if leads else None
        # They merge by ip: without the directive an address that is gone would stay.
        patch[every] = [*(addresses if leads else ()), {"$patch": "replace"}]
    patch["conditions"] = [*gone, *conditions]
    ready = any(one["type"] == "Ready" and one.get("status") == "True" for one in conditions)
    return phase, ready, status_size.bounded(patch)


def _condition(condition: Object, seen: int | None, generation: int) -> Object:
    """As it is at home. `seen`: the delegate's generation that is `generation` there, if any."""
    shown = {key: value for key, value in condition.items() if key != "observedGeneration"}
    if seen is not None and condition.get("observedGeneration") == seen:
        shown["observedGeneration"] = generation
    return shown


def _of_home(scheduled: Object) -> Object:
    """What the delegate's PodScheduled says of that of the source, which is bound: the generation, {}
    if it says of none.
    """
    seen = scheduled.get("observedGeneration")
    if seen is None:
        return {}
    return {"type": "PodScheduled", "status": "True", "observedGeneration": seen}
