"""A way from an agent to its API server that can be cut: through a network namespace, with packets that go nowhere.

    agent -> 10.213.N.2 (relay in the namespace) -> 10.213.N.1 (relay on the machine) -> API server on loopback

Cut, the namespace drops what it would send to the machine: nobody is told, connections stay open and silent.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localfleet.controlplane.plane import ControlPlane
from localfleet.controlplane.process import Component
from localfleet.embedded import kubeconfig
from tests.controlplane import realnode_relay
from tests.controlplane.realnode_host import Cable, run

_SERVER_NAME = "kubernetes"  # the API server's certificate has it; it does not have the namespace's address
_START_S = 20.0


def unavailable() -> str:
    """One line that says why no way can be cut here; empty when it can."""
    if missing := [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]:
        return f"no partitions: {', '.join(missing)} not installed"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no partitions: {tried.stderr.strip()}" if tried.returncode else ""


class Way:
    """From one agent to the API server of its plane."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder, self._port = folder, plane.server.rpartition(":")[2]
        folder.mkdir(parents=True)
        holder = Component("namespace", ["unshare", "--net", "sleep", "infinity"], folder / "namespace.log")
        self._components = [holder]
        holder.start()
        self._namespace = f"/proc/{holder.pid}/ns/net"
        holder.wait_until(self._is_own, "in a namespace of its own", _START_S)
        self._cable = Cable.lay(self._namespace)
        relay = [sys.executable, "-S", str(realnode_relay.__file__)]
        self._begin("machine", [*relay, self._cable.machine, self._port])
        self._begin("inside", [*self._inside, *relay, self._cable.node, self._port, self._cable.machine])

    def kubeconfig(self, direct: Path) -> Path:
        """A copy of a kubeconfig file whose server is reached by this way."""
        config = kubeconfig.read(direct)
        for entry in config["clusters"]:
            server = f"https://{self._cable.node}:{self._port}"
            entry["cluster"] |= {"server": server, "tls-server-name": _SERVER_NAME}
        path = self._folder / direct.name
        kubeconfig.write(path, config)
        return path

    @contextmanager
    def cut(self) -> Iterator[None]:
        """For as long as the block takes."""
        run(*self._inside, "ip", "route", "add", "blackhole", self._cable.machine)
        try:
            yield
        finally:
            run(*self._inside, "ip", "route", "delete", "blackhole", self._cable.machine)

    def close(self) -> None:
        """End its processes, and with them the namespace."""
        for component in reversed(self._components):
            component.kill()
        self._cable.cut()

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", f"--net={self._namespace}"]

    def _is_own(self) -> bool:
        return os.stat(self._namespace).st_ino != os.stat("/proc/self/ns/net").st_ino

    def _begin(self, name: str, command: list[str]) -> None:
        component = Component(name, command, self._folder / f"{name}.log")
        self._components.append(component)
        component.start()
