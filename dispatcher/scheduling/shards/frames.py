"""What crosses between the driver and a shard: a head of msgpack, and a body of plain numbers.

The body of a ShardRequest is the rows that changed since the one before it, column after column, so that a shard that
lost nothing is up to date when it reads the question. The body of a Reply is one number a row (see `answers`).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dispatcher.model.pod import Pod, Record
from dispatcher.scheduling.fleet.columns import NodeColumns, RowList
from dispatcher.scheduling.framework.derived import NOTHING as NOT_DERIVED
from dispatcher.scheduling.framework.derived import Derived
from dispatcher.scheduling.shards.held import MARKS, MASKS, NUMBERS, SHARES, HeldRows

Body = NDArray[Any]
NOTHING: Body = np.zeros(0, dtype=np.uint8)
# Of columns with several numbers a row: how many, or of what there is one each.
_HEIGHT = {
    "allocatable": "resources",
    "requested": "resources",
    "nonzero": 2,
    "recent": 2,
    "settling": 2,
    "used": "signals",
    "used_at": "signals",
    "used_mean": "signals",
    "usual": "signals",
    "forecast": "signals",
    "forecast_error": "signals",
    "last_error": "signals",
    "used_variance": "deviations",
}


class Question(Record, frozen=True):
    """What do these plugins of a profile make of all your rows? `filters` and `scores`: names, in order.

    `policy` names the profiles as they are now: a shard that has others does not answer.
    """

    policy: str
    profile: str
    filters: tuple[str, ...]
    scores: tuple[str, ...]
    pod: Pod
    home: str
    now: float
    counts_as: tuple[int, int] | None = None


class ShardRequest(Record, frozen=True):
    """Rows that changed, and perhaps a question. `after`: the order that must have been the one before this one.

    `blank`: forget all that you hold first. `length`: how many rows there are. `resources`: all that are known.
    `signals`: the same of live load. `derived`: what else of live load is kept. `touched`: how many rows the body is
    about.
    """

    number: int
    after: int
    blank: bool
    length: int
    resources: tuple[str, ...]
    signals: tuple[str, ...]
    touched: int
    question: Question | None = None
    derived: Derived = NOT_DERIVED


class Reply(Record, frozen=True):
    """The answer to the order of that number. `behind`: that order did not follow what the shard had, send all again.

    `declined`: why it does not answer this question, '' if it does. `reasons`: behind the marks of refused rows, each
    a list of (Reason name, argument, lasting). `clocked`: plugins that read the clock.
    """

    number: int
    behind: bool = False
    declined: str = ""
    other_policy: bool = False
    reasons: tuple[tuple[tuple[str, str, bool], ...], ...] = ()
    clocked: tuple[str, ...] = ()


class Frame(NamedTuple):
    """A head and its body."""

    head: bytes
    body: Body

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.head) + int(self.body.nbytes)


ENCODER = msgspec.msgpack.Encoder()
REQUESTS = msgspec.msgpack.Decoder(ShardRequest)
REPLIES = msgspec.msgpack.Decoder(Reply)


class Heights(NamedTuple):
    """How many resources and signals there are, and of how many signals deviations are kept."""

    resources: int
    signals: int
    deviations: int


def pack(fleet: NodeColumns, rows: RowList, start: int) -> Body:
    """The held columns of `rows`, and their places counted from `start`."""
    heights = Heights(len(fleet.allocatable), len(fleet.used), len(fleet.used_variance))
    body = np.empty(bytes_of(len(rows), heights), dtype=np.uint8)
    for name, window in _windows(body, len(rows), heights):
        if name:
            np.copyto(window, getattr(fleet, name)[..., rows])
        else:
            np.copyto(window, rows - start, casting="unsafe")
    return body


def unpack(body: Body, count: int, held: HeldRows) -> None:
    """Write `count` packed rows into what a shard holds."""
    store = held.store
    windows = dict(_windows(body, count, Heights(store.resources, store.signals, len(store.used_variance))))
    rows = windows.pop("").astype(np.intp)
    held.came_or_went(rows, windows["live"])
    for name, window in windows.items():
        getattr(store, name)[..., rows] = window


def bytes_of(rows: int, heights: Heights) -> int:
    """How much that many packed rows take."""
    numbers, shares = (sum(_height(name, heights) for name in names) for names in (NUMBERS, SHARES))
    return rows * (8 * numbers + 4 * shares + 4 * (1 + len(MASKS)) + len(MARKS))


def _height(name: str, heights: Heights) -> int:
    height = _HEIGHT.get(name, 1)
    if isinstance(height, int):
        return height
    found: int = getattr(heights, str(height))
    return found


def _windows(body: Body, rows: int, heights: Heights) -> Iterator[tuple[str, NDArray[Any]]]:
    """(column, its part of the body), the widest numbers first, so that all are aligned; '' is the rows' places."""
    at = 0
    for names, dtype in ((NUMBERS, np.int64), (SHARES, np.float32), (("", *MASKS), np.int32), (MARKS, np.bool_)):
        for name in names:
            kind = np.dtype(np.float64) if name.endswith("_at") else np.dtype(dtype)
            height = _height(name, heights)
            size = rows * height * kind.itemsize
            window = body[at : at + size].view(kind)
            yield name, window.reshape(height, rows) if name in _HEIGHT else window
            at += size
