"""DELETE a pod with its UID as precondition, and a GET where the response does not tell what
happened.
"""

from agents.executor.objects import pods
from shared.kube.http import Procedure
from shared.kube.verdicts import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, error_text
from shared.messages import DONE, REFUSED, UNKNOWN, PodRef

_DONE = Answer(DONE)


def delete_exactly(
    ref: PodRef, grace_seconds: int | None = None, *, version: str = ""
) -> Procedure[Answer]:
    """done: the pod with this UID is gone, or (with its own grace period) on its way. Else refused
    or unknown.

    With a `version`, only as it was seen at that resourceVersion: unknown where it has changed
    since, look again.
    """
    request = pods.delete_request(ref, grace_seconds, version)
    message = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok or response.status == NOT_FOUND:
            return _DONE
        message = error_text(response)
        if response.status in POSTPONED:
            continue
        if response.status != CONFLICT and not response.unknown:
            return Answer(REFUSED, message)
        look = yield from pods.look_up(ref.namespace, ref.name)
        if look.differs(ref.uid):
            return _DONE
        if look.pod is None:
            return Answer(UNKNOWN, look.problem)
        if grace_seconds is None and look.pod.terminating:
            return _DONE
        if version and look.pod.metadata.resource_version != version:
            break
    return Answer(UNKNOWN, message)
