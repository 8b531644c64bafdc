"""CreateDelegate and DeleteDelegate: the runnable copy, in this cluster, of a source pod of another
cluster.

Its name is a hash of the UIDs of source cluster and source pod. So CreateDelegate is idempotent:
the API server answers 409 to a second POST of the same name, whatever was lost, doubled or
reordered on the way.
"""

import hashlib
from typing import NamedTuple

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.crossing import downward, live, manifest
from agents.executor.crossing.fields import Object
from agents.executor.crossing.policy import absent
from agents.executor.crossing.restrict import Copied, restrict
from agents.executor.intents import existing_delegate
from agents.executor.intents.bind import booking
from agents.executor.objects import (
    accounts,
    adoption,
    copies,
    copy_objects,
    events,
    followers,
    made_namespaces,
    mutations,
    pods,
    services,
    target_needs,
)
from agents.executor.objects.binding import annotations_of, bind_to, foreign_key
from agents.executor.objects.deletion import delete_exactly
from agents.executor.objects.kinds import CONFIG_MAP, KINDS, SECRETS
from agents.executor.objects.pods import LivePod
from agents.executor.objects.recheck import refusal, reserved
from agents.executor.objects.target_needs import NeededConfigMap
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, error_text, outcome
from shared.messages import (
    BOUND,
    DONE,
    OF_CLUSTER,
    OF_NODE,
    REFUSED,
    STALE,
    UNKNOWN,
    CreateDelegate,
    DeleteDelegate,
    Outcome,
    PodRef,
    UpdateDelegate,
)
from shared.model import names
from shared.model.leases import LEASE
from shared.model.pod import Pod, SourceRef, least_grace
from shared.security import signatures

_DIGEST = 10  # hex characters: 40 bits; a collision is refused, never adopted
_MAX_NAME = 63  # so that it is a valid hostname too


class _Made(NamedTuple):
    """A delegate as admission has left it: the fields that the protocol reads, and the whole JSON."""

    pod: LivePod
    body: bytes


class _Result(NamedTuple):
    """An answer; `requests` are the delegate's effective requests where admission has changed them,
    else None. `uid`: of a delegate that is left unbound.
    """

    answer: Answer
    requests: dict[str, int] | None = None
    uid: str = ""


def delegate_name(source: SourceRef) -> str:
    """DNS-safe '<source name, cut>-<10 hex characters of sha256(source cluster UID / source UID)>'."""
    digest = hashlib.sha256(f"{source.cluster_uid}/{source.uid}".encode()).hexdigest()[:_DIGEST]
    head = source.name.replace(".", "-")[: _MAX_NAME - _DIGEST - 1].strip("-")
    return f"{head or 'pod'}-{digest}"


def create_delegate(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Check signature, policy, manifest and room; create the delegate, or adopt the one of an
    earlier attempt; bind it.

    REFUSED promises that no delegate exists: the dispatcher unclaims the pod and places it
    elsewhere.
    """
    no = _malformed(intent, local)
    if no:
        return outcome(intent, *no)
    order = (
        unsigned(intent, local)
        or _lapsed(intent, local, now)
        or existing_delegate.given_up_before(intent, local)
    )
    wanted = order or _wanted(intent, local, now)
    wanted = yield from _housed(wanted, intent, local, now)
    needed = sought(wanted, intent, local, now)
    if isinstance(needed, Answer):
        wanted = needed
    elif needed or (not isinstance(wanted, Answer) and _brings(intent, local, now)):
        wanted = yield from _with_objects(intent, needed, local, now)
    if isinstance(wanted, Answer):
        unheard = wanted.verdict == UNKNOWN
        result = _Result(wanted if unheard else (yield from _refused(intent, wanted, local)))
    else:
        pod, body = wanted
        local.ledger.book(booking(pod, "", intent.node, now))
        result = yield from _create_and_bind(intent, pod, body, local, now)
    answer = result.answer
    if answer != Answer(BOUND) and answer.verdict != UNKNOWN and not result.uid:
        local.ledger.drop(intent.source.namespace, delegate_name(intent.source))
    return msgspec.structs.replace(
        outcome(intent, *answer), requests=result.requests or {}, delegate_uid=result.uid
    )


def _brings(intent: CreateDelegate, local: Local, now: Moment) -> bool:
    """Whether something is to be here before it."""
    return services.wanted(intent, local) or bool(copies.followers_here(intent, local, now))


def _with_objects(
    intent: CreateDelegate, needed: list[NeededConfigMap], local: Local, now: Moment
) -> Procedure[tuple[Pod, bytes] | Answer]:
    """What is to be made, once what it names is here: what the cluster must have itself, and
    copies. Where no copies can be written, the first is all of it.
    """
    namespace = intent.source.namespace
    lacking = yield from target_needs.missing(needed, local, now)
    if not lacking and (unserved := (yield from services.bring(intent, local, now))) is not None:
        return unserved
    problem = None if lacking else (yield from _brought(intent, local, now))
    if problem is not None:
        return problem
    barred = local.copies.barred(CONFIG_MAP.word, namespace, now.mono)
    wanted = _wanted(intent, local, now)  # others may have taken the room meanwhile
    if barred and not lacking:  # also by what befell another pod meanwhile: nothing is renamed now
        needed_now = sought(wanted, intent, local, now)
        if isinstance(needed_now, Answer):
            return needed_now
        lacking = yield from target_needs.missing(needed_now, local, now)
    if lacking:
        return Answer(REFUSED, f"{lacking}; {barred}" if barred else lacking, OF_CLUSTER)
    return wanted


def _brought(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Answer | None]:
    """The copies of its followers are here; what is of a kind that cannot be written is none."""
    problem = None
    for _ in KINDS:
        before = copies.followers_here(intent, local, now)
        problem = yield from copies.bring(intent, local, now)
        if copies.followers_here(intent, local, now) == before:
            break
    return problem


def overtaken(intent: CreateDelegate, why: str, local: Local) -> Procedure[Outcome]:
    """The outcome of a CreateDelegate whose attempt is over, or superseded: stale if the API server
    has no delegate, else by the delegate that exists. Once no attempt goes on with it, one that
    nobody has signed for is deleted first: a POST that was given up because it hung may still land,
    long after.
    """
    name = delegate_name(intent.source)
    if local.epoch_guard.is_over(intent.pod.uid, intent.epoch):
        there = yield from existing_delegate.cleared(name, intent, local)
        return outcome(intent, *(there or Answer(STALE, why)))
    look = yield from pods.look_up(intent.source.namespace, name)
    if look.pod is None:
        return (
            outcome(intent, STALE, why)
            if look.answered
            else outcome(intent, UNKNOWN, f"{why}; {look.problem}")
        )
    return outcome(intent, *existing_delegate.answer_for(look.pod, name, intent, local))


def delete_delegate(intent: DeleteDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Delete a delegate, which ends in the time that its source has; refused: no delegate, or
    another source's.
    """
    ref = intent.pod
    known = local.view.pod(ref.uid)
    source = known.source if known is not None else None
    if source is None:
        look = yield from pods.look_up(ref.namespace, ref.name)
        if look.differs(ref.uid):
            return outcome(intent, DONE)
        if look.pod is None:
            return outcome(intent, UNKNOWN, look.problem)
        signed = look.pod.delegated(local.keys.public)
        if signed is None:
            return outcome(
                intent,
                REFUSED,
                f"pod {ref.namespace}/{ref.name} is not a delegate: not ours to delete",
            )
        source = signed.source
    if _is_another(intent.source, source):
        whose = (
            f"{source.cluster} {source.namespace}/{source.name}, and the order is about another "
            "pod's"
        )
        return outcome(
            intent, REFUSED, f"pod {ref.namespace}/{ref.name} is the delegate of {whose}"
        )
    if known is not None and known.source is not None and known.ends_within(intent.grace_s):
        return outcome(intent, DONE)
    answer = yield from delete_exactly(
        ref, least_grace(intent.grace_s) if intent.grace_s >= 0 else None
    )
    return outcome(intent, *answer)


def _is_another(named: SourceRef | None, source: SourceRef) -> bool:
    """Whether the order names another source: of any attempt, for a later one may have found the
    delegate.
    """
    return named is not None and (named.cluster_uid, named.uid) != (source.cluster_uid, source.uid)


def _malformed(intent: CreateDelegate, local: Local) -> Answer | None:
    """Why the intent is malformed, so that it can never have made a delegate; None if it is not."""
    source = intent.source
    key = foreign_key(intent.annotations)
    if (source.uid, source.namespace, source.name) != (
        intent.pod.uid,
        intent.pod.namespace,
        intent.pod.name,
    ):
        name = f"{intent.pod.namespace}/{intent.pod.name}"
        return Answer(REFUSED, f"the order is about pod {name} but its source is another pod")
    if source.cluster == local.cluster or (
        local.cluster_uid and source.cluster_uid == local.cluster_uid
    ):
        return Answer(
            REFUSED, f'cluster "{local.cluster}" is the source itself: bind the pod there instead'
        )
    return Answer(REFUSED, f'annotation "{key}" is not ours to write') if key else None


def unsigned(intent: CreateDelegate | UpdateDelegate, local: Local) -> Answer | None:
    """Why the signed claim does not cover this intent, None if it does; UNKNOWN while the home
    cluster's keys are.
    """
    keys = local.trusted.of(intent.source.cluster_uid)
    if another := local.trusted.another(intent.source.cluster, intent.source.cluster_uid):
        return Answer(REFUSED, another, OF_CLUSTER)
    if not keys:
        return Answer(
            UNKNOWN, f'the keys of cluster "{intent.source.cluster}" are not known here yet'
        )
    if local.trusted.name_of(intent.source.cluster_uid) != intent.source.cluster:
        return Answer(
            REFUSED,
            f'cluster "{intent.source.cluster}" is known here under another name',
            OF_CLUSTER,
        )
    signed = signatures.read_claim(intent.record)
    if signed is None or not signatures.is_claim_of(keys, intent.record):
        return Answer(
            REFUSED, f'cluster "{intent.source.cluster}" has signed no such claim', OF_CLUSTER
        )
    place = (signed.target, signed.node) == (local.cluster, intent.node)
    here = signed.target_uid in ("", local.cluster_uid)
    content = signed.source == intent.source and signed.digest == signatures.digest_of(
        intent.manifest
    )
    if place and here and content:
        return None
    return Answer(
        REFUSED,
        f'the claim that cluster "{intent.source.cluster}" has signed is for another order',
        OF_CLUSTER,
    )


def _lapsed(intent: CreateDelegate, local: Local, now: Moment) -> Answer | None:
    """UNKNOWN for failover mode `lease` while the lease has lapsed: the delegate would be stopped
    at once.
    """
    why = local.renewals.lapsed(now.mono) if existing_delegate.failover_of(intent) == LEASE else ""
    return Answer(UNKNOWN, why) if why else None


def _wanted(intent: CreateDelegate, local: Local, now: Moment) -> tuple[Pod, bytes] | Answer:
    """The delegate to create, as a model and as JSON; or why policy, manifest or node forbid it."""
    found = crossing(intent, local, now)
    if isinstance(found, Answer):
        return found
    return (
        _no_place(found[0], intent, local, now)
        or _too_many_bytes(*found, intent, local, now)
        or found
    )


def crossing(intent: CreateDelegate, local: Local, now: Moment) -> tuple[Pod, bytes] | Answer:
    """The delegate as this cluster's policy lets it in; or why that, or the manifest, forbids it."""
    no = local.policy.refusal(
        intent.source, local.cluster, local.view.namespace(intent.source.namespace)
    )
    if no:
        return Answer(REFUSED, no, OF_CLUSTER)
    try:
        posted = _delegate_object(intent, local, now)
    except manifest.ManifestError as error:
        return Answer(REFUSED, str(error), OF_CLUSTER)
    pod = local.read_pod(_with_uid(posted, intent.source.uid))
    if taker := adoption.adopter(pod, local):
        return Answer(REFUSED, taker, OF_CLUSTER)
    return pod, msgspec.json.encode(posted)


def _housed(
    wanted: tuple[Pod, bytes] | Answer, intent: CreateDelegate, local: Local, now: Moment
) -> Procedure[tuple[Pod, bytes] | Answer]:
    """The same once its namespace is here, and the account that it runs as; or why they are not.

    Others may take the room meanwhile.
    """
    if isinstance(wanted, Answer):
        return wanted
    lacking = yield from accounts.missing(intent.source.namespace, wanted[1], local, now)
    if lacking:
        return Answer(REFUSED, lacking, OF_CLUSTER)
    local.named.put(intent.source.namespace, now.mono)
    if no := made_namespaces.leaves(intent.source, local):
        return no
    if local.view.namespace(intent.source.namespace) is not None:
        return wanted
    no = yield from made_namespaces.make(intent.source, local, now)
    return no or _wanted(intent, local, now)


def unfit_without_room(
    pod: Pod, body: bytes, intent: CreateDelegate, local: Local, now: Moment
) -> Answer | None:
    """Why a delegate that is not here yet may not come, however much room there is; None if it may."""
    if pod.problems:
        return _unreadable(pod)
    free = "controlPlane" in local.policy.grants(intent.source).allow
    kept_free = "" if free else reserved(intent.node, local)
    return (
        Answer(REFUSED, kept_free) if kept_free else _too_many_bytes(pod, body, intent, local, now)
    )


def _unreadable(pod: Pod) -> Answer:
    return Answer(REFUSED, f"the delegate's manifest cannot be read: {pod.problems[0]}", OF_CLUSTER)


def sought(
    wanted: tuple[Pod, bytes] | Answer, intent: CreateDelegate, local: Local, now: Moment
) -> list[NeededConfigMap] | Answer:
    """The ConfigMaps that are to be looked for; or why the manifest cannot be read."""
    if isinstance(wanted, Answer):
        return []
    try:
        of = copies.followers_here(intent, local, now)
        made = frozenset(
            copy_objects.key_of(copy_objects.original_of(intent.source, *one[:2])).name
            for one in of
        )
        return target_needs.unseen(wanted[1], local, now, made)
    except manifest.ManifestError as error:
        return Answer(REFUSED, str(error), OF_CLUSTER)


def _too_many_bytes(
    pod: Pod, body: bytes, intent: CreateDelegate, local: Local, now: Moment
) -> Answer | None:
    """Why pods of its namespace, or cluster, have too many bytes here with it; one that is here
    already goes on.
    """
    if local.view.pod_by_name(pod.namespace, pod.name) is not None:
        return None
    return local.foreign_budget.no_room(intent.source, len(body), local.view, now.mono)


def _no_place(pod: Pod, intent: CreateDelegate, local: Local, now: Moment) -> Answer | None:
    if pod.problems:
        return _unreadable(pod)
    if local.view.pod_by_name(pod.namespace, pod.name) is not None:
        # it may be on the node already, and would not fit beside itself; looked at again before a
        # bind
        return None
    no = _not_there(pod, intent, local, now)
    return Answer(REFUSED, no, OF_NODE) if no else None


def _not_there(pod: Pod, intent: CreateDelegate, local: Local, now: Moment) -> str:
    """Why this pod of another cluster may not be bound to the node that was chosen; '' if it may."""
    free = "controlPlane" in local.policy.grants(intent.source).allow
    return ("" if free else reserved(intent.node, local)) or refusal(pod, intent.node, local, now)


def _delegate_object(intent: CreateDelegate, local: Local, now: Moment) -> Object:
    """The body of the POST: the manifest, sanitised once more because its sender is not trusted,
    with our metadata.
    """
    source = intent.source
    sanitised = msgspec.json.decode(manifest.sanitise(intent.manifest))
    copied_here = copies.followers_here(intent, local, now)
    copied = Copied(
        [one.name for one in copied_here if one.kind == SECRETS.word],
        local.copies.barred(SECRETS.word, source.namespace, now.mono),
    )
    grants = local.policy.grants(source)
    clean = restrict(sanitised, local.cluster, grants, local.view.priority_classes(), copied)
    metadata = clean["metadata"]
    marks = {
        names.SOURCE_CLUSTER: source.cluster,
        names.SOURCE_CLUSTER_UID: source.cluster_uid,
        names.SOURCE_NAMESPACE: source.namespace,
        names.SOURCE_NAME: source.name,
        names.SOURCE_UID: source.uid,
        names.CLAIM: intent.record,
    }
    metadata["name"], metadata["namespace"] = delegate_name(source), source.namespace
    left = [one for one in followers.followers_of(intent.manifest) if one not in copied_here]
    followers.not_optional(clean["spec"], left)
    if copied_here:
        marks[names.FOLLOWERS] = followers.told_of(one[:2] for one in copied_here)
        followers.renamed(clean["spec"], copied_here, source)
    node = local.view.node(intent.node)
    topology = (
        {key: node.labels[key] for key in names.TOPOLOGY_LABELS if key in node.labels}
        if node
        else {}
    )
    metadata["labels"] = {**metadata["labels"], **topology, names.DELEGATE_LABEL: "true"}
    files = downward.with_topology(metadata["annotations"], topology)
    metadata["annotations"] = {**files, **annotations_of(intent.epoch, intent.annotations), **marks}
    carries = live.first_mark(intent.manifest, local.server_minor)
    metadata["annotations"] |= {names.CARRIES: carries} if carries else {}
    # API servers take them for a pod that is there: they come as a change.
    clean["spec"].pop("ephemeralContainers", None)
    clean["spec"] |= manifest.hostname_of(clean["spec"], source.name)
    clean["spec"]["schedulerName"] = names.DELEGATE_SCHEDULER
    return {"apiVersion": "v1", "kind": "Pod", **clean}


def _with_uid(pod: Object, uid: str) -> bytes:
    # What has no UID is no pod to a reader; the delegate's own is not known before it is made.
    return msgspec.json.encode({**pod, "metadata": {**pod["metadata"], "uid": uid}})


def _create_and_bind(
    intent: CreateDelegate, pod: Pod, body: bytes, local: Local, now: Moment
) -> Procedure[_Result]:
    if intent.made:
        there = yield from _made_before(intent, pod, local)
    else:
        there = yield from _create(intent, pod, body, local, now)
    if isinstance(there, Answer):
        return _Result(there)
    ref = PodRef(namespace=pod.namespace, name=pod.name, uid=there.pod.uid)
    most = local.policy.grants(intent.source).max_priority
    not_ours = mutations.unusable(body, there.pod, there.body, most)
    if not_ours:
        return _Result(
            (yield from existing_delegate.given_up(there.pod, ref, not_ours, intent, local))
        )
    actual = local.read_pod(there.body)
    if not actual.problems:
        # What is bound is what the server made, also where that is not what was posted.
        local.ledger.book(booking(actual, "", intent.node, now))
    no = _unplaceable(actual, intent, local, now)
    larger = mutations.growth(pod, actual, body, there.body)
    beyond = mutations.beyond(intent.at_most, actual)
    if larger and no is not None:
        no = Answer(REFUSED, f"{no.message}; {larger}", OF_CLUSTER)
    elif beyond:
        no = Answer(REFUSED, larger or beyond, OF_CLUSTER)
    # Only the size is why, so the dispatcher places it by that; else the whole cluster is passed
    # over.
    sized = bool(beyond) or _lacks_room_alone(actual, intent, local, now)
    if intent.unbound and no is None:
        return _Result(Answer(DONE), uid=ref.uid)
    answer = (
        (yield from _refused(intent, no, local))
        if no
        else (yield from _bind(ref, intent, local, now))
    )
    if answer.verdict == BOUND and (fields := mutations.altered(body, there.body)):
        events.altered(local, ref, fields, now)
    if answer.verdict == BOUND and (own := services.conflicts(intent, local)):
        events.other_services(local, ref, own, now)
    reports_size = answer.verdict != REFUSED or (sized and answer == no and not actual.problems)
    return _Result(
        answer, actual.requests if reports_size and actual.requests != pod.requests else None
    )


def _unplaceable(actual: Pod, intent: CreateDelegate, local: Local, now: Moment) -> Answer | None:
    if actual.problems:
        unread = f"what the server made of the delegate cannot be read: {actual.problems[0]}"
        return Answer(REFUSED, unread, OF_CLUSTER)
    no = _not_there(actual, intent, local, now)
    return Answer(REFUSED, no, OF_NODE) if no else None


def _lacks_room_alone(actual: Pod, intent: CreateDelegate, local: Local, now: Moment) -> bool:
    """Whether its resource requests are the only reason why the pod, as created, does not fit the
    node.
    """
    return not _not_there(msgspec.structs.replace(actual, requests={}), intent, local, now)


def _bind(ref: PodRef, intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Answer]:
    proof = local.keys.sign_proof(ref.uid, intent.record)
    marks = {**annotations_of(intent.epoch, intent.annotations), names.DELEGATE_PROOF: proof}
    answer = yield from bind_to(ref, intent.node, marks)
    if answer.verdict == REFUSED:
        return (
            yield from _refused(intent, answer._replace(scope=answer.scope or OF_CLUSTER), local)
        )
    if answer.verdict == STALE:
        look = yield from pods.look_up(ref.namespace, ref.name)
        if not look.answered:
            return Answer(UNKNOWN, look.problem)
        if look.pod is not None and look.pod.uid == ref.uid and look.pod.node:
            return _bound_at(look.pod.node, intent.node)
    if answer.verdict == BOUND:
        events.scheduled(local, ref, f"{local.cluster}/{intent.node}", now)
    return answer


def _refused(intent: CreateDelegate, no: Answer, local: Local) -> Procedure[Answer]:
    """`no`, once an unbound delegate is deleted that an earlier copy of this intent may have
    created; UNKNOWN while one exists.
    """
    there = yield from existing_delegate.cleared(delegate_name(intent.source), intent, local)
    return no if there is None else there


def _bound_at(node: str, wanted: str) -> Answer:
    return Answer(BOUND, "" if node == wanted else f'an earlier attempt bound it to node "{node}"')


def _made_before(intent: CreateDelegate, pod: Pod, local: Local) -> Procedure[_Made | Answer]:
    """The delegate that an earlier order has made and left unbound; or the answer by what is there
    instead.
    """
    look = yield from pods.look_up(pod.namespace, pod.name)
    if not look.answered:
        return Answer(UNKNOWN, look.problem)
    if look.pod is None:
        return Answer(STALE, f"pod {pod.namespace}/{pod.name} was created, and is gone")
    if look.differs(intent.made) or look.pod.node or look.pod.terminating:
        return existing_delegate.answer_for(look.pod, pod.name, intent, local)
    return _Made(look.pod, look.body)


def _create(
    intent: CreateDelegate, pod: Pod, body: bytes, local: Local, now: Moment
) -> Procedure[_Made | Answer]:
    """POST the delegate and return it as created; or the answer if it exists already or cannot be
    created.
    """
    request = Request("POST", pods.collection(pod.namespace), body)
    message = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok or response.unknown:
            local.foreign_budget.spend(intent.source, now.mono, len(body))
        created = pods.read(response.body) if response.ok else None
        if created is not None:
            return _Made(created, response.body)
        message = error_text(response)
        if response.status == NOT_FOUND:
            gone = absent(pod.namespace, local.cluster)
            return Answer(REFUSED, gone, OF_CLUSTER, passing=local.policy.makes(pod.namespace))
        if response.status in POSTPONED:
            continue
        if response.status != CONFLICT and not response.unknown and not response.ok:
            no = Answer(REFUSED, message, OF_CLUSTER, passing=response.passing)
            return (yield from _refused(intent, no, local))
        there = (
            yield from existing_delegate.cleared(pod.name, intent, local)
        ) or existing_delegate.given_up_before(intent, local)
        if there is not None:
            return there
    return Answer(UNKNOWN, message)
