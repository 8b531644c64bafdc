"""Network namespaces for the parts of a fleet, lines between them, and windows: ports of one that lead into another."""

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from localfleet.controlplane.process import Component
from tests.service.gateway.relay import Relay

_CLONE_NEWNET = 0x40000000
_START_S = 20.0
ROOT = Path(__file__).parents[2]
MACHINE = f"/proc/{os.getpid()}/ns/net"


class Space:
    """A network namespace with a loopback of its own and nothing else; it lives until `close`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._holder = Component(name, ["unshare", "--net", "sleep", "infinity"], folder / f"{name}.log")
        self._holder.start()
        self.path = f"/proc/{self._holder.pid}/ns/net"
        self._holder.wait_until(lambda: os.stat(self.path).st_ino != os.stat(MACHINE).st_ino, "apart", _START_S)
        subprocess.run([*self.inside, "ip", "link", "set", "lo", "up"], check=True)

    @property
    def pid(self) -> int:
        """Of a process in it."""
        return self._holder.pid

    @property
    def inside(self) -> Sequence[str]:
        """What comes before a command that is to run in it."""
        return ("nsenter", f"--net={self.path}")

    def connect(self, address: str, port: int) -> str:
        """Try a TCP connection from inside: "" if it is made, else why not."""
        found: list[str] = []

        def attempt() -> None:
            _enter(self.path)
            try:
                socket.create_connection((address, port), timeout=5.0).close()
                found.append("")
            except OSError as error:
                found.append(type(error).__name__)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return found[0]

    def close(self) -> None:
        """End it, if nothing else is left in it."""
        self._holder.kill()


class Line:
    """Between two spaces, with a firewall (see tests.real.delay_line); `inner` and `outer` are (space, address)."""

    def __init__(
        self,
        log: Path,
        inner: tuple[Space, str],
        outer: tuple[Space, str],
        *,
        delay_ms: float,
        loss: float,
        port: int,
    ) -> None:
        ends = [word for space, address in (inner, outer) for word in (str(space.pid), address)]
        numbers = [str(delay_ms), "0", str(loss), "1", str(port)]
        command = [sys.executable, "-S", "-m", "tests.real.delay_line", *ends, *numbers]
        self._carrier = Component("line", ["env", f"--chdir={ROOT}", *command], log)
        self._carrier.start()
        self._carrier.wait_until(lambda: "up" in log.read_text(), "up", _START_S)

    def cut(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        self._carrier.signal(signal.SIGUSR1)

    def mend(self) -> None:
        """It carries again."""
        self._carrier.signal(signal.SIGUSR2)

    def close(self) -> None:
        """Both ends go away."""
        self._carrier.kill()


class Window:
    """A port of loopback in one namespace that leads to the same port of loopback in another one."""

    def __init__(self, port: int, here: str, there: str) -> None:
        """`here`, `there`: paths of the namespaces."""
        self._port, self._here, self._there = port, here, there
        self._loop, self._stack = asyncio.new_event_loop(), AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._open())

    async def _open(self) -> None:
        _enter(self._here)  # of this thread alone: a socket stays where it was made
        await self._stack.enter_async_context(Relay(self._port).listening(self._port))
        _enter(self._there)

    def close(self) -> None:
        """Nobody listens any more."""
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


def _enter(path: str) -> None:
    """The calling thread alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(namespace, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {path}")
    finally:
        os.close(namespace)
