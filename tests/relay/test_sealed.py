"""What crosses is sealed to who asks: neither a gateway nor another question's answer opens, or forges, anything."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.relayed import relay
from agents.runtime.relay import fetching
from agents.runtime.relay.wire import OK
from shared.messages.relay import (
    CONTENT,
    DENIED,
    Given,
    GivenObjects,
    RelayHead,
    SignedAsk,
    SignedGiven,
    WantedObject,
    decode_ask,
    decode_head,
    decode_signed,
    encode_relay,
)
from shared.model import names
from shared.security import sealing
from shared.security.sealing import Seal, SealError
from shared.streams.relayed import Stream
from tests.relay.test_fetching import Altered, Fleet, said, signed
from tests.relay.world import TARGET, WAIT_S, Member, world

MARKER = b"s3cr3t-marker"
DB = WantedObject("Secret", "db")
SETTINGS = WantedObject("ConfigMap", "settings")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with world(tmp_path) as made:
        found = Fleet(made)
        pod = found.home.api.pods["default/web"]
        pod["spec"]["volumes"].append({"name": "db", "secret": {"secretName": "db"}})
        metadata = {"name": "db", "annotations": {names.CONSENT: TARGET}}
        data = {"password": base64.b64encode(MARKER).decode(), "user": "YQ=="}
        found.home.api.pods["default/db"] = {"metadata": metadata, "data": data}
        yield found


class Forged:
    """A stream on which a gateway puts head and body in place of what comes: `answer` of the ask and the body."""

    def __init__(self, stream: Stream, answer: Callable[[bytes], list[bytes]]) -> None:
        self._stream, self._answer, self._sent, self._said = stream, answer, b"", list[bytes]()

    async def write(self, data: bytes) -> None:
        self._sent = data
        self._said = [*self._answer(data), b""]

    async def read(self) -> bytes:
        return self._said.pop(0) if self._sent else await self._stream.read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def answer_of(signer: Member, given: Given, *, seals: bool) -> Callable[[bytes], list[bytes]]:
    """What `signer` would answer, sealed to who asks or not."""

    def answer(sent: bytes) -> list[bytes]:
        objects = encode_relay(GivenObjects((given,)))
        body = encode_relay(SignedGiven(objects, signer.local.keys.sign_given(sent, objects)))
        if seals:
            body = sealing.sealed(decode_ask(decode_signed(sent).ask).seal, sent, body)
        return [encode_relay(RelayHead(OK, sealed=seals)), body]

    return answer


async def test_a_secret_reaches_who_asks_and_nobody_between_can_read_it_or_a_config_map(fleet: Fleet) -> None:
    heard = bytearray()

    def listen(nth: int, data: bytes) -> bytes:
        heard.extend(data)
        return data

    fleet.between = lambda stream: Altered(stream, listen)
    secret, settings = await fleet.ask(DB, SETTINGS)
    encoded = base64.b64encode(MARKER)
    assert (encoded in secret.content, b"red" in settings.content) == (True, True)
    assert len(heard) > len(secret.content) + len(settings.content)
    assert not any(text in heard for text in (MARKER, encoded, b'"red"', secret.key))


@pytest.mark.parametrize("wanted", [DB, SETTINGS])
async def test_a_gateway_that_seals_an_answer_of_its_own_has_not_signed_it(fleet: Fleet, wanted: WantedObject) -> None:
    forged = answer_of(fleet.made.members["north"], Given(CONTENT, b'{"data":{"a":"YQ=="}}', key=b"k"), seals=True)
    fleet.between = lambda stream: Forged(stream, forged)
    answer = await fleet.answer(wanted)
    assert (answer.ok, b"not signed by a key known here" in answer.body) == (False, True)


async def test_answers_to_two_questions_cannot_be_swapped(fleet: Fleet) -> None:
    """They are of one kind and for one pod, and come in the same second."""
    held: dict[int, asyncio.Future[bytes]] = {}

    class Swapped(Altered):
        async def read(self) -> bytes:
            self._read += 1
            data = await self._stream.read()
            if self._read != 3:
                return data
            mine, other = id(self), asyncio.get_running_loop().create_future()
            held[mine] = other
            while len(held) < 2:  # noqa: ASYNC110 - two of them
                await asyncio.sleep(0.01)
            next(future for at, future in held.items() if at != mine).set_result(data)
            return await asyncio.wait_for(other, WAIT_S)

    fleet.between = lambda stream: Swapped(stream, lambda nth, data: data)
    one, two = fleet.of(fleet.made.target), fleet.of(fleet.made.target)
    answers = await asyncio.gather(fleet.answer(DB, of=one), fleet.answer(DB, of=two))
    assert [b"not sealed to the key of this question" in answer.body for answer in answers] == [True, True]


async def test_a_gateway_that_says_an_answer_is_not_sealed_opens_nothing(fleet: Fleet) -> None:
    def strip(nth: int, data: bytes) -> bytes:
        return encode_relay(RelayHead(decode_head(data).status)) if nth == 2 else data

    fleet.between = lambda stream: Altered(stream, strip)
    assert not (await fleet.answer(DB)).ok


async def test_a_gateway_cannot_put_its_own_key_into_a_question(fleet: Fleet) -> None:
    mine = Seal()

    def ask(challenge: bytes) -> bytes:
        theirs = decode_signed(signed(fleet, challenge, seal=Seal().public))
        body = theirs.ask.replace(decode_ask(theirs.ask).seal, mine.public)
        return encode_relay(SignedAsk(body, theirs.signature))

    status, text = await said(fleet, ask)
    assert (status, "not signed" in text) == (relay.FORBIDDEN, True)


@pytest.mark.parametrize("key", [bytes(32), b"short"], ids=["of low order", "of another length"])
async def test_a_key_that_is_none_is_refused(fleet: Fleet, key: bytes) -> None:
    status, text = await said(fleet, lambda challenge: signed(fleet, challenge, seal=key))
    assert (status, "nothing can be sealed" in text) == (relay.FAILED, True)


async def test_an_agent_of_an_older_version_is_given_config_maps_in_clear_and_no_secret(fleet: Fleet) -> None:
    class Older(Forged):
        async def write(self, data: bytes) -> None:
            ask = decode_ask(decode_signed(data).ask)
            body = encode_relay(ask.__class__(*[getattr(ask, name) for name in ask.__struct_fields__[:-1]]))
            sent = encode_relay(SignedAsk(body, fleet.made.target.local.keys.sign_ask(body)))
            await self._stream.write(sent)

    heard: list[bytes] = []

    def listen(nth: int, data: bytes) -> bytes:
        heard.append(data)
        return data

    fleet.between = lambda stream: Altered(Older(stream, lambda sent: []), listen)  # type: ignore[arg-type]
    await fleet.answer(DB, SETTINGS)  # what it signed is not what is looked for: nothing of it is taken
    assert decode_head(heard[1]).sealed is False
    assert b"red" in heard[2]
    assert DENIED.encode() in heard[2]
    assert MARKER not in heard[2]


@pytest.mark.parametrize(("wanted", "taken"), [(SETTINGS, True), (DB, False)])
async def test_of_an_older_source_config_maps_are_taken_in_clear_and_secrets_are_not(
    fleet: Fleet, wanted: WantedObject, taken: bool
) -> None:
    clear = answer_of(fleet.home, Given(CONTENT, b'{"data":{"a":"YQ=="}}'), seals=False)
    fleet.between = lambda stream: Forged(stream, clear)
    answer = await fleet.answer(wanted)
    assert answer.ok == taken
    assert taken or b"it has not sealed the Secrets in its answer" in answer.body


@pytest.mark.parametrize(
    ("row", "kinds"), [(Accept(), ("ConfigMap",)), (Accept(secrets_follow=("db",)), ("ConfigMap", "Secret"))]
)
async def test_an_agent_says_that_secrets_follow_to_it_where_a_row_takes_any(
    fleet: Fleet, row: Accept, kinds: tuple[str, ...]
) -> None:
    member = fleet.made.target
    member.local.policy = ExecutorPolicy(accept=(row,))
    fleet.of(member)
    assert member.local.follows == kinds


async def test_what_was_given_is_forgotten_soon_though_nobody_asks_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FRESH_S", 0.05)
    await fleet.ask(DB)
    assert fleet.fetching._recent
    async with asyncio.timeout(WAIT_S):
        while fleet.fetching._recent:  # noqa: ASYNC110 - a timer of its own ends it
            await asyncio.sleep(0.02)
    assert fleet.fetching._kept == 0


def test_what_is_sealed_opens_for_its_key_and_its_question_alone() -> None:
    seal = Seal()
    closed = sealing.sealed(seal.public, b"question", MARKER)
    assert MARKER not in closed
    assert seal.opened(closed, b"question") == MARKER
    for other, ask, text in (
        (Seal(), b"question", closed),
        (seal, b"questions", closed),
        (seal, b"question", closed[:-1]),
        (seal, b"question", b""),
    ):
        with pytest.raises(SealError):
            other.opened(text, ask)
