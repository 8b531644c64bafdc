"""Under which name an executor stands for the Lease of its cluster.

One that begins where another has ended, such as a container that is started again in its pod, has
the same name, and so the Lease, at once. That the other has ended shows a file lock: the kernel
takes it off with the process.
"""

import fcntl
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

from shared.kube.elector import new_identity
from shared.process.logs import state_folder

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_locked: list[IO[str]] = []  # for as long as this process lives


def lasting_identity(cluster: str, folder: Path | None = None) -> str:
    """That of the last executor of the cluster here, if it has ended; one that is new, while it
    lives, or where no file can be kept, or the file comes from another machine, or from before this
    one was started.
    """
    machine = _machine()
    if not machine:
        return new_identity()
    fresh = f"{machine}_{uuid.uuid4()}"
    with suppress(OSError):
        where = folder or state_folder() / "executors"
        where.mkdir(parents=True, exist_ok=True)
        file = (where / cluster).open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return fresh
        _locked.append(file)
        file.seek(0)
        known = file.read()
        if known.startswith(f"{machine}_"):
            return known
        file.truncate(0)
        file.write(fresh)
        file.flush()
    return fresh


def _machine() -> str:
    """The name of the host, or pod, and a part of that of its machine's last start; '' where it has
    none.
    """
    with suppress(OSError):
        return f"{socket.gethostname()}_{_BOOT.read_text()[:8]}"
    return ""
