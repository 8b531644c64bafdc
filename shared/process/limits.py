"""Limits of a process: one kept connection to each kubelet of a big cluster needs more files than
usual, and a cache of many objects fewer collections. What is read piece by piece needs memory that
is there already.
"""

import ctypes
import gc
import resource

import structlog

LOG = structlog.get_logger("agent.limits")
WANTED_FILES = 65_536
# glibc's mallopt: its names and what is set, bytes.
_TRIM_THRESHOLD = (-1, 8 << 20)
_MMAP_THRESHOLD = (-3, 1 << 20)


def allow_open_files(wanted: int = WANTED_FILES) -> int:
    """Raise the soft limit of open files towards `wanted`, as far as the hard limit allows; the
    limit that holds.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError) as error:
        LOG.warning(
            "cannot raise the limit of open files", limit=soft, wanted=target, problem=str(error)
        )
        return soft
    return target


def collect_less_often() -> None:
    """Look for garbage in cycles after 50,000 new objects instead of 700: what is cached is looked
    at in vain.

    Measured while binding: 8 % of the agent's CPU. Nothing in the loops makes cycles to speak of.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def keep_freed_memory() -> None:
    """Take room below 1 MiB from the heap, of which up to 8 MiB stay when they are free; nothing
    without glibc.

    uvloop's TLS makes room for 256 KiB for each read and gives most of it back at once: glibc maps
    and unmaps such pieces, and never learns better, since what is freed is small by then. Measured:
    40 of 100 us of CPU a call.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for option, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        mallopt(option, value)
