"""A line between two network namespaces with delay, jitter and loss, carried in user space: netem is in few kernels.

    python -S -m tests.real.delay_line PID IP PID IP DELAY_MS JITTER_MS LOSS SEED [PORT]

A TUN device in the namespace of each process, with its address in a /30. DELAY_MS is of one way, JITTER_MS is drawn
evenly on both sides of it, LOSS is the share 0..1 of packets that go nowhere. Prints "up" once it carries. With PORT
nothing passes but connections from the first end to that port of the second. SIGUSR1 cuts it, SIGUSR2 mends it.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress

from tests.real.firewall import Firewall

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_DEVICES = "wan%d"  # the kernel numbers them
_LARGEST = 65536


def _tun(pid: str, address: str) -> int:
    """A TUN device in the namespace of a process; packets are read from and written to what is returned."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    made = fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", _DEVICES.encode(), _IFF_TUN | _IFF_NO_PI))
    device = made[:16].rstrip(b"\0").decode()
    for words in (("addr", "add", f"{address}/30", "dev", device), ("link", "set", device, "up")):
        subprocess.run(["ip", *words], check=True)
    return tun


class Line:
    """What it does to packets: `loss` of them go nowhere, all of them while it is `cut`, and what the firewall bars."""

    def __init__(self, loss: float, dice: random.Random, firewall: Firewall | None) -> None:
        self.cut = False
        self._loss, self._dice, self._firewall = loss, dice, firewall

    def obey(self) -> None:
        """Heed the signals."""
        for number, cut in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
            signal.signal(number, lambda *_, cut=cut: setattr(self, "cut", cut))

    def passes(self, packet: bytes, *, outward: bool) -> tuple[bool, bytes]:
        """Whether it arrives, and else what its sender is told at once; b"" is nothing."""
        if self.cut or self._dice.random() < self._loss:
            return False, b""
        if self._firewall is None or self._firewall.lets(packet, outward=outward):
            return True, b""
        return False, self._firewall.refusal(packet)


def carry(one: int, other: int, delay_s: float, jitter_s: float, line: Line, dice: random.Random) -> None:
    """Until the process is ended."""
    far_end, queue, number = {one: other, other: one}, list[tuple[float, int, int, bytes]](), 0
    while True:
        now = time.perf_counter()
        while queue and queue[0][0] <= now:
            with suppress(BlockingIOError):  # a full device drops, as routers do
                os.write(queue[0][2], queue[0][3])
            heapq.heappop(queue)
        wait = max(0.0, queue[0][0] - time.perf_counter()) if queue else None
        for end in select.select([one, other], [], [], wait)[0]:
            came = time.perf_counter()
            with suppress(BlockingIOError):
                packet = os.read(end, _LARGEST)
                arrives, told = line.passes(packet, outward=end == one)
                if told:
                    os.write(end, told)
                if arrives:
                    number += 1
                    due = came + max(0.0, delay_s + dice.uniform(-jitter_s, jitter_s))
                    heapq.heappush(queue, (due, number, far_end[end], packet))


def main(pid: str, address: str, other_pid: str, other_address: str, *numbers: str) -> None:
    """The command."""
    delay_ms, jitter_ms, loss, seed, *port = map(float, numbers)
    dice = random.Random(int(seed))
    line = Line(loss, dice, Firewall(int(port[0])) if port else None)
    line.obey()
    with suppress(PermissionError):  # else a busy machine adds delays of its own
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    ends = _tun(pid, address), _tun(other_pid, other_address)
    print("up", flush=True)
    carry(*ends, delay_ms / 1e3, jitter_ms / 1e3, line, dice)


if __name__ == "__main__":
    main(*sys.argv[1:])
