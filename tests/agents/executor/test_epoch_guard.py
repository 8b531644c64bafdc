"""The fence: who may still give orders."""

import pytest

from agents.executor.bounds.recent import Recent
from agents.executor.trust.epoch_guard import EpochGuard


def test_a_dispatcher_of_a_lower_epoch_or_a_twin_of_the_same_is_superseded() -> None:
    epoch_guard = EpochGuard()
    assert epoch_guard.superseded("one", 5) == ""
    assert epoch_guard.superseded("one", 5) == ""
    assert "superseded dispatcher" in epoch_guard.superseded("old", 4)
    assert "superseded dispatcher" in epoch_guard.superseded("twin", 5)
    assert epoch_guard.superseded("two", 6) == ""
    assert "superseded dispatcher" in epoch_guard.superseded("one", 5)


# (dispatcher epoch, attempt) after attempt 3 of dispatcher 1 was heard, and closed or not.
ATTEMPTS = [
    ((1, 3), False, True),
    ((1, 2), False, False),
    ((1, 4), False, True),
    ((2, 1), False, True),
    ((1, 3), True, False),
    ((1, 4), True, True),
    ((2, 3), True, True),
]


@pytest.mark.parametrize(("attempt", "closed", "allowed"), ATTEMPTS)
def test_an_attempt_is_allowed_unless_a_newer_one_was_heard_or_it_was_given_up(
    attempt: tuple[int, int], closed: bool, allowed: bool
) -> None:
    epoch_guard = EpochGuard()
    epoch_guard.outdated("uid", 1, 3)
    if closed:
        epoch_guard.invalidate("uid", 1, 3)
    assert (epoch_guard.outdated("uid", *attempt) == "") is allowed


def test_memory_is_bounded_and_forgets_what_was_written_longest_ago() -> None:
    recent: Recent[str, int] = Recent(size=2)
    recent.put("a", 1)
    recent.put("b", 2)
    recent.put("a", 3)
    recent.put("c", 4)
    assert [recent.get(key) for key in "abc"] == [3, None, 4]
    assert len(recent) == 2
