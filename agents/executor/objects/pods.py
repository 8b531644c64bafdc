"""Pods at the API server: their paths, and the truth about one, read afresh."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec

from shared.kube import deletes
from shared.kube.http import MERGE_PATCH, STRATEGIC_PATCH, Procedure, Request
from shared.kube.verdicts import LOOKS, NOT_FOUND, POSTPONED, error_text
from shared.messages import DELETING, PodRef
from shared.model import names
from shared.model.pod import TERMINAL
from shared.security import signatures
from shared.security.signatures import SignedClaim


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None


class _Volume(msgspec.Struct, rename="camel"):
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    scheduling_gates: tuple[dict[str, str], ...] | None = None
    volumes: tuple[_Volume, ...] | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class _Condition(msgspec.Struct):
    type: str | None = None
    status: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: tuple[_Condition, ...] | None = None


class LivePod(msgspec.Struct):
    """The fields of a pod that decide whether we may write to it."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def node(self) -> str:
        """spec.nodeName, empty while unbound."""
        return self.spec.node_name

    @property
    def terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """Whether it has ended by itself."""
        return self.status.phase in TERMINAL

    @property
    def end(self) -> str:
        """Its final phase, else DELETING if its deletion has begun, "" while it goes on."""
        going = DELETING if self.terminating else ""
        return self.status.phase if self.terminal else going

    @property
    def preempts(self) -> bool:
        """Whether others may be evicted for it."""
        return self.spec.preemption_policy != "Never"

    @property
    def has_local_data(self) -> bool:
        """Whether it has a volume whose data stay on its node, or end with it: emptyDir, hostPath."""
        return any(
            one.empty_dir is not None or one.host_path is not None
            for one in self.spec.volumes or ()
        )

    @property
    def finalizers(self) -> tuple[str, ...]:
        """metadata.finalizers."""
        return self.metadata.finalizers or ()

    @property
    def annotations(self) -> dict[str, str]:
        """metadata.annotations."""
        return self.metadata.annotations or {}

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels."""
        return self.metadata.labels or {}

    @property
    def mark(self) -> str:
        """The claim as it is written on the pod, '' if there is none; who has signed it is to be
        judged.
        """
        return self.annotations.get(names.CLAIM, "")

    def claimed(self, keys: tuple[str, ...]) -> SignedClaim | None:
        """The claim of a source pod, if one of its cluster's public keys signed it for this very
        pod.

        Without our finalizer it counts for nothing, as the pod may be gone at any moment.
        """
        signed = signatures.read_claim(self.mark)
        if (
            signed is None
            or signed.source.uid != self.uid
            or names.FINALIZER not in self.finalizers
        ):
            return None
        return signed if signatures.is_claim_of(keys, self.mark) else None

    def delegated(self, keys: tuple[str, ...]) -> SignedClaim | None:
        """On whose behalf a delegate runs, if one of its own cluster's public keys signed for it."""
        proof = self.annotations.get(names.DELEGATE_PROOF, "")
        if self.spec.scheduler_name != names.DELEGATE_SCHEDULER or not proof:
            return None
        return (
            signatures.read_claim(self.mark)
            if signatures.is_proof_of(keys, self.uid, self.mark, proof)
            else None
        )


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a GET told: `answered` and `pod` None means that there is no such pod; not answered,
    `problem` says why.
    """

    answered: bool
    pod: LivePod | None = None
    body: bytes = b""
    problem: str = ""

    def differs(self, uid: str) -> bool:
        """Whether the pod with this UID is known to be gone."""
        return self.answered and (self.pod is None or self.pod.uid != uid)


class _WithStatus(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw(b"")


_WITH_STATUS = msgspec.json.Decoder(_WithStatus)
_LIVE_POD = msgspec.json.Decoder(LivePod)


@lru_cache(maxsize=1024)
def collection(namespace: str) -> str:
    """Path of the pods of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def path(namespace: str, name: str, subresource: str = "") -> str:
    """Path of one pod or of a subresource of it."""
    return f"{collection(namespace)}/{quote(name, safe='')}" + (
        f"/{subresource}" if subresource else ""
    )


def read(body: bytes) -> LivePod | None:
    """A pod from the server's JSON; None if it is not one."""
    try:
        return _LIVE_POD.decode(body)
    except msgspec.MsgspecError:
        return None


def status_of(body: bytes) -> bytes:
    """The status in the JSON of a pod; empty if there is none."""
    try:
        return bytes(_WITH_STATUS.decode(body).status)
    except msgspec.MsgspecError:
        return b""


def look_up(namespace: str, name: str) -> Procedure[Lookup]:
    """Read a pod from the API server, more than once if it does not answer."""
    problem = ""
    for _ in range(LOOKS):
        response = yield Request("GET", path(namespace, name))
        if response.status == NOT_FOUND:
            return Lookup(answered=True)
        if response.ok:
            pod = read(response.body)
            return (
                Lookup(True, pod, response.body)
                if pod
                else Lookup(False, problem="the server's pod cannot be read")
            )
        problem = error_text(response)
        if not response.unknown and response.status not in POSTPONED:
            break
    return Lookup(answered=False, problem=problem)


def delete_request(ref: PodRef, grace_seconds: int | None = None, version: str = "") -> Request:
    """DELETE with the UID (and resourceVersion) as precondition; None leaves the pod its own grace
    period.
    """
    at = path(ref.namespace, ref.name)
    return deletes.delete_request(at, ref.uid, version or None, grace_seconds)


def without_ours(pod: LivePod) -> tuple[str, ...]:
    """The finalizers of others."""
    return tuple(name for name in pod.finalizers if name != names.FINALIZER)


def guarded_patch(ref: PodRef, pod: LivePod, metadata: dict[str, Any]) -> Request:
    """A merge patch of metadata that fails unless the pod is the very one, at the very version,
    that was read.
    """
    guard = {"uid": ref.uid, "resourceVersion": pod.metadata.resource_version}
    body = msgspec.json.encode({"metadata": {**guard, **metadata}})
    return Request("PATCH", path(ref.namespace, ref.name), body, MERGE_PATCH)


def guarded_change(
    ref: PodRef, version: str, change: dict[str, Any], subresource: str = ""
) -> Request:
    """The same, of any part of a pod, by a strategic merge patch: lists of containers merge by
    their names.
    """
    guard = {"uid": ref.uid, "resourceVersion": version}
    body = msgspec.json.encode({**change, "metadata": {**change.get("metadata", {}), **guard}})
    return Request("PATCH", path(ref.namespace, ref.name, subresource), body, STRATEGIC_PATCH)
