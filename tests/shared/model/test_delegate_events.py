"""Events of a delegate beside its status, forth and back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.delegate_events import (
    MAX_EVENTS,
    MAX_MESSAGE,
    MAX_REASON,
    DelegateEvent,
    event,
    events_of,
    with_events,
    without_events,
)

EVENTS = st.lists(
    st.builds(
        DelegateEvent,
        st.text(max_size=MAX_REASON),
        st.text(max_size=MAX_MESSAGE),
        st.sampled_from([1, 2, 64]),
        st.floats(0, 2e9),
    ),
    max_size=MAX_EVENTS,
)
STATUS = st.dictionaries(st.sampled_from(["phase", "conditions", "x"]), st.text() | st.lists(st.text()))


@given(STATUS, EVENTS)
def test_a_status_with_events_gives_both_back(status: dict[str, object], events: list[DelegateEvent]) -> None:
    raw = msgspec.json.encode(status)
    told = with_events(raw, events)
    assert msgspec.json.decode(told) == {"events": msgspec.to_builtins(events), **status}
    assert (events_of(told), without_events(told)) == (events, raw)
    assert (events_of(raw), without_events(raw)) == ([], raw)


@pytest.mark.parametrize(
    "status",
    [
        b"",
        b"null",
        b'{"events":[{"reason":1,"message":"x"}]}',
        b'{"events":{}}',
        b'{"events":[{"reason":"x"',
        b'{"events":' + b"[" * 5000,
        b'{"events":[{"reason":"\xff","message":""}]}',
    ],
)
def test_what_cannot_be_read_has_no_events(status: bytes) -> None:
    assert events_of(status) == []


def test_who_sends_more_and_longer_than_there_may_be_is_cut() -> None:
    long = DelegateEvent("r" * 1000, "m" * 10_000, 7, 1.0)
    told = events_of(with_events(b"{}", [long] * 50))
    assert told == [DelegateEvent("r" * MAX_REASON, "m" * MAX_MESSAGE, 4, 1.0)] * MAX_EVENTS


@pytest.mark.parametrize(("counted", "told"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_counts_are_told_by_powers_of_two(counted: int, told: int) -> None:
    assert event("a", "b", counted, 0.0).count == told
