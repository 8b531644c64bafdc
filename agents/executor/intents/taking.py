"""Whether this cluster would take a pod for which others are to be evicted: asked before they are.

All that is looked at before a delegate is made is looked at here, but for room, which the others
still have; and the API server is asked to make it without keeping it (dry run), so admission, its
webhooks and ResourceQuotas have their say. What was found is good for that moment alone, as the
order to make the delegate looks again.
"""

from agents.executor.context.local import Local, Moment
from agents.executor.crossing.policy import absent
from agents.executor.intents import delegate, existing_delegate
from agents.executor.objects import mutations, pods, services, target_needs
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, error_text
from shared.messages import OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate, Evict, PodRef
from shared.model.pod import SourceRef

_DRY_RUN = "?dryRun=All"


def objection(intent: Evict, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Why it would not take the pod, UNKNOWN if that could not be learnt; None if it would, or has
    it already.
    """
    source = intent.source
    if source is None or not intent.manifest:
        return None
    ref = PodRef(source.namespace, source.name, source.uid)
    order = CreateDelegate(
        "", ref, intent.epoch, source, intent.node, intent.manifest, services=intent.services
    )
    wanted = delegate.crossing(order, local, now)
    if isinstance(wanted, Answer):
        return _about(source, wanted)
    pod, body = wanted
    if local.view.pod_by_name(pod.namespace, pod.name) is not None:
        look = yield from pods.look_up(pod.namespace, pod.name)
        there = (
            existing_delegate.answer_for(look.pod, pod.name, order, local)
            if look.pod is not None
            else None
        )
        return _about(source, there) if there is not None and there.verdict == REFUSED else None
    no = delegate.unfit_without_room(pod, body, order, local, now)
    sought = delegate.sought(wanted, order, local, now) if no is None else []
    if isinstance(sought, Answer):
        no = sought
    elif sought:
        lacking = yield from target_needs.missing(sought, local, now)
        no = Answer(REFUSED, lacking, OF_CLUSTER) if lacking else None
    if no is None:
        no = yield from services.objection(order, local)
    if no is None:
        most = local.policy.grants(source).max_priority
        no = yield from _tried(pod.namespace, body, most, local)
    return _about(source, no) if no is not None else None


def _about(source: SourceRef, no: Answer) -> Answer:
    """Nobody is evicted for it in the whole cluster: no other node of it has another policy."""
    name = f"{source.namespace}/{source.name} of cluster {source.cluster}"
    return no._replace(message=f"it would not take pod {name}: {no.message}", scope=OF_CLUSTER)


def _tried(
    namespace: str, body: bytes, most_priority: int, local: Local
) -> Procedure[Answer | None]:
    request = Request("POST", pods.collection(namespace) + _DRY_RUN, body)
    message = ""
    for _ in range(TRIES):
        response = yield request
        made = pods.read(response.body) if response.ok else None
        if made is not None:
            changed = mutations.unusable(body, made, response.body, most_priority)
            return Answer(REFUSED, changed) if changed else None
        message = error_text(response)
        if response.status == CONFLICT:
            return None
        if response.status == NOT_FOUND:
            return Answer(REFUSED, absent(namespace, local.cluster))
        if response.status not in POSTPONED and not response.unknown and not response.ok:
            return Answer(REFUSED, message, passing=response.passing)
    return Answer(UNKNOWN, message)
