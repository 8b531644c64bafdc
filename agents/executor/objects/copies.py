"""Copies of the objects that delegates name, which follow them from the cluster of their sources.

A copy has a name of its own, made of the original's and a hash of where that is, and marks that say
so. So nothing of this cluster is written over, shadowed or taken for a copy, and two originals of
one name never meet; who has put something else there keeps it, and the pod is refused.

They are there before a delegate is made (`bring`), and are kept up by `duties.copy_upkeep`. What
comes of a source cluster is signed by it for this question.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import msgspec

from agents.executor.context.copy_table import REFRESH_S, CopyKey, Original
from agents.executor.context.local import KNOWN_S, Local, Moment
from agents.executor.objects import copy_notes, events, followers
from agents.executor.objects.contents import SECRET, Content, read_content
from agents.executor.objects.copy_objects import (
    Found,
    key_of,
    metadata_of,
    object_of,
    original_in,
    original_of,
)
from agents.executor.objects.followers import Follower
from agents.executor.objects.kinds import KINDS, Kind
from agents.executor.objects.reads import read_object
from shared.kube.deletes import delete_request
from shared.kube.http import Procedure, Request, Response
from shared.kube.verdicts import (
    LOOKS,
    NOT_FOUND,
    TRIES,
    Answer,
    error_text,
    is_ambiguous,
    lacked_right,
)
from shared.messages import OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate
from shared.messages.relay import (
    ABSENT,
    CONTENT,
    DENIED,
    LATER,
    MOST_OBJECT,
    SAME,
    WITHDRAWN,
    Given,
    PodWants,
    WantedObject,
    decode_given,
)
from shared.model import names
from shared.model.copy_names import read_followers
from shared.model.pod import PodRef, SourceRef

OTHERS_S = 5.0  # until a source is asked by another pod where it has denied something
FAILED = 3  # times in a row that a copy is not made what its original is, until that is told
_ROUNDS = 8  # answers to one question, each as large as may be
_COPY = "a copy of {0.kind} {0.namespace}/{0.name} of cluster {0.cluster}"
_RIGHTS = "get, create, update, delete"
_BY_VALUE = {SECRET: ", by secrets.take of its chart or install --may secrets"}
_OF_CONTENT = re.compile(r"(denied (?:the )?request): .*", re.DOTALL)


class PeerAsk(Request, frozen=True):
    """A request to the agent of another cluster, in place of our API server: for these objects of
    its own. The answer's body is a GivenObjects that it has signed; status 0 if none came.

    `sought`: digests; no other content is taken of an answer that others have asked for.
    """

    elsewhere: ClassVar[bool] = True
    cluster: str = ""
    cluster_uid: str = ""
    wants: tuple[PodWants, ...] = ()
    sought: frozenset[bytes] = frozenset()


def followers_here(intent: CreateDelegate, local: Local, now: Moment) -> list[Follower]:
    """What is copied for this delegate; nothing of a kind of which copies cannot be written, and no
    Secret that this cluster's policy does not take. ManifestError.
    """
    if not local.follows:
        return []
    grants = local.policy.grants(intent.source)
    return [
        one
        for one in followers.followers_of(intent.manifest)
        if one.kind in local.follows
        and grants.takes(one.kind, one.name)
        and not local.copies.barred(one.kind, intent.source.namespace, now.mono)
    ]


def bring(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Have the copies here that a delegate names, as they are at home; None once that is so. What
    is not at home is no reason to wait: the delegate does that, as the pod would.
    """
    source = intent.source
    stale: list[Original] = []
    sought: set[bytes] = set()
    for one in followers_here(intent, local, now):
        original = original_of(source, one.kind, one.name)
        key = key_of(original)
        if key not in local.copies.known and (full := local.copies.full(original)):
            return Answer(REFUSED, full, OF_CLUSTER, passing=True)
        copy = local.copies.put(key, original, now.mono)
        if copy.removing:
            return Answer(UNKNOWN, f"{_COPY.format(original)} is being deleted: it is made anew")
        fresh = now.mono - copy.seen < KNOWN_S and copy.digest == one.digest
        if one.digest and fresh:
            continue
        found = yield from read_here(original, local, now)
        if isinstance(found, Answer):
            return found
        if not one.digest or found is None or found.content.digest(copy.secret) != one.digest:
            stale.append(original)
            sought.add(one.digest)
    if not stale:
        return None
    pod = PodRef(source.namespace, source.name, source.uid)
    return (yield from fetch([(pod, stale)], local, now, frozenset(sought)))


def fetch(
    sought: list[tuple[PodRef, list[Original]]],
    local: Local,
    now: Moment,
    digests: frozenset[bytes] = frozenset(),
) -> Procedure[Answer | None]:
    """Ask the cluster of these originals, and write what comes; the first thing that went wrong."""
    wrong: Answer | None = None
    for _ in range(_ROUNDS):
        first = sought[0][1][0]
        response = yield PeerAsk(
            "GET",
            f"objects of cluster {first.cluster}",
            cluster=first.cluster,
            cluster_uid=first.cluster_uid,
            wants=tuple(
                PodWants(pod, tuple(_want(one, local) for one in of)) for pod, of in sought
            ),
            sought=digests,
        )
        if not response.ok:
            why = response.body.decode("utf-8", "replace")
            what = f'{first.kind} "{first.namespace}/{first.name}" ({why})'
            said = f'cluster "{first.cluster}" cannot be asked for {what}'
            return Answer(REFUSED, said, OF_CLUSTER, passing=True)
        given = iter(decode_given(response.body).given)
        left: list[tuple[PodRef, list[Original]]] = []
        for pod, of in sought:
            later: list[Original] = []
            for original in of:
                one = next(given)
                if one.state == LATER:
                    later.append(original)
                    continue
                problem = yield from _apply(original, one, local, now)
                _tell_if_stale(pod, original, problem, local, now)
                _note_denial(pod, original, one, local, now)
                wrong = wrong or problem
            if later:
                left.append((pod, later))
        if not left:
            return wrong
        sought = left
    return wrong or Answer(UNKNOWN, f"cluster {first.cluster} has not given all that was asked for")


def _tell_if_stale(
    pod: PodRef, original: Original, problem: Answer | None, local: Local, now: Moment
) -> None:
    """An event of the delegate of this pod, once for each reason, that what it reads is not as at
    home: at once where a rule is why, else once it goes on. All its delegates have their turn.
    """
    copy = local.copies.known.get(key_of(original))
    if copy is None:
        return
    copy.failed = copy.failed + 1 if problem is not None else 0
    if problem is None:
        return
    lasts = problem.verdict == REFUSED and not problem.passing
    if lasts or copy.failed >= FAILED:
        why = f'stays as it was of {original.kind} "{original.name}": {problem.message}'
        tell(pod, original, why, local, now)


def tell(pod: PodRef, original: Original, why: str, local: Local, now: Moment) -> None:
    """An event of the delegate of this pod, once for each reason."""
    delegate = local.copies.bearers.get((original.cluster_uid, pod.uid))
    if delegate is not None and local.stale_told.get(delegate.uid) != why:
        local.stale_told.put(delegate.uid, why)
        events.stale_copy(local, delegate, why, now)


def _note_denial(pod: PodRef, original: Original, given: Given, local: Local, now: Moment) -> None:
    """Of a pod that is not known at home any more nothing is given, and its delegate may stay for
    hours: others that name the same are asked by from now on, the first of them soon.
    """
    copies = local.copies
    asked_by = (original.cluster_uid, pod.uid)
    if given.state != DENIED:
        copies.denied.discard(asked_by)
    elif asked_by not in copies.denied:
        copies.denied.add(asked_by)
        copy = copies.known.get(key_of(original))
        if copy is not None and copy.failed <= FAILED:
            copies.looked_at = min(copies.looked_at, now.mono - REFRESH_S + OTHERS_S)


def _want(original: Original, local: Local) -> WantedObject:
    copy = local.copies.known.get(key_of(original))
    return WantedObject(original.kind, original.name, copy.digest if copy is not None else b"")


def _apply(original: Original, given: Given, local: Local, now: Moment) -> Procedure[Answer | None]:
    if given.state == CONTENT:
        if len(given.content) > MOST_OBJECT:
            said = f"{_COPY.format(original)} has more than {MOST_OBJECT} bytes"
            return Answer(REFUSED, said, OF_CLUSTER, passing=True)
        try:
            content = read_content(given.content, original.kind)
        except msgspec.MsgspecError as error:
            said = f"{_COPY.format(original)} cannot be read: {error}"
            return Answer(REFUSED, said, OF_CLUSTER, passing=True)
        if content.barred:  # of a forged one the controllers here would make a token
            return Answer(REFUSED, f"{_COPY.format(original)} {content.barred}", OF_CLUSTER)
        if (copy := local.copies.known.get(key_of(original))) is not None:
            copy.secret = given.key
        return (yield from _write(original, content, local, now))
    if given.state == ABSENT:
        return (yield from _remove(original, local, now))
    if given.state == SAME:
        return None
    why = (
        given.text if given.state in (DENIED, WITHDRAWN) else "its agent's answer is not known here"
    )
    if given.state == WITHDRAWN:  # no longer: what runs has read it
        gone = yield from _remove(original, local, now)
        why = f"{why}; {gone.message}" if gone is not None else why
    said = f'cluster "{original.cluster}" does not give {original.kind} "{original.name}": {why}'
    return Answer(REFUSED, said, OF_CLUSTER, passing=True)


# --- one copy
# --------------------------------------------------------------------------------------------------


def read_here(original: Original, local: Local, now: Moment) -> Procedure[Found | Answer | None]:
    """What is under its name; refused where that is none of ours."""
    key = key_of(original)
    kind = KINDS[original.kind]
    what = f'{kind.word} "{key.namespace}/{key.name}"'
    problem = ""
    for _ in range(LOOKS):
        response = yield Request("GET", kind.path(key.namespace, key.name))
        if response.status == NOT_FOUND:
            local.copies.gone(key)
            return None
        if response.ok:
            try:
                content = read_content(response.body, kind.word)
                metadata = read_object(response.body).metadata
            except msgspec.MsgspecError as error:
                return Answer(REFUSED, f"{what} cannot be read: {error}", OF_CLUSTER, passing=True)
            if original_in(metadata, kind, original.namespace) != original:
                said = f"is there, and is not {_COPY.format(original)}: delete or rename it there"
                return Answer(REFUSED, f"{what} {said}", OF_CLUSTER)
            if metadata.held_by:  # whoever has made it: it is no copy to rely on, and none is made
                return Answer(REFUSED, f"{what} {metadata.held_by}", OF_CLUSTER)
            _saw(key, content, len(response.body), local, now)
            return Found(metadata, content)
        problem = error_text(response)
        if lacked_right(response):
            return _barred(kind, original.namespace, problem, local, now)
    return Answer(UNKNOWN, f"{what}: {problem}")


def _barred(kind: Kind, namespace: str, problem: str, local: Local, now: Moment) -> Answer:
    why = (
        f'the agent of cluster "{local.cluster}" may not write {kind.plural} in namespace '
        f'"{namespace}" (its role needs {_RIGHTS}{_BY_VALUE.get(kind.word, "")}): {problem}'
    )
    local.copies.bar(kind.word, namespace, now.mono, why)
    return Answer(REFUSED, why, OF_CLUSTER)


def _write(
    original: Original, content: Content, local: Local, now: Moment
) -> Procedure[Answer | None]:
    """Make it, or make it what it is at home; None once it is."""
    key = key_of(original)
    answer = Answer(UNKNOWN)
    for _ in range(TRIES):
        found = yield from read_here(original, local, now)
        if isinstance(found, Answer):
            return found
        if found is not None and found.content.plain == content.plain:
            return None
        body = msgspec.json.encode(object_of(original, content, found))
        if (full := _too_much(original, len(body), local, now)) is not None:
            return full
        if found is not None and not _takes(found.content, content):  # it is made anew
            response = yield _delete(KINDS[original.kind], key, found)
            if response.ok:
                local.copies.gone(key)
        else:
            response = yield from _sent(original, body, found, local, now)
            if response.ok:
                _saw(key, content, len(body), local, now)
                return None
        answer = _not_written(original, response, local, now)
        gone = response.status == NOT_FOUND and found is not None
        if answer.verdict != UNKNOWN and not gone:
            return answer
    return answer._replace(verdict=UNKNOWN)


def _sent(
    original: Original, body: bytes, found: Found | None, local: Local, now: Moment
) -> Procedure[Response]:
    """The answer to its write; of the copy of a Secret a note is made before."""
    kind, namespace, name = key_of(original)
    if found is None and kind == SECRET:
        failed = yield from copy_notes.written(metadata_of(original), kind)
        if failed is not None:
            return failed
    path = KINDS[kind].path(namespace, "" if found is None else name)
    response = yield Request("POST" if found is None else "PUT", path, body)
    if response.ok or response.unknown:
        local.foreign_budget.spend(original.whose, now.mono, len(body))
    return response


def _saw(key: CopyKey, content: Content, size: int, local: Local, now: Moment) -> None:
    copy = local.copies.known.get(key)
    digest = content.digest(copy.secret if copy is not None else b"")
    local.copies.saw(key, digest, size, now.mono)


def _takes(there: Content, content: Content) -> bool:
    """Whether an object can be made what it is to be: as its original was, it may be immutable, and
    of another type.
    """
    return not there.immutable and there.type == content.type


def _told(original: Original, response: Response) -> str:
    """Why it was not written, or deleted; a webhook, or a policy, may say what is in a Secret."""
    message = error_text(response)
    return _OF_CONTENT.sub(r"\1", message) if original.kind == SECRET else message


def _not_written(original: Original, response: Response, local: Local, now: Moment) -> Answer:
    """What a write came to; UNKNOWN where another one may do."""
    key = key_of(original)
    kind = KINDS[original.kind]
    what = f'{kind.word} "{key.namespace}/{key.name}", {_COPY.format(original)}'
    if response.ok:
        return Answer(UNKNOWN, f"{what}, is being deleted: it is made anew")
    message = _told(original, response)
    if lacked_right(response) not in ("", "delete"):  # without that, others can be written
        return _barred(kind, key.namespace, message, local, now)
    if is_ambiguous(response):
        return Answer(UNKNOWN, f"{what}: {message}")
    houseless = response.status == NOT_FOUND and local.policy.makes(key.namespace)
    passing = response.passing or houseless
    return Answer(REFUSED, f"{what} cannot be written: {message}", OF_CLUSTER, passing=passing)


def _too_much(original: Original, size: int, local: Local, now: Moment) -> Answer | None:
    copy = local.copies.known.get(key_of(original))
    more = size - (copy.size if copy is not None else 0)
    return local.foreign_budget.no_room(original.whose, more, local.view, now.mono)


def _remove(original: Original, local: Local, now: Moment) -> Procedure[Answer | None]:
    """There is none at home: pods that start find none here, either."""
    found = yield from read_here(original, local, now)
    if isinstance(found, Answer) or found is None:
        return found
    key = key_of(original)
    response = yield _delete(KINDS[original.kind], key, found)
    if response.ok or response.status == NOT_FOUND:
        local.copies.gone(key)
        return None
    return _not_written(original, response, local, now)


def _delete(kind: Kind, key: CopyKey, found: Found) -> Request:
    metadata = found.metadata
    return delete_request(
        kind.path(key.namespace, key.name), metadata.uid, metadata.resource_version
    )


class Removed(NamedTuple):
    """What came of one that is to go: why it may be there still, and whether it was deleted now."""

    problem: str = ""
    deleted: bool = False


def delete_unused(original: Original, local: Local, now: Moment) -> Procedure[Removed]:
    """Delete one as it was just read; without a problem once there is none of ours."""
    found = yield from read_here(original, local, now)
    if isinstance(found, Answer):  # what somebody else has put there is none of ours
        barred = local.copies.barred(original.kind, original.namespace, now.mono)
        unread = found.verdict == UNKNOWN or barred
        return Removed(found.message if unread else "")
    if found is not None:
        response = yield _delete(KINDS[original.kind], key_of(original), found)
        if not response.ok and response.status != NOT_FOUND:
            return Removed(f"{_COPY.format(original)}: {_told(original, response)}")
    deleted = found is not None
    if original.kind != SECRET:
        return Removed("", deleted)
    problem = yield from copy_notes.removed(metadata_of(original), original.kind)
    return Removed(problem, deleted)


def named_by(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Kind and name of what follows a delegate with these annotations."""
    return list(read_followers(annotations.get(names.FOLLOWERS, "")))


def copied_secrets(source: SourceRef, annotations: Mapping[str, str]) -> list[str]:
    """The names of the copies of Secrets that a delegate with these annotations has."""
    named = (original_of(source, *one) for one in named_by(annotations) if one[0] == SECRET)
    return [key_of(original).name for original in named]
