"""Services of sources' namespaces are kept as at home, and go after the last delegate there.

They are updated from home while delegates of the namespace run here (`refresh`), and go after the
last of these (`collect`), once the API server shows none. Where home cannot be asked, its addresses
are taken away after STALE_S: a wrong pod answers worse than none. Its Services stay, so names go on
to resolve.
"""

from collections.abc import Generator, Iterator

from agents.executor.context.local import Local, Moment
from agents.executor.context.looks import look_on
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.context.service_table import Space, Users
from agents.executor.objects import pages, pods, services
from agents.executor.objects.pages import ListError
from agents.executor.objects.reads import read_object
from agents.executor.objects.service_content import KIND, mark_of
from agents.executor.objects.services_here import (
    NotWritten,
    delete,
    here_of,
    list_all,
    list_left,
    remove_all,
)
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer
from shared.model import names
from shared.model.pod import PodRef, SourceRef

REFRESH_S = 20.0  # between two questions to home
STALE_S = 120.0  # without an answer from home, until its addresses are taken away
UNUSED_S = 60.0  # without a delegate, until all is deleted
_AT_ONCE = 2_000  # delegates of one turn
BY_HAND = f"kubectl delete services,endpointslices -A -l {names.COPY}"
_TRIED = 8  # pods of a namespace, of which home may know one no more


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """What is due: a task for each namespace of a source with delegates here, for each whose home
    is silent, and for each without delegates for UNUSED_S; one finds what an earlier life of this
    agent has made. Where none are to be here (any more), what is found is deleted.
    """
    if local.serves is None or not local.view.synced:
        return
    off = not local.serves
    table = local.services
    if not table.listed and table.has_room:
        found = list_left(local, now) if off else list_all(local, now)
        yield ReconcileTask("services", None, found)
    unwanted = [space for space in table.known if off or _does_without(space, local)]
    for space in unwanted:
        task = give_up(space, local)
        yield ReconcileTask(f"services of {mark_of(space)}", space.namespace, task)
    if off:
        return
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
            if source is None or not serves(source, local):
                continue
            space = services.space_of_source(source)
            ref = PodRef(source.namespace, source.name, source.uid)
            into = ending if pod.terminal or pod.terminating else found
            some = into.setdefault(space, [])
            if len(some) < _TRIED:
                some.append(ref)
            else:  # others each time
                some[looked % _TRIED] = ref
    due: Users = {}
    for space in {**found, **ending}:
        if local.services.full(space):
            continue
        local.services.put(space, now.mono)
        due[space] = [*found.get(space, ()), *ending.get(space, ())][:_TRIED]
    return due


def serves(source: SourceRef, local: Local) -> bool:
    """Whether Services of this source's namespace are here: as the dispatcher says, in whose
    configuration it stands, and as our policy says. What it has not said yet changes nothing.
    """
    peer = local.peers.last_word(names.proxy_node_name(source.cluster))
    gives = peer is not None and (peer.follows is None or KIND in peer.follows)
    routed = local.peers.routed(source.cluster, source.cluster_uid) is not False
    return routed and gives and not local.policy.grants(source).no_services


def refresh(space: Space, local: Local, now: Moment) -> Procedure[str]:
    """Have the Services of one namespace as they are at home."""
    some = local.services.due.pop(space, [])
    held = local.services.known.get(space)
    answer: Answer | None = None
    for pod in some:
        if held is None or held.removing:
            break
        answers = held.answers
        heard = held.heard
        answer = yield from services.update(held, pod, local, now)
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
        here = yield from here_of(space)
        for found in here.slices.values():
            if held.answers != answers:  # meanwhile, to a pod that comes
                return ""
            yield from delete("endpointslices", space, found.metadata)
    except (ListError, NotWritten) as error:
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
        yield from remove_all(held)
    except (ListError, NotWritten) as error:
        return str(error)
    finally:
        held.removing = False
    local.services.drop(space)
    return ""


def _does_without(space: Space, local: Local) -> bool:
    """Whether our policy says that pods of there call none."""
    said = any(row.services for row in local.policy.accept)  # seldom: this costs less
    return said and local.policy.grants(space.whose).no_services


def give_up(space: Space, local: Local) -> Procedure[str]:
    """Delete what is here of a namespace of which this cluster's policy wants none any more, though
    delegates may have called it.
    """
    held = local.services.known.get(space)
    if held is None or held.removing:
        return ""
    try:
        yield from remove_all(held)
    except (ListError, NotWritten) as error:
        return f"{error}; if its rights are gone: {BY_HAND}"
    local.services.drop(space)
    return ""
