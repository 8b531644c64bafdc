"""The domains that may hold a group, and which is the best of them as far as room can tell."""

from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.framework import Floats, Ints


class Rank(NamedTuple):
    """How good a domain is, the lowest the best."""

    missing: int  # members that wait and find no room there
    level: int  # from the narrowest up
    left: float  # how many such groups it has room for: the fullest is the best


class Candidates:
    """Domains of several levels."""

    def __init__(self, waiting: int) -> None:
        self._waiting = waiting
        self._level: Ints = np.zeros(0, dtype=np.int64)
        self._code: RowList = np.zeros(0, dtype=np.intp)
        self._held: Ints = np.zeros(0, dtype=np.int64)
        self._left: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self._code)

    def add(self, level: int, codes: RowList, held: Ints, left: Floats) -> None:
        """The domains of these `codes`; `held`, `left`: [domains of the level] how many members have
        room there, and how many such groups.
        """
        self._level = np.concatenate((self._level, np.full(len(codes), level)))
        self._code = np.concatenate((self._code, codes))
        self._held = np.concatenate((self._held, held[codes]))
        self._left = np.concatenate((self._left, left[codes]))

    def most(self) -> tuple[int, int, int]:
        """(members, level, code) of the one that holds most, of the narrowest of these."""
        at = int(self._held.argmax())
        return self._held.item(at), self._level.item(at), self._code.item(at)

    def keep(self, least: int) -> None:
        """Those alone that may hold so many members."""
        self._select(np.flatnonzero(self._held >= least))

    @property
    def widest(self) -> int:
        """The level; -1 without any domain."""
        return int(self._level.max(initial=-1))

    def keep_level(self, level: int) -> None:
        """Its domains alone."""
        self._select(np.flatnonzero(self._level == level))

    def tighten(self, level: int, held: Ints, least: int) -> None:
        """Drop those of a level that hold fewer than that: [domains of the level] at most."""
        here = self._level == level
        if not here.any():
            return
        self._select(np.flatnonzero(~here | (held[np.where(here, self._code, 0)] >= least)))

    def best(self) -> tuple[Rank, RowList]:
        """The best rank, and the places of all that have it."""
        held = self._held.max().item()
        at = np.flatnonzero(self._held == held)
        level = self._level[at].min().item()
        at = at[self._level[at] == level]
        left = self._left[at].min().item()
        return Rank(self._waiting - held, level, left), at[self._left[at] == left]

    def codes(self, at: RowList) -> list[int]:
        """The domains at these places."""
        found: list[int] = self._code[at].tolist()
        return found

    def drop(self, at: int) -> None:
        """The one at this place is tried."""
        self._select(np.delete(np.arange(len(self)), at))

    def _select(self, at: RowList) -> None:
        self._level = self._level[at]
        self._code = self._code[at]
        self._held = self._held[at]
        self._left = self._left[at]
