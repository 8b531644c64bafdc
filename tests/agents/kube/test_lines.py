"""The splitter of watch streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.lines import Lines, LineTooLongError


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_come_out_whole_however_the_stream_is_cut(lines: list[bytes], cut: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = Lines(100)
    found = [line for at in range(0, len(stream), cut) for line in splitter.feed(stream[at : at + cut])]
    assert found == lines


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    splitter = Lines(1000)
    splitter.feed(b"x" * 900)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x" * 200)
