"""An agent that lies about whom it obeys harms its own cluster, not the fleet."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.events import ClusterSilent, SendIntents, Unanswered
from dispatcher.service.assembly import assemble
from dispatcher.service.clock import Clock
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.links.link import AgentLink, LocalLink
from dispatcher.service.metrics.counters import Metrics
from dispatcher.service.obeyed_epochs import MOST_AHEAD, MOST_TOGETHER, QUARANTINE_S, ObeyedEpochs
from dispatcher.service.service import Service
from dispatcher.service.term import MOST_EPOCHS, Deposed, Term
from shared.messages import Hello, IntentBatch, OutcomeBatch
from tests.service.fakes import FAST, FakeAgent, FakeCore, bind
from tests.service.test_leadership import Obedient, Office, leadership, playing, until

FLEET = ("east", "west", "liar")


class Liar(FakeAgent):
    """An agent that says it obeys an epoch above the one that leads."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.leads: Callable[[], int] = lambda: 0
        self.greets = 0

    async def hello(self) -> Hello:
        self.greets += 1
        return Hello(self.cluster, f"{self.cluster}-uid", self.incarnation, obeys=self.leads() + 1)


class Executor(FakeAgent):
    """An agent whose greetings are honest, and whose answers to intents are not."""

    async def execute(self, batch: IntentBatch) -> OutcomeBatch:
        answer = await super().execute(batch)
        return OutcomeBatch(self.cluster, answer.outcomes, obeys=batch.dispatcher_epoch + 1, leader="other")


@asynccontextmanager
async def serving(subject: Service) -> AsyncIterator[None]:
    task = asyncio.create_task(subject.run())
    try:
        yield
    finally:
        subject.stop()
        await task


def deposed(cluster: str, epoch: int) -> Deposed:
    return Deposed(epoch, f"the agent of cluster {cluster} obeys epoch {epoch}", cluster)


# --- what is believed ------------------------------------------------------------------------------------------------


def test_one_cluster_alone_ends_one_term_and_is_quarantined_when_it_would_end_another() -> None:
    it = ObeyedEpochs(FLEET)
    assert it.believes(deposed("liar", 4), 3, lease_holds=True)
    it.begin()
    assert not it.believes(deposed("liar", 6), 5, lease_holds=True)
    assert "the agent of cluster liar obeys epoch 6" in it.distrust("liar")
    assert (it.distrust("east"), it.distrust("west")) == ("", "")


def test_a_cluster_that_behaves_for_a_term_may_still_not_end_another() -> None:
    it = ObeyedEpochs(FLEET)
    assert it.believes(deposed("liar", 4), 3, lease_holds=True)
    for _ in range(3):
        it.begin()
        it.note("liar", 4)
    assert not it.believes(deposed("liar", 9), 8, lease_holds=True)


def test_an_epoch_far_ahead_ends_no_term_at_all() -> None:
    it = ObeyedEpochs(FLEET)
    assert not it.believes(deposed("liar", 4 + MOST_AHEAD), 3, lease_holds=True)
    assert it.believes(deposed("east", 3 + MOST_AHEAD), 3, lease_holds=True)


def test_a_lost_lease_confirms_whoever_says_so_again_and_again() -> None:
    it = ObeyedEpochs(FLEET)
    assert all(it.believes(deposed("east", epoch + 1), epoch, lease_holds=False) for epoch in (3, 5, 7, 9))


def test_more_than_half_of_the_clusters_are_believed_and_none_stays_in_quarantine() -> None:
    it = ObeyedEpochs(FLEET)
    far = 10 * MOST_AHEAD  # the Lease was deleted and begins anew
    assert not it.believes(deposed("east", far), 1, lease_holds=True)
    assert it.believes(deposed("west", far), 1, lease_holds=True)
    assert it.distrust("east") == ""
    assert it.highest(1) == far


def test_words_against_different_terms_do_not_add_up() -> None:
    it = ObeyedEpochs(FLEET)
    assert it.believes(deposed("liar", 4), 3, lease_holds=True)
    assert it.believes(deposed("east", 6), 5, lease_holds=True)  # its own first one
    assert not it.believes(deposed("liar", 8), 7, lease_holds=True)


def test_epochs_cannot_be_used_up_by_less_than_most_clusters() -> None:
    it = ObeyedEpochs(FLEET)
    it.note("liar", MOST_EPOCHS - 1)
    it.note("east", 7)
    assert it.highest(5) == 7
    it.note("west", 7 + MOST_AHEAD)
    assert it.highest(5) == 7 + MOST_AHEAD  # two of three have reached 7


def test_most_clusters_together_do_not_use_up_the_epochs_in_a_term() -> None:
    it = ObeyedEpochs(FLEET)
    for cluster in FLEET:
        it.note(cluster, MOST_EPOCHS - 1)
    assert it.highest(5) == 5 + MOST_TOGETHER
    assert (
        it.highest(5 + MOST_TOGETHER) == 5 + 2 * MOST_TOGETHER
    )  # a fleet that is so far ahead is reached all the same


def test_no_majority_is_believed_beyond_the_last_epoch() -> None:
    it = ObeyedEpochs(("east",))
    it.note("east", MOST_EPOCHS)
    assert it.highest(5) == 5
    assert not it.believes(deposed("east", MOST_EPOCHS), 5, lease_holds=False)


def test_quarantine_ends_some_time_after_the_last_word_that_was_not_believed() -> None:
    now = [100.0]
    it = ObeyedEpochs(FLEET, clock=lambda: now[0])
    it.believes(deposed("liar", MOST_EPOCHS), 3, lease_holds=True)
    now[0] += QUARANTINE_S - 1
    it.believes(deposed("liar", MOST_EPOCHS), 3, lease_holds=True)
    now[0] += QUARANTINE_S - 1
    assert it.distrust("liar")
    now[0] += 2
    assert not it.distrust("liar")


async def test_a_word_that_is_believed_while_the_lease_is_lost_does_not_use_up_the_epochs() -> None:
    office = Office()
    stage = leadership(office, *(LocalLink(name, Obedient(name)) for name in FLEET))
    by = deposed("liar", MOST_EPOCHS - 1)
    assert stage.obeyed.believes(by, 3, lease_holds=False)
    await stage.deposed(by)
    office.transitions = 3
    office.vacant.set()
    term = await stage.lead()
    assert 3 < term.epoch <= 4 + MOST_AHEAD


async def test_a_term_that_most_clusters_end_raises_the_epoch_by_no_more_than_one_that_begins() -> None:
    office, last = Office(), MOST_EPOCHS - 1
    stage = leadership(office, *(LocalLink(name, Obedient(name, last)) for name in FLEET))
    office.vacant.set()
    first = await stage.lead()
    assert first.epoch <= 1 + MOST_TOGETHER
    await stage.deposed(deposed("east", last))
    second = await stage.lead()
    assert second.epoch <= first.epoch + 1 + MOST_TOGETHER


# --- in the service --------------------------------------------------------------------------------------------------


async def test_the_fleet_goes_on_while_an_agent_says_again_and_again_that_it_obeys_a_newer_one() -> None:
    office, liar = Office(), Liar("liar")
    links: list[AgentLink] = [LocalLink(agent.cluster, agent) for agent in (Obedient("east"), Obedient("west"), liar)]
    runner = TermRunner(links, DispatcherConfig(), leadership(office, *links))
    liar.leads = lambda: runner.service.term.epoch
    async with playing(runner):
        office.give()
        await until(lambda: bool(runner.service.obeyed.distrust("liar")))
        service, greets = runner.service, liar.greets
        await until(lambda: liar.greets > greets + 2)
        await until(lambda: service.core.clusters["east"].ready and service.core.clusters["west"].ready)
        assert (runner.service is service, service.deposed, service.term.valid()) == (True, None, True)
        assert "quarantined" in service.core.clusters["liar"].problem
        text = service.metrics.render().decode()
        assert 'global_dispatcher_cluster_quarantined{cluster="liar"} 1.0' in text
        assert 'global_dispatcher_cluster_quarantined{cluster="east"} 0.0' in text


async def test_an_executor_that_answers_for_another_dispatcher_is_set_aside_and_its_answer_counts_as_none() -> None:
    obeyed = ObeyedEpochs(FLEET)
    obeyed.believes(deposed("liar", 2), 1, lease_holds=True)  # it has ended a term before
    core, agent = FakeCore(), Executor("liar")
    core.effects.append([SendIntents("liar", (bind(1),))])
    links = [LocalLink("liar", agent)]
    it = Service(core, links, clock=Clock(), metrics=Metrics(), timing=FAST, term=Term("me", 3), obeyed=obeyed)
    async with serving(it):
        await core.until(lambda: bool(core.of(Unanswered)) and bool(core.of(ClusterSilent)))
    assert it.deposed is None
    assert "quarantined" in core.of(ClusterSilent)[0].problem


def test_a_core_is_given_what_was_said_in_earlier_terms() -> None:
    obeyed = ObeyedEpochs(("east",))
    links = [LocalLink("east", FakeAgent("east"))]
    assert assemble(links, DispatcherConfig(), obeyed=obeyed).service.obeyed is obeyed
