"""Files of a delegate that show what its source showed before are written anew, when both agents tell of them."""

import pytest

from dispatcher.scheduling.events import Unanswered, Unsent
from shared.messages import (
    DONE,
    REFUSED,
    STALE,
    UNKNOWN,
    AnyIntent,
    DeleteDelegate,
    MirrorStatus,
    SignManifest,
    UpdateDelegate,
)
from tests.scheduling.core.test_refused_steps import Fleet, Reply, all_done, but, delegate, source


def shown(reply: Reply = all_done) -> Fleet:
    """A remote pod whose status is shown, and whose files show what they ought to."""
    fleet = Fleet(reply)
    fleet.tell("east", source(phase="Running", files="one"))
    fleet.tell("west", delegate(files="one"))
    fleet.ordered.clear()
    return fleet


def test_they_are_signed_at_home_and_written_there_once() -> None:
    fleet = shown()
    fleet.tell("east", source(phase="Running", files="two"))
    assert fleet.ordered == {SignManifest: 1, UpdateDelegate: 1}
    fleet.tell("west", delegate(files="two"))
    fleet.ticks(30)
    assert fleet.ordered == {SignManifest: 1, UpdateDelegate: 1}


def test_a_write_that_does_not_show_is_done_again_after_a_pause() -> None:
    fleet = shown()
    fleet.tell("east", source(phase="Running", files="two"))
    fleet.ticks(5)
    assert 2 <= fleet.ordered[UpdateDelegate] <= 6


def test_a_refusal_is_tried_again_ever_more_seldom() -> None:
    fleet = shown(but(UpdateDelegate, REFUSED))
    fleet.tell("east", source(phase="Running", files="two"))
    fleet.ticks(600)
    assert 5 <= fleet.ordered[UpdateDelegate] <= 20


@pytest.mark.parametrize(
    ("half", "verdict"), [(UpdateDelegate, one) for one in (DONE, STALE, UNKNOWN)] + [(SignManifest, STALE)]
)
def test_what_never_shows_is_tried_ever_more_seldom(half: type[AnyIntent], verdict: str) -> None:
    fleet = shown(but(half, verdict))
    fleet.tell("east", source(phase="Running", files="two"))
    fleet.ticks(600)
    assert 5 <= fleet.ordered[half] <= 20


@pytest.mark.parametrize("half", [SignManifest, UpdateDelegate])
def test_a_change_of_which_nobody_knows_what_came_does_not_keep_a_status_from_home(half: type[AnyIntent]) -> None:
    fleet = shown(but(half, UNKNOWN))
    fleet.tell("east", source(phase="Running", files="two"))
    assert fleet.ordered[half] == 1
    fleet.tell("west", delegate(files="one", ready=True, status=b'{"phase":"Running","message":"news"}'))
    fleet.ticks(3)
    assert fleet.ordered[MirrorStatus] >= 1


@pytest.mark.parametrize("failed", [Unsent, Unanswered])
@pytest.mark.parametrize("half", [SignManifest, UpdateDelegate])
def test_nor_does_one_that_is_not_answered(half: type[AnyIntent], failed: type[Unsent] | type[Unanswered]) -> None:
    sent: list[AnyIntent] = []

    def lost(intent: AnyIntent) -> str:
        if isinstance(intent, half):
            sent.append(intent)
        return "" if isinstance(intent, half) else DONE

    def fail() -> None:
        event = Unsent("west", (sent[-1].id,)) if failed is Unsent else Unanswered("west", (sent[-1].id,), "timeout")
        fleet.take(fleet.core.handle(event, fleet.now))

    fleet = shown(lost)
    fleet.tell("east", source(phase="Running", files="two"))
    for _ in range(2):
        fail()
        fleet.ticks(3)
    assert fleet.ordered[half] == 3
    fail()
    fleet.tell("west", delegate(files="one", ready=True, status=b'{"phase":"Running","message":"news"}'))
    assert fleet.ordered[MirrorStatus] == 1


def test_files_that_are_refused_do_not_keep_a_deleted_pods_copy_running() -> None:
    fleet = shown(but(SignManifest, REFUSED))
    fleet.tell("east", source(phase="Running", files="-"))
    fleet.tell("east", source(phase="Running", files="-", terminating=True))
    assert fleet.ordered[DeleteDelegate] == 1


def test_what_was_signed_is_written_for_the_source_that_the_delegate_carries() -> None:
    orders: list[UpdateDelegate] = []

    def noted(intent: AnyIntent) -> str:
        if isinstance(intent, UpdateDelegate):
            orders.append(intent)
        return DONE

    fleet = shown(noted)
    fleet.tell("east", source(phase="Running", files="two"))
    (order,) = orders
    assert (order.source, order.node) == (delegate().source, "w1")
    assert (order.manifest, order.record) == (b"{}", "x.y")


def test_so_is_what_may_change_of_a_pod_that_runs() -> None:
    fleet = shown()
    fleet.tell("west", delegate(files="one", live="1a"))
    fleet.tell("east", source(phase="Running", files="one", live="1a"))
    fleet.ticks(3)
    fleet.ordered.clear()
    fleet.tell("east", source(phase="Running", files="one", live="1b"))
    fleet.tell("west", delegate(files="one", live="1b"))
    fleet.ticks(30)
    assert fleet.ordered == {SignManifest: 1, UpdateDelegate: 1}


def test_home_is_told_which_writes_follow_where_both_agents_know_of_it() -> None:
    for live, told in (("1a", "pods,resize"), ("", "")):
        orders: list[MirrorStatus] = []

        def noted(intent: AnyIntent, orders: list[MirrorStatus] = orders) -> str:
            if isinstance(intent, MirrorStatus):
                orders.append(intent)
            return DONE

        fleet = Fleet(noted)
        fleet.tell("east", source(live=live))
        fleet.tell("west", delegate(live="1a", carries="pods,resize"))
        assert {one.carries for one in orders} == {told}


def test_home_is_told_anew_where_an_agent_of_another_version_follows_with_the_status_as_it_was() -> None:
    orders: list[str] = []

    def noted(intent: AnyIntent) -> str:
        if isinstance(intent, MirrorStatus):
            orders.append(intent.carries)
        return DONE

    fleet = Fleet(noted)
    fleet.tell("east", source(live="1a", phase="Running"))
    fleet.tell("west", delegate(live="1a", carries="pods"))
    told = ["pods"]
    for there, home in [("", "1a"), ("pods", "1a"), ("pods,resize", "1a"), ("pods,resize", ""), ("pods,resize", "1a")]:
        fleet.ticks(10)
        fleet.tell("west", delegate(live="1a" if there else "", carries=there))
        fleet.tell("east", source(live=home, phase="Running"))
        fleet.ticks(10)
        told.append(there if home else "")
    assert orders == told


def test_a_copy_that_was_resized_takes_the_room_that_it_then_has() -> None:
    fleet = shown()
    fleet.tell("west", delegate(files="one", requests={"cpu": 500}))
    occupant = fleet.core.fleet.occupant(("east", source().uid))
    assert occupant is not None
    assert occupant.pod_info.pod.requests == {"cpu": 500}
