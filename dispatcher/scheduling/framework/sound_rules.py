"""Whether what a policy states is a set of rules: compiled loops take numbers and columns as they are
declared, and ask nothing.
"""

import math
from collections.abc import Sequence
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
from shared.model.reasons import ReasonTable

_MOST = 2**62  # pods that a rule may let in; sums with what is counted stay 64 bit wide
_MOST_MORE = 2**31  # that one pod more may add, in whatever weight
_MOST_POINTS = 2.0**62


def is_sound(rules: object, n: int, reasons: ReasonTable) -> bool:
    """Whether these are rules about `n` rows, with codes of `reasons`."""
    return (
        isinstance(rules, CountRules)
        and _are(rules.refusals, MaxCount | RequiredCount)
        and _are(rules.score_terms, ScoreTerm)
        and all(_refuses(one, n, reasons) for one in rules.refusals)
        and all(_scores(one, n) for one in rules.score_terms)
        and isinstance(rules.scale, Scale)
        and _is_real(rules.base)
        and isinstance(rules.void, float | int)
        and not math.isnan(rules.void)
    )


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


def _counts(one: object, n: int) -> bool:
    return (
        isinstance(one, RuleCount)
        and _is_column(one.domain, n, "i")
        and np.ndim(one.counts) == 1
        and _is_column(one.counts, len(one.counts), "i")
        and _is_whole(one.more, _MOST_MORE)
        and (one.counted is None or _is_column(one.counted, n, "iub"))
    )


def _refuses(one: MaxCount | RequiredCount, n: int, reasons: ReasonTable) -> bool:
    if not _counts(one.domain_count, n) or not _is_code(one.code, reasons):
        return False
    if isinstance(one, RequiredCount):
        return True
    present = one.present
    return (
        _is_whole(one.most, _MOST)
        and _is_code(one.elsewhere, reasons)
        and (
            present is None
            or (_is_column(present, len(one.domain_count.counts), "b") and bool(present.any()))
        )
    )


def _is_code(code: object, reasons: ReasonTable) -> bool:
    return isinstance(code, int | np.integer) and reasons.knows(int(code))


def _scores(one: ScoreTerm, n: int) -> bool:
    """A term with a table has no count: neither hosts nor a factor."""
    count, table = one.domain_count, one.table
    return (
        _counts(count, n)
        and all(_is_real(number) for number in (one.factor, one.offset, one.elsewhere))
        and (
            table is None
            or (
                _is_column(table, len(count.counts), "fi")
                and bool(np.isfinite(table).all())
                and one.factor == 0.0
                and not count.by_host
            )
        )
    )
