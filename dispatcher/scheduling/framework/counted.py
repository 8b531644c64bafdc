"""Policies that count pods by fault domain: they state what they make of counts once, as rules.

PreFilter answers the rules; which rows it refuses, how it scores them, what more pods of the class
change, and the merge of a batch follow from them. Here are the answers by domain and row; the loops
that judge groups of rows are compiled (`placing.rule_groups`, `batch.merge_kernel`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, cast, final

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework.domain_counts import (
    LN,
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.fleet_view import Codes, FleetView, Floats, Rows, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin import MAX_SCORE, Depends, Filter, S, Score
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.model.labels import LabelSelector
from shared.model.pod import Pod
from shared.model.topology import HOST_LEVEL, level_of


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


@dataclass(frozen=True)
class _Sized(Generic[S]):
    """A state with how many domains of each score term have feasible rows."""

    state: S
    sizes: Sequence[int]


class CountedPlugin(Filter[S], Score[S]):
    """A policy by counts of pods: its `pre_filter` answers CountRules (or SKIP, or a Refuse), or a
    state that `rules` takes them from.

    Example: at most 2 pods of an app in a zone, fewer are better.

        scale = Scale.RANGE

        def pre_filter(self, pod_info, fleet):
            zones = pods_by_domain(pod_info.pod, "zone", fleet)
            full = MaxCount(zones, 1, fleet.reasons.code(FULL, "zone"))
            return CountRules([full], score_terms=[ScoreTerm(zones, -1.0)], scale=self.scale)

    Counts are those before this pod: zones with more than 1, so with 2, are refused. Of zones with
    0 and 1 the raw scores are 0 and -1, and on the scale 100 and 0.
    """

    depends: ClassVar[Depends] = Depends.DOMAIN
    # How raw scores become 0..100; raw scores up to `void` are worth 0; `base` is a part of each.
    # The rules say the same of all three wherever they have score terms. With Scale.COST `base` is
    # not 0, so that raw scores of 0 are those of pods without score terms, which are worth 0.
    scale: ClassVar[Scale] = Scale.AS_IS
    base: ClassVar[float] = 0.0
    void: ClassVar[float] = float("-inf")
    own_scale: ClassVar[bool] = False  # whether it has a `normalize` of its own; not to be set

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.own_scale = cls.normalize is not CountedPlugin.normalize
        cls.normalizes = cls.own_scale or cls.scale is not Scale.AS_IS

    def rules(self, state: S, fleet: FleetView) -> CountRules:
        """What the counts mean now. The very same object again says that nothing moved but the
        numbers in its counts.
        """
        return cast(CountRules, state)

    def state_after_first(self, pod_info: PodInfo, fleet: FleetView) -> S | None:
        """What PreFilter, which skips the pod now, will answer for pods of its class once one of
        them is placed, but with the counts of now, without that pod; None: it cannot be told. So a
        first pod is decided with its batch.
        """
        return None

    # --- what follows from the rules
    # ----------------------------------------------------------------------------------------------

    @final
    def checked_rules(self, state: S, fleet: FleetView) -> CountRules:
        """The rules; ValueError if a batch, which goes by them alone, would score otherwise."""
        rules = self.rules(state, fleet)
        if not isinstance(rules, CountRules) or self.own_scale:
            return rules
        if not rules.score_terms:
            if rules.base or rules.scale is Scale.COST:
                raise ValueError("rules without score terms have no base, and no Scale.COST")
        elif (rules.scale, rules.base, rules.void) != (self.scale, self.base, self.void):
            raise ValueError("rules must have scale, base and void of the class: scale=self.scale")
        elif self.scale is Scale.COST and not self.base:
            raise ValueError("with Scale.COST, base must not be 0: say base = -1.0")
        return rules

    @final
    def pre_score_domains(self, state: S, fleet: FleetView, rows: Rows) -> S:
        """The state with the number of domains in which rows are feasible, if a score rests on it:
        `rows`, or rows in the same domains.
        """
        rules = self.rules(state, fleet)
        return cast(S, _Sized(state, _sizes(rules, rows))) if rules.sized else state

    @final
    def filter_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """What they refuse, in order."""
        rules = self.checked_rules(state, fleet)
        exempt = rules.is_exempt
        return [_refusing(one, exempt=exempt) for one in rules.refusals]

    @final
    def score_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """The score terms; `base` is in the first."""
        told: _Sized[S] = state if isinstance(state, _Sized) else _Sized(state, ())
        rules = self.checked_rules(told.state, fleet)
        sizes = told.sizes
        if rules.sized and not sizes:
            sizes = _sizes(rules, fleet.nodes.live.nonzero()[0])
        parts = list[Part]()
        for at, term in enumerate(rules.score_terms):
            factor = float(LN.up_to(sizes[at])[sizes[at]]) if rules.sized else 1.0
            parts.append(_scoring(term, term.factor * factor, 0.0 if parts else rules.base))
        return parts

    @final
    def filter(self, state: S, fleet: FleetView, rows: Rows) -> Codes:
        """[len(rows)] the first part that refuses."""
        codes = np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        for part in self.filter_parts(state, fleet):
            np.copyto(codes, part.answers[part.domain[rows]], where=codes == 0)
        return codes

    @final
    def score(self, state: S, fleet: FleetView, rows: Rows) -> Floats:
        """[len(rows)] the sum of the parts."""
        raw = np.zeros(len(fleet.nodes.live[rows]))
        for part in self.score_parts(state, fleet):
            add_answers(part.answers, part.domain[rows], raw)
        return raw

    def normalize(self, raw: Floats) -> Floats:
        """See `Scale`. Who has another is asked pod by pod: batches know these alone."""
        return normalized(raw, self.scale, self.base, self.void)


def _refusing(rule: MaxCount | RequiredCount, *, exempt: bool) -> Part:
    counts = rule.domain_count.counts
    if isinstance(rule, MaxCount):
        refused = counts > rule.limit
        elsewhere = rule.elsewhere
    else:
        refused = (counts <= 0) & (not exempt)
        elsewhere = rule.code
    answers = np.empty(len(counts) + 1, dtype=np.uint16)
    np.multiply(refused, np.uint16(rule.code), out=answers[:-1])
    answers[-1] = elsewhere
    return Part(rule.domain_count.domain, answers)


def _scoring(term: ScoreTerm, factor: float, base: float) -> Part:
    counts = term.domain_count.counts
    answers = np.full(len(counts) + 1, term.elsewhere)
    answers[:-1] = counts * factor + term.offset if term.table is None else term.table
    answers += base
    return Part(term.domain_count.domain, answers)


def _sizes(rules: CountRules, rows: Rows) -> list[int]:
    """Of each score term, how many domains there are among `rows`; rows without one are together
    one more, or do not count with `needs_all_domains`.
    """
    found = [term.domain_count.domain[rows] for term in rules.score_terms]
    if rules.needs_all_domains and found:
        whole = np.logical_and.reduce([codes >= 0 for codes in found])
        found = [codes[whole] for codes in found]
    sizes = list[int]()
    for term, codes in zip(rules.score_terms, found, strict=True):
        if term.domain_count.by_host:
            sizes.append(len(codes))
            continue
        seen = np.zeros(len(term.domain_count.counts) + 1, dtype=np.bool_)
        seen[codes] = True
        sizes.append(int(np.count_nonzero(seen)))
    return sizes


def pods_by_domain(
    pod: Pod, key: str, fleet: FleetView, selector: LabelSelector | None = None
) -> RuleCount:
    """The pods of `pod`'s namespace that match (None: those of its app) by domain of `key`, each
    once in the whole fleet; `pod` adds itself where it matches. So its namespace and labels
    (`app_labels`, for None) are in the `class_key`.
    """
    return RuleCount(
        fleet.topology.domain(key),
        fleet.topology.count_matching(pod, selector, key),
        more=int(selector is None or selector.matches(pod.labels)),
        by_host=level_of(key) == HOST_LEVEL,
    )


def normalized(raw: Floats, scale: Scale, base: float, void: float) -> Floats:
    """See `Scale`."""
    if scale is Scale.RANGE:
        return normalized_range(raw)
    if scale is Scale.COST and raw.any():  # else there are no score terms, nor their base
        return normalized_cost(raw, base, void)
    return raw


def normalized_range(raw: Floats) -> Floats:
    """Scale.RANGE: whole numbers, 0 for the least, 100 for the most; 0 for all if they are equal."""
    least = raw.min(initial=np.inf)
    most = raw.max(initial=-np.inf)
    if not most > least:
        return np.zeros(len(raw))
    scores: Floats = np.floor(MAX_SCORE * ((raw - least) / (most - least)))
    return scores


def normalized_cost(raw: Floats, base: float, void: float) -> Floats:
    """Scale.COST: 100 for the least cost, down to 100 * least / largest; 0 where a raw score is
    void.
    """
    cost = np.floor(0.5 - (raw - base))
    has = raw > void
    told = cost if has.all() else cost[has]
    largest = told.max(initial=0.0)
    if largest <= 0.0:
        return np.where(has, MAX_SCORE, 0.0)
    points = np.floor(MAX_SCORE * (largest + told.min() - cost) / largest)
    return points if told is cost else np.where(has, points, 0.0)
