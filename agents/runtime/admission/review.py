"""What webhooks answer: admission.k8s.io/v1, AdmissionReview. They do what the chart's
MutatingAdmissionPolicies do.

They keep nobody out and know no state. A pod that asks for us, and names neither another scheduler
nor a node, gets our `schedulerName`. What tolerates every taint is kept off proxy nodes. All else
is allowed as it is.
"""

from base64 import b64encode

import msgspec

from agents.runtime.admission import proxy_nodes
from agents.runtime.admission.proxy_nodes import Patch, PodSpec
from shared.model import names

_DEFAULT = ("", "default-scheduler")
_DAEMON_SET = "DaemonSet"


class NotAReviewError(ValueError):
    """The body is no AdmissionReview of a pod or a DaemonSet."""


class _Owner(msgspec.Struct):
    kind: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Spec(PodSpec, rename="camel"):
    scheduler_name: str = ""
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec

    def asks_for_us(self) -> bool:
        asks = (self.metadata.annotations or {}).get(names.SCHEDULE) == "true"
        return asks and self.spec.scheduler_name in _DEFAULT and not self.spec.node_name

    def is_placed_by_others(self) -> bool:
        """Whether a scheduler of others picks its node; pods of DaemonSets are each for one, and go
        by those.
        """
        of_daemon_set = any(one.kind == _DAEMON_SET for one in self.metadata.owner_references or ())
        ours = self.spec.scheduler_name.startswith(names.SCHEDULER_NAME)
        return not (self.spec.node_name or of_daemon_set or ours)

    def patch(self) -> Patch:
        if self.asks_for_us():
            return [{"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER_NAME}]
        return _away(self.metadata, self.spec, "/spec") if self.is_placed_by_others() else []


class _Template(msgspec.Struct):
    spec: PodSpec


class _DaemonSetSpec(msgspec.Struct):
    template: _Template


class _DaemonSet(msgspec.Struct):
    metadata: _Metadata
    spec: _DaemonSetSpec

    def patch(self) -> Patch:
        return _away(self.metadata, self.spec.template.spec, "/spec/template/spec")


class _Kind(msgspec.Struct):
    kind: str


class _Request(msgspec.Struct):
    uid: str
    kind: _Kind
    object: msgspec.Raw


class _Review(msgspec.Struct):
    request: _Request


_DECODER = msgspec.json.Decoder(_Review)


def answer(body: bytes) -> bytes:
    """The AdmissionReview that answers this one. NotAReviewError: the API server goes on without
    (it fails open).
    """
    try:
        request = _DECODER.decode(body).request
        patch = _subject(request).patch()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAReviewError(str(error)) from None
    encoded = b64encode(msgspec.json.encode(patch)).decode()
    mutation = {"patchType": "JSONPatch", "patch": encoded} if patch else {}
    response = {"uid": request.uid, "allowed": True, **mutation}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def _subject(request: _Request) -> _Pod | _DaemonSet:
    if request.kind.kind == _DAEMON_SET:
        return msgspec.json.decode(request.object, type=_DaemonSet)
    return msgspec.json.decode(request.object, type=_Pod)


def _away(metadata: _Metadata, spec: PodSpec, path: str) -> Patch:
    if not spec.tolerates_proxy_nodes():
        return []
    return [*proxy_nodes.mark_patch(metadata.annotations), *spec.away_patch(path)]
