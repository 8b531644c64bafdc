"""Leader terms: a dispatcher decides while it holds the Lease, with an epoch above all that agents
ever accepted.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from dispatcher.service.background_task import background_task
from dispatcher.service.leading.lease_thread import LeaseThread
from dispatcher.service.links.link import AgentLink, LinkError
from dispatcher.service.obeyed_epochs import ObeyedEpochs
from dispatcher.service.term import MOST_EPOCHS, Deposed, Term
from shared.kube.elector import Elector
from shared.model.backoff import Backoff

log = structlog.get_logger("leader")

# how long an agent may take to say whom it obeys, and between two greetings while we stand by
GREET_S = 5.0
LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True)
class LeaderStatus:
    """Whether this dispatcher leads, and who does if it does not. `problem`: why that is not known."""

    identity: str
    leads: bool
    leader: str
    epoch: int
    problem: str = ""

    @property
    def words(self) -> str:
        """Why nothing is decided here, '' if this dispatcher leads."""
        if self.leads:
            return ""
        if self.leader and self.leader != self.identity:
            return f"standby: dispatcher {self.leader} leads"
        return f"standby: waiting to lead{f': {self.problem}' if self.problem else ''}"

    def row(self) -> dict[str, Any]:
        """For the HTTP API."""
        return asdict(self)


class NoElection:
    """A candidate without rivals, for a fleet that is told to do without a Lease."""

    def __init__(self, identity: str) -> None:
        self.identity = self.leader = identity
        self.transitions = 1
        self.problem = ""

    def valid(self) -> bool:
        """Always."""
        return True

    async def acquire(self) -> None:
        """At once."""

    async def raise_to(self, transitions: int) -> bool:
        """Take over a higher count."""
        self.transitions = max(self.transitions, transitions)
        return True

    async def hold(self) -> str:
        """For ever."""
        await asyncio.Event().wait()
        return ""

    async def release(self) -> None:
        """Nothing to give up."""


class Leadership:
    """Leads when it may: `lead` gives the next term, `lost` says when that ends, `deposed` that an
    agent ended it.
    """

    def __init__(
        self, candidate: Elector | LeaseThread | NoElection, links: Sequence[AgentLink]
    ) -> None:
        self._candidate = candidate
        self._links = links
        self.obeyed = ObeyedEpochs([link.cluster for link in links])
        self._floor = 0
        self._deposals = 0
        self._deposed_by: set[str] = set()  # clusters
        self._mute: set[str] = set()  # clusters whose agents did not answer the last greeting
        self.term: Term | None = None

    @property
    def leader_status(self) -> LeaderStatus:
        """As of now."""
        one = self._candidate
        term = self.term
        leads = term is not None and term.valid()
        epoch = term.epoch if term is not None else 0
        return LeaderStatus(one.identity, leads, one.leader, epoch, one.problem)

    async def lead(self) -> Term:
        """Stand by, warm, until this dispatcher may decide."""
        while True:
            async with background_task(self._greet_all, "greet"):
                await self._candidate.acquire()
            # Who was silent all the while is not waited for once more: what it obeys is found out
            # when it answers.
            await asyncio.gather(
                *(self._greet(link) for link in self._links if link.cluster not in self._mute)
            )
            # Above all that was ever obeyed: the Lease may have been deleted, or restored from a
            # backup.
            before = self._candidate.transitions
            least = max(self._floor, self.obeyed.highest(max(self._floor, before - 1))) + 1
            if await self._candidate.raise_to(max(before, least)):
                return self._begin(self._candidate.transitions)

    async def lost(self) -> str:
        """Keep the term until it ends; why it did."""
        why = await self._candidate.hold()
        log.error("this dispatcher leads no more: it stands by", why=why)
        return why

    async def deposed(self, by: Deposed) -> None:
        """An executor obeys another: come back above that, at once the first time, later and later
        if it goes on.
        """
        self.obeyed.note(by.cluster, by.epoch)  # `lead` goes above it, as far as it is believed
        if self._may_be_ours(by):
            log.info(
                "an agent obeys an epoch of before: this one goes on above it",
                epoch=by.epoch,
                why=by.why,
            )
        else:
            log.error(
                "a newer dispatcher is obeyed: this one stands by",
                epoch=by.epoch,
                why=by.why,
                fix="give all dispatchers of a fleet the same leader_election",
            )
        self._deposed_by.add(by.cluster)
        pause = (
            Backoff(GREET_S, LONGEST_PAUSE_S).after(self._deposals + 1) if self._deposals else 0.0
        )
        self._deposals += 1
        await asyncio.sleep(pause)

    def _may_be_ours(self, by: Deposed) -> bool:
        """Whether an agent may only tell of our own earlier life: without an election each begins
        at the first epoch. Of two dispatchers at a time, the one whose orders were obeyed is told
        otherwise.
        """
        return (
            isinstance(self._candidate, NoElection)
            and by.first
            and by.cluster not in self._deposed_by
        )

    def end(self) -> None:
        """The term is over."""
        self.term = None

    async def release(self) -> None:
        """Let the next lead at once."""
        self.end()
        await self._candidate.release()

    def _begin(self, epoch: int) -> Term:
        if epoch > MOST_EPOCHS:
            raise ValueError(
                f"epoch {epoch} is above {MOST_EPOCHS}: delete the lease, and those of the agents"
            )
        self._floor = max(self._floor, epoch)  # no two terms have one epoch
        self.obeyed.begin()
        self.term = Term(self._candidate.identity, epoch, self._candidate.valid)
        log.info("this dispatcher leads", epoch=epoch, identity=self._candidate.identity)
        return self.term

    async def _greet_all(self) -> None:
        """Again and again: agents are up and have listed everything when they are needed."""
        while True:
            await asyncio.gather(*map(self._greet, self._links))
            await asyncio.sleep(GREET_S)

    async def _greet(self, link: AgentLink) -> None:
        try:
            hello = await link.hello(timeout_s=GREET_S)
        except LinkError:  # it is told of when it is needed
            self._mute.add(link.cluster)
        else:
            self._mute.discard(link.cluster)
            self.obeyed.note(link.cluster, hello.obeys)
