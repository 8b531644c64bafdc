"""The gateway between two connections: it passes what may pass, and ends who sends more than was granted."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from dispatcher.service.gateway.splices import MAX_URGENT, RelayLine
from dispatcher.service.gateway.stream_limit import AT_ONCE, FRAMES_PER_REFUSAL, PER_S, StreamLimit
from shared.messages.relay import RelayOpen, decode_open, encode_relay
from shared.streams import FrameKind, Message, Priority, ProtocolError
from shared.streams.connection import Connection
from shared.streams.frames import CHUNK, OPENED_BY_AGENT, RELAYED, STREAM_WINDOW, amount
from shared.streams.relayed import MAX_BETWEEN

FIRST = RELAYED | OPENED_BY_AGENT


@dataclass
class Sent:
    """What a connection was given to send."""

    messages: list[Message] = field(default_factory=list)
    urgent: int = 0
    charged: int = 0

    def send(self, message: Message, priority: Priority) -> None:
        self.messages.append(message)

    def drop(self, stream: int) -> bool:
        return False

    def charge(self, frames: int) -> None:
        self.charged += frames

    def take(self) -> list[Message]:
        found, self.messages = self.messages, []
        return found


class Two:
    """East and west, and a stream from east to west."""

    def __init__(self) -> None:
        self.sent = {name: Sent() for name in ("east", "west")}
        self.lines: dict[str, RelayLine] = {}
        for name, sent in self.sent.items():
            self.lines[name] = RelayLine(name, cast(Connection, sent), self.find, lambda home, target, pod: "")
        self.lines["east"].take(Message(FrameKind.OPEN, FIRST, encode_relay(RelayOpen("west", "uid"))))
        (opened,) = self.sent["west"].take()
        self.number = opened.stream
        assert decode_open(opened.body) == RelayOpen("east", "uid")

    def find(self, cluster: str) -> RelayLine | str:
        return self.lines.get(cluster, "unheard of")


def test_messages_pass_both_ways_until_both_have_finished() -> None:
    two = Two()
    two.lines["east"].take(Message(FrameKind.DATA, FIRST, b"ask"))
    two.lines["east"].take(Message(FrameKind.FINISH, FIRST, b""))
    assert two.sent["west"].take() == [
        Message(FrameKind.DATA, two.number, b"ask"),
        Message(FrameKind.FINISH, two.number, b""),
    ]
    two.lines["west"].take(Message(FrameKind.FINISH, two.number, b""))
    assert two.sent["east"].take() == [Message(FrameKind.FINISH, FIRST, b"")]
    two.lines["west"].take(Message(FrameKind.DATA, two.number, b"late"))
    assert two.sent["west"].take() == [Message(FrameKind.RESET, two.number, b"no such stream")]


def test_who_sends_more_than_was_granted_is_cut_and_the_other_told() -> None:
    two = Two()
    half = STREAM_WINDOW // CHUNK // 2
    for _ in range(2 * half):
        two.lines["east"].take(Message(FrameKind.DATA, FIRST, bytes(CHUNK)))
    two.lines["west"].take(Message(FrameKind.GRANT, two.number, amount(STREAM_WINDOW // 2)))
    for _ in range(half):
        two.lines["east"].take(Message(FrameKind.DATA, FIRST, bytes(CHUNK)))
    two.sent["west"].take()
    with pytest.raises(ProtocolError, match="1 bytes more were sent over it than were granted"):
        two.lines["east"].take(Message(FrameKind.DATA, FIRST, b"x"))
    assert [message.kind for message in two.sent["west"].take()] == [FrameKind.RESET]


def test_nobody_grants_what_was_not_sent() -> None:
    two = Two()
    with pytest.raises(ProtocolError, match=f"{STREAM_WINDOW} bytes more were granted than were sent"):
        two.lines["west"].take(Message(FrameKind.GRANT, two.number, amount(STREAM_WINDOW)))


@pytest.mark.parametrize("number", [FIRST, RELAYED], ids=["twice", "a number of the gateway's"])
def test_a_stream_is_opened_once_and_under_the_agents_own_numbers(number: int) -> None:
    two = Two()
    with pytest.raises(ProtocolError):
        two.lines["east"].take(Message(FrameKind.OPEN, number, encode_relay(RelayOpen("west", "uid"))))


def test_a_connection_that_ends_ends_its_streams_at_the_other_end() -> None:
    two = Two()
    two.lines["west"].close("west is gone")
    assert two.sent["east"].take() == [Message(FrameKind.RESET, FIRST, b"west is gone")]


def test_a_cluster_that_is_not_there_is_said() -> None:
    two = Two()
    two.lines["east"].take(Message(FrameKind.OPEN, FIRST + 1, encode_relay(RelayOpen("south", "uid"))))
    (told,) = two.sent["east"].take()
    assert (told.kind, told.body) == (FrameKind.RESET, b'cluster "south" cannot be reached: unheard of')


def opened(two: Two, count: int) -> list[bytes]:
    """Open so many more streams from east to west; what east is told."""
    for number in range(1, count + 1):
        two.lines["east"].take(Message(FrameKind.OPEN, FIRST + number, encode_relay(RelayOpen("west", "uid"))))
    return [message.body for message in two.sent["east"].take()]


def test_one_cluster_cannot_take_all_streams_of_another() -> None:
    two = Two()
    assert opened(two, MAX_BETWEEN) == [b"too many streams at once between east and west"]
    two.lines["north"] = RelayLine("north", cast(Connection, Sent()), two.find, lambda home, target, pod: "")
    two.sent["west"].take()
    two.lines["north"].take(Message(FrameKind.OPEN, FIRST, encode_relay(RelayOpen("west", "uid"))))
    assert [message.kind for message in two.sent["west"].take()] == [FrameKind.OPEN]


def test_nothing_is_opened_to_an_agent_that_does_not_keep_up_and_an_asker_that_does_not_is_cut() -> None:
    two = Two()
    two.sent["west"].urgent = MAX_URGENT
    assert opened(two, 1) == [b"its connection is too slow just now"]
    two.sent["east"].urgent = MAX_URGENT
    for message in (
        Message(FrameKind.OPEN, FIRST + 2, encode_relay(RelayOpen("nowhere", "uid"))),
        Message(FrameKind.DATA, FIRST + 3, b"x"),
    ):
        with pytest.raises(ProtocolError, match="does not read"):
            two.lines["east"].take(message)


@pytest.mark.parametrize(
    "message", [Message(FrameKind.GRANT, FIRST, amount(0)), Message(FrameKind.DATA, FIRST, b"")], ids=["grant", "data"]
)
def test_who_sends_messages_that_say_nothing_is_cut(message: Message) -> None:
    two = Two()
    with pytest.raises(ProtocolError):
        two.lines["east"].take(message)


def test_a_reason_is_passed_on_no_longer_than_a_line() -> None:
    two = Two()
    two.lines["east"].take(Message(FrameKind.RESET, FIRST, bytes(CHUNK)))
    (passed,) = two.sent["west"].take()
    assert len(passed.body) == 1024


def flooded(two: Two, count: int, first: int) -> tuple[int, set[bytes]]:
    """East opens so many streams to west and resets each at once; how many west is asked for, and what east is told."""
    for number in range(FIRST + first, FIRST + first + count):
        two.lines["east"].take(Message(FrameKind.OPEN, number, encode_relay(RelayOpen("west", "uid"))))
        two.lines["east"].take(Message(FrameKind.RESET, number, b""))
    asked = [message.kind for message in two.sent["west"].take()]
    return asked.count(FrameKind.OPEN), {message.body for message in two.sent["east"].take()}


def test_an_agent_that_opens_and_resets_without_end_is_refused_read_more_slowly_and_served_again_later() -> None:
    two, now = Two(), 0.0
    two.lines["east"].limit = limit = StreamLimit(lambda: now)
    too_fast = b"cluster east opens more than 50 streams a second: try again in a moment"
    assert flooded(two, AT_ONCE + 100, first=1) == (AT_ONCE, {too_fast})
    assert (limit.refused["east"], two.sent["east"].charged) == (100, 100 * FRAMES_PER_REFUSAL)
    now += 1.0
    assert flooded(two, 1_000, first=1_000) == (PER_S, {too_fast})
    now += 3_600.0
    assert flooded(two, AT_ONCE, first=3_000) == (AT_ONCE, set())


def test_what_one_cluster_opens_too_fast_is_refused_of_no_other() -> None:
    two, limit = Two(), StreamLimit(lambda: 0.0)
    for line in two.lines.values():
        line.limit = limit
    flooded(two, 2 * AT_ONCE, first=1)
    two.lines["west"].take(Message(FrameKind.OPEN, FIRST, encode_relay(RelayOpen("east", "uid"))))
    assert [message.kind for message in two.sent["east"].take()] == [FrameKind.OPEN]
