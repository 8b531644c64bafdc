"""Delegates: the runnable copy of a source pod of another cluster, made and deleted here.

The name is derived from the UIDs of the source cluster and pod, never generated: however often and in whatever order
the order to make one arrives, the API server lets one exist.
"""

import hashlib

import msgspec

from agents.executor import events, manifest, pods
from agents.executor.answer import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, outcome, said
from agents.executor.bind import booking
from agents.executor.binding import annotations_of, bind_to, foreign_key
from agents.executor.deletion import delete_exactly
from agents.executor.http import Procedure, Request
from agents.executor.local import Local, Moment
from agents.executor.pods import Truth
from agents.executor.recheck import refusal
from dispatcher.model import names
from dispatcher.model.messages import (
    BOUND,
    DONE,
    REFUSED,
    STALE,
    UNKNOWN,
    CreateDelegate,
    DeleteDelegate,
    Outcome,
    PodRef,
)
from dispatcher.model.pod import Pod, SourceRef

_DIGEST = 10  # hex characters: 40 bits; a collision is refused, never adopted
_MAX_NAME = 63  # so that it is a valid hostname too


def delegate_name(source: SourceRef) -> str:
    """DNS-safe '<source name, cut>-<10 hex characters of sha256(source cluster UID / source UID)>'."""
    digest = hashlib.sha256(f"{source.cluster_uid}/{source.uid}".encode()).hexdigest()[:_DIGEST]
    head = source.name.replace(".", "-")[: _MAX_NAME - _DIGEST - 1].strip("-")
    return f"{head or 'pod'}-{digest}"


def create_delegate(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Check consent, manifest and room; create the delegate or find it; bind it.

    Refused means that the server has none: the dispatcher takes its claim back then, and places the pod elsewhere.
    """
    no = _muddled(intent, local)
    if no:
        return outcome(intent, REFUSED, no)
    wanted = _wanted(intent, local, now)
    if isinstance(wanted, str):
        answer = yield from _refused(intent, wanted)
    else:
        pod, body = wanted
        local.ledger.book(booking(pod, "", intent.node, now))
        answer = yield from _create_and_bind(intent, pod, body, local, now)
    if answer != Answer(BOUND) and answer.verdict != UNKNOWN:
        local.ledger.drop(intent.source.namespace, delegate_name(intent.source))
    return outcome(intent, *answer)


def delete_delegate(intent: DeleteDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Delete a delegate with its own grace period; a pod that is not a delegate is refused."""
    ref = intent.pod
    known = local.view.pod(ref.uid)
    if known is None or not _is_delegate(known.labels):
        look = yield from pods.look_up(ref.namespace, ref.name)
        if look.differs(ref.uid):
            return outcome(intent, DONE)
        if look.pod is None:
            return outcome(intent, UNKNOWN, look.problem)
        if not _is_delegate(look.pod.labels):
            return outcome(intent, REFUSED, f"pod {ref.namespace}/{ref.name} is not a delegate: not ours to delete")
    elif known.terminating:
        return outcome(intent, DONE)
    answer = yield from delete_exactly(ref)
    return outcome(intent, *answer)


def _is_delegate(labels: dict[str, str]) -> bool:
    return labels.get(names.DELEGATE_LABEL) == "true"


def _muddled(intent: CreateDelegate, local: Local) -> str:
    """Why this is no order that could ever have made a delegate."""
    source = intent.source
    if (source.uid, source.namespace, source.name) != (intent.pod.uid, intent.pod.namespace, intent.pod.name):
        return f"the order is about pod {intent.pod.namespace}/{intent.pod.name} but its source is another pod"
    if source.cluster == local.cluster or (local.cluster_uid and source.cluster_uid == local.cluster_uid):
        return f'cluster "{local.cluster}" is the source itself: bind the pod there instead'
    key = foreign_key(intent.annotations)
    return f'annotation "{key}" is not ours to write' if key else ""


def _wanted(intent: CreateDelegate, local: Local, now: Moment) -> tuple[Pod, bytes] | str:
    """The delegate, as a model and as JSON; or why none is to be made of this order."""
    no = local.policy.refusal(intent.source, local.cluster)
    if no:
        return no
    try:
        made = _delegate_object(intent)
    except manifest.ManifestError as error:
        return str(error)
    pod = local.read_pod(_with_uid(made, intent.source.uid))
    return _no_place(pod, intent, local, now) or (pod, msgspec.json.encode(made))


def _no_place(pod: Pod, intent: CreateDelegate, local: Local, now: Moment) -> str:
    if pod.problems:
        return f"the delegate's manifest cannot be read: {pod.problems[0]}"
    if local.view.pod_by_name(pod.namespace, pod.name) is not None:
        return ""  # it may be on the node already, and would not fit beside itself; looked at again before a bind
    return refusal(pod, intent.node, local, now)


def _delegate_object(intent: CreateDelegate) -> manifest.Object:
    """The delegate as it is posted: the manifest sanitised again, for the sender is not trusted, and our marks."""
    source = intent.source
    clean = msgspec.json.decode(manifest.sanitise(intent.manifest))
    metadata = clean["metadata"]
    marks = {
        names.SOURCE_CLUSTER: source.cluster,
        names.SOURCE_CLUSTER_UID: source.cluster_uid,
        names.SOURCE_NAMESPACE: source.namespace,
        names.SOURCE_NAME: source.name,
        names.SOURCE_UID: source.uid,
    }
    metadata["name"], metadata["namespace"] = delegate_name(source), source.namespace
    metadata["labels"] = {**metadata["labels"], names.DELEGATE_LABEL: "true"}
    metadata["annotations"] = {**metadata["annotations"], **annotations_of(intent.epoch, intent.annotations), **marks}
    return {"apiVersion": "v1", "kind": "Pod", **clean}


def _with_uid(pod: manifest.Object, uid: str) -> bytes:
    # What has no UID is no pod to a reader; the delegate's own is not known before it is made.
    return msgspec.json.encode({**pod, "metadata": {**pod["metadata"], "uid": uid}})


def _create_and_bind(intent: CreateDelegate, pod: Pod, body: bytes, local: Local, now: Moment) -> Procedure[Answer]:
    found = yield from _create(intent, pod, body, local)
    if isinstance(found, Answer):
        return found
    if found.node or found.terminal:
        return _bound_at(found.node, intent.node)
    ref = PodRef(namespace=pod.namespace, name=pod.name, uid=found.uid)
    # Asked again: a delegate that was found, not made, has not been looked at yet.
    no = refusal(pod, intent.node, local, now)
    answer = Answer(REFUSED, no) if no else (yield from bind_to(ref, intent.node, _marks(intent)))
    if answer.verdict == REFUSED:
        return (yield from _taken_back(ref, answer.message))
    if answer.verdict == STALE:
        look = yield from pods.look_up(ref.namespace, ref.name)
        if not look.answered:
            return Answer(UNKNOWN, look.problem)
        if look.pod is not None and look.pod.uid == ref.uid and look.pod.node:
            return _bound_at(look.pod.node, intent.node)
    if answer.verdict == BOUND:
        events.scheduled(local, ref, f"{local.cluster}/{intent.node}", now)
    return answer


def _refused(intent: CreateDelegate, why: str) -> Procedure[Answer]:
    """Refused, unless this order, sent before, has made the delegate already: the view may not show it yet."""
    namespace, name = intent.source.namespace, delegate_name(intent.source)
    look = yield from pods.look_up(namespace, name)
    if look.pod is None:
        return Answer(REFUSED, why) if look.answered else Answer(UNKNOWN, look.problem)
    found = _adopt(look.pod, intent)
    if isinstance(found, Answer):
        return found
    if found.node or found.terminal:
        return _bound_at(found.node, intent.node)
    return (yield from _taken_back(PodRef(namespace, name, found.uid), why))


def _taken_back(ref: PodRef, why: str) -> Procedure[Answer]:
    """Refused once the delegate, which has no node, is gone."""
    deleted = yield from delete_exactly(ref, 0)
    return Answer(REFUSED, why) if deleted.verdict == DONE else Answer(UNKNOWN, deleted.message)


def _marks(intent: CreateDelegate) -> dict[str, str]:
    return annotations_of(intent.epoch, intent.annotations)


def _bound_at(node: str, wanted: str) -> Answer:
    return Answer(BOUND, "" if node == wanted else f'an earlier attempt bound it to node "{node}"')


def _create(intent: CreateDelegate, pod: Pod, body: bytes, local: Local) -> Procedure[Truth | Answer]:
    """The delegate as the server has it, or why there is none."""
    request = Request("POST", pods.collection(pod.namespace), body)
    message = ""
    for _ in range(TRIES):
        response = yield request
        created = pods.read(response.body) if response.ok else None
        if created is not None:
            return created
        message = said(response)
        if response.status == NOT_FOUND:
            return Answer(REFUSED, _no_namespace(pod.namespace, local.cluster))
        if response.status in POSTPONED:
            continue
        if response.status != CONFLICT and not response.unknown and not response.ok:
            return (yield from _refused(intent, message))
        look = yield from pods.look_up(pod.namespace, pod.name)
        if look.pod is not None:
            return _adopt(look.pod, intent)
        if not look.answered:
            return Answer(UNKNOWN, look.problem)
    return Answer(UNKNOWN, message)


def _no_namespace(namespace: str, cluster: str) -> str:
    return f'namespace "{namespace}" does not exist in cluster "{cluster}": create it there to let its pods run there'


def _adopt(found: Truth, intent: CreateDelegate) -> Truth | Answer:
    source = intent.source
    name = f"pod {source.namespace}/{delegate_name(source)}"
    origin = (found.annotations.get(names.SOURCE_CLUSTER_UID), found.annotations.get(names.SOURCE_UID))
    if not _is_delegate(found.labels) or origin != (source.cluster_uid, source.uid):
        return Answer(
            REFUSED, f"{name} exists and is not the delegate of {source.cluster} {source.namespace}/{source.name}"
        )
    if found.terminating:
        return Answer(STALE, f"{name} is being deleted")
    if found.epoch > intent.epoch:
        return Answer(STALE, f"{name} belongs to the newer attempt {found.epoch}")
    return found
