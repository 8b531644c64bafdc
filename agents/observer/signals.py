"""Which signals are told of a node, and what each is made of: a table, so that a new one is a line
of configuration.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.observer.seen import NodeTarget
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL

# measures
CPU = "cpu"
MEMORY = "memory"
RECEIVE = "network_receive"
TRANSMIT = "network_transmit"
DISK = "disk"
PRESSURE_CPU = "pressure_cpu"
PRESSURE_MEMORY = "pressure_memory"
PRESSURE_IO = "pressure_io"
DISK_BUSY = "disk_busy"
GPU = "gpu"
GPU_MEMORY = "gpu_memory"
# bytes/s in each direction; what full means for the network, and no load itself
LINK_SPEED = "link_speed"
OF_CPU = "cpu"
OF_MEMORY = "memory"
OF_BANDWIDTH = "bandwidth"


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal: the largest of the measures `of`, as a share of `per`.

    `per`: OF_CPU (cores), OF_MEMORY (bytes), OF_BANDWIDTH (bytes/s) of the node, or a plain number.
    `smoothed`: a moving average over the agent's time constant.
    """

    name: str
    of: tuple[str, ...]
    per: str | float = 1.0
    smoothed: bool = False

    def capacity(self, target: NodeTarget) -> float:
        """What counts as full on a node, 0 unknown."""
        if isinstance(self.per, str):
            return {
                OF_CPU: target.cpu / 1000,
                OF_MEMORY: target.memory,
                OF_BANDWIDTH: target.bandwidth,
            }[self.per]
        return self.per


BASE = (
    Signal(CPU_SIGNAL, (CPU,), OF_CPU, smoothed=True),
    Signal(MEMORY_SIGNAL, (MEMORY,), OF_MEMORY),
    Signal(NETWORK_SIGNAL, (RECEIVE, TRANSMIT), OF_BANDWIDTH, smoothed=True),
)


def with_base(more: Iterable[Signal]) -> tuple[Signal, ...]:
    """The signals that are always told, and `more`; one of the same name takes the place of a base
    one.
    """
    return tuple({signal.name: signal for signal in (*BASE, *more)}.values())
