"""POST pods/NAME/binding, and a GET of the pod where the response does not tell whether it is
bound.
"""

from collections.abc import Callable, Mapping

import msgspec

from agents.executor.objects import pods
from agents.executor.objects.pods import LivePod, Lookup
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, error_text
from shared.messages import BOUND, OF_CLUSTER, REFUSED, STALE, UNKNOWN, PodRef
from shared.model.names import EPOCH, PREFIX


def annotations_of(epoch: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Annotations of a binding: the attempt's number, and those that the dispatcher adds."""
    return {**extra, EPOCH: str(epoch)}


def foreign_key(annotations: Mapping[str, str]) -> str:
    """The first annotation key outside our prefix, which the dispatcher must not write; '' if there
    is none.
    """
    return next((key for key in annotations if not key.startswith(PREFIX)), "")


def bind_unclaimed(
    ref: PodRef, node: str, annotations: Mapping[str, str], version: str, keys: tuple[str, ...]
) -> Procedure[Answer]:
    """Bind a source pod to a node of its own cluster, unless it is claimed for another one: then
    stale.

    The view that showed it unclaimed may lag, so the write holds only for the `version` seen there;
    when the pod has moved on, it is read and checked before the next try. `keys` are this cluster's
    public ones.
    """

    def claimed(pod: LivePod) -> str:
        signed = pod.claimed(keys)
        return f'it is claimed for cluster "{signed.target}"' if signed else ""

    return (yield from bind_to(ref, node, annotations, version, claimed))


def bind_to(
    ref: PodRef,
    node: str,
    annotations: Mapping[str, str],
    version: str = "",
    objection: Callable[[LivePod], str] = lambda _: "",
) -> Procedure[Answer]:
    """Bind, UID (and `version`, if given) as precondition. Repeating is safe: the server binds a
    pod once.

    bound: it is on `node`. stale: it is gone, going, on another node, or there is an `objection` to
    it as it is. refused: by the server. Else unknown.
    """
    message = ""
    for _ in range(TRIES):
        response = yield _request(ref, node, annotations, version)
        if response.ok:
            return Answer(BOUND)
        message = error_text(response)
        if response.status == NOT_FOUND:
            return Answer(STALE, message)
        if response.status in POSTPONED:
            continue
        if response.status != CONFLICT and not response.unknown:
            return Answer(REFUSED, message, OF_CLUSTER, response.passing)
        look = yield from pods.look_up(ref.namespace, ref.name)
        answer = answer_from(look, ref, node)
        if answer is not None:
            return answer
        if look.pod is not None and (why := objection(look.pod)):
            return Answer(STALE, f"pod {ref.namespace}/{ref.name}: {why}")
        version = look.pod.metadata.resource_version if look.pod is not None and version else ""
    return Answer(UNKNOWN, message)


def answer_from(look: Lookup, ref: PodRef, node: str) -> Answer | None:
    """The answer to a bind of `ref` to `node`, from the pod as the API server has it; None if it is
    still unbound and the binding may be posted again.
    """
    if look.differs(ref.uid):
        return Answer(STALE, f"pod {ref.namespace}/{ref.name} is gone")
    if look.pod is None:
        return Answer(UNKNOWN, look.problem)
    if look.pod.node == node:
        return Answer(BOUND)
    if look.pod.node:
        return Answer(STALE, f'pod {ref.namespace}/{ref.name} is bound to node "{look.pod.node}"')
    return (
        Answer(STALE, f"pod {ref.namespace}/{ref.name} is being deleted")
        if look.pod.terminating
        else None
    )


class _Meta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    uid: str
    annotations: dict[str, str]
    resource_version: str = ""


class _Target(msgspec.Struct, gc=False, rename="camel"):
    name: str
    api_version: str = "v1"
    kind: str = "Node"


class _Binding(msgspec.Struct, gc=False, rename="camel"):
    """core/v1 Binding."""

    metadata: _Meta
    target: _Target
    api_version: str = "v1"
    kind: str = "Binding"


_ENCODE = msgspec.json.Encoder().encode


def _request(ref: PodRef, node: str, annotations: Mapping[str, str], version: str) -> Request:
    meta = _Meta(ref.name, ref.namespace, ref.uid, dict(annotations), version)
    body = _ENCODE(_Binding(meta, _Target(node)))
    return Request("POST", pods.path(ref.namespace, ref.name, "binding"), body)
