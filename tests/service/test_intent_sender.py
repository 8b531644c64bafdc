"""Intents and peers on their way to agents: what travels together, and what the core hears of each."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
import structlog

from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.events import (
    Answered,
    ClusterChanged,
    Event,
    PeersAcknowledged,
    PeersRefused,
    SendIntents,
    SendPeers,
    Unanswered,
    Unsent,
)
from dispatcher.scheduling.views import whole
from dispatcher.service.assembly import assemble
from dispatcher.service.links.intent_sender import IntentSender
from dispatcher.service.links.link import AgentDied, AgentFault, AgentMissing, AgentTimeout, LinkError, LocalLink
from dispatcher.service.term import Term
from shared.messages import (
    CLAIMED,
    DONE,
    UNKNOWN,
    AnyIntent,
    Changes,
    Claim,
    ConfirmNoDelegate,
    CreateDelegate,
    Evict,
    IntentBatch,
    LinkReading,
    Outcome,
    OutcomeBatch,
    Peer,
    PeersAck,
    PodReach,
    PodRef,
    encode_part,
)
from shared.model.bounds import MAX_CALL
from shared.model.pod import SourceRef
from tests.service.fakes import FAST, FakeAgent, FakeCore, ScriptedLink, bind, running, service


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
        self.batches: list[IntentBatch] = []

    async def execute(self, batch: IntentBatch, *, timeout_s: float) -> OutcomeBatch:
        self.batches.append(batch)
        self.calls.append(asyncio.get_running_loop().create_future())
        return await self.calls[-1]


def end(number: int, uid: str = "") -> ConfirmNoDelegate:
    """A question whether a remote pod has ended."""
    pod = PodRef("default", f"pod-{number}", uid or f"uid-{number}")
    return ConfirmNoDelegate(
        str(number), pod, number, SourceRef("west", "w", "default", pod.name, pod.uid, number), ended=True
    )


async def sent(*intents: AnyIntent, answered: int = 0, **timing: int) -> list[list[str]]:
    """What leaves in which call while the first calls are answered, and the others are not."""
    link = HeldLink()
    sender = IntentSender(link, lambda _: None, replace(FAST, **timing), Term("me", 3), lambda _: None)
    sender.put(intents)
    for number in range(answered):
        await asyncio.sleep(0.01)
        link.calls[number].set_result(OutcomeBatch("east", ()))
    await asyncio.sleep(0.01)
    await sender.close()
    return [[intent.id for intent in batch.intents] for batch in link.batches]


async def test_questions_about_ends_take_no_call_from_orders_and_go_behind_those_of_their_round() -> None:
    assert await sent(end(1), end(2), bind(3), in_flight=1) == [["3"], ["1", "2"]]
    assert await sent(end(1), bind(2), bind(3), in_flight=2, batch=1) == [["2"], ["3"], ["1"]]


async def test_a_question_that_hangs_does_not_hold_up_orders_that_come_later() -> None:
    link = HeldLink()
    sender = IntentSender(link, lambda _: None, replace(FAST, in_flight=1), Term("me", 3), lambda _: None)
    sender.put((end(1),))
    await asyncio.sleep(0.01)
    sender.put((end(2), bind(3)))
    await asyncio.sleep(0.01)
    assert [[intent.id for intent in batch.intents] for batch in link.batches] == [["1"], ["3"]]
    assert (sender.depth, sender.in_flight) == (1, 2)
    await sender.close()


async def test_questions_leave_a_few_at_a_time_and_one_call_after_the_other() -> None:
    questions = [end(number) for number in range(100)]
    first, then = await sent(*questions, answered=1)
    assert (len(first), len(then)) == (64, 36)
    assert [len(call) for call in await sent(*questions)] == [64]


async def test_a_question_waits_while_an_order_about_the_same_pod_is_in_flight() -> None:
    assert await sent(bind(1, "uid"), end(2, "uid")) == [["1"]]
    assert await sent(bind(1, "uid"), end(2, "uid"), answered=1) == [["1"], ["2"]]


def create(number: int, size: int) -> CreateDelegate:
    """An order with a manifest of so many bytes."""
    pod = PodRef("default", f"pod-{number}", f"uid-{number}")
    source = SourceRef("west", "w", "default", pod.name, pod.uid, number)
    return CreateDelegate(str(number), pod, number, source, "n1", b"x" * size)


def claim(number: int) -> Claim:
    return Claim(str(number), PodRef("default", f"pod-{number}", f"uid-{number}"), number, "west", "n1")


async def test_large_orders_stand_in_a_line_of_their_own_and_in_calls_by_bytes() -> None:
    large: list[AnyIntent] = [create(number, MAX_CALL // 3) for number in range(1, 5)]
    assert await sent(*large, bind(9)) == [["9"], ["1", "2"]]
    assert await sent(*large, bind(9), answered=2) == [["9"], ["1", "2"], ["3", "4"]]
    assert await sent(create(1, 2 * MAX_CALL), create(2, 2 * MAX_CALL)) == [["1"]]


async def test_what_pods_are_evicted_for_counts_in_bytes_too() -> None:
    room = b"x" * (MAX_CALL // 3)
    victims = [PodRef("default", f"pod-{number}", f"uid-{number}") for number in range(1, 5)]
    large = [Evict(pod.uid, pod, 1, "n1", 5, manifest=room) for pod in victims]
    assert await sent(*large, bind(9)) == [["9"], ["uid-1", "uid-2"]]


async def test_a_later_order_about_a_pod_does_not_overtake_its_large_one() -> None:
    orders: list[AnyIntent] = [create(1, MAX_CALL), create(2, MAX_CALL), bind(3, "uid-2")]
    assert await sent(*orders) == [["1"]]
    assert await sent(*orders, answered=2) == [["1"], ["2"], ["3"]]


class Talk:
    """A sender and the batches that it sends; each is answered by the next of `answers`."""

    def __init__(self, *answers: Callable[[IntentBatch], OutcomeBatch | LinkError], execute_s: float = 30.0) -> None:
        self.batches: list[IntentBatch] = []
        self.heard: list[Event] = []
        self._answers = iter(answers)
        link, timing = ScriptedLink("east", execute=self._execute), replace(FAST, execute_s=execute_s)
        self.sender = IntentSender(link, self.heard.append, timing, Term("me", 3), lambda _: None)

    def _execute(self, batch: IntentBatch) -> OutcomeBatch | LinkError:
        self.batches.append(batch)
        return next(self._answers)(batch)

    async def say(self, *intents: AnyIntent) -> None:
        self.sender.put(intents)
        while self.sender.depth or self.sender.in_flight:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)

    @property
    def outcomes(self) -> list[Outcome]:
        return [one for event in self.heard if isinstance(event, Answered) for one in event.outcomes]


def late(batch: IntentBatch) -> LinkError:
    return AgentTimeout("agent of cluster east did not answer execute within 30 s")


def taken(batch: IntentBatch) -> OutcomeBatch:
    return OutcomeBatch("east", tuple(Outcome(one.id, one.pod.uid, one.epoch, DONE) for one in batch.intents))


def cut_off(batch: IntentBatch) -> LinkError:
    return AgentDied("agent of cluster east: the connection ended before it answered")


@pytest.mark.parametrize("failure", [late, cut_off], ids=["no answer in time", "the connection ended before"])
async def test_a_call_without_an_answer_halves_the_next_ones_and_an_answer_doubles_them(
    failure: Callable[[IntentBatch], LinkError],
) -> None:
    talk = Talk(failure, failure, taken, taken, taken)
    for at in range(5):
        await talk.say(bind(at))
    assert [one.answer_bytes for one in talk.batches] == [MAX_CALL // part for part in (1, 2, 4, 2, 1)]


async def test_what_is_answered_just_in_time_is_not_doubled_only_to_be_late() -> None:
    def just_in_time(batch: IntentBatch) -> OutcomeBatch:
        time.sleep(0.03)
        return taken(batch)

    talk = Talk(late, just_in_time, just_in_time, execute_s=0.05)
    for at in range(3):
        await talk.say(bind(at))
    assert [one.answer_bytes for one in talk.batches] == [MAX_CALL // part for part in (1, 2, 2)]


async def test_fewer_orders_go_in_a_call_where_calls_come_back_late_but_one_at_least() -> None:
    talk = Talk(*[late] * 40, *[taken] * FAST.batch)
    for at in range(40):
        await talk.say(bind(at))
    await talk.say(*(bind(at) for at in range(FAST.batch)))
    assert 1 <= len(talk.batches[40].intents) <= 2
    assert talk.batches[40].answer_bytes > 0


async def test_a_claim_that_an_answer_has_no_room_for_is_asked_for_again_beside_the_others() -> None:
    def full(batch: IntentBatch) -> OutcomeBatch:
        return OutcomeBatch(
            "east",
            tuple(Outcome(one.id, one.pod.uid, one.epoch, UNKNOWN, left_out=2**18) for one in batch.intents),
        )

    talk = Talk(full, taken, taken, taken)
    await talk.say(*(claim(number) for number in range(15)))
    assert [len(one.intents) for one in talk.batches] == [15, 7, 7, 1]
    assert [one.verdict for one in talk.outcomes] == [DONE] * 15


async def test_an_executor_that_never_has_room_is_not_asked_without_a_pause() -> None:
    def full(batch: IntentBatch) -> OutcomeBatch:
        return OutcomeBatch(
            "east", tuple(Outcome(one.id, one.pod.uid, one.epoch, UNKNOWN, left_out=1) for one in batch.intents)
        )

    talk = Talk(full, full)
    await talk.say(claim(1))
    assert [one.verdict for one in talk.outcomes] == [UNKNOWN]


async def test_a_manifest_that_stands_in_another_outcome_is_given_to_each() -> None:
    def once(batch: IntentBatch) -> OutcomeBatch:
        first = Outcome("1", "uid-1", 1, CLAIMED, manifest=b"{}", record="r1")
        return OutcomeBatch("east", (first, Outcome("2", "uid-2", 2, CLAIMED, record="r2", manifest_of="1")))

    talk = Talk(once)
    await talk.say(claim(1), claim(2))
    assert [(one.manifest, one.record) for one in talk.outcomes] == [(b"{}", "r1"), (b"{}", "r2")]


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


async def test_an_agent_that_refuses_orders_is_told_of_until_it_takes_something() -> None:
    refused = AgentFault("agent of cluster east failed: Refused('refused (expired): compare the clocks')")
    link = ScriptedLink("east", execute=lambda batch: refused, set_peers=lambda peers: PeersAck("east"))
    core = FakeCore()
    core.effects.append([SendIntents("east", (bind(1),))])
    subject = service(core, link)
    async with running(subject):
        await core.until(lambda: bool(core.of(Unanswered)))
        told = subject.senders["east"].refusal
        core.effects.append([SendPeers("east", ())])
        await core.until(lambda: bool(core.of(PeersAcknowledged)))
    assert told == f"takes no orders: {refused}"
    assert subject.senders["east"].refusal == ""


async def test_the_problem_of_a_cluster_that_refuses_orders_is_shown_where_its_reports_tell_of_none() -> None:
    made = assemble([LocalLink(name, FakeAgent(name)) for name in ("east", "west")], DispatcherConfig())
    made.service.senders["east"].refusal = "takes no orders: refused (expired)"
    made.service.senders["west"].refusal = "takes no orders: refused (expired)"
    made.service.core.handle(ClusterChanged(Changes("west", "west-uid", "one", 0, 1, full=True)), 0.0)
    told = {row["name"]: row["problem"] for row in whole(made.views.clusters())}
    assert told == {"east": "has not reported yet", "west": "takes no orders: refused (expired)"}


async def test_an_agent_that_refuses_to_hear_of_the_others_is_told_of_and_one_that_is_away_is_not() -> None:
    core = FakeCore()
    core.effects.append([SendPeers(name, ()) for name in ("east", "west")])
    refuses = ScriptedLink("east", set_peers=lambda peers: AgentFault("refused (unsigned)"))
    subject = service(core, refuses, away := ScriptedLink("west"))
    async with running(subject):
        await core.until(lambda: min(one.called["set_peers"] for one in (refuses, away)) > 0)
        await core.until(lambda: bool(core.of(PeersRefused)))
    assert {one.cluster for one in core.of(PeersRefused)} == {"east"}
    assert subject.senders["east"].refusal == "takes no orders: refused (unsigned)"
    assert subject.senders["west"].refusal == ""


async def test_an_executor_that_says_why_it_carries_out_no_orders_is_told_of_peers_and_given_none() -> None:
    core, waits = FakeCore(), "this executor waits: another holds the lease"
    core.effects.append([SendPeers("east", ())])
    subject = service(core, ScriptedLink("east", set_peers=lambda peers: PeersAck("east", "word", problem=waits)))
    async with running(subject):
        await core.until(lambda: bool(core.of(PeersAcknowledged)))
    assert core.of(PeersAcknowledged) == [PeersAcknowledged("east", refuses=True)]
    assert subject.senders["east"].refusal == f"takes no orders: {waits}"


async def test_what_an_agent_says_of_itself_and_of_ways_to_others_reaches_the_core() -> None:
    core, ways = FakeCore(), (LinkReading("west", 40.0),)
    reaches = (PodReach("west", "reached", "10.2.0.1:7491"),)
    told = {"probe": "192.0.2.7:7490", "links": ways, "pod_address": "10.1.0.1:7491", "reaches": reaches}
    core.effects.append([SendPeers("east", ())])
    ack = msgspec.structs.replace(PeersAck("east", "word"), follows=("ConfigMap",), **told)
    async with running(service(core, ScriptedLink("east", set_peers=lambda peers: ack))):
        await core.until(lambda: bool(core.of(PeersAcknowledged)))
    assert core.of(PeersAcknowledged) == [PeersAcknowledged("east", follows=("ConfigMap",), **told)]  # type: ignore[arg-type]


TOO_LARGE = 2**64  # for a message


async def test_orders_that_cannot_be_put_into_a_message_are_unanswered_and_later_ones_are_sent() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    odd = msgspec.structs.replace(bind(1), epoch=TOO_LARGE)
    core.effects += [[SendIntents("east", (odd,))], [SendIntents("east", (bind(2),))]]
    async with running(service(core, LocalLink("east", agent), timing=replace(FAST, in_flight=1, batch=1))):
        await core.until(lambda: bool(core.of(Answered)))
    assert [event.intent_ids for event in core.of(Unanswered)] == [("1",)]


async def test_peers_that_cannot_be_put_into_a_message_are_logged_and_keep_no_later_ones_back() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    core.effects += [[SendPeers("east", (Peer("west", True, {"cpu": amount}),))] for amount in (TOO_LARGE, 1)]
    with structlog.testing.capture_logs() as lines:
        async with running(service(core, LocalLink("east", agent))):
            await core.until(lambda: bool(core.of(PeersAcknowledged)))
    assert "peers could not be told" in [line["event"] for line in lines]
    assert [peer.allocatable for told in agent.peers for peer in told.peers] == [{"cpu": 1}]


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


async def test_peers_that_were_encoded_before_arrive_as_they_were() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    peers = Peer("north", True, {"cpu": 4000}, {"zone": "z"}, "uid", ("key",)), Peer("west", False, unrenewed_s=2.5)
    core.effects.append([SendPeers("east", peers, encoded=tuple(map(encode_part, peers)))])
    async with running(service(core, LocalLink("east", agent))):
        await core.until(lambda: bool(agent.peers))
    assert agent.peers[0].peers == peers


async def test_the_word_of_an_agent_is_counted_before_it_is_echoed() -> None:
    core, agent = FakeCore(), FakeAgent("east")
    async with running(service(core, LocalLink("east", agent))):
        core.effects.append([SendPeers("east", ())])
        await core.until(lambda: PeersAcknowledged("east") in core.events)
        core.effects.append([SendPeers("east", ())])
        await core.until(lambda: len(agent.peers) == 2)
    assert [(peers.echo, peers.lease_s) for peers in agent.peers] == [("", 120.0), ("word 1", 120.0)]
