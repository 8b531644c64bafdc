"""Laws of the multiplexer: messages arrive whole, urgent ones first, and no more is on the way than the window."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.streams import Frame, FrameKind, Message, Multiplexer, Priority, ProtocolError, encode_frame
from shared.streams.frames import CHUNK, COUNTED, END, credit, decode_frame
from shared.streams.multiplexer import LEAST

WINDOW = 4 * CHUNK
MESSAGES = st.lists(
    st.tuples(st.sampled_from(Priority), st.integers(0, 6 * CHUNK)),
    min_size=1,
    max_size=12,
)


def frames(sender: Multiplexer) -> Iterator[bytes]:
    while (frame := sender.next_frame()) is not None:
        yield frame


def exchanged(sender: Multiplexer, receiver: Multiplexer) -> list[Message]:
    """All that arrives while both say what they took."""
    arrived = []
    while sent := list(frames(sender)):
        arrived += [message for frame in sent if (message := receiver.receive(frame)) is not None]
        for told in frames(receiver):
            sender.receive(told)
    return arrived


@given(MESSAGES)
def test_every_message_arrives_once_and_whole(drawn: list[tuple[Priority, int]]) -> None:
    sender, receiver = Multiplexer(WINDOW), Multiplexer(WINDOW)
    sent = [Message(FrameKind.ANSWER, at, bytes([at]) * size) for at, (_, size) in enumerate(drawn)]
    for message, (priority, _) in zip(sent, drawn, strict=True):
        sender.send(message, priority)
    assert sorted(exchanged(sender, receiver)) == sorted(sent)


@given(MESSAGES)
def test_no_more_is_on_the_way_than_the_window(drawn: list[tuple[Priority, int]]) -> None:
    sender = Multiplexer(WINDOW)
    for at, (priority, size) in enumerate(drawn):
        sender.send(Message(FrameKind.ANSWER, at, bytes(size)), priority)
    counted = [frame for frame in map(decode_frame, frames(sender)) if frame.flags & COUNTED]
    assert sum(len(frame.payload) for frame in counted) <= WINDOW


def test_an_urgent_message_is_the_next_frame_however_much_waits() -> None:
    sender = Multiplexer(WINDOW)
    sender.send(Message(FrameKind.ANSWER, 1, bytes(100 * CHUNK)), Priority.CHANGES)
    sender.next_frame()
    sender.send(Message(FrameKind.CALL, 2, b"order"), Priority.INTENTS)
    assert decode_frame(sender.next_frame() or b"").payload == b"order"


def test_an_urgent_message_leaves_though_the_window_is_full() -> None:
    sender = Multiplexer(WINDOW)
    sender.send(Message(FrameKind.ANSWER, 1, bytes(100 * CHUNK)), Priority.CHANGES)
    assert len(list(frames(sender))) == WINDOW // CHUNK
    sender.send(Message(FrameKind.CALL, 2, b"order"), Priority.INTENTS)
    assert [decode_frame(frame).payload for frame in frames(sender)] == [b"order"]


def test_messages_of_one_priority_take_turns() -> None:
    sender = Multiplexer(WINDOW)
    for stream in (1, 2):
        sender.send(Message(FrameKind.ANSWER, stream, bytes(2 * CHUNK)), Priority.CHANGES)
    assert [decode_frame(frame).stream for frame in frames(sender)] == [1, 2, 1, 2]


def test_a_message_that_was_dropped_half_way_leaves_nothing_behind_once_it_is_cancelled() -> None:
    sender, receiver = Multiplexer(WINDOW), Multiplexer(WINDOW)
    sender.send(Message(FrameKind.ANSWER, 1, b"a" * 2 * CHUNK), Priority.CHANGES)
    receiver.receive(sender.next_frame() or b"")
    assert sender.drop(1)
    sender.send(Message(FrameKind.CANCEL, 1, b""), Priority.CONTROL)
    sender.send(Message(FrameKind.ANSWER, 1, b"b"), Priority.CHANGES)
    assert [message.body for message in exchanged(sender, receiver)] == [b"", b"b"]


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("too short", b"\1\1"),
        ("version 9", b"\x09" + encode_frame(Frame(FrameKind.CALL, END, 1, b""))[1:]),
        ("unknown kind", b"\1\x63\1\0\0\0\1"),
        ("too long", encode_frame(Frame(FrameKind.CALL, END, 1, bytes(CHUNK + 1)))),
        ("empty part", encode_frame(Frame(FrameKind.CALL, 0, 1, b""))),
        ("took more than was sent", encode_frame(credit(1))),
        ("credit of 1 bytes", encode_frame(Frame(FrameKind.CREDIT, END, 0, b"x"))),
    ],
)
def test_what_no_peer_may_send_ends_the_connection_with_its_reason(what: str, data: bytes) -> None:
    with pytest.raises(ProtocolError, match=what):
        Multiplexer(WINDOW).receive(data)


def test_a_peer_that_sends_beyond_the_window_is_cut_off() -> None:
    receiver = Multiplexer(WINDOW)
    frame = encode_frame(Frame(FrameKind.ANSWER, COUNTED, 1, bytes(CHUNK)))
    for _ in range(WINDOW // CHUNK):
        receiver.receive(frame)
    with pytest.raises(ProtocolError, match="without leave"):
        receiver.receive(frame)


def test_a_peer_that_never_ends_its_message_is_cut_off() -> None:
    receiver = Multiplexer(WINDOW, max_message=WINDOW)
    frame = encode_frame(Frame(FrameKind.CALL, 0, 1, bytes(CHUNK)))
    for _ in range(WINDOW // CHUNK - 1):
        receiver.receive(frame)
    with pytest.raises(ProtocolError, match="too long a message"):
        receiver.receive(frame)


@given(st.binary(max_size=64))
def test_whatever_a_peer_sends_is_a_message_or_a_protocol_error(data: bytes) -> None:
    try:
        Multiplexer(WINDOW).receive(data)
    except ProtocolError as error:
        assert str(error)


def test_nothing_is_held_of_streams_that_nobody_asked_for() -> None:
    receiver = Multiplexer(WINDOW, max_message=4 * CHUNK, wanted=lambda stream: stream == 1)
    for stream in range(2, 5000):
        assert receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, stream, bytes(CHUNK)))) is None
    assert receiver.receive(encode_frame(Frame(FrameKind.ANSWER, END, 2, b"x"))) is None
    assert receiver.receive(encode_frame(Frame(FrameKind.ANSWER, END, 1, b"x"))) == Message(FrameKind.ANSWER, 1, b"x")


def test_what_came_of_a_stream_goes_when_it_is_wanted_no_more() -> None:
    wanted = {1}
    receiver = Multiplexer(WINDOW, max_message=2 * CHUNK, wanted=lambda stream: stream in wanted)
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, 1, bytes(CHUNK))))
    wanted.clear()
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, 1, bytes(CHUNK))))
    wanted.add(2)
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, 2, bytes(CHUNK))))
    assert receiver.receive(encode_frame(Frame(FrameKind.ANSWER, END, 2, b"x"))) is not None


def test_bytes_that_nobody_asked_for_are_given_leave_for_anew() -> None:
    receiver = Multiplexer(WINDOW, wanted=lambda stream: False)
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, COUNTED, 2, bytes(CHUNK))))
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, COUNTED, 2, bytes(CHUNK))))
    assert receiver.next_frame() == encode_frame(credit(2 * CHUNK))


def test_frames_that_bring_little_or_nothing_wanted_are_counted() -> None:
    receiver = Multiplexer(WINDOW, wanted=lambda stream: stream == 1)
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, 1, bytes(CHUNK))))
    assert receiver.little == 0
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, END, 1, b"x")))
    receiver.receive(encode_frame(Frame(FrameKind.ANSWER, 0, 2, bytes(CHUNK))))
    assert receiver.little == 2


RELAYED_SIZES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, CHUNK)), min_size=1, max_size=60)


@given(RELAYED_SIZES, MESSAGES)
def test_messages_of_relayed_streams_arrive_uncut_and_in_order_beside_all_others(
    relayed: list[tuple[int, int]], others: list[tuple[Priority, int]]
) -> None:
    sender, receiver = Multiplexer(WINDOW), Multiplexer(WINDOW, wanted=lambda stream: True)
    sent = [Message(FrameKind.DATA, stream, bytes([at % 256]) * size) for at, (stream, size) in enumerate(relayed)]
    for message in sent:
        sender.send(message, Priority.RELAY)
    for at, (priority, size) in enumerate(others):
        sender.send(Message(FrameKind.ANSWER, 100 + at, bytes(size)), priority)
    arrived = exchanged(sender, receiver)
    assert [message for message in arrived if message.kind is FrameKind.DATA] == sent
    assert len(arrived) == len(sent) + len(others)


def test_relayed_streams_use_half_of_the_window_and_go_after_all_else() -> None:
    sender = Multiplexer(WINDOW)
    for _ in range(100):
        sender.send(Message(FrameKind.DATA, 1, bytes(CHUNK)), Priority.RELAY)
    assert len(list(frames(sender))) == WINDOW // CHUNK // 2
    sender.send(Message(FrameKind.ANSWER, 2, bytes(100 * CHUNK)), Priority.TELEMETRY)
    kinds = [decode_frame(frame).kind for frame in frames(sender)]
    assert kinds == [FrameKind.ANSWER] * (WINDOW // CHUNK // 2)


def test_a_part_of_a_message_of_a_relayed_stream_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="a part of a message"):
        Multiplexer(WINDOW).receive(encode_frame(Frame(FrameKind.DATA, 0, 1, b"x")))


def test_small_messages_of_relayed_streams_count_as_if_they_were_longer_until_they_are_taken() -> None:
    """A peer reads so many small frames a second: what it has still to read must not take it long."""
    sender, receiver = Multiplexer(WINDOW), Multiplexer(WINDOW)
    sent = [Message(FrameKind.DATA, 1, b"x") for _ in range(1_000)]
    for message in sent:
        sender.send(message, Priority.RELAY)
    first = list(frames(sender))
    assert len(first) == WINDOW // LEAST // 2
    for frame in first:
        receiver.receive(frame)
    for told in frames(receiver):
        sender.receive(told)
    assert len(exchanged(sender, receiver)) == len(sent) - len(first)


@pytest.mark.parametrize("kind", [FrameKind.OPEN, FrameKind.RESET])
def test_what_opens_and_ends_streams_brings_little_however_long_it_is(kind: FrameKind) -> None:
    receiver = Multiplexer(WINDOW)
    receiver.receive(encode_frame(Frame(kind, END, 1, bytes(CHUNK))))
    assert receiver.little == 1
