"""The number of objects of a watch and of its server, compared at the same version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.observer.watch_count import FIRST_REST_S, LONGEST_REST_S, RELIST_AFTER, ServerCount, WatchCount


def differing(counted: WatchCount, times: int = RELIST_AFTER, now: float = 0.0) -> None:
    """So many comparisons in a row that differ."""
    for _ in range(times):
        counted.compare_soon(ServerCount(10, 5), 10, 4, now)


def test_counts_at_the_same_version_are_compared_at_once() -> None:
    counted = WatchCount()
    counted.compare_soon(ServerCount(10, 5), 10, 4, 0.0)
    assert (counted.doubts, counted.wants_list(0.0)) == (1, False)
    counted.compare_soon(ServerCount(11, 5), 11, 4, 0.0)
    assert counted.wants_list(0.0)


def test_one_comparison_that_agrees_ends_all_doubt() -> None:
    counted = WatchCount()
    differing(counted)
    counted.compare_soon(ServerCount(12, 5), 12, 5, 0.0)
    assert (counted.doubts, counted.wants_list(0.0)) == (0, False)


def test_a_watch_that_is_behind_is_compared_when_it_passes_the_version() -> None:
    counted = WatchCount()
    counted.compare_soon(ServerCount(10, 5), 7, 4, 0.0)
    assert not counted.passes(9)
    assert not counted.passes(10)
    assert counted.passes(11)
    counted.passing(5)
    assert counted.doubts == 0
    assert not counted.passes(12)


def test_a_watch_that_stands_still_is_compared_as_it_is_once_patience_ends() -> None:
    counted = WatchCount(patience_s=4.0)
    counted.compare_soon(ServerCount(10, 5), 7, 4, 0.0)
    counted.compare_soon(ServerCount(10, 5), 7, 4, 3.9)
    assert counted.doubts == 0
    assert counted.differs(4)
    counted.compare_soon(ServerCount(10, 5), 7, 4, 4.0)
    assert counted.doubts == 1
    counted.compare_soon(ServerCount(12, 5), 7, 4, 8.0)
    assert counted.wants_list(8.0)


def test_a_watch_that_lags_but_moves_is_waited_for() -> None:
    counted = WatchCount(patience_s=4.0)
    for second in range(60):
        counted.compare_soon(ServerCount(100 + second, 50), 7 + second, 4 + second, float(second * 10))
    assert counted.doubts == 0


@pytest.mark.parametrize("server", [ServerCount(10), ServerCount(0, 5)], ids=["no count", "no version"])
def test_a_server_that_does_not_say_is_not_compared(server: ServerCount) -> None:
    counted = WatchCount()
    for now in (0.0, 100.0, 200.0):
        counted.compare_soon(server, 10, 4, now)
    assert counted.doubts == 0


def test_objects_that_cannot_be_counted_end_the_comparison_until_a_list_counts_all() -> None:
    counted = WatchCount()
    for blind in (counted.uncounted, lambda: counted.listed(complete=False)):
        blind()
        differing(counted)
        assert counted.doubts == 0
    counted.listed(complete=True)
    differing(counted)
    assert counted.doubts == RELIST_AFTER


def test_lists_that_do_not_help_come_ever_more_seldom_and_one_that_helps_ends_that() -> None:
    counted, now = WatchCount(), 0.0
    rests = []
    for _ in range(12):
        differing(counted, now=now)
        began = now
        while not counted.wants_list(now):
            now += 1.0
        rests.append(now - began)
        counted.rest(now, 1.0)
    assert rests[:4] == [0.0, FIRST_REST_S, 2 * FIRST_REST_S, 4 * FIRST_REST_S]
    assert rests[-1] == LONGEST_REST_S
    counted.compare_soon(ServerCount(10, 4), 10, 4, now)
    differing(counted, now=now)
    assert counted.wants_list(now)


EVENTS = st.lists(st.tuples(st.sampled_from(["add", "delete", "tell", "deliver"]), st.integers(1, 5)), max_size=80)


@given(EVENTS)
def test_a_watch_that_loses_nothing_is_never_doubted(steps: list[tuple[str, int]]) -> None:
    counted, log, own, at, now = WatchCount(), list[tuple[int, int]](), 0, 0, 0.0
    version, have = 0, 0
    for what, much in steps:
        now += 0.01  # a watch never stands still for as long as the patience
        if what in ("add", "delete") and (what == "add" or have):
            version += 1
            have += 1 if what == "add" else -1
            log.append((version, have))
        elif what == "tell":
            counted.compare_soon(ServerCount(version, have), at, own, now)
        else:
            for number, after in log[:much]:
                if counted.passes(number):
                    counted.passing(own)
                at, own = number, after
            del log[:much]
        assert counted.doubts == 0


@given(EVENTS, st.integers(-3, 3).filter(bool))
def test_a_watch_that_has_lost_something_is_doubted_at_every_comparison(
    steps: list[tuple[str, int]], wrong: int
) -> None:
    counted, version = WatchCount(), 0
    for number, (_, much) in enumerate(steps, start=1):
        version += much
        counted.compare_soon(ServerCount(version, 10), version, 10 + wrong, 0.0)
        assert counted.doubts == number
