"""Signals: what is measured of a node, each a share 0..1 of some capacity with an age, known by its
name.

`cpu`, `memory` and `network` are always there, in this order; agents may be configured to tell more
(`disk`, `gpu`, `pressure_cpu`, whatever a source measures), and the dispatcher takes any name. A
node that does not tell a signal has none, which is never the same as 0.
"""

import re
from collections.abc import Iterable

from shared.model.axis import Axis

CPU_SIGNAL = "cpu"
MEMORY_SIGNAL = "memory"
NETWORK_SIGNAL = "network"
BASE_SIGNALS = (CPU_SIGNAL, MEMORY_SIGNAL, NETWORK_SIGNAL)
MAX_SIGNALS = 32  # of a fleet: each costs 12 bytes a node
NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"
_NAME = re.compile(NAME_PATTERN)


def is_signal_name(name: str) -> bool:
    """Whether a signal may be called so: lower case letters, digits and underscores, 40 at most."""
    return _NAME.match(name) is not None


class SignalAxis(Axis):
    """The order of signals; new ones append, up to MAX_SIGNALS."""

    def __init__(self, names: Iterable[str] = BASE_SIGNALS) -> None:
        super().__init__(names)

    def intern(self, name: str) -> int | None:
        """Column of `name`, appended if new; None if it is no name or there are too many: agents
        are not trusted.
        """
        found = self._column.get(name)
        if found is None and len(self.names) < MAX_SIGNALS and is_signal_name(name):
            return self.append(name)
        return found
