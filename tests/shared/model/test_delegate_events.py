"""Events of a delegate beside its status, forth and back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.delegate_events import (
    MAX_EVENTS,
    MAX_MESSAGE,
    MAX_NORMAL,
    MAX_NORMAL_MESSAGE,
    MAX_REASON,
    NORMAL,
    DelegateEvent,
    all_events_of,
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
ORDINARY = st.lists(
    st.builds(
        DelegateEvent,
        st.sampled_from(sorted(NORMAL)),
        st.text(max_size=MAX_NORMAL_MESSAGE),
        st.sampled_from([1, 2, 64]),
        st.floats(0, 2e9),
        st.just(value=True),
    ),
    max_size=MAX_NORMAL,
)
STATUS = st.dictionaries(st.sampled_from(["phase", "conditions", "x"]), st.text() | st.lists(st.text()))


@given(STATUS, EVENTS, ORDINARY)
def test_a_status_with_events_gives_both_back(
    status: dict[str, object], events: list[DelegateEvent], ordinary: list[DelegateEvent]
) -> None:
    raw = msgspec.json.encode(status)
    told = with_events(raw, [*ordinary, *events])
    assert list(msgspec.json.decode(told)) == ["events", *(["normal"] if ordinary else []), *status]
    assert (all_events_of(told), events_of(told)) == ([*events, *ordinary], events)
    assert without_events(told) == raw
    assert (all_events_of(raw), without_events(raw)) == ([], raw)


class Older(msgspec.Struct):
    """What agents before there were normal events read."""

    class Event(msgspec.Struct):
        reason: str
        message: str
        count: int = 1
        at: float = 0.0

    events: list[Event]


def test_an_agent_of_an_older_version_finds_the_warnings_alone() -> None:
    told = with_events(
        b'{"phase":"Running"}', [DelegateEvent("Pulled", "x", normal=True), DelegateEvent("Failed", "y")]
    )
    assert [one.reason for one in msgspec.json.decode(told, type=Older).events] == ["Failed"]


def test_whatever_an_agent_there_says_no_other_reasons_are_normal() -> None:
    told = b'{"events":[],"normal":[{"reason":"Scheduled","message":"x"},{"reason":"Started","message":"y"}]}'
    assert all_events_of(told) == [DelegateEvent("Started", "y", normal=True)]


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
        b'{"events":[],"normal":[{"reason":"Started"}]}',
        b'{"events":[],"normal":7}',
    ],
)
def test_what_cannot_be_read_has_no_events(status: bytes) -> None:
    assert all_events_of(status) == []


def test_who_sends_more_and_longer_than_there_may_be_is_cut() -> None:
    long = DelegateEvent("r" * 1000, "m" * 10_000, 7, 1.0)
    told = events_of(with_events(b"{}", [long] * 50))
    assert told == [DelegateEvent("r" * MAX_REASON, "m" * MAX_MESSAGE, 4, 1.0)] * MAX_EVENTS
    many = [DelegateEvent("Pulled", "m" * 10_000, 7, 1.0, normal=True)] * 50
    kept = DelegateEvent("Pulled", "m" * MAX_NORMAL_MESSAGE, 4, 1.0, normal=True)
    assert all_events_of(with_events(b"{}", many)) == [kept] * MAX_NORMAL


@pytest.mark.parametrize(("counted", "told"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_counts_are_told_by_powers_of_two(counted: int, told: int) -> None:
    assert event("a", "b", counted, 0.0).count == told
