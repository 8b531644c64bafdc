"""What processes take, from outside: CPU and resident memory, as the kernel tells them."""

import os
from pathlib import Path

_HZ = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds that a process has had of any core, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _HZ


def resident(pid: int, field: str = "VmRSS") -> int:
    """Bytes of it in memory now; `VmHWM`: at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024
