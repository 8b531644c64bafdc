"""Components as processes: their end, with us and without us, and what a failed start tells."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localfleet.controlplane import ports
from localfleet.controlplane.process import Component, ComponentFailedError

RUN = """
import sys, time
from pathlib import Path
from localfleet.controlplane.process import Component
component = Component("sleeper", ["/bin/sh", "-c", "sleep 600 & wait"], Path(sys.argv[1]))
component.start()
print(component.pid, flush=True)
time.sleep(600)
"""


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def await_end(group: int) -> None:
    deadline = time.monotonic() + 10
    while not gone(group):
        assert time.monotonic() < deadline, f"group {group} lives on"
        time.sleep(0.01)


def test_kill_ends_the_whole_group(tmp_path: Path) -> None:
    component = Component("sleeper", ["/bin/sh", "-c", "sleep 600 & wait"], tmp_path / "log")
    component.start()
    group = component.pid

    component.kill()

    assert component.pid == 0
    await_end(group)


def test_a_killed_run_leaves_no_component(tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    group = int(run.stdout.readline())
    assert not gone(group)

    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()

    await_end(group)


def test_a_component_that_ends_before_it_is_ready_is_told_with_its_log(tmp_path: Path) -> None:
    component = Component("broken", ["/bin/sh", "-c", "echo no such flag; exit 3"], tmp_path / "log")
    component.start()

    with pytest.raises(ComponentFailedError, match=r"broken ended with code 3 before ready[\s\S]*no such flag"):
        component.wait_until(lambda: False, "ready", timeout_s=10)
    component.kill()


def test_a_component_that_is_slow_is_told_with_its_log(tmp_path: Path) -> None:
    component = Component("slow", ["/bin/sh", "-c", "echo still at it; sleep 600"], tmp_path / "log")
    component.start()
    component.wait_until(lambda: "still" in component.tail(), "speaking", timeout_s=10)

    with pytest.raises(ComponentFailedError, match=r"slow: not ready after 0 s[\s\S]*still at it"):
        component.wait_until(lambda: False, "ready", timeout_s=0)
    component.kill()


def test_reserved_ports_differ_and_are_kept_until_released() -> None:
    first, second = ports.reserve(3), ports.reserve(3)
    numbers = [port.number for port in (*first, *second)]

    assert len(set(numbers)) == 6
    for port in (*first, *second):
        port.release()


def test_a_component_that_ended_by_itself_is_told_with_its_log_and_one_that_runs_is_not(tmp_path: Path) -> None:
    component = Component("broken", ["/bin/sh", "-c", "echo out of memory; read line; exit 3"], tmp_path / "log")
    assert component.ended() == ""
    slow = Component("slow", ["/bin/sh", "-c", "sleep 600"], tmp_path / "log2")
    slow.start()
    assert slow.ended() == ""
    slow.kill()
    assert slow.ended() == ""

    component.start()
    with pytest.raises(ComponentFailedError):
        component.wait_until(lambda: False, "ready", timeout_s=10)
    assert re.search(r"broken ended with code 3[\s\S]*out of memory", component.ended())
    component.kill()
