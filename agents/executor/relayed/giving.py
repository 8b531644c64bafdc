"""What this cluster gives to another one of what its pods there name: see `copies`, on that side.

Whoever asks must be the cluster to which a pod of ours goes, by a claim that this cluster has
signed and that the pod bears now; and it is given only what that pod names now, and its owner lets
follow it there (`consent`). All of it is read from the API server for each question: nothing is
believed of the asker, the gateway, or a watch. A Secret is given to who can have it sealed alone.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from agents.executor.context.local import Local
from agents.executor.objects import consent, kinds, pods
from agents.executor.objects.contents import SECRET, digest_of, read_content
from agents.executor.objects.kinds import KINDS, OF_EACH_CLUSTER
from agents.executor.objects.reads import get
from agents.executor.relayed import giving_services
from shared.kube.http import Procedure
from shared.kube.verdicts import NOT_FOUND, error_text
from shared.messages.relay import (
    ABSENT,
    CONTENT,
    DENIED,
    LATER,
    MOST_GIVEN,
    MOST_OBJECT,
    SAME,
    WITHDRAWN,
    Given,
    GivenObjects,
    PodWants,
    RelayAsk,
    SignedGiven,
    WantedObject,
    encode_relay,
)
from shared.model.pod import PodRef

MOST_WANTED = 1_000  # objects of one question
_LATER = Given(LATER)
A_LOOK = 4 * 1024  # bytes that a look at an object costs, whatever comes of it
_READ = 16  # so many bytes that are read cost as much as one that is given
_Key = tuple[str, str, str]


class Account(NamedTuple):
    """What one cluster is given, by namespace. `spent`: why nothing more of one is given just now,
    '' if more is; `spend`: so many bytes of it were given, or as good as.
    """

    spent: Callable[[str], str] = lambda namespace: ""
    spend: Callable[[str, int], None] = lambda namespace, size: None


_FREE = Account()


def answer(ask: RelayAsk, body: bytes, local: Local, account: Account = _FREE) -> Procedure[bytes]:
    """The answer to a question that was checked (`relay.checked_ask`), and came as `body`: a
    SignedGiven, encoded. What it costs is spent as it goes, for nobody may hear the answer.
    """
    found: list[Given] = []
    room = MOST_GIVEN
    asked = sum(len(wants.objects) for wants in ask.wants)
    if asked > MOST_WANTED:
        why = f"more than {MOST_WANTED} objects are asked for at once"
        return _signed([Given(DENIED, text=why)] * asked, body, local)
    read: dict[_Key, Given] = {}
    for wants in ask.wants:
        namespace = wants.pod.namespace
        account.spend(namespace, A_LOOK)
        named = account.spent(namespace) or (yield from _named(ask, wants, local))
        for wanted in wants.objects:
            why = named if isinstance(named, str) else account.spent(namespace)
            if isinstance(named, str) or why:
                found.append(Given(DENIED, text=why))
                continue
            if giving_services.asks(wanted):
                given = yield from _services(ask, wants.pod, wanted, read, local, account)
            else:
                given = yield from _given(ask, wants.pod, wanted, named, read, local, account)
            if len(given.content) > room:
                given = _LATER
            if given.state in (SAME, LATER):  # its content is not kept: there may be very much
                read.pop((namespace, wanted.kind, wanted.name), None)
            room -= len(given.content)
            account.spend(namespace, len(given.content))
            found.append(given)
    return _signed(found, body, local)


def _signed(found: list[Given], ask: bytes, local: Local) -> bytes:
    given = encode_relay(GivenObjects(tuple(found)))
    return encode_relay(SignedGiven(given, local.keys.sign_given(ask, given)))


def _named(
    ask: RelayAsk, wants: PodWants, local: Local
) -> Procedure[frozenset[tuple[str, str]] | str]:
    """Kinds and names of what a pod of ours names that goes to the cluster that asks; or why
    nothing of it is given.
    """
    ref = wants.pod
    what = f"pod {ref.namespace}/{ref.name}"
    look = yield from pods.look_up(ref.namespace, ref.name)
    if not look.answered:
        return f"{what} is not known just now: {look.problem}"
    signed = look.pod.claimed(local.keys.public) if look.pod is not None else None
    goes = (
        signed is not None
        and look.pod is not None
        and look.pod.uid == ref.uid
        and signed.target == ask.target
        and signed.target_uid in ("", ask.target_uid)
    )
    if not goes:
        return f'{what} does not go to cluster "{ask.target}" by a claim of this cluster'
    try:
        return frozenset(_each_named(look.body))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        return f"{what} cannot be read: {error!r}"


def _each_named(pod: bytes) -> Iterator[tuple[str, str]]:
    read = msgspec.json.decode(pod)
    for kind in KINDS.values():
        for name in kinds.named(read, kind):
            if (kind.word, name) not in OF_EACH_CLUSTER:
                yield kind.word, name


def _given(  # noqa: PLR0913 - one object of one pod of one question
    ask: RelayAsk,
    pod: PodRef,
    wanted: WantedObject,
    named: frozenset[tuple[str, str]],
    read: dict[_Key, Given],
    local: Local,
    account: Account,
) -> Procedure[Given]:
    if (wanted.kind, wanted.name) not in named:
        why = f'pod {pod.namespace}/{pod.name} names no {wanted.kind} "{wanted.name}"'
        return Given(DENIED, text=why)
    if wanted.kind == SECRET and not ask.seal:
        why = f'cluster "{ask.target}" has given no key to which a Secret could be sealed'
        return Given(DENIED, text=why)
    key = (pod.namespace, wanted.kind, wanted.name)
    if key not in read:
        read[key] = yield from _read(*key, ask.target, local)
        account.spend(pod.namespace, A_LOOK + len(read[key].content) // _READ)
    given = read[key]
    if given.state == CONTENT and digest_of(given.content, given.key) == wanted.digest:
        return Given(SAME)
    return given


def _services(
    ask: RelayAsk,
    pod: PodRef,
    wanted: WantedObject,
    read: dict[_Key, Given],
    local: Local,
    account: Account,
) -> Procedure[Given]:
    key = (pod.namespace, wanted.kind, wanted.name)
    if key not in read:
        read[key] = yield from giving_services.read(ask, pod.namespace, local)
        account.spend(pod.namespace, A_LOOK + len(read[key].content) // _READ)
    return giving_services.told(read[key], wanted)


def _read(namespace: str, word: str, name: str, cluster: str, local: Local) -> Procedure[Given]:
    what = f'{word} "{namespace}/{name}"'
    response = yield from get(KINDS[word].path(namespace, name), NOT_FOUND)
    there = response.status != NOT_FOUND
    if there and not response.ok:
        return Given(DENIED, text=f"{what} is not known just now: {error_text(response)}")
    try:
        body = response.body if there else None
        owner = yield from consent.of_owner(word, namespace, name, cluster, body)
        if owner.why:
            kept = word == SECRET and owner.known
            return Given(WITHDRAWN if kept else DENIED, text=owner.why)
        if not there:
            return Given(ABSENT)
        content = read_content(response.body, word).encoded
    except msgspec.MsgspecError as error:
        return Given(DENIED, text=f"{what} cannot be read: {error}")
    if len(content) > MOST_OBJECT:
        return Given(DENIED, text=f"{what} has more than {MOST_OBJECT} bytes")
    secret = local.keys.digest_key(cluster, namespace, name) if word == SECRET else b""
    return Given(CONTENT, content, key=secret)
