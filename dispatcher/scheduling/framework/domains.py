"""Policies by fault domains: what they answer for all rows of a domain at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework.domain_counts import CountRules
from dispatcher.scheduling.framework.fleet_view import (
    Codes,
    FleetView,
    Floats,
    Rows,
    SmallInts,
)
from dispatcher.scheduling.framework.in_step import in_step
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin import Depends, Filter, S, Score
from dispatcher.scheduling.framework.pod_info import PodInfo


@dataclass(frozen=True)
class Part:
    """One term of a policy that looks at nothing of a node but its fault domain of one topology
    key.

    `domain`: [n] the row's domain code, -1 unknown (`fleet.topology.domain(key)`). `answers`:
    [domains + 1] by code; the last entry is what code -1 gets. For a filter: uint16, 0 or a code of
    `fleet.reasons`. For a score: float64 raw score.
    """

    domain: SmallInts
    answers: NDArray[Any]


@kernel("wholes floats out")
def _gather(domain, answers, raw):  # type: ignore[no-untyped-def]
    """Add the answer of each row's domain; 1 if there is none for one of them, else 0."""
    size = len(answers)
    for row in range(len(raw)):
        code = domain[row]
        if code < -size or code >= size:
            return 1
        raw[row] += answers[code]
    return 0


def add_answers(answers: NDArray[Any], domain: SmallInts, raw: Floats) -> None:
    """Add to `raw` [rows] the answers by `domain` [rows]. IndexError where a domain has none."""
    if _gather.fast is not None and answers.dtype == np.float64 and domain.dtype == np.int32:
        if not _gather.fast(np.ascontiguousarray(domain), np.ascontiguousarray(answers), raw):
            return
        raise IndexError("a domain has no answer")
    raw += answers[domain]


class DomainPlugin(Filter[S], Score[S]):
    """A policy by fault domains: the first failing part is a row's reason, and its raw score the
    sum of its parts.

    The cycle asks for parts, not for rows: one placement moves the answers of a few domains, not of
    all their rows.
    """

    depends: ClassVar[Depends] = Depends.DOMAIN

    def filter_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """Reason codes, in the order in which reasons are told."""
        return ()

    def score_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """Raw scores, which add up."""
        return ()

    def pre_score_domains(self, state: S, fleet: FleetView, rows: Rows) -> S:
        """PreScore by domains: the state for `score_parts` and `score`, where scores rest on which
        domains have feasible rows.

        `rows` are feasible, or in the same domains (by all parts) as one that is; no feasible row
        is in other ones. The parts made of the answer must be about the same arrays of domains as
        those made of `state`.
        """
        return state

    def state_after_first(self, pod_info: PodInfo, fleet: FleetView) -> S | None:
        """What PreFilter, which skips the pod now, will answer for pods of its class once one of
        them is placed, but with the counts of now, without that pod; None: it cannot be told. So a
        first pod is decided with its batch.
        """
        return None

    def count_rules(self, state: S, pod_info: PodInfo, fleet: FleetView) -> CountRules | None:
        """The parts as rules (see `domain_counts`; `CountedPlugin` derives the parts from them);
        None: its pods are decided one by one. The very same object again says that nothing moved
        but the numbers in its counts.
        """
        return None

    def filter(self, state: S, fleet: FleetView, rows: Rows) -> Codes:
        """[len(rows)] the first part that refuses."""
        codes = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        for part in self.filter_parts(state, fleet):
            np.copyto(codes, part.answers[part.domain[rows]], where=codes == 0)
        return codes

    def score(self, state: S, fleet: FleetView, rows: Rows) -> Floats:
        """[len(rows)] the sum of the parts."""
        raw = np.zeros(len(fleet.nodes.live[rows]))
        for part in self.score_parts(state, fleet):
            add_answers(part.answers, part.domain[rows], raw)
        return raw


@cache
def tells_after_first(plugin: type) -> bool:
    """Whether `state_after_first` of a class goes with its `pre_filter`: not where a subclass has
    replaced `pre_filter` alone, as it may skip pods for other reasons.
    """
    return issubclass(plugin, DomainPlugin) and in_step(plugin, "state_after_first", "pre_filter")


@cache
def tells_rules(plugin: type) -> bool:
    """Whether `count_rules` of a class says what its parts say: not where a subclass has replaced
    what these are made of alone.
    """
    return in_step(
        plugin,
        "count_rules",
        "filter_parts",
        "score_parts",
        "pre_score_domains",
        "normalize",
        "filter",
        "score",
    )
