"""The splitter of watch streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.lines import CutLine, Lines, LineTooLongError


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_come_out_whole_however_the_stream_is_cut(lines: list[bytes], cut: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = Lines(100)
    found = [line for at in range(0, len(stream), cut) for line in splitter.feed(stream[at : at + cut])]
    assert found == lines


def test_of_a_line_above_the_bound_its_beginning_comes_out_however_the_stream_is_cut() -> None:
    stream = b"short\n" + b"x" * 150 + b"\nnext\n" + b"y" * 101 + b"\n" + b"z" * 100 + b"\n"
    for cut in (1, 7, 60, 1000):
        splitter = Lines(100)
        found = [line for at in range(0, len(stream), cut) for line in splitter.feed(stream[at : at + cut])]
        assert [line[:1] for line in found] == [b"s", b"x", b"n", b"y", b"z"]
        assert [isinstance(line, CutLine) for line in found] == [False, True, False, True, False]


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = Lines(2**20)
    for _ in range(16):
        splitter.feed(b"x" * 2**20)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x")
    assert sum(map(len, splitter._parts)) <= 2**20
