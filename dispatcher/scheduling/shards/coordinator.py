"""The driver's side: who asks shards for a pass over all rows, joins their answers, and does without a missing one.

Only plugins that look at one row each, and keep nothing of their own, are asked in shards. What a shard does not answer
in time, or at all, this process works out itself, from the same columns: so shards change how long a decision takes,
and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator
from dispatcher.scheduling.equivalence.rows import FullScan
from dispatcher.scheduling.equivalence.static_answers import StaticColumn
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Permit, Plugin, Reserve
from dispatcher.scheduling.framework.lifecycle import Bind, PostBind, PostFilter, PreBind, PreEnqueue
from dispatcher.scheduling.framework.roles import AnswerScope, Role
from dispatcher.scheduling.shards.answers import codes_of, is_whole, join, later_refusals
from dispatcher.scheduling.shards.books import Book, Books
from dispatcher.scheduling.shards.frames import REPLIES, Frame, Question, Reply
from dispatcher.scheduling.shards.race import Race

LEAST_ROWS = 50_000  # below, one process is as fast
MOST_TOLD = 1 << 15  # rows an order tells of
_MOST_DECLINED, _MOST_NEWS = 1024, 100
# A plugin with any of these may keep a state of its own, which a shard would not have.
_STATEFUL = (Reserve, Permit, PreBind, Bind, PostBind, PostFilter, PreEnqueue)


class ShardLink(Protocol):
    """The way to one shard. Nothing here raises, and `answer` alone waits."""

    @property
    def life(self) -> int:
        """Moves when the shard has begun anew and holds nothing."""
        ...

    @property
    def ready(self) -> bool:
        """Whether a question may be put now."""
        ...

    @property
    def state(self) -> str:
        """In a word: up, late, starting."""
        ...

    @property
    def seconds(self) -> float:
        """That it has worked at questions since the start."""
        ...

    @property
    def idle(self) -> bool:
        """Whether all that was sent has been taken in."""
        ...

    def send(self, order: Frame) -> None:
        """Send an order; orders arrive in order, or not at all."""
        ...

    def answer(self) -> Frame | None:
        """What it told to the last order; None if that is lost, or does not come in time."""
        ...


@dataclass
class ShardCounts:
    """What became of the questions to one shard, and the bytes sent and got, since the start.

    `missed`: with no answer that could be used, declined ones among them.
    """

    answered: int = 0
    missed: int = 0
    declined: int = 0
    bytes_sent: int = 0
    bytes_got: int = 0


@dataclass(frozen=True)
class Status:
    """How one shard is."""

    rows: int
    state: str
    seconds: float
    counts: ShardCounts


class Shards:
    """All shards of a fleet. `policy`: the name of the profiles that the shards were configured with."""

    def __init__(
        self,
        fleet: FleetState,
        links: Sequence[ShardLink],
        *,
        policy: str = "",
        least_rows: int = LEAST_ROWS,
        timer: Callable[[], float] | None = None,
    ) -> None:
        """`timer`: seconds, to find out whether shards are slower than doing without; None: they are always asked."""
        self._fleet, self.links, self._least = fleet, tuple(links), least_rows
        self._books = Books(fleet, len(self.links))
        self.race, self._asks = Race(timer), 0
        self.counts_of_each = [ShardCounts() for _ in self.links]
        self._policy = policy
        self._declined: dict[tuple[str, ...], str] = {}
        self._news: list[str] = []
        self._told: set[str] = set()

    def take_policy(self, policy: str) -> None:
        """The shards are given other profiles."""
        self._policy = policy
        self._declined.clear()

    def statuses(self) -> list[Status]:
        """How each shard is."""
        return [Status(page.stop - page.start, link.state, link.seconds, counts) for link, page, counts in self._each()]

    def take_news(self) -> list[str]:
        """Why shards did not answer questions, since the last call; each text is told but once."""
        news, self._news = self._news, []
        return news

    def _tell(self, text: str) -> None:
        if text not in self._told and len(self._told) < _MOST_NEWS:
            self._told.add(text)
            self._news.append(text)

    @property
    def due(self) -> int:
        """How many rows shards have still to be told of, as far as was looked."""
        return self._books.all_due

    def parallel_scan(self, profile: str) -> "ProfileScan":
        """Who looks at all rows for the classes of a profile."""
        return ProfileScan(self, profile)

    def follow(self) -> None:
        """Tell shards what has changed, a part at a time, so that questions find them up to date; never waits."""
        if self._fleet.n < self._least:
            return
        self._look()
        for link, page, counts in self._each():
            rows = self._books.due(page, MOST_TOLD)
            if len(rows) and link.idle:
                self._send(link, self._books.order(page, rows), counts)

    def _look(self) -> None:
        self._books.look()
        for link, page, _ in self._each():
            if page.life != link.life:
                page.life = link.life
                self._books.begin(page)

    def _each(self) -> Iterator[tuple[ShardLink, Book, ShardCounts]]:
        return zip(self.links, self._books.pages, self.counts_of_each, strict=True)

    def _send(self, link: ShardLink, order: Frame, counts: ShardCounts) -> None:
        counts.bytes_sent += order.size
        link.send(order)

    # --- asking ------------------------------------------------------------------------------------------------------

    def scan(self, profile: str, asked: FullScan, alone: Callable[[slice], None]) -> None:
        """A pass over all rows: by shards while they are faster, and `alone` what they do not answer."""
        race, by_itself = self.race, self.race.alone()
        began, asks = race.now(), self._asks
        for part in [slice(0, self._fleet.n)] if by_itself else self.fill(profile, asked):
            alone(part)
        if (by_itself or self._asks > asks) and race.ran(began, self._fleet.n, alone=by_itself):
            self._tell("shards took longer than the dispatcher alone: it does without them for a while, time and again")

    def fill(self, profile: str, asked: FullScan) -> list[slice]:
        """Let the shards answer; the rows that they did not."""
        filters, later = _split(asked)
        question = None if filters is None else self._question(profile, filters, asked)
        if question is None or self._fleet.n < self._least or 2 * asked.static_filters.refused > self._fleet.n:
            return [slice(0, self._fleet.n)]
        self._look()
        waiting = [self._ask(link, page, counts, question) for link, page, counts in self._each()]
        left = []
        for (link, page, counts), awaited in zip(self._each(), waiting, strict=True):
            if not (awaited and self._joined(link, page, counts, asked, later)):
                left.append(page.rows)
        return left

    def _question(self, profile: str, filters: Sequence[PluginEvaluator], asked: FullScan) -> Question | None:
        named = tuple(one.role.name for one in filters)
        scored = tuple(one.role.name for one in asked.evaluators)
        if asked.placed.sizes:  # shards know of no clusters that make it larger
            return None
        if not (named or scored) or not all(_may_be_asked(one.role) for one in (*filters, *asked.evaluators)):
            return None
        if (profile, *named, "", *scored) in self._declined:
            return None
        placed = asked.placed
        told = (self._policy, profile, named, scored, placed.pod, placed.home)
        return Question(*told, self._fleet.clock, placed.counts_as)

    def _ask(self, link: ShardLink, page: Book, counts: ShardCounts, question: Question) -> bool:
        """Whether it was asked."""
        if page.start == page.stop or not link.ready:
            return False
        rows = self._books.due(page, MOST_TOLD + 1)
        if len(rows) > MOST_TOLD:  # it must be told more than it would save
            return False
        self._asked, self._asks = question, self._asks + 1
        self._send(link, self._books.order(page, rows, question), counts)
        return True

    def _joined(
        self, link: ShardLink, page: Book, counts: ShardCounts, asked: FullScan, later: Sequence[StaticColumn]
    ) -> bool:
        frame = link.answer()
        told = None if frame is None else _read(frame)
        if frame is None or told is None or told.number != page.number or not self._usable(told, page, counts):
            counts.missed += 1
            return False
        rows, codes = page.rows, codes_of(told.reasons, self._fleet.reasons)
        if not is_whole(frame.body, page.stop - page.start, codes):
            counts.missed += 1
            return False
        counts.answered += 1
        counts.bytes_got += frame.size
        first, total = asked.first[rows], asked.total[rows]
        points = [column.grid_points[rows] for column in asked.points]
        join(frame.body, codes, asked.static_filters.first[rows], points, first, total)
        later_refusals([column.codes[rows] for column in later], first, total)
        for evaluator in (*asked.filters, *asked.evaluators):
            if isinstance(evaluator, PluginEvaluator) and evaluator.role.name in told.clocked:
                evaluator.observed.now = True
        return True

    def _usable(self, told: Reply, page: Book, counts: ShardCounts) -> bool:
        if told.behind:
            self._books.begin(page)
        elif told.other_policy:
            self._tell("a shard has other profiles, plugins or another version than the dispatcher")
        elif told.declined:
            counts.declined += 1
            if len(self._declined) >= _MOST_DECLINED:
                self._declined.clear()
            asked = self._asked
            self._declined[asked.profile, *asked.filters, "", *asked.scores] = told.declined
            self._tell(told.declined)
        return not (told.behind or told.declined or told.other_policy)


class ProfileScan:
    """Satisfies `equivalence.rows.ParallelScan` for one profile."""

    def __init__(self, shards: Shards, profile: str) -> None:
        self._shards, self._profile = shards, profile

    def fill(self, asked: FullScan, alone: Callable[[slice], None]) -> None:
        """Write what the shards answer; `alone` works out the rows that they do not answer for."""
        self._shards.scan(self._profile, asked, alone)


def _read(frame: Frame) -> Reply | None:
    """What a shard told; None for anything that is no Reply."""
    try:
        return REPLIES.decode(frame.head)
    except msgspec.MsgspecError:
        return None


def _split(asked: FullScan) -> tuple[list[PluginEvaluator] | None, list[StaticColumn]]:
    """The filters for shards, then those that rest on nodes alone; None for the first if they are mixed."""
    evaluators = [one for one in asked.filters if isinstance(one, PluginEvaluator)]
    columns = [one for one in asked.filters if isinstance(one, StaticColumn)]
    in_order = [*evaluators, *columns] == list(asked.filters)
    return (evaluators if in_order else None), columns


def _may_be_asked(role: Role) -> bool:
    plugin: Plugin = role.plugin
    return role.scope is AnswerScope.ROW and not isinstance(plugin, _STATEFUL)
