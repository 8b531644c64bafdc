"""Which of a cluster's executors acts: the one that holds a Lease in the cluster itself.

There may be two: a Deployment that was scaled, a second release of the chart, a node that was given
up and lives on. The holder writes nothing any more once it has not renewed the Lease for
`RENEW_DEADLINE_S`; another waits longer than that by the time that a call may take, so that what
the holder has sent last has ended on its side by then. Clocks of two machines are never compared.
Who is known to serve another cluster, or has another key, does not stand for it.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from agents.runtime.accepted_leader import AcceptedLeader
from shared.kube.elector import Elector, ElectorEnvironment, LeaderTiming, awake, new_identity
from shared.kube.http import FORBIDDEN
from shared.kube.leader_lease import Client, LeaseRef, LeaseStore
from shared.kube.verdicts import NOT_FOUND

LOG = structlog.get_logger("agent.executor_lease")
# Not in the release's namespace: two releases may have two.
PLACE = LeaseRef("kube-node-lease", "global-dispatcher-agent.executor")
_LEASE = f"lease {PLACE.namespace}/{PLACE.name}"
RENEW_DEADLINE_S = 8.0
RETRY_S = 2.0
FAREWELL_S = 2.0
ASKS_S = 20.0  # between two words of who waits
# a holder that no gateway lets in keeps the Lease for so long at first, twice as long each time
UNREACHED_S = 60.0
LONGEST_UNREACHED_S = 3600.0
_STILL_ASKS_S = 1.5 * ASKS_S  # below UNREACHED_S: a word of before this holding counts for nothing
UNREACHED = (
    "no gateway lets this executor in (its log says why), and another waits for the Lease: it "
    "gives way"
)
_FIXES = {
    NOT_FOUND: "make the namespace {namespace}: every cluster of Kubernetes has it",
    FORBIDDEN: "give the agent's account get and update of it, and create of leases in "
    "{namespace}, as the chart does",
}


class ExecutorLease:
    """`on_held` is called when another may have acted since this executor last did. `unreached_s`:
    for how long no gateway has let it in, if it needs one: such a holder gives way to another that
    waits, which may be better off.
    """

    def __init__(
        self, client: Client, accepted_leader: AcceptedLeader, call_s: float, identity: str = ""
    ) -> None:
        """`call_s`: how long a call to the API server may take. `identity`: of this candidate;
        empty: a new one.
        """
        timing = LeaderTiming(RENEW_DEADLINE_S + call_s, RENEW_DEADLINE_S, RETRY_S)
        environment = ElectorEnvironment(wall=time.time, dice=random.random)
        store = LeaseStore(client, PLACE, _FIXES)
        self.on_held: Callable[[], None] = lambda: None
        self._elector = Elector(
            store, identity or new_identity(), timing, environment, kind="executor"
        )
        self._elector.held_up = self._held_up
        self._elector.asks_s = ASKS_S
        self.unreached_s: Callable[[], float] = lambda: 0.0
        self._turn_at = 0.0  # when its turn with the Lease began
        self._turn_s = UNREACHED_S  # how long one is in which no gateway lets it in
        # long enough for another to take a Lease that is not renewed
        self._aside_s = 2 * timing.lease_s
        self._gives_way = False
        self._accepted_leader = accepted_leader
        # the count of transitions of the last holding of ours in which what is stored was read
        self._prepared = 0

    @property
    def problem(self) -> str:
        """Why this executor may write nothing now, '' while it may."""
        elector = self._elector
        leader = self._accepted_leader
        if elector.valid():
            why = f": {leader.problem}" if leader.problem else ""
            unread = f"{_LEASE} is held, but what another may have stored is not read yet{why}"
            return "" if self._is_prepared else unread
        if self.another:
            return (
                f"this executor waits: {elector.leader} holds {_LEASE}; a cluster has one agent: "
                "end the other (kubectl get pods -A shows it), or this one"
            )
        if self._gives_way:
            return UNREACHED
        # Who does not know what is stored, or finds it to be another's, does not stand for the
        # Lease.
        return leader.not_ours or leader.problem or elector.problem or f"{_LEASE} is not held yet"

    @property
    def _is_prepared(self) -> bool:
        """Whether what is stored was read in this holding: a Lease that was deleted, or lost with
        its server's data, and is made anew while we hold it, begins another.
        """
        return self._elector.transitions == self._prepared

    @property
    def _stands_back(self) -> bool:
        """Whether it does not know what is stored, or it is another's."""
        return bool(self._accepted_leader.not_ours or self._accepted_leader.problem)

    @property
    def another(self) -> bool:
        """Whether another executor is seen to hold the Lease."""
        return self._elector.leader not in ("", self._elector.identity)

    def permit(self) -> Callable[[], str]:
        """What to ask before each write of something that begins now: why it may not be sent, ''
        while it may.

        It may not in a later holding either: another may have acted in between.
        """
        began = self._elector.transitions

        def barred() -> str:
            ended = self._elector.transitions != began
            return self.problem or (f"{_LEASE} was another's meanwhile" if ended else "")

        return barred

    def keeps_away(self, *, replaced: bool) -> str:
        """Why not to connect to a gateway, which has room for one executor of a cluster: '' if
        nothing speaks against it. `replaced`: another has connected there, so that this one has to
        be the holder first.

        Without any word from the API server it does connect: a dispatcher has to learn of that.
        """
        leader = self._accepted_leader
        elector = self._elector
        if leader.not_ours:
            return ""
        unknown = not (elector.leader or elector.problem or leader.problem)
        return self.problem if replaced or self.another or unknown else ""

    async def run(self) -> None:
        """Stand for the Lease, and keep it, for ever."""
        while True:
            await self._accepted_leader.recall()
            if not self._stands_back:
                await self._hold()
            if self._stands_back:
                await asyncio.sleep(RETRY_S)

    async def release(self) -> None:
        """Let another act at once; what this one has begun must have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await self._elector.release()

    @property
    def _patience_s(self) -> float:
        """For how long it keeps the Lease when no gateway lets it in; once one has in this turn, as
        at first.
        """
        return self._turn_s if self.unreached_s() >= awake() - self._turn_at else UNREACHED_S

    @property
    def _has_to_give_way(self) -> bool:
        unreached_s = min(self.unreached_s(), awake() - self._turn_at)
        return unreached_s >= self._patience_s and self._elector.asked_within(_STILL_ASKS_S)

    def _held_up(self) -> bool:
        return (
            self._has_to_give_way or bool(self._accepted_leader.not_ours) or not self._is_prepared
        )

    async def _hold(self) -> None:
        await self._elector.acquire()
        leader = self._accepted_leader
        if not self._is_prepared:
            await leader.recall(anew=True)  # what is stored may be another's by now, its keys, too
            if not self._stands_back:
                self.on_held()
                self._prepared = self._elector.transitions
                self._turn_at = awake()
        if self._is_prepared and not leader.not_ours:
            LOG.info("this executor acts", holds=_LEASE, identity=self._elector.identity)
            why = await self._elector.hold()
            self._turn_s = self._patience_s
            self._gives_way = self._has_to_give_way
            unreached = UNREACHED if self._gives_way else ""
            LOG.warning("this executor acts no more", why=leader.not_ours or unreached or why)
        if leader.not_ours:
            await self._elector.release()
        elif self._gives_way:
            await self._stand_aside()

    async def _stand_aside(self) -> None:
        """Let the Lease run out, as if this process had died: what it sent last has ended when
        another acts.
        """
        self._turn_s = min(2 * self._turn_s, LONGEST_UNREACHED_S)
        await asyncio.sleep(self._aside_s)
        self._gives_way = False
        self._turn_at = awake()


class NoRivals:
    """For an executor that is known to be the only one of its cluster."""

    problem = ""

    def permit(self) -> Callable[[], str]:
        """Always."""
        return lambda: ""
