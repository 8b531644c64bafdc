"""Fair queuing of API requests by namespace, so that requests that hang delay their own namespace
alone.

Work waits in lanes, one for each namespace (a lane is any text). At most `limit` slots are held by
requests that may still be answered soon. Waiting lanes take turns, first those that hold less than
`share` slots; only when none of these waits do the others take what is left. So one busy lane alone
has all slots, and beside it each other lane's first request goes at the next free slot, however
long the busy lane's queue is.

A slot that is held for more than `slow_s` does not count against `limit` any longer: whoever hangs
keeps it, and it is opened anew for others, up to `cap` slots in all. Its lane is slow then, and
gets no further slot while it holds `share`, until one of its requests was answered in time or
`forget_s` have passed since the last that was not; nor while `share` of its requests hang, whatever
the others do.

An example, limit 8, share 2, cap 24, slow_s 1. Namespace A has 100 creates waiting behind a webhook
that hangs:

    t=0.0   A holds 8 (nobody else waits).
    t=0.1   B comes with 3 binds: all 8 slots are held, it waits.
    t=1.0   A's 8 have become slow: 8 slots are free. A holds more than its share of 2 and is slow, so it gets none;
            B binds its 3, and whoever else comes has 8 slots to himself.
    t=10    A's requests end in timeouts: it holds 0, then 2 at a time, and 6 slots are always left to others.
    t=90    The webhook answers within a second again: A is one of all, and alone it may hold 8.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotRules:
    """`limit` requests at once, of which a lane has `share` while others wait; `cap` with those
    that hang. Seconds: what is slow, and for how long a lane counts as slow after its last slow
    request.
    """

    limit: int = 16
    share: int = 4
    cap: int = 48
    slow_s: float = 1.0
    forget_s: float = 60.0

    @classmethod
    def of(cls, limit: int) -> "SlotRules":
        """Rules for `limit` requests at once: `share` is a quarter of it, `cap` three times as
        much.
        """
        return cls(limit=limit, share=max(1, limit // 4), cap=3 * limit)


@dataclass(slots=True)
class _Lane:
    waiting: deque[int] = field(default_factory=deque)
    held: int = 0
    hanging: int = 0
    slow_until: float = float("-inf")


@dataclass(frozen=True, slots=True)
class _Held:
    lane: str
    since: float


class Slots:
    """Tickets wait in lanes and are granted slots. `limit` may be lowered and raised; what is held
    stays held.
    """

    def __init__(self, rules: SlotRules) -> None:
        self.rules = rules
        self.limit = rules.limit
        self._lanes: dict[str, _Lane] = {}
        self._waiting: dict[int, str] = {}
        self._quick: OrderedDict[int, _Held] = OrderedDict()  # oldest first
        self._slow: dict[int, _Held] = {}
        # Lanes that wait, those that have had no turn for longest first: below their share, and at
        # or above it.
        self._below: OrderedDict[str, None] = OrderedDict()
        self._above: OrderedDict[str, None] = OrderedDict()

    @property
    def full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return (
            len(self._quick) >= self.limit or len(self._quick) + len(self._slow) >= self.rules.cap
        )

    @property
    def held(self) -> int:
        """Slots that are held, slow ones included."""
        return len(self._quick) + len(self._slow)

    def ask(self, ticket: int, lane: str, *, first: bool = False) -> None:
        """Wait for a slot; `first`: before the others of the lane."""
        entry = self._lanes.setdefault(lane, _Lane())
        self._waiting[ticket] = lane
        if first:
            entry.waiting.appendleft(ticket)
        else:
            entry.waiting.append(ticket)
        self._queue(lane, entry)

    def grant(self, now: float) -> list[int]:
        """The tickets that hold a slot from now on, in the order of their turns."""
        self._notice(now)
        granted = []
        while not self.full and (lane := self._next(now)) is not None:
            entry = self._lanes[lane]
            ticket = entry.waiting.popleft()
            del self._waiting[ticket]
            self._quick[ticket] = _Held(lane, now)
            entry.held += 1
            self._requeue(lane, entry)
            granted.append(ticket)
        return granted

    def free(self, ticket: int, now: float) -> None:
        """Give a slot back, or wait no longer."""
        waited = self._waiting.pop(ticket, None)
        if waited is not None:
            self._lanes[waited].waiting.remove(ticket)
            self._settle(waited, now)
            return
        self._notice(now)
        held = self._quick.pop(ticket, None)
        entry = self._lanes[held.lane if held is not None else self._slow[ticket].lane]
        if held is not None:
            entry.slow_until = float("-inf")
        else:
            held = self._slow.pop(ticket)
            entry.hanging -= 1
            entry.slow_until = now + self.rules.forget_s
        entry.held -= 1
        self._settle(held.lane, now)

    def due(self) -> float | None:
        """When (monotonic seconds) the oldest slot becomes slow, so that `grant` can give more;
        None if none waits.
        """
        if not self._waiting or not self._quick:
            return None
        return next(iter(self._quick.values())).since + self.rules.slow_s

    def hangs(self, ticket: int | None, lane: str, now: float) -> bool:
        """Whether this ticket's request, or this lane, is slow."""
        held = self._quick.get(ticket) if ticket is not None else None
        if ticket in self._slow or (held is not None and now - held.since >= self.rules.slow_s):
            return True
        entry = self._lanes.get(lane)
        return entry is not None and self._is_slow(entry, now)

    # --- inside
    # ----------------------------------------------------------------------------------------------

    def _notice(self, now: float) -> None:
        """Move slots that are held for `slow_s` from the quick ones to the slow ones."""
        while self._quick:
            ticket, held = next(iter(self._quick.items()))
            if now - held.since < self.rules.slow_s:
                return
            del self._quick[ticket]
            self._slow[ticket] = held
            entry = self._lanes[held.lane]
            entry.hanging += 1
            entry.slow_until = now + self.rules.forget_s

    def _next(self, now: float) -> str | None:
        """The lane whose turn it is; None if no lane that waits may have a slot."""
        if self._below:
            return next(iter(self._below))
        return next(
            (lane for lane in self._above if not self._is_slow(self._lanes[lane], now)), None
        )

    def _is_slow(self, entry: _Lane, now: float) -> bool:
        return now < entry.slow_until or entry.hanging >= self.rules.share

    def _queue(self, lane: str, entry: _Lane) -> None:
        """Enter a lane that waits among the others; its turn stays what it was."""
        into, other = (
            (self._below, self._above)
            if entry.held < self.rules.share
            else (self._above, self._below)
        )
        other.pop(lane, None)
        if entry.waiting:
            into.setdefault(lane, None)
        else:
            into.pop(lane, None)

    def _requeue(self, lane: str, entry: _Lane) -> None:
        """The same for a lane that has just had its turn."""
        self._below.pop(lane, None)
        self._above.pop(lane, None)
        self._queue(lane, entry)

    def _settle(self, lane: str, now: float) -> None:
        """Keep the lane's place right, and forget one that is idle and not slow."""
        entry = self._lanes[lane]
        self._queue(lane, entry)
        if not entry.waiting and not entry.held and entry.slow_until <= now:
            del self._lanes[lane]
        elif len(self._lanes) > len(self._waiting) + self.held + _MAX_SLOW:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Lanes that are only remembered as slow are forgotten in time, and all of them if they are
        too many.
        """
        idle = [*self._idle()]
        for lane in [one for one in idle if self._lanes[one].slow_until <= now] or idle:
            del self._lanes[lane]

    def _idle(self) -> Iterator[str]:
        return (lane for lane, entry in self._lanes.items() if not entry.waiting and not entry.held)


_MAX_SLOW = 1000  # lanes remembered as slow though they neither hold nor wait
