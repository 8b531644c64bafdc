"""Rows for whoever asks, made piece by piece: a list of 500,000 nodes must not hold up decisions
while it is made.

A piece is a list of rows, and takes some milliseconds at most; some pieces are empty, as what comes
first in a long list has to be found. Between two pieces anything may happen: a row is of when its
piece was made, and what has gone since the list was begun is not in it.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

Row = dict[str, Any]
Pieces = Iterator[list[Row]]
AT_ONCE = 200  # rows
_SORTED_AT_ONCE = 2_000  # keys
_K = TypeVar("_K", bound=Any)


def whole(pieces: Iterable[list[Row]]) -> list[Row]:
    """All rows at once: where nothing else waits."""
    return [row for piece in pieces for row in piece]


def in_order(keys: Iterable[_K]) -> Iterator[list[_K]]:
    """Sorted, in pieces: a merge sort whose runs are sorted one at a time and merged as far as they
    are asked for.
    """
    given = iter(keys)
    runs = list[list[_K]]()
    while run := sorted(islice(given, _SORTED_AT_ONCE)):
        runs.append(run)
        yield []
    merged = heapq.merge(*runs)
    while piece := list(islice(merged, AT_ONCE)):
        yield piece
