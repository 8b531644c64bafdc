"""Terms: a dispatcher says nothing outside of one, and each term's epoch is above all that agents ever obeyed."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from agents.kube.marks import claim_of
from dispatcher.api.http_api import make_app
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import (
    ClusterSection,
    JournalSection,
    LeaderElectionSection,
    QuotaSection,
    TimingSection,
)
from dispatcher.plugins.registry import REGISTRY, PluginSpec
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.events import Answered, SendIntents, SendPeers
from dispatcher.scheduling.framework import PluginUse
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.service.assembly import assemble
from dispatcher.service.clock import Clock
from dispatcher.service.collectors import ReloadCollector
from dispatcher.service.files.reload import Reloader
from dispatcher.service.leading import leadership as subject
from dispatcher.service.leading.leader_client import access_of
from dispatcher.service.leading.leadership import Leadership, NoElection
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.links.intent_sender import IntentSender
from dispatcher.service.links.link import AgentLink, LocalLink
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.service import Service
from dispatcher.service.term import MOST_EPOCHS, NOBODY, Deposed, Term
from shared.messages import BOUND, Hello, IntentBatch, Outcome, OutcomeBatch, Peer
from shared.model import names
from shared.model.pod import SourceRef
from shared.model.tenant import Share, Tenant
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import keys_of
from tests.scheduling.tiny_plugins import Ready
from tests.service.fakes import FAST, FakeAgent, FakeCore, ScriptedLink, bind


class Office:
    """A candidate whose lease a test gives and takes."""

    def __init__(self, identity: str = "me") -> None:
        self.identity, self.leader, self.transitions, self.problem = identity, "", 0, ""
        self.vacant, self.taken, self.why = asyncio.Event(), asyncio.Event(), ""
        self.released = 0

    def valid(self) -> bool:
        return self.leader == self.identity

    async def acquire(self) -> None:
        await self.vacant.wait()
        self.leader, self.transitions = self.identity, self.transitions + 1

    async def raise_to(self, transitions: int) -> bool:
        self.transitions = max(self.transitions, transitions)
        return self.valid()

    async def hold(self) -> str:
        await self.taken.wait()
        return self.why

    async def release(self) -> None:
        self.released += 1

    def give(self) -> None:
        self.taken.clear()
        self.vacant.set()

    def take(self, by: str) -> None:
        self.vacant.clear()
        self.leader, self.why = by, f"{by} has taken the lease"
        self.taken.set()


class Obedient(FakeAgent):
    """An agent that remembers whom it obeyed, as executors do."""

    def __init__(self, cluster: str, obeys: int = 0) -> None:
        super().__init__(cluster)
        self.obeys, self.leader = obeys, "somebody"

    async def hello(self) -> Hello:
        return Hello(self.cluster, f"{self.cluster}-uid", self.incarnation, obeys=self.obeys)

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        answer = await super().execute(batch)
        if batch.dispatcher_epoch > self.obeys:
            self.obeys, self.leader = batch.dispatcher_epoch, batch.dispatcher
        return OutcomeBatch(self.cluster, answer.outcomes, obeys=self.obeys, leader=self.leader)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "GREET_S", 0.01)


def leadership(office: Office, *links: AgentLink) -> Leadership:
    return Leadership(office, links)  # type: ignore[arg-type]  # it keeps to what an Elector does


@asynccontextmanager
async def playing(stage: TermRunner) -> AsyncIterator[None]:
    task = asyncio.create_task(stage.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - many things at once are waited for
            await asyncio.sleep(0.005)


def epochs() -> Iterator[int]:
    yield from (1, 2, 3, 1000, MOST_EPOCHS)


def test_attempts_grow_from_term_to_term_and_can_be_written_on_pods() -> None:
    firsts = [Term("a", epoch).first_attempt for epoch in epochs()]
    assert firsts == sorted(firsts)
    assert all(later - earlier >= 2**32 for earlier, later in pairwise(firsts))
    last = firsts[-1] + 2**32 - 1
    signed = SignedClaim(SourceRef("a", "ua", "ns", "web", "u", last), "b", "", "n", b"")
    claim = claim_of({names.CLAIM: keys_of("a").sign_claim(signed)}, "u")
    assert claim is not None
    assert (claim.epoch, last < 2**63, len(str(last)) <= 18) == (last, True, True)


def test_attempts_are_above_those_that_earlier_releases_took_from_the_clock() -> None:
    assert Term("a", 1).first_attempt > 2_200_000_000 * 1_000_000  # microseconds, in the year 2039


# --- when it may speak -----------------------------------------------------------------------------------------------


async def running(core: FakeCore, link: AgentLink, term: Term) -> Service:

    return Service(core, [link], clock=Clock(), metrics=Metrics(), timing=FAST, term=term)


async def test_nothing_is_sent_once_the_lease_is_not_valid_any_more() -> None:
    valid = [True]
    core, agent = FakeCore(), FakeAgent("east")
    service = await running(core, LocalLink("east", agent), Term("me", 3, lambda: valid[0]))
    task = asyncio.create_task(service.run())
    core.effects.append([SendIntents("east", (bind(1),)), SendPeers("east", (Peer("west", ready=True),))])
    await core.until(lambda: bool(core.of(Answered)))
    await until(lambda: bool(agent.peers))
    valid[0] = False
    core.effects.append([SendIntents("east", (bind(2),)), SendPeers("east", (Peer("west", ready=False),))])
    ticks = core.ticks
    await core.until(lambda: core.ticks > ticks + 5)
    assert [batch.dispatcher_epoch for batch in agent.batches] == [3]
    assert len(agent.peers) == 1
    service.stop()
    await task


@pytest.mark.parametrize(
    ("obeys", "leader", "ends"),
    [(4, "other", True), (3, "twin", True), (3, "me", False), (3, "", False), (2, "old", False), (0, "", False)],
)
async def test_an_answer_of_an_executor_that_obeys_another_ends_the_term_and_is_not_believed(
    obeys: int, leader: str, ends: bool
) -> None:
    outcome = Outcome("1", "uid-1", 1, BOUND)
    link = ScriptedLink(
        "east",
        hello=lambda: Hello("east", "uid", "one"),
        execute=lambda batch: OutcomeBatch("east", (outcome,), obeys=obeys, leader=leader),
    )
    core = FakeCore()
    core.effects.append([SendIntents("east", (bind(1),))])
    service = await running(core, link, Term("me", 3))
    task = asyncio.create_task(service.run())
    await until(lambda: task.done() if ends else bool(core.of(Answered)))
    service.stop()
    await task
    assert (service.deposed is not None, bool(core.of(Answered))) == (ends, not ends)
    if service.deposed is not None:
        assert (service.deposed.epoch, leader in service.deposed.why) == (obeys, True)
        assert service.deposed.first == (leader == "twin"), "what is newer than the greeting is not of before"


async def test_an_executor_that_has_obeyed_this_term_does_not_tell_of_what_was_before_it() -> None:
    leaders, heard = ["me", "twin"], list[Deposed]()
    link = ScriptedLink(
        "east", execute=lambda batch: OutcomeBatch("east", (), obeys=3, leader=leaders.pop(0) if leaders else "twin")
    )
    sender = IntentSender(link, lambda _: None, FAST, Term("me", 3), heard.append)
    sender.put((bind(1),))
    await until(lambda: len(leaders) == 1 and not sender.in_flight)
    sender.put((bind(2),))
    await until(lambda: bool(heard))
    assert [(one.epoch, one.first) for one in heard] == [(3, False)]


async def test_a_greeting_of_an_agent_that_obeys_a_newer_one_ends_the_term() -> None:
    service = await running(FakeCore(), LocalLink("east", Obedient("east", obeys=9)), Term("me", 3))
    async with asyncio.timeout(10):
        await service.run()
    assert service.deposed is not None
    assert service.deposed.epoch == 9


# --- terms -----------------------------------------------------------------------------------------------------------


async def test_the_epoch_is_above_all_that_agents_obeyed_also_where_the_lease_counts_less() -> None:
    office = Office()
    links = [LocalLink("east", Obedient("east", obeys=7)), LocalLink("west", Obedient("west", obeys=5))]
    office.give()
    assert (await leadership(office, *links).lead()).epoch == 8


async def test_no_two_terms_of_one_process_have_one_epoch() -> None:
    office = Office()
    office.give()
    it = leadership(office)
    first = await it.lead()
    office.transitions = 0  # the Lease was deleted meanwhile
    assert (await it.lead()).epoch > first.epoch


async def test_an_agent_that_does_not_answer_holds_up_nobody() -> None:
    office = Office()
    office.give()
    term = await leadership(office, ScriptedLink("east"), LocalLink("west", Obedient("west", obeys=5))).lead()
    assert term.epoch == 6


async def test_an_agent_that_was_silent_while_it_stood_by_holds_up_no_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "GREET_S", 60.0)
    office, silent = Office(), ScriptedLink("east")
    leading = asyncio.create_task(leadership(office, silent, LocalLink("west", Obedient("west", obeys=5))).lead())
    await until(lambda: silent.called["hello"] == 1)
    await asyncio.sleep(0.05)
    office.give()
    assert (await leading).epoch == 6
    assert silent.called["hello"] == 1


async def test_an_absurd_word_of_one_agent_is_not_believed() -> None:
    office = Office()
    office.give()
    liar = LocalLink("east", Obedient("east", obeys=2**31 - 1))
    assert (await leadership(office, liar).lead()).epoch == 1


async def test_without_an_election_the_epoch_grows_with_what_agents_obeyed() -> None:
    it = Leadership(NoElection("me"), [LocalLink("east", Obedient("east", obeys=7))])
    assert (await it.lead()).epoch == 8
    assert it.leader_status.leads


@pytest.mark.parametrize(
    ("election", "words", "levels"),
    [
        (False, [Deposed(7, "", "east", first=True)], ["info"]),
        (False, [Deposed(7, "", "east", first=True), Deposed(5, "", "west", first=True)], ["info", "info"]),
        (False, [Deposed(7, "", "east", first=True), Deposed(9, "", "east", first=True)], ["info", "error"]),
        (False, [Deposed(7, "", "east")], ["error"]),
        (True, [Deposed(7, "", "east", first=True)], ["error"]),
    ],
    ids=["at its start", "of each cluster", "it goes on", "after it was heard", "with an election"],
)
async def test_only_without_an_election_an_agents_first_word_may_be_of_our_own_earlier_life(
    monkeypatch: pytest.MonkeyPatch, *, election: bool, words: list[Deposed], levels: list[str]
) -> None:
    monkeypatch.setattr(subject, "GREET_S", 0.0)
    it = leadership(Office()) if election else Leadership(NoElection("me"), [])
    with capture_logs() as lines:
        for word in words:
            await it.deposed(word)
    assert [line["log_level"] for line in lines] == levels


async def test_only_the_first_greeting_of_a_term_may_tell_of_what_was_before_it() -> None:
    obeys, heard = [9, 10], list[Deposed]()
    link = ScriptedLink("east", hello=lambda: Hello("east", "uid", "one", obeys=obeys.pop(0) if obeys else 0))
    core = Service(FakeCore(), [link], clock=Clock(), metrics=Metrics(), timing=FAST)
    poller = core.pollers["east"]
    poller._depose = heard.append
    for _ in range(2):
        await poller._greet()
    assert [(one.epoch, one.first) for one in heard] == [(9, True), (10, False)]


COLD = DispatcherConfig(leader_election=LeaderElectionSection(warm=False))


@pytest.mark.parametrize(("config", "asked"), [(COLD, {"hello"}), (DispatcherConfig(), {"hello", "changes"})])
async def test_a_standby_keeps_agents_up_and_sends_them_nothing(config: DispatcherConfig, asked: set[str]) -> None:
    office, link = Office(), ScriptedLink("east", hello=lambda: Hello("east", "uid", "one"))
    office.leader = "other"
    stage = TermRunner([link], config, leadership(office, link))
    async with playing(stage):
        await until(lambda: link.called["hello"] > 3)
        assert set(link.called) == asked
        assert (stage.service.term, stage.leader_status.words) == (NOBODY, "standby: dispatcher other leads")


async def test_a_lost_lease_ends_the_term_and_the_next_one_begins_empty_with_a_higher_epoch() -> None:
    office, agent = Office(), Obedient("east")
    link = LocalLink("east", agent)
    stage = TermRunner([link], COLD, leadership(office, link))
    async with playing(stage):
        office.give()
        await until(lambda: stage.service.ready)
        first = stage.service
        office.take("other")
        await until(lambda: not stage.leader_status.leads and not stage.leader_status.epoch)
        asked = len(agent.asked)
        await asyncio.sleep(0.05)
        assert len(agent.asked) == asked  # it does not even poll
        office.give()
        await until(lambda: stage.service is not first and stage.service.ready)
        assert stage.service.term.epoch > first.term.epoch
        assert stage.service.core is not first.core
    assert office.released == 1


async def test_a_later_term_takes_the_profiles_and_tenants_of_a_changed_configuration() -> None:
    office, link = Office(), LocalLink("east", Obedient("east"))
    stage = TermRunner([link], COLD, leadership(office, link))
    profile = dataclasses.replace(
        DEFAULT_PROFILE, scheduler_name="global-dispatcher-mine", plugins=(*DEFAULT_PROFILE.plugins, PluginUse("Ready"))
    )
    plugins = {**REGISTRY, "Ready": PluginSpec(Ready)}  # of a file that the start did not name
    tenants = (Tenant("team", ("team-*",), {"pods": Share(absolute=1)}),)
    async with playing(stage):
        office.give()
        await until(lambda: stage.service.ready)
        first = stage.service
        stage.take_policies(dataclasses.replace(COLD, profiles=(profile,), registry=plugins, tenants=tenants))
        office.take("other")
        await until(lambda: not stage.leader_status.leads and not stage.leader_status.epoch)
        office.give()
        await until(lambda: stage.service is not first and stage.service.ready)
        assert [one.plan.profile for one in cast(Profiles, stage.service.core.profiles)] == ["global-dispatcher-mine"]
        assert [one["tenant"] for one in stage.views.tenants()] == ["team"]


async def test_what_is_watched_is_told_in_each_term() -> None:
    office, link = Office(), LocalLink("east", Obedient("east"))
    stage = TermRunner([link], COLD, leadership(office, link))
    stage.watch(ReloadCollector(Reloader(COLD, REGISTRY, stage.take_policies)))
    async with playing(stage):
        first = stage.service
        office.give()
        await until(lambda: stage.service is not first and stage.service.ready)
        for service in (first, stage.service):
            assert "global_dispatcher_policies_refused 0.0" in service.metrics.render().decode()


async def test_a_dispatcher_that_an_agent_deposed_comes_back_above_it() -> None:
    office, agent = Office(), Obedient("east")
    link = LocalLink("east", agent)
    stage = TermRunner([link], DispatcherConfig(), leadership(office, link))
    async with playing(stage):
        office.give()
        await until(lambda: stage.service.ready)
        agent.obeys, agent.leader = 40, "other"
        agent.incarnation = "two"
        stage.service.senders["east"].put((bind(1),))
        await until(lambda: stage.service.term.epoch == 41)


async def test_who_leads_is_told_over_http() -> None:
    office, link = Office(), LocalLink("east", Obedient("east"))
    office.leader = "other"
    stage = TermRunner([link], COLD, leadership(office, link))
    async with playing(stage), TestClient(TestServer(make_app(stage))) as client:
        ready = await client.get("/readyz")
        assert (ready.status, await ready.text()) == (503, "standby: dispatcher other leads")
        pods = await client.get("/v1/pods")
        assert (pods.status, await pods.json()) == (503, {"error": "standby: dispatcher other leads"})
        assert (
            'leader_election_master_status{name="global-dispatcher"} 0.0' in await (await client.get("/metrics")).text()
        )
        office.give()
        await until(lambda: stage.service.ready)
        assert (await client.get("/readyz")).status == 200
        row = await (await client.get("/v1/leader")).json()
        assert row == {"identity": "me", "leads": True, "leader": "me", "epoch": 1, "problem": ""}
        assert (
            'leader_election_master_status{name="global-dispatcher"} 1.0' in await (await client.get("/metrics")).text()
        )


async def test_a_lease_out_of_reach_is_told() -> None:
    office = Office()
    office.problem = "lease kube-node-lease/global-dispatcher: no route"
    assert leadership(office).leader_status.words == f"standby: waiting to lead: {office.problem}"


def test_the_lease_is_in_the_first_cluster_unless_it_is_said_where() -> None:
    clusters = (ClusterSection(name="east", kubeconfig="/k", context="one"), ClusterSection(name="west"))
    where = {
        (): ("/k", "one"),
        (("context", "two"),): ("/k", "two"),
        (("kubeconfig", "/l"),): ("/l", ""),
        (("kubeconfig", "in-cluster"),): ("", ""),
    }
    for given, wanted in where.items():
        access = access_of(LeaderElectionSection.model_validate(dict(given)), clusters)
        assert (access.kubeconfig, access.context) == wanted


def test_a_core_begins_with_the_attempts_of_its_term() -> None:
    term = Term("me", 5)
    service = assemble([ScriptedLink("east")], DispatcherConfig(), term=term).service
    core = service.core
    assert core.outbox.next_epoch() == term.first_attempt + 1  # type: ignore[attr-defined]  # the real core has one


# --- warm standbys ---------------------------------------------------------------------------------------------------


async def test_a_standby_that_has_followed_asks_only_for_what_has_changed_since() -> None:
    office, agents = Office(), [Obedient("east"), Obedient("west")]
    office.leader = "other"
    links = [LocalLink(one.cluster, one) for one in agents]
    stage = TermRunner(links, DispatcherConfig(), leadership(office, *links))
    async with playing(stage):
        await until(lambda: stage.service.could_lead)
        followed = stage.service.core
        for one in agents:
            assert (one.batches, one.peers) == ([], [])
            one.asked.clear()
        office.give()
        await until(lambda: stage.service.ready)
        assert stage.service.core is followed
        assert {asked for one in agents for asked in one.asked} == {("one", 1)}
        await until(lambda: all(one.peers for one in agents))
        assert {peers.dispatcher_epoch for one in agents for peers in one.peers} == {stage.service.term.epoch}


async def test_a_cluster_that_a_standby_knows_to_be_silent_holds_up_no_takeover() -> None:
    office, east, west = Office(), Obedient("east"), ScriptedLink("west")
    office.leader = "other"
    timing = TimingSection(first_sync_s=1.0, cluster_silent_s=0.5, poll_wait_s=0.1)
    links: list[AgentLink] = [LocalLink("east", east), west]
    stage = TermRunner(links, DispatcherConfig(timing=timing), leadership(office, *links))
    async with playing(stage):
        await until(lambda: stage.service.could_lead)
        east.asked.clear()
        office.give()
        await until(lambda: stage.service.ready)
        assert set(east.asked) == {("one", 1)}
        assert not stage.service.core.clusters["west"].ready


def test_a_leader_tells_which_of_its_files_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    config = DispatcherConfig(
        journal=JournalSection(path=str(tmp_path / "no folder" / "journal")),
        quota=QuotaSection(ledger=str(tmp_path / "quota")),
        tenants=(Tenant("team", ("team",), {"cpu": Share(absolute=600)}),),
    )
    told = {term: assemble([], config, term).service.metrics.render().decode() for term in (Term(), NOBODY)}
    assert 'global_dispatcher_file_not_written{file="journal"} 1.0' in told[Term()]
    assert 'global_dispatcher_file_not_written{file="quota_ledger"} 0.0' in told[Term()]
    assert "global_dispatcher_file_not_written{" not in told[NOBODY]


async def test_a_standby_keeps_no_journal_and_no_file_of_quota(tmp_path: Path) -> None:
    office, link = Office(), LocalLink("east", Obedient("east"))
    office.leader = "other"
    config = DispatcherConfig(
        journal=JournalSection(path=str(tmp_path / "journal")),
        quota=QuotaSection(ledger=str(tmp_path / "quota")),
        tenants=(Tenant("team", ("team",), {"cpu": Share(absolute=600)}),),
    )
    stage = TermRunner([link], config, leadership(office, link))
    async with playing(stage):
        await until(lambda: stage.service.could_lead)
        assert os.listdir(tmp_path) == []
        office.give()
        await until((tmp_path / "quota").exists)
