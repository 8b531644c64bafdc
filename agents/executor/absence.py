"""Absence is proved: the API server itself is asked whether a delegate, or a source, is there.

A watch that is behind, a list that was cut short or an agent that has just begun show nothing, too: so nothing that
runs is taken for gone until the server that has the last word says so.
"""

import msgspec

from agents.executor import pods
from agents.executor.answer import Answer, outcome
from agents.executor.delegate import delegate_name
from agents.executor.deletion import delete_exactly
from agents.executor.existing import Ownership, ownership, unbound_version
from agents.executor.http import Procedure
from agents.executor.local import Local, Moment
from dispatcher.model.messages import DONE, STALE, UNKNOWN, ConfirmNoDelegate, ConfirmNoSource, Outcome, PodRef


def confirm_no_delegate(intent: ConfirmNoDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """GET the delegate by its name. Verdicts: done, it does not exist, or with `ended` has ended or is being deleted,
    and the outcome says which; stale, it exists (an unbound one, or with `collect` any, is deleted first); unknown, the
    API server or the keys of the home cluster are not available.
    """
    name = delegate_name(intent.source)
    look = yield from pods.look_up(intent.source.namespace, name)
    if not look.answered:
        return outcome(intent, UNKNOWN, look.problem)
    owner = ownership(look.pod, intent.source, local) if look.pod is not None else Ownership.OTHERS
    if look.pod is None or owner is Ownership.OTHERS:
        local.ledger.drop(intent.source.namespace, name)
        return outcome(intent, DONE)
    if owner is Ownership.UNSURE:
        keys = f'the keys of cluster "{intent.source.cluster}" are not known here yet'
        return outcome(intent, UNKNOWN, f"pod {intent.source.namespace}/{name} is there, and {keys}")
    if intent.ended and look.pod.end:
        return msgspec.structs.replace(outcome(intent, DONE), end=look.pod.end, delegate_uid=look.pod.uid)
    if look.pod.terminating:
        return outcome(intent, STALE, f"pod {intent.source.namespace}/{name} is being deleted")
    if look.pod.node and not intent.collect:
        return outcome(intent, STALE, f"pod {intent.source.namespace}/{name} is there")
    ref = PodRef(intent.source.namespace, name, look.pod.uid)
    deleted = yield from delete_exactly(ref, version=unbound_version(look.pod))
    message = deleted.message or f"pod {intent.source.namespace}/{name} is being deleted"
    return outcome(intent, *Answer(STALE if deleted.verdict == DONE else deleted.verdict, message))


def confirm_no_source(intent: ConfirmNoSource, local: Local, now: Moment) -> Procedure[Outcome]:
    """GET the source by name and UID. Verdicts: done, it does not exist; stale, it does; unknown, no answer came."""
    ref = intent.pod
    look = yield from pods.look_up(ref.namespace, ref.name)
    if look.differs(ref.uid):
        return outcome(intent, DONE)
    if look.pod is None:
        return outcome(intent, UNKNOWN, look.problem)
    return outcome(intent, STALE, f"pod {ref.namespace}/{ref.name} is there")
