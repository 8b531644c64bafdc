"""What processes take, from outside: CPU and resident memory, as the kernel tells them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_HZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Use:
    """Of some processes together: seconds of CPU so far; bytes in memory, pages that several have counted in each
    (`rss`), and in proportion (`pss`).
    """

    cpu: float = 0.0
    rss: int = 0
    pss: int = 0


def use(pids: Iterable[int]) -> Use:
    """One that has ended meanwhile counts nothing."""
    cpu, rss, pss = 0.0, 0, 0
    for pid in pids:
        with suppress(OSError):
            cpu += cpu_s(pid)
            sizes = _sizes(pid)
            rss, pss = rss + sizes["Rss"], pss + sizes["Pss"]
    return Use(cpu, rss, pss)


def cpu_s(pid: int) -> float:
    """Seconds that a process has had of any core, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _HZ


def resident(pid: int, field: str = "VmRSS") -> int:
    """Bytes of it in memory now; `VmHWM`: at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def below(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those they have."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(stat.parent.name))
    left = [pid]
    while left:
        found = parents.get(left.pop(), [])
        yield from found
        left += found


def command(pid: int) -> str:
    """As it was started, or as it calls itself; '' when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _sizes(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: 1024 * int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
