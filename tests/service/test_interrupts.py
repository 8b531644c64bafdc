"""Interruptions before the loop runs, and the end of processes that outlive their parents."""

import os
import signal
import subprocess
import sys

import pytest

from dispatcher.service.agents_on_ray.descendants import descendants, end
from dispatcher.service.interrupts import interruptible, uninterrupted

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


@BOTH
def test_a_signal_interrupts_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@BOTH
def test_a_start_is_finished_before_it_is_interrupted(number: signal.Signals) -> None:
    finished = []

    def start() -> None:
        with uninterrupted():
            os.kill(os.getpid(), number)
            finished.append(True)

    with interruptible(), pytest.raises(KeyboardInterrupt):
        start()
    assert finished


def test_only_processes_that_mention_the_text_and_those_below_them_are_found_and_ended() -> None:
    inner = "import time; print('up', flush=True); time.sleep(60)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    ours = subprocess.Popen([sys.executable, "-c", outer, "mark-4711"], stdout=subprocess.PIPE, text=True)
    other = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE, text=True)
    assert ours.stdout is not None
    assert other.stdout is not None
    try:
        assert ours.stdout.readline() == other.stdout.readline() == "up\n"
        found = descendants("mark-4711")
        assert len(found) == 2
        assert found[0].pid == ours.pid
        end(found, patience_s=0.0)
        assert ours.wait(10) == -signal.SIGKILL
        assert other.poll() is None
        assert descendants("mark-4711") == []
    finally:
        other.kill()
        other.wait(10)
        ours.stdout.close()
        other.stdout.close()
