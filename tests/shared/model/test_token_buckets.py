"""How often something may happen: so much at once, so much a second, and by kind."""

from hypothesis import given
from hypothesis import strategies as st

from shared.model.token_buckets import Allowance, TokenBuckets


def test_what_is_admitted_hears_how_many_of_its_kind_were_refused_before_it() -> None:
    buckets = TokenBuckets(20, 1 / 3)
    assert [buckets.admit(0.0) for _ in range(100)] == [0] * 20 + [None] * 80
    assert [buckets.admit(now) for now in (2.9, 3.0, 3.1, 6.0)] == [None, 81, None, 1]


def test_of_another_kind_as_many_are_admitted_as_if_it_were_alone() -> None:
    buckets = TokenBuckets(1, 1.0)
    assert [buckets.admit(0.0, kind) for kind in ("a", "a", "b", "b")] == [0, None, 0, None]
    assert [buckets.admit(1.0, kind) for kind in ("b", "a")] == [1, 1]


def test_what_is_left_is_known_without_taking_any() -> None:
    buckets = TokenBuckets(3, 0.5)
    buckets.admit(0.0)
    assert [buckets.left(now) for now in (0.0, 0.0, 1.0, 60.0)] == [2.0, 2.0, 2.5, 3.0]
    assert buckets.left(0.0, "another") == 3.0


def test_of_ever_new_kinds_no_more_are_kept_than_twice_those_that_come_until_a_bucket_is_full_again() -> None:
    buckets = TokenBuckets(1, 1 / 60)
    most = 0
    for second in range(600):
        for one in range(100):
            assert buckets.admit(second, (second, one)) == 0
        most = max(most, len(buckets._buckets))
    assert most <= 2 * 60 * 100
    assert [buckets.admit(599, kind) for kind in ((599, 0), (540, 0), (1, 0))] == [None, None, 0]


@given(st.integers(1, 5), st.integers(1, 4), st.lists(st.integers(0, 3), max_size=60))
def test_in_any_time_no_more_is_admitted_than_at_once_and_by_its_seconds_and_none_is_lost(
    most: int, per_s: int, pauses: list[int]
) -> None:
    buckets, now, admitted, heard = TokenBuckets(most, per_s), 0, [], 0
    for pause in pauses:
        now += pause
        if (refused := buckets.admit(now)) is not None:
            admitted.append(now)
            heard += refused
    late = buckets.admit(now + 1)
    assert late is not None
    assert len(admitted) + heard + late == len(pauses)
    for at, first in enumerate(admitted):
        for more, last in enumerate(admitted[at:], 1):
            assert more <= most + (last - first) * per_s


def test_what_is_taken_beyond_an_allowance_is_waited_for_but_not_for_ever() -> None:
    allowance = Allowance(100, 10.0, 60.0)
    assert [allowance.take(0.0, amount) for amount in (60, 40, 50)] == [0.0, 0.0, 5.0]
    assert allowance.take(5.0, 0) == 0.0
    assert allowance.take(5.0, 10_000) == 60.0
    assert allowance.take(65.0, 10) == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60))
def test_who_waits_as_long_as_is_said_takes_no_more_than_at_once_and_by_the_seconds(
    taken: list[tuple[int, int]],
) -> None:
    allowance, now, total = Allowance(10, 2.0, 1000.0), 0.0, 0
    for pause, amount in taken:
        now += pause
        total += amount
        now += allowance.take(now, amount)
        assert total <= 10 + now * 2.0 + 1e-6
