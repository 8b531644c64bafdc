"""Arithmetic of whole numbers as kube-scheduler's scores have it, over columns: exact, and as fast
as floats are.
"""

import numpy as np

from dispatcher.scheduling.framework import MAX_SCORE, Floats, Ints
from shared.model.resources import MAX_QUANTITY

# Below this, 100 * part is exact in a double, and its correctly rounded quotient never reaches the
# next whole number.
EXACT = 2**46
_SHIFT = 8  # what would wrap at 64 bits is told apart a little less finely
_NO_WRAP = 2**56


def percent(part: Ints, whole: Ints) -> Floats:
    """[n] floor(100 * part / whole) where 0 <= part <= whole and whole > 0; what it says elsewhere
    has no meaning.
    """
    if whole.max(initial=0) < EXACT:
        # Rows where `part` passes `whole` may be inexact: they have no meaning.
        quotient: Floats = np.floor(100.0 * part / np.maximum(whole, 1))
        return quotient
    shift = np.where(whole < _NO_WRAP, 0, _SHIFT)
    parts = part >> shift
    wholes = np.maximum(whole >> shift, 1)
    coarse: Floats = (100 * np.minimum(parts, wholes) // wholes).astype(np.float64)
    return coarse


def percent_of_most(raw: Floats) -> Floats:
    """[n] floor(100 * raw / the largest), of whole numbers from 0 up; all 0 if that is 0."""
    most = raw.max(initial=0.0)
    scores: Floats = np.floor(raw * MAX_SCORE / most) if most > 0 else np.zeros_like(raw)
    return scores


def plus(column: Ints, amount: int) -> Ints:
    """[n] column + amount, for quantities up to MAX_QUANTITY each, without a wrap."""
    total: Ints = (
        column + amount if amount < MAX_QUANTITY else np.minimum(column, MAX_QUANTITY - 1) + amount
    )
    return total
