"""Compiled kernels for fleets that are worth them, made or loaded while NumPy answers; and fewer
garbage collections.

The first process on a machine compiles for some seconds of one core; small fleets, such as the
demo's, never do.
"""

import asyncio
import gc
from collections.abc import Callable
from time import perf_counter

import structlog

from dispatcher.scheduling.framework.kernels import compile_all

LOG = structlog.get_logger("dispatcher.kernels")
WORTH_IT = 1000  # nodes
_LOOK_S = 0.5


async def compile_when_large(nodes: Callable[[], int]) -> None:
    """Wait until the fleet has `WORTH_IT` nodes, then compile in a thread; ends when that is done."""
    while True:
        if nodes() >= WORTH_IT:
            break
        await asyncio.sleep(_LOOK_S)
    await asyncio.to_thread(load_kernels)


def load_kernels() -> None:
    """Compile all kernels, or load them, and say what came of it: a compiler that fails costs
    speed, not decisions.
    """
    started = perf_counter()
    try:
        found = compile_all()
    except Exception:
        LOG.exception("kernels cannot be compiled: NumPy decides")
        return
    LOG.info(
        "compiled kernels are in use" if found else "numba is missing: NumPy decides",
        s=perf_counter() - started,
    )


def collect_less_often() -> None:
    """Look for garbage in cycles after 10,000 new objects instead of 700, and seldom at old ones.

    The fleet is looked at in vain: a third of the time, measured while deciding 50,000 pods of one
    template. Decisions make no cycles to speak of. More new objects at a time cost the same in all,
    but one look takes longer then, and in it nothing is decided: at 100,000 that have outlived a
    first look, 47 ms after a burst of pods of many templates, 120 beside other processes. So that
    second look is at 30,000.
    """
    gc.freeze()
    gc.set_threshold(10_000, 1, 2_000)


def collect_no_more_of(nodes: int) -> None:
    """So many nodes have been listed: where these are many, never look for garbage among the
    objects of now.

    While reports are taken in, about as many objects end as begin, so Python looks at none of the
    new ones. It would at all of them at once, while pods are decided: for 300 ms with a million
    nodes.
    """
    if nodes >= WORTH_IT:
        gc.freeze()


def collect_ended_terms() -> None:
    """Let go of the fleets of terms that have ended, which were left out; all else of now stays
    out.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
