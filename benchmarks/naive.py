"""The plain way, for comparison in the same run: for each pod, a Python loop over all nodes; same
fit, same scores.

Fit, least allocated, balanced allocation and live CPU headroom only: less work a node than the
profile does.
"""

from collections.abc import Sequence
from time import process_time

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo


def naive_rate(fleet: FleetState, pods: Sequence[PodInfo]) -> float:
    """Decisions a second of the loop."""
    nodes = [
        [row, int(fleet.allocatable[0, row]), int(fleet.allocatable[1, row]), int(fleet.requested[0, row]),
         int(fleet.requested[1, row]), float(fleet.signals.used("cpu")[row])]
        for row in range(fleet.n)
    ]  # fmt: skip
    start = process_time()
    for placed in pods:
        cpu, memory = placed.pod.requests["cpu"], placed.pod.requests["memory"]
        best = max(nodes, key=lambda node: _score(node, cpu, memory))
        best[3] += cpu
        best[4] += memory
    return len(pods) / (process_time() - start)


def _score(node: list[float], cpu: int, memory: int) -> float:
    _, cpu_all, memory_all, cpu_used, memory_used, load = node
    cpu_share, memory_share = (cpu_used + cpu) / cpu_all, (memory_used + memory) / memory_all
    if cpu_share > 1 or memory_share > 1:
        return -1.0
    least = 50 * (2 - cpu_share - memory_share)
    balanced = 100 - 50 * abs(cpu_share - memory_share)
    return least + balanced + 100 * (1 - load)
