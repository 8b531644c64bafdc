"""A policy over counts of pods by fault domain, stated once: PreFilter answers its rules."""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
)
from dispatcher.scheduling.framework.domains import DomainPlugin, Part
from dispatcher.scheduling.framework.fleet_view import FleetView, Floats
from dispatcher.scheduling.framework.plugin import MAX_SCORE
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.model.labels import LabelSelector
from shared.model.pod import Pod
from shared.model.topology import HOST_LEVEL

_NO_COUNT = 2**62


class CountedPlugin(DomainPlugin[CountRules]):
    """A policy whose `pre_filter` answers CountRules (or SKIP, or a Refuse): filter, score and the
    decision of whole batches are made of them.

    Scores are 0..100 as they are; else the rules say Scale.RANGE and `normalize` is
    `normalized_range`. Rules that are `sized`, have a `base`, are worth nothing up to `void` or need
    all domains are for a DomainPlugin with parts of its own.
    """

    def count_rules(self, state: CountRules, pod_info: PodInfo, fleet: FleetView) -> CountRules:
        """The state itself."""
        return state

    def filter_parts(self, state: CountRules, fleet: FleetView) -> Sequence[Part]:
        """A part for each refusal."""
        return refusal_parts(state)

    def score_parts(self, state: CountRules, fleet: FleetView) -> Sequence[Part]:
        """A part for each term of the score; ValueError for rules that need more."""
        return term_parts(state)


def refusal_parts(rules: CountRules) -> tuple[Part, ...]:
    """A part for each refusal, as the counts are now."""
    exempt = rules.first_pod_exempt and not any(
        one.domain_count.counts.any() for one in rules.refusals if isinstance(one, RequiredCount)
    )
    return tuple([_refusing(one, exempt=exempt) for one in rules.refusals])


def term_parts(rules: CountRules) -> tuple[Part, ...]:
    """A part for each term of the score, as the counts are now; ValueError for rules that need more."""
    if rules.sized or rules.base or rules.needs_all_domains or np.isfinite(rules.void):
        raise ValueError("these rules are for a DomainPlugin with score_parts of its own")
    return tuple(
        [
            Part(
                one.domain_count.domain,
                np.append(one.factor * one.domain_count.counts + one.offset, one.elsewhere),
            )
            for one in rules.score_terms
        ]
    )


def _refusing(rule: MaxCount | RequiredCount, *, exempt: bool) -> Part:
    counts = rule.domain_count.counts
    answers = np.zeros(len(counts) + 1, dtype=np.uint16)
    if isinstance(rule, RequiredCount):
        answers[:-1][(counts <= 0) & (not exempt)] = rule.code
        answers[-1] = rule.code
    else:
        least = 0 if rule.present is None else counts[rule.present].min(initial=_NO_COUNT)
        answers[:-1][counts > rule.most + least] = rule.code
        answers[-1] = rule.elsewhere
    return Part(rule.domain_count.domain, answers)


def pods_by_domain(
    pod: Pod, key: str, fleet: FleetView, selector: LabelSelector | None = None
) -> RuleCount:
    """The pods of `pod`'s namespace that match (None: those of its app) by domain of `key`, each
    once in the whole fleet; `pod` adds itself where it matches.
    """
    return RuleCount(
        fleet.topology.domain(key),
        fleet.topology.count_matching(pod, selector, key),
        more=int(selector is None or selector.matches(pod.labels)),
        by_host=key == HOST_LEVEL,
    )


def normalized_range(raw: Floats) -> Floats:
    """Scale.RANGE: whole numbers, 0 for the least, 100 for the most; 0 for all if they are equal."""
    least = raw.min(initial=np.inf)
    most = raw.max(initial=-np.inf)
    if not most > least:
        return np.zeros(len(raw))
    scores: Floats = np.floor(MAX_SCORE * ((raw - least) / (most - least)))
    return scores
