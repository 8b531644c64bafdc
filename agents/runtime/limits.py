"""Limits of the agent's process: one kept connection to each kubelet of a big cluster needs more files than usual."""

import resource

import structlog

LOG = structlog.get_logger("agent.limits")
WANTED_FILES = 65_536


def allow_open_files(wanted: int = WANTED_FILES) -> int:
    """Raise the soft limit of open files towards `wanted`, as far as the hard limit allows; the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError) as error:
        LOG.warning("cannot raise the limit of open files", limit=soft, wanted=target, problem=str(error))
        return soft
    return target
