"""The service loop under real asyncio: what it feeds the core, and that no agent can hold up another."""

import asyncio
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from dispatcher.model.messages import UNKNOWN, Changes, Hello, IntentBatch, Outcome, OutcomeBatch, Peer
from dispatcher.scheduling.clusters import ClusterView, GapError
from dispatcher.scheduling.events import (
    Answered,
    ClusterChanged,
    ClusterSilent,
    Decide,
    Effect,
    Event,
    FoldOn,
    OperatorWarning,
    PeersAcknowledged,
    SendIntents,
    SendPeers,
    Tick,
    Unanswered,
    Unsent,
)
from dispatcher.service.intent_sender import IntentSender
from dispatcher.service.link import (
    AgentDied,
    AgentFault,
    AgentMismatch,
    AgentMissing,
    AgentTimeout,
    LinkError,
    LocalLink,
)
from dispatcher.service.service import MOST_WARNED, Service
from dispatcher.service.term import Term
from tests.service.fakes import FAST, FakeAgent, FakeCore, ScriptedLink, bind, service


@asynccontextmanager
async def running(subject: Service) -> AsyncIterator[None]:
    loop = asyncio.create_task(subject.run())
    try:
        yield
    finally:
        subject.stop()
        await loop


async def test_reports_reach_the_core_and_polls_continue_where_they_ended() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: len(core.of(ClusterChanged)) >= 2)
    first, second = core.of(ClusterChanged)[:2]
    assert first.changes.full
    assert not second.changes.full
    assert agent.asked[:2] == [("", 0), ("one", 1)]


async def test_a_silent_agent_becomes_silent_and_delays_nobody() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    mute = FakeAgent("west")
    mute.gate.clear()
    async with running(service(core, LocalLink("east", agent), LocalLink("west", mute))):
        await core.until(lambda: bool(core.of(ClusterSilent)))
        heard = len(core.of(ClusterChanged))
        await core.until(lambda: len(core.of(ClusterChanged)) > heard)
    assert {event.cluster for event in core.of(ClusterSilent)} == {"west"}
    assert {event.changes.cluster for event in core.of(ClusterChanged)} == {"east"}


async def test_an_agent_that_was_silent_is_followed_again_when_it_answers() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    agent.gate.clear()
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: bool(core.of(ClusterSilent)))
        agent.gate.set()
        await core.until(lambda: bool(core.of(ClusterChanged)))


async def test_a_cluster_that_never_syncs_is_given_up_for_now_so_that_others_start() -> None:
    changes = Changes("west", "", "one", 0, 0, full=True, synced=False, api_ok=False, problem="connection refused")
    link = ScriptedLink("west", hello=lambda: Hello("west", "", "one"), changes=lambda *_: changes)
    core = FakeCore()
    async with running(service(core, link)):
        await core.until(lambda: bool(core.of(ClusterSilent)))
    assert core.of(ClusterSilent)[0].problem == "connection refused"


async def test_a_report_that_the_core_cannot_fold_is_asked_for_in_full() -> None:
    failed: list[Event] = []

    def fails_once(event: Event) -> bool:
        if isinstance(event, ClusterChanged) and not failed:
            failed.append(event)
            return True
        return False

    core, agent = FakeCore(fails_on=fails_once), FakeAgent("east")
    subject = service(core, LocalLink("east", agent))
    async with running(subject):
        await core.until(lambda: bool(core.of(ClusterChanged)))
    assert agent.asked[:2] == [("", 0), ("", 0)]
    assert b'global_dispatcher_core_errors_total{event="ClusterChanged"} 1.0' in subject.metrics.render()


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


async def test_a_report_that_does_not_continue_what_is_known_is_asked_for_in_full_and_is_no_error() -> None:
    def forgot_it_once(event: Event) -> bool:
        if isinstance(event, ClusterChanged) and len(core.of(ClusterChanged)) == 1:
            core.events.append(event)
            raise GapError("cluster east: report from one/1 does not continue /0")
        return False

    core, agent = FakeCore(fails_on=forgot_it_once), FakeAgent("east")
    subject = service(core, LocalLink("east", agent))
    with capture_logs() as logs:
        async with running(subject):
            await core.until(lambda: len(core.of(ClusterChanged)) >= 3)
    assert agent.asked[:3] == [("", 0), ("one", 1), ("", 0)]
    assert b'global_dispatcher_core_errors_total{event="ClusterChanged"} 0.0' in subject.metrics.render()
    assert [one["event"] for one in logs if "exc_info" in one] == []
    assert "a report is not taken in; a full one is asked for" in {one["event"] for one in logs}


def test_a_warning_is_logged_once_a_minute_and_the_texts_of_long_ago_are_forgotten() -> None:
    subject = service(FakeCore(), ScriptedLink("east"))
    with capture_logs() as logs:
        for at in range(2 * MOST_WARNED):
            for _ in range(2):
                subject._log_warning(OperatorWarning(f"pod {at}"))
    assert len(logs) == 2 * MOST_WARNED
    assert len(subject._warned_at) == MOST_WARNED


async def test_a_gap_between_reports_leads_to_a_full_one() -> None:
    asked: list[tuple[str, int]] = []

    def answer(incarnation: str, since: int) -> Changes:
        asked.append((incarnation, since))
        if incarnation:
            return Changes("east", "uid", "one", since + 5, since + 6)
        return Changes("east", "uid", "one", 0, 10, full=True)

    core = FakeCore()
    link = ScriptedLink("east", hello=lambda: Hello("east", "uid", "one"), changes=answer)
    async with running(service(core, link)):
        await core.until(lambda: len(core.of(ClusterChanged)) >= 2)
    assert asked[:3] == [("", 0), ("one", 10), ("", 0)]
    assert all(event.changes.full for event in core.of(ClusterChanged))


async def test_what_an_agent_says_of_its_build_and_clock_is_kept_for_those_who_look_for_faults() -> None:
    core, report = FakeCore(), Changes("east", "uid", "one", 0, 1, full=True)
    told = Hello("east", "uid", "one", agent_version="0.0.1", now=time.time() + 3600)
    subject = service(core, ScriptedLink("east", hello=lambda: told, changes=lambda *_: report))
    async with running(subject):
        await core.until(lambda: bool(core.of(ClusterChanged)))
    greeting = subject.pollers["east"].greeting
    assert greeting.agent_version == "0.0.1"
    assert greeting.clock_ahead_s == pytest.approx(3600, abs=60)


async def test_intents_are_sent_and_their_answers_come_back() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects.append([SendIntents("east", (bind(1), bind(2)))])
    subject = service(core, LocalLink("east", agent))
    async with running(subject):
        await core.until(lambda: bool(core.of(Answered)))
    assert [outcome.id for outcome in core.of(Answered)[0].outcomes] == ["1", "2"]
    assert agent.batches[0].dispatcher_epoch == subject.term.epoch
    assert b'global_dispatcher_outcomes_total{cluster="east",verdict="bound"} 2.0' in subject.metrics.render()


async def test_intents_of_one_round_for_a_cluster_leave_in_one_call() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects.append([SendIntents("east", (bind(1),)), SendIntents("east", (bind(2), bind(3)))])
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: sum(len(event.outcomes) for event in core.of(Answered)) == 3)
    assert [[intent.id for intent in batch.intents] for batch in agent.batches] == [["1", "2", "3"]]


async def test_two_intents_of_one_pod_are_never_in_flight_together() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects.append([SendIntents("east", (bind(1, "uid"), bind(2), bind(3, "uid"), bind(4)))])
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: sum(len(event.outcomes) for event in core.of(Answered)) == 4)
    assert [[intent.id for intent in batch.intents] for batch in agent.batches] == [["1", "2"], ["3", "4"]]


async def test_a_call_that_has_ended_makes_room_for_the_next_at_once() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects.append([SendIntents("east", (bind(1), bind(2)))])
    async with running(service(core, LocalLink("east", agent), timing=replace(FAST, in_flight=1, batch=1))):
        await core.until(lambda: sum(len(event.outcomes) for event in core.of(Answered)) == 2)
    assert [[intent.id for intent in batch.intents] for batch in agent.batches] == [["1"], ["2"]]


class HeldLink(LocalLink):
    """Each call is answered when its future is set."""

    def __init__(self) -> None:
        super().__init__("east", FakeAgent("east"))
        self.calls: list[asyncio.Future[OutcomeBatch]] = []

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        self.calls.append(asyncio.get_running_loop().create_future())
        return await self.calls[-1]


async def test_a_call_that_ends_while_all_are_given_up_makes_room_for_none() -> None:
    link = HeldLink()
    timing = replace(FAST, in_flight=1, batch=1)
    sender = IntentSender(link, lambda _: None, timing, Term("me", 3), lambda _: None)
    sender.put((bind(1), bind(2)))
    await asyncio.sleep(0.01)
    link.calls[0].set_result(OutcomeBatch("east", ()))
    await asyncio.sleep(0)  # the call has ended, and is not counted out yet
    await sender.close()
    await asyncio.sleep(0.05)
    assert (len(link.calls), sender.in_flight) == (1, 0)


async def test_a_batch_without_answer_is_reported_with_all_its_intents() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects.append([SendIntents("east", (bind(1), bind(2)))])
    agent.gate.clear()
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: bool(core.of(Unanswered)))
    assert core.of(Unanswered)[0].intent_ids == ("1", "2")
    assert f"within {FAST.execute_s:g} s" in core.of(Unanswered)[0].problem


async def test_an_unknown_outcome_is_passed_on_and_a_left_out_one_is_unanswered() -> None:
    outcome = Outcome("1", "uid-1", 1, UNKNOWN, "no answer from the API server")
    link = ScriptedLink("east", execute=lambda batch: OutcomeBatch("east", (outcome, Outcome("99", "x", 1, "bound"))))
    core = FakeCore()
    core.effects.append([SendIntents("east", (bind(1), bind(2)))])
    async with running(service(core, link)):
        await core.until(lambda: bool(core.of(Unanswered)))
    assert core.of(Answered) == [Answered("east", (outcome,))]
    assert [event.intent_ids for event in core.of(Unanswered)] == [("2",)]


async def test_a_batch_whose_call_was_never_begun_is_reported_as_unsent() -> None:
    def missing(batch: object) -> OutcomeBatch:
        raise AgentMissing("no Ray node offers it")

    core = FakeCore()
    core.effects.append([SendIntents("east", (bind(1), bind(2)))])
    async with running(service(core, ScriptedLink("east", execute=missing))):
        await core.until(lambda: bool(core.of(Unsent)))
    assert core.of(Unsent) == [Unsent("east", ("1", "2"))]
    assert not core.of(Unanswered)


async def test_a_slow_cluster_does_not_hold_back_the_intents_of_another() -> None:
    core, quick, slow = FakeCore(), FakeAgent("east"), FakeAgent("west")
    slow.gate.clear()
    core.effects.append([SendIntents("west", (bind(1),)), SendIntents("east", (bind(2),))])
    async with running(service(core, LocalLink("east", quick), LocalLink("west", slow))):
        await core.until(lambda: bool(core.of(Answered)))
        assert not core.of(Unanswered)


async def test_only_the_latest_peers_are_told() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    lists = [(Peer("west", ready),) for ready in (False, False, True)]
    core.effects.append([SendPeers("east", peers) for peers in lists])
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: bool(agent.peers))
    assert agent.peers[-1].peers == lists[-1]
    assert len(agent.peers) == 1


async def test_the_word_of_an_agent_is_counted_before_it_is_echoed() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    async with running(service(core, LocalLink("east", agent))):
        core.effects.append([SendPeers("east", ())])
        await core.until(lambda: PeersAcknowledged("east") in core.events)
        core.effects.append([SendPeers("east", ())])
        await core.until(lambda: len(agent.peers) == 2)
    assert [(peers.echo, peers.lease_s) for peers in agent.peers] == [("", 120.0), ("word 1", 120.0)]


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


class Counted(FakeAgent):
    """Takes its time with all that it has, and counts how many agents are asked for it at once."""

    asked_now = most = 0

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        if not incarnation:
            Counted.asked_now += 1
            Counted.most = max(Counted.most, Counted.asked_now)
            await asyncio.sleep(0.01)
            Counted.asked_now -= 1
        return await super().changes(incarnation, since, wait_s)


async def test_only_a_few_agents_are_asked_for_everything_at_once() -> None:
    core, names = FakeCore(), [f"c{at}" for at in range(20)]
    async with running(service(core, *(LocalLink(name, Counted(name)) for name in names))):
        await core.until(lambda: {one.changes.cluster for one in core.of(ClusterChanged)} == set(names))
    assert 1 < Counted.most <= FAST.full_reports


async def test_agents_that_hang_do_not_keep_others_from_being_asked() -> None:
    core, hung = FakeCore(), [FakeAgent(f"a{at}") for at in range(6)]
    for agent in hung:
        agent.gate.clear()
    links = [LocalLink(one.cluster, one) for one in [*hung, FakeAgent("z")]]
    async with running(service(core, *links, timing=FAST.__class__(silent_s=4.0, tick_s=0.005))):
        started = time.monotonic()
        await core.until(lambda: any(one.changes.cluster == "z" for one in core.of(ClusterChanged)))
    assert time.monotonic() - started < 3.9


class Broken(FakeAgent):
    async def hello(self) -> Hello:
        raise ZeroDivisionError("broken agent")


@pytest.mark.parametrize(
    ("agent", "cluster", "want"),
    [
        pytest.param(Broken("east"), "east", AgentFault, id="an error of the agent is a fault"),
        pytest.param(FakeAgent("west"), "east", AgentMismatch, id="another cluster's agent is a mismatch"),
    ],
)
async def test_a_local_link_types_its_errors(agent: FakeAgent, cluster: str, want: type[LinkError]) -> None:
    with pytest.raises(want, match="agent"):
        await LocalLink(cluster, agent).hello(timeout_s=1)


async def test_a_link_call_ends_at_its_limit() -> None:
    agent = FakeAgent("east")
    agent.gate.clear()
    with pytest.raises(AgentTimeout, match=r"did not answer changes within 0\.01 s"):
        await LocalLink("east", agent).changes("", 0, 5.0, timeout_s=0.01)


async def test_a_restarting_agent_is_followed_from_its_new_life() -> None:
    agent = FakeAgent("east", "one")
    lives = iter([AgentDied("agent of cluster east is restarting")])

    class Restarting(LocalLink):
        async def changes(self, incarnation: str, since: int, wait_s: float, *, timeout_s: float) -> Changes:
            if since and (death := next(lives, None)):
                agent.incarnation, agent.revision = "two", 7
                raise death
            return await super().changes(incarnation, since, wait_s, timeout_s=timeout_s)

    core = FakeCore(clusters={"east": ClusterView("east")})
    async with running(service(core, Restarting("east", agent))):
        await core.until(lambda: any(e.changes.incarnation == "two" for e in core.of(ClusterChanged)))
    assert [type(event) for event in core.events[:3]] == [ClusterChanged, ClusterSilent, ClusterChanged]
    assert core.events[2].changes.full  # type: ignore[union-attr]
