"""What a process of the agent asks of its memory, of open files and of the garbage collector."""

import gc
import platform
import resource
import subprocess
import sys

import pytest

from shared.process.limits import allow_open_files, collect_less_often

READS = 200
# Room for 256 KiB a read of a few bytes, as uvloop's TLS reads; prints the page faults of all of them.
READING = f"""
import os, resource, sys
from shared.process.limits import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
out, into = os.pipe()
def read():
    os.write(into, b"x" * 600)
    return os.read(out, 256 * 1024)
read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({READS}):
    read()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", READING, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have no such settings")
def test_reads_find_the_memory_that_earlier_reads_gave_back() -> None:
    assert faults("kept") < READS / 10
    assert faults("as it comes") >= READS, "nothing to mend: then keep_freed_memory can go"


def test_the_limit_of_open_files_is_raised_but_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert allow_open_files(300) == 300
        assert allow_open_files(200) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_garbage_is_looked_for_less_often() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as Python starts
    try:
        collect_less_often()
        assert gc.get_threshold() > (10_000, 10, 10)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
