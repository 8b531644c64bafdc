"""What is wrong with the rules that a policy states: compiled loops take numbers and columns as they
are declared, and ask nothing.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.fleet_view import SmallInts
from shared.model.reasons import ReasonTable

_MOST = 2**62  # pods that a rule may let in; sums with what is counted stay 64 bit wide
_MOST_MORE = 2**31  # that one pod more may add, in whatever weight
_MOST_POINTS = 2.0**62


def flaw_of(rules: object, hosts: SmallInts, reasons: ReasonTable) -> str:
    """What keeps rules from being judged on rows of these `hosts` (`domain(HOST_LEVEL)`), in words;
    '' if nothing does. Raises nothing, whatever `rules` is.
    """
    return next(_flaws(rules, hosts, reasons), "")


def _flaws(rules: object, hosts: SmallInts, reasons: ReasonTable) -> Iterator[str]:
    """The flaws; each may rest on that there is none before it."""
    if not isinstance(rules, CountRules):
        yield f"rules must be CountRules, not {type(rules).__name__}"
        return
    if not _are(rules.refusals, MaxCount | RequiredCount):
        yield "refusals must be a sequence of MaxCount and RequiredCount"
    if not _are(rules.score_terms, ScoreTerm):
        yield "score_terms must be a sequence of ScoreTerm"
    for one in (*rules.refusals, *rules.score_terms):
        yield from _count_flaws(one.domain_count, hosts)
        yield from _term_flaws(one) if isinstance(one, ScoreTerm) else _refusal_flaws(one, reasons)
    if not isinstance(rules.scale, Scale) or not _is_real(rules.base):
        yield "scale must be a Scale, and base a finite number"
    if not isinstance(rules.void, float | int) or math.isnan(rules.void):
        yield "void must be a number"


def _count_flaws(count: object, hosts: SmallInts) -> Iterator[str]:
    n = len(hosts)
    if not isinstance(count, RuleCount):
        yield f"a domain_count must be a RuleCount, not {type(count).__name__}"
        return
    if not _is_column(count.domain, n, "i"):
        yield f"the domain of a count must be [{n}] whole numbers"
    counts = count.counts
    if not isinstance(counts, np.ndarray) or counts.dtype != np.int64 or counts.ndim != 1:
        yield "counts of a rule must be [domains] int64"
    if count.by_host and len(counts) < n:
        yield f"a count by host is about {len(counts)} rows of {n}"
    if count.by_host and count.domain is not hosts and not np.array_equal(count.domain, hosts):
        yield "the domain of a count by host must be fleet.topology.domain('host')"
    if not _is_whole(count.more, _MOST_MORE):
        yield f"more must be a whole number up to {_MOST_MORE}"
    if count.counted is not None and not _is_column(count.counted, n, "iub"):
        yield f"counted is about {np.shape(count.counted)} rows of {n}"


def _refusal_flaws(rule: MaxCount | RequiredCount, reasons: ReasonTable) -> Iterator[str]:
    if not _is_code(rule.code, reasons):
        yield f"code {rule.code!r} has no reason: take it from fleet.reasons.code(...)"
    if isinstance(rule, RequiredCount):
        return
    if not _is_code(rule.elsewhere, reasons):
        yield f"elsewhere {rule.elsewhere!r} has no reason: take it from fleet.reasons.code(...)"
    if not _is_whole(rule.most, _MOST):
        yield f"most must be a whole number up to {_MOST}"
    if rule.present is not None:
        domains = len(rule.domain_count.counts)
        if not _is_column(rule.present, domains, "b"):
            yield f"present is about {np.shape(rule.present)} domains of {domains}"


def _term_flaws(term: ScoreTerm) -> Iterator[str]:
    if not (_is_real(term.factor) and _is_real(term.offset) and _is_real(term.elsewhere)):
        yield "factor, offset and elsewhere of a score term must be finite numbers"
    if term.table is not None:
        domains = len(term.domain_count.counts)
        if not _is_column(term.table, domains, "fi"):
            yield f"table is about {np.shape(term.table)} domains of {domains}"
        if not np.isfinite(term.table).all():
            yield "table must be of finite numbers"


def _are(some: object, kind: Any) -> bool:
    return isinstance(some, Sequence) and all(isinstance(one, kind) for one in some)


def _is_whole(number: object, most: int) -> bool:
    return isinstance(number, int | np.integer) and -most <= int(number) <= most


def _is_real(number: object) -> bool:
    if not isinstance(number, float | int | np.floating | np.integer):
        return False
    return bool(-_MOST_POINTS <= number <= _MOST_POINTS)


def _is_column(array: object, length: int, kinds: str) -> bool:
    return isinstance(array, np.ndarray) and array.shape == (length,) and array.dtype.kind in kinds


def _is_code(code: object, reasons: ReasonTable) -> bool:
    return isinstance(code, int | np.integer) and reasons.knows(int(code))
