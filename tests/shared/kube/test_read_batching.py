"""When the event loop's thread naps, so that one wake-up takes in the answers of several calls."""

import asyncio

import pytest

from shared.kube.read_batching import LEAST, MOST_S, ROUNDS, SHARE, ReadBatching


class Time:
    """Clocks that naps move on, and a test. `busy` is the share of waking time in which the thread is."""

    def __init__(self, busy: float = 0.1) -> None:
        self.now, self.awake, self.busy = 100.0, 7.0, busy
        self.naps: list[float] = []
        self.looks = 0

    def clocks(self) -> tuple[float, float]:
        self.looks += 1
        return self.now, self.awake * self.busy

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        self.awake += seconds

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


async def answer_each(seconds: float, time: Time, under_way: float = 16, answers: int = 20) -> None:
    """Answers at even distances to so many requests; those that come in a nap are taken in after it, all at once."""
    naps = ReadBatching(time.sleep, time.clocks)
    begun, taken = time.now, 0
    while taken < answers:
        due = int((time.now - begun) / seconds + 1e-6)
        if due <= taken:
            time.pass_by(begun + (taken + 1) * seconds - time.now)
            due = taken + 1
        for _ in range(due - taken):
            naps.came(asyncio.get_running_loop(), under_way * seconds)
        taken = due
        await settled()


async def settled() -> None:
    for _ in range(ROUNDS + 2):
        await asyncio.sleep(0)


async def test_a_nap_lasts_until_a_quarter_of_what_is_being_answered_has_been() -> None:
    time = Time()
    await answer_each(0.0012, time, 16, answers=80)
    assert len(time.naps) >= 8
    assert time.naps == pytest.approx([0.0048] * len(time.naps))


async def test_no_answer_waits_for_longer_than_the_most() -> None:
    time = Time()
    await answer_each(0.004, time, 64)
    assert set(time.naps) == {MOST_S}


async def test_one_nap_is_taken_for_all_answers_of_a_wake_up() -> None:
    time = Time()
    naps = ReadBatching(time.sleep, time.clocks)
    time.pass_by(0.010)
    looks = time.looks
    for _ in range(10):
        naps.came(asyncio.get_running_loop(), 0.016)
    await settled()
    assert (len(time.naps), time.looks - looks) == (1, 1)


@pytest.mark.parametrize(("under_way", "naps"), [(1, False), (LEAST / SHARE - 1, False), (LEAST / SHARE + 1, True)])
async def test_nothing_waits_while_few_requests_are_under_way(under_way: float, naps: bool) -> None:
    time = Time()
    await answer_each(0.0001, time, under_way)
    assert bool(time.naps) is naps


@pytest.mark.parametrize(("seconds", "naps"), [(1.1 * MOST_S / LEAST, False), (0.9 * MOST_S / LEAST, True)])
async def test_nothing_waits_for_answers_that_come_too_seldom_to_meet(seconds: float, naps: bool) -> None:
    time = Time()
    await answer_each(seconds, time)
    assert bool(time.naps) is naps


@pytest.mark.parametrize(("busy", "naps"), [(0.9, False), (0.4, True)])
async def test_a_thread_that_has_its_hands_full_takes_no_nap(busy: float, naps: bool) -> None:
    time = Time(busy)
    await answer_each(0.001, time)
    assert bool(time.naps) is naps


async def test_what_an_answer_sets_off_is_sent_before_the_nap() -> None:
    time = Time()
    naps = ReadBatching(time.sleep, time.clocks)
    sent_before: list[int] = []

    async def procedure(answered: "asyncio.Future[None]", granted: "asyncio.Future[None]") -> None:
        await answered
        granted.set_result(None)  # gives its slot back

    async def next_procedure(granted: "asyncio.Future[None]") -> None:
        await granted
        sent_before.append(len(time.naps))

    loop = asyncio.get_running_loop()
    answered, granted = loop.create_future(), loop.create_future()
    tasks = [asyncio.create_task(procedure(answered, granted)), asyncio.create_task(next_procedure(granted))]
    await asyncio.sleep(0)
    time.pass_by(0.001)
    naps.came(loop, 0.016)
    answered.set_result(None)
    await asyncio.gather(*tasks)
    await settled()
    assert (sent_before, len(time.naps)) == ([0], 1)
