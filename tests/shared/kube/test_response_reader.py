"""One HTTP answer from bytes: the same however they are cut, and nothing that is not plainly an answer."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kube.response_reader import BodyTooLargeError, RawResponse, ResponseError, ResponseReader

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
TRAILER = CHUNKED[:-2] + b"X-End: yes\r\nX-More: no\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
SAMPLES = {
    "told length": (PLAIN, 201, b"hello"),
    "chunks": (CHUNKED, 200, b"hello"),
    "chunks and a trailer": (TRAILER, 200, b"hello"),
    "no body": (EMPTY, 204, b""),
    "a hint before": (HINT + PLAIN, 201, b"hello"),
    "no reason phrase": (b"HTTP/1.1 409\r\ncontent-length:2\r\n\r\nno", 409, b"no"),
}


def read(*pieces: bytes, max_body: int = 1000) -> RawResponse | None:
    reader = ResponseReader(max_body)
    answers = [reader.feed(piece) for piece in pieces]
    assert answers[:-1] == [None] * (len(pieces) - 1)
    return answers[-1]


@pytest.mark.parametrize(("raw", "status", "body"), SAMPLES.values(), ids=SAMPLES.keys())
def test_an_answer_is_read_whole(raw: bytes, status: int, body: bytes) -> None:
    answer = read(raw)
    assert answer is not None
    assert (answer.status, answer.body, answer.keep) == (status, body, True)


@given(samples=st.lists(st.sampled_from(sorted(SAMPLES)), min_size=1), cuts=st.lists(st.integers(1, 400), max_size=8))
def test_answers_that_follow_each_other_are_read_one_by_one(samples: list[str], cuts: list[int]) -> None:
    raw = b"".join(SAMPLES[sample][0] for sample in samples)
    marks = [0, *sorted({cut for cut in cuts if cut < len(raw)}), len(raw)]
    reader, found = ResponseReader(1000), list[RawResponse]()
    reader.more = len(samples) - 1
    for piece in (raw[a:b] for a, b in pairwise(marks)):
        answer = reader.feed(piece)
        while answer is not None and reader.more:
            found.append(answer)
            reader.more -= 1
            answer = reader.feed(b"")
        found.extend(() if answer is None else (answer,))
    assert found == [read(SAMPLES[sample][0]) for sample in samples]
    assert not reader.begun


@given(sample=st.sampled_from(sorted(SAMPLES)), cuts=st.lists(st.integers(1, 120), max_size=8))
def test_pieces_make_the_same_answer_as_the_whole(sample: str, cuts: list[int]) -> None:
    raw = SAMPLES[sample][0]
    marks = [0, *sorted({cut for cut in cuts if cut < len(raw)}), len(raw)]
    assert read(*(raw[a:b] for a, b in pairwise(marks))) == read(raw)


@given(sample=st.sampled_from(sorted(SAMPLES)), data=st.data())
def test_a_cut_off_answer_is_none_and_its_end_an_error(sample: str, data: st.DataObject) -> None:
    raw = SAMPLES[sample][0]
    reader = ResponseReader(1000)
    assert reader.feed(raw[: data.draw(st.integers(1, len(raw) - 1))]) is None
    if reader.begun:
        with pytest.raises(ResponseError):
            reader.end()


LENGTHS = ("Content-Length: 5", "content-length:5", "CONTENT-LENGTH:\t5 ", "Content-length: 05")
BESIDE = ("Date: x", "X-Content-Length: 7", "Connection: keep-alive", "Retry-After: 3", "ETag:", "content-type: a: b")


@given(
    length=st.sampled_from(LENGTHS), before=st.lists(st.sampled_from(BESIDE)), after=st.lists(st.sampled_from(BESIDE))
)
def test_an_answer_in_one_piece_is_read_as_one_in_many(length: str, before: list[str], after: list[str]) -> None:
    lines = "\r\n".join(("HTTP/1.1 200 OK", *before, length, *after))
    raw = lines.encode() + b"\r\n\r\nhello"
    assert read(raw) == read(*(raw[at : at + 1] for at in range(len(raw))))


def test_one_reader_reads_one_answer_after_another() -> None:
    reader = ResponseReader(1000)
    assert [reader.feed(raw) for raw in (PLAIN, CHUNKED, PLAIN)] == [read(PLAIN), read(CHUNKED), read(PLAIN)]


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN + b"HTTP",
        PLAIN + b"nonsense",
        PLAIN + PLAIN,
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=[
        "more bytes than told",
        "bytes of no answer",
        "an answer too many",
        "the server will close",
        "close in a list",
    ],
)
def test_a_connection_is_not_used_again_after(raw: bytes) -> None:
    answer = read(raw)
    assert answer is not None
    assert not answer.keep


def test_the_end_of_the_connection_ends_a_body_of_untold_length() -> None:
    reader = ResponseReader(1000)
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert reader.feed(b"lo") is None
    assert reader.end() == RawResponse(200, b"hello", keep=False)


BROKEN = {
    "another protocol": b"SSH-2.0-x\r\n\r\n",
    "an older HTTP": b"HTTP/1.0 200 OK\r\n\r\n",
    "a status in words": b"HTTP/1.1 fine\r\n\r\n",
    "a header without colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "an unknown coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "an underscore in a length": b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
    "no content, and a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "a chunk longer than told": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 12_000,
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_answer_is_an_error(raw: bytes) -> None:
    with pytest.raises(ResponseError):
        ResponseReader(1000).feed(raw)


ENDLESS = {
    "head": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "header": (b"HTTP/1.1 200 OK\r\na: ", b"b"),
    "chunk extension": (CHUNKED[:-5] + b"5;", b"x"),
    "trailer": (CHUNKED[:-2], b"a: b\r\n"),
    "row of announcements": (HINT[:-2], b"a: b\r\n"),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_has_no_end_is_given_up_before_it_costs_memory(begin: bytes, more: bytes) -> None:
    reader = ResponseReader(1000)
    pieces = [begin, *[more * (1000 // len(more))] * 100]
    with pytest.raises(ResponseError, match="no end"):
        any(map(reader.feed, pieces))


def test_what_is_wrong_comes_after_the_answers_before_it() -> None:
    reader = ResponseReader(1000)
    reader.more = 2
    assert reader.feed(PLAIN + EMPTY + b"nonsense") == read(PLAIN)
    assert reader.feed(b"") == read(EMPTY)
    with pytest.raises(ResponseError):
        reader.feed(b"")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error(raw: bytes) -> None:
    with suppress(ResponseError, BodyTooLargeError):
        answer = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + raw)
        assert answer is None or len(answer.body) < len(raw)


@pytest.mark.parametrize("raw", [PLAIN, CHUNKED, b"HTTP/1.1 200 OK\r\n\r\nhello"], ids=["told", "chunks", "untold"])
def test_a_body_above_the_bound_is_refused(raw: bytes) -> None:
    with pytest.raises(BodyTooLargeError):
        ResponseReader(4).feed(raw)
