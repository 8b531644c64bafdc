"""Bind: a pod of this cluster to a node of it, or a claimed source pod to the proxy node of its new
cluster.
"""

from agents.executor.context.ledger import HOLD_S, PendingRequests
from agents.executor.context.local import Local, Moment
from agents.executor.objects import events, pods
from agents.executor.objects.binding import annotations_of, bind_to, bind_unclaimed, foreign_key
from agents.executor.objects.recheck import refusal
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer, outcome
from shared.messages import BOUND, OF_NODE, REFUSED, STALE, UNKNOWN, Bind, Outcome, PodRef
from shared.model import names
from shared.model.names import CLAIM_NODE, SCHEDULER_NAME, is_ours
from shared.model.pod import Pod


def bind(intent: Bind, local: Local, now: Moment) -> Procedure[Outcome]:
    """Check pod and node once more against the watch cache, then post the binding."""
    pod = local.view.pod(intent.pod.uid)
    early = unfit(pod, intent.pod, intent.node) or _forbidden(intent, pod)
    if early is not None:
        return outcome(intent, *early)
    assert pod is not None  # noqa: S101 - unfit() answers for a missing pod
    if intent.proxy and (word := local.fenced(intent.node)):
        return outcome(intent, STALE, word)
    why = (
        _proxy_refusal(intent, local, now)
        if intent.proxy
        else refusal(pod, intent.node, local, now)
    )
    if why:
        return outcome(intent, REFUSED, why, OF_NODE)
    if intent.proxy and (no := (yield from _unclaimed(intent, pod, local))) is not None:
        return outcome(intent, *no)
    if not intent.proxy:
        local.ledger.book(booking(pod, pod.uid, intent.node, now))
    annotations = annotations_of(intent.epoch, intent.annotations)
    if intent.proxy:
        answer = yield from bind_to(intent.pod, intent.node, annotations)
    else:
        version = local.view.pod_version(pod.uid)
        answer = yield from bind_unclaimed(
            intent.pod, intent.node, annotations, version, local.keys.public
        )
    if answer.verdict not in (BOUND, UNKNOWN):
        local.ledger.drop(pod.namespace, pod.name)
    if answer.verdict == BOUND:
        events.scheduled(local, intent.pod, _where(intent, pod, local), now)
    return outcome(intent, *answer)


def booking(pod: Pod, uid: str, node: str, now: Moment) -> PendingRequests:
    """A booking of the pod's requests on `node`, held until the watch cache shows the pod there."""
    return PendingRequests(
        pod.namespace, pod.name, uid, node, pod.requests, pod.ports, now.mono + HOLD_S
    )


def unfit(pod: Pod | None, ref: PodRef, node: str) -> Answer | None:
    """The verdict of a bind that the watch cache alone decides (pod gone, bound, terminating, not
    ours), or None.
    """
    name = f"pod {ref.namespace}/{ref.name}"
    if pod is None or (pod.namespace, pod.name) != (ref.namespace, ref.name):
        return Answer(STALE, f"{name} with UID {ref.uid} is not there")
    if pod.node:
        return (
            Answer(BOUND)
            if pod.node == node
            else Answer(STALE, f'{name} is bound to node "{pod.node}"')
        )
    if pod.terminating or pod.terminal:
        return Answer(STALE, f"{name} {'is being deleted' if pod.terminating else 'has ended'}")
    if not is_ours(pod.scheduler_name):
        return Answer(
            REFUSED,
            f'{name} belongs to scheduler "{pod.scheduler_name}", not to "{SCHEDULER_NAME}"',
        )
    return None


def _forbidden(intent: Bind, pod: Pod | None) -> Answer | None:
    if pod is not None and pod.claim is not None and not intent.proxy:
        return Answer(STALE, f'pod {pod.key} is claimed for cluster "{pod.claim.cluster}"')
    if pod is not None and pod.gated:
        return Answer(STALE, f"pod {pod.key} has scheduling gates")
    key = foreign_key(intent.annotations)
    return Answer(REFUSED, f'annotation "{key}" is not ours to write') if key else None


def _proxy_refusal(intent: Bind, local: Local, now: Moment) -> str:
    if not local.behind(intent.node):
        return f'"{intent.node}" is not a proxy node of cluster "{local.cluster}"'
    return local.peers.unready(intent.node, now.mono)


def _unclaimed(intent: Bind, pod: Pod, local: Local) -> Procedure[Answer | None]:
    """Why a pod must not be bound to a proxy node: it has no claim of ours for that cluster. None
    if it has.
    """
    if pod.claim is not None and names.proxy_node_name(pod.claim.cluster) == intent.node:
        return None
    look = yield from pods.look_up(pod.namespace, pod.name)  # the view may not show the claim yet
    if not look.answered:
        return Answer(UNKNOWN, look.problem)
    signed = (
        look.pod.claimed(local.keys.public)
        if look.pod is not None and look.pod.uid == pod.uid
        else None
    )
    if signed is not None and names.proxy_node_name(signed.target) == intent.node:
        return None
    return Answer(STALE, f'pod {pod.key} has no claim of this cluster for "{intent.node}"')


def _where(intent: Bind, pod: Pod, local: Local) -> str:
    if not intent.proxy:
        return f"{local.cluster}/{intent.node}"
    node = intent.annotations.get(CLAIM_NODE) or (pod.claim.node if pod.claim else "")
    peer = local.peers.last_word(intent.node)
    return f"{peer.cluster if peer else intent.node}/{node}".rstrip("/")
