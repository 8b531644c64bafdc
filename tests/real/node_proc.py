"""A /proc of one node for node_exporter: what the processes of one network namespace use, as if they had a machine.

    python -S tests/real/node_proc.py NAMESPACE FOLDER CORES MEMORY

NAMESPACE is a path such as /proc/PID/ns/net. Writes `stat` and `meminfo` into FOLDER twice a second, as proc(5) has
them: of CORES (a fraction will do) what these processes left is idle, of MEMORY bytes what they do not hold is free.
"""

import os
import sys
import time
from pathlib import Path

_TICKS = 100  # a second: USER_HZ, which node_exporter takes for granted
_PAUSE_S = 0.5


def used(namespace: str, ticks: dict[tuple[str, str], int]) -> int:
    """Bytes that processes of the namespace hold now; their CPU time so far goes to `ticks`, by PID and start time."""
    held = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(f"{entry.path}/ns/net") != namespace:
                continue
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[entry.name, fields[19]] = int(fields[11]) + int(fields[12])
        held += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return held


def put(file: Path, text: str) -> None:
    """As a whole: nobody reads half of it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def main(path: str, folder: str, cores: str, memory: str) -> None:
    """Until the process is ended."""
    namespace, ticks = os.readlink(path), dict[tuple[str, str], int]()
    busy, idle, before = 0, 0.0, time.monotonic()
    while True:
        held, now = used(namespace, ticks), time.monotonic()
        more, busy = sum(ticks.values()) - busy, sum(ticks.values())
        idle += max(0.0, (now - before) * float(cores) * _TICKS - more)
        before = now
        row = f"{busy} 0 0 {idle:.0f} 0 0 0 0 0 0"
        put(Path(folder, "stat"), f"cpu  {row}\ncpu0 {row}\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n")
        total, free = int(memory) // 1024, max(0, int(memory) - held) // 1024
        put(Path(folder, "meminfo"), f"MemTotal: {total} kB\nMemFree: {free} kB\nMemAvailable: {free} kB\n")
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
