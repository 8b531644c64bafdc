"""What an agent fetches from another cluster's, and what that gives: nobody between them, and no asker, gets more."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agents.executor.bounds.byte_budget import ByteRate
from agents.executor.objects import contents
from agents.executor.objects.copies import PeerAsk
from agents.executor.relayed import giving, relay
from agents.runtime.relay import far_end, fetching
from agents.runtime.relay.fetching import Fetching
from shared.kube.http import Request, Response
from shared.messages.relay import (
    ABSENT,
    CONTENT,
    DENIED,
    LATER,
    MOST_GIVEN,
    OBJECTS,
    SAME,
    Given,
    PodWants,
    RelayAsk,
    RelayOpen,
    SignedAsk,
    WantedObject,
    decode_given,
    decode_head,
    encode_relay,
)
from shared.model import names
from shared.model.pod import PodRef
from shared.security.signatures import SignedClaim
from shared.streams.relayed import Stream
from tests.relay.world import HOME, SOURCE, TARGET, THIRD, WAIT_S, Member, World, world

WEB = PodRef("default", "web", "uid-web")
RED = {"data": {"colour": "red"}}
DIGEST = contents.read_content(b'{"data":{"colour":"red"}}').digest()
NONE: frozenset[bytes] = frozenset()
Between = Callable[[Stream], Any]


class Api:
    """No API server: nothing but other clusters is asked."""

    async def send(self, request: Request) -> Response:
        raise AssertionError(request)

    async def send_all(self, requests: Any) -> Any:
        raise AssertionError(requests)


class Fleet:
    """West asks east for what pod default/web names, which goes to west. `between`: what a gateway makes of that."""

    def __init__(self, made: World) -> None:
        self.made, self.home = made, made.home
        self.between: Between = lambda stream: stream
        self.opened = 0
        self.claim()
        self.home.api.pods["default/settings"] = {"metadata": {"name": "settings"}, **RED}
        self.fetching = self.of(made.target)

    def of(self, member: Member) -> Fetching:
        found = Fetching(Api())
        found.begin(member.local, lambda opening: self._streams(member.name, opening))
        return found

    def _streams(self, name: str, opening: bytes) -> Iterator[Stream]:
        for stream in self.made.streams[name](opening):
            self.opened += 1
            yield cast(Stream, self.between(stream))

    def claim(
        self,
        by: Member | None = None,
        *,
        uid: str = "uid-web",
        target: str = TARGET,
        target_uid: str = "uid-west",
        finalizer: bool = True,
    ) -> None:
        """The pod at home, with its claim."""
        keys = (by or self.home).local.keys
        mark = keys.sign_claim(SignedClaim(SOURCE, target, target_uid, "n1", b"digest"))
        metadata = {
            "name": "web",
            "namespace": "default",
            "uid": uid,
            "annotations": {names.CLAIM: mark},
            "finalizers": [names.FINALIZER] if finalizer else [],
        }
        volumes = [{"name": "v", "configMap": {"name": one}} for one in ("settings", "kube-root-ca.crt", *MANY)]
        self.home.api.pods["default/web"] = {"metadata": metadata, "spec": {"containers": [], "volumes": volumes}}

    async def ask(self, *wanted: WantedObject, pod: PodRef = WEB, of: Fetching | None = None) -> tuple[Given, ...]:
        answer = await self.answer(*wanted, pod=pod, of=of)
        assert answer.ok, answer.body
        return decode_given(answer.body).given

    async def answer(
        self, *wanted: WantedObject, pod: PodRef = WEB, of: Fetching | None = None, sought: frozenset[bytes] = NONE
    ) -> Response:
        wants = (PodWants(pod, wanted or (WantedObject("ConfigMap", "settings"),)),)
        ask = PeerAsk("GET", "objects", cluster=HOME, cluster_uid="uid-east", wants=wants, sought=sought)
        async with asyncio.timeout(WAIT_S):
            return await (of or self.fetching).send(ask)


MANY = [f"large-{at}" for at in range(5)]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with world(tmp_path) as made:
        yield Fleet(made)


class Altered:
    """A stream on which a gateway changes, or puts in place of it, what comes."""

    def __init__(self, stream: Stream, change: Callable[[int, bytes], bytes]) -> None:
        self._stream, self._change, self._read = stream, change, 0

    async def read(self) -> bytes:
        self._read += 1
        data = await self._stream.read()
        return self._change(self._read, data) if data else data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def test_what_a_pod_names_is_given_as_it_is_or_as_unchanged_or_as_lacking(fleet: Fleet) -> None:
    (given,) = await fleet.ask()
    assert given == Given(CONTENT, b'{"data":{"colour":"red"}}')
    fleet.fetching = fleet.of(fleet.made.target)
    assert await fleet.ask(WantedObject("ConfigMap", "settings", DIGEST)) == (Given(SAME),)
    del fleet.home.api.pods["default/settings"]
    assert await fleet.ask(WantedObject("ConfigMap", "settings", DIGEST)) == (Given(ABSENT),)


async def test_what_is_changed_since_the_claim_comes_as_it_is_now(fleet: Fleet) -> None:
    await fleet.ask()
    fleet.home.api.pods["default/settings"]["data"] = {"colour": "blue"}
    fleet.fetching = fleet.of(fleet.made.target)
    (given,) = await fleet.ask(WantedObject("ConfigMap", "settings", DIGEST))
    assert given.content == b'{"data":{"colour":"blue"}}'


async def test_a_mebibyte_and_binary_data_arrive_whole(fleet: Fleet) -> None:
    held = {"data": {"text": "x" * 2**20}, "binaryData": {"raw": base64.b64encode(os.urandom(1000)).decode()}}
    fleet.home.api.pods["default/settings"] = {"metadata": {}, **held}
    (given,) = await fleet.ask()
    content = contents.read_content(given.content)
    assert (content.data, content.binary_data) == (held["data"], held["binaryData"])


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (WantedObject("ConfigMap", "others"), 'pod default/web names no ConfigMap "others"'),
        (WantedObject("Secret", "settings"), 'pod default/web names no Secret "settings"'),
        (WantedObject("ConfigMap", "../secrets/x"), "names no ConfigMap"),
        (WantedObject("ConfigMap", "kube-root-ca.crt"), "names no ConfigMap"),
    ],
)
async def test_what_no_pod_names_is_not_given(fleet: Fleet, wanted: WantedObject, why: str) -> None:
    for name in ("others", "x", "kube-root-ca.crt"):
        fleet.home.api.pods[f"default/{name}"] = {"metadata": {}, **RED}
    (given,) = await fleet.ask(wanted)
    assert (given.state, given.content) == (DENIED, b"")
    assert why in given.text


CLAIMS: dict[str, Callable[[Fleet], None]] = {
    "for another cluster": lambda fleet: fleet.claim(target=THIRD, target_uid=""),
    "for another cluster of that name": lambda fleet: fleet.claim(target_uid="uid-other"),
    "of another pod": lambda fleet: fleet.claim(uid="uid-other"),
    "signed by who asks": lambda fleet: fleet.claim(fleet.made.target),
    "without our finalizer": lambda fleet: fleet.claim(finalizer=False),
    "of no pod": lambda fleet: fleet.home.api.pods.pop("default/web"),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
async def test_without_a_claim_for_who_asks_nothing_is_given(fleet: Fleet, claim: Callable[[Fleet], None]) -> None:
    claim(fleet)
    (given,) = await fleet.ask()
    assert (given.state, given.content) == (DENIED, b"")
    assert 'does not go to cluster "west"' in given.text


@pytest.mark.parametrize(
    "other", [PodRef("default", "plain", "u"), PodRef("default", "web", "u")], ids=["plain", "old"]
)
async def test_another_pod_of_the_same_namespace_or_name_opens_nothing(fleet: Fleet, other: PodRef) -> None:
    fleet.home.api.pods["default/plain"] = {"metadata": {"uid": "u"}, "spec": {"containers": []}}
    wanted = WantedObject("ConfigMap", "settings")
    asks = {("uid-east", "default", "", str(at)): (pod, wanted) for at, pod in enumerate((WEB, other))}
    found = await fleet.fetching._asked(PeerAsk("GET", "", cluster=HOME, cluster_uid="uid-east"), asks)
    assert [one.state for one in found.values()] == [CONTENT, DENIED]


async def test_what_its_owner_lets_follow_nobody_is_not_given(fleet: Fleet) -> None:
    fleet.home.api.pods["default/settings"]["metadata"]["annotations"] = {names.CONSENT: "none"}
    (given,) = await fleet.ask()
    assert (given.state, given.content) == (DENIED, b"")


async def test_a_cluster_that_asks_in_the_name_of_another_is_refused(fleet: Fleet) -> None:
    fleet.made.target.local.keys = fleet.made.members[THIRD].local.keys
    answer = await fleet.answer()
    assert not answer.ok
    assert b'not signed by a key known here of cluster "west"' in answer.body


async def said(fleet: Fleet, ask: Callable[[bytes], bytes]) -> tuple[int, str]:
    """What east answers to what is written to it after its challenge."""
    stream = next(fleet.made.streams[TARGET](encode_relay(RelayOpen(HOME, "uid-web"))))
    async with asyncio.timeout(WAIT_S):
        challenge = await stream.read()
        await stream.write(ask(challenge))
        head = decode_head(await stream.read())
    stream.reset("read")
    return head.status, head.text


def signed(fleet: Fleet, challenge: bytes, **more: Any) -> bytes:
    wants = (PodWants(WEB, (WantedObject("ConfigMap", "settings"),)),)
    fields = {"source": SOURCE, "target": TARGET, "target_uid": "uid-west", "verb": OBJECTS, "wants": wants, **more}
    body = encode_relay(RelayAsk(challenge=challenge, method="GET", **fields))
    return encode_relay(SignedAsk(body, fleet.made.target.local.keys.sign_ask(body)))


async def test_an_ask_is_good_for_one_connection_and_for_the_cluster_that_it_names(fleet: Fleet) -> None:
    asks: list[bytes] = []

    def first(challenge: bytes) -> bytes:
        asks.append(signed(fleet, challenge))
        return asks[0]

    assert (await said(fleet, first))[0] == 200
    assert await said(fleet, lambda _: asks[0]) == (
        relay.FORBIDDEN,
        "the request is not meant for this cluster, or not for this connection",
    )
    other = SOURCE.__class__(THIRD, "uid-north", "default", "web", "uid-web", 1)
    assert (await said(fleet, lambda challenge: signed(fleet, challenge, source=other)))[0] == relay.FORBIDDEN
    renamed = await said(fleet, lambda challenge: signed(fleet, challenge, target=THIRD))
    assert renamed == (relay.FORBIDDEN, 'cluster "north" is known here under another name')


async def test_what_a_gateway_changes_is_not_taken(fleet: Fleet) -> None:
    def change(nth: int, data: bytes) -> bytes:
        return data[:-1] + bytes((data[-1] ^ 1,)) if nth > 2 else data

    fleet.between = lambda stream: Altered(stream, change)
    answer = await fleet.answer()
    assert (answer.ok, b"not sealed to the key of this question" in answer.body) == (False, True)


class Replayed:
    """A stream on which a gateway says what it has heard earlier, from the `first` word on."""

    def __init__(self, stream: Stream, heard: list[bytes], first: int) -> None:
        self._stream, self._heard, self._first, self._read = stream, heard, first, 0

    async def read(self) -> bytes:
        self._read += 1
        if self._read < self._first:
            return await self._stream.read()
        return self._heard[self._read - 1] if self._read <= len(self._heard) else b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.mark.parametrize("first", [1, 2], ids=["with its challenge", "with a new challenge"])
async def test_an_earlier_answer_is_not_taken_for_a_new_one(fleet: Fleet, first: int) -> None:
    heard: list[bytes] = []

    def listen(nth: int, data: bytes) -> bytes:
        heard.append(data)
        return data

    fleet.between = lambda stream: Altered(stream, listen)
    await fleet.ask()
    fleet.fetching = fleet.of(fleet.made.target)
    fleet.between = lambda stream: Replayed(stream, heard, first)
    answer = await fleet.answer()
    assert (answer.ok, b"not sealed to the key of this question" in answer.body) == (False, True)


async def test_what_many_want_at_once_crosses_once(fleet: Fleet) -> None:
    found = await asyncio.gather(*(fleet.ask() for _ in range(50)))
    assert {one.state for (one,) in found} == {CONTENT}
    assert (await fleet.ask())[0].state == CONTENT
    assert fleet.opened == 1


async def test_who_seeks_what_was_changed_meanwhile_is_not_given_what_others_had_before(fleet: Fleet) -> None:
    await fleet.ask()
    blue = b'{"data":{"colour":"blue"}}'
    fleet.home.api.pods["default/settings"]["data"] = {"colour": "blue"}
    answer = await fleet.answer(sought=frozenset((contents.digest_of(blue),)))
    assert [one.content for one in decode_given(answer.body).given] == [blue]
    await fleet.answer(sought=frozenset((DIGEST,)))  # which is not there any more: it is asked for once
    assert fleet.opened == 3


@pytest.mark.parametrize("before", [Given(ABSENT), Given(CONTENT, b"{}")], ids=["lacking", "other content"])
async def test_who_waits_for_others_that_asked_before_a_change_asks_itself(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, before: Given
) -> None:
    now = Given(CONTENT, b'{"data":{"colour":"red"}}')
    answers = iter((before, now))

    async def asked(ask: PeerAsk, wanted: dict[Any, Any]) -> dict[Any, Given]:
        given = next(answers)
        await asyncio.sleep(0)
        return dict.fromkeys(wanted, given)

    monkeypatch.setattr(fleet.fetching, "_asked", asked)
    _, second = await asyncio.gather(fleet.ask(), fleet.answer(sought=frozenset((DIGEST,))))
    assert decode_given(second.body).given == (now,)


async def test_who_waits_for_others_that_fail_asks_itself(fleet: Fleet) -> None:
    failed = iter((True, False))

    def between(stream: Stream) -> Stream:
        if next(failed):
            stream.reset("cut")
        return stream

    fleet.between = between
    first, second = await asyncio.gather(fleet.answer(), fleet.answer())
    assert (first.ok, second.ok) == (False, True)


async def test_who_waits_for_one_that_is_denied_it_asks_for_its_own_pod(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter((Given(DENIED), Given(CONTENT, b"{}")))

    async def asked(ask: PeerAsk, wanted: dict[Any, Any]) -> dict[Any, Given]:
        given = next(answers)
        await asyncio.sleep(0)
        return dict.fromkeys(wanted, given)

    monkeypatch.setattr(fleet.fetching, "_asked", asked)
    found = await asyncio.gather(fleet.ask(), fleet.ask())
    assert [one.state for (one,) in found] == [DENIED, CONTENT]


async def test_who_has_it_already_keeps_no_other_from_the_content(fleet: Fleet) -> None:
    has, lacks = WantedObject("ConfigMap", "settings", DIGEST), WantedObject("ConfigMap", "settings")
    found = await asyncio.gather(fleet.ask(has), fleet.ask(lacks))
    assert [one.state for (one,) in found] == [SAME, CONTENT]


async def test_an_answer_is_bounded_and_the_rest_comes_when_it_is_asked_for_again(fleet: Fleet) -> None:
    for name in MANY:
        fleet.home.api.pods[f"default/{name}"] = {"metadata": {}, "data": {"text": name + "x" * 1_800_000}}
    wanted = [WantedObject("ConfigMap", name) for name in MANY]
    given = await fleet.ask(*wanted)
    assert [one.state for one in given] == [CONTENT] * 3 + [LATER] * 2
    assert sum(len(one.content) for one in given) <= MOST_GIVEN
    assert [one.state for one in await fleet.ask(*wanted[3:])] == [CONTENT] * 2


async def test_a_cluster_that_asks_for_very_much_at_once_is_told_so(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far_end, "MOST_AT_ONCE", 0)
    assert b"questions for objects are under way" in (await fleet.answer()).body


async def test_who_asks_for_too_much_of_one_namespace_gets_nothing_of_it_for_a_while_and_of_others_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far_end, "GIVEN_OF_NAMESPACE", ByteRate(3 * giving.A_LOOK, 1))
    async with world(tmp_path) as made:
        fleet = Fleet(made)
        assert (await fleet.ask())[0].state == CONTENT
        (given,) = await fleet.ask(of=fleet.of(made.target))
        assert (given.state, "too much of late" in given.text) == (DENIED, True)
        (given,) = await fleet.ask(WantedObject("ConfigMap", "x"), pod=PodRef("other", "web", "uid-web"))
        assert "does not go to cluster" in given.text


async def test_who_looks_at_pods_and_asks_for_nothing_is_charged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far_end, "GIVEN", ByteRate(giving.A_LOOK - 1, 1))
    async with world(tmp_path) as made:
        fleet = Fleet(made)
        ask = PeerAsk("GET", "objects", cluster=HOME, cluster_uid="uid-east", wants=(PodWants(WEB, ()),))
        assert (await fleet.fetching.send(ask)).ok
        assert b"too much of late" in (await fleet.answer()).body


async def test_who_would_wait_for_earlier_questions_without_an_answer_is_told_so(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = fleet.fetching._places["uid-east"] = asyncio.Semaphore(1)
    await places.acquire()
    monkeypatch.setattr(fetching, "ANSWER_S", 0.01)
    assert b"does not answer 2 earlier questions" in (await fleet.answer()).body


async def test_answers_for_those_who_ask_soon_after_are_kept_no_longer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fleet.ask()
    assert (len(fleet.fetching._recent), fleet.fetching._kept) == (1, len(b'{"data":{"colour":"red"}}'))
    monkeypatch.setattr(fetching, "FRESH_S", 0.0)
    await fleet.ask(WantedObject("ConfigMap", "large-0"))
    assert (len(fleet.fetching._recent), fleet.fetching._kept) == (0, 0)


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_GIVEN", 0)
    monkeypatch.setattr(fetching, "_MORE", 10)
    assert (await fleet.answer()).body == b"its answer is too long"


async def test_an_agent_that_is_not_connected_says_so(fleet: Fleet) -> None:
    fleet.fetching.begin(fleet.made.target.local, lambda opening: iter(()))
    assert b"connected to no dispatcher" in (await fleet.answer()).body
