"""Policies that count pods by fault domain: they state what they make of counts once, as rules.

PreFilter answers the rules; which rows it refuses, how it scores them, what more pods of the class
change, and the merge of a batch follow from them. Here are the answers by domain and row; the loops
that judge groups of rows are compiled (`placing.rule_groups`, `batch.merge_kernel`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, cast

import numpy as np

from dispatcher.scheduling.framework.domain_counts import (
    LN,
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.domains import DomainPlugin, Part
from dispatcher.scheduling.framework.fleet_view import FleetView, Floats, Rows
from dispatcher.scheduling.framework.plugin import MAX_SCORE, S
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.model.labels import LabelSelector
from shared.model.pod import Pod
from shared.model.topology import HOST_LEVEL, level_of


@dataclass(frozen=True)
class _Sized(Generic[S]):
    """A state with how many domains of each score term have feasible rows."""

    state: S
    sizes: Sequence[int]


class CountedPlugin(DomainPlugin[S]):
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

    # How raw scores become 0..100; raw scores up to `void` are worth 0; `base` is a part of each.
    # The rules say the same of all three wherever they have score terms. With Scale.COST `base` is
    # not 0, so that raw scores of 0 are those of pods without score terms, which are worth 0.
    scale: ClassVar[Scale] = Scale.AS_IS
    base: ClassVar[float] = 0.0
    void: ClassVar[float] = float("-inf")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.normalize is not CountedPlugin.normalize
        cls.normalizes = own or cls.scale is not Scale.AS_IS

    def rules(self, state: S, fleet: FleetView) -> CountRules:
        """What the counts mean now. The very same object again says that nothing moved but the
        numbers in its counts.
        """
        return cast(CountRules, state)

    def count_rules(self, state: S, pod_info: PodInfo, fleet: FleetView) -> CountRules | None:
        """These rules."""
        rules = self.rules(state, fleet)
        self._check(rules)
        return rules

    def filter_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """What they refuse, in order."""
        rules = self.rules(state, fleet)
        exempt = rules.is_exempt
        return [_refusing(one, exempt=exempt) for one in rules.refusals]

    def pre_score_domains(self, state: S, fleet: FleetView, rows: Rows) -> S:
        """The state with the number of domains in which rows are feasible, if a score rests on it."""
        rules = self.rules(state, fleet)
        return cast(S, _Sized(state, _sizes(rules, rows))) if rules.sized else state

    def score_parts(self, state: S, fleet: FleetView) -> Sequence[Part]:
        """The score terms; `base` is in the first."""
        told: _Sized[S] = state if isinstance(state, _Sized) else _Sized(state, ())
        rules = self.rules(told.state, fleet)
        self._check(rules)
        sizes = told.sizes
        if rules.sized and not sizes:
            sizes = _sizes(rules, fleet.nodes.live.nonzero()[0])
        parts = list[Part]()
        for at, term in enumerate(rules.score_terms):
            factor = float(LN.up_to(sizes[at])[sizes[at]]) if rules.sized else 1.0
            parts.append(_scoring(term, term.factor * factor, 0.0 if parts else rules.base))
        return parts

    def _check(self, rules: CountRules) -> None:
        """ValueError if a batch, which goes by the rules alone, would score otherwise."""
        if type(self).normalize is not CountedPlugin.normalize:
            return
        if not rules.score_terms:
            if rules.base or rules.scale is Scale.COST:
                raise ValueError("rules without score terms have no base, and no Scale.COST")
        elif (rules.scale, rules.base, rules.void) != (self.scale, self.base, self.void):
            raise ValueError("rules must have scale, base and void of the class: scale=self.scale")
        elif self.scale is Scale.COST and not self.base:
            raise ValueError("with Scale.COST, base must not be 0: say base = -1.0")

    def normalize(self, raw: Floats) -> Floats:
        """See `Scale`."""
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
