"""Free ports on 127.0.0.1 that stay one's own, so that a component can be restarted on its port.

They lie below the range that the kernel gives to outgoing connections, and a locked file for each
holds it against other planes of this machine as long as the plane lives.
"""

import fcntl
import os
import random
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_RANGE = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Port:
    """A port number with the lock that keeps it; `release` gives it back."""

    number: int
    lock: IO[bytes]

    def release(self) -> None:
        """Give it back."""
        self.lock.close()


def reserve(count: int) -> list[Port]:
    """That many different ports, free now and kept."""
    ports: list[Port] = []
    folder = Path(tempfile.gettempdir()) / f"global-dispatcher-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in random.sample(_RANGE, len(_RANGE)):
        if len(ports) == count:
            break
        port = _lock(folder / str(number), number)
        if port is not None:
            ports.append(port)
    return ports


def _lock(path: Path, number: int) -> Port | None:
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            # As servers do: a port whose connections linger in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", number))
    except OSError:
        lock.close()
        return None
    return Port(number, lock)
