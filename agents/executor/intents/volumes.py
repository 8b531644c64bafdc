"""What a pod's claims need before it is bound: a volume is set aside for a claim, or a claim learns
its node.

Both are what kube-scheduler's VolumeBinding writes; the controllers of the cluster do the rest.
Every write is guarded by the version that was read, and what holds already is not written again.
"""

from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.objects.reads import Metadata
from agents.executor.objects.rewrite import Patch, rewrite
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer, outcome
from shared.messages import DONE, STALE, BindVolume, Outcome, SelectNode

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


_read = msgspec.json.Decoder(_Stored).decode


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

    answer = yield from rewrite(path, f'persistentvolume "{intent.volume}"', _read, decide)
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

    answer = yield from rewrite(path, f'persistentvolumeclaim "{name}"', _read, decide)
    return outcome(intent, *answer)


def _same(there: _ClaimRef, wanted: dict[str, str]) -> bool:
    named = (there.namespace, there.name) == (wanted["namespace"], wanted["name"])
    return named and there.uid in ("", wanted["uid"])
