"""The write that gives a pod its node: POST pods/NAME/binding, and the truth after an answer that leaves doubt."""

from collections.abc import Mapping

import msgspec

from agents.executor import pods
from agents.executor.answer import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, said
from agents.executor.http import Procedure, Request
from agents.executor.pods import Look
from dispatcher.model.messages import BOUND, REFUSED, STALE, UNKNOWN, PodRef
from dispatcher.model.names import EPOCH, PREFIX


def annotations_of(epoch: int, extra: Mapping[str, str]) -> dict[str, str]:
    """What a bind writes onto a pod: the attempt, and what the dispatcher adds."""
    return {**extra, EPOCH: str(epoch)}


def foreign_key(annotations: Mapping[str, str]) -> str:
    """An annotation key that is not ours to write, or ''."""
    return next((key for key in annotations if not key.startswith(PREFIX)), "")


def bind_to(ref: PodRef, node: str, annotations: Mapping[str, str]) -> Procedure[Answer]:
    """Bind, UID as precondition. Repeating is safe: the server binds a pod once, whoever asks.

    bound: it is on `node`. stale: it is gone, going, or on another node. refused: the server said no. Else unknown.
    """
    request = _request(ref, node, annotations)
    message = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok:
            return Answer(BOUND)
        message = said(response)
        if response.status == NOT_FOUND:
            return Answer(STALE, message)
        if response.status in POSTPONED:
            continue
        if response.status != CONFLICT and not response.unknown:
            return Answer(REFUSED, message)
        look = yield from pods.look_up(ref.namespace, ref.name)
        answer = judge(look, ref, node)
        if answer is not None:
            return answer
    return Answer(UNKNOWN, message)


def judge(look: Look, ref: PodRef, node: str) -> Answer | None:
    """What the truth means for a bind of `ref` to `node`; None if the pod still waits and it may be tried again."""
    if look.differs(ref.uid):
        return Answer(STALE, f"pod {ref.namespace}/{ref.name} is gone")
    if look.pod is None:
        return Answer(UNKNOWN, look.problem)
    if look.pod.node == node:
        return Answer(BOUND)
    if look.pod.node:
        return Answer(STALE, f'pod {ref.namespace}/{ref.name} is bound to node "{look.pod.node}"')
    return Answer(STALE, f"pod {ref.namespace}/{ref.name} is being deleted") if look.pod.terminating else None


def _request(ref: PodRef, node: str, annotations: Mapping[str, str]) -> Request:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "uid": ref.uid,
            "annotations": dict(annotations),
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Request("POST", pods.path(ref.namespace, ref.name, "binding"), msgspec.json.encode(binding))
