"""The end of a remote pod that is shown at home is the one that its executor has confirmed, of that very delegate."""

import pytest

from shared.messages import (
    DELETING,
    DONE,
    STALE,
    AnyIntent,
    ConfirmNoDelegate,
    DeleteDelegate,
    DeleteSource,
    MirrorStatus,
)
from tests.scheduling.core.test_refused_steps import Fleet, all_done, delegate, source

LONG_S = 100.0


def shown(phase: str) -> dict[str, object]:
    return {"phase": phase, "status": b'{"phase":"%s"}' % phase.encode()}


def remote(end: str, uid: str = "d-web") -> Fleet:
    """A pod that runs in west and shows so; `end` is what the executor there says of the delegate `uid`, if asked."""
    fleet = Fleet(all_done)
    fleet.end, fleet.ended_uid = end, uid
    fleet.tell("east", source(phase="Running"))
    fleet.tell("west", delegate())
    fleet.ordered.clear()
    return fleet


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_that_is_confirmed_is_shown_at_once(phase: str) -> None:
    fleet = remote(phase)
    fleet.tell("west", delegate(**shown(phase)))
    assert fleet.ordered == {ConfirmNoDelegate: 1, MirrorStatus: 1}


@pytest.mark.parametrize("end", ["Failed", DELETING, "", "of a later version"])
def test_a_pod_that_came_to_another_end_is_not_shown_as_succeeded(end: str) -> None:
    fleet = remote(end)
    fleet.tell("west", delegate(**shown("Succeeded")))
    fleet.ticks(LONG_S)
    assert fleet.ordered[MirrorStatus] == fleet.ordered[DeleteSource] == 0


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "", "of a later version"])
def test_a_source_is_not_deleted_for_a_delegate_that_nobody_deletes(end: str) -> None:
    fleet = remote(end)
    fleet.tell("west", delegate(terminating=True))
    fleet.ticks(LONG_S)
    assert fleet.ordered[DeleteSource] == 0


def test_the_end_that_was_confirmed_is_shown_as_soon_as_it_is_told() -> None:
    fleet = remote("Failed")
    fleet.tell("west", delegate(**shown("Succeeded")))
    assert fleet.ordered == {ConfirmNoDelegate: 1}
    fleet.tell("west", delegate(**shown("Failed")))
    fleet.ticks(LONG_S)
    assert fleet.core.tracked["east", "uid-web"].mirrored == b'{"phase":"Failed"}'


def test_a_status_that_says_another_end_than_its_pod_is_not_written() -> None:
    fleet = remote("Succeeded")
    fleet.tell("west", delegate(phase="Succeeded", status=b'{"phase":"Failed"}'))
    fleet.ticks(LONG_S)
    assert fleet.ordered[MirrorStatus] == 0


def test_one_that_ends_while_it_is_being_deleted_is_asked_about_again() -> None:
    fleet = remote(DELETING)
    fleet.tell("west", delegate(**shown("Failed")))
    assert fleet.ordered == {ConfirmNoDelegate: 1}
    fleet.end = "Failed"
    fleet.ticks(LONG_S)
    assert fleet.ordered[ConfirmNoDelegate] == 2
    assert fleet.core.tracked["east", "uid-web"].mirrored == b'{"phase":"Failed"}'


def test_what_is_confirmed_of_another_delegate_says_nothing_of_the_one_that_shows() -> None:
    fleet = remote("Succeeded", uid="d-before")
    fleet.tell("west", delegate(**shown("Succeeded")))
    fleet.ticks(LONG_S)
    assert fleet.ordered[MirrorStatus] == 0


def goes_on(intent: AnyIntent) -> str:
    return STALE if isinstance(intent, ConfirmNoDelegate) else DONE


def denied() -> Fleet:
    """The observer in west shows an end, and the executor there says that the delegate goes on."""
    fleet = remote("")
    fleet.reply = goes_on
    fleet.tell("west", delegate(**shown("Succeeded")))
    return fleet


def test_a_delegate_that_goes_on_is_shown_as_it_is_told_at_once_whatever_was_asked() -> None:
    fleet = denied()
    fleet.tell("west", delegate(status=b'{"phase":"Running","podIP":"10.0.0.9"}'))
    assert fleet.ordered == {ConfirmNoDelegate: 1, MirrorStatus: 1}


def test_nor_does_a_question_hold_up_the_end_of_its_source() -> None:
    fleet = denied()
    fleet.tell("east", source(phase="Running", terminating=True))
    assert fleet.ordered == {ConfirmNoDelegate: 1, DeleteDelegate: 1}


@pytest.mark.parametrize("answer", [STALE, DONE], ids=["it goes on", "it has come to another end"])
@pytest.mark.parametrize("steady", [True, False], ids=["the same all the time", "another each time"])
def test_an_end_that_is_not_confirmed_is_asked_about_ever_less_often(answer: str, steady: bool) -> None:
    fleet = remote("Failed")
    fleet.reply = lambda intent: answer if isinstance(intent, ConfirmNoDelegate) else DONE
    asked = []
    for second in range(900):
        fleet.tell(
            "west", delegate(**shown("Succeeded" if steady or second % 2 else "Running"), labels={"at": f"{second}"})
        )
        fleet.ticks(1)
        asked.append(fleet.ordered[ConfirmNoDelegate])
    assert asked[60] >= 5
    assert asked[-1] - asked[600] <= 5, "once a minute"


def test_a_lie_about_one_end_does_not_keep_the_next_true_one_from_showing_for_long() -> None:
    fleet = denied()
    fleet.ticks(900)
    fleet.end, fleet.reply = "Failed", all_done
    fleet.tell("west", delegate(**shown("Failed")))
    fleet.ticks(60)
    assert fleet.core.tracked["east", "uid-web"].mirrored == b'{"phase":"Failed"}'
