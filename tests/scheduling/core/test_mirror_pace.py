"""A delegate whose status changes many times a second is shown at a pace, its last status and its end without fail."""

import pytest

from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.events import ClusterSilent, Tick
from shared.messages import (
    DELETING,
    REFUSED,
    ConfirmNoDelegate,
    DeleteDelegate,
    DeleteSource,
    MirrorStatus,
)
from tests.laws.cores import make_core
from tests.scheduling.core.test_refused_steps import Fleet, all_done, but, delegate, source

AT_ONCE, EVERY_S = CoreTiming().mirror_at_once, CoreTiming().mirror_s
FLAPS_S = 10.0


def status(number: int) -> bytes:
    return b'{"phase":"Running","restarts":%d}' % number


def change(fleet: Fleet, number: int) -> None:
    fleet.tell("west", delegate(status=status(number)))


def flapping(fleet: Fleet, seconds: float = FLAPS_S) -> int:
    """Its delegate changes twenty times a second; the number of the last change."""
    fleet.tell("east", source(phase="Running"))
    last = round(20 * seconds)
    for number in range(last + 1):
        change(fleet, number)
        fleet.now += 0.05
        fleet.take(fleet.core.handle(Tick(), fleet.now))
    return last


def shown(fleet: Fleet) -> bytes:
    return fleet.core.tracked["east", "uid-web"].mirrored


def test_a_pod_that_starts_is_shown_at_once_at_each_of_its_stages() -> None:
    fleet = Fleet(all_done)
    fleet.tell("east", source())
    for number in range(AT_ONCE):
        change(fleet, number)
        assert shown(fleet) == status(number)


def test_one_that_flaps_is_shown_once_a_second_and_comes_to_its_last_status() -> None:
    fleet = Fleet(all_done)
    last = flapping(fleet)
    assert FLAPS_S / EVERY_S <= fleet.ordered[MirrorStatus] <= AT_ONCE + FLAPS_S / EVERY_S
    fleet.ticks(EVERY_S)
    assert shown(fleet) == status(last)


def test_the_last_status_is_told_by_time_alone() -> None:
    fleet = Fleet(all_done)
    fleet.tell("east", source(phase="Running"))
    for number in range(AT_ONCE + 3):
        change(fleet, number)
    assert shown(fleet) == status(AT_ONCE - 1)
    fleet.ticks(EVERY_S)
    assert shown(fleet) == status(AT_ONCE + 2)
    assert fleet.ordered[MirrorStatus] == AT_ONCE + 1


@pytest.mark.parametrize("every_s", [0.4, 5.0], ids=["sooner than the watch shows it", "later"])
@pytest.mark.parametrize("observed", [True, False], ids=["home is seen", "home is not seen"])
def test_the_last_status_waits_no_longer_than_its_pace_asks_for(every_s: float, observed: bool) -> None:
    fleet = Fleet(all_done)
    fleet.core = make_core(("east", "west"), timing=CoreTiming(mirror_s=every_s))
    fleet.tell("east", source(phase="Running"))
    if not observed:
        fleet.take(fleet.core.handle(ClusterSilent("east", "its observer is away", executor=True), fleet.now))
    for number in range(AT_ONCE + 3):
        change(fleet, number)
    fleet.ticks(every_s - 0.5)
    assert shown(fleet) == status(AT_ONCE - 1)
    fleet.ticks(0.5)
    assert shown(fleet) == status(AT_ONCE + 2)


def test_one_that_has_rested_is_shown_at_once_again() -> None:
    fleet = Fleet(all_done)
    last = flapping(fleet)
    fleet.ticks(AT_ONCE * EVERY_S + 1)
    change(fleet, last + 1)
    assert shown(fleet) == status(last + 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_its_end_does_not_wait(phase: str) -> None:
    fleet = Fleet(all_done)
    fleet.end = phase
    flapping(fleet)
    end = b'{"phase":"%s"}' % phase.encode()
    fleet.tell("west", delegate(phase=phase, status=end))
    assert shown(fleet) == end


def test_its_deletion_does_not_wait() -> None:
    fleet = Fleet(all_done)
    fleet.end = DELETING
    flapping(fleet)
    fleet.tell("west", delegate(terminating=True))
    assert (fleet.ordered[ConfirmNoDelegate], fleet.ordered[DeleteSource]) == (1, 1)
    other = Fleet(all_done)
    flapping(other)
    other.tell("east", source(terminating=True))
    assert other.ordered[DeleteDelegate] == 1


def test_statuses_that_are_refused_are_sent_no_faster() -> None:
    fleet = Fleet(but(MirrorStatus, REFUSED))
    flapping(fleet)
    assert fleet.ordered[MirrorStatus] <= AT_ONCE + FLAPS_S / EVERY_S


def test_a_generation_that_was_seen_is_told_once_without_a_new_status() -> None:
    fleet = Fleet(all_done)
    fleet.tell("east", source(phase="Running", live="2a", generation=5))
    fleet.tell("west", delegate(status=status(1), live="2a"))
    assert fleet.ordered[MirrorStatus] == 1
    fleet.tell("west", delegate(status=status(1), live="2a", generation=9))
    assert fleet.ordered[MirrorStatus] == 2
    assert fleet.core.tracked["east", "uid-web"].generation == 5
    fleet.ticks(5 * EVERY_S)
    assert fleet.ordered[MirrorStatus] == 2
