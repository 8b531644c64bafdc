"""What a process of the agent asks of its memory."""

import platform
import subprocess
import sys

import pytest

READS = 200
# Room for 256 KiB a read of a few bytes, as uvloop's TLS reads; prints the page faults of all of them.
READING = f"""
import os, resource, sys
from agents.runtime.limits import keep_freed_memory
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
