"""Copies of the objects that delegates name are kept as their originals, and go after the last.

They are kept as their originals while delegates name them (`refresh`): each source cluster is asked
for all at once, with the digests of what is here. One that is not named any more is deleted after a
while, once this agent has seen everything and the API server shows no pod that names it; silence of
a source cluster is no word against any.
"""

import math
import re
from collections import deque
from collections.abc import Collection, Generator, Iterator

from agents.executor.context.copy_table import (
    REFRESH_S,
    CopyKey,
    Original,
    Sought,
    questions,
)
from agents.executor.context.local import Local, Moment
from agents.executor.context.looks import look_on
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.objects import copies, pages, pods
from agents.executor.objects.copy_objects import key_of, original_of
from agents.executor.objects.find_copies import find_copies
from agents.executor.objects.kinds import KINDS
from agents.executor.objects.pages import ListError
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer
from shared.model import names
from shared.model.copy_names import HASH
from shared.model.pod import Pod, PodRef

UNUSED_S = 60.0  # for so long nobody has named a copy that is deleted
CHECK_S = 30.0  # a copy that is in use is read again: whoever may has changed it, or deleted it
# names of one turn, some 20 ms: pods may name 180 each, whether these exist or not
_AT_ONCE = 2_000
_AGAIN = 50  # so many that others of their namespace have named, too, cost as much as a new one
_MUCH = 100  # objects of a namespace, for which others do not wait
_LOST = "a container that has started meanwhile may lack it, if it calls it optional"
_UNTAKEN = "no row of that cluster's executor.accept has it in secrets_follow any more"
# how the name of a copy ends; JSON escapes none
_NAMED = re.compile(rb'-(%b)"' % HASH.encode())


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """What is due of copies: a task for each source cluster whose objects are named here, one for
    each namespace with copies that nobody has named for UNUSED_S, or that our policy takes no more,
    and one that finds all copies, in each life of an agent.
    """
    if not local.follows or not local.view.synced:
        return
    table = local.copies
    if not table.listed:
        yield ReconcileTask("copies", None, find_copies(local, now))
    look_on(table, lambda: _in_use(local, now), now.mono, REFRESH_S)
    for asked in list(table.due):
        yield ReconcileTask(f"copies of {asked}", None, refresh(asked, local, now))
    unused: dict[str, list[CopyKey]] = {}
    if table.look is None:  # else there may be very many, and it is not known yet who uses them
        for key in table.unused(min(now.mono - UNUSED_S, table.known_since)):
            unused.setdefault(key.namespace, []).append(key)
    for namespace, keys in unused.items():
        yield ReconcileTask(f"copies in {namespace}", namespace, collect(keys, local, now))
    for namespace in list(table.untaken):
        task = take_back(namespace, local, now)
        yield ReconcileTask(f"untaken copies in {namespace}", namespace, task)


def _in_use(local: Local, now: Moment) -> Generator[None, None, Sought]:
    """By source cluster's UID, what delegates here name, each object with one of its pods: as few
    pods as come, those that go on before those that end. Of a namespace with very much by itself,
    so that others do not wait for it. It rests after every `_AT_ONCE` names.
    """
    seen: dict[tuple[str, str, str], set[tuple[str, str]]] = {}
    found: dict[tuple[str, str], list[tuple[PodRef, list[Original]]]] = {}
    bearers: dict[tuple[str, str], PodRef] = {}
    untaken: dict[Original, PodRef] = {}
    delegates = deque(
        pod
        for node in tuple(local.view.nodes())
        for pod in local.view.pods_on(node.name)
        if pod.source is not None and names.FOLLOWERS in pod.annotations
    )
    # by other pods each time: one of them may not be known at home any more
    delegates.rotate(int(now.mono // REFRESH_S) % max(1, len(delegates)))
    denied = local.copies.denied
    if denied:
        denied.intersection_update([_asked_by(pod) for pod in delegates])
    looked = 0.0
    for pod in sorted(
        delegates, key=lambda one: (_asked_by(one) in denied, one.terminal or one.terminating)
    ):
        source = pod.source
        assert source is not None  # noqa: S101 - looked at above
        named = copies.named_by(pod.annotations)
        takes = local.policy.grants(source).takes
        words = seen.setdefault((source.cluster_uid, source.namespace, source.cluster), set())
        new = [one for one in dict.fromkeys(named) if one not in words and one[0] in KINDS]
        words.update(new)
        ref = PodRef(source.namespace, source.name, source.uid)
        more = [original_of(source, *one) for one in new if takes(*one) and one[0] in local.follows]
        for original in more:
            local.copies.put(key_of(original), original, now.mono)
        untaken.update((original_of(source, *one), ref) for one in new if not takes(*one))
        if new:
            bearers[source.cluster_uid, source.uid] = PodRef(pod.namespace, pod.name, pod.uid)
        if more:
            found.setdefault((source.cluster_uid, source.namespace), []).append((ref, more))
        looked += 1 + len(new) + len(named) / _AGAIN
        if looked >= _AT_ONCE:
            looked = 0.0
            yield
    local.copies.bearers = bearers
    local.copies.untaken = _of_nobody(untaken, local, now)
    due: Sought = {}
    for (uid, namespace), sought in found.items():
        much = sum(len(of) for _, of in sought) > _MUCH
        due.setdefault(f"{uid}/{namespace}" if much else uid, []).extend(sought)
    return due


def _asked_by(pod: Pod) -> tuple[str, str]:
    """Of the source of a delegate, the UID of its cluster and its own."""
    source = pod.source
    return (source.cluster_uid, source.uid) if source is not None else ("", "")


def _of_nobody(
    untaken: dict[Original, PodRef], local: Local, now: Moment
) -> dict[str, list[tuple[PodRef, Original]]]:
    """By namespace, those of which copies may be, and that no delegate names rightly: its cluster
    may have another name by now.
    """
    found: dict[str, list[tuple[PodRef, Original]]] = {}
    since = local.copies.looked_at
    for original, pod in untaken.items():
        copy = local.copies.known.get(key_of(original))
        used = copy is not None and copy.named and copy.used >= since
        if not (used or local.copies.taken_back.get(original)):
            found.setdefault(original.namespace, []).append((pod, original))
    return found


def refresh(asked: str, local: Local, now: Moment) -> Procedure[str]:
    """Have the copies of what one cluster's delegates name as their originals are."""
    sought = local.copies.due.pop(asked, [])
    problem = ""
    for of in questions(sought):
        lost: list[tuple[PodRef, Original]] = []
        for pod, original in ((pod, one) for pod, named in of for one in named):
            copy = local.copies.known.get(key_of(original))
            if copy is None or now.mono - copy.seen >= CHECK_S:
                was_there = copy is not None and copy.size > 0
                found = yield from copies.read_here(original, local, now)
                problem = problem or (found.message if isinstance(found, Answer) else "")
                if was_there and found is None:
                    lost.append((pod, original))
        answer = yield from copies.fetch(of, local, now)
        problem = problem or (answer.message if answer is not None else "")
        for pod, original in lost:
            copy = local.copies.known.get(key_of(original))
            if copy is not None and copy.size > 0:
                what = f'{original.kind} "{original.name}"'
                why = f"was deleted there, and is made again, of {what}: {_LOST}"
                copies.tell(pod, original, why, local, now)
    return problem


def take_back(namespace: str, local: Local, now: Moment) -> Procedure[str]:
    """Delete copies of one namespace that our policy takes no more, though delegates name them:
    what runs has read them. As where their owner takes consent back.
    """
    first = ""
    for pod, original in local.copies.untaken.pop(namespace, []):
        key = key_of(original)
        was_known = key in local.copies.known
        removed = yield from copies.delete_unused(original, local, now)
        if removed.problem:
            first = first or removed.problem
            continue
        local.copies.drop(key)
        local.copies.taken_back.put(original, True)
        if not (removed.deleted or was_known):  # in an earlier life, which told of it
            continue
        why = f'is deleted of {original.kind} "{original.name}": {_UNTAKEN}'
        copies.tell(pod, original, why, local, now)
    return first


def collect(keys: list[CopyKey], local: Local, now: Moment) -> Procedure[str]:
    """Delete copies of one namespace that nobody has named for a while, if the API server shows no
    pod that does.
    """
    try:
        named = yield from named_in(keys[0].namespace, {_hash_of(key) for key in keys})
    except ListError as error:
        return str(error)
    first = ""
    for key in keys:
        copy = local.copies.known.get(key)
        if copy is None or copy.used > now.mono - UNUSED_S:
            continue
        # by a pod that is not told to us: as long as it does
        if _hash_of(key) in named:
            copy.used = now.mono
            continue
        copy.removing = True
        try:
            removed = yield from copies.delete_unused(copy.original, local, now)
        finally:
            copy.removing = False
        if removed.problem:  # of this one: others go
            first = first or removed.problem
        else:
            local.copies.drop(key)
    return first


def _hash_of(key: CopyKey) -> str:
    return key.name.rpartition("-")[2]


def named_in(namespace: str, sought: Collection[str]) -> Procedure[set[str]]:
    """Which of these hashes are in the names of copies that the pods of a namespace name, as the API
    server has them. ListError. Of what they say otherwise some may look like one: it stays. No more
    than the JSON of the pods is gone through, of some 2 ms a mebibyte, and nothing else of it kept.
    """
    named: set[bytes] = set()
    hashes = frozenset(one.encode() for one in sought)
    take = lambda pod: named.update(hashes.intersection(_NAMED.findall(pod)))  # noqa: E731
    yield from pages.each(pods.collection(namespace), take, page=pages.OF_PODS, most=math.inf)
    return {one.decode() for one in named}
