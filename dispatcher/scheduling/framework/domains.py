"""Policies by fault domains: what they answer for all rows of a domain at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework.plugin import (
    Codes,
    Depends,
    Filter,
    Fleet,
    Floats,
    Placed,
    Rows,
    S,
    Score,
    SmallInts,
)
from dispatcher.scheduling.framework.tallies import CountRules, Story


@dataclass(frozen=True)
class Part:
    """One term of a policy that looks at nothing of a node but its fault domain of one topology key.

    `domain`: [n] the row's domain code, -1 unknown (`fleet.domain(key)`). `answers`: [domains + 1] by code; the last
    entry is what code -1 gets. For a filter: uint16, 0 or a code of `fleet.reasons`. For a score: float64 raw score.
    """

    domain: SmallInts
    answers: NDArray[Any]


class DomainPlugin(Filter[S], Score[S]):
    """A policy by fault domains: the first failing part is a row's reason, and its raw score the sum of its parts.

    The cycle asks for parts, not for rows: one placement moves the answers of a few domains, not of all their rows.
    """

    depends: ClassVar[Depends] = Depends.DOMAIN

    def filter_parts(self, state: S, fleet: Fleet) -> Sequence[Part]:
        """Reason codes, in the order in which reasons are told."""
        return ()

    def score_parts(self, state: S, fleet: Fleet) -> Sequence[Part]:
        """Raw scores, which add up."""
        return ()

    def weigh(self, state: S, fleet: Fleet, rows: Rows) -> S:
        """What `score_parts` is handed, for a policy whose scores rest on which domains have feasible rows.

        `rows` are feasible, or in the same domains (by all parts) as one that is; no feasible row is in other ones. The
        parts made of the answer must be about the same arrays of domains as those made of `state`.
        """
        return state

    def count_rules(self, state: S, placed: Placed, fleet: Fleet) -> CountRules | None:
        """The parts as rules that hold on when pods of the class come (see `tallies`); None: ask again after each pod.
        A policy that tells them and has `explain` has `explain_batch`, too.
        """
        return None

    def explain_batch(self, state: S, rows: NDArray[np.intp], fleet: Fleet) -> Story:
        """What `explain` would say of pods that go to `rows` one after the other. Its answer is asked long after, and
        may not look at the fleet any more.
        """
        raise NotImplementedError(f"plugin {self.name} has count rules and explain, but no explain_batch")

    def filter(self, state: S, fleet: Fleet, rows: Rows) -> Codes:
        """[len(rows)] the first part that refuses."""
        codes = np.zeros(len(fleet.live[rows]), dtype=np.uint16)
        for part in self.filter_parts(state, fleet):
            np.copyto(codes, part.answers[part.domain[rows]], where=codes == 0)
        return codes

    def score(self, state: S, fleet: Fleet, rows: Rows) -> Floats:
        """[len(rows)] the sum of the parts."""
        raw = np.zeros(len(fleet.live[rows]))
        for part in self.score_parts(state, fleet):
            raw += part.answers[part.domain[rows]]
        return raw
