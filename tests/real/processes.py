"""The processes below the dispatcher: Ray's and the agents. Found by descent, so that no other Ray is met."""

import os
from collections.abc import Iterator
from pathlib import Path


class Tree:
    """A process and all below it."""

    def __init__(self, root: int) -> None:
        self.root = root

    def pids(self) -> list[int]:
        """Those that live now, the root first."""
        children: dict[int, list[int]] = {}
        for pid, fields in _stats():
            children.setdefault(int(fields[1]), []).append(pid)
        found = [self.root]
        for pid in found:
            found += children.get(pid, ())
        return found

    def named(self, text: str) -> list[int]:
        """Those whose program or title starts with a text: "raylet", "gcs_server"."""
        return [pid for pid in self.pids() if _program(pid).startswith(text)]

    def cpu_seconds(self) -> float:
        """User and system time so far, children that ended and were waited for included."""
        tree = set(self.pids())
        ticks = sum(sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in tree)
        return ticks / os.sysconf("SC_CLK_TCK")


def _stats() -> Iterator[tuple[int, list[str]]]:
    """(pid, the fields of proc(5)'s stat after the name: state, parent, ...)."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        yield int(entry.name), text.rpartition(")")[2].split()


def _program(pid: int) -> str:
    try:
        first = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return ""
    return os.path.basename(first.decode(errors="replace"))
