"""Services of a source's namespace in this cluster, where the pod networks of both are one.

Each Service that the namespace has at home is here, under its own name, without selector, and with
EndpointSlices of ours, which hold the addresses that it has at home; those of delegates are the
ones that they have here. They are there before a delegate is made (`bring`), for the kubelet writes
Services into the environment when a container starts; `duties.service_upkeep` keeps them up.

A Service of that name which is none of ours stays as it is, and is joined only if it says so: then
our slices are added to it.
"""

from typing import Any, NamedTuple

import msgspec

from agents.executor.context.local import KNOWN_S, Local, Moment
from agents.executor.context.service_table import Held, Space
from agents.executor.objects import service_imports
from agents.executor.objects.contents import digest_of
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.pages import ListError
from agents.executor.objects.reads import read_object
from agents.executor.objects.service_content import (
    ALL,
    HEADLESS,
    KIND,
    Content,
    Filled,
    ServiceObject,
    ServicesError,
    SliceObject,
    checked,
    parts,
    read_service,
    service_object,
    slice_name,
    slice_object,
    space_of,
)
from agents.executor.objects.service_content import Service as Crossing
from agents.executor.objects.service_content import Slice as CrossingSlice
from agents.executor.objects.services_here import Here, NotWritten, delete, here_of, path
from shared.kube.http import FORBIDDEN, Procedure, Request, Response
from shared.kube.verdicts import CONFLICT, INVALID, NOT_FOUND, Answer, error_text
from shared.messages import OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate
from shared.messages.relay import CONTENT, DENIED, SAME, PodWants, WantedObject, decode_given
from shared.model import names
from shared.model.pod import PodRef, SourceRef

CHECK_S = 30.0  # what is here is read again: whoever may has changed it
_OF = "Services of namespace {0.namespace} of cluster {0.cluster}"
_RIGHTS = "Services and EndpointSlices (get, list, create, update, delete)"


def space_of_source(source: SourceRef) -> Space:
    """Whose Services a pod of this source calls."""
    return Space(source.cluster, source.cluster_uid, source.namespace)


def wanted(intent: CreateDelegate, local: Local) -> bool:
    """Whether the Services of its namespace are to be here before this delegate is made."""
    return intent.services and not local.policy.grants(intent.source).no_services


def bring(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Have them here before a delegate is made; None once they are, or if none is to be."""
    if not wanted(intent, local):
        return None
    space = space_of_source(intent.source)
    if (none := _none_made(space, local)) is not None:
        return none
    held = local.services.put(space, now.mono)
    if held.removing:
        return Answer(UNKNOWN, f"{_OF.format(space)} are being deleted: they are made anew")
    if held.shut or now.mono - held.written >= KNOWN_S:
        source = intent.source
        pod = PodRef(source.namespace, source.name, source.uid)
        answer = yield from update(held, pod, local, now)
        if answer is not None:
            return answer
    return _lacking(held, local)


def objection(intent: CreateDelegate, local: Local) -> Procedure[Answer | None]:
    """Why they would not be here for a delegate, as far as this cluster knows: home gives them once
    the pod is claimed. None if they would, or if none is to be.
    """
    if not wanted(intent, local):
        return None
    space = space_of_source(intent.source)
    held = local.services.known.get(space)
    no = _none_made(space, local) or (_lacking(held, local) if held is not None else None)
    if no is not None:
        return no
    try:
        yield from here_of(space)
    except ListError as error:
        return _unlisted(error, local)
    return None


def _none_made(space: Space, local: Local) -> Answer | None:
    """Why this cluster makes none of this namespace; None if it does."""
    if not local.serves:
        why = f'cluster "{local.cluster}" makes no Services: set its `executor.services`'
        return Answer(REFUSED, why, OF_CLUSTER)
    full = local.services.full(space)
    return Answer(REFUSED, full, OF_CLUSTER, passing=True) if full else None


def _lacking(held: Held, local: Local) -> Answer | None:
    """Which of home are not here, though pods may call them, as was last seen; None if none is."""
    lacking = {name: why for name, why in held.left.items() if not why.startswith(_THERE)}
    if not lacking:
        return None
    space = held.space
    name, why = next(iter(lacking.items()))
    none = f', and there is none in cluster "{local.cluster}": create it there, or'
    said = (
        f'Service "{space.namespace}/{name}" of cluster "{space.cluster}" {why}'
        f"{':' if why == _COPIED else none} say that the pod calls none by annotation "
        f"{names.SERVICES}: {names.NONE}"
    )
    return Answer(REFUSED, said, OF_CLUSTER)


def conflicts(intent: CreateDelegate, local: Local) -> str:
    """Which Services are this cluster's own where the delegate runs, for its owner; '' if none."""
    held = local.services.known.get(space_of_source(intent.source))
    if held is None or not wanted(intent, local):
        return ""
    said = [f"{name} {why}" for name, why in held.left.items() if why.startswith(_THERE)]
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    return f"{'; '.join(said[:3])}{more}" if said else ""


_THERE = "is there "  # begins why one is not made that the cluster has already
_OWN = (
    f"{_THERE}already, and not as at home: it leads to that cluster's pods (its annotation "
    f'{names.JOIN}: "true" adds those of home)'
)
_COPIED = "leads to the pods of another cluster there"
_IMPORTED = f"{_THERE}as a ServiceImport"


def update(held: Held, pod: PodRef, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Ask home, and have all here as it is there; None once that is so."""
    space = held.space
    response = yield PeerAsk(
        "GET",
        f"Services of cluster {space.cluster}",
        cluster=space.cluster,
        cluster_uid=space.cluster_uid,
        wants=(PodWants(pod, (WantedObject(KIND, ALL, held.digest),)),),
    )
    if not response.ok:
        why = response.body.decode("utf-8", "replace")
        said = f'cluster "{space.cluster}" cannot be asked for {_OF.format(space)} ({why})'
        return Answer(REFUSED, said, OF_CLUSTER, passing=True)
    held.heard += 1
    given = decode_given(response.body).given[0]
    if given.state not in (SAME, CONTENT):
        why = given.text if given.state == DENIED else "it gives them later"
        said = f'cluster "{space.cluster}" does not give {_OF.format(space)}: {why}'
        return Answer(REFUSED, said, OF_CLUSTER, passing=True)
    body = given.content if given.state == CONTENT else held.content
    if given.state == SAME and not body:  # it was taken away while it was asked for
        return Answer(UNKNOWN, f'{_OF.format(space)} of cluster "{space.cluster}": asked for again')
    try:
        content = checked(body)
    except ServicesError as error:
        return Answer(REFUSED, f'cluster "{space.cluster}" {error}', OF_CLUSTER, passing=True)
    held.answered = now.mono
    held.answers += 1
    if given.state == SAME and not held.shut and now.mono - held.written < CHECK_S:
        return None
    try:
        yield from _write_all(held, content, local, now)
    except NotWritten as problem:
        return problem.answer
    except ListError as error:
        return _unlisted(error, local)
    held.content = body
    held.digest = digest_of(body)
    held.written = now.mono
    held.shut = False
    return None


def _unlisted(error: ListError, local: Local) -> Answer:
    if error.status != FORBIDDEN:
        return Answer(UNKNOWN, str(error))
    why = f'the agent of cluster "{local.cluster}" needs the rights to {_RIGHTS}: {error}'
    return Answer(REFUSED, why, OF_CLUSTER)


# --- one namespace
# --------------------------------------------------------------------------------------------------


def _write_all(held: Held, content: Content, local: Local, now: Moment) -> Procedure[None]:
    """Have it here, and nothing more. NotWritten, ListError."""
    space = held.space
    here = yield from here_of(space)
    imported = yield from service_imports.served(space.namespace, content)
    size = len(content.encoded)
    if content.encoded != held.content:
        more = size - held.size
        full = local.foreign_budget.no_room(space.whose, more, local.view, now.mono)
        if full is not None:
            raise NotWritten(full)
    left = yield from _left(content, here, space, local)
    filled: dict[str, Filled] = {}
    for service in content.services:
        found = here.services.get(service.name)
        there: Filled | str = _IMPORTED
        if service.name not in imported:
            there = yield from _service(service, found, space, local, now)
        if isinstance(there, str):
            left[service.name] = there
        else:
            filled[service.name] = there
    local.services.counts(held, size)
    yield from _slices(content, filled, here, space, local, now)
    for name, gone in here.services.items():
        if name not in filled:
            yield from delete("services", space, gone.metadata)
    held.left = left


def _slices(
    content: Content,
    filled: dict[str, Filled],
    here: Here,
    space: Space,
    local: Local,
    now: Moment,
) -> Procedure[None]:
    """Have the addresses of these Services here, and no others of ours. NotWritten."""
    kept = set()
    looked_at: set[str] = set()
    for one in content.slices:
        if one.service not in filled:
            continue
        for number, part in enumerate(parts(one)):
            name = slice_name(part, number, space)
            kept.add(name)
            wanted_here = _Part(name, part, filled[one.service])
            found = here.slices.get(name)
            if found is not None and wanted_here.is_there(found):
                continue
            if one.service not in looked_at:
                looked_at.add(one.service)
                yield from _still_there(wanted_here, space, local)
            yield from _slice(wanted_here, found, space, local, now)
    for name, old in here.slices.items():
        if name not in kept:
            yield from delete("endpointslices", space, old.metadata)


def _left(content: Content, here: Here, space: Space, local: Local) -> Procedure[dict[str, str]]:
    """Of those that never cross, what this cluster has itself."""
    found: dict[str, str] = {}
    for name, why in content.left.items():
        at = path("services", space.namespace, name)
        response = yield Request("GET", at)
        if not response.ok and response.status != NOT_FOUND:
            raise NotWritten(_not_written(response, at, local))
        ours = name in here.services
        found[name] = _OWN if response.ok and not ours else why
    return found


def _service(
    one: Crossing, found: ServiceObject | None, space: Space, local: Local, now: Moment
) -> Procedure[Filled | str]:
    """Have it here, to be filled with addresses; or why it is not ours to fill. NotWritten."""
    at = path("services", space.namespace, one.name)
    if found is not None and found.bare and found.crossing.is_like(one):
        return Filled(found.metadata.uid, one.headless)
    whole: dict[str, Any] | None = None
    if found is not None and (found.metadata.deletion_timestamp or _is_remade(one, found)):
        yield from delete("services", space, found.metadata)
    elif found is not None:
        response = yield Request("GET", at)
        if not response.ok:
            raise NotWritten(_not_written(response, at, local))
        read = read_service(response.body)
        if space_of(read.metadata) == space:
            whole = msgspec.json.decode(response.body)
    body = msgspec.json.encode(service_object(one, space, whole))
    verb = "POST" if whole is None else "PUT"
    collection = path("services", space.namespace)
    response = yield Request(verb, collection if whole is None else at, body)
    asks = one.address and not (whole or {}).get("spec", {}).get("clusterIP")
    if response.status == INVALID and asks:
        # That address is taken here, or not of this cluster's range.
        other = msgspec.structs.replace(one, address="")
        body = msgspec.json.encode(service_object(other, space, whole))
        response = yield Request(verb, collection if whole is None else at, body)
    if response.ok or response.unknown:
        local.foreign_budget.spend(space.whose, now.mono, len(body))
    if response.ok:
        return Filled(read_object(response.body).metadata.uid, one.headless)
    if verb == "POST" and response.status == CONFLICT:
        return (yield from _another(one, space, local))
    raise NotWritten(_not_written(response, at, local))


def _is_remade(one: Crossing, found: ServiceObject) -> bool:
    """Whether it cannot be changed into this: a cluster IP stays as it is."""
    return one.headless != found.crossing.headless


def _another(one: Crossing, space: Space, local: Local) -> Procedure[Filled | str]:
    """What is there under the name of one, which is not ours to write, but may be joined."""
    at = path("services", space.namespace, one.name)
    response = yield Request("GET", at)
    if not response.ok:
        raise NotWritten(_not_written(response, at, local))
    try:
        found = read_service(response.body)
    except msgspec.MsgspecError as error:
        raise NotWritten(Answer(UNKNOWN, f"{at} cannot be read: {error}")) from None
    of = space_of(found.metadata)
    if of == space:  # of another order: replicas come together
        if found.bare and found.crossing.is_like(one):
            return Filled(found.metadata.uid, one.headless)
        raise NotWritten(Answer(UNKNOWN, f"{at} is being written"))
    if of is not None:
        return _COPIED
    joined = (found.metadata.annotations or {}).get(names.JOIN) == "true"
    return Filled(found.metadata.uid, found.crossing.headless) if joined else _OWN


class _Part(NamedTuple):
    """A slice as it is to be here, under this name, of that Service."""

    name: str
    slice: CrossingSlice
    of: Filled

    def is_there(self, found: SliceObject) -> bool:
        """Whether that one holds the same."""
        there = found.crossing
        part = self.slice
        return (
            there.service == part.service
            and there.ports == part.ports
            and there.endpoints == part.endpoints
            and (HEADLESS in (found.metadata.labels or {})) == self.of.headless
            and [owner.uid for owner in found.metadata.owner_references or ()] == [self.of.uid]
        )

    def is_of_another(self, found: SliceObject) -> bool:
        """Whether Kubernetes is about to delete that one, by its UID, after another Service."""
        owners = found.metadata.owner_references or ()
        return any(owner.uid != self.of.uid for owner in owners)


def _still_there(part: _Part, space: Space, local: Local) -> Procedure[None]:
    """NotWritten where its Service is another one by now, whose owner never asked for these."""
    at = path("services", space.namespace, part.slice.service)
    response = yield Request("GET", at)
    if not response.ok:
        raise NotWritten(_not_written(response, at, local))
    if read_object(response.body).metadata.uid != part.of.uid:
        raise NotWritten(Answer(UNKNOWN, f"{at} was made anew meanwhile"))


def _slice(
    part: _Part, found: SliceObject | None, space: Space, local: Local, now: Moment
) -> Procedure[None]:
    """Have it here. NotWritten."""
    if found is not None and part.is_of_another(found):
        yield from delete("endpointslices", space, found.metadata)
        found = None
    wanted_here = slice_object(part.slice, part.name, space, part.of, found)
    body = msgspec.json.encode(wanted_here)
    at = path("endpointslices", space.namespace, part.name if found is not None else "")
    response = yield Request("POST" if found is None else "PUT", at, body)
    if response.ok or response.unknown:
        local.foreign_budget.spend(space.whose, now.mono, len(body))
    if found is None and response.status == CONFLICT:
        there = (yield from here_of(space)).slices.get(part.name)
        if there is None:
            said = f'EndpointSlice "{space.namespace}/{part.name}" is there, and is none of ours'
            raise NotWritten(Answer(REFUSED, said, OF_CLUSTER, passing=True))
        if part.is_there(there):  # of another order: replicas come together
            return
    if not response.ok:
        raise NotWritten(_not_written(response, at, local))


def _not_written(response: Response, at: str, local: Local) -> Answer:
    said = f"{at} cannot be written in cluster {local.cluster}: {error_text(response)}"
    if response.unknown or response.status == CONFLICT:
        return Answer(UNKNOWN, said)
    passing = response.passing or response.status == NOT_FOUND
    return Answer(REFUSED, said, OF_CLUSTER, passing=passing)
