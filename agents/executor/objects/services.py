"""Services of a source's namespace in this cluster, where the pod networks of both are one.

Each Service that the namespace has at home is here, under its own name, without selector, and with
EndpointSlices of ours, which hold the addresses that it has at home; those of delegates are the
ones that they have here. They are there before a delegate is made (`bring`), for the kubelet writes
Services into the environment when a container starts; they follow home while delegates of the
namespace run here (`refresh`), and go after the last of these (`collect`), once the API server
shows none.

A Service of that name which is none of ours stays as it is, and is joined only if it says so: then
our slices are added to it. Where home cannot be asked, its addresses are taken away after
STALE_S: a wrong pod answers worse than none. Its Services stay, so names go on to resolve.
"""

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from agents.executor.context.local import KNOWN_S, Local, Moment
from agents.executor.context.looks import look_on
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.context.service_table import Held, Space, Users
from agents.executor.objects import pages, pods, service_imports
from agents.executor.objects.contents import digest_of
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.copy_objects import Metadata, read_object
from agents.executor.objects.pages import ListError
from agents.executor.objects.service_content import (
    ALL,
    HEADLESS,
    KIND,
    Content,
    ServiceObject,
    ServicesError,
    SliceObject,
    checked,
    mark_of,
    parts,
    read_service,
    read_slice,
    service_object,
    slice_name,
    slice_object,
    space_of,
)
from agents.executor.objects.service_content import Service as Crossing
from agents.executor.objects.service_content import Slice as CrossingSlice
from shared.kube.http import FORBIDDEN, Procedure, Request, Response
from shared.kube.verdicts import CONFLICT, INVALID, NOT_FOUND, Answer, error_text
from shared.messages import OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate
from shared.messages.relay import CONTENT, DENIED, SAME, PodWants, WantedObject, decode_given
from shared.model import names
from shared.model.pod import PodRef, SourceRef

REFRESH_S = 20.0  # between two questions to home
CHECK_S = 30.0  # what is here is read again: whoever may has changed it
STALE_S = 120.0  # without an answer from home, until its addresses are taken away
UNUSED_S = 60.0  # without a delegate, until all is deleted
_AT_ONCE = 2_000  # delegates of one turn
_TRIED = 8  # pods of a namespace, of which home may know one no more
_OF = "Services of namespace {0.namespace} of cluster {0.cluster}"
_RIGHTS = "Services and EndpointSlices (get, list, create, update, delete)"


class _NotWritten(Exception):  # noqa: N818 - reads as what happened
    """Why something is not here as it should be."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def space_of_source(source: SourceRef) -> Space:
    """Whose Services a pod of this source calls."""
    return Space(source.cluster, source.cluster_uid, source.namespace)


def path(kind: str, namespace: str, name: str = "") -> str:
    """Of one `services` or `endpointslices`, or of all in a namespace."""
    group = "/api/v1" if kind == "services" else "/apis/discovery.k8s.io/v1"
    held = f"{group}/namespaces/{quote(namespace, safe='')}/{kind}"
    return f"{held}/{quote(name, safe='')}" if name else held


def wanted(intent: CreateDelegate, local: Local) -> bool:
    """Whether the Services of its namespace are to be here before this delegate is made."""
    return intent.services and not local.policy.grants(intent.source).no_services


def bring(intent: CreateDelegate, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Have them here before a delegate is made; None once they are, or if none is to be."""
    if not wanted(intent, local):
        return None
    space = space_of_source(intent.source)
    if not local.serves:
        why = f'cluster "{local.cluster}" makes no Services: set its `executor.services`'
        return Answer(REFUSED, why, OF_CLUSTER)
    if full := local.services.full(space):
        return Answer(REFUSED, full, OF_CLUSTER, passing=True)
    held = local.services.put(space, now.mono)
    if held.removing:
        return Answer(UNKNOWN, f"{_OF.format(space)} are being deleted: they are made anew")
    if held.shut or now.mono - held.written >= KNOWN_S:
        source = intent.source
        pod = PodRef(source.namespace, source.name, source.uid)
        answer = yield from _follow(held, pod, local, now)
        if answer is not None:
            return answer
    lacking = {name: why for name, why in held.left.items() if not why.startswith(_THERE)}
    if not lacking:
        return None
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


def _follow(held: Held, pod: PodRef, local: Local, now: Moment) -> Procedure[Answer | None]:
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
    except _NotWritten as problem:
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


class _Here(msgspec.Struct):
    """What is here of one namespace of a source."""

    services: dict[str, ServiceObject] = {}
    slices: dict[str, SliceObject] = {}


def _write_all(held: Held, content: Content, local: Local, now: Moment) -> Procedure[None]:
    """Have it here, and nothing more. _NotWritten, ListError."""
    space = held.space
    here = yield from _here(space)
    imported = yield from service_imports.served(space.namespace, content)
    size = len(content.encoded)
    if content.encoded != held.content:
        more = size - held.size
        full = local.foreign_budget.no_room(space.whose, more, local.view, now.mono)
        if full is not None:
            raise _NotWritten(full)
    left = yield from _left(content, here, space, local)
    filled: dict[str, bool] = {}  # whether it is headless
    for service in content.services:
        found = here.services.get(service.name)
        there: bool | str = _IMPORTED
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
            yield from _delete("services", space, gone.metadata)
    held.left = left


def _slices(
    content: Content,
    filled: dict[str, bool],
    here: _Here,
    space: Space,
    local: Local,
    now: Moment,
) -> Procedure[None]:
    """Have the addresses of these Services here, and no others of ours. _NotWritten."""
    kept = set()
    for one in content.slices:
        if one.service not in filled:
            continue
        for number, part in enumerate(parts(one)):
            name = slice_name(part, number, space)
            kept.add(name)
            wanted_here = _Part(name, part, filled[one.service])
            yield from _slice(wanted_here, here.slices.get(name), space, local, now)
    for name, old in here.slices.items():
        if name not in kept:
            yield from _delete("endpointslices", space, old.metadata)


def _here(space: Space) -> Procedure[_Here]:
    here = _Here({}, {})

    def take_service(item: bytes) -> None:
        found = read_service(item)
        if space_of(found.metadata) == space:
            here.services[found.metadata.name] = found

    def take_slice(item: bytes) -> None:
        found = read_slice(item)
        if space_of(found.metadata) == space and not found.of_a_controller:
            here.slices[found.metadata.name] = found

    selector = f"{names.COPY}={mark_of(space)}"
    yield from pages.each(path("services", space.namespace), take_service, selector)
    yield from pages.each(path("endpointslices", space.namespace), take_slice, selector)
    return here


def _left(content: Content, here: _Here, space: Space, local: Local) -> Procedure[dict[str, str]]:
    """Of those that never cross, what this cluster has itself."""
    found: dict[str, str] = {}
    for name, why in content.left.items():
        at = path("services", space.namespace, name)
        response = yield Request("GET", at)
        if not response.ok and response.status != NOT_FOUND:
            raise _NotWritten(_not_written(response, at, local))
        ours = name in here.services
        found[name] = _OWN if response.ok and not ours else why
    return found


def _service(
    one: Crossing, found: ServiceObject | None, space: Space, local: Local, now: Moment
) -> Procedure[bool | str]:
    """Have it here: whether it is headless; or why it is not ours to fill with addresses.
    _NotWritten.
    """
    at = path("services", space.namespace, one.name)
    if found is not None and found.bare and found.crossing.is_like(one):
        return one.headless
    whole: dict[str, Any] | None = None
    if found is not None and (found.metadata.deletion_timestamp or _is_remade(one, found)):
        yield from _delete("services", space, found.metadata)
    elif found is not None:
        response = yield Request("GET", at)
        if not response.ok:
            raise _NotWritten(_not_written(response, at, local))
        read = read_service(response.body)
        if space_of(read.metadata) == space:
            whole = msgspec.json.decode(response.body)
    body = msgspec.json.encode(service_object(one, space, whole))
    verb = "POST" if whole is None else "PUT"
    collection = path("services", space.namespace)
    response = yield Request(verb, collection if whole is None else at, body)
    if response.status == INVALID and whole is None and one.address:
        # That address is taken here, or not of this cluster's range.
        other = msgspec.structs.replace(one, address="")
        body = msgspec.json.encode(service_object(other, space, None))
        response = yield Request(verb, collection, body)
    if response.ok or response.unknown:
        local.foreign_budget.spend(space.whose, now.mono, len(body))
    if response.ok:
        return one.headless
    if verb == "POST" and response.status == CONFLICT:
        return (yield from _another(one, space, local))
    raise _NotWritten(_not_written(response, at, local))


def _is_remade(one: Crossing, found: ServiceObject) -> bool:
    """Whether it cannot be changed into this: a cluster IP stays as it is."""
    return one.headless != found.crossing.headless


def _another(one: Crossing, space: Space, local: Local) -> Procedure[bool | str]:
    """What is there under the name of one, which is not ours to write; of one that is joined,
    whether it is headless.
    """
    at = path("services", space.namespace, one.name)
    response = yield Request("GET", at)
    if not response.ok:
        raise _NotWritten(_not_written(response, at, local))
    try:
        found = read_service(response.body)
    except msgspec.MsgspecError as error:
        raise _NotWritten(Answer(UNKNOWN, f"{at} cannot be read: {error}")) from None
    of = space_of(found.metadata)
    if of == space:  # of another order: replicas come together
        if found.bare and found.crossing.is_like(one):
            return one.headless
        raise _NotWritten(Answer(UNKNOWN, f"{at} is being written"))
    if of is not None:
        return _COPIED
    joined = (found.metadata.annotations or {}).get(names.JOIN) == "true"
    return found.crossing.headless if joined else _OWN


class _Part(NamedTuple):
    """A slice as it is to be here, under this name."""

    name: str
    slice: CrossingSlice
    headless: bool

    def is_there(self, found: SliceObject) -> bool:
        """Whether that one holds the same."""
        there = found.crossing
        part = self.slice
        return (
            there.service == part.service
            and there.ports == part.ports
            and there.endpoints == part.endpoints
            and (HEADLESS in (found.metadata.labels or {})) == self.headless
        )


def _slice(
    part: _Part, found: SliceObject | None, space: Space, local: Local, now: Moment
) -> Procedure[None]:
    """Have it here. _NotWritten."""
    if found is not None and part.is_there(found):
        return
    wanted_here = slice_object(part.slice, part.name, space, headless=part.headless, found=found)
    body = msgspec.json.encode(wanted_here)
    at = path("endpointslices", space.namespace, part.name if found is not None else "")
    response = yield Request("POST" if found is None else "PUT", at, body)
    if response.ok or response.unknown:
        local.foreign_budget.spend(space.whose, now.mono, len(body))
    if found is None and response.status == CONFLICT:
        there = (yield from _here(space)).slices.get(part.name)
        if there is None:
            said = f'EndpointSlice "{space.namespace}/{part.name}" is there, and is none of ours'
            raise _NotWritten(Answer(REFUSED, said, OF_CLUSTER, passing=True))
        if part.is_there(there):  # of another order: replicas come together
            return
    if not response.ok:
        raise _NotWritten(_not_written(response, at, local))


def _delete(kind: str, space: Space, found: Metadata) -> Procedure[None]:
    """Delete exactly what was read. _NotWritten."""
    only = {"uid": found.uid, "resourceVersion": found.resource_version}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": only}
    at = path(kind, space.namespace, found.name)
    response = yield Request("DELETE", at, msgspec.json.encode(options))
    if not response.ok and response.status != NOT_FOUND:
        raise _NotWritten(Answer(UNKNOWN, f"{at}: {error_text(response)}"))


def _not_written(response: Response, at: str, local: Local) -> Answer:
    said = f"{at} cannot be written in cluster {local.cluster}: {error_text(response)}"
    if response.unknown or response.status == CONFLICT:
        return Answer(UNKNOWN, said)
    passing = response.passing or response.status == NOT_FOUND
    return Answer(REFUSED, said, OF_CLUSTER, passing=passing)


# --- duties
# --------------------------------------------------------------------------------------------------


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """What is due: a task for each namespace of a source with delegates here, for each whose home
    is silent, and for each without delegates for UNUSED_S; one finds what an earlier life of this
    agent has made.
    """
    if not local.serves or not local.view.synced:
        return
    table = local.services
    if not table.listed:
        yield ReconcileTask("services", None, _list_all(local, now))
    look_on(table, lambda: _in_use(local, now), now.mono, REFRESH_S)
    for space in list(table.due):
        yield ReconcileTask(f"services of {mark_of(space)}", None, refresh(space, local, now))
    for space, held in list(table.known.items()):
        if not held.shut and now.mono - held.answered >= STALE_S:
            task = withdraw(space, local, now)
            yield ReconcileTask(f"services of {mark_of(space)}", space.namespace, task)
    if table.look is None:  # else it is not known yet who uses them
        for space in table.unused(min(now.mono - UNUSED_S, table.known_since)):
            task = collect(space, local, now)
            yield ReconcileTask(f"services of {mark_of(space)}", space.namespace, task)


def _in_use(local: Local, now: Moment) -> Generator[None, None, Users]:
    """Namespaces of sources with delegates here, each with a few of the pods, those that end last:
    home may not know one of them any more. It rests after every `_AT_ONCE`.
    """
    found: Users = {}
    ending: Users = {}
    looked = 0
    for node in tuple(local.view.nodes()):
        for pod in tuple(local.view.pods_on(node.name)):
            source = pod.source
            looked += 1
            if looked % _AT_ONCE == 0:
                yield
            if source is None or not follows(source, local):
                continue
            space = space_of_source(source)
            ref = PodRef(source.namespace, source.name, source.uid)
            into = ending if pod.terminal or pod.terminating else found
            some = into.setdefault(space, [])
            if len(some) < _TRIED:
                some.append(ref)
            else:  # others each time
                some[looked % _TRIED] = ref
    due: Users = {}
    for space in {**found, **ending}:
        if space not in local.services.known and local.services.full(space):
            continue
        local.services.put(space, now.mono)
        due[space] = [*found.get(space, ()), *ending.get(space, ())][:_TRIED]
    return due


def follows(source: SourceRef, local: Local) -> bool:
    """Whether Services of this source's namespace are here: as the dispatcher says, in whose
    configuration it stands, and as our policy says. What it has not said yet changes nothing.
    """
    peer = local.peers.last_word(names.proxy_node_name(source.cluster))
    gives = peer is not None and (peer.follows is None or KIND in peer.follows)
    routed = local.peers.routed(source.cluster, source.cluster_uid) is not False
    return routed and gives and not local.policy.grants(source).no_services


def refresh(space: Space, local: Local, now: Moment) -> Procedure[str]:
    """Have the Services of one namespace follow home."""
    some = local.services.due.pop(space, [])
    held = local.services.known.get(space)
    answer: Answer | None = None
    for pod in some:
        if held is None or held.removing:
            break
        answers = held.answers
        heard = held.heard
        answer = yield from _follow(held, pod, local, now)
        if held.answers != answers or held.heard == heard:  # else of this pod nothing is given
            break
    return answer.message if answer is not None else ""


def withdraw(space: Space, local: Local, now: Moment) -> Procedure[str]:
    """Take away the addresses of a home that has not answered for STALE_S."""
    held = local.services.known.get(space)
    if held is None or held.shut or now.mono - held.answered < STALE_S:
        return ""
    answers = held.answers
    try:
        here = yield from _here(space)
        for found in here.slices.values():
            if held.answers != answers:  # meanwhile, to a pod that comes
                return ""
            yield from _delete("endpointslices", space, found.metadata)
    except (ListError, _NotWritten) as error:
        return str(error)
    held.shut = True
    held.content = b""
    held.digest = b""
    return ""


def collect(space: Space, local: Local, now: Moment) -> Procedure[str]:
    """Delete what is here of a namespace without delegates, if the API server shows none either."""
    held = local.services.known.get(space)
    if held is None or held.used > now.mono - UNUSED_S:
        return ""
    used = False

    def take(item: bytes) -> None:
        nonlocal used
        said = read_object(item).metadata.annotations or {}
        used = used or said.get(names.SOURCE_CLUSTER_UID) == space.cluster_uid

    held.removing = True
    try:
        yield from pages.each(
            pods.collection(space.namespace),
            take,
            names.DELEGATE_LABEL,
            page=pages.OF_PODS,
            most=pages.MOST_OF_PODS,
        )
        if used:  # by a pod that is not told to us: as long as it is there
            held.used = now.mono
            return ""
        here = yield from _here(space)
        for found in here.slices.values():
            yield from _delete("endpointslices", space, found.metadata)
        for service in here.services.values():
            yield from _delete("services", space, service.metadata)
    except (ListError, _NotWritten) as error:
        return str(error)
    finally:
        held.removing = False
    local.services.drop(space)
    return ""


def _list_all(local: Local, now: Moment) -> Procedure[str]:
    """Find what an earlier life of this agent has made. Who may not list in the whole cluster finds
    that alone of which delegates come.
    """

    def take(item: bytes) -> None:
        space = space_of(read_object(item).metadata)
        if space is not None and not local.services.full(space):
            local.services.put(space, now.mono, used=False)

    for of in ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"):
        try:
            yield from pages.each(of, take, names.COPY)
        except ListError as error:
            if error.status != FORBIDDEN:
                return str(error)
    local.services.listed = True
    return ""
