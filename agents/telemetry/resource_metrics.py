"""What a kubelet tells of its pods at /metrics/resource: the counters that metrics-server reads,
with their times.

Not the summary of `kubelet`: that has whole seconds, which makes a rate over 15 s wrong by up to 7
%.
"""

import re
from collections.abc import Callable
from math import isfinite

from agents.telemetry.source import SourceError
from shared.messages.usage import CONTAINER_NAME, MAX_CONTAINERS, ContainerUse, Use

PATH = "/metrics/resource"
Pods = dict[tuple[str, str], tuple[Use, tuple[ContainerUse, ...]]]  # by (namespace, name)
_CPU = "cpu_usage_seconds_total"
_MEMORY = "memory_working_set_bytes"
_STARTED = "start_time_seconds"
# Written by Go's client library: one space between the parts, and names of Kubernetes need no
# escape.
_LINE = re.compile(
    rb"^(?:container|pod)_(cpu_usage_seconds_total|memory_working_set_bytes|start_time_seconds)"
    rb"\{([^}\n]{0,2000})\} ([0-9.e+-]{1,40})(?: ([0-9]{1,15}))?$",
    re.MULTILINE,
)
_LABEL = re.compile(r'(?:^|,)(\w{1,63})="([^"\\]*)"')  # linear in what a kubelet may write
_Told = dict[str, tuple[float, int]]  # by metric: value, milliseconds (0: no time)


def read_pods(body: bytes, wanted: Callable[[str, str], bool]) -> Pods:
    """The pods of a page that are `wanted` (namespace, name), with those numbers that are told of
    them.

    Left out is what a Usage may not hold, as it would take all others of the answer with it:
    numbers below 0 or without end, containers of another name than those can have, and those beyond
    MAX_CONTAINERS of a pod.

    >>> page = b'container_cpu_usage_seconds_total{container="c",namespace="n",pod="p"} 1.5 1700000000123'
    >>> read_pods(page, lambda namespace, name: True)[("n", "p")][1][0].use
    Use(cpu_s=1.5, cpu_ms=1700000000123, memory=None, memory_ms=0)
    """
    told: dict[
        tuple[str, str], dict[str, _Told]
    ] = {}  # by pod, then by container; '' is the pod itself
    try:
        for metric, labels, value, millis in _LINE.findall(body):
            label = dict(_LABEL.findall(labels.decode("ascii")))
            key, container, number = (
                (label["namespace"], label["pod"]),
                label.get("container", ""),
                float(value),
            )
            if isfinite(number) and number >= 0 and _may_be(container) and wanted(*key):
                told.setdefault(key, {}).setdefault(container, {})[metric.decode("ascii")] = (
                    number,
                    int(millis or 0),
                )
    except (ValueError, KeyError) as error:  # UnicodeDecodeError is a ValueError
        raise SourceError(f"{PATH} cannot be read: {error!r}"[:200]) from None
    return {key: _pod(containers) for key, containers in told.items()}


def _pod(told: dict[str, _Told]) -> tuple[Use, tuple[ContainerUse, ...]]:
    containers = tuple(
        ContainerUse(name, _use(one), one[_STARTED][0] if _STARTED in one else None)
        for name, one in told.items()
        if name
    )[:MAX_CONTAINERS]
    return _use(told.get("", {})), containers


def _may_be(container: str) -> bool:
    return not container or CONTAINER_NAME.fullmatch(container) is not None


def _use(told: _Told) -> Use:
    cpu = told.get(_CPU, (None, 0))
    memory = told.get(_MEMORY, (None, 0))
    return Use(cpu[0], cpu[1], memory[0], memory[1])
