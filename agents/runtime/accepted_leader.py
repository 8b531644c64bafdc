"""Which dispatcher an executor accepts as leader: read from storage before the first intent, stored
before it acts.

Another executor of the same cluster may have heard a newer dispatcher meanwhile. So what was read
is believed for some seconds only: a dispatcher that slept through its own replacement finds nobody
who still believes in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

import structlog

from agents.executor.context.local import Local, Moment
from agents.executor.trust.state import ASKS, CLUSTER, CONFIRMED, KEYS, OWN_KEYS, other_name
from shared.kube.http import Procedure
from shared.model.names import CONFIRM_RESTORED, FORGET_KEYS
from shared.security.keys import FORGET

LOG = structlog.get_logger("agent.accepted_leader")
BELIEVED_S = 5.0
# a problem that lasts for so long is told: a dispatcher asks every 5 s, whatever it has for us
LASTS_S = 15.0
MAX_KEYS = 176 * 1024  # bytes of the keys of other clusters: a thousand clusters with a key each
_SHOWN = 8  # clusters that a message names

Drive = Callable[[Procedure[str]], Awaitable[str]]


class AcceptedLeader:
    """Asks and keeps `local.state`. `problem` says why nobody is obeyed, '' while that is not so.

    `confirm_restored` is called when an operator of the cluster says so. `rename_from` is the name
    that may be replaced by ours while `remote_pods` counts none; it answers None as long as that is
    not known.
    """

    def __init__(
        self, local: Local, drive: Drive, clock: Callable[[], Moment], rename_from: str = ""
    ) -> None:
        self.problem = ""
        self._problem_at = float("inf")  # since when there is one
        self.remote_pods: Callable[[], int | None] = lambda: None
        self.confirm_restored: Callable[[], None] = lambda: None
        self._local = local
        self._drive = drive
        self._clock = clock
        self._rename_from = rename_from
        self._one_at_a_time = asyncio.Lock()
        # the keys of other clusters: before any that a dispatcher tells are heard
        self._recalled = False
        self._read_at = float("-inf")
        self._questions: dict[
            str, str
        ] = {}  # by the word that an operator has said, until it is answered
        self._asked = 0
        # our keys were stored in this life: another executor may drop an old one meanwhile
        self._held = False

    @property
    def misnamed(self) -> str:
        """Why the cluster is not ours, '' unless it is known to be served under another name."""
        name = self._local.state.values.get(CLUSTER, "")
        return (
            other_name(name, self._local.cluster) if name not in ("", self._local.cluster) else ""
        )

    @property
    def wrong_key(self) -> str:
        """Why our key is not the cluster's, '' unless it is known to sign with another one."""
        return self._local.keys.objection(
            self._local.state.values.get(OWN_KEYS, ""), self._local.cluster
        )

    @property
    def not_ours(self) -> str:
        """Why this executor acts for nobody, '' unless that is known."""
        return self.misnamed or self.wrong_key

    @property
    def lasting_problem(self) -> str:
        """Why nobody is obeyed, and has not been for a while; '' where that may pass by itself."""
        return self.problem if self._clock().mono - self._problem_at >= LASTS_S else ""

    async def late(self, dispatcher: str, epoch: int) -> str:
        """Why this dispatcher may give no orders; '' if it may, and is the one that is obeyed from
        here on.
        """
        async with self._one_at_a_time:
            if epoch > self._local.state.epoch or not self._fresh():
                await self._obey(dispatcher, epoch)
            return self.problem or self._local.epoch_guard.superseded(dispatcher, epoch)

    async def recall(self, *, anew: bool = False) -> None:
        """Read what is stored, unless it was read, without a problem, and the cluster is ours;
        `anew`: in any case.
        """
        async with self._one_at_a_time:
            if anew or not self._local.state.known or self.problem or self.not_ours:
                problem = await self._drive(self._local.state.load())
                if not problem and self.misnamed:
                    problem = await self._take_name()
                if not problem and self.wrong_key:
                    problem = await self._hold_keys()
                self._found(problem)

    async def keep_keys(self) -> str:
        """Store the keys of other clusters that are believed from now on; why not all are stored,
        or ''.
        """
        state = self._local.state
        kept = self._local.trusted.text(MAX_KEYS)
        if state.known and kept.text != state.values.get(KEYS, ""):
            problem = await self.remember(KEYS, kept.text)
            if problem:
                return f"the keys of other clusters cannot be stored: {problem}"
        return _no_room(kept.left_out) if kept.left_out else ""

    async def remember(self, key: str, value: str) -> str:
        """Store a value (see ExecutorState); '' or what went wrong."""
        async with self._one_at_a_time:
            return await self._drive(self._local.state.remember(key, value))

    def _recall_keys(self) -> None:
        if not self._recalled:
            self._recalled = True
            self._local.trusted.recall(self._local.state.values.get(KEYS, ""))

    async def _heed(self) -> None:
        """Do what operators have written in answer to our question; it may be done again if nobody
        learns that it was.

        What they have not is met with a question first: it may be a word of long ago, out of a
        backup.
        """
        state = self._local.state
        trusted = self._local.trusted
        words = frozenset(
            word for word, said in state.words.items() if self._questions.get(word) == said
        )
        problem = await self._ask_back(state.words.keys() - words)
        for word in sorted(words):
            LOG.info("an operator says so", cluster=self._local.cluster, word=word)
            if word == CONFIRM_RESTORED:
                self.confirm_restored()
                # An observer in a process of its own reads it there.
                problem = (
                    await self._drive(state.remember(CONFIRMED, repr(self._clock().wall)))
                    or problem
                )
            else:
                trusted.forget(word.removeprefix(FORGET_KEYS))
        if words:
            kept = trusted.text(MAX_KEYS).text
            problem = (
                await self._drive(state.heed(words, KEYS, "" if kept == "{}" else kept)) or problem
            )
        if problem:
            LOG.warning(
                "an operator's word could not be answered",
                cluster=self._local.cluster,
                problem=problem,
            )
            return
        for word in words:
            del self._questions[word]  # the answer counts once

    async def _ask_back(self, words: Collection[str]) -> str:
        """Write our question in the place of each of these words of operators, where it is not
        there yet; '' or what went wrong.
        """
        state = self._local.state
        asked = {word: ASKS + self._question(word) for word in words}
        return await self._drive(state.ask(asked)) if asked.items() - state.words.items() else ""

    def _question(self, word: str) -> str:
        """With both clocks in it, so that no other life asks the same."""
        if word not in self._questions:
            self._asked += 1
            self._questions[word] = f"{self._asked} {self._clock().mono!r} {self._clock().wall!r}"
        return self._questions[word]

    def _fresh(self) -> bool:
        return not self.problem and self._clock().mono - self._read_at < BELIEVED_S

    async def _obey(self, dispatcher: str, epoch: int) -> None:
        state = self._local.state
        problem = ""
        if not state.known or state.values.get(CLUSTER) != self._local.cluster:
            problem = await self._take_name()
        if not problem and self._keys_due:
            problem = await self._hold_keys()
        problem = problem or await self._drive(state.obey(epoch, dispatcher))
        if not problem and self.misnamed:  # another executor has renamed it meanwhile
            problem = await self._take_name()
        if not problem and self._keys_due:  # or has come with other keys
            problem = await self._hold_keys()
        if not problem:
            # a server that is slow to tell must not be asked for each batch
            self._read_at = self._clock().mono
            self._local.epoch_guard.superseded(state.dispatcher, state.epoch)
            self._recall_keys()
            await self._heed()
        self._found(problem)

    @property
    def _keys_due(self) -> bool:
        """Whether our keys are to be stored, or refused: at first, where another one signs, or an
        operator says so.
        """
        signs = self._local.state.values.get(OWN_KEYS, "").partition(" ")[0]
        # also where the Lease was lost, or restored from a backup
        other = signs != self._local.keys.public[0]
        return not self._held or other or self._forget_own in self._local.state.words

    @property
    def _forget_own(self) -> str:
        return FORGET_KEYS + self._local.cluster

    async def _hold_keys(self) -> str:
        state = self._local.state
        cluster = self._local.cluster
        keys = self._local.keys
        word = self._forget_own
        if word in state.words and state.words[word] != self._questions.get(word):
            problem = await self._ask_back((word,))
            if problem:
                return problem
        answer = {word: self._questions[word]} if word in self._questions else {}
        problem = await self._drive(
            state.hold_keys(keys.text, lambda stored: keys.objection(stored, cluster), answer)
        )
        if problem:
            return problem
        self._held = True
        if (
            answer and word not in state.words
        ):  # as the write has read it: the answer may have come just before
            del self._questions[word]  # the answer counts once
            LOG.warning(
                "an operator says so: the cluster signs with another key",
                cluster=cluster,
                key=keys.public[0],
            )
        return ""

    async def _take_name(self) -> str:
        remote = self.remote_pods() if self._rename_from else None
        problem = await self._drive(
            self._local.state.be_called(
                self._local.cluster, self._rename_from if remote == 0 else ""
            )
        )
        return f"{problem} (it has {remote} remote pods)" if problem and remote else problem

    def _found(self, problem: str) -> None:
        if problem and problem != self.problem:
            LOG.error("no dispatcher is obeyed", cluster=self._local.cluster, problem=problem)
        if not (problem and self.problem):
            self._problem_at = self._clock().mono
        self.problem = problem


def _no_room(clusters: tuple[str, ...]) -> str:
    more = f" and {len(clusters) - _SHOWN} more" if len(clusters) > _SHOWN else ""
    return (
        f"no room to store the keys of {', '.join(clusters[:_SHOWN])}{more} beside "
        f"{MAX_KEYS // 1024} KiB of others: "
        "the next life of this agent believes whatever it first hears of them. Forget the keys "
        "of clusters that are "
        f"no more: {FORGET} NAME"
    )
