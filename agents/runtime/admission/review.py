"""What a webhook answers: admission.k8s.io/v1, AdmissionReview. It does what the chart's MutatingAdmissionPolicy does.

It keeps nobody out and knows no state: a pod that asks for us, and names neither another scheduler nor a node, gets our
`schedulerName`; all else is allowed as it is.
"""

from base64 import b64encode

import msgspec

from dispatcher.model import names

_DEFAULT = ("", "default-scheduler")
_OURS = [{"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER_NAME}]
_PATCH = b64encode(msgspec.json.encode(_OURS)).decode()


class NotAReviewError(ValueError):
    """The body is no AdmissionReview of a pod."""


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    scheduler_name: str = ""
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec

    def asks_for_us(self) -> bool:
        asks = (self.metadata.annotations or {}).get(names.SCHEDULE) == "true"
        return asks and self.spec.scheduler_name in _DEFAULT and not self.spec.node_name


class _Request(msgspec.Struct):
    uid: str
    object: _Pod


class _Review(msgspec.Struct):
    request: _Request


_DECODER = msgspec.json.Decoder(_Review)


def answer(body: bytes) -> bytes:
    """The AdmissionReview that answers this one. NotAReviewError: the API server goes on without (it fails open)."""
    try:
        request = _DECODER.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAReviewError(str(error)) from None
    mutation = {"patchType": "JSONPatch", "patch": _PATCH} if request.object.asks_for_us() else {}
    response = {"uid": request.uid, "allowed": True, **mutation}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
