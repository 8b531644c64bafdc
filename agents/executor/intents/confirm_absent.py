"""Absence is proved: the API server itself is asked whether a delegate, or a source, is there.

A watch that is behind, a list that was cut short or an agent that has just begun show nothing, too:
so nothing that runs is taken for gone until the server that has the last word says so.
"""

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.crossing import manifest
from agents.executor.crossing.restrict import class_needed
from agents.executor.intents.claim import objection
from agents.executor.intents.delegate import delegate_name
from agents.executor.intents.existing_delegate import Ownership, ownership, unbound_version
from agents.executor.objects import pods, source_manifest
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.pods import Lookup
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer, outcome
from shared.messages import (
    DONE,
    STALE,
    UNKNOWN,
    Claim,
    ConfirmNoDelegate,
    ConfirmNoSource,
    Outcome,
    PodRef,
)
from shared.model.pod import SourceRef
from shared.security.signatures import MAX_MARK, Preemptor


def confirm_no_delegate(intent: ConfirmNoDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """GET the delegate by its name. Verdicts: done, it does not exist, or with `ended` has ended or
    is being deleted, and the outcome says which; stale, it exists (an unbound one, or with
    `collect` any, is deleted first); unknown, the API server or the keys of the home cluster are
    not available.
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
        return outcome(
            intent, UNKNOWN, f"pod {intent.source.namespace}/{name} is there, and {keys}"
        )
    if intent.ended and look.pod.end:
        return msgspec.structs.replace(
            outcome(intent, DONE), end=look.pod.end, delegate_uid=look.pod.uid
        )
    if look.pod.terminating:
        return outcome(intent, STALE, f"pod {intent.source.namespace}/{name} is being deleted")
    if look.pod.node and not intent.collect:
        return outcome(intent, STALE, f"pod {intent.source.namespace}/{name} is there")
    ref = PodRef(intent.source.namespace, name, look.pod.uid)
    deleted = yield from delete_exactly(ref, version=unbound_version(look.pod))
    message = deleted.message or f"pod {intent.source.namespace}/{name} is being deleted"
    return outcome(intent, *Answer(STALE if deleted.verdict == DONE else deleted.verdict, message))


def confirm_no_source(intent: ConfirmNoSource, local: Local, now: Moment) -> Procedure[Outcome]:
    """GET the source by name and UID. Verdicts: done, it does not exist; stale, it does; unknown,
    no answer came.

    Of one for which pods elsewhere are to be evicted: done, it waits for a place there, signed;
    stale, it does not.
    """
    ref = intent.pod
    look = yield from pods.look_up(ref.namespace, ref.name)
    if not look.answered:
        return outcome(intent, UNKNOWN, look.problem)
    if intent.preempts:
        return (yield from _preemptor(intent, look, local, now))
    if look.pod is None or look.differs(ref.uid):
        return outcome(intent, DONE)
    return outcome(intent, STALE, f"pod {ref.namespace}/{ref.name} is there")


def _preemptor(
    intent: ConfirmNoSource, look: Lookup, local: Local, now: Moment
) -> Procedure[Outcome]:
    """Whether a pod, as just read, may go to the cluster where others are to be evicted for it;
    signed if it may.
    """
    ref = intent.pod
    target = intent.preempts
    no = objection(look.pod, Claim(intent.id, ref, intent.epoch, target, ""), local)
    if no is not None:
        return outcome(intent, UNKNOWN if no.verdict == UNKNOWN else STALE, no.message)
    assert look.pod is not None  # noqa: S101 - objection() answers for a missing pod
    if not look.pod.preempts:
        return outcome(
            intent,
            STALE,
            f"pod {ref.namespace}/{ref.name} preempts nobody: preemptionPolicy is Never",
        )
    try:
        crosses = yield from source_manifest.for_another_cluster(
            look.body, ref.namespace, target, local, now
        )
    except manifest.ManifestError as error:
        return outcome(intent, STALE, str(error))
    source = SourceRef(
        local.cluster, local.cluster_uid, ref.namespace, ref.name, ref.uid, intent.epoch
    )
    named = next((one.word for one in class_needed(msgspec.json.decode(crosses))), "")
    requests = local.read_pod(look.body).requests
    mark = local.keys.sign_preemptor(
        Preemptor(source, target, look.pod.spec.priority, named, requests)
    )
    if len(mark) > MAX_MARK:
        said = (
            f"pod {ref.namespace}/{ref.name} requests so many resources that its own cluster "
            "cannot sign them"
        )
        return outcome(intent, STALE, said)
    return msgspec.structs.replace(outcome(intent, DONE), record=mark, manifest=crosses)
