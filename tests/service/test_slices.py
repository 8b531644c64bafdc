"""How long a round of decisions goes on."""

import pytest

from dispatcher.service.timing import Slice


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ([0.01, 0.02, 0.03], [False, False, False]),
        ([0.03], [True]),  # a second one like it would end at 0.06
        ([0.01, 0.04], [False, True]),
        ([0.03, 0.031], [True, False]),
        ([0.07], [True]),
    ],
    ids=["small classes", "one of more than half", "a larger one", "a small one after it", "one of more than all"],
)
def test_a_slice_of_50_ms_ends_before_a_class_like_the_last_would_pass_its_end(
    ended: list[float], told: list[bool]
) -> None:
    times = iter([0.0, *ended])
    enough = Slice(0.05, lambda: next(times))
    assert [enough() for _ in ended] == told
