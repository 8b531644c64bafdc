"""Nominal shares as amounts, and how much of what can be borrowed somebody has borrowed."""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from shared.model.bounds import MAX_AMOUNT
from shared.model.tenant import WEIGHT_ONE, Share

_MEMO_LIMIT = 65_536
WHOLE = 10**9


def limit_of(share: Share, total: int) -> int:
    """A nominal share as an amount: absolute, or a ratio of `total`, rounded down without float
    error.
    """
    if share.absolute is not None:
        return share.absolute
    return _part(share.ratio or 0.0, total)


@lru_cache(_MEMO_LIMIT)
def _part(ratio: float, total: int) -> int:
    # 0.57 is not exactly 57/100 in binary: take the fraction that was meant before rounding down.
    return int(total * Fraction(ratio).limit_denominator(1_000_000))


class FairShare(NamedTuple):
    """Weighted dominant share of what can be borrowed, in billionths; lower is less.

    Zero if and only if nothing is borrowed. `endless`: something is, with weight 0: more than any
    other, and among such ones `billionths` are those without a weight.
    """

    endless: bool
    billionths: int

    @property
    def number(self) -> float:
        """As a fraction of what can be borrowed, per weight; infinity where it is endless."""
        return float("inf") if self.endless else self.billionths / WHOLE


NO_SHARE = FairShare(endless=False, billionths=0)


def fair_share(borrowed: int, lendable: int, weight: int) -> FairShare:
    """The share of one resource: `borrowed` of `lendable` by `weight` (thousandths), rounded up.

    Where nothing can be borrowed (any more), what is borrowed counts as so many times the least.
    """
    if borrowed <= 0:
        return NO_SHARE
    divisor = max(lendable, 1) * (weight or WEIGHT_ONE)
    parts = -(-borrowed * WHOLE * WEIGHT_ONE // divisor)
    return FairShare(weight == 0, min(parts, MAX_AMOUNT))
