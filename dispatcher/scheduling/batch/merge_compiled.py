"""The merge of `merge_kernel` as machine code: one function with its steps compiled into it, kept
on disk.
"""

import hashlib
from collections.abc import Callable
from inspect import getsource
from types import FunctionType
from typing import Any

from dispatcher.scheduling.batch import merge_kernel
from dispatcher.scheduling.batch.merge_tables import (
    AT,
    BUCKET_UNKNOWN,
    CANDIDATE_UNKNOWN,
    DONE,
    NO_PLACE,
    OPEN_SET_CHANGED,
    RENORMALIZE,
    REQUIRED_COUNT,
    TOO_FEW,
    WANTED,
    Brought,
    Buckets,
    Candidates,
    Counts,
    Plugins,
    Rules,
    Trace,
    blank,
)
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.framework import MAX_SCORE
from dispatcher.scheduling.framework.domain_counts import Scale, on_scale
from dispatcher.scheduling.framework.kernels import Kernel, entered, kept

# In the order in which they call each other: a step is compiled with those before it.
_STEPS = (
    merge_kernel.verdict,
    merge_kernel.refuse,
    merge_kernel.mark_open,
    merge_kernel.has_all_domains,
    merge_kernel.size_of,
    merge_kernel.add_term,
    merge_kernel.score,
    merge_kernel.ends_of_range,
    merge_kernel.ends_of_costs,
    merge_kernel.normalize,
    merge_kernel.beats,
    merge_kernel.trace_choice,
    merge_kernel.pick,
    merge_kernel.lacks,
    merge_kernel.rise,
    merge_kernel.count,
    merge_kernel.better,
    merge_kernel.join,
    merge_kernel.book,
)


class _Merge(Kernel):
    """The merge with its steps compiled into it."""

    def __init__(self) -> None:
        super().__init__(merge_kernel.merge, "")

    def _compiled(self, numba: Any) -> Any:
        """The loop, compiled; its steps are part of it, and nobody calls them from outside."""

        def own(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
            copy = FunctionType(function.__code__, known, function.__name__)
            copy.__module__ = function.__module__
            copy.__qualname__ = name or function.__qualname__
            return copy

        known = dict(vars(merge_kernel))  # in which the steps find each other compiled
        for step in (on_scale, *_STEPS):
            compiled = numba.njit(
                error_model="numpy",
                no_cfunc_wrapper=True,
                no_cpython_wrapper=True,
                forceinline=True,
            )
            known[step.__name__] = compiled(step if step is on_scale else own(step))
        # The cache looks at the file of the loop alone: a name of its own for all else that is
        # compiled in.
        fast = kept(numba, own(merge_kernel.merge, f"merge_{_digest()}"), no_cfunc_wrapper=True)
        fast.compile(tuple(numba.typeof(one) for one in blank()))
        return fast


def _digest() -> str:
    """Tells apart what is compiled in from elsewhere."""
    shapes = [one._fields for one in (Buckets, Counts, Rules, Plugins, Candidates, Brought, Trace)]
    constants = (
        AT,
        WANTED,
        RENORMALIZE,
        REQUIRED_COUNT,
        DONE,
        NO_PLACE,
        CANDIDATE_UNKNOWN,
        BUCKET_UNKNOWN,
        OPEN_SET_CHANGED,
        TOO_FEW,
        GRID,
        MAX_SCORE,
    )
    return hashlib.blake2b(
        repr((shapes, constants, list(Scale), getsource(on_scale))).encode(), digest_size=6
    ).hexdigest()


MERGE = entered(_Merge())
