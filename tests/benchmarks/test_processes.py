"""What processes take is read from outside, and those that have ended count nothing."""

import os
import subprocess
import sys

from benchmarks.fleet.processes import Use, below, command, use

HOLDS = "held = bytearray(b'x') * 50_000_000; print('ready', flush=True); input()"


def test_the_memory_of_a_process_is_counted_while_it_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert child.pid in below(os.getpid())
        assert command(child.pid).startswith(sys.executable)
        taken = use([child.pid])
        assert 50_000_000 < taken.pss <= taken.rss
        child.kill()
    assert use([child.pid]) == Use()
    assert command(child.pid) == ""


def test_processes_below_are_those_of_children_too() -> None:
    shell = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}])"]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        found = [*below(child.pid)]
        assert len(found) == 1
        assert use(found).rss > 50_000_000
        child.communicate(b"\n")
