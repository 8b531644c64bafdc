"""The rounds of the service loop under real asyncio: what is decided when, and what it logs."""

import asyncio
import time
import traceback
from collections import deque
from dataclasses import replace
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from dispatcher.scheduling.events import (
    ClusterChanged,
    ClusterSilent,
    Decide,
    Effect,
    Event,
    FoldOn,
    OperatorWarning,
    Tick,
)
from dispatcher.service.links.link import LocalLink
from dispatcher.service.service import MOST_WARNED
from dispatcher.service.timing import Round
from tests.service.fakes import FAST, FakeAgent, FakeCore, ScriptedLink, running, service


async def test_a_fault_of_the_cores_own_about_one_pod_is_logged_with_its_traceback() -> None:
    def broken() -> None:
        raise KeyError("east-1")

    with pytest.raises(KeyError) as fault:
        broken()
    core = FakeCore(effects=deque([[OperatorWarning("pod a: KeyError: 'east-1'", fault.value)]]))
    with capture_logs() as logs:
        async with running(service(core, ScriptedLink("east"))):
            await core.until(lambda: core.ticks >= 2)
    (told,) = [one for one in logs if one["event"] == "something is wrong; all else goes on"]
    assert told["detail"] == "pod a: KeyError: 'east-1'"
    assert "in broken" in "".join(traceback.format_exception(told["exc_info"]))


def test_a_warning_is_logged_once_a_minute_and_the_texts_of_long_ago_are_forgotten() -> None:
    subject = service(FakeCore(), ScriptedLink("east"))
    with capture_logs() as logs:
        for at in range(2 * MOST_WARNED):
            for _ in range(2):
                subject._log_warning(OperatorWarning(f"pod {at}"))
    assert len(logs) == 2 * MOST_WARNED
    assert len(subject._warned_at) == MOST_WARNED


async def test_a_core_that_fails_on_ticks_is_ticked_on() -> None:
    core = FakeCore(fails_on=lambda event: isinstance(event, Tick) and core.ticks == 0 and not core.events)
    core.queue.active = 5
    agent = FakeAgent("east")
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: core.ticks > 0)


async def test_pending_work_is_decided_without_waiting_for_ticks() -> None:
    core = FakeCore()
    core.queue.active = 1
    slow_ticks = FAST.__class__(tick_s=60.0)
    async with running(service(core, timing=slow_ticks)):
        await core.until(lambda: len(core.budgets) >= 50)
    assert core.ticks == 1  # what time makes due is not looked for in each round of decisions


async def test_pods_that_events_woke_in_part_are_woken_on_without_waiting_for_ticks() -> None:
    core = FakeCore(waking=True)
    async with running(service(core, timing=FAST.__class__(tick_s=60.0))):
        await core.until(lambda: len(core.budgets) >= 50)
    assert core.ticks == 1


async def test_a_closed_core_is_not_spun() -> None:
    core = FakeCore(open=False)
    core.queue.active = 1
    async with running(service(core, timing=FAST.__class__(tick_s=60.0))):
        await core.until(lambda: core.ticks == 1)
        for _ in range(20):
            await asyncio.sleep(0)
    assert core.ticks == 1


class SlowToTell(FakeCore):
    """Whatever time makes due takes longer than a slice; as many are decided as may be, in no time."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, Tick):
            time.sleep(2 * FAST.slice_s)
        elif isinstance(event, Decide):
            self.counters["scheduled", "default"] += event.budget
        return super().handle(event, now)


async def test_what_is_not_deciding_does_not_shrink_how_much_is_decided() -> None:
    core = SlowToTell()
    core.queue.active = 5
    async with running(service(core)):
        await core.until(lambda: len(core.budgets) >= 4)
    assert core.budgets[3] > core.budgets[0] > 100


class SlowToDecide(FakeCore):
    """The other way round."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, Decide):
            time.sleep(2 * FAST.slice_s)
        return super().handle(event, now)


async def test_slow_decisions_do() -> None:
    core = SlowToDecide()
    core.queue.active = 5
    async with running(service(core)):
        await core.until(lambda: len(core.budgets) >= 3)
    assert core.budgets[2] < core.budgets[0] / 2


class AsksWhen(FakeCore):
    """Is asked to decide, and asks at once and after a slice whether it has decided enough."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, Decide) and not self.order:
            self.order.append(str(event.enough()))
            time.sleep(FAST.slice_s)
            self.order.append(str(event.enough()))
        return super().handle(event, now)


async def test_after_a_slice_of_time_the_core_is_told_to_leave_the_rest_for_later() -> None:
    core = AsksWhen()
    core.queue.active = 5
    async with running(service(core)):
        await core.until(lambda: len(core.budgets) >= 1)
    assert core.order == ["False", "True"]


class SlowToBegin(FakeCore):
    """A round of decisions takes longer than a slice, however few they are."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, Decide):
            time.sleep(1.5 * FAST.slice_s)
            if len(self.budgets) == 1:
                self.queue.active = 10_000
        return super().handle(event, now)


async def test_what_even_one_decision_takes_does_not_shrink_how_much_is_decided() -> None:
    core = SlowToBegin()
    core.queue.active = 1
    async with running(service(core)):
        await core.until(lambda: len(core.budgets) >= 5)
    # Of three rounds of 1.5 slices each would else take a third: 76 of 256. One that is late takes little.
    assert core.budgets[4] >= core.budgets[0] / 2


def work(seconds: float) -> None:
    """Keep the CPU busy for that long: time asleep holds up no decisions."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Working(FakeCore):
    """Taking in that a cluster is silent, and each round of decisions, take so many seconds of CPU on a held clock."""

    spent = 0.0

    def handle(self, event: Event, now: float) -> list[Effect]:
        self.spent += {ClusterSilent: 0.25, Decide: 0.5}.get(type(event), 0.0)
        return super().handle(event, now)


@pytest.mark.parametrize(("is_open", "rounds", "seconds"), [(True, 1, 0.75), (False, 0, 0.0)], ids=["open", "closed"])
async def test_the_time_from_the_end_of_one_round_to_the_end_of_the_next_is_told_once_decisions_are_taken(
    is_open: bool, rounds: int, seconds: float
) -> None:
    core = Working(open=is_open)
    one = service(core)
    one._round = Round(FAST.slice_s, lambda: core.spent)
    one._decide_some(tick=False)  # what was done before decisions were taken is not counted
    one.emit(ClusterSilent("east", "away"))
    one._take_in()
    one._decide_some(tick=False)
    told = one.metrics.registry.get_sample_value
    name = "global_dispatcher_time_without_decisions_seconds"
    assert (told(f"{name}_count") or 0, told(f"{name}_sum") or 0.0) == (rounds, seconds)


class InParts(FakeCore):
    """The first report of a cluster takes so many parts."""

    left = 5

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, ClusterChanged) and self.left:
            self.folding = (event.changes.cluster,)
        elif isinstance(event, FoldOn):
            self.left -= 1
            self.order.append("part")
            self.folding = (event.cluster,) if self.left else ()
            work(FAST.slice_s)
        elif isinstance(event, Decide):
            self.order.append("decide")
        return super().handle(event, now)


async def test_between_two_parts_of_a_report_pods_are_decided_and_its_agent_is_asked_for_more_after_the_last() -> None:
    core, agent = InParts(), FakeAgent("east")
    core.queue.active = 1
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: len(agent.asked) >= 2)
    parts = [at for at, what in enumerate(core.order) if what == "part"]
    assert len(parts) == 5
    assert all("decide" in core.order[one:other] for one, other in pairwise(parts))
    assert agent.asked[:2] == [("", 0), ("one", 1)]


class SilentInParts(InParts):
    """What follows from the silence of a cluster takes so many parts."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, ClusterSilent):
            self.folding = (event.cluster,)
        return FakeCore.handle(self, event, now) if isinstance(event, ClusterChanged) else super().handle(event, now)


async def test_pods_are_decided_between_the_parts_of_what_follows_from_silence() -> None:
    core, agent = SilentInParts(), FakeAgent("east")
    core.queue.active = 1
    subject = service(core, LocalLink("east", agent))
    subject.emit(ClusterSilent("west", "no answer"))
    async with running(subject):
        await core.until(lambda: not core.left)
    parts = [at for at, what in enumerate(core.order) if what == "part"]
    assert len(parts) == 5
    assert all("decide" in core.order[one:other] for one, other in pairwise(parts))


class Noting(FakeCore):
    """Notes in which order it was asked to decide and told that a cluster is silent."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        self.order.append(type(event).__name__)
        return super().handle(event, now)


async def test_decisions_come_first_where_other_tasks_took_so_long_that_they_are_due() -> None:
    """As where a report was decoded."""
    core = Noting()
    one = service(core)
    async with running(one):
        await core.until(lambda: "Decide" in core.order)
        for _ in range(3):
            core.order.clear()
            one.emit(ClusterSilent("east", "away"))
            work(FAST.slice_s / 2)
            await core.until(lambda: "ClusterSilent" in core.order)
            assert core.order[0] in ("Tick", "Decide")


async def test_reports_without_pods_to_decide_bring_no_ticks_of_their_own() -> None:
    core = Noting()
    one = service(core, timing=replace(FAST, tick_s=10.0))
    async with running(one):
        await core.until(lambda: core.ticks == 1)
        for _ in range(5):
            core.order.clear()
            one.emit(ClusterSilent("east", "away"))
            await core.until(lambda: "ClusterSilent" in core.order)
            await asyncio.sleep(0)
        assert core.ticks == 1
