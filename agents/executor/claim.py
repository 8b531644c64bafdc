"""Claim and unclaim: our mark on a source pod that another cluster shall run.

The mark is annotations (cluster, node, attempt) and a finalizer in one merge patch, guarded by UID and resourceVersion:
of two who write at the same time, one gets 409.
"""

from agents.executor import manifest, pods
from agents.executor.answer import NOT_FOUND, TRIES, Answer, open_question, outcome, said
from agents.executor.http import Procedure, Request
from agents.executor.local import Local, Moment
from agents.executor.pods import Truth, guarded_patch, without_ours
from dispatcher.model import names
from dispatcher.model.messages import CLAIMED, DONE, REFUSED, STALE, UNKNOWN, Claim, Outcome, PodRef, Unclaim


def claim(intent: Claim, local: Local, now: Moment) -> Procedure[Outcome]:
    """Read the pod, mark it, and answer with the manifest that its delegate shall have."""
    problem = ""
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if not look.answered:
            return outcome(intent, UNKNOWN, look.problem)
        wrong = unfit(look.pod, intent.pod) or _taken(look.pod, intent)
        if wrong is not None:
            return outcome(intent, *wrong)
        assert look.pod is not None  # noqa: S101 - unfit() answers for a missing pod
        try:
            sanitised = manifest.sanitise(look.body)
        except manifest.ManifestError as error:
            return outcome(intent, REFUSED, str(error))
        if _already(look.pod, intent):
            return outcome(intent, CLAIMED, manifest=sanitised)
        response = yield _mark(look.pod, intent)
        if response.ok:
            return outcome(intent, CLAIMED, manifest=sanitised)
        problem = said(response)
        if not open_question(response):
            return outcome(intent, STALE if response.status == NOT_FOUND else REFUSED, problem)
    return outcome(intent, UNKNOWN, problem)


def unclaim(intent: Unclaim, local: Local, now: Moment) -> Procedure[Outcome]:
    """Take the mark off, unless the pod is bound meanwhile or claimed by a newer attempt."""
    problem = ""
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
        if not look.answered:
            return outcome(intent, UNKNOWN, look.problem)
        if look.pod is None or look.differs(intent.pod.uid):
            return outcome(intent, DONE, "the pod is gone")
        wrong = _keeps(look.pod, intent)
        if wrong is not None:
            return outcome(intent, *wrong)
        response = yield _unmark(look.pod, intent.pod)
        if response.ok or response.status == NOT_FOUND:
            return outcome(intent, DONE)
        problem = said(response)
        if not open_question(response):
            return outcome(intent, REFUSED, problem)
    return outcome(intent, UNKNOWN, problem)


def unfit(pod: Truth | None, ref: PodRef) -> Answer | None:
    """Why the truth forbids a claim; None if it does not."""
    name = f"pod {ref.namespace}/{ref.name}"
    if pod is None or pod.uid != ref.uid:
        return Answer(STALE, f"{name} with UID {ref.uid} is not there")
    if pod.node:
        return Answer(STALE, f'{name} is bound to node "{pod.node}"')
    if pod.terminating or pod.terminal:
        return Answer(STALE, f"{name} {'is being deleted' if pod.terminating else 'has ended'}")
    if not names.is_ours(pod.spec.scheduler_name):
        return Answer(REFUSED, f'{name} belongs to scheduler "{pod.spec.scheduler_name}"')
    return None


def _taken(pod: Truth | None, intent: Claim) -> Answer | None:
    claimed = pod.claim if pod else None
    if claimed is None:
        return None
    if claimed.epoch > intent.epoch:
        return Answer(STALE, f"claimed by the newer attempt {claimed.epoch}")
    if (claimed.cluster, claimed.node) != (intent.cluster, intent.node):
        return Answer(STALE, f"claimed for {claimed.cluster}/{claimed.node} by attempt {claimed.epoch}")
    return None


def _already(pod: Truth, intent: Claim) -> bool:
    return pod.claim is not None and pod.claim.epoch == intent.epoch


def _keeps(pod: Truth, intent: Unclaim) -> Answer | None:
    if pod.node:
        return Answer(STALE, f'bound to node "{pod.node}": a bound pod keeps its claim until it ends')
    if pod.claim is not None and pod.claim.epoch > intent.epoch:
        return Answer(STALE, f"claimed by the newer attempt {pod.claim.epoch}")
    marked = names.FINALIZER in pod.finalizers or names.CLAIM_CLUSTER in pod.annotations
    return None if marked else Answer(DONE)


def _mark(pod: Truth, intent: Claim) -> Request:
    annotations = {
        names.CLAIM_CLUSTER: intent.cluster,
        names.CLAIM_NODE: intent.node,
        names.EPOCH: str(intent.epoch),
    }
    finalizers = (*(name for name in pod.finalizers if name != names.FINALIZER), names.FINALIZER)
    return guarded_patch(intent.pod, pod, {"annotations": annotations, "finalizers": finalizers})


def _unmark(pod: Truth, ref: PodRef) -> Request:
    annotations = {names.CLAIM_CLUSTER: None, names.CLAIM_NODE: None}
    return guarded_patch(ref, pod, {"annotations": annotations, "finalizers": without_ours(pod)})
