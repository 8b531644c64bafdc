"""What processes take is read from outside."""

import subprocess
import sys

from benchmarks.fleet.processes import cpu_s, resident

HOLDS = "held = bytearray(b'x') * 50_000_000; print('ready', flush=True); input()"


def test_the_memory_and_the_cpu_of_a_process_are_counted_while_it_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert 50_000_000 < resident(child.pid) <= resident(child.pid, "VmHWM")
        assert cpu_s(child.pid) > 0
        child.kill()
