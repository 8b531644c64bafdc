"""Policies by fault domains: what they answer for all rows of a domain at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework.domain_counts import CountRules, ExplainPods
from dispatcher.scheduling.framework.fleet_view import (
    Codes,
    FleetView,
    Floats,
    Ints,
    Rows,
    SmallInts,
)
from dispatcher.scheduling.framework.in_step import in_step
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin import Depends, Filter, S, S_contra, Score
from dispatcher.scheduling.framework.pod_info import PodInfo


@dataclass(frozen=True, eq=False)
class CountedAnswers:
    """Answers about hosts that rest on one whole number of each: `values[counts[code]]`, and
    `absent` for code -1.

    It is indexed by codes, as an array of answers is.

    `counts` [domains] from 0 up, of as many hosts as there are rows; `values` [highest count + 1].
    Whole numbers of another type are made int64. ValueError for what is no whole number, or has no
    value.

    `highest`: that no count is above it, nor below 0, is believed: it saves a look at all of them.
    Leave it out if you are not sure: compiled loops read `values` without a check.
    """

    counts: Ints
    values: Floats
    absent: float
    highest: int | None = None

    def __post_init__(self) -> None:
        found = np.asarray(self.counts)
        values = np.asarray(self.values, dtype=np.float64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(
                f"counts of hosts must be a column of whole numbers, not {found.ndim}-d "
                f"{found.dtype}"
            )
        counts = np.ascontiguousarray(found, dtype=np.int64)
        sure = self.highest is not None and self.highest < len(values)
        # As an unsigned number a negative one is a huge one, too.
        if not sure and len(counts) and counts.view(np.uint64).max() >= len(values):
            told = f"{counts.min()} to {counts.max()}"
            raise ValueError(
                f"counts of hosts are {told}, and there are values for 0 to {len(values) - 1}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "counts", counts)

    def __getitem__(self, codes: NDArray[Any]) -> Floats:
        found: Floats = self.whole[codes]
        return found

    @cached_property
    def whole(self) -> Floats:
        """[domains + 1] the same as an array."""
        return np.append(self.values[self.counts], self.absent)


@dataclass(frozen=True)
class Part:
    """One term of a policy that looks at nothing of a node but its fault domain of one topology
    key.

    `domain`: [n] the row's domain code, -1 unknown (`fleet.topology.domain(key)`). `answers`:
    [domains + 1] by code; the last entry is what code -1 gets. For a filter: uint16, 0 or a code of
    `fleet.reasons`. For a score: float64 raw score, or CountedAnswers.
    """

    domain: SmallInts
    answers: NDArray[Any] | CountedAnswers


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

    def pre_score_groups(self, state: S, fleet: FleetView, rows: Rows, alike: Ints) -> S | None:
        """The same where hosts are not told one by one: `alike` [len(rows)]: how many feasible
        rows, on as many hosts, are in the domains of each of `rows`. None: it has to know all rows.
        """
        return None

    def state_after_first(self, pod_info: PodInfo, fleet: FleetView) -> S | None:
        """What PreFilter, which skips the pod now, will answer for pods of its class once one of
        them is placed, but with the counts of now, without that pod; None: it cannot be told. So a
        first pod is decided with its batch.
        """
        return None

    def count_rules(self, state: S, pod_info: PodInfo, fleet: FleetView) -> CountRules | None:
        """The parts as rules that go on to hold as pods of the class come (see `domain_counts`);
        None: ask after each. The very same object again says that nothing moved but the numbers in
        its counts. A policy that tells rules and has `explain` is BatchExplained, too: registration
        refuses it otherwise.
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
            answers = (
                part.answers.whole if isinstance(part.answers, CountedAnswers) else part.answers
            )
            add_answers(answers, part.domain[rows], raw)
        return raw


class BatchExplained(Protocol[S_contra]):
    """A policy with count rules that adds numbers to records: it explains a whole batch at once
    (see `points.ExplainingPlugin`).
    """

    def explain_batch(
        self, state: S_contra, rows: NDArray[np.intp], fleet: FleetView
    ) -> ExplainPods:
        """What `explain` would say of pods that go to `rows` one after the other. Its answer is
        asked long after, of any of these pods in order, and may not look at the fleet any more.
        """
        ...


@cache
def explains_batches(plugin: type) -> bool:
    """Whether `explain_batch` of a class says what its `explain` says: not where a subclass has
    replaced `explain` alone, as it means other words.
    """
    return issubclass(plugin, DomainPlugin) and in_step(plugin, "explain_batch", "explain")


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


@cache
def pre_scores_groups(plugin: type) -> bool:
    """Whether `pre_score_groups` of a class goes with its `pre_score_domains`."""
    return in_step(plugin, "pre_score_groups", "pre_score_domains")


def lacks_explain_batch(plugin: type) -> bool:
    """Whether a class has count rules and `explain`, and no `explain_batch` that says the same:
    records of batches would lack these words, or have those of the class that it inherits from.
    """
    if not issubclass(plugin, DomainPlugin) or plugin.count_rules is DomainPlugin.count_rules:
        return False
    return hasattr(plugin, "explain") and not explains_batches(plugin)
