"""What a pod's claims need before it is bound: a volume is set aside for a claim, or a claim learns
its node.

Both are what kube-scheduler's VolumeBinding writes; the controllers of the cluster do the rest.
Every write is guarded by the version that was read, and what holds already is not written again.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.objects.reads import Metadata
from shared.kube.http import MERGE_PATCH, Procedure, Request
from shared.kube.verdicts import (
    LOOKS,
    NOT_FOUND,
    POSTPONED,
    TRIES,
    Answer,
    error_text,
    is_ambiguous,
    outcome,
)
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, BindVolume, Outcome, SelectNode

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class _ClaimRef(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    claim_ref: _ClaimRef | None = None
    volume_name: str = ""


class _Stored(msgspec.Struct):
    """A volume or a claim, as far as it decides whether we may write to it."""

    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_STORED = msgspec.json.Decoder(_Stored)
Patch = dict[str, Any]
Decide = Callable[[_Stored], Answer | Patch]  # the answer to give, or what is to be written


def bind_volume(intent: BindVolume, local: Local, now: Moment) -> Procedure[Outcome]:
    """Set the volume's claimRef. done: it is that claim's. stale: it is another's, or gone."""
    namespace, _, name = intent.claim.partition("/")
    path = f"/api/v1/persistentvolumes/{quote(intent.volume, safe='')}"
    wanted = {"namespace": namespace, "name": name, "uid": intent.claim_uid}

    def decide(volume: _Stored) -> Answer | Patch:
        there = volume.spec.claim_ref
        if volume.metadata.deletion_timestamp is not None:
            return Answer(STALE, f'persistentvolume "{intent.volume}" is being deleted')
        if there is not None and not _same(there, wanted):
            return Answer(
                STALE,
                f'persistentvolume "{intent.volume}" is kept for {there.namespace}/{there.name}',
            )
        if there is not None and there.uid:
            return Answer(DONE)
        by_us = {} if there is not None else {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        claim_ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **wanted}
        return {"metadata": by_us, "spec": {"claimRef": claim_ref}}

    answer = yield from _write(path, f'persistentvolume "{intent.volume}"', decide)
    return outcome(intent, *answer)


def select_node(intent: SelectNode, local: Local, now: Moment) -> Procedure[Outcome]:
    """Write the node on the claim. done: it says so, or has its volume. stale: it says another, or
    is another claim.
    """
    namespace, _, name = intent.claim.partition("/")
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/persistentvolumeclaims/{quote(name, safe='')}"

    def decide(claim: _Stored) -> Answer | Patch:
        there = (claim.metadata.annotations or {}).get(SELECTED_NODE, "")
        if claim.metadata.uid != intent.claim_uid or claim.metadata.deletion_timestamp is not None:
            return Answer(STALE, f'persistentvolumeclaim "{name}" was replaced or is being deleted')
        if claim.spec.volume_name or there == intent.node:
            return Answer(DONE)
        if there:
            return Answer(
                STALE, f'persistentvolumeclaim "{name}" is to be served on node "{there}"'
            )
        return {"metadata": {"annotations": {SELECTED_NODE: intent.node}}}

    answer = yield from _write(path, f'persistentvolumeclaim "{name}"', decide)
    return outcome(intent, *answer)


def _same(there: _ClaimRef, wanted: dict[str, str]) -> bool:
    named = (there.namespace, there.name) == (wanted["namespace"], wanted["name"])
    return named and there.uid in ("", wanted["uid"])


def _write(path: str, what: str, decide: Decide) -> Procedure[Answer]:
    """Read-modify-write with the resourceVersion as precondition; tried again after a conflict."""
    problem = ""
    for _ in range(TRIES):
        stored = yield from _look_up(path, what)
        if isinstance(stored, Answer):
            return stored
        decided = decide(stored)
        if isinstance(decided, Answer):
            return decided
        guard = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
        body = msgspec.json.encode(
            {**decided, "metadata": {**decided.get("metadata", {}), **guard}}
        )
        response = yield Request("PATCH", path, body, MERGE_PATCH)
        if response.ok:
            return Answer(DONE)
        problem = error_text(response)
        if response.status != NOT_FOUND and not is_ambiguous(response):
            return Answer(REFUSED, problem)
    return Answer(UNKNOWN, problem)


def _look_up(path: str, what: str) -> Procedure[_Stored | Answer]:
    problem = ""
    for _ in range(LOOKS):
        response = yield Request("GET", path)
        if response.status == NOT_FOUND:
            return Answer(STALE, f"{what} not found")
        if response.ok:
            try:
                return _STORED.decode(response.body)
            except msgspec.MsgspecError:
                return Answer(UNKNOWN, f"{what} cannot be read")
        problem = error_text(response)
        if not response.unknown and response.status not in POSTPONED:
            return Answer(REFUSED, problem)
    return Answer(UNKNOWN, problem)
