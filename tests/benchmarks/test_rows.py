"""What a figure says of itself."""

from dataclasses import replace

import pytest

from benchmarks.report.numbers import amount, short, times
from benchmarks.report.rows import Row
from tests.benchmarks.results import RATE, TIME


@pytest.mark.parametrize(
    ("row", "met", "ratio"),
    [
        pytest.param(RATE, True, 200.0, id="a rate shall be high"),
        pytest.param(replace(RATE, value=9_999.0), False, 99.99, id="a rate below its target"),
        pytest.param(TIME, True, 4.0, id="a time shall be low"),
        pytest.param(replace(TIME, value=10.5), False, 20 / 10.5, id="a time above its target"),
        pytest.param(replace(RATE, unit="%", value=95.5, target=95.23, baseline=None), True, None, id="a share"),
        pytest.param(replace(RATE, target=None), None, 200.0, id="no target"),
    ],
)
def test_a_row_knows_whether_it_meets_its_target_and_how_much_better_it_is(
    row: Row, met: bool | None, ratio: float | None
) -> None:
    assert row.met is met
    assert row.ratio == (None if ratio is None else pytest.approx(ratio))


def test_rows_of_different_sizes_or_rivals_are_different_figures() -> None:
    rows = [RATE, replace(RATE, nodes=500), replace(RATE, beside="kube-scheduler")]
    assert len({row.key for row in rows}) == 3
    assert replace(RATE, value=1.0, baseline=None, pods=5).key == RATE.key


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (amount(123_456.7, "decisions/s"), "123,457/s"),
        (amount(2.345, "ms"), "2.35 ms"),
        (amount(95.234, "%"), "95.23 %"),
        (amount(60), "60"),
        (amount(None), ""),
        (short(500_000), "500k"),
        (short(999_600), "1M"),
        (short(1_000_000), "1M"),
        (short(10_800), "10.8k"),
        (short(1213), "1,213"),
        (short(0), ""),
        (times(3.14), "3.1"),
        (times(81.9), "82"),
        (times(1234.5), "1,234"),
        (times(None), ""),
    ],
)
def test_numbers_are_written_with_the_figures_that_matter(said: str, text: str) -> None:
    assert said == text
