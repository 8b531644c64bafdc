"""API objects -> what the observer keeps. Pure, and never raises for what an object holds.

An object that cannot be read in part becomes a pod with `problems`; one that does not fit its type
at all is read down to its identity; one without even that (no uid) is dropped, since nothing could
ever refer to it.
"""

from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import msgspec

from agents.executor.crossing import downward, live, manifest, needs, status_size
from agents.executor.objects.events import CHANGE_REFUSED
from agents.kube import effective, groups, marks, user_marks, wire, wire_pods, wire_status
from agents.kube.features import needed as features_needed
from agents.kube.pool import MAX_BYTES, OVERHEAD, Pool
from agents.kube.resized import is_resized
from agents.kube.specs import SpecRead, read_spec
from agents.observer.record_bounds import MAX_LABELS, MAX_PROBLEMS, memory_of_labels, within_bounds
from agents.observer.seen import InvalidAnnotation, PodSeen, WrongSchedulerName
from shared.messages.pod_cache import PodCache
from shared.model import names
from shared.model.bounds import MAX_AMOUNT
from shared.model.copy_names import as_at_home
from shared.model.pod import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    TERMINAL,
    Needs,
    Pod,
    PodRef,
    SourceRef,
)
from shared.model.resources import Resources

MAX_NOTE = 512  # characters
MAX_TIMESTAMP = 64  # characters
_PHASES = {phase: phase for phase in (PENDING, RUNNING, SUCCEEDED, FAILED)}
_POOL: Pool[frozenset[tuple[str, str]], dict[str, str]] = Pool()
_ONES: Pool[bytes, Any] = Pool()
_NEVER = "Never"
# the default, and what counts as for ever
_GRACE_S = 30
_MOST_GRACE_S = 2**31
_NO_STATUS = wire_status.PodStatus()
T = TypeVar("T")


class _Parts(msgspec.Struct, gc=False):
    """A pod, but for its status."""

    metadata: dict[str, msgspec.Raw]
    spec: dict[str, msgspec.Raw]


_PARTS = msgspec.json.Decoder(_Parts)
_OF_A_VERSION = frozenset(("resourceVersion", "managedFields"))
_NEEDS_NOTHING = Needs()


class _Elsewhere(NamedTuple):
    """What is derived of a pod that may go, or went, to another cluster: see Pod."""

    needs: Needs | None
    files: str = ""
    live: str = ""
    left: str = ""  # why debug containers do not go along


_ELSEWHERE: PodCache[bytes, _Elsewhere] = PodCache(2**20, MAX_BYTES)  # of 100,000 pods, about


def pod_seen(raw: bytes | msgspec.Raw) -> PodSeen | None:
    """One pod from its JSON; None if not even its uid can be read."""
    try:
        pod = wire_pods.read_pod(raw)
    except wire.BROKEN as error:
        return _bare_pod(raw, str(error))
    if not pod.metadata.uid:
        return None
    seen = _pod_seen(pod, raw)
    size = memoryview(raw).nbytes
    if seen.pod is None:
        return seen
    told, memory = within_bounds(seen.pod)
    return msgspec.structs.replace(
        seen, pod=told, memory=memory, size=size if told.source is not None else 0
    )


def pod_in_full(raw: bytes | msgspec.Raw) -> Pod | None:
    """One pod from its JSON, whoever schedules it; None if not even its uid can be read."""
    try:
        pod = wire_pods.read_pod(raw)
    except wire.BROKEN as error:
        bare = _bare_pod(raw, str(error))
        return bare.pod if bare is not None else None
    if not pod.metadata.uid:
        return None
    return within_bounds(_ours(pod, delegate=False))[0]


def version_of(text: str) -> int:
    """A resourceVersion as a number to compare, 0 when it is none (it then compares as unknown)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


def _pod_seen(pod: wire_pods.PodObject, raw: bytes | msgspec.Raw) -> PodSeen:
    """Full for ours, the room it takes for a bound foreign pod, nothing for the rest."""
    meta = pod.metadata
    spec = pod.spec
    labels = meta.labels or {}
    version = version_of(meta.resource_version)
    delegate = (
        labels.get(names.DELEGATE_LABEL) == "true"
        and spec.scheduler_name == names.DELEGATE_SCHEDULER
    )
    if delegate and marks.source_of(meta.annotations or {}):
        return PodSeen(
            meta.uid,
            version,
            _ours(pod, delegate=True),
            None,
            _invalid(meta, user_marks.adopted(meta)),
        )
    if names.is_ours(spec.scheduler_name):
        judged = user_marks.of_ours(meta, spec)
        unread: list[str] = []
        features = features_needed(bytes(raw), unread)
        read = _ours(pod, delegate=False, judged=judged)
        elsewhere = _needs(pod, raw)
        grouped, misread = groups.marks_of(meta, spec)
        if not user_marks.is_settled(meta, spec):
            unread.extend(misread)
        ours = msgspec.structs.replace(
            read,
            needs=elsewhere.needs,
            files=elsewhere.files,
            live=elsewhere.live,
            generation=0 if elsewhere.left else read.generation,
            features=features,
            problems=(*read.problems, *unread),
            group=grouped[0].group if grouped else None,
        )
        left = (user_marks.Note(CHANGE_REFUSED, elsewhere.left),) if elsewhere.left else ()
        invalid = _invalid(meta, (*judged.notes, *left))
        return PodSeen(meta.uid, version, ours, None, invalid, marks=grouped)
    misplaced = None
    if meta.annotations and meta.annotations.get(names.SCHEDULE) == "true":
        misplaced = WrongSchedulerName(meta.uid, meta.namespace, meta.name, spec.scheduler_name)
    status = _status(pod.status, [])
    if status.phase in TERMINAL:
        return PodSeen(meta.uid, version, None, misplaced)
    if not spec.node_name:
        said = _invalid(meta, user_marks.of_foreign(meta, spec))
        return PodSeen(meta.uid, version, None, misplaced, said, _unfinished(meta, spec))
    return PodSeen(meta.uid, version, _foreign(pod, status), misplaced)


def _needs(pod: wire_pods.PodObject, raw: bytes | msgspec.Raw) -> _Elsewhere:
    """What the pod would need elsewhere, while it may go there; of one that runs elsewhere, what
    the next one would, and digests of what its delegate follows.

    Of one that is placed at home the cache tells what was told of it before.
    """
    stays = (pod.metadata.annotations or {}).get(names.STAY) == "true"
    if not pod.spec.node_name:
        return _Elsewhere(None if stays else _one_of(needs.needs_of(bytes(raw)) or _NEEDS_NOTHING))
    if not pod.spec.node_name.startswith(names.PROXY_NODE_PREFIX):
        return _Elsewhere(None)
    found = _elsewhere_once(bytes(raw))
    return found._replace(needs=_NEEDS_NOTHING) if stays else found


def _elsewhere_once(raw: bytes) -> _Elsewhere:
    """Of a pod that runs elsewhere, derived once for all its versions that differ in their status
    alone: these are many.
    """
    try:
        parts = _PARTS.decode(raw)
    except msgspec.MsgspecError:
        return _derived(raw)
    told = [
        [(name, bytes(value)) for name, value in part.items() if name not in _OF_A_VERSION]
        for part in (parts.metadata, parts.spec)
    ]
    key = sha256(msgspec.msgpack.encode(told)).digest()
    known = _ELSEWHERE.get(key)
    if known is None:
        known = _derived(raw)
        _ELSEWHERE.put(key, known, len(msgspec.msgpack.encode(known)) + OVERHEAD)
    return known


def _derived(raw: bytes) -> _Elsewhere:
    try:
        crossing, left = manifest.without_refused(raw)
        clean = msgspec.json.decode(manifest.sanitise(crossing))
    except manifest.ManifestError as error:
        return _Elsewhere(needs.refused(error), "-", live.NONE)
    files, lives = live.files_and_live(clean)
    needed = _one_of(needs.needs_in(clean) or _NEEDS_NOTHING)
    return _Elsewhere(needed, files, lives, "; ".join(left)[:MAX_NOTE])


def _unfinished(meta: wire.Meta, spec: wire_pods.PodSpec) -> PodRef | None:
    going = meta.deletion_timestamp is not None
    if spec.scheduler_name != names.DELEGATE_SCHEDULER or going:
        return None
    return PodRef(meta.namespace, meta.name, meta.uid)


def _invalid(meta: wire.Meta, notes: tuple[user_marks.Note, ...]) -> tuple[InvalidAnnotation, ...]:
    return tuple(
        InvalidAnnotation(meta.uid, meta.namespace, meta.name, note.reason, note.text[:MAX_NOTE])
        for note in notes
    )


def _foreign(pod: wire_pods.PodObject, status: wire_status.PodStatus) -> Pod:
    """A pod that others placed: what it takes of its node, and what it means to pods beside it."""
    meta = pod.metadata
    spec = pod.spec
    labels = meta.labels or {}
    said = read_spec(pod, labels)
    ties = said.placement.ties
    requests, expected = _amounts(spec, said, status)
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        labels=_shared(labels),
        requests=requests,
        priority=spec.priority or 0,
        node=spec.node_name,
        phase=_PHASES.get(status.phase, PENDING),
        terminating=meta.deletion_timestamp is not None,
        preempted=_preempted(meta, status),
        ports=said.ports,
        owner=_owner(meta),
        pod_affinity=_one_of(ties.pod_affinity),
        pod_anti_affinity=_one_of(ties.pod_anti_affinity),
        volumes=ties.volumes,
        preempts=spec.preemption_policy != _NEVER,
        started=unix_seconds(status.start_time),
        expected=expected,
    )


def _ours(
    pod: wire_pods.PodObject, *, delegate: bool, judged: user_marks.Judged = user_marks.NOTHING
) -> Pod:
    meta = pod.metadata
    spec = pod.spec
    problems = list(judged.problems)
    labels = meta.labels or {}
    own = marks.own_annotations(meta.annotations or {}, problems)
    status = _status(pod.status, problems)
    said = read_spec(pod, labels)
    placement = said.placement
    problems.extend(said.placement_problems)
    spread = (*placement.spread, *marks.spread_of(own, problems))
    problems.extend(said.needs_problems)
    requests, expected = _amounts(spec, said, status)
    # A delegate carries its source's claim; it is never itself claimed.
    claim = None if delegate else marks.claim_of(own, meta.uid)
    source = marks.source_of(own) if delegate else None
    mark = (meta.annotations or {}).get(names.CARRIES, "") if delegate else ""
    reached, carries = live.told(mark)
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        labels=_shared(labels),
        annotations=own,
        requests=requests,
        priority=spec.priority or 0,
        scheduler_name=spec.scheduler_name,
        node=spec.node_name,
        phase=_PHASES.get(status.phase, PENDING),
        reason=status.reason[:256],
        ready=any(one.type == "Ready" and one.status == "True" for one in status.conditions or ()),
        terminating=meta.deletion_timestamp is not None,
        preempted=_preempted(meta, status),
        created=unix_seconds(meta.creation_timestamp),
        gated=bool(spec.scheduling_gates),
        node_selector=placement.node_selector,
        affinity=placement.affinity,
        tolerations=placement.tolerations,
        ports=placement.ports,
        spread=spread,
        claim=claim,
        source=source,
        owner=_owner(meta),
        images=said.images,
        volume_images=said.volume_images,
        problems=tuple(line[:300] for line in problems[:MAX_PROBLEMS]),
        status=_told_status(pod.status, source, own.get(names.FOLLOWERS, "")) if delegate else b"",
        has_finalizer=names.FINALIZER in (meta.finalizers or ()),
        files=downward.digest(meta.annotations or {}) if delegate else "",
        pod_affinity=_one_of(placement.ties.pod_affinity),
        pod_anti_affinity=_one_of(placement.ties.pod_anti_affinity),
        volumes=placement.ties.volumes,
        resource_claims=said.resource_claims,
        gates=said.gates,
        preempts=spec.preemption_policy != _NEVER,
        nominated_node=status.nominated_node_name or "",
        started=unix_seconds(status.start_time),
        expected=expected,
        failover=marks.failover_of(own, delegate=delegate),
        grace_s=_grace(spec),
        ends_in_s=_ends_in(meta),
        live=reached,
        carries=carries,
        generation=_generation(meta, spec, status, delegate=delegate),
    )


def _generation(
    meta: wire.Meta, spec: wire_pods.PodSpec, status: wire_status.PodStatus, *, delegate: bool
) -> int:
    """As `Pod.generation`. What a kubelet has seen it says itself: servers before 1.34 count none.
    Of a change that is refused it sees nothing.
    """
    shown = min(max(meta.generation or 0, 0), MAX_AMOUNT)
    if delegate:
        conditions = status.conditions or ()
        refused = any(one.type == names.FOLLOWED and one.status == "False" for one in conditions)
        return shown if (status.observed_generation or 0) >= shown and not refused else 0
    return shown if spec.node_name.startswith(names.PROXY_NODE_PREFIX) else 0


def _amounts(
    spec: wire_pods.PodSpec, said: SpecRead, status: wire_status.PodStatus
) -> tuple[Resources, tuple[int, int]]:
    """What the pod requests and is expected to use, a resize in place included."""
    if not is_resized(spec, status):
        return said.requests, said.expected
    ways = effective.read_resized(spec, status)
    return effective.effective_request(*ways), effective.expected_request(*ways)


def _preempted(meta: wire.Meta, status: wire_status.PodStatus) -> bool:
    """Whether a scheduler has the pod deleted for another one."""
    if meta.deletion_timestamp is None:
        return False
    told = next((one for one in status.conditions or () if one.type == "DisruptionTarget"), None)
    return told is not None and told.status == "True" and told.reason == "PreemptionByScheduler"


def _grace(spec: wire_pods.PodSpec) -> int:
    seconds = spec.termination_grace_period_seconds
    return _GRACE_S if seconds is None else min(max(0, seconds), _MOST_GRACE_S)


def _ends_in(meta: wire.Meta) -> int:
    seconds = meta.deletion_grace_period_seconds
    return -1 if seconds is None else min(max(0, seconds), _MOST_GRACE_S - 1)


def _owner(meta: wire.Meta) -> str:
    owner = next((ref for ref in meta.owner_references or () if ref.controller), None)
    return f"{owner.kind}/{owner.name}/{owner.uid}" if owner is not None else ""


def _status(raw: msgspec.Raw, problems: list[str]) -> wire_status.PodStatus:
    try:
        return wire_status.read_pod_status(raw)
    except wire.BROKEN as error:
        problems.append(f"status: {error}")
        return _NO_STATUS


def _told_status(raw: msgspec.Raw, source: SourceRef | None, follows: str) -> bytes:
    """A delegate's status as it goes home, which shows no more of it, with what `follows` it by its
    name there; b'' if it cannot be made small enough.
    """
    told = bytes(raw)
    if follows and source is not None:
        said = told.decode("utf-8", "surrogateescape")
        told = as_at_home(said, source, follows).encode("utf-8", "surrogateescape")
    if len(told) <= status_size.MAX_BYTES:
        return told
    try:
        return status_size.bounded(msgspec.json.decode(told, type=dict[str, Any]))
    except (*wire.BROKEN, ValueError, AttributeError, TypeError):
        return b""


def _bare_pod(raw: bytes | msgspec.Raw, problem: str) -> PodSeen | None:
    try:
        bare = wire.read_bare(raw)
    except wire.BROKEN:
        return None
    meta = bare.metadata
    if not meta.uid:
        return None
    try:
        spec = wire.read_bare_spec(bare.spec)
    except wire.BROKEN:
        spec = wire.BareSpec()
    version = version_of(meta.resource_version)
    ours = isinstance(spec.scheduler_name, str) and names.is_ours(spec.scheduler_name)
    node = spec.node_name if isinstance(spec.node_name, str) else ""
    if not ours and not node:
        return PodSeen(meta.uid, version)
    scheduler = spec.scheduler_name if ours else ""
    line = f"the object cannot be read: {problem}"[:300]
    pod = Pod(
        meta.uid, meta.namespace, meta.name, scheduler_name=scheduler, node=node, problems=(line,)
    )
    return PodSeen(meta.uid, version, pod)


def unix_seconds(timestamp: str | None) -> float:
    """RFC 3339 as unix seconds, 0 if absent or unreadable."""
    return _parsed(timestamp) if timestamp and len(timestamp) <= MAX_TIMESTAMP else 0.0


@lru_cache(maxsize=4096)
def _parsed(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _shared(items: dict[str, str]) -> dict[str, str]:
    """One dict for all equal ones: replicas have the same labels. Records are never changed."""
    size = memory_of_labels(items)
    return _POOL.one(frozenset(items.items()), items, size) if size <= MAX_LABELS else items


def _one_of(found: T) -> T:
    """One object for all equal ones, as above, of what cannot be hashed: replicas have the same
    terms and amounts.
    """
    if found is None:
        return found
    key = msgspec.msgpack.encode(found)
    one: T = _ONES.one(key, found, len(key))
    return one
